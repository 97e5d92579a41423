"""Choose excerpts of passages: the consecutive sentences that have most words of a query.

An answer is often in a sentence beside the words of the question, so an excerpt has neighbours of
the matching sentences up to a length. bench/RESULTS.md compares excerpts with single sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

MAX_CHARACTERS = 450
"""Maximum length of an excerpt of several sentences."""
RANK_PENALTY = 0.03
"""Share of the words that a passage must have more than the passage ranked before it."""
MIN_SHARE = 0.5
"""Minimum share of the best score; excerpts with less are left out."""
MAX_UNMATCHED = 3
"""Maximum number of excerpts without any word of the query."""


class SentenceWords(Struct, frozen=True):
    """The span of a sentence, and the words of the query that it has."""

    start: int
    end: int
    words: frozenset[str]
    is_row: bool = False
    """Whether it is a row of a table."""


_NO_SENTENCES: Mapping[int, tuple[int, int]] = MappingProxyType({})

Run: TypeAlias = Sequence[SentenceWords]
"""Consecutive sentences of a passage, without a heading between them."""


class Excerpt(Struct, frozen=True):
    """Sentences `first` to `last` of a run of a passage, by their numbers."""

    score: float
    passage: int
    run: int
    first: int
    last: int


def count_unmatched(passages: Sequence[Sequence[Run]]) -> int:
    """Return the number of best passages without words of the query, by rank.

    They were found by similarity alone, for example in another language.
    """
    matched = (
        number
        for number, runs in enumerate(passages)
        if any(sentence.words for run in runs for sentence in run)
    )
    return min(next(matched, len(passages)), MAX_UNMATCHED)


def choose_excerpts(
    passages: Sequence[Sequence[Run]],
    rarity: Mapping[str, float],
    sentences: Mapping[int, tuple[int, int]] = _NO_SENTENCES,
) -> Iterator[Excerpt]:
    """Yield the best excerpt of each passage, the best first; weak ones are left out.

    Passages are ordered by rank. `rarity` has all words of the query that sentences have. The
    excerpt of a passage contains its best of the `sentences`, by its run and its number there.
    """
    total = sum(rarity.values())
    best: list[Excerpt] = []
    for number, runs in enumerate(passages):
        windows = [
            (round(share / total, 6), -length, -place, -first, last)
            for place, run in enumerate(runs)
            for first, last, share, length in _windows(run, rarity)
            if share and _contains(place, first, last, sentences.get(number))
        ]
        if windows:
            # Of equal windows the first.
            share, _, place, first, last = max(windows)
            ends = grow(runs[-place], -first, last)
            best.append(Excerpt(share - RANK_PENALTY * number, number, -place, *ends))
    best.sort(key=lambda excerpt: -excerpt.score)
    yield from (excerpt for excerpt in best if excerpt.score >= MIN_SHARE * best[0].score)


def _contains(run: int, first: int, last: int, sentence: tuple[int, int] | None) -> bool:
    """Return whether a window contains the best sentence of its passage, if that has one."""
    return sentence is None or (sentence[0] == run and first <= sentence[1] <= last)


def grow(run: Run, first: int, last: int) -> tuple[int, int]:
    """Return the first and last sentence of an excerpt with the neighbours that fit.

    A row of a table answers by itself, so that it gets only the rows up to the header, if they fit.
    """
    header = first
    while _is_in_table(run, header - 1):
        header -= 1
    if run[last].end - run[header].start <= MAX_CHARACTERS:
        first = header
    while True:
        before = first, last
        if (
            last + 1 < len(run)
            and not _is_in_table(run, last)
            and run[last + 1].end - run[first].start <= MAX_CHARACTERS
        ):
            last += 1
        if (
            first
            and not _is_in_table(run, first - 1)
            and run[last].end - run[first - 1].start <= MAX_CHARACTERS
        ):
            first -= 1
        if (first, last) == before:
            return before


def _is_in_table(run: Run, place: int) -> bool:
    """Return whether a sentence and the next one are rows of a table."""
    return place >= 0 and all(one.is_row for one in run[place : place + 2])


def _windows(run: Run, rarity: Mapping[str, float]) -> Iterator[tuple[int, int, float, int]]:
    """Yield first and last sentence, rarity of the words and length of each window of a run."""
    for first, begin in enumerate(run):
        words = frozenset[str]()
        for last in range(first, len(run)):
            length = run[last].end - begin.start
            if last > first and length > MAX_CHARACTERS:
                break
            words |= run[last].words
            yield first, last, sum(rarity[word] for word in sorted(words)), length
