"""Fused search: rank by the words of a query and by similarity, blended into one order.

    words of the store ──BM25──┐
                               ├─> candidates ──blend──> order ──verify──> result
    hits of the index ─────────┘

Candidates are the best by words and the best by similarity, in scope and at or above the floor. The
floor applies to similarity: no chunk below it is returned, however well its words match. In the
mode `keyword`, and where the query has phrases in quotes, words alone name the candidates.

Candidates are ranked before their text is read, and verified in that order until there are enough.
One that cannot be verified is skipped; it changes neither the order nor the scale of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.retrieval.blend import Scale, scale_of
from truespan.retrieval.fetch import (
    SLACK,
    CountMissing,
    Fetched,
    HitPager,
    changes_in,
    drop_invalid_hits,
    fetch_pages,
    read_chunks,
)
from truespan.retrieval.query_vector import SCORE_DECIMALS, model_calibration
from truespan.retrieval.snapshot import RetrievalDeps
from truespan.retrieval.stages import complete_until, keep_in_scope, verify
from truespan.retrieval.word_scores import WordScores, word_scores
from truespan.types.bundle import Notice
from truespan.types.chunk import ChunkRecord
from truespan.types.ids import ChunkId
from truespan.types.request import Mode
from truespan.types.scope import Scope, World
from truespan.types.telemetry import Stage
from truespan.types.trust import FusedScore, Hit, VerificationFailure, Verified
from truespan.types.vectors import Vector
from truespan.words.query import WordQuery

POOL = 30
"""How many candidates words contribute, and how many similarity does. Callers cannot change it."""
NO_WORD = Notice(
    "no_word_matches", "No word of the query occurs in the passages that were searched."
)
NO_PHRASE = Notice(
    "no_phrase_matches",
    "No passage that was searched contains everything that the query has in quotes.",
)
MAX_BY_WORDS = 2000
"""Most chunks that are looked at where words alone name the candidates."""


class FusedFetched(Fetched, frozen=True):
    """The best candidates with their blend and, if those are too few, what follows by similarity.

    `candidates` are the ids of the former, verified or not.
    """

    candidates: frozenset[ChunkId] = frozenset()
    missing: int = 0
    """How many more chunks are needed at least."""
    past: bool = False

    def down_to(self, last: float | None) -> Fetched:
        """Return all candidates, and what follows them down to the score of the last result."""
        if last is None or not self.past:
            return self
        bound = _rounded(last)

        def counts(chunk_id: ChunkId, score: float) -> bool:
            return chunk_id in self.candidates or _rounded(score) >= bound

        return Fetched(
            [found for found in self.verified if counts(found.chunk.chunk_id, found.score)],
            [failed for failed in self.failures if counts(failed.chunk_id, failed.score)],
        )


class Candidate(Struct, frozen=True):
    """A hit with all that ranks it, before its text is read."""

    hit: Hit
    document: int
    index: int
    bm25: float
    blend: float = 0.0


def fetch_fused(
    deps: RetrievalDeps,
    scope: Scope,
    world: World,
    vector: Vector,
    query: str,
    *,
    k: int,
    floor: float | None,
    missing: CountMissing,
    mode: Mode = Mode.HYBRID,
) -> Fetched:
    """Fetch as `fetch_by_similarity` does, and give each chunk the `fused` score to rank by.

    `world` is the state that is read, `query` the text whose words count, `vector` its embedding.
    In the mode `keyword` similarity has no weight, and every chunk has a word of the query.
    Chunks past the candidates follow by similarity, so that requesting more never reorders.
    """
    if scope.position is not None:
        # These counts are of whole revisions; what is rare in them would reveal unread text.
        raise ValueError("A reader is searched for by 'FusedBookSearch'.")
    with deps.trace.stage(Stage.WORDS):
        words = word_scores(deps.store, scope, world, query)
        ids = words.top(POOL, SCORE_DECIMALS) if mode is Mode.HYBRID else []
    weight = 1.0 if mode is Mode.KEYWORD else deps.fused_weight
    search = _FusedSearch(
        deps=deps, scope=scope, vector=vector, floor=floor, words=words, weight=weight, world=world
    )
    if words.query.phrases:
        return search.fetch_phrases(k, missing)
    if mode is Mode.KEYWORD:
        return search.fetch_words(k, missing)
    return search.fetch_blended(ids, k, missing)


class _FusedSearch(Struct, frozen=True):
    """One fused search: what it asks for, what was read, and which hits failed before ranking."""

    deps: RetrievalDeps
    scope: Scope
    vector: Vector
    floor: float | None
    words: WordScores
    weight: float
    world: World
    records: dict[ChunkId, ChunkRecord] = field(default_factory=dict)
    failures: dict[ChunkId, VerificationFailure] = field(default_factory=dict)
    changes: list[int | None] = field(default_factory=list)
    """The change count of the world, if it came with the last read."""

    def fetch_blended(self, ids: Sequence[ChunkId], k: int, missing: CountMissing) -> Fetched:
        """Fetch `ids`, the best by words, and the closest, then what follows by similarity."""
        deps = self.deps
        named: list[Hit] = []

        def first(limit: int) -> list[Hit]:
            """Query for the closest hits and, in the same request, for what words contributed."""
            hits, found = self._search(limit, ids)
            named.extend(found)
            return hits

        with deps.trace.stage(Stage.HITS):
            limit = max(POOL, k) + SLACK
            pager = HitPager(
                deps.index, self.scope, self.vector, self.floor, limit=limit, first=first
            )
        near = self._closest(pager)
        least = _rounded(near[POOL - 1].hit.score) if len(near) >= POOL else None
        close = [part for part in near if least is None or _rounded(part.hit.score) >= least]
        scale = self._scale([part.hit.score for part in close[:POOL]], self.words.best)
        known = {part.hit.chunk_id for part in close}
        others = self._candidates([hit for hit in named if hit.chunk_id not in known])
        fetched = self._verify_best(self._rank([*close, *others], scale), k, missing)
        returned = {hit.chunk_id for hit in (*named, *pager.hits)}
        fetched = replace(fetched, unreturned=sum(id not in returned for id in ids))
        if fetched.missing <= 0:
            return fetched
        return self._follow(fetched, pager, max(POOL, k), missing)

    def fetch_words(self, k: int, missing: CountMissing) -> Fetched:
        """Fetch the best by words alone; similarity decides only what the floor leaves out."""
        hits: dict[ChunkId, Hit] = {}
        requested: set[ChunkId] = set()
        count = max(POOL, k)
        while True:
            with self.deps.trace.stage(Stage.WORDS):
                ids = self.words.top(min(count, MAX_BY_WORDS), SCORE_DECIMALS)
            with self.deps.trace.stage(Stage.HITS):
                _, named = self._search(0, [id for id in ids if id not in requested])
            requested.update(ids)
            hits |= {hit.chunk_id: hit for hit in named}
            scale = self._scale([], self.words.best)
            ordered = self._rank(self._candidates(list(hits.values())), scale)
            fetched = self._verify_best(ordered, k, missing)
            exhausted = count >= min(len(self.words), MAX_BY_WORDS)
            if exhausted or fetched.missing <= 0:
                unreturned = len(requested) - len(hits)
                mismatch = None if ids else NO_WORD
                return replace(fetched, mismatch=mismatch, unreturned=unreturned)
            count *= 4

    def fetch_phrases(self, k: int, missing: CountMissing) -> Fetched:
        """Fetch the chunks whose verified text has every phrase of the query, blended."""
        store, query = self.deps.store, self.words.query
        with self.deps.trace.stage(Stage.WORDS):
            words = self.words.with_phrases(store)
            ids = words.top(MAX_BY_WORDS, SCORE_DECIMALS)
            self.records.update(read_chunks(self.deps, self.scope, ids))
            found = [id for id in ids if _occurs(query, self.records.get(id))]
        with self.deps.trace.stage(Stage.HITS):
            _, named = self._search(0, found)
        candidates = self._candidates(named)
        best = max((part.bm25 for part in candidates), default=0.0)
        scale = self._scale([part.hit.score for part in candidates[:POOL]], best)
        fetched = self._verify_best(self._rank(candidates, scale), k, missing)
        unreturned, mismatch = len(found) - len(named), None if found else NO_PHRASE
        return replace(fetched, mismatch=mismatch, unreturned=unreturned)

    def _search(self, limit: int, ids: Sequence[ChunkId]) -> tuple[list[Hit], list[Hit]]:
        """Return the closest hits, and those among `ids`; an index may add others."""
        if not limit and not ids:
            return [], []
        hits, found = self.deps.index.search_with(
            self.scope, self.vector, limit=limit, floor=self.floor, ids=ids
        )
        requested = frozenset(ids)
        named = drop_invalid_hits(found, self.floor)
        return hits, [hit for hit in named if hit.chunk_id in requested]

    def _closest(self, pager: HitPager) -> list[Candidate]:
        """Return the closest candidates by falling similarity, as many as the pool has at least."""
        wanted = POOL
        while True:
            length = complete_until(pager.hits, wanted, exhausted=pager.exhausted)
            if length is None:
                with self.deps.trace.stage(Stage.HITS):
                    pager.extend(wanted)
                continue
            near = self._candidates(pager.hits[:length])
            if len(near) >= POOL or (pager.exhausted and length == len(pager.hits)):
                return near
            wanted = length + POOL - len(near)

    def _candidates(self, hits: Sequence[Hit]) -> list[Candidate]:
        """Return the hits in scope with their word scores, in the same order.

        Where a hit is, the store says. One that has no counted words may be out of scope or
        damaged: it is verified at once, since only its row can tell.
        """
        words = self.words
        self.changes.clear()
        with self.deps.trace.stage(Stage.VERIFIED):
            places = words.layout.places_of_ids(
                self.deps.store, self.scope, [hit.chunk_id for hit in hits]
            )
            scores = dict(zip(places, words.scores.of_each(list(places.values())), strict=True))
        others = {
            found.chunk.chunk_id: found
            for found in self._verify([hit for hit in hits if hit.chunk_id not in places])
        }
        candidates: list[Candidate] = []
        for hit in hits:
            place, found = places.get(hit.chunk_id), others.get(hit.chunk_id)
            if place is not None and words.extent.inside[place]:
                ref, index = words.layout.ref(place)
                candidates.append(Candidate(hit, ref.document, index, scores[hit.chunk_id]))
            elif found is not None:
                candidates.append(Candidate(hit, found.document.number, found.chunk.index, 0.0))
        return candidates

    def _scale(self, closest: Sequence[float], best_words: float) -> Scale:
        self.changes.clear()
        calibration = model_calibration(self.deps.store, self.scope, self.world)
        return scale_of(closest, best_words, self.words.scores.possible, calibration)

    def _rank(self, candidates: Iterable[Candidate], scale: Scale) -> list[Candidate]:
        """Return candidates with their blend, best first; ties by document and place."""
        blended = [
            replace(part, blend=scale.blend(self.weight, part.bm25, part.hit.score))
            for part in candidates
        ]
        return sorted(blended, key=lambda part: (-part.blend, part.document, part.index))

    def _verify_best(
        self, ordered: Sequence[Candidate], k: int, missing: CountMissing
    ) -> FusedFetched:
        """Verify candidates from the best on until `missing` returns nothing."""
        verified: list[Verified] = []
        start, end = 0, k
        while True:
            # Copies have the same scores, and are results together.
            while 0 < end < len(ordered) and _scores(ordered[end]) == _scores(ordered[end - 1]):
                end += 1
            part = {found.hit.chunk_id: found for found in ordered[start:end]}
            for found in self._verify([candidate.hit for candidate in part.values()]):
                candidate = part[found.chunk.chunk_id]
                score = FusedScore(_rounded(candidate.bm25), candidate.blend)
                verified.append(replace(found, fused=score))
            with self.deps.trace.stage(Stage.ENOUGH):
                still = missing(verified, -1.0)
            if still <= 0 or end >= len(ordered):
                break
            start, end = end, end + still
        ids = [candidate.hit.chunk_id for candidate in ordered]
        return FusedFetched(
            verified,
            list(self.failures.values()),
            self.changes[-1] if self.changes else None,
            candidates=frozenset([*ids, *self.failures]),
            missing=still,
        )

    def _verify(self, hits: Sequence[Hit]) -> list[Verified]:
        """Return the hits whose text is verified and in scope; remember those that fail."""
        with self.deps.trace.stage(Stage.VERIFIED):
            unread = [hit.chunk_id for hit in hits if hit.chunk_id not in self.records]
            if unread:
                read = read_chunks(self.deps, self.scope, unread)
                self.records.update(read)
                self.changes.append(changes_in(read))
            outcome = verify(hits, self.records)
        self.failures.update({failed.chunk_id: failed for failed in outcome.failures})
        return keep_in_scope(outcome.verified, self.scope)

    def _follow(
        self, fetched: FusedFetched, pager: HitPager, wanted: int, missing: CountMissing
    ) -> Fetched:
        """Add what follows the candidates by similarity, without a blend."""
        past: list[Verified] = []

        def count_missing(verified: list[Verified], seen_down_to: float) -> int:
            nonlocal past
            past = [
                replace(found, fused=FusedScore(_rounded(self._bm25(found)), None))
                for found in keep_in_scope(verified, self.scope)
                if found.chunk.chunk_id not in fetched.candidates
            ]
            return missing([*fetched.verified, *past], seen_down_to)

        pages = fetch_pages(
            self.deps, self.scope, pager, k=wanted, missing=count_missing, records=self.records
        )
        failures = {failed.chunk_id: failed for failed in (*fetched.failures, *pages.failures)}
        return FusedFetched(
            [*fetched.verified, *past],
            list(failures.values()),
            pages.changes,
            seen=pages.seen,
            unreturned=fetched.unreturned,
            candidates=fetched.candidates,
            past=bool(past),
        )

    def _bm25(self, found: Verified) -> float:
        document = found.document
        return self.words.of(document.number, document.revision, found.chunk.index)


def _occurs(query: WordQuery, record: ChunkRecord | None) -> bool:
    """Return whether the text of a chunk has every phrase of a query.

    One that cannot be trusted counts as if it had: verifying it then names what is wrong.
    """
    if record is None or record.chunk is None or not (record.intact and record.labels_intact):
        return True
    return query.occurs_in(record.chunk.data.decode(), record.document.language)


def _scores(part: Candidate) -> tuple[float, float]:
    return part.bm25, _rounded(part.hit.score)


def _rounded(score: float) -> float:
    return round(score, SCORE_DECIMALS)
