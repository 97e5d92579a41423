"""Reading positions, given by sentence, by chapter or by the passage read last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from truespan.errors import (
    DocumentNotFound,
    InvalidSettings,
    PassageAmbiguous,
    PassageNotFound,
    StoreDamaged,
)
from truespan.types.document import Document, OutlineEntry, RevisionRef
from truespan.types.reading import NOTHING_READ, Position
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.store import Store

_END_OF_TEXT = 2**62
"""An offset beyond any text."""
_SAME_CHARACTERS = ('"“”„‟«»″', "'‘’‚‛′`", "-‐‑‒–—―−")
_PATTERNS = {char: f"[{re.escape(group)}]" for group in _SAME_CHARACTERS for char in group}
_PATTERNS["…"] = r"(?:…|\.\.\.)"


def find_passage(passage: str, text: str, *, stop: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield where `passage` occurs in `text[:stop]`, in order; occurrences may overlap.

    Any run of white space matches any other, and so do the usual forms of quotes and dashes.
    """
    words = passage.replace("...", "…").split()
    if not words:
        return
    pattern = re.compile(
        r"\s+".join("".join(_PATTERNS.get(c) or re.escape(c) for c in word) for word in words)
    )
    start, end = 0, len(text) if stop is None else stop
    while found := pattern.search(text, start, end):
        yield found.span()
        # From the next character on: occurrences may overlap.
        start = found.start() + 1


@dataclass(frozen=True, slots=True)
class ReadingPosition:
    """How far a reader has come in a book. It contains no totals and nothing from ahead."""

    document: int
    doc_id: str
    title: str
    source: str
    sid: int
    chapter: str | None
    chapters_reached: tuple[str, ...]
    last_sentence: str | None
    current: bool


def resolve(
    store: Store,
    scope: Scope,
    document: Document,
    *,
    sid: int | None,
    through_chapter: str | None,
    passage: str | None,
) -> int:
    """Return the last sentence read, given in exactly one of three ways.

    Raises:
        InvalidSettings: not exactly one is given, or the sentence does not exist.
        PassageNotFound, PassageAmbiguous: the passage occurs nowhere, or more than once.
    """
    given = [value for value in (sid, through_chapter, passage) if value is not None]
    if len(given) != 1:
        raise InvalidSettings(
            "Give the position as a sentence, a chapter or a passage: exactly one of them."
        )
    if document.active is None:
        raise DocumentNotFound(document.doc_id)
    if passage is not None:
        return _by_passage(store, scope, document, passage)
    if through_chapter is not None:
        return _by_chapter(store, scope, document, through_chapter)
    if isinstance(sid, bool) or not isinstance(sid, int):
        raise InvalidSettings("The sentence must be a whole number.")
    last = _last_sentence(store, scope, document)
    if not NOTHING_READ <= sid <= last:
        raise InvalidSettings(f"The document has sentences 0 to {last}.")
    return sid


def _last_sentence(store: Store, scope: Scope, document: Document) -> int:
    """Return the last sentence of the active revision; a newer one may be staged."""
    return store.sentence_at(
        scope, RevisionRef(document.number, document.active or 0), _END_OF_TEXT
    )


def _by_passage(store: Store, scope: Scope, document: Document, passage: str) -> int:
    text = store.canonical_text(scope, document.number)
    found = list(find_passage(passage, text))
    if not found:
        raise PassageNotFound
    if len(found) > 1:
        raise PassageAmbiguous(len(found))
    start, end = found[0]
    return store.sentences_across(scope, document.number, start, end)[1]


def _by_chapter(store: Store, scope: Scope, document: Document, chapter: str) -> int:
    """Return the last sentence of a chapter, given by its name or its number."""
    starts = _chapter_starts(store.outline(scope, document.number))
    wanted = chapter.strip().casefold()
    if not wanted:
        raise InvalidSettings("Name a chapter, or give its number.")
    names = [name.casefold() for name, _ in starts]
    if wanted in names:
        place = names.index(wanted)
    elif wanted.isdecimal() and 1 <= int(wanted) <= len(names) - (skipped := _title_lines(starts)):
        place = int(wanted) - 1 + skipped
    else:
        matching = [place for place, name in enumerate(names) if name.startswith(wanted)]
        if len(matching) != 1:
            raise InvalidSettings(
                f"There is no chapter {chapter!r}.", advice="'truespan show DOCUMENT' lists them."
            )
        place = matching[0]
    if place + 1 < len(starts):
        return starts[place + 1][1] - 1
    return _last_sentence(store, scope, document)


def _title_lines(starts: list[tuple[str, int]]) -> int:
    """Return 1 if the first entry is only a title line, which does not count as a chapter."""
    return int(len(starts) > 1 and starts[1][1] - starts[0][1] <= 1)


def _chapter_starts(outline: list[OutlineEntry]) -> list[tuple[str, int]]:
    """Return each chapter with its first sentence."""
    starts: list[tuple[str, int]] = []
    for entry in outline:
        if entry.chapter and (not starts or starts[-1][0] != entry.chapter):
            starts.append((entry.chapter, entry.first_sid))
    return starts


def describe_position(store: Store, scope: Scope, position: Position) -> ReadingPosition:
    """Describe a position by what was read: the chapters reached and the last sentence."""
    ref = RevisionRef(position.document, position.revision)
    last = store.sentences(scope, ref, position.sid, position.sid)
    reached: list[str] = []
    sentence = None
    if last:
        entries = store.places_until(scope, ref, last[0].end)
        reached = [name for name, _ in _chapter_starts(entries)]
        sentence = store.text_between(scope, ref, last[0].start, last[0].end)
        if sha256(sentence.encode()).digest() != last[0].digest:
            raise StoreDamaged("A sentence of the book does not match its hash.")
    return ReadingPosition(
        document=position.document,
        doc_id=position.doc_id,
        title=position.title,
        source=position.name,
        sid=position.sid,
        chapter=reached[-1] if reached else None,
        chapters_reached=tuple(reached),
        last_sentence=sentence,
        current=position.current,
    )
