"""Score the read part of a book by the words of a query.

The number of chunks, their lengths and the rarity of words are counted over the stored chunks that
the reader may see and the tail. The store has counts of whole revisions. The counts of a chunk
depend on its own text alone, and unread chunks are left out before anything is added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from truespan.errors import StorageFull, StoreBusy
from truespan.retrieval.query_vector import SCORE_DECIMALS
from truespan.retrieval.snapshot import Restart
from truespan.retrieval.word_counts import count_revision
from truespan.text.language import SAMPLE, detect_language
from truespan.types.document import RevisionChunk, RevisionWords
from truespan.types.ids import ChunkId
from truespan.types.reading import Position
from truespan.types.request import DEFAULT_LANGUAGE
from truespan.types.scope import Scope, World
from truespan.types.trust import Visible
from truespan.words.bm25 import ChunkScores, WordMatches, merge_matches, score_chunks
from truespan.words.coverage import WordRarity, measure_rarity
from truespan.words.query import Forms, WordQuery, match_words, parse_query
from truespan.words.terms import recipe_of, stemmer_of, terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from truespan.store import Store


NOT_COUNTED = -1
"""Length of a chunk that is no text, was not read, or has no counted words."""

Matches: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"
"""Places of chunks, and the count of a term in each."""


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

    @property
    def end(self) -> int:
        """Return the first place after the stored chunks."""
        return len(self.lengths)


# Shared by threads: a cache of what was read of a revision at a position; its arrays are only
# read.
@lru_cache(maxsize=32)
def read_part(known: RevisionWords, position: int) -> ReadPart:
    """Return the read part of a revision at a position."""
    import numpy as np

    # A row decides whether its chunk was read, so only intact rows take part.
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
    )


class ReadScores(Struct, frozen=True):
    """The BM25 scores of what a reader may see. The places of the tail follow those of `part`."""

    part: ReadPart
    query: WordQuery
    language: str
    scores: ChunkScores
    rarity: WordRarity
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
        wanted = {term for phrase in self.query.phrases for term in terms(phrase, self.language)}
        kept = [frozenset(self.places[term].tolist()) for term in wanted]
        ranked = self.scores.top(len(self.scores.places), SCORE_DECIMALS)
        return [place for place in ranked if all(place in having for having in kept)]


def score_read(
    store: Store,
    scope: Scope,
    world: World,
    position: Position,
    tail: Sequence[Visible],
    query: str,
) -> ReadScores:
    """Score the stored chunks up to a position, and the tail."""
    import numpy as np

    read = max((part.end for part in tail), default=0)
    language = position.language if read >= SAMPLE else language_read(store, scope, position)
    parsed = parse_query(query, [stemmer_of(language)])
    wanted = sorted({term for word in parsed.words for own in word.forms.values() for term in own})
    known = store.revision_words(scope, world, position.ref)
    part = read_part(known, position.sid)
    lengths, stored = _read_counts(store, scope, position, language, known, part, wanted)
    counted = [Counter(terms(part.text, language)) for part in tail]
    lengths = np.append(lengths, np.array([found.total() for found in counted], np.int64))
    matches: dict[str, WordMatches] = {}
    for term in wanted:
        having = [(part.end + n, found[term]) for n, found in enumerate(counted) if found[term]]
        more = np.array(having, np.int64).reshape(-1, 2)
        places, counts = stored[term]
        matches[term] = WordMatches(np.append(places, more[:, 0]), np.append(counts, more[:, 1]))

    def find(forms: Forms) -> WordMatches:
        return merge_matches([matches[term] for own in forms.values() for term in own])

    takes_part = lengths != NOT_COUNTED
    chunks, total = int(takes_part.sum()), int(lengths[takes_part].sum())
    return ReadScores(
        part=part,
        query=parsed,
        language=language,
        scores=score_chunks(match_words(parsed, find), lengths, chunks=chunks, total=total),
        rarity=measure_rarity(parsed, find, chunks),
        places={term: found.places for term, found in matches.items()},
    )


def language_read(store: Store, scope: Scope, position: Position) -> str:
    """Return the language of the read part, which decides the stemmer.

    The language of a book is detected from its first characters. If not all of these were read, it
    is detected again from those that were.
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
    part: ReadPart,
    wanted: Sequence[str],
) -> tuple[NDArray[np.int64], dict[str, Matches]]:
    """Return the number of words at each place of the read part, and the places of the terms.

    Counts that are missing, damaged or of another recipe are made again, for this revision alone.
    """
    import numpy as np

    lengths, held, counted = part.lengths, None, None
    if known.fresh and known.recipe == recipe_of(language):
        held = store.revision_postings(scope, position.ref, known.key, wanted)
    if held is None:
        own = language == position.language
        # In another language than the book's, the counts serve this request alone.
        only = None if own else part.texts
        counted = count_revision(store, scope, position.ref, language, only=only)
        if own:
            # Without room to keep them, the counts still serve this request.
            with suppress(StorageFull, StoreBusy):
                store.keep_words(scope, [counted], brief=True)
        lengths, held = np.full(part.end, NOT_COUNTED, np.int64), {}
    elif part.uncounted:
        # These chunks were damaged or quarantined when the others were counted.
        counted = count_revision(store, scope, position.ref, language, only=part.uncounted)
    if counted is not None:
        lengths = lengths.copy()
        for place, length in counted.words.lengths.items():
            if place in part.texts:
                lengths[place] = length
    found: dict[str, Matches] = {}
    for term in wanted:
        pairs = np.frombuffer(held.get(term, b""), [("index", "<u4"), ("count", "<u2")])
        more = counted.words.places(term) if counted is not None else {}
        places = np.append(pairs["index"].astype(np.int64), np.array([*more], np.int64))
        counts = np.append(pairs["count"].astype(np.int64), np.array([*more.values()], np.int64))
        # Nothing of a chunk that was not read goes any further.
        kept = places < part.end
        kept[kept] = lengths[places[kept]] != NOT_COUNTED
        found[term] = places[kept], counts[kept]
    return lengths, found
