"""Conversations: turns with questions and answers, and their stored form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, to_builtins

from truespan.core.clock import format_time
from truespan.core.graphemes import shorten
from truespan.types.answer import Citation, Quote, Support
from truespan.types.decision import AnswerMode, FollowUp, RewrittenBy
from truespan.types.text import escape_label

CONVERSATION_LIMIT: Final = 50
MAX_CONVERSATIONS: Final = 1000
"""Maximum number of conversations in a list."""
MAX_TITLE_LENGTH: Final = 120
_ID = re.compile("[0-9a-f]{32}")


def is_conversation_id(text: object) -> bool:
    """Return whether a text has the form of the id of a conversation or turn."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


class ConversationRules(Struct, frozen=True):
    """Settings of conversations."""

    days: int = 90
    """Number of days after which turns are hidden; the next stored turn deletes them. With 0, there
    are no conversations."""
    turns: int = 200
    """Maximum number of turns of a conversation, for a reader at each position. The oldest are
    deleted first."""
    history_tokens: int = 1000
    """Maximum number of tokens of earlier turns in a prompt."""


class Turn(Struct, frozen=True):
    """A question of a conversation and its answer.

    `standalone` is the question that was searched for. `document` and `sid` are the book and the
    position of a reader at that time. A damaged turn has only its id and time, since the rest
    cannot be trusted.
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
    """Support of the answer by the passages; None if no model wrote it."""
    record: str | None = None
    """Id in the usage log; None if nothing was logged."""
    document: int | None = None
    sid: int | None = None
    damaged: bool = False

    @property
    def refused(self) -> bool:
        """Whether the answer is a refusal, from neither passages nor a model."""
        return self.mode is AnswerMode.FALLBACK and self.support is None

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the time in ISO 8601."""
        return {**to_builtins(self), "asked_at": format_time(self.asked_at)}


class ConversationInfo(Struct, frozen=True):
    """A conversation in a list, from the turns that the caller may see.

    `title` is the first visible question. `book` is the document number of a reader's conversation.
    """

    id: str
    reader: str | None
    book: int | None
    title: str
    created_at: float
    updated_at: float
    turns: int
    damaged: bool = False
    """Whether a part does not match its checksum; that part is not shown."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with times in ISO 8601."""
        times = {name: format_time(getattr(self, name)) for name in ("created_at", "updated_at")}
        return {**to_builtins(self), **times}


class ConversationRecord(Struct, frozen=True):
    """A stored conversation: its owner, reader and book."""

    id: str
    reader: str | None
    document: int | None
    token: str | None
    """Id of the token that started the conversation; None for the owner of the library."""
    created_at: float


class ReadTo(Struct, frozen=True):
    """Position of a reader in a book, up to which turns are visible."""

    document: int
    revision: int
    sid: int


class Exchange(Struct, frozen=True):
    """An earlier turn in a prompt, without citation numbers, since it is not evidence."""

    question: str
    answer: str


class Question(Struct, frozen=True):
    """A question as asked and as searched for."""

    asked: str
    standalone: str
    follow_up: FollowUp | None = None
    """Rewriting of the question; None outside a conversation."""
    history: tuple[Exchange, ...] = ()


class NewTurn(Struct, frozen=True):
    """A turn before it is stored, with the documents of its passages and the previous turn's id."""

    turn: Turn
    documents: frozenset[int]
    revision: int | None
    follows: str | None = None


def title_of(question: str) -> str:
    """Return a question as a title of one line, shortened if necessary."""
    return shorten(" ".join(question.split()), MAX_TITLE_LENGTH)


def to_markdown(info: ConversationInfo, turns: Sequence[Turn]) -> str:
    """Return the visible part of a conversation as Markdown."""
    parts = [f"# {escape_label(info.title or 'Conversation')}"]
    for turn in turns:
        if turn.damaged:
            parts.append(f"## {format_time(turn.asked_at)}\n\n*This turn is damaged.*")
            continue
        question = escape_label(turn.question)
        lines = [f"## {question}", format_time(turn.asked_at), turn.answer]
        if turn.rewritten_by is not RewrittenBy.NONE:
            lines.insert(2, f"Searched for: {' '.join(turn.standalone.split())}")
        sources = [
            f"- [{cited.number}] {escape_label(cited.title or cited.source or '')}"
            + (
                f", {escape_label(cited.chapter)}"
                if cited.chapter and cited.chapter != cited.title
                else ""
            )
            for cited in turn.citations
            if cited.document is not None
        ]
        lines += ["\n".join(sources)] if sources else []
        parts.append("\n\n".join(lines))
    return "\n\n".join(parts) + "\n"
