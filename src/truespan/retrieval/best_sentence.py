"""The sentence of a passage that matches a query best, by words, and its place.

A passage may lie on several pages. Which of its sentences has the words of the query is read from
its verified text; where that sentence stands, from its row, which has a checksum. For a reader both
were read: a passage ends at the position at the latest.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from msgspec.structs import replace

from truespan.errors import StoreDamaged
from truespan.retrieval.snapshot import RetrievalDeps
from truespan.types.document import RevisionRef
from truespan.types.scope import Scope
from truespan.types.text import PageStart, PlacedSentence, SentencePlace, place_sentences
from truespan.types.trust import Visible

STEMMED_AS = "en"
"""Words of queries and sentences are stemmed alike. A detected language would depend on text that a
reader may not know."""


def locate_best(
    deps: RetrievalDeps,
    scope: Scope,
    query: str,
    parts: Sequence[Visible],
    wanted: Iterable[int],
) -> list[Visible]:
    """Return passages with the place of the sentence of each that has most words of a query.

    `wanted` are the numbers of those that are looked at. Raises StoreDamaged.
    """
    words, found = content_words(query), list(parts)
    sids: dict[RevisionRef, dict[int, int]] = {}
    for number in wanted:
        part = parts[number]
        revision = part.revision if scope.position is None else scope.revision
        best = _best_of(deps, scope, RevisionRef(part.document, revision or 0), part, words)
        if best is not None and (scope.position is None or best <= scope.position):
            sids.setdefault(RevisionRef(part.document, revision or 0), {})[number] = best
    for ref, chosen in sids.items():
        rows = {row.sid: row for row in deps.store.sentences_at(scope, ref, [*chosen.values()])}
        for number, sid in chosen.items():
            # A revision may have been removed since.
            if sid in rows:
                place = _place(parts[number], rows[sid])
                found[number] = replace(parts[number], best_sentence=place)
    return found


def find_best(query: str, text: str, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return which span of a text has most words of a query; None if none has any."""
    return _choose(content_words(query), text, spans)


def _best_of(
    deps: RetrievalDeps, scope: Scope, ref: RevisionRef, part: Visible, words: frozenset[str]
) -> int | None:
    """Return the first sentence of a passage with most of some words; None if it has none."""
    spans = known_spans(part)
    if not spans:
        rows = deps.store.sentences(scope, ref, part.first_sid, part.last_sid)
        ends = [row.end - part.start for row in rows]
        spans = list(zip((0, *ends), ends, strict=False))
    best = _choose(words, part.text, spans)
    return None if best is None else part.first_sid + best


def known_spans(part: Visible) -> list[tuple[int, int]]:
    """Return where the sentences of a passage are in its text; nothing if its row was not whole."""
    ends = array("I", part.sentence_ends)
    return list(zip((0, *ends), ends, strict=False))


def _choose(words: frozenset[str], text: str, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return which span of a text has most of some words; of equal ones, the first."""
    scores = _score(words, [text[start:end] for start, end in spans])
    best = max(scores, default=0.0)
    return scores.index(best) if best else None


def _place(part: Visible, sentence: PlacedSentence) -> SentencePlace:
    if not (sentence.start < part.end and sentence.end > part.start):
        raise StoreDamaged("A sentence of a passage is elsewhere.")
    page_start = sentence.page_start
    if sentence.start < part.start and page_start and part.page is not None:
        # It began on an earlier page than the passage.
        page_start = PageStart(sentence.start, part.page, page_start.unit)
    own = PlacedSentence(
        *(sentence.sid, sentence.start, sentence.end, sentence.tokens, sentence.place, page_start)
    )
    return place_sentences([own], part.title)


def content_words(query: str) -> frozenset[str]:
    """Return the terms of a query without stop words, if it has others."""
    from truespan.retrieval.terms import terms

    words = frozenset(terms(query, STEMMED_AS))
    return words.difference(_stop_words()) or words


def score_words(query: str, texts: Sequence[str]) -> list[float]:
    """Return how much of a query each text covers: its words, weighted by how few texts have them.

    Unlike in BM25 the length does not count. Short sentences would win, and seldom answer.
    """
    return _score(content_words(query), texts)


def _score(words: frozenset[str], texts: Sequence[str]) -> list[float]:
    found = [words.intersection(_terms_of(text)) for text in texts]
    count = Counter(word for matches in found for word in matches)
    rarity = {
        word: math.log(1 + (len(texts) - many + 0.5) / (many + 0.5)) for word, many in count.items()
    }
    return [math.fsum(rarity[word] for word in sorted(matches)) for matches in found]


def _terms_of(text: str) -> Iterable[str]:
    """Return the terms of a text; most texts need no more than two tables."""
    from truespan.retrieval.terms import fold_bytes, stemmed_bytes, stemmer_of, terms

    folded = None if "ß" in text else fold_bytes(text)
    if folded is None:
        return terms(text, STEMMED_AS)
    return map(stemmed_bytes(stemmer_of(STEMMED_AS)).__getitem__, folded.data.split())


@cache
def _stop_words() -> frozenset[str]:
    from truespan.retrieval.stop_words import STOP_WORDS
    from truespan.retrieval.terms import stemmer_of, terms

    return frozenset(terms(" ".join(STOP_WORDS[stemmer_of(STEMMED_AS)]), STEMMED_AS))
