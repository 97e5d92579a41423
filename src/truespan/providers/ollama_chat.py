"""Chats with a model that Ollama serves, on this machine or another.

Owns: the request to Ollama and the lines of its reply.
Does not own: retries and the errors for complaints; `chat` has them for all.
Must hold: a reply is complete only with the line that says so; no question is cut silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from truespan.errors import ModelUnavailable, ProviderBadReply
from truespan.protocols import Clock
from truespan.providers.chat import (
    ChatDialect,
    HttpChat,
    decode_line,
    refuse,
    refuse_within,
    to_json,
    truncated_error,
)
from truespan.providers.http import StreamClient, StreamedReply, incomplete_error
from truespan.providers.ollama import to_pull
from truespan.providers.outbound import Bounds
from truespan.types.answer import Message

CONTEXT = 8192
"""Context window in tokens. Ollama's own default is smaller, and it truncates silently."""


class _Content(msgspec.Struct):
    content: str


class _Line(msgspec.Struct):
    message: _Content | msgspec.UnsetType | None = msgspec.UNSET
    done: bool | msgspec.UnsetType = msgspec.UNSET
    done_reason: str | None = None
    error: Any = None


class OllamaChat(HttpChat):
    """Chats through Ollama."""

    provider = "ollama"

    def __init__(
        self,
        address: str,
        model: str,
        *,
        clock: Clock,
        dialect: ChatDialect | None = None,
        context: int = CONTEXT,
        bounds: Bounds | None = None,
    ) -> None:
        dialect = dialect or ChatDialect()
        client = StreamClient(
            address,
            label="Ollama",
            clock=clock,
            bounds=bounds or dialect.bounds,
            start_advice="Start it with 'ollama serve', or set chat_ollama_base_url to its URL.",
        )
        super().__init__(client, model, clock=clock, dialect=dialect)
        self._context = context

    def _send(self, messages: Sequence[Message], deadline: float) -> StreamedReply:
        payload = {
            "model": self._model,
            "messages": to_json(messages),
            "stream": True,
            # Otherwise Ollama silently drops the oldest messages, or the start of the context.
            "truncate": False,
            "shift": False,
            "options": {
                "temperature": self._dialect.temperature,
                "num_predict": self._dialect.max_tokens,
                "num_ctx": self._context,
            },
        }
        headers = {"Accept": "application/x-ndjson"}
        reply = self._client.stream("/api/chat", payload, headers=headers, deadline=deadline)
        if not reply.succeeded:
            refuse(reply, self._missing_model())
        return reply

    def _missing_model(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.server} has no model {self._model!r}.",
            advice=f"Get it with 'ollama pull {to_pull(self._model)}'.",
        )

    def _read(self, reply: StreamedReply) -> Iterator[str]:
        """Yield the text of each line, up to the line that is marked as the last.

        Raises:
            ProviderBadReply: there is no such line, or it says that the reply was truncated.
        """
        if reply.content_type and "json" not in reply.content_type.lower():
            raise ProviderBadReply(f"{reply.server} sent a reply that is not JSON.")
        for text in reply.lines:
            if not text.strip():
                continue
            line = self._line(reply.server, text)
            yield line.message.content if line.message else ""
            if line.done:
                return _check_end(reply.server, line.done_reason)
        raise incomplete_error(reply.server)

    def _line(self, server: str, text: bytes) -> _Line:
        line = decode_line(server, text, _Line)
        if line.error:
            refuse_within(server, line.error, self._missing_model())
        no_text = line.message is msgspec.UNSET and line.done is not True
        if line.done is msgspec.UNSET or no_text:
            raise ProviderBadReply(f"{server} sent invalid or unexpected JSON.")
        return line


def _check_end(server: str, reason: str | None) -> None:
    """Refuse a reply that ended for another reason than its end; older releases give no reason."""
    if reason == "length":
        raise truncated_error(server)
    if reason not in (None, "", "stop"):
        raise ProviderBadReply(f"{server} ended its reply for an unexpected reason.")
