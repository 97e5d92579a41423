"""The sentence of a passage that matches a query best, by words, and its place.

A passage may span several pages. Its sentences are compared with the query by its verified text;
the place of a sentence comes from its row, which has a checksum. For a reader, a passage ends at
the position at the latest.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from msgspec.structs import replace

from truespan.errors import StoreDamaged
from truespan.retrieval.snapshot import RetrievalDeps
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId
from truespan.types.scope import Scope
from truespan.types.text import (
    NamedPlace,
    PageStart,
    PlacedSentence,
    SentencePlace,
    name_pages,
)
from truespan.types.trust import Visible
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import (
    fold_bytes,
    stem_function,
    stemmed_bytes,
    stemmer_of,
    terms,
    word_spans,
)

STEMMED_AS = "en"
"""Language whose stemmer is used for queries and sentences alike. A detected language would depend
on text that a reader has not read."""
_STEMMER = stemmer_of(STEMMED_AS)


def locate_best(
    deps: RetrievalDeps,
    scope: Scope,
    query: str,
    parts: Sequence[Visible],
    wanted: Iterable[int],
) -> list[Visible]:
    """Return passages with the place of the sentence that has most words of the query.

    `wanted` are the numbers of those that are looked at. Raises StoreDamaged.
    """
    words, found = content_words(query), list(parts)
    chosen: dict[int, tuple[ChunkId, int]] = {}
    for number in wanted:
        part = parts[number]
        spans = known_spans(part) if scope.position is None else []
        if not spans:
            if row := _read_best(deps, scope, part, words):
                found[number] = replace(part, best_sentence=_place(part, row))
        elif (best := _choose(words, part.text, spans)) is not None:
            chosen[number] = part.chunk_id, part.first_sid + best
    rows = deps.store.sentences_of_chunks(scope, {*chosen.values()}) if chosen else {}
    for number, key in chosen.items():
        # A revision may have been removed since.
        if key in rows:
            found[number] = replace(parts[number], best_sentence=_place(parts[number], rows[key]))
    return found


def _read_best(
    deps: RetrievalDeps, scope: Scope, part: Visible, words: frozenset[str]
) -> PlacedSentence | None:
    """Return the best sentence of a passage that is no stored chunk, or is a reader's; None if none
    has any of the words."""
    last, revision = part.last_sid, part.revision
    if scope.position is not None:
        last, revision = min(last, scope.position), scope.revision
    ref = RevisionRef(part.document, revision or 0)
    rows = deps.store.sentences(scope, ref, part.first_sid, last)
    spans = [(max(row.start - part.start, 0), row.end - part.start) for row in rows]
    best = _choose(words, part.text, spans)
    return None if best is None else rows[best]


def find_best(query: str, text: str, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return the index of the span of a text with most words of a query; None if none has any."""
    return _choose(content_words(query), text, spans)


def known_spans(part: Visible) -> list[tuple[int, int]]:
    """Return the spans of the sentences of a passage; empty if they are not stored."""
    ends = array("I", part.sentence_ends)
    return list(zip((0, *ends), ends, strict=False))


def _choose(words: frozenset[str], text: str, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return the index of the span with most of the words; the first of equal ones."""
    folded = _fold(text)
    if folded is None:
        found = [words.intersection(_terms_of(text[start:end])) for start, end in spans]
    else:
        # One byte is one character.
        stem = stemmed_bytes(_STEMMER).__getitem__
        found = [words.intersection(map(stem, folded[start:end].split())) for start, end in spans]
    if not any(found):
        return None
    scores = _weigh(found)
    return scores.index(max(scores))


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


def content_words(query: str) -> frozenset[str]:
    """Return the terms of a query without stop words, if it has others."""
    words = frozenset(terms(query, STEMMED_AS))
    return words.difference(_stop_words()) or words


def score_words(query: str, texts: Sequence[str]) -> list[float]:
    """Return the words of a query in each text, weighted by how few texts have them.

    Unlike in BM25 the length does not count. Short sentences would win, and seldom answer.
    """
    words = content_words(query)
    return _weigh([words.intersection(_terms_of(text)) for text in texts])


def find_words(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the words of a text that have these terms; overlapping ones are joined."""
    stem, first, last = stem_function(_STEMMER), 0, 0
    for word, start, end in word_spans(text):
        if stem(word) not in wanted:
            continue
        if start >= last:
            if last:
                yield first, last
            first = start
        last = end
    if last:
        yield first, last


def _weigh(found: Sequence[frozenset[str]]) -> list[float]:
    """Return the sum of the rarities of the words of each text."""
    # Rows of a table often match the same words, so each set of words is scored once.
    distinct = Counter(found)
    counts = Counter[str]()
    for matches, texts in distinct.items():
        for word in matches:
            counts[word] += texts
    rarity = {
        word: math.log(1 + (len(found) - count + 0.5) / (count + 0.5))
        for word, count in counts.items()
    }
    scores = {matches: math.fsum(map(rarity.__getitem__, matches)) for matches in distinct}
    return [scores[matches] for matches in found]


def _terms_of(text: str) -> Iterable[str]:
    """Return the terms of a text; for most texts, two table lookups suffice."""
    if (folded := _fold(text)) is not None:
        return map(stemmed_bytes(_STEMMER).__getitem__, folded.split())
    return terms(text, STEMMED_AS)


def _fold(text: str) -> bytes | None:
    folded = None if "ß" in text else fold_bytes(text)
    return None if folded is None else folded.data


# Shared by threads: caches of a set of words, which never changes.
@cache
def _stop_words() -> frozenset[str]:
    return frozenset(terms(" ".join(STOP_WORDS[_STEMMER]), STEMMED_AS))
