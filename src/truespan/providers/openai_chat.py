"""Chats through any server with OpenAI's `/v1/chat/completions`.

Owns: the request, the events of the reply, and which parameters a model accepts.
Does not own: retries and the errors for complaints; `chat` has them for all.
Must hold: a reply is complete only with a finish reason and the end mark; a key goes into one
header only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from truespan.errors import ModelUnavailable, ProviderBadReply
from truespan.protocols import Clock
from truespan.providers.chat import (
    ChatDialect,
    HttpChat,
    decode_line,
    filtered_error,
    refuse,
    refuse_within,
    to_json,
    truncated_error,
)
from truespan.providers.http import (
    StreamClient,
    StreamedReply,
    incomplete_error,
    size_refusal,
    words_of,
)
from truespan.providers.keys import KeyRing
from truespan.providers.outbound import Bounds
from truespan.types.answer import Message
from truespan.types.token import Secret

_END = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMPLETE = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn"})
_TRUNCATED = frozenset({"length", "max_tokens", "model_length"})
_FILTERED = frozenset({"content_filter", "safety", "refusal"})
_NO_TEMPERATURE = re.compile(
    r"\btemperature\b.{0,80}\bsupport|unsupported.{0,80}\btemperature\b", re.IGNORECASE | re.DOTALL
)


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None
    index: int = 0
    finish_reason: str | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] | msgspec.UnsetType | None = msgspec.UNSET
    error: Any = None


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Which parameters a model accepts. Newer models refuse those that older ones require."""

    limit: str = "max_tokens"
    temperature: bool = True


class OpenAiChat(HttpChat):
    """Chats through a server with OpenAI's protocol."""

    provider = "openai"

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
        dialect = dialect or ChatDialect()
        client = StreamClient(
            address,
            label="The chat server",
            clock=clock,
            bounds=bounds or dialect.bounds,
            start_advice="Check that it runs, and that chat_openai_base_url is its URL.",
        )
        super().__init__(client, model, clock=clock, dialect=dialect)
        self._keys = keys
        self._parameters = _Parameters()

    def _send(self, messages: Sequence[Message], deadline: float) -> StreamedReply:
        while True:
            payload = {
                "model": self._model,
                "messages": to_json(messages),
                "stream": True,
                self._parameters.limit: self._dialect.max_tokens,
            }
            if self._parameters.temperature:
                payload["temperature"] = self._dialect.temperature
            reply = self._keys.send(self._model, partial(self._post, payload, deadline))
            if reply.succeeded:
                return reply
            parameters = _accepted_parameters(self._parameters, reply)
            if parameters == self._parameters:
                refuse(reply, self._missing_model())
            self._parameters = parameters

    def _post(self, payload: dict[str, Any], deadline: float, key: Secret | None) -> StreamedReply:
        headers = {"Accept": "text/event-stream"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key.reveal()}"
        path = "/chat/completions"
        reply = self._client.stream(path, payload, headers=headers, deadline=deadline)
        if reply.status == 429 and size_refusal(reply) is not None:
            # More than a minute's quota in one request: neither a pause nor another key helps.
            refuse(reply, self._missing_model())
        return reply

    def _missing_model(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.server} has no model {self._model!r}.",
            advice="Set chat_model to one that it serves for chat.",
        )

    def _read(self, reply: StreamedReply) -> Iterator[str]:
        """Yield the text of each event, up to the end mark.

        Raises:
            ProviderBadReply: there is no end mark, or no finish reason before it.
        """
        if reply.content_type and "event-stream" not in reply.content_type.lower():
            raise ProviderBadReply(f"{reply.server} sent a reply that is not an event stream.")
        ended = False
        for event in _events(reply.lines):
            if event == _END:
                if ended:
                    return
                break
            for choice in self._choices(reply.server, event):
                yield _text(reply.server, choice)
                ended = ended or _ends(reply.server, choice.finish_reason)
        raise incomplete_error(reply.server)

    def _choices(self, server: str, line: bytes) -> list[_Choice]:
        """Return the parts of an event that belong to the first choice."""
        event = decode_line(server, line, _Event)
        if event.error:
            refuse_within(server, event.error, self._missing_model())
        if event.choices is msgspec.UNSET:
            raise ProviderBadReply(f"{server} sent invalid or unexpected JSON.")
        return [choice for choice in event.choices or () if choice.index == 0]


def _accepted_parameters(parameters: _Parameters, reply: StreamedReply) -> _Parameters:
    """Return the parameters that a complaint asks for; unchanged if it names none."""
    if reply.status not in (400, 422):
        return parameters
    words = words_of(reply)
    if "max_completion_tokens" in words and parameters.limit == "max_tokens":
        return replace(parameters, limit="max_completion_tokens")
    if parameters.temperature and _NO_TEMPERATURE.search(words):
        return replace(parameters, temperature=False)
    return parameters


def _text(server: str, choice: _Choice) -> str:
    delta = choice.delta or _Delta()
    if delta.refusal:
        raise filtered_error(server)
    return delta.content or ""


def _ends(server: str, reason: str | None) -> bool:
    """Return whether this finish reason completes a reply.

    Raises:
        ProviderRefused: a filter ended it.
        ProviderBadReply: it was truncated, or ended for an unexpected reason.
    """
    if not reason:
        return False
    if reason in _COMPLETE:
        return True
    if reason in _FILTERED:
        raise filtered_error(server)
    if reason in _TRUNCATED:
        raise truncated_error(server)
    raise ProviderBadReply(f"{server} ended its reply for an unexpected reason.")


def _events(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each event; comments, names and ids of events are skipped.

    The end mark counts without the blank line after it: some servers keep the connection open and
    send nothing more.
    """
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
