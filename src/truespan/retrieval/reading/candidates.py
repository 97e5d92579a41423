"""The candidates of a fused search of the read part of a book, from visible chunks alone.

    counts of one revision, and the tail ──BM25──┐
                                                 ├─> candidates
    hits of the index ──stored vectors───────────┘

Everything that decides a rank comes from chunks that the reader may see: the index only says which
of these may be close. Their similarity is computed from the stored vectors: a hit from ahead counts
for nothing, and a wrong score in the index can hide a chunk, but not move it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from math import inf
from typing import ClassVar, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.retrieval import fused
from truespan.retrieval.deps import RetrievalDeps
from truespan.retrieval.fused import Candidate, CandidateText, FusedSearch, Refinement
from truespan.retrieval.pack import Packed
from truespan.retrieval.query import SCORE_DECIMALS, calibration_of
from truespan.retrieval.reading.words import ReadScores
from truespan.retrieval.stages import (
    Fetched,
    HitPager,
    complete_until,
    limit_to_scope,
    reveal,
    verify,
)
from truespan.types.answer import Shortlist
from truespan.types.bundle import Skipped
from truespan.types.chunk import ChunkRecord
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import reaches
from truespan.types.scope import Scope
from truespan.types.telemetry import Stage
from truespan.types.trust import FailureKind, Hit, VerificationFailure, Visible
from truespan.types.vectors import QueryStates, Vector, WordStates, similarities_of
from truespan.words.query import WordQuery
from truespan.words.scoring import ChunkScores
from truespan.words.spelling import name_similar

ROUNDING = 2e-6
"""Maximum difference between a score of an index in single precision and the exact one."""

Select: TypeAlias = Callable[[list[Visible]], Packed | Shortlist]
"""Chooses from chunks by rank."""


class Found(Struct, frozen=True):
    """Chunks that a reader may see, by rank, with the tail."""

    visible: list[Visible]
    fetched: Fetched

    def down_to(self, last: float | None) -> tuple[int, Fetched]:
        """Return the number of chunks down to the score of the last result, and the failed ones.

        In a fused search, everything that was looked at counts.
        """
        if isinstance(self.fetched, ReadFetched):
            return len(self.visible), self.fetched.counted()
        least = -inf if last is None else round(last, SCORE_DECIMALS)
        seen = sum(round(part.score, SCORE_DECIMALS) >= least for part in self.visible)
        return seen, self.fetched.down_to(last)


class FusedBookSearch(Struct):
    """One query against the read part of a book, by its words and by similarity.

    Its candidates are stored chunks and the tail, by their places.
    """

    min_step: ClassVar[int] = 16

    deps: RetrievalDeps
    scope: Scope
    vector: Vector
    floor: float | None
    tail: list[Visible]
    counted: ReadScores
    weight: float
    wait_for_hits: Callable[[], HitPager] | None
    """Waits for the closest hits of the index, which was queried already. Without it, only chunks
    with a word of the query are candidates."""
    refines: bool
    """Whether the best candidates are ranked again by their text."""
    trained: bool
    """Whether the model knows the language of the read part well."""
    crossed: bool
    """Whether the read part is in another language than the query, and the model knows both."""
    states: QueryStates | None
    """States of the words of the query."""
    tail_states: Mapping[TextHash, WordStates]
    """States of the words of the tail."""
    tail_vectors: Mapping[TextHash, Vector]
    _pager: HitPager | None = None
    _scores: dict[int, float | None] = field(default_factory=dict)
    """Similarity at each place; None where the vector is missing or damaged."""
    _records: dict[ChunkId, ChunkRecord] = field(default_factory=dict)
    _revealed: dict[int, list[Visible]] = field(default_factory=dict)
    """Passages that the reader may see at each verified place."""
    _failures: dict[ChunkId, VerificationFailure] = field(default_factory=dict)
    _repairs: dict[ChunkId, VerificationFailure] = field(default_factory=dict)
    """Points to write again, whose chunks were not left out."""
    _changes: int | None = None
    """Change count of the world, if it came with the last read of the store."""
    _seen: int | None = None
    """Number of points at or above the floor, if the index returned all of them."""

    def find(self, k: int, select: Select) -> Found:
        """Rank the possible best candidates, and verify them in order until there are enough."""
        # A calibration measured in the world would reveal unread text; the scope excludes it.
        calibration = calibration_of(self.deps.store, self.scope, shipped_first=True)
        by_words, counted = self.wait_for_hits is None, self.counted
        refinement = None
        if self.refines and not by_words:
            refinement = Refinement(
                counted.ranking_rarity, self.states, self.deps.without, written=counted.rarity
            )
        search = FusedSearch(self, self.weight, calibration, self.deps.trace, refinement)
        outcome = search.find(k, select, by_words=by_words)
        similar = name_similar(self.query, (found.text for found in outcome.found))
        fetched = ReadFetched(
            failures=[*{**self._repairs, **self._failures}.values()],
            changes=self._changes,
            notices=tuple(filter(None, (outcome.mismatch, similar))),
            seen=self._seen,
            words=self.query,
            repairs=frozenset(self._repairs.keys() - self._failures.keys()),
        )
        return Found(outcome.found, fetched)

    @property
    def query(self) -> WordQuery:
        return self.counted.query

    @property
    def words(self) -> ChunkScores:
        return self.counted.scores

    def best_by_words(self, count: int) -> list[int]:
        return self.words.top(count, SCORE_DECIMALS)

    def with_phrases(self) -> list[int]:
        words = self.counted
        places = words.with_phrases()[: fused.MAX_BY_WORDS]
        self._read([words.part.ids[place] for place in places if place < words.tail])
        return [place for place in places if self._has_phrases(place)]

    def _has_phrases(self, place: int) -> bool:
        words = self.counted
        if place >= words.tail:
            text = self.tail[place - words.tail].text
        else:
            record = self._records.get(words.part.ids[place])
            if record is None or record.chunk is None or not record.is_intact():
                # Verification reports the damage.
                return True
            text = record.chunk.data.decode()
        return self.query.occurs_in(text, words.language_of(place))

    def score_named(self, keys: Sequence[int]) -> list[Candidate[int]]:
        scored = self._score(keys)
        self._note_failures([], keys)
        return scored

    def score_closest(self, named: Sequence[int]) -> list[Candidate[int]]:
        """Return the closest visible chunks, the `named` ones and the tail.

        All that are as close as the last of the pool are among them, however many hits of other
        chunks there are.
        """
        if self.wait_for_hits is None:
            return self.score_named(named)
        # The stored vectors are compared while the index searches.
        self._compare(named)
        with self.deps.trace.stage(Stage.HITS):
            pager = self._pager = self.wait_for_hits()
        tail = self.counted.tail
        places = {tail + number for number in range(len(self.tail))}.union(named)
        # One more than the pool shows where the pool ends, in nearly every search.
        wanted = fused.POOL + 1
        while True:
            length = complete_until(pager.hits, wanted, exhausted=pager.exhausted)
            if length is None:
                with self.deps.trace.stage(Stage.HITS):
                    pager.extend(wanted)
                continue
            hits = pager.hits[:length]
            scored = self._score(self._places_of(hits) | places)
            lacking = fused.POOL - len(scored)
            if pager.exhausted and length == len(pager.hits):
                break
            # The margin covers the single precision of the index.
            if lacking <= 0 and hits[-1].score < scored[fused.POOL - 1].score - ROUNDING:
                break
            wanted = length + max(lacking, 1)
        self._seen = len(pager.hits) if pager.exhausted else None
        bound = scored[fused.POOL - 1].score if len(scored) >= fused.POOL else -inf
        bound = round(bound, SCORE_DECIMALS)
        seen = [hit for hit in hits if round(hit.score, SCORE_DECIMALS) >= bound]
        self._note_failures(seen, self._places_of(seen).union(named))
        return scored

    def score_following(self, chosen: Set[int], count: int) -> list[Candidate[int]]:
        """Return the `count` closest of the other places in their order, and maybe more after them.

        Vectors are read only where the index has hits that may be among them, and everywhere once
        it has no more hits.
        """
        pager, part, tail = self._pager, self.counted.part, self.counted.tail
        stored = (chunk.index for chunk in part.chunks.values() if chunk.embedded)
        places = {*stored, *range(tail, tail + len(self.tail))} - chosen
        while pager is not None and not pager.exhausted and count < len(places):
            near = self._places_of(pager.hits)
            seen = [place for place in places if place in near or place >= tail]
            lacking = count - len(seen)
            if lacking <= 0 and pager.hits:
                scored = sorted(self._score(seen), key=Candidate.order)
                # The margin covers the single precision of the index.
                bound = pager.hits[-1].score + ROUNDING
                if len(scored) >= count and scored[count - 1].score > bound:
                    return scored
            with self.deps.trace.stage(Stage.HITS):
                pager.extend(len(pager.hits) + max(lacking, 1))
        return sorted(self._score(places), key=Candidate.order)

    def _places_of(self, hits: Iterable[Hit]) -> set[int]:
        """Return the places of the hits that the reader may see."""
        chunks = self.counted.part.chunks
        return {chunks[hit.chunk_id].index for hit in hits if hit.chunk_id in chunks}

    def _score(self, places: Iterable[int]) -> list[Candidate[int]]:
        """Return the candidates at these places that reach the floor, most similar first."""
        tail, places = self.counted.tail, list(places)
        self._compare(places)
        found = [
            Candidate(
                key=place,
                document=0,
                index=place if place < tail else self.tail[place - tail].index,
                score=score,
                bm25=bm25,
                trained=self.trained,
                crossed=self.crossed,
            )
            for place, bm25 in zip(places, self.words.of_each(places), strict=True)
            if (score := self._scores[place]) is not None
            and (self.floor is None or reaches(score, self.floor))
        ]
        return sorted(found, key=lambda part: -part.score)

    def _compare(self, places: Iterable[int]) -> None:
        """Compute the similarity at these places from the stored vectors, each once."""
        part, tail, known = self.counted.part, self.counted.tail, self._scores
        hashes = {
            place: part.chunks[part.ids[place]].text_hash
            for place in places
            if place < tail and place not in known
        }
        self._changes = None
        vectors = self.deps.store.chunks.vectors(self.scope, [*hashes.values()]) if hashes else {}
        ranked = [place for place, text_hash in hashes.items() if text_hash in vectors]
        similarities = similarities_of(
            self.vector, [vectors[hashes[place]] for place in ranked], self.scope.profile.distance
        )
        known.update(dict.fromkeys(hashes))
        known.update(zip(ranked, similarities, strict=True))
        known.update((tail + n, part.score) for n, part in enumerate(self.tail))

    def read_texts(
        self, candidates: Sequence[Candidate[int]], *, word_states: bool
    ) -> dict[int, CandidateText]:
        ids, language_of = self.counted.part.ids, self.counted.language_of
        self._read([ids[one.key] for one in candidates if one.key in ids], word_states=word_states)
        texts = dict[int, CandidateText]()
        for key, parts in self._reveal(candidates).items():
            record = self._records.get(ids[key]) if key in ids else None
            stored = record.chunk.word_states if record and record.chunk else None
            if parts:
                states = stored or self.tail_states.get(parts[0].text_hash)
                text = "\n".join(part.text for part in parts)
                texts[key] = CandidateText(text, language_of(key), states)
        return texts

    def read_vectors(self, candidates: Sequence[Candidate[int]]) -> dict[int, Vector]:
        part, tail = self.counted.part, self.counted.tail
        hashes = {
            one.key: part.chunks[part.ids[one.key]].text_hash
            if one.key < tail
            else self.tail[one.key - tail].text_hash
            for one in candidates
        }
        self._changes = None
        stored = self.deps.store.chunks.vectors(self.scope, [*hashes.values()])
        vectors = {**stored, **self.tail_vectors}
        return {key: vectors[known] for key, known in hashes.items() if known in vectors}

    def verify(self, candidates: Sequence[Candidate[int]]) -> Iterator[Visible]:
        seen = self._reveal(candidates)
        for one in candidates:
            language = self.counted.language_of(one.key)
            yield from (
                replace(part, fused=one.fused, compared_language=language) for part in seen[one.key]
            )

    def _reveal(self, candidates: Sequence[Candidate[int]]) -> dict[int, list[Visible]]:
        """Return the visible part of each candidate; candidates that fail are left out."""
        part, tail, seen = self.counted.part, self.counted.tail, self._revealed
        unseen = [one for one in candidates if one.key not in seen]
        hits = [
            # The hash belongs to the text whose stored vector was compared.
            Hit(chunk, one.score, part.chunks[chunk].text_hash)
            for one in unseen
            if one.key < tail and (chunk := part.ids[one.key])
        ]
        self._read([hit.chunk_id for hit in hits if hit.chunk_id not in self._records])
        with self.deps.trace.stage(Stage.VERIFIED):
            outcome = verify(hits, self._records)
        self._failures.update({failed.chunk_id: failed for failed in outcome.failures})
        verified = {found.chunk.chunk_id: found for found in outcome.verified}
        for one in unseen:
            if one.key >= tail:
                seen[one.key] = [self.tail[one.key - tail]]
            else:
                found = verified.get(part.ids[one.key])
                seen[one.key] = reveal(found, self.scope) if found else []
        return {one.key: seen[one.key] for one in candidates}

    def _read(self, ids: Sequence[ChunkId], *, word_states: bool = False) -> None:
        if ids:
            store = self.deps.store
            with self.deps.trace.stage(Stage.VERIFIED):
                read = store.chunks.read(self.scope, ids, word_states=word_states)
                self._records.update(read)
                self._changes = next((record.changes for record in read.values()), None)

    def _note_failures(self, hits: Sequence[Hit], places: Iterable[int]) -> None:
        """Record the damage of the hits and places that were examined.

        Rows that cannot be trusted or found, and vectors that are missing, are left out of the
        result. A point in the index with another text is only repaired: the stored vector ranks
        its chunk.
        """
        part = self.counted.part
        others = [
            hit
            for hit in hits
            if hit.chunk_id not in part.chunks and hit.chunk_id not in part.unread
        ]
        self._read([hit.chunk_id for hit in others if hit.chunk_id not in self._records])
        outcome = verify(others, self._records)
        for failed in limit_to_scope(outcome, self._records, self.scope).failures:
            self._failures[failed.chunk_id] = failed
        for hit in hits:
            known = part.chunks.get(hit.chunk_id)
            if known is not None and known.text_hash != hit.text_hash:
                hashes = hit.text_hash, known.text_hash
                self._repairs[hit.chunk_id] = VerificationFailure(
                    FailureKind.STALE, hit.chunk_id, *hashes, hit.score
                )
        for place in places:
            if place < part.end and self._scores[place] is None:
                chunk = part.ids[place]
                text_hash = part.chunks[chunk].text_hash
                self._failures[chunk] = VerificationFailure(
                    FailureKind.STALE, chunk, text_hash, text_hash
                )


class ReadFetched(Fetched, frozen=True):
    """The failures of a fused search of a book."""

    repairs: frozenset[ChunkId] = frozenset()
    """Ids of the returned chunks whose points must be written again."""

    def counted(self) -> Fetched:
        kept = [failed for failed in self.failures if failed.chunk_id not in self.repairs]
        return Fetched([], kept)

    def skipped(self) -> tuple[Skipped, ...]:
        return self.counted().skipped()
