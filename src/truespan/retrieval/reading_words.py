"""Score the read part of a book by the words of a query.

How many chunks there are, how long they are and how rare a word is, is counted over the stored
chunks that the reader may see and the tail. The counts in the store are of whole revisions; those
of a chunk depend on its own text alone, and unread chunks are left out before anything is added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.errors import StorageFull, StoreBusy
from truespan.ingest.language import SAMPLE, detect_language
from truespan.retrieval.bm25 import ChunkScores, WordMatches, score_chunks
from truespan.retrieval.coverage import WordRarity, measure_rarity
from truespan.retrieval.snapshot import Restart
from truespan.retrieval.terms import recipe_of, stemmer_of, terms
from truespan.retrieval.word_counts import count_revision
from truespan.retrieval.word_query import match_words, parse_query
from truespan.types.document import RevisionWords
from truespan.types.ids import ChunkId, chunk_id
from truespan.types.reading import Position
from truespan.types.request import DEFAULT_LANGUAGE
from truespan.types.scope import Scope, World

if TYPE_CHECKING:
    from truespan.store import Store


class ReadScores(Struct, frozen=True):
    """The BM25 scores of what a reader may see.

    The place of a stored chunk is its index; those of the tail follow from `tail` on.
    """

    scope: Scope
    position: Position
    scores: ChunkScores
    rarity: WordRarity
    tail: int
    readable: frozenset[int]
    """The indexes of stored chunks whose rows say that they were read, whether intact or not."""

    @property
    def best(self) -> float:
        return self.scores.best

    def of(self, index: int) -> float:
        """Return the score of a stored chunk."""
        return self.scores.of(index) if index < self.tail else 0.0

    def of_tail(self, number: int) -> float:
        """Return the score of the n-th part of the tail, from 0 on."""
        return self.scores.of(self.tail + number)

    def top(self, count: int, decimals: int) -> tuple[list[ChunkId], set[int]]:
        """Return the best by words, ties at the end included: stored chunks, parts of the tail."""
        values = self.scores.values
        if not len(values):
            return [], set()
        least = round(sorted(values.tolist())[-min(count, len(values))], decimals)
        places = self.scores.places[values.round(decimals) >= least].tolist()
        stored = [self.chunk_id(place) for place in places if place < self.tail]
        return stored, {place - self.tail for place in places if place >= self.tail}

    def chunk_id(self, index: int) -> ChunkId:
        """Return the id under which the store has a chunk."""
        scope, ref = self.scope, self.position.ref
        return chunk_id(scope.world, scope.generation.number, ref.document, ref.revision, index)


def score_read(
    store: Store, scope: Scope, world: World, position: Position, tail: Sequence[str], query: str
) -> ReadScores:
    """Score the stored chunks up to a position, and the texts of the tail."""
    import numpy as np

    language = language_read(store, scope, position)
    parsed = parse_query(query, [stemmer_of(language)])
    wanted = sorted({term for word in parsed.words for term in word.forms.values()})
    known = store.revision_words(scope, world, position.ref)
    readable = {index for index, since in known.seen_from.items() if since <= position.sid}
    # Only chunks whose rows are intact take part, since the row says whether a chunk was read.
    visible = readable & known.lengths.keys()
    lengths, counts = _read_counts(store, scope, position, language, known, visible, wanted)
    first = max(lengths, default=-1) + 1
    for place, text in enumerate(tail, first):
        found = Counter(terms(text, language))
        lengths[place] = found.total()
        for term in wanted:
            if found[term]:
                counts[term][place] = found[term]

    def find(forms: Mapping[str, str]) -> WordMatches:
        [term] = forms.values()
        places = counts[term]
        return WordMatches(
            np.array(list(places), np.int64), np.array(list(places.values()), np.int64)
        )

    by_place = np.zeros(first + len(tail), np.int64)
    by_place[list(lengths)] = list(lengths.values())
    scores = score_chunks(
        match_words(parsed, find), by_place, chunks=len(lengths), total=sum(lengths.values())
    )
    rarity = measure_rarity(parsed, find, len(lengths))
    return ReadScores(scope, position, scores, rarity, first, frozenset(readable))


def language_read(store: Store, scope: Scope, position: Position) -> str:
    """Return the language of what was read, which decides how its words are stemmed.

    A detected language is that of the first characters of a book. Where not all of these were read,
    it is detected in those that were.
    """
    if position.language_declared:
        return position.language
    last = store.sentences(scope, position.ref, position.sid, position.sid)
    if not last:
        raise Restart
    if last[0].end >= SAMPLE:
        return position.language
    read = store.text_between(scope, position.ref, 0, last[0].end)
    return detect_language(read) or DEFAULT_LANGUAGE


def _read_counts(
    store: Store,
    scope: Scope,
    position: Position,
    language: str,
    known: RevisionWords,
    visible: Set[int],
    wanted: Sequence[str],
) -> tuple[dict[int, int], dict[str, dict[int, int]]]:
    """Return the words of each visible chunk, and how often the wanted terms are in which.

    What is missing, damaged or of another recipe is counted again, for this revision alone.
    """
    held = None
    if known.fresh and known.recipe == recipe_of(language):
        held = store.revision_postings(scope, known.key, wanted)
    if held is None:
        own = language == position.language
        # In another language than the book's, the counts serve this request alone.
        counted = count_revision(
            store, scope, position.ref, language, only=None if own else visible
        )
        if own:
            # Without room to keep them, the counts still serve this request.
            with suppress(StorageFull, StoreBusy):
                store.keep_words(scope, [counted])
        return _only(visible, counted.lengths, counted.terms, wanted)
    lengths, counts = _only(visible, known.lengths, held, wanted)
    if uncounted := visible - lengths.keys():
        # They were damaged, or set aside, when the others were counted.
        counted = count_revision(store, scope, position.ref, language, only=uncounted)
        more, places = _only(visible, counted.lengths, counted.terms, wanted)
        lengths |= more
        for term in wanted:
            counts[term] |= places[term]
    return lengths, counts


def _only(
    visible: Set[int],
    lengths: Mapping[int, int | None],
    counts: Mapping[str, Mapping[int, int]],
    wanted: Sequence[str],
) -> tuple[dict[int, int], dict[str, dict[int, int]]]:
    """Leave out every chunk that is not visible, and every term that is not wanted."""
    seen = {index: n for index, n in lengths.items() if index in visible and n is not None}
    return seen, {
        term: {index: count for index, count in counts.get(term, {}).items() if index in seen}
        for term in wanted
    }
