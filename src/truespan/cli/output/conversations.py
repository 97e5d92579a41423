"""Conversations as text for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from truespan.cli.output.ask import cite, show_account, show_support
from truespan.cli.output.documents import show_erasure
from truespan.cli.output.plain import pluralize, table
from truespan.core.graphemes import shorten
from truespan.maintenance.delete import Receipt
from truespan.types.answer import Answer
from truespan.types.bundle import WhyNot
from truespan.types.conversation import ConversationInfo, Turn
from truespan.types.decision import AnswerMode, RewrittenBy
from truespan.types.text import name_place

_TITLE_SHOWN = 60
_BEGINNING_SHOWN = 160


def show_answer_in_conversation(answer: Answer) -> str:
    """Show the account of an answer, and the query if it was rewritten."""
    lines = show_account(answer, record=False).split("\n")
    note = answer.conversation
    if note is not None and note.rewritten_by is not RewrittenBy.NONE:
        lines += [f"Searched for: {note.standalone}"]
    return "\n".join(lines)


def show_found(answer: Answer | None) -> str:
    """Show the passages of the last answer, and the number of others that were found."""
    if answer is None:
        return "Nothing was asked yet."
    notes = answer.retrieved_chunks_metadata
    used = [note for note in notes if note.verdict is WhyNot.RETURNED]
    lines: list[str] = []
    for note in used:
        place = name_place((note.source, note.chapter, note.section), note.location)
        lines.append(f"{note.similarity:.3f}  {place}")
        lines.append(f"       {shorten(' '.join(note.text.split()), _BEGINNING_SHOWN, '…')}")
    found = pluralize(len(notes), "passage")
    return "\n".join([*lines, f"{found} found, {len(used)} used for the answer."])


def show_turns(turns: Sequence[Turn]) -> str:
    """Show the questions and answers of a conversation."""
    shown = [_show_turn(number, turn) for number, turn in enumerate(turns, 1)]
    return "\n\n".join(shown) or "No turns yet."


def _show_turn(number: int, turn: Turn) -> str:
    if turn.damaged:
        return f"{number}. ✗ This turn is damaged, so nothing of it is shown."
    lines = [f"{number}. {' '.join(turn.question.split())}", turn.answer]
    if turn.rewritten_by is not RewrittenBy.NONE:
        lines.insert(1, f"(searched for: {' '.join(turn.standalone.split())})")
    if turn.citations:
        lines += ["", "Sources:", *(f"  {cite(citation)}" for citation in turn.citations)]
    has_sources = turn.mode is not AnswerMode.FALLBACK
    lines += show_support(turn.answer, turn.support, has_sources=has_sources)
    return "\n".join(lines)


def show_with_turns(info: ConversationInfo, turns: Sequence[Turn]) -> str:
    """Show a conversation with its turns."""
    reader = f", reader {info.reader}" if info.reader is not None else ""
    head = (
        f"{info.title}\n{info.id}{reader}, {pluralize(info.turns, 'turn')}, begun "
        f"{_time(info.created_at)} UTC"
    )
    return f"{head}\n\n{show_turns(turns)}"


def show_conversations(found: Sequence[ConversationInfo], reader: str | None) -> str:
    """Show conversations of the world, or of a reader, as a table."""
    if not found:
        own = "" if reader is None else f" --reader {shlex.quote(reader)}"
        return f"No conversations yet. 'truespan chat{own}' begins one."
    rows: list[tuple[object, ...]] = [("conversation", "last question (UTC)", "turns", "title")]
    for info in found:
        title = shorten(" ".join(info.title.split()), _TITLE_SHOWN, "…")
        if info.damaged:
            title = "✗ damaged"
        rows.append((info.id, _time(info.updated_at), info.turns, title))
    return "\n".join(table(rows))


def show_deleted(receipt: Receipt) -> str:
    """Show the result of deleting conversations, and data left to erase."""
    rows = receipt.rows
    conversations = pluralize(rows.get("conversations", 0), "conversation")
    turns = pluralize(rows.get("turns", 0), "turn")
    return "\n".join([f"Deleted {conversations} with {turns}.", *show_erasure(receipt)])


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
