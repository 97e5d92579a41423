"""Fused search: the words of a query and its similarity, blended into one order.

    words of the store ──BM25──┐
                               ├─> candidates ──verify──> blend ──> order
    hits of the index ─────────┘

Candidates are the best by words and the best by similarity, in scope and at or above the floor. The
floor is one of similarities: no chunk below it comes back, however well its words match.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from truespan.errors import InvalidSettings
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import TrustedStore, VectorIndex
from truespan.retrieval.bm25 import WordScores, word_scores
from truespan.retrieval.fetch import SLACK, Gathered, HitPager, admissible, gather, gather_from
from truespan.retrieval.query_vector import SCORE_DECIMALS
from truespan.retrieval.stages import reveal, verify
from truespan.types.chunk import Vector
from truespan.types.ids import ChunkId
from truespan.types.scope import Scope, Unlimited, World
from truespan.types.telemetry import Stage
from truespan.types.trust import Hit, VerificationFailure, Verified
from truespan.types.words import FUSED_WEIGHT, FusedScore

POOL = 100
"""How many candidates words give and similarity gives; not for the caller to change."""


def fetch_verified(
    store: TrustedStore,
    index: VectorIndex,
    scope: Scope,
    world: World,
    vector: Vector,
    query: str,
    *,
    k: int,
    floor: float | None,
    missing: Callable[[list[Verified], float], int],
    weight: float | None,
    course: RequestTrace = NULL_OBSERVER,
) -> Gathered:
    """Gather by similarity alone or, where words have a weight, by these as well."""
    if weight is None:
        return gather(store, index, scope, vector, k=k, floor=floor, missing=missing, course=course)
    return gather_fused(
        store,
        index,
        scope,
        world,
        vector,
        query,
        k=k,
        floor=floor,
        missing=missing,
        weight=weight,
        course=course,
    )


def gather_fused(
    store: TrustedStore,
    index: VectorIndex,
    scope: Scope,
    world: World,
    vector: Vector,
    query: str,
    *,
    k: int,
    floor: float | None,
    missing: Callable[[list[Verified], float], int],
    weight: float = FUSED_WEIGHT,
    course: RequestTrace = NULL_OBSERVER,
) -> Gathered:
    """Gather as `gather` does, each chunk with its `fused` score, by which `rank` orders.

    `world` is the state that is looked at, as `in_one_state` gives it; `query` the text whose words
    count, `vector` what it was embedded as. `missing` is asked as by `gather`. Past the candidates
    that were blended, chunks follow by similarity, so that asking for more never reorders.

    Raises:
        InvalidSettings: the scope is a reader's.
    """
    if scope.position is not None:
        # How rare a word is in a book tells of what lies ahead.
        raise InvalidSettings("Fused search is not for readers.")
    with course.stage(Stage.WORDS):
        found = word_scores(store, scope, world, query)
        ids = found.top(POOL, SCORE_DECIMALS)
    blend = _Blend(weight, found, found.best)
    with course.stage(Stage.HITS):
        supply, named = _asked(index, scope, vector, floor, ids, max(POOL, k))
    with course.stage(Stage.VERIFIED):
        records = dict(store.read_chunks(scope, [hit.chunk_id for hit in named])) if named else {}
        worded = verify(named, records)

    pool = _Pool()
    brought = _in_scope(worded.verified, scope)

    def wanting(verified: list[Verified], unseen: float) -> int:
        nonlocal pool
        pool = _pool(_in_scope(verified, scope), brought, blend)
        return pool.lacking or missing([*pool.blended, *pool.past], unseen)

    close = gather_from(
        store, scope, supply, k=max(POOL, k), missing=wanting, records=records, course=course
    )
    if pool.past and missing(pool.blended, -1.0) <= 0:
        # How far past the candidates was fetched depends on what had to be passed over.
        pool = replace(pool, past=[])
    flaws = {flaw.chunk_id: flaw for flaw in (*close.flaws, *worded.flaws)}
    return FusedGathered(
        [*pool.blended, *pool.past],
        list(flaws.values()),
        pool.least,
        frozenset(hit.chunk_id for hit in named),
        past=bool(pool.past),
    )


@dataclass(frozen=True, slots=True)
class FusedGathered(Gathered):
    """What was blended, and what follows it by similarity.

    `least` is the similarity down to which candidates were taken, None for all there are; `named`
    are those that words brought.
    """

    least: float | None = None
    named: frozenset[ChunkId] = frozenset()
    past: bool = False

    def down_to(self, last: float | None) -> Gathered:
        """Return all candidates, and what follows them down to the score of the last result."""
        if last is None:
            return self
        bound = round(last, SCORE_DECIMALS) if self.past else math.inf
        return Gathered(
            [one for one in self.verified if _blended(one) or _rounded(one.score) >= bound],
            [flaw for flaw in self.flaws if self._is_candidate(flaw, bound)],
        )

    def _is_candidate(self, flaw: VerificationFailure, bound: float) -> bool:
        reached = self.least is None or _rounded(flaw.score) >= min(self.least, bound)
        return reached or flaw.chunk_id in self.named


@dataclass(frozen=True, slots=True)
class _Blend:
    """How two scores become one. `best` is the highest score of words in scope."""

    weight: float
    words: WordScores
    best: float

    def blended(self, one: Verified, lowest: float, highest: float) -> Verified:
        """Return a candidate with its blend; the other two are the ends of the closest ones."""
        bm25 = self._bm25(one)
        said = bm25 / self.best if self.best else 0.0
        near = placed_between(one.score, lowest, highest)
        blend = self.weight * said + (1 - self.weight) * near
        return replace(one, fused=FusedScore(_rounded(bm25), _rounded(blend)))

    def following(self, one: Verified) -> Verified:
        """Return a chunk that is merely near, without a blend."""
        return replace(one, fused=FusedScore(_rounded(self._bm25(one)), None))

    def _bm25(self, one: Verified) -> float:
        document = one.document
        return self.words.of(document.number, document.revision, one.chunk.index)


@dataclass(frozen=True, slots=True)
class _Pool:
    """Candidates with their blend, and what is merely near.

    `lacking` says how many of the closest are still to be fetched, `least` where they end.
    """

    blended: list[Verified] = field(default_factory=list)
    past: list[Verified] = field(default_factory=list)
    lacking: int = POOL
    least: float | None = None


def _pool(near: list[Verified], worded: list[Verified], blend: _Blend) -> _Pool:
    """Take the best by similarity, ties at the end included, and all that words brought."""
    near = sorted(near, key=lambda one: -one.score)
    least = _rounded(near[POOL - 1].score) if len(near) >= POOL else None
    close = [one for one in near if least is None or _rounded(one.score) >= least]
    known = {one.chunk.chunk_id for one in close}
    chosen = close + [one for one in worded if one.chunk.chunk_id not in known]
    known.update(one.chunk.chunk_id for one in chosen)
    highest = close[0].score if close else 0.0
    lowest = close[min(POOL, len(close)) - 1].score if close else 0.0
    return _Pool(
        [blend.blended(one, lowest, highest) for one in chosen],
        [blend.following(one) for one in near if one.chunk.chunk_id not in known],
        max(0, POOL - len(near)),
        least,
    )


def placed_between(score: float, lowest: float, highest: float) -> float:
    """Return where a similarity lies between two others: 0 at or below the lower, 1 at the upper.

    What only words brought may lie below; how far says nothing.
    """
    if highest <= lowest:
        return 1.0 if score >= highest else 0.0
    return min(max((score - lowest) / (highest - lowest), 0.0), 1.0)


def _asked(
    index: VectorIndex,
    scope: Scope,
    vector: Vector,
    floor: float | None,
    ids: Sequence[ChunkId],
    wanted: int,
) -> tuple[HitPager, list[Hit]]:
    """Ask the index for the closest and, in the same request, for what words brought."""
    named: list[Hit] = []
    wanted_ids = frozenset(ids)

    def both(limit: int) -> list[Hit]:
        hits, found = index.search_with(scope, vector, limit=limit, floor=floor, ids=ids)
        named.extend(hit for hit in admissible(found, floor) if hit.chunk_id in wanted_ids)
        return hits

    return HitPager(index, scope, vector, floor, limit=wanted + SLACK, first=both), named


def _in_scope(verified: Sequence[Verified], scope: Scope) -> list[Verified]:
    """Keep what the scope allows: an index that is wrong must not even decide the order."""
    if isinstance(scope.documents, Unlimited) and scope.chapter is scope.section is None:
        return list(verified)
    return [one for one in verified if reveal(one, scope)]


def _blended(one: Verified) -> bool:
    return one.fused is not None and one.fused.blend is not None


def _rounded(score: float) -> float:
    return round(score, SCORE_DECIMALS)
