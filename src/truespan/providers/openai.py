"""An embedder and a chat model of servers with OpenAI's protocol.

Must hold: a vector belongs to the text with its index, a chat reply is complete only with a finish
reason and the end mark, and a key goes into one header only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from truespan.errors import ProfileMismatch, ProviderBadReply
from truespan.protocols import Clock, TokenCounter
from truespan.providers.chat import ChatDialect, HttpChat, Messages, ReplyEvent
from truespan.providers.context import ModelContext
from truespan.providers.embedder import PROBE, EmbedderOptions, HttpEmbedder, LearntModel
from truespan.providers.http import Reply, StreamedReply
from truespan.providers.keys import KeyRing
from truespan.providers.outbound import Bounds
from truespan.providers.prefixes import prefixes_for
from truespan.types.profile import EmbeddingProfile
from truespan.types.token import Secret
from truespan.types.vectors import Vector, unit_vector

INPUT_LIMITS = {
    "text-embedding-3-small": 8191,
    "text-embedding-3-large": 8191,
    "text-embedding-ada-002": 8191,
}
"""Maximum number of tokens of a text. OpenAI's own server refuses longer texts."""
_MIN_CONTEXT = 512
"""Assumed limit of other models, including special tokens."""
_SPECIAL_TOKENS = 2
_ITEMS = 32
"""Texts per request to an unknown server, which may run on a small machine."""
_ITEMS_AT_OPENAI = 256
"""Texts per request to OpenAI itself. It accepts more, but the replies become large."""
_BYTES_PER_TEXT = 100_000
"""Room in a reply for each text: 4096 numbers as decimal text."""


class _Entry(msgspec.Struct):
    index: int
    embedding: list[float | None] | None


class _Embedded(msgspec.Struct):
    data: list[_Entry]
    model: str = ""


def make_embedder(context: ModelContext) -> OpenAiEmbedder:
    options = context.settings.openai
    return OpenAiEmbedder(
        context.http_options("openai"),
        keys=context.key_ring("openai", keyless=options.keyless),
        counter=context.counter,
        input_limit=options.input_limit or None,
    )


# Shared by threads: the model is learnt under a lock, which is held during those requests.
class OpenAiEmbedder(HttpEmbedder):
    """An embedder of a server. `input_limit` is for models that read more than 512 tokens.

    The revision of the profile is the name under which the server reports the model. A change of
    the model under the same name is detected by the probes that a world stores.
    """

    provider = "openai"
    label = "The embedding server"
    start_advice = "Check that it runs, and that openai_base_url is its URL."
    missing_advice = "Set openai_model to one that it serves for embeddings."

    def __init__(
        self,
        options: EmbedderOptions,
        *,
        keys: KeyRing,
        counter: TokenCounter,
        items: int | None = None,
        input_limit: int | None = None,
    ) -> None:
        items = items or (_ITEMS_AT_OPENAI if options.model in INPUT_LIMITS else _ITEMS)
        body_bytes = max(Bounds().body_bytes, items * _BYTES_PER_TEXT)
        super().__init__(options, items=items, bounds=Bounds(body_bytes=body_bytes))
        self._keys = keys
        self._counter = counter
        self._input_limit = input_limit

    def count_query(self, text: str) -> int:
        """Return the number of tokens of a query by the local counter."""
        # The protocol has no request for it. A server that does not truncate silently refuses what
        # is still too long.
        return self._counter.count(self._known().prefixes.query + text)

    def _embed(self, known: LearntModel, texts: list[str], *, query: bool = False) -> list[Vector]:
        del query
        found, reported = self._request(texts)
        if reported != known.profile.revision:
            raise ProfileMismatch(str(known.profile), f"openai/{self._model}, another build")
        return found

    def _request(self, texts: list[str]) -> tuple[list[Vector], str]:
        payload: dict[str, Any] = {"model": self._model, "input": texts}
        payload["encoding_format"] = "float"
        if self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        reply = self._keys.send(self._model, lambda key: self._post(payload, key))
        content = self._read(reply, _Embedded)
        self._require_count(len(content.data), len(texts))
        by_index = {entry.index: entry.embedding for entry in content.data}
        if by_index.keys() != set(range(len(texts))):
            raise ProviderBadReply(
                f"{self._client.server} returned vectors that belong to no text."
            )
        return [unit_vector(by_index[index]) for index in range(len(texts))], content.model

    def _post(self, payload: dict[str, Any], key: Secret | None) -> Reply:
        headers = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
        reply = self._client.post("/embeddings", payload, headers=headers)
        if reply.status == 429 and (refusal := reply.size_refusal()) is not None:
            # More than a minute's quota in one request: neither a pause nor another key helps.
            raise refusal
        return reply

    def _is_configured_for(self, profile: EmbeddingProfile) -> bool:
        return super()._is_configured_for(profile) and profile.input_limit == self._text_limit()

    def _text_limit(self) -> int:
        limit = self._input_limit or INPUT_LIMITS.get(self._model)
        limit = limit or _MIN_CONTEXT - _SPECIAL_TOKENS
        return max(limit - self._counter.count(prefixes_for(self._model).document), 1)

    def _learn(self) -> LearntModel:
        prefixes = prefixes_for(self._model)
        [vector], reported = self._request([PROBE])
        profile = self._profile(
            self._dimensions_of(vector),
            revision=reported,
            modes=prefixes.modes,
            input_limit=self._text_limit(),
        )
        return LearntModel(profile, prefixes)


_END = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NO_TEMPERATURE = r"(?s)\btemperature\b.{0,80}\bsupport|unsupported.{0,80}\btemperature\b"


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None
    index: int = 0
    finish_reason: str | None = None


class _Event(ReplyEvent):
    choices: list[_Choice] | msgspec.UnsetType | None = msgspec.UNSET


class _Parameters(NamedTuple):
    """Parameters that a model accepts. Newer models refuse some that older ones require."""

    limit: str = "max_tokens"
    temperature: bool = True


# Shared by threads: the parameters are one frozen value, replaced as a whole; a thread that
# overwrites a newer one causes one more refusal.
class OpenAiChat(HttpChat):
    """A chat model of a server with OpenAI's protocol."""

    provider = "openai"
    label = "The chat server"
    start_advice = "Check that it runs, and that chat_openai_base_url is its URL."

    def __init__(
        self,
        address: str,
        model: str,
        *,
        keys: KeyRing,
        clock: Clock,
        dialect: ChatDialect | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        super().__init__(address, model, clock=clock, dialect=dialect, bounds=bounds)
        self._keys = keys
        self._parameters = _Parameters()

    def _send(self, messages: Messages, deadline: float) -> StreamedReply:
        while True:
            parameters = self._parameters
            payload = {
                "model": self._model,
                "messages": messages,
                "stream": True,
                parameters.limit: self._dialect.max_tokens,
            }
            if parameters.temperature:
                payload["temperature"] = self._dialect.temperature
            reply = self._keys.send(self._model, partial(self._post, payload, deadline))
            if reply.succeeded:
                return reply
            self._parameters = _accepted_parameters(parameters, reply)
            if self._parameters == parameters:
                self._refuse(reply)

    def _post(self, payload: dict[str, Any], deadline: float, key: Secret | None) -> StreamedReply:
        headers = {"Accept": "text/event-stream"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key.reveal()}"
        path = "/chat/completions"
        reply = self._client.stream(path, payload, headers=headers, deadline=deadline)
        if reply.status == 429 and reply.size_refusal() is not None:
            # More than a minute's quota in one request: neither a pause nor another key helps.
            self._refuse(reply)
        return reply

    def _missing_advice(self) -> str:
        return "Set chat_model to one that it serves for chat."

    def _read(self, reply: StreamedReply) -> Iterator[str]:
        """Yield the text of each event, up to the end mark, which must follow a finish reason."""
        if reply.content_type and "event-stream" not in reply.content_type.lower():
            raise self._bad_reply("sent a reply that is not an event stream")
        ended = False
        for data in _events(reply.lines):
            if data == _END:
                if ended:
                    return
                break
            event = self._decode(data, _Event)
            if event.choices is msgspec.UNSET:
                raise self._bad_reply("sent invalid or unexpected JSON")
            for choice in event.choices or ():
                if choice.index != 0:
                    continue
                delta = choice.delta or _Delta()
                if delta.refusal:
                    raise self._filtered()
                yield delta.content or ""
                if choice.finish_reason:
                    self._check_end(choice.finish_reason)
                    ended = True
        raise self._incomplete()


def _accepted_parameters(parameters: _Parameters, reply: StreamedReply) -> _Parameters:
    if reply.status not in (400, 422):
        return parameters
    if "max_completion_tokens" in reply.words and parameters.limit == "max_tokens":
        return parameters._replace(limit="max_completion_tokens")
    if parameters.temperature and reply.says(_NO_TEMPERATURE):
        return parameters._replace(temperature=False)
    return parameters


def _events(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each event; comments, names and ids of events are skipped."""
    # The end mark counts without the blank line after it: some servers keep the connection open and
    # send nothing more.
    data: list[bytes] = []
    for number, line in enumerate(lines):
        if number == 0:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        if data and (not line or data == [_END]):
            yield b"\n".join(data)
            data = []
