"""Fused search: rank by the words of a query and by similarity, blended into one order.

    words of the store ──BM25──┐
                               ├─> candidates ──verify──> blend ──> order
    hits of the index ─────────┘

Candidates are the best by words and the best by similarity, in scope and at or above the floor. The
floor applies to similarity: no chunk below it is returned, however well its words match.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.retrieval.fetch import (
    SLACK,
    CountMissing,
    Fetched,
    HitPager,
    drop_invalid_hits,
    fetch_pages,
)
from truespan.retrieval.query_vector import SCORE_DECIMALS
from truespan.retrieval.snapshot import RetrievalDeps
from truespan.retrieval.stages import reveal, verify
from truespan.retrieval.word_scores import WordScores, word_scores
from truespan.types.chunk import Vector
from truespan.types.ids import ChunkId
from truespan.types.request import Mode
from truespan.types.scope import Scope, Unlimited, World
from truespan.types.telemetry import Stage
from truespan.types.trust import FusedScore, Hit, VerificationFailure, Verified

POOL = 100
"""How many candidates words contribute, and how many similarity does. Callers cannot change it."""


class FusedFetched(Fetched, frozen=True):
    """The candidates with their blend, and what follows them by similarity.

    `least` is the similarity down to which candidates were taken, None for all there are; `named`
    are the candidates that words contributed.
    """

    least: float | None = None
    named: frozenset[ChunkId] = frozenset()
    past: bool = False

    def down_to(self, last: float | None) -> Fetched:
        """Return all candidates, and what follows them down to the score of the last result."""
        if last is None:
            return self
        bound = _rounded(last) if self.past else math.inf

        def is_candidate(failed: VerificationFailure) -> bool:
            reached = self.least is None or _rounded(failed.score) >= min(self.least, bound)
            return reached or failed.chunk_id in self.named

        return Fetched(
            [
                found
                for found in self.verified
                if (found.fused and found.fused.blend is not None) or _rounded(found.score) >= bound
            ],
            list(filter(is_candidate, self.failures)),
        )


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
    mode: Mode = Mode.AUTO,
) -> Fetched:
    """Fetch as `fetch_by_similarity` does, and give each chunk the `fused` score to rank by.

    `world` is the state that is read, `query` the text whose words count, `vector` its embedding.
    In the mode `words` similarity has no weight.
    Chunks past the candidates follow by similarity, so that requesting more never reorders.
    """
    if scope.position is not None:
        # These counts are of whole revisions; what is rare in them would reveal unread text.
        raise ValueError("A reader is searched for by 'FusedBookSearch'.")
    wanted = max(POOL, k)
    with deps.trace.stage(Stage.WORDS):
        words = word_scores(deps.store, scope, world, query)
        ids = words.top(POOL, SCORE_DECIMALS)
    weight = 1.0 if mode is Mode.WORDS else deps.fused_weight
    blend = _Blend(weight, words, words.best)

    named: list[Hit] = []
    requested = frozenset(ids)

    def first(limit: int) -> list[Hit]:
        """Query for the closest hits and, in the same request, for what words contributed."""
        hits, found = deps.index.search_with(scope, vector, limit=limit, floor=floor, ids=ids)
        named.extend(hit for hit in drop_invalid_hits(found, floor) if hit.chunk_id in requested)
        return hits

    with deps.trace.stage(Stage.HITS):
        pager = HitPager(deps.index, scope, vector, floor, limit=wanted + SLACK, first=first)
    with deps.trace.stage(Stage.VERIFIED):
        named_ids = [hit.chunk_id for hit in named]
        records = dict(deps.store.read_chunks(scope, named_ids)) if named_ids else {}
        by_words = verify(named, records)
    in_scope_by_words = _in_scope(by_words.verified, scope)
    pool = _Pool()

    def missing_from_pool(verified: list[Verified], seen_down_to: float) -> int:
        nonlocal pool
        pool = _fill_pool(_in_scope(verified, scope), in_scope_by_words, blend)
        return pool.lacking or missing([*pool.blended, *pool.past], seen_down_to)

    near = fetch_pages(deps, scope, pager, k=wanted, missing=missing_from_pool, records=records)
    if pool.past and missing(pool.blended, -1.0) <= 0:
        # How far past the candidates was fetched depends on what had to be skipped.
        pool = replace(pool, past=[])
    failures = {failed.chunk_id: failed for failed in (*near.failures, *by_words.failures)}
    return FusedFetched(
        [*pool.blended, *pool.past],
        list(failures.values()),
        pool.least,
        frozenset(named_ids),
        past=bool(pool.past),
    )


class _Blend(Struct, frozen=True):
    """How two scores become one. `best` is the highest word score in scope."""

    weight: float
    words: WordScores
    best: float

    def score(self, found: Verified, scale: Scale | None) -> Verified:
        """Return a candidate with its blend.

        A chunk that follows the candidates has no scale and no blend.
        """
        document = found.document
        bm25 = self.words.of(document.number, document.revision, found.chunk.index)
        blend = None if scale is None else scale.blend(self.weight, bm25, found.score)
        return replace(found, fused=FusedScore(_rounded(bm25), blend))


class Scale(Struct, frozen=True):
    """What the scores of candidates are measured against: the closest, and the best by words.

    All three are of chunks that the caller may see, so that nothing else decides an order.
    """

    lowest: float
    highest: float
    best_words: float

    def blend(self, weight: float, bm25: float, similarity: float) -> float:
        """Return one score for two; words count for `weight` of it."""
        by_words = bm25 / self.best_words if self.best_words else 0.0
        by_similarity = scale_between(similarity, self.lowest, self.highest)
        return _rounded(weight * by_words + (1 - weight) * by_similarity)


def scale_of(similarities: Sequence[float], best_words: float) -> Scale:
    """Return the scale of the closest chunks, given by falling similarity."""
    lowest = similarities[min(POOL, len(similarities)) - 1] if similarities else 0.0
    return Scale(lowest, similarities[0] if similarities else 0.0, best_words)


class _Pool(Struct, frozen=True):
    """The candidates with their blend, and the chunks that follow them.

    `lacking` is how many of the closest are still to be fetched, `least` the similarity where they
    end.
    """

    blended: list[Verified] = field(default_factory=list)
    past: list[Verified] = field(default_factory=list)
    lacking: int = POOL
    least: float | None = None


def _fill_pool(near: list[Verified], by_words: list[Verified], blend: _Blend) -> _Pool:
    """Take the best by similarity, ties at the end included, and all that words contributed."""
    near = sorted(near, key=lambda found: -found.score)
    least = _rounded(near[POOL - 1].score) if len(near) >= POOL else None
    close = [found for found in near if least is None or _rounded(found.score) >= least]
    known = {found.chunk.chunk_id for found in close}
    candidates = close + [found for found in by_words if found.chunk.chunk_id not in known]
    known.update(found.chunk.chunk_id for found in candidates)
    scale = scale_of([found.score for found in close], blend.best)
    return _Pool(
        [blend.score(found, scale) for found in candidates],
        [blend.score(found, None) for found in near if found.chunk.chunk_id not in known],
        max(0, POOL - len(near)),
        least,
    )


def scale_between(score: float, lowest: float, highest: float) -> float:
    """Return where a similarity lies between two others: 0 at or below the lower, 1 at the upper.

    A candidate that only words contributed may lie below; how far does not matter.
    """
    if highest <= lowest:
        return 1.0 if score >= highest else 0.0
    return min(max((score - lowest) / (highest - lowest), 0.0), 1.0)


def _in_scope(verified: Sequence[Verified], scope: Scope) -> list[Verified]:
    """Keep what the scope allows: an index that is wrong must not even influence the order."""
    if isinstance(scope.documents, Unlimited) and scope.chapter is scope.section is None:
        return list(verified)
    return [found for found in verified if reveal(found, scope)]


def _rounded(score: float) -> float:
    return round(score, SCORE_DECIMALS)
