"""Chats through any server that speaks OpenAI's `/v1/chat/completions`.

Owns: the request, the events of the reply, and which parameters a model does not bear.
Does not own: retries and the meaning of complaints; `chat_stream` has them for all.
Must hold: a reply is whole only with a reason to end and the end mark, and a key goes into one
header only.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from truespan.errors import ModelUnavailable, ProviderBadReply
from truespan.protocols import Clock
from truespan.providers.chat import (
    ChatDialect,
    begun,
    cut_short,
    measured,
    refuse,
    refuse_within,
    spoken,
    understood,
    withheld,
)
from truespan.providers.http import (
    Bounds,
    StreamClient,
    StreamedReply,
    broken_off,
    size_refusal,
    words_of,
)
from truespan.providers.keys import KeyRing
from truespan.types.answer import Message
from truespan.types.token import Secret

PROVIDER = "openai"
_END = b"[DONE]"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHOLE = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn"})
_CUT = frozenset({"length", "max_tokens", "model_length"})
_KEPT_BACK = frozenset({"content_filter", "safety", "refusal"})
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
class _Bears:
    """Which parameters a model bears. Younger ones refuse what older ones know nothing else of."""

    limit: str = "max_tokens"
    temperature: bool = True


class OpenAiChat:
    """Chats through a server, which is first asked when the first piece of a reply is wanted."""

    def __init__(
        self,
        address: str,
        model: str,
        *,
        keys: KeyRing,
        clock: Clock,
        manner: ChatDialect | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._manner = manner or ChatDialect()
        self._client = StreamClient(
            address,
            label="The chat server",
            clock=clock,
            bounds=bounds or self._manner.bounds,
            start_advice="Check that it runs, and that chat_openai_base_url leads to it.",
        )
        self._model = model
        self._keys = keys
        self._clock = clock
        self._bears = _Bears()

    @property
    def name(self) -> str:
        """Return provider and model."""
        return f"{PROVIDER}/{self._model}"

    def stream(self, messages: Sequence[Message]) -> Generator[str]:
        """Give the reply piece by piece as it comes; closing the generator ends the request.

        Raises:
            ProviderUnavailable: the server did not answer; trying again may help.
            ProviderRefused: it said no; TextTooLong if the messages are too much for the model.
            ProviderBadReply: the reply broke off, was cut short, or is none.
            ModelUnavailable: the server has no such model.
            CredentialsMissing: no key may be used for it.
        """
        deadline = self._clock.monotonic() + self._client.bounds.total_seconds
        yield from begun(lambda: self._pieces(messages, deadline), self._clock, deadline)

    def _pieces(self, messages: Sequence[Message], deadline: float) -> Generator[str]:
        reply = self._ask(messages, deadline)
        yield from measured(reply, self._said(reply), self._manner.most_characters)

    def _ask(self, messages: Sequence[Message], deadline: float) -> StreamedReply:
        while True:
            post = partial(self._post, self._payload(messages), deadline)
            reply = self._keys.send(self._model, post)
            if reply.succeeded:
                return reply
            bears = _learnt(self._bears, reply)
            if bears == self._bears:
                refuse(reply, self._missing())
            self._bears = bears

    def _payload(self, messages: Sequence[Message]) -> dict[str, Any]:
        payload = {
            "model": self._model,
            "messages": spoken(messages),
            "stream": True,
            self._bears.limit: self._manner.max_tokens,
        }
        if self._bears.temperature:
            payload["temperature"] = self._manner.temperature
        return payload

    def _post(self, payload: dict[str, Any], deadline: float, key: Secret | None) -> StreamedReply:
        headers = {"Accept": "text/event-stream"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key.reveal()}"
        path = "/chat/completions"
        reply = self._client.stream(path, payload, headers=headers, deadline=deadline)
        if reply.status == 429 and size_refusal(reply) is not None:
            # More than a minute's allowance in one request: no wait and no other key would help.
            refuse(reply, self._missing())
        return reply

    def _missing(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.who} has no model {self._model!r}.",
            advice="Set chat_model to one that it serves for chat.",
        )

    # The reply

    def _said(self, reply: StreamedReply) -> Iterator[str]:
        """Give what is said in each event, up to the end mark.

        Raises:
            ProviderBadReply: there is no end mark, or no reason to end before it.
        """
        if reply.content_type and "event-stream" not in reply.content_type.lower():
            raise ProviderBadReply(f"{reply.who} answered with something that is no event stream.")
        ended = False
        for event in _events(reply.incoming.lines()):
            if event == _END:
                if ended:
                    return
                break
            for choice in self._choices(reply.who, event):
                yield _text(reply.who, choice)
                ended = ended or _ends(reply.who, choice.finish_reason)
        raise broken_off(reply.who)

    def _choices(self, who: str, line: bytes) -> list[_Choice]:
        """Return the parts of an event that belong to the one reply that was asked for."""
        event = understood(who, line, _Event)
        if event.error:
            refuse_within(who, event.error, self._missing())
        if event.choices is msgspec.UNSET:
            raise ProviderBadReply(f"{who} answered with JSON that is broken or of another shape.")
        return [choice for choice in event.choices or () if choice.index == 0]


def _learnt(bears: _Bears, reply: StreamedReply) -> _Bears:
    """Return what a model bears by its server's complaint; what it was, if that says nothing."""
    if reply.status not in (400, 422):
        return bears
    words = words_of(reply)
    if "max_completion_tokens" in words and bears.limit == "max_tokens":
        return replace(bears, limit="max_completion_tokens")
    if bears.temperature and _NO_TEMPERATURE.search(words):
        return replace(bears, temperature=False)
    return bears


def _text(who: str, choice: _Choice) -> str:
    delta = choice.delta or _Delta()
    if delta.refusal:
        raise withheld(who)
    return delta.content or ""


def _ends(who: str, reason: str | None) -> bool:
    """Say whether a reply is whole with this reason to end.

    Raises:
        ProviderRefused: a filter ended it.
        ProviderBadReply: it was cut, or ended for a reason that nobody asked for.
    """
    if not reason:
        return False
    if reason in _WHOLE:
        return True
    if reason in _KEPT_BACK:
        raise withheld(who)
    if reason in _CUT:
        raise cut_short(who)
    raise ProviderBadReply(f"{who} ended its reply for a reason that makes it no answer.")


def _events(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Give what each event holds; comments, names and numbers of events are passed over.

    The end mark counts without the blank line that should follow it: some servers keep the
    connection open and send no more.
    """
    held: list[bytes] = []
    for number, line in enumerate(lines):
        if number == 0:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        name, _, value = line.partition(b":")
        if name == b"data":
            held.append(value.removeprefix(b" "))
        if held and (not line or held == [_END]):
            yield b"\n".join(held)
            held = []
