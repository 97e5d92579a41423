"""What the chat models of all providers share: how a reply is begun, read on and refused.

Owns: trying again before the first piece, how much one may say, and what complaints mean.
Does not own: the requests and the lines of a protocol; each provider's adapter has those.
Must hold: once a piece was given out nothing is asked again, and no error holds what was said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import msgspec

from truespan.errors import (
    ModelUnavailable,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    ServiceError,
    TextTooLong,
)
from truespan.ingest.embed import call_with_retries
from truespan.protocols import Clock
from truespan.providers.http import (
    PASSING,
    Bounds,
    Reply,
    StreamedReply,
    names_no_model,
    sendable,
    size_refusal,
    words_of,
)
from truespan.types.answer import Message

Kind = TypeVar("Kind")

RETRY_SECONDS = 20.0
"""No pause before trying again ends later than this after the question: somebody waits."""
_PIECE_SECONDS = 60.0
_BODY_BYTES = 32 << 20
_LEAST_CHARACTERS = 1 << 16
_CHARACTERS_PER_TOKEN = 32
"""More than a token ever stands for, but for runs of blanks."""
_WITHHELD = re.compile(
    r"content[_ ](?:filter|policy|management)|safety|responsible ?ai|moderation", re.IGNORECASE
)
_CANNOT_CHAT = re.compile(r"does not support chat|not a chat model", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """How a chat model is asked to reply, and how long it may take."""

    max_tokens: int = 1024
    temperature: float = 0.0
    seconds: float = 120.0

    @property
    def bounds(self) -> Bounds:
        """Return the bounds of one reply. Before its first piece a model may have to be loaded."""
        return Bounds(
            read_seconds=self.seconds,
            total_seconds=self.seconds,
            body_bytes=_BODY_BYTES,
            piece_seconds=min(_PIECE_SECONDS, self.seconds),
        )

    @property
    def most_characters(self) -> int:
        """Return how much text is taken of one who was told how many tokens to write."""
        return max(_LEAST_CHARACTERS, self.max_tokens * _CHARACTERS_PER_TOKEN)


def spoken(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return messages as both protocols have them."""
    return [{"role": message.role.value, "content": sendable(message.text)} for message in messages]


def begun(begin: Callable[[], Generator[str]], clock: Clock, deadline: float) -> Generator[str]:
    """Give the pieces of a reply; until the first one came, it is asked for again."""
    until = min(clock.monotonic() + RETRY_SECONDS, deadline)
    first, pieces = call_with_retries(lambda: _first_of(begin()), clock, spread=0, until=until)
    with closing(pieces):
        if first is not None:
            yield first
            yield from pieces


def _first_of(pieces: Generator[str]) -> tuple[str | None, Generator[str]]:
    return next(pieces, None), pieces


def measured(reply: StreamedReply, pieces: Iterator[str], most: int) -> Generator[str]:
    """Give the pieces that are not empty, as long as they are not too much; then close the reply.

    Raises:
        ProviderBadReply: more was said than was asked for.
    """
    with closing(reply):
        for piece in pieces:
            if not piece:
                continue
            reply.incoming.begin()
            most -= len(piece)
            if most < 0:
                raise ProviderBadReply(f"{reply.who} said more in one reply than is taken.")
            yield piece


def understood(who: str, line: bytes, kind: type[Kind]) -> Kind:
    """Return what one line of a reply says.

    Raises:
        ProviderBadReply: it is not JSON, or JSON of another shape.
    """
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ProviderBadReply(
            f"{who} answered with JSON that is broken or of another shape."
        ) from None


def cut_short(who: str) -> ProviderBadReply:
    """Return the error for a reply that reached its limit before its end."""
    return ProviderBadReply(
        f"{who} reached the limit of tokens before the end of its reply.",
        advice="Raise chat_max_tokens, or choose a model that says less.",
    )


def withheld(who: str) -> ProviderRefused:
    """Return the error for a reply that its maker's filter keeps back."""
    return ProviderRefused(
        f"{who} would not answer: the model or a filter of its maker refused.",
        advice="Ask in other words, or choose another model.",
    )


def refuse(reply: Reply, missing: ModelUnavailable) -> NoReturn:
    """Raise what a reply without success means; its words are looked at and not passed on."""
    if (known := _known(reply, missing)) is not None:
        raise known
    raise reply.failure()


def refuse_within(who: str, error: Any, missing: ModelUnavailable) -> NoReturn:
    """Raise what an error means that came as a part of a reply which had been a success."""
    code = error.get("code") if isinstance(error, dict) else None
    status = code if type(code) is int and 400 <= code < 600 else 500
    complaint = Reply(who, status, msgspec.json.encode(error), "application/json", None)
    if (known := _known(complaint, missing)) is not None:
        raise known
    if status in PASSING or status >= 500:
        raise ProviderUnavailable(f"{who} failed while it answered.")
    raise ProviderRefused(f"{who} refused the request while it answered.")


def _known(reply: Reply, missing: ModelUnavailable) -> ServiceError | ModelUnavailable | None:
    """Return the error for a complaint whose words tell more than its status."""
    words = words_of(reply)
    if reply.status in (400, 404, 500) and names_no_model(reply):
        return missing
    if _CANNOT_CHAT.search(words):
        return ModelUnavailable(f"The model cannot chat ({reply.who}).", advice="Set another one.")
    refusal = size_refusal(reply)
    if isinstance(refusal, TextTooLong):
        return TextTooLong(
            f"The question with its context is longer than the model reads ({reply.who}).",
            advice="Ask for less context, or choose a model that reads more.",
        )
    if refusal is not None:
        return refusal
    return withheld(reply.who) if reply.status == 400 and _WITHHELD.search(words) else None
