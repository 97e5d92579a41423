"""Fused search of the read part of a book: by words and by similarity, of visible chunks alone.

    counts of one revision, and the tail ──BM25──┐
                                                 ├─> candidates ──blend──> order ──verify──> result
    hits of the index ──stored vectors───────────┘

Candidates, order and scale are as in the search of a whole world. Whatever decides them comes from
chunks that this reader may see: the index only says which of these may be close. Their similarity
is computed from the stored vectors: a hit from ahead counts for nothing, and a wrong score in the
index can hide a chunk, but not move it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from math import inf
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.retrieval import fused
from truespan.retrieval.blend import Scale, scale_of
from truespan.retrieval.fetch import Fetched, HitPager, changes_in
from truespan.retrieval.pack import Packed
from truespan.retrieval.pipeline import Pipeline
from truespan.retrieval.query_vector import SCORE_DECIMALS, model_calibration
from truespan.retrieval.reading.words import ReadScores
from truespan.retrieval.stages import complete_until, reveal, verify
from truespan.types.answer import Shortlist
from truespan.types.bundle import Skipped
from truespan.types.chunk import ChunkRecord, DocumentLabel
from truespan.types.ids import ChunkId
from truespan.types.profile import reaches
from truespan.types.scope import Scope, admits
from truespan.types.telemetry import Stage
from truespan.types.trust import FailureKind, FusedScore, Hit, VerificationFailure, Visible
from truespan.types.vectors import Vector, similarities_of

ROUNDING = 2e-6
"""How far the single precision of an index may be off from the scores that count."""

MIN_STEP = 16
"""Candidates that are verified together at least, where the first ones do not suffice; each further
step takes twice as many."""

Select: TypeAlias = Callable[[list[Visible]], Packed | Shortlist]
"""Chooses from chunks by rank; says how many it lacks, and at which score it had enough."""


class Found(Struct, frozen=True):
    """What a reader may see of what was fetched, by rank, with the tail."""

    visible: list[Visible]
    fetched: Fetched

    def down_to(self, last: float | None) -> tuple[int, Fetched]:
        """Return how many chunks score at least as much as the last result, and what failed there.

        In a fused search, everything that was looked at counts.
        """
        if isinstance(self.fetched, ReadFetched):
            return len(self.visible), self.fetched.counted()
        least = -inf if last is None else round(last, SCORE_DECIMALS)
        seen = sum(round(part.score, SCORE_DECIMALS) >= least for part in self.visible)
        return seen, self.fetched.down_to(last)


class Candidate(Struct, frozen=True):
    """A stored chunk or a part of the tail, by its place, with all that ranks it."""

    place: int
    index: int
    score: float
    bm25: float
    blend: float | None = None


class FusedBookSearch(Struct, frozen=True):
    """One query against the read part of a book, by its words and by similarity."""

    pipeline: Pipeline
    scope: Scope
    vector: Vector
    floor: float | None
    tail: list[Visible]
    words: ReadScores
    weight: float
    wait_for_hits: Callable[[], HitPager] | None
    """Waits for the closest hits of the index, which was queried already. Without one, only chunks
    with a word of the query are candidates, and none follow."""
    _scores: dict[int, float | None] = field(default_factory=dict)
    """The similarity at each place; None where the vector is missing or damaged."""
    _records: dict[ChunkId, ChunkRecord] = field(default_factory=dict)
    _changes: list[int | None] = field(default_factory=list)
    """The change count of the world, if it came with the last read."""
    _failures: dict[ChunkId, VerificationFailure] = field(default_factory=dict)
    _repairs: dict[ChunkId, VerificationFailure] = field(default_factory=dict)
    _seen: list[int] = field(default_factory=list)
    """Number of points in the index at or above the floor, if it returned all of them."""

    def find(self, k: int, select: Select) -> Found:
        """Rank what may be among the best, and verify it in this order until there is enough."""
        mismatch = None
        if self.words.query.phrases:
            places = self._places_with_phrases()
            visible = self._rank_phrases(places, k, select)
            mismatch = None if places else fused.NO_PHRASE
        elif self.wait_for_hits is None:
            visible = self._find_words(k, select)
            mismatch = None if len(self.words.scores.places) else fused.NO_WORD
        else:
            visible = self._find_blended(self.wait_for_hits, k, select)
        only_repaired = self._repairs.keys() - self._failures.keys()
        failures = {**self._repairs, **self._failures}
        changes = self._changes[-1] if self._changes else None
        fetched = ReadFetched(
            [],
            list(failures.values()),
            changes,
            mismatch,
            self._seen[-1] if self._seen else None,
            repairs=frozenset(only_repaired),
        )
        return Found(visible, fetched)

    def _find_blended(
        self, wait_for_hits: Callable[[], HitPager], k: int, select: Select
    ) -> list[Visible]:
        """Rank the best by words and the closest, and then what follows by similarity."""
        words = self.words
        named = words.scores.top(fused.POOL, SCORE_DECIMALS)
        # Now, while the index searches.
        self._compare(named)
        with self.pipeline.trace.stage(Stage.HITS):
            pager = wait_for_hits()
        scored, hits = self._score_closest(pager, named)
        if pager.exhausted:
            self._seen.append(len(pager.hits))
        least = scored[fused.POOL - 1].score if len(scored) >= fused.POOL else None
        bound = -inf if least is None else _rounded(least)
        seen = [hit for hit in hits if _rounded(hit.score) >= bound]
        near = [
            words.part.chunks[hit.chunk_id].index
            for hit in seen
            if hit.chunk_id in words.part.chunks
        ]
        self._note_failures(seen, {*near, *named})
        close = [part for part in scored if _rounded(part.score) >= bound]
        scale = self._scale([part.score for part in close[: fused.POOL]], words.scores.best)
        chosen = {part.place for part in close}.union(named)
        candidates = [part for part in scored if part.place in chosen]
        visible: list[Visible] = []
        full = self._verify_best(visible, self._rank(candidates, scale), k, select)
        if full or least is None:
            return visible
        stored = (chunk.index for chunk in words.part.chunks.values() if chunk.embedded)
        places = {*stored, *(words.tail + n for n in range(len(self.tail)))} - chosen

        def follow(count: int) -> list[Candidate]:
            return self._score_following(pager, places, count)

        self._verify_best(visible, follow, max(k, len(visible)), select)
        return visible

    def _find_words(self, k: int, select: Select) -> list[Visible]:
        """Rank by words alone; similarity decides only what the floor leaves out."""
        scores = self.words.scores
        scale = self._scale([], scores.best)
        count = max(fused.POOL, k)
        while True:
            places = scores.top(min(count, fused.MAX_BY_WORDS), SCORE_DECIMALS)
            ordered = self._rank(self._score(places), scale)
            self._note_failures([], places)
            visible: list[Visible] = []
            full = self._verify_best(visible, ordered, k, select)
            if full or count >= min(len(scores.places), fused.MAX_BY_WORDS):
                return visible
            count *= 4

    def _places_with_phrases(self) -> list[int]:
        """Return the places whose text has every phrase of the query."""
        words = self.words
        places = words.with_phrases()[: fused.MAX_BY_WORDS]
        self._read([words.part.ids[place] for place in places if place < words.tail])

        def occurs(place: int) -> bool:
            if place >= words.tail:
                text = self.tail[place - words.tail].text
            else:
                record = self._records.get(words.part.ids[place])
                if record is None or record.chunk is None or not record.is_intact():
                    # Verifying it names what is wrong.
                    return True
                text = record.chunk.data.decode()
            return words.query.occurs_in(text, words.language)

        return list(filter(occurs, places))

    def _rank_phrases(self, places: Sequence[int], k: int, select: Select) -> list[Visible]:
        """Rank the chunks at places that have every phrase of the query."""
        scored = self._score(places)
        self._note_failures([], places)
        best = max((part.bm25 for part in scored), default=0.0)
        scale = self._scale([part.score for part in scored[: fused.POOL]], best)
        visible: list[Visible] = []
        self._verify_best(visible, self._rank(scored, scale), k, select)
        return visible

    def _score_closest(
        self, pager: HitPager, named: Iterable[int]
    ) -> tuple[list[Candidate], list[Hit]]:
        """Return the closest visible chunks, the `named` ones and the tail, and the hits seen.

        All that are as close as the last of the pool are among them, however many hits of other
        chunks there are.
        """
        deps, chunks = self.pipeline.deps, self.words.part.chunks
        places = {self.words.tail + number for number in range(len(self.tail))}.union(named)
        # One more than the pool shows where the pool ends, in nearly every search.
        wanted = fused.POOL + 1
        while True:
            length = complete_until(pager.hits, wanted, exhausted=pager.exhausted)
            if length is None:
                with deps.trace.stage(Stage.HITS):
                    pager.extend(wanted)
                continue
            hits = pager.hits[:length]
            near = {chunks[hit.chunk_id].index for hit in hits if hit.chunk_id in chunks}
            scored = self._score(near | places)
            lacking = fused.POOL - len(scored)
            if pager.exhausted and length == len(pager.hits):
                return scored, hits
            # The index computes in single precision, hence the margin.
            if lacking <= 0 and hits[-1].score < scored[fused.POOL - 1].score - ROUNDING:
                return scored, hits
            wanted = length + max(lacking, 1)

    def _score_following(self, pager: HitPager, places: Set[int], count: int) -> list[Candidate]:
        """Return the `count` closest of these places in their order, and maybe more after them.

        Vectors are read only where the index has hits that may be among them, and everywhere once
        it has no more hits.
        """
        chunks, tail = self.words.part.chunks, self.words.tail
        while not pager.exhausted and count < len(places):
            near = {chunks[hit.chunk_id].index for hit in pager.hits if hit.chunk_id in chunks}
            seen = [place for place in places if place in near or place >= tail]
            lacking = count - len(seen)
            if lacking <= 0 and pager.hits:
                scored = _by_similarity(self._score(seen))
                # The index computes in single precision, hence the margin.
                bound = pager.hits[-1].score + ROUNDING
                if len(scored) >= count and scored[count - 1].score > bound:
                    return scored
            with self.pipeline.trace.stage(Stage.HITS):
                pager.extend(len(pager.hits) + max(lacking, 1))
        return _by_similarity(self._score(places))

    def _score(self, places: Iterable[int]) -> list[Candidate]:
        """Return what is at these places and reaches the floor, by falling similarity."""
        words, tail, places = self.words, self.words.tail, list(places)
        self._compare(places)
        found = [
            Candidate(place, place if place < tail else self.tail[place - tail].index, score, bm25)
            for place, bm25 in zip(places, words.scores.of_each(places), strict=True)
            if (score := self._scores[place]) is not None
            and (self.floor is None or reaches(score, self.floor))
        ]
        return sorted(found, key=lambda part: -part.score)

    def _compare(self, places: Iterable[int]) -> None:
        """Compute the similarity at these places from the stored vectors, each once."""
        part, tail, known = self.words.part, self.words.tail, self._scores
        hashes = {
            place: part.chunks[part.ids[place]].text_hash
            for place in places
            if place < tail and place not in known
        }
        self._changes.clear()
        vectors = self.pipeline.store.vectors(self.scope, [*hashes.values()]) if hashes else {}
        ranked = [place for place, text_hash in hashes.items() if text_hash in vectors]
        similarities = similarities_of(
            self.vector,
            [vectors[hashes[place]] for place in ranked],
            self.scope.profile.distance,
        )
        known.update(dict.fromkeys(hashes))
        known.update(zip(ranked, similarities, strict=True))
        known.update((tail + n, part.score) for n, part in enumerate(self.tail))

    def _scale(self, closest: Sequence[float], best_words: float) -> Scale:
        """Return the scale of visible chunks; a calibration for readers is that of the model."""
        self._changes.clear()
        calibration = model_calibration(self.pipeline.store, self.scope, None)
        return scale_of(closest, best_words, self.words.scores.possible, calibration)

    def _rank(self, candidates: Iterable[Candidate], scale: Scale) -> list[Candidate]:
        """Return candidates with their blend, best first; ties by place."""
        blended = [
            replace(part, blend=scale.blend(self.weight, part.bm25, part.score))
            for part in candidates
        ]
        return sorted(blended, key=lambda part: (-(part.blend or 0.0), part.index))

    def _verify_best(
        self,
        visible: list[Visible],
        ordered: Sequence[Candidate] | Callable[[int], Sequence[Candidate]],
        k: int,
        select: Select,
    ) -> bool:
        """Add candidates to what is visible, from the best on; return whether there are enough.

        If `ordered` is a function, it returns at least as many as it is asked for, if there are.
        """
        done, size, step = 0, k, MIN_STEP
        last: Candidate | None = None
        while True:
            found = ordered(done + size) if callable(ordered) else ordered
            if not (following := _take(_after(found, last), size)):
                return False
            visible += self._reveal(following)
            last, done = following[-1], done + len(following)
            with self.pipeline.trace.stage(Stage.ENOUGH):
                selected = select(visible)
            if selected.last is not None:
                return True
            size, step = max(selected.missing, step), 2 * step

    def _reveal(self, candidates: Sequence[Candidate]) -> Iterator[Visible]:
        """Yield the candidates whose text is verified and visible, in their order."""
        words = self.words
        ids = {
            part.place: words.part.ids[part.place] for part in candidates if part.place < words.tail
        }
        hits = [
            # The hash is that of the text whose stored vector was compared.
            Hit(chunk, part.score, words.part.chunks[chunk].text_hash)
            for part in candidates
            if (chunk := ids.get(part.place))
        ]
        self._read(list(ids.values()))
        with self.pipeline.trace.stage(Stage.VERIFIED):
            outcome = verify(hits, self._records)
        self._failures.update({failed.chunk_id: failed for failed in outcome.failures})
        verified = {found.chunk.chunk_id: found for found in outcome.verified}
        for part in candidates:
            score = FusedScore(_rounded(part.bm25), part.blend)
            if part.place >= words.tail:
                yield replace(self.tail[part.place - words.tail], fused=score)
            elif found := verified.get(ids[part.place]):
                yield from (replace(seen, fused=score) for seen in reveal(found, self.scope))

    def _read(self, ids: Sequence[ChunkId]) -> None:
        if unread := [chunk for chunk in ids if chunk not in self._records]:
            with self.pipeline.trace.stage(Stage.VERIFIED):
                read = self.pipeline.store.read_chunks(self.scope, unread)
                self._records.update(read)
                self._changes.append(changes_in(read))

    def _note_failures(self, hits: Sequence[Hit], places: Iterable[int]) -> None:
        """Remember what is wrong with hits and places that were looked at.

        Rows that cannot be trusted or found, and vectors that are missing, are left out of the
        result. A point in the index with another text is only repaired: the stored vector ranks
        its chunk.
        """
        part = self.words.part
        others = [
            hit
            for hit in hits
            if hit.chunk_id not in part.chunks and hit.chunk_id not in part.unread
        ]
        self._read([hit.chunk_id for hit in others])
        for failed in verify(others, self._records).failures:
            record = self._records.get(failed.chunk_id)
            # An index that ignores the scope may return what belongs to other documents.
            if record is None or self._is_of_book(record.document):
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

    def _is_of_book(self, document: DocumentLabel) -> bool:
        scope = self.scope
        return admits(scope.documents, document.number) and document.revision == scope.revision


class ReadFetched(Fetched, frozen=True):
    """What failed in a fused search of a book; what is only repaired was not left out."""

    repairs: frozenset[ChunkId] = frozenset()

    def counted(self) -> Fetched:
        kept = [failed for failed in self.failures if failed.chunk_id not in self.repairs]
        return Fetched([], kept)

    def skipped(self) -> tuple[Skipped, ...]:
        return self.counted().skipped()


def _rounded(score: float) -> float:
    return round(score, SCORE_DECIMALS)


def _after(ordered: Sequence[Candidate], last: Candidate | None) -> Sequence[Candidate]:
    """Return the candidates after the last one that was tried.

    An index that lacks points can name a chunk too late, which then comes before the last one. It
    is left out: nothing is tried twice, and the order stays.
    """
    if last is None:
        return ordered
    places = [part.place for part in ordered]
    return ordered[places.index(last.place) + 1 :]


def _take(ordered: Sequence[Candidate], count: int) -> Sequence[Candidate]:
    """Return the first candidates, and those with the scores of the last: copies are results
    together."""
    while 0 < count < len(ordered) and _scores(ordered[count]) == _scores(ordered[count - 1]):
        count += 1
    return ordered[:count]


def _scores(part: Candidate) -> tuple[float, float]:
    return part.bm25, _rounded(part.score)


def _by_similarity(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda part: (-_rounded(part.score), part.index))
