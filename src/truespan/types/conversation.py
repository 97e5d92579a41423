"""Conversations: questions that follow up on earlier ones, and what is kept of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, to_builtins

from truespan.core.graphemes import shorten
from truespan.core.timestamp import format_time
from truespan.types.answer import Citation, Quote
from truespan.types.decision import AnswerMode, FollowUp, RewrittenBy
from truespan.types.support import Support

CONVERSATION_LIMIT: Final = 50
MAX_CONVERSATIONS: Final = 1000
"""The longest list of conversations that a request can get."""
MAX_TITLE_LENGTH: Final = 120
_ID = re.compile("[0-9a-f]{32}")


def is_conversation_id(text: object) -> bool:
    """Say whether a text is spelled like the id of a conversation or a turn."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


class ConversationRules(Struct, frozen=True):
    """Whether conversations are kept, for how long, and how much of them a model gets."""

    enabled: bool = True
    days: int = 90
    """Turns older than this are not shown, and deleted with the next turn that is stored."""
    turns: int = 200
    """The most turns of a conversation, for a reader at each position; the oldest are deleted
    first."""
    history_tokens: int = 1000
    """The most tokens of earlier turns in a prompt."""


class Turn(Struct, frozen=True):
    """One question of a conversation, and its answer.

    `standalone` is the question that was searched for. `document` and `sid` are the book and the
    position of a reader when it was asked. A damaged turn has its id and its time alone: what it
    said cannot be trusted.
    """

    id: str
    asked_at: float
    question: str = ""
    standalone: str = ""
    rewritten_by: RewrittenBy = RewrittenBy.NONE
    answer: str = ""
    mode: AnswerMode | None = None
    citations: tuple[Citation, ...] = ()
    quotes: tuple[Quote, ...] = ()
    support: Support | None = None
    """How far the passages support the answer; None where no model wrote it."""
    record: str | None = None
    """The id in the usage log; None if nothing was written there."""
    document: int | None = None
    sid: int | None = None
    damaged: bool = False

    @property
    def refused(self) -> bool:
        """Return whether the answer is a refusal: neither passages nor a model gave it."""
        return self.mode is AnswerMode.FALLBACK and self.support is None

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the time in ISO 8601."""
        return {**to_builtins(self), "asked_at": format_time(self.asked_at)}


class ConversationInfo(Struct, frozen=True):
    """A conversation as a list shows it. Only turns that the caller may see count.

    `title` is the first visible question. `book` is the number of the document that a reader's
    conversation is about.
    """

    id: str
    reader: str | None
    book: int | None
    title: str
    created_at: float
    updated_at: float
    turns: int
    damaged: bool = False
    """Whether something of it does not match its checksum; that is not shown."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with times in ISO 8601."""
        times = {name: format_time(getattr(self, name)) for name in ("created_at", "updated_at")}
        return {**to_builtins(self), **times}


class ConversationRecord(Struct, frozen=True):
    """A conversation as it is stored: whose it is, and what it is about."""

    id: str
    reader: str | None
    document: int | None
    token: str | None
    """The token that began it; None for the owner of the library."""
    created_at: float


class ReadTo(Struct, frozen=True):
    """What a reader has read of a book: the turns up to there are visible."""

    document: int
    revision: int
    sid: int


class Exchange(Struct, frozen=True):
    """An earlier turn as a model gets it: never evidence, so without the numbers of citations."""

    question: str
    answer: str


class Question(Struct, frozen=True):
    """A question as it was asked, and as it was searched for."""

    asked: str
    standalone: str
    follow_up: FollowUp | None = None
    """None outside a conversation."""
    history: tuple[Exchange, ...] = ()


class NewTurn(Struct, frozen=True):
    """A turn before it is stored, with what it rests on: documents whose passages it used, and the
    last earlier turn, by its id."""

    turn: Turn
    documents: frozenset[int]
    revision: int | None
    follows: str | None = None


def title_of(question: str) -> str:
    """Return a question as a title: one line, cut after a character."""
    return shorten(" ".join(question.split()), MAX_TITLE_LENGTH)


def to_markdown(info: ConversationInfo, turns: Sequence[Turn]) -> str:
    """Return the visible part of a conversation as Markdown."""
    parts = [f"# {info.title or 'Conversation'}"]
    for turn in turns:
        if turn.damaged:
            parts.append(f"## {format_time(turn.asked_at)}\n\n*This turn is damaged.*")
            continue
        question = " ".join(turn.question.split())
        lines = [f"## {question}", format_time(turn.asked_at), turn.answer]
        if turn.rewritten_by is not RewrittenBy.NONE:
            lines.insert(2, f"Searched for: {' '.join(turn.standalone.split())}")
        sources = [
            f"- [{cited.number}] {cited.title or cited.source}"
            + (f", {cited.chapter}" if cited.chapter and cited.chapter != cited.title else "")
            for cited in turn.citations
            if cited.document is not None
        ]
        lines += ["\n".join(sources)] if sources else []
        parts.append("\n\n".join(lines))
    return "\n\n".join(parts) + "\n"
