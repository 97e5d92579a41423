"""The sentence of a passage that matches a query best, by words, and its place.

Marks, places of citations, excerpts and what a terminal prints show the same sentence, which
`choose_sentence` chooses by the passage and the query alone.

A passage may span several pages. Its sentences are compared with the query by its verified text;
the place of a sentence comes from its row, which has a checksum. For a reader, a passage ends at
the position at the latest.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Sequence

from msgspec.structs import replace

from truespan.errors import StoreDamaged
from truespan.retrieval.chunk_language import find_language_again
from truespan.retrieval.deps import RetrievalDeps
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId
from truespan.types.request import DEFAULT_LANGUAGE
from truespan.types.scope import Scope
from truespan.types.text import (
    NamedPlace,
    PageStart,
    PlacedSentence,
    SentencePlace,
    fold_name,
    fold_names,
    name_pages,
)
from truespan.types.trust import Visible
from truespan.words.searched import SearchedWords


def spoken_in(part: Visible) -> str:
    """Return the language of a passage: of its counted words, otherwise of its text."""
    return part.compared_language or find_language_again(
        part.text, part.language or DEFAULT_LANGUAGE
    )


def choose_sentence(
    words: SearchedWords, part: Visible, spans: Sequence[tuple[int, int]]
) -> int | None:
    """Return the number of the span of a passage that has most words of a query, or None.

    A heading, which has words of what follows it, is chosen only if there is nothing else.
    """
    texts = [
        number
        for number, (start, end) in enumerate(spans)
        if not is_heading(part.text[max(start, 0) : end], part.title, part.chapter, part.section)
    ]
    chosen = texts or [*range(len(spans))]
    best = words.find_best(part.text, spoken_in(part), [spans[number] for number in chosen])
    return None if best is None else chosen[best]


def is_heading(text: str, *names: str) -> bool:
    """Return whether a sentence is one of these names of its document, chapter and section."""
    return fold_name(" ".join(text.split())) in fold_names(names)


def locate_best(
    deps: RetrievalDeps,
    scope: Scope,
    words: SearchedWords,
    parts: Sequence[Visible],
    wanted: Iterable[int],
) -> list[Visible]:
    """Return passages with the place of the sentence that has most words of the query.

    `wanted` are the numbers of those that are looked at. Raises StoreDamaged.
    """
    found = list(parts)
    chosen: dict[int, tuple[ChunkId, int]] = {}
    # A sentence that overlapping passages share is the best of the first of them alone.
    taken = {(part.document, part.best_sentence.sid) for part in parts if part.best_sentence}
    for number in wanted:
        part = parts[number]
        spans = known_spans(part) if scope.position is None else []
        if not spans:
            if row := _read_best(deps, scope, part, words, taken):
                taken.add((part.document, row.sid))
                found[number] = replace(part, best_sentence=_place(part, row))
            continue
        free = [at for at in range(len(spans)) if (part.document, part.first_sid + at) not in taken]
        best = choose_sentence(words, part, [spans[at] for at in free])
        if best is not None:
            taken.add((part.document, part.first_sid + free[best]))
            chosen[number] = part.chunk_id, part.first_sid + free[best]
    rows = deps.store.readers.sentences_of_chunks(scope, {*chosen.values()}) if chosen else {}
    for number, key in chosen.items():
        part, row = parts[number], rows.get(key)
        if row is not None and not _may_be_best(part, row):
            row = _read_best(deps, scope, part, words, taken)
        # A revision may have been removed since.
        if row is not None:
            found[number] = replace(part, best_sentence=_place(part, row))
    return found


def _read_best(
    deps: RetrievalDeps,
    scope: Scope,
    part: Visible,
    words: SearchedWords,
    taken: Container[tuple[int, int]],
) -> PlacedSentence | None:
    """Return the best sentence of a passage, of those that have a place and are not taken; None if
    none of them has any of the words."""
    last, revision = part.last_sid, part.revision
    if scope.position is not None:
        last, revision = min(last, scope.position), scope.revision
    ref = RevisionRef(part.document, revision or 0)
    known = deps.store.readers.sentences(scope, ref, part.first_sid, last)
    rows = [
        row for row in known if _may_be_best(part, row) and (part.document, row.sid) not in taken
    ]
    spans = [(max(row.start - part.start, 0), row.end - part.start) for row in rows]
    best = choose_sentence(words, part, spans)
    return None if best is None else rows[best]


def _may_be_best(part: Visible, sentence: PlacedSentence) -> bool:
    """Return whether a sentence has its own place and is not a heading.

    The repeated header of a table has none.
    """
    if sentence.page_start is not None and not sentence.page_start.page:
        return False
    names = NamedPlace.of(sentence.place, part.title)
    text = part.text[max(sentence.start - part.start, 0) : max(sentence.end - part.start, 0)]
    return not is_heading(text, part.title, *names)


def known_spans(part: Visible) -> list[tuple[int, int]]:
    """Return the spans of the sentences of a passage; empty if they are not stored."""
    ends = array("I", part.sentence_ends)
    return list(zip((0, *ends), ends, strict=False))


def _place(part: Visible, sentence: PlacedSentence) -> SentencePlace:
    if not (sentence.start < part.end and sentence.end > part.start):
        raise StoreDamaged("A sentence of a passage is elsewhere.")
    page_start = sentence.page_start
    if sentence.start < part.start and page_start and part.page is not None:
        # The sentence began on an earlier page than the passage.
        page_start = PageStart(sentence.start, part.page, page_start.unit)
    names = NamedPlace.of(sentence.place, part.title)
    location = None if page_start is None else name_pages([page_start])
    page = page_start.page_number if page_start else None
    return SentencePlace(sentence.sid, *names, page, location)
