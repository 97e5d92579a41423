"""Score the read part of a book by the words of a query.

The number of chunks, their lengths and the rarity of words are counted over the stored chunks that
the reader may see and the tail. The store has counts of whole revisions. The counts of a chunk
depend on its own text alone, and unread chunks are left out before anything is added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.errors import StorageFull, StoreBusy
from truespan.retrieval.chunk_language import find_language_again
from truespan.retrieval.deps import Restart
from truespan.retrieval.query import SCORE_DECIMALS, query_language
from truespan.retrieval.word_counts import POSTING, count_revision
from truespan.text.language import SAMPLE, detect_language
from truespan.types.document import CountedWords, RevisionChunk, RevisionRef, RevisionWords
from truespan.types.ids import ChunkId, TextHash
from truespan.types.reading import Position
from truespan.types.request import DEFAULT_LANGUAGE
from truespan.types.scope import Scope, World
from truespan.types.trust import Visible
from truespan.words.compounds import COMPOUNDING, expand_compounds, index_compounds, index_parts
from truespan.words.query import Forms, QueryWord, WordQuery, parse_query
from truespan.words.scoring import (
    ChunkScores,
    WordMatches,
    WordRarity,
    match_words,
    measure_rarity,
    merge_matches,
    score_chunks,
)
from truespan.words.spelling import index_terms, index_vocabulary, suggest_terms
from truespan.words.terms import recipe_of, stemmer_of, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from truespan.store import Store


NOT_COUNTED = -1
"""Length of a chunk that is no text, was not read, or has no counted words."""


class ReadPart(Struct, frozen=True):
    """The stored chunks of a revision up to a position. A chunk's place is its index."""

    chunks: Mapping[ChunkId, RevisionChunk]
    ids: Mapping[int, ChunkId]
    """The ids of `chunks` by their places."""
    unread: frozenset[ChunkId]
    """The other chunks of the revision whose rows can be trusted."""
    texts: frozenset[int]
    """The places of embedded text, whose words count."""
    uncounted: frozenset[int]
    """Places of embedded text without counts in the store."""
    lengths: NDArray[np.int64]
    """Number of words at each place, as far as the store has counted them."""
    languages: Mapping[int, str]
    """Languages of the counted chunks in another language than the book, by their places."""
    miscounted: tuple[tuple[ChunkId, TextHash], ...]
    """Ids and text hashes of the chunks whose state another program changed."""

    @property
    def end(self) -> int:
        """Return the first place after the stored chunks."""
        return len(self.lengths)


# Shared by threads: a cache of read counts of a revision at a position; its arrays are only read.
@lru_cache(maxsize=32)
def read_part(known: RevisionWords, position: int) -> ReadPart:
    """Return the read part of a revision at a position."""
    import numpy as np

    # A row decides whether its chunk was read, so only intact rows count.
    trusted = {id: chunk for id, chunk in known.chunks.items() if chunk.trusted}
    chunks = {id: chunk for id, chunk in trusted.items() if chunk.seen_from <= position}
    ids = {chunk.index: id for id, chunk in chunks.items()}
    lengths = np.full(max(ids, default=-1) + 1, NOT_COUNTED, np.int64)
    texts = [chunk for chunk in chunks.values() if chunk.embedded]
    for chunk in texts:
        lengths[chunk.index] = NOT_COUNTED if chunk.words is None else chunk.words
    return ReadPart(
        chunks=chunks,
        ids=ids,
        unread=frozenset(trusted.keys() - chunks.keys()),
        texts=frozenset(chunk.index for chunk in texts),
        uncounted=frozenset(chunk.index for chunk in texts if chunk.words is None),
        lengths=lengths,
        languages={chunk.index: chunk.language for chunk in texts if chunk.language},
        miscounted=tuple((id, chunk.text_hash) for id, chunk in chunks.items() if chunk.miscounted),
    )


class ReadScores(Struct, frozen=True):
    """The BM25 scores of the text that a reader may see."""

    part: ReadPart
    query: WordQuery
    language: str
    """Language of the read part."""
    languages: Mapping[int, str]
    """Languages of the places in another language."""
    scores: ChunkScores
    rarity: WordRarity
    """Rarity of the words as they are written: what a passage must contain to cover the query."""
    ranking_rarity: WordRarity
    """Rarity of the words with the terms that joined misspelt ones."""
    places: Mapping[str, NDArray[np.int64]]
    """Places of each term of the query."""

    @property
    def tail(self) -> int:
        """Return the place of the first part of the tail."""
        return self.part.end

    def with_phrases(self) -> list[int]:
        """Return the places that have every term of the query's phrases, best first.

        Counts have no positions: only the text shows whether the terms follow one another.
        """
        ranked = self.scores.top(len(self.scores.places), SCORE_DECIMALS)
        having = {
            language: [
                frozenset(self.places[term].tolist())
                for phrase in self.query.phrases
                for term in terms(phrase, language)
            ]
            for language in {self.language, *self.languages.values()}
        }
        return [
            place
            for place in ranked
            if all(place in kept for kept in having[self.language_of(place)])
        ]

    def language_of(self, place: int) -> str:
        """Return the language of the text at a place."""
        return self.languages.get(place, self.language)


def score_read(
    store: Store,
    scope: Scope,
    world: World,
    position: Position,
    tail: Sequence[Visible],
    query: str,
) -> ReadScores:
    """Score the stored chunks up to a position, and the tail."""
    read = max((part.end for part in tail), default=0)
    language = position.language if read >= SAMPLE else language_read(store, scope, position)
    counts, query_words = _read_counts(store, scope, world, position, language, tail, query)
    plain = world.defaults.values.plain
    if not plain and not COMPOUNDING.isdisjoint(counts.stemmers):
        query_words = counts.expand_compounds(query_words)

    find = counts.find

    def suggest(word: QueryWord) -> Forms:
        return suggest_terms(word, counts.similar_terms, lambda forms: len(find(forms).places))

    corrected, matches = match_words(query_words, find, None if plain else suggest)
    lengths = counts.lengths
    takes_part = lengths != NOT_COUNTED
    chunks, total = int(takes_part.sum()), int(lengths[takes_part].sum())
    rarity = measure_rarity(query_words, find, chunks)
    misspelt = any(word.misspelt for word in corrected.words)
    return ReadScores(
        part=counts.part,
        query=corrected,
        language=language,
        languages=counts.languages,
        scores=score_chunks(matches, lengths, chunks=chunks, total=total),
        rarity=rarity,
        ranking_rarity=rarity if not misspelt else measure_rarity(corrected, find, chunks),
        places={term: found.places for term, found in counts.matches.items()},
    )


def language_read(store: Store, scope: Scope, position: Position) -> str:
    """Return the language of the read part, which decides the stemmer.

    The language of a book is detected from its first characters. If not all of these were read, it
    is detected again from those that were.
    """
    if position.language_declared:
        return position.language
    last = store.readers.sentences(scope, position.ref, position.sid, position.sid)
    if not last:
        raise Restart
    if last[0].end >= SAMPLE:
        return position.language
    read = store.readers.text_between(scope, position.ref, 0, last[0].end)
    return detect_language(read) or DEFAULT_LANGUAGE


class _ReadCounts(Struct, frozen=True):
    """Word counts of the read part: of the stored chunks up to the position, and of the tail."""

    store: Store
    scope: Scope
    world: World
    ref: RevisionRef
    part: ReadPart
    lengths: NDArray[np.int64]
    """Number of words at each place; those of the tail follow."""
    tail: list[Counter[str]]
    key: int | None
    """Key of the revision; None if the store has no counts that can be used."""
    counted: CountedWords | None
    """Counts that were made for this request."""
    language: str
    languages: Mapping[int, str]
    """Languages of the places in another language than `language`."""
    matches: dict[str, WordMatches]
    """Places of each term that was loaded."""

    @property
    def stemmers(self) -> list[str]:
        """Return the stemmers of the read part, in order."""
        return sorted({*map(stemmer_of, (self.language, *self.languages.values()))})

    def find(self, forms: Forms) -> WordMatches:
        """Return the places of a word: those with one of its terms under their own stemmer."""
        import numpy as np

        if not self.languages:
            return merge_matches([self.matches[term] for own in forms.values() for term in own])
        parts: list[WordMatches] = []
        for name, own in forms.items():
            others = [place for place, code in self.languages.items() if stemmer_of(code) == name]
            foreign = np.array([*self.languages], np.int64)
            for term in own:
                found = self.matches[term]
                kept = np.isin(found.places, others)
                if name == stemmer_of(self.language):
                    kept |= ~np.isin(found.places, foreign)
                parts.append(WordMatches(found.places[kept], found.counts[kept]))
        return merge_matches(parts)

    def add(self, terms: Iterable[str], held: Mapping[str, bytes]) -> None:
        """Find the places of terms, given their stored postings.

        Data of unread chunks is dropped here.
        """
        import numpy as np

        for term in terms:
            pairs = np.frombuffer(held.get(term, b""), POSTING)
            more = self.counted.places(term) if self.counted is not None else {}
            places = np.append(pairs["index"].astype(np.int64), np.array([*more], np.int64))
            counts = np.append(
                pairs["count"].astype(np.int64), np.array([*more.values()], np.int64)
            )
            kept = places < self.part.end
            kept[kept] = self.lengths[places[kept]] != NOT_COUNTED
            having = [
                (self.part.end + number, found[term])
                for number, found in enumerate(self.tail)
                if found[term]
            ]
            after = np.array(having, np.int64).reshape(-1, 2)
            self.matches[term] = WordMatches(
                np.append(places[kept], after[:, 0]), np.append(counts[kept], after[:, 1])
            )

    def similar_terms(self, term: str) -> dict[str, float]:
        """Return terms that are spelt like a term, and find their places.

        Terms that only unread chunks have are among them, without a place.
        """
        found = index_terms(tuple(self._unstored_terms())).similar_terms(term)
        if self.key is not None:
            stored = self.store.catalogs.vocabulary(self.scope, self.world, self.key)
            found |= index_vocabulary(stored).similar_terms(term)
        self.load(found)
        return found

    def expand_compounds(self, query: WordQuery) -> WordQuery:
        """Return a query with compounds and their parts, all of which occur in the read part."""
        indexes = [index_parts(self._unstored_terms())]
        if self.key is not None:
            stored = self.store.catalogs.vocabulary(self.scope, self.world, self.key)
            indexes.append(index_compounds(stored))

        def occurs(name: str, term: str) -> bool:
            return bool(len(self.find({name: (term,)}).places))

        return expand_compounds(query, indexes, self.load, occurs)

    def _unstored_terms(self) -> set[str]:
        """Return the terms of the tail, and of counts that were made for this request."""
        made = self.counted.terms if self.counted is not None else ()
        return {*made, *chain(*self.tail)}

    def load(self, terms: Iterable[str]) -> None:
        """Find the places of terms, also of those that only unread chunks have."""
        unknown = sorted({*terms} - self.matches.keys())
        held: dict[str, bytes] | None = {}
        if self.key is not None and unknown:
            held = self.store.catalogs.revision_postings(self.scope, self.ref, self.key, unknown)
        if held is None:
            # These rows are damaged. They are counted again.
            self.store.catalogs.forget_words(self.scope, [self.ref])
            raise Restart
        self.add(unknown, held)


def _read_counts(
    store: Store,
    scope: Scope,
    world: World,
    position: Position,
    language: str,
    tail: Sequence[Visible],
    query: str,
) -> tuple[_ReadCounts, WordQuery]:
    """Return the word counts of the read part, and the words of a query with their places.

    Counts that are missing, damaged or of another recipe are made again, for this revision alone.
    """
    import numpy as np

    known, ref = store.catalogs.revision_words(scope, world, position.ref), position.ref
    part = read_part(known, position.sid)
    spoken = [find_language_again(text.text, language) for text in tail]
    after = [Counter(terms(text.text, own)) for text, own in zip(tail, spoken, strict=True)]
    is_stored = known.fresh and known.recipe == recipe_of(language)
    while True:
        counted = _count_missing(store, scope, position, language, part, is_stored=is_stored)
        lengths = part.lengths.copy() if is_stored else np.full(part.end, NOT_COUNTED, np.int64)
        languages = dict(part.languages) if is_stored else {}
        if counted is not None:
            for place in part.texts & counted.lengths.keys():
                lengths[place] = counted.lengths[place]
            languages |= {at: own for at, own in counted.languages.items() if at in part.texts}
        others = (pair for pair in enumerate(spoken, part.end) if pair[1] != language)
        counts = _ReadCounts(
            store=store,
            scope=scope,
            world=world,
            ref=ref,
            part=part,
            lengths=np.append(lengths, np.array([found.total() for found in after], np.int64)),
            tail=after,
            key=known.key if is_stored else None,
            counted=counted,
            language=language,
            languages={**languages, **dict(others)},
            matches={},
        )
        words = parse_query(query, counts.stemmers, query_language(scope.profile, query))
        wanted = sorted({term for one in words.words for own in one.forms.values() for term in own})
        held = store.catalogs.revision_postings(scope, ref, known.key, wanted) if is_stored else {}
        if held is not None:
            counts.add(wanted, held)
            return counts, words
        is_stored = False


def _count_missing(
    store: Store,
    scope: Scope,
    position: Position,
    language: str,
    part: ReadPart,
    *,
    is_stored: bool,
) -> CountedWords | None:
    """Count the words that the store has no usable counts of; None if it has all."""
    ref = position.ref
    if is_stored:
        # These chunks were damaged or quarantined when the others were counted.
        only = part.uncounted
        return count_revision(store, scope, ref, language, only=only).words if only else None
    own = language == position.language
    # In another language than the book's, the counts serve this request alone.
    counted = count_revision(store, scope, ref, language, only=None if own else part.texts)
    if own:
        # Without room to keep them, the counts still serve this request.
        with suppress(StorageFull, StoreBusy):
            store.catalogs.keep_words(scope, [counted], brief=True)
    return counted.words
