"""Chats with a model that Ollama serves, on this machine or another.

Owns: the request to Ollama and the lines of its reply.
Does not own: retries and the meaning of complaints; `chat_stream` has them for all.
Must hold: a reply is whole only with the line that says so, and no question is cut in silence.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
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
)
from truespan.providers.http import Bounds, StreamClient, StreamedReply, broken_off
from truespan.providers.ollama import to_pull
from truespan.types.answer import Message

PROVIDER = "ollama"
CONTEXT = 8192
"""Tokens that a model is made to read. Left alone, Ollama gives it less and cuts in silence."""


class _Said(msgspec.Struct):
    content: str


class _Line(msgspec.Struct):
    message: _Said | msgspec.UnsetType | None = msgspec.UNSET
    done: bool | msgspec.UnsetType = msgspec.UNSET
    done_reason: str | None = None
    error: Any = None


class OllamaChat:
    """Chats through Ollama, which is first asked when the first piece of a reply is wanted."""

    def __init__(
        self,
        address: str,
        model: str,
        *,
        clock: Clock,
        manner: ChatDialect | None = None,
        context: int = CONTEXT,
        bounds: Bounds | None = None,
    ) -> None:
        self._manner = manner or ChatDialect()
        self._client = StreamClient(
            address,
            label="Ollama",
            clock=clock,
            bounds=bounds or self._manner.bounds,
            start_advice="Start it with 'ollama serve', or set chat_ollama_base_url to where it "
            "runs.",
        )
        self._model = model
        self._clock = clock
        self._context = context

    @property
    def name(self) -> str:
        """Return provider and model."""
        return f"{PROVIDER}/{self._model}"

    def stream(self, messages: Sequence[Message]) -> Generator[str]:
        """Give the reply piece by piece as it comes; closing the generator ends the request.

        Raises:
            ProviderUnavailable: Ollama did not answer; trying again may help.
            ProviderRefused: it said no; TextTooLong if the messages are too much for the model.
            ProviderBadReply: the reply broke off, was cut short, or is none.
            ModelUnavailable: the model is not installed, or cannot chat.
        """
        deadline = self._clock.monotonic() + self._client.bounds.total_seconds
        yield from begun(lambda: self._pieces(messages, deadline), self._clock, deadline)

    def _pieces(self, messages: Sequence[Message], deadline: float) -> Generator[str]:
        reply = self._client.stream(
            "/api/chat",
            self._payload(messages),
            headers={"Accept": "application/x-ndjson"},
            deadline=deadline,
        )
        if not reply.succeeded:
            refuse(reply, self._missing())
        yield from measured(reply, self._said(reply), self._manner.most_characters)

    def _payload(self, messages: Sequence[Message]) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": spoken(messages),
            "stream": True,
            # Otherwise Ollama drops the oldest messages, or what was read first, and says nothing.
            "truncate": False,
            "shift": False,
            "options": {
                "temperature": self._manner.temperature,
                "num_predict": self._manner.max_tokens,
                "num_ctx": self._context,
            },
        }

    def _missing(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.who} has no model {self._model!r}.",
            advice=f"Get it with 'ollama pull {to_pull(self._model)}'.",
        )

    def _said(self, reply: StreamedReply) -> Iterator[str]:
        """Give what is said in each line, up to the one that says that it is the last.

        Raises:
            ProviderBadReply: there is no such line, or it says that the reply was cut.
        """
        if reply.content_type and "json" not in reply.content_type.lower():
            raise ProviderBadReply(f"{reply.who} answered with something that is not JSON.")
        for text in reply.incoming.lines():
            if not text.strip():
                continue
            line = self._line(reply.who, text)
            yield line.message.content if line.message else ""
            if line.done:
                return _check_end(reply.who, line.done_reason)
        raise broken_off(reply.who)

    def _line(self, who: str, text: bytes) -> _Line:
        line = understood(who, text, _Line)
        if line.error:
            refuse_within(who, line.error, self._missing())
        unsaid = line.message is msgspec.UNSET and line.done is not True
        if line.done is msgspec.UNSET or unsaid:
            raise ProviderBadReply(f"{who} answered with JSON that is broken or of another shape.")
        return line


def _check_end(who: str, reason: str | None) -> None:
    """Refuse an end that is none; older releases give no reason at all."""
    if reason == "length":
        raise cut_short(who)
    if reason not in (None, "", "stop"):
        raise ProviderBadReply(f"{who} ended its reply for a reason that makes it no answer.")
