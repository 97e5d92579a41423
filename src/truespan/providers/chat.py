"""The base of chat models: retries, limits and the errors for complaints of providers.

Must hold: after the first piece nothing is requested again, and no error quotes a reply.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from truespan import errors
from truespan.core.decoding import prepare
from truespan.ingest.embed import call_with_retries
from truespan.protocols import Clock
from truespan.providers.http import PASSING, JsonClient, Reply, StreamedReply, sendable
from truespan.providers.outbound import Bounds
from truespan.types.answer import Message


class ReplyEvent(msgspec.Struct):
    """One event of a reply, which may report an error."""

    error: Any = None


Event = TypeVar("Event", bound=ReplyEvent)
Messages: TypeAlias = list[dict[str, str]]

RETRY_SECONDS = 20.0
"""Seconds after a question in which retries may start: a person waits for the answer."""
_PIECE_SECONDS = 60.0
_MIN_CHARACTERS = 1 << 16
_CHARACTERS_PER_TOKEN = 32
"""Maximum number of characters that a token stands for, except for runs of blanks."""
_COMPLETE = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn"})
_TRUNCATED = frozenset({"length", "max_tokens", "model_length"})
_FILTERED = frozenset({"content_filter", "safety", "refusal"})
_WITHHELD = r"content[_ ](?:filter|policy|management)|safety|responsible ?ai|moderation"
_CANNOT_CHAT = r"does not support chat|not a chat model"


class ChatDialect(Struct, frozen=True):
    """Length, temperature and time limit of the replies of a chat model."""

    max_tokens: int = 1024
    temperature: float = 0.0
    seconds: float = 120.0
    context: int = 8192
    """Ollama's context window in tokens. Its own default is smaller, and it truncates silently."""


class HttpChat(ABC):
    """A chat model of a provider; it connects when the first piece of a reply is needed."""

    provider: ClassVar[str]
    label: ClassVar[str]
    start_advice: ClassVar[str]
    context_advice: ClassVar[str] = "Ask for less context, or choose a model with a larger context."

    def __init__(
        self,
        address: str,
        model: str,
        *,
        clock: Clock,
        dialect: ChatDialect | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.name = f"{self.provider}/{model}"
        self._dialect = dialect or ChatDialect()
        # Before the first piece of a reply a model may have to be loaded.
        seconds = self._dialect.seconds
        usual = Bounds(
            read_seconds=seconds, total_seconds=seconds, piece_seconds=min(_PIECE_SECONDS, seconds)
        )
        self._client = JsonClient(
            address,
            label=self.label,
            clock=clock,
            bounds=bounds or usual,
            start_advice=self.start_advice,
            timeout_advice="Raise chat_timeout_seconds, or choose a faster model.",
        )
        self._model = model
        self._clock = clock

    def stream(self, messages: Sequence[Message]) -> Generator[str]:
        """Yield the reply piece by piece as it arrives; closing the generator ends the request."""
        # The request is repeated only until the first piece has arrived.
        sent = [
            {"role": message.role.value, "content": sendable(message.text)} for message in messages
        ]
        deadline = self._clock.monotonic() + self._client.bounds.total_seconds
        until = min(self._clock.monotonic() + RETRY_SECONDS, deadline)

        def start() -> tuple[str | None, Generator[str]]:
            pieces = self._pieces(sent, deadline)
            return next(pieces, None), pieces

        first, pieces = call_with_retries(start, self._clock, spread=0, until=until)
        with closing(pieces):
            if first is not None:
                yield first
                yield from pieces

    def _pieces(self, messages: Messages, deadline: float) -> Generator[str]:
        left = max(_MIN_CHARACTERS, self._dialect.max_tokens * _CHARACTERS_PER_TOKEN)
        with closing(self._send(messages, deadline)) as reply:
            for piece in self._read(reply):
                if not piece:
                    continue
                reply.connection.begun = True
                left -= len(piece)
                if left < 0:
                    raise self._bad_reply("sent a reply that is too long")
                yield piece

    @abstractmethod
    def _send(self, messages: Messages, deadline: float) -> StreamedReply:
        """Send the request; return a successful reply after reading only its head."""

    @abstractmethod
    def _read(self, reply: StreamedReply) -> Iterator[str]:
        """Yield the texts of a reply; raise unless it ends as the protocol requires."""

    @abstractmethod
    def _missing_advice(self) -> str: ...

    def _refuse(self, reply: Reply) -> NoReturn:
        """Raise the error for a failed reply; its text is examined but never quoted."""
        raise self._known_failure(reply) or reply.failure()

    def _decode(self, line: bytes, kind: type[Event]) -> Event:
        server = self._client.server
        try:
            event = msgspec.json.decode(line, type=prepare(kind))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise self._bad_reply("sent invalid or unexpected JSON") from None
        if not event.error:
            return event
        code = event.error.get("code") if isinstance(event.error, dict) else None
        status = code if type(code) is int and 400 <= code < 600 else 500
        complaint = msgspec.json.encode(event.error)
        known = self._known_failure(Reply(server, status, complaint, "application/json", None))
        if known is not None:
            raise known
        if status in PASSING or status >= 500:
            raise errors.ProviderUnavailable(f"{server} failed during its reply.")
        raise errors.ProviderRefused(f"{server} refused the request during its reply.")

    def _known_failure(self, reply: Reply) -> errors.ServiceError | errors.ModelUnavailable | None:
        if reply.status in (400, 404, 500) and reply.names_no_model:
            return errors.ModelUnavailable(
                f"{reply.server} has no model {self._model!r}.", advice=self._missing_advice()
            )
        if reply.says(_CANNOT_CHAT):
            return errors.ModelUnavailable(
                f"The model cannot chat ({reply.server}).", advice="Choose another model."
            )
        refusal = reply.size_refusal()
        if isinstance(refusal, errors.TextTooLong):
            return errors.TextTooLong(
                f"The question with its context is too long for the model ({reply.server}).",
                advice=self.context_advice,
            )
        if refusal is None and reply.status == 400 and reply.says(_WITHHELD):
            return self._filtered()
        return refusal

    def _bad_reply(self, problem: str, advice: str | None = None) -> errors.ProviderBadReply:
        return errors.ProviderBadReply(f"{self._client.server} {problem}.", advice=advice)

    def _incomplete(self) -> errors.ProviderBadReply:
        return self._bad_reply("broke off before the end of its reply", "The reply is incomplete.")

    def _check_end(self, reason: str) -> None:
        if reason in _FILTERED:
            raise self._filtered()
        if reason in _TRUNCATED:
            raise self._bad_reply(
                "reached the limit of tokens before the end of its reply",
                "Raise chat_max_tokens, or choose a model with shorter answers.",
            )
        if reason not in _COMPLETE:
            raise self._bad_reply("ended its reply for an unexpected reason")

    def _filtered(self) -> errors.ProviderRefused:
        return errors.ProviderRefused(
            f"{self._client.server} did not answer: the model or a content filter refused.",
            advice="Ask in other words, or choose another model.",
        )
