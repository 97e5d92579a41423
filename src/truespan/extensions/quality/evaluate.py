"""Run golden queries through a search function and judge the results.

An evaluation contains queries, names, scores and metrics, and never document text: phrases are
counted, not repeated. Search times are reported but do not count for equality.

The metrics use the formulas of trec_eval, so that they can be compared with published numbers:
precision divides by k even if fewer documents were returned, gains are the grades themselves, and
unjudged documents count as irrelevant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum, log2

from msgspec import Struct
from msgspec.structs import replace

from truespan.core.cancel import check_cancelled
from truespan.errors import Interrupted, InvalidArgument, TruespanError
from truespan.extensions.quality.golden import (
    Expected,
    GoldenQuery,
    normalize_text,
    question_digest,
)
from truespan.types.bundle import Notice

NDCG_CUT = 10


class QueryMetrics(Struct, frozen=True):
    """Metrics of one query; None for a metric that does not apply.

    A query with expected documents has all but `phrase_hit`, one with expected phrases has
    `phrase_hit`. Hit and reciprocal rank refer to documents, or to passages if only phrases are
    expected.
    """

    hit: float | None = None
    reciprocal_rank: float | None = None
    recall: float | None = None
    precision: float | None = None
    ndcg: float | None = None
    phrase_hit: float | None = None


NAMES = QueryMetrics.__struct_fields__
"""Names of all metrics, in the order of tables."""
LABELS = {
    "hit": "hit rate",
    "reciprocal_rank": "MRR",
    "recall": "recall@k",
    "precision": "precision@k",
    "ndcg": f"nDCG@{NDCG_CUT}",
    "phrase_hit": "phrase hits",
}


class Found(Struct, frozen=True):
    """A passage that a search returned: key and name of its document, score and text."""

    document: str
    name: str
    score: float
    text: str


Search = Callable[[GoldenQuery], Sequence[Found]]
"""Returns passages, best first. More than `top_k` passages may be needed for enough different
documents; passages beyond `top_k` do not count."""

Identify = Callable[[str], str | None]
"""Returns the key of the document that a reference names; None if it matches none or several."""


class State(StrEnum):
    """Outcome of a query."""

    ANSWERED = "answered"
    EMPTY = "empty"
    FAILED = "failed"


class RankedDocument(Struct, frozen=True):
    """A document with the score of its best passage; its grade is None if it is not judged."""

    document: str
    name: str
    score: float
    grade: int | None


class ScoredHit(Struct, frozen=True):
    """A similarity with the relevance of its passage or document."""

    score: float
    relevant: bool


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Result of one golden query.

    `absent` are expected documents that the world does not have; they count as not found. `hits`
    are passages if phrases are expected, else documents.
    """

    id: str
    query: str
    top_k: int
    state: State
    judged: bool
    metrics: QueryMetrics
    question: str
    """Digest of the question, its filters and its phrases."""
    expected: tuple[Expected, ...] = ()
    absent: tuple[str, ...] = ()
    phrases: int = 0
    phrase_rank: int | None = None
    documents: tuple[RankedDocument, ...] = ()
    hits: tuple[ScoredHit, ...] = ()
    best_relevant: float | None = None
    best_irrelevant: float | None = None
    error: str | None = None
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of queries by kind, and the means over judged queries."""

    queries: int
    judged: int
    unjudged: int
    empty: int
    failed: int
    absent_documents: int
    with_documents: int
    with_phrases: int
    metrics: QueryMetrics
    """Means of the metrics; empty and failed queries count as nothing found."""
    seconds: float | None = field(default=None, compare=False)


class Evaluation(Struct, frozen=True):
    """Results of golden queries in one generation."""

    name: str
    results: tuple[QueryResult, ...]
    totals: Totals
    warnings: tuple[Notice, ...] = ()
    """Limits of the evaluation, such as searches that were not exact."""


def evaluate(
    name: str,
    golden: Sequence[GoldenQuery],
    search: Search,
    *,
    identify: Identify = str,
    clock: Callable[[], float] = lambda: 0.0,
) -> Evaluation:
    """Run every golden query and judge the results; see `judge_each`."""
    return summarize(name, tuple(judge_each(golden, search, identify=identify, clock=clock)))


def judge_each(
    golden: Sequence[GoldenQuery],
    search: Search,
    *,
    identify: Identify = str,
    clock: Callable[[], float] = lambda: 0.0,
) -> Iterator[QueryResult]:
    """Run golden queries one after another; `clock` returns monotonic seconds.

    A query whose search fails counts as failed, and the others still run.
    """
    ids = {query.id for query in golden}
    if not golden or len(ids) < len(golden):
        raise InvalidArgument("At least one golden query is needed, and all ids must differ.")
    for query in golden:
        check_cancelled()
        yield _evaluate_query(query, search, identify, clock)


def summarize(name: str, results: tuple[QueryResult, ...]) -> Evaluation:
    """Return the counts and means of judged queries."""
    judged = [result.metrics for result in results if result.judged]
    totals = Totals(
        queries=len(results),
        judged=len(judged),
        unjudged=len(results) - len(judged),
        empty=sum(result.state is State.EMPTY for result in results),
        failed=sum(result.state is State.FAILED for result in results),
        absent_documents=sum(len(result.absent) for result in results),
        with_documents=sum(metrics.recall is not None for metrics in judged),
        with_phrases=sum(metrics.phrase_hit is not None for metrics in judged),
        metrics=averages(judged),
        seconds=mean(result.seconds for result in results),
    )
    return Evaluation(name, results, totals)


def scored_hits(evaluation: Evaluation) -> list[ScoredHit]:
    """Return all similarities of judged queries with their relevance, for calibration."""
    return [hit for result in evaluation.results if result.judged for hit in result.hits]


def _evaluate_query(
    query: GoldenQuery, search: Search, identify: Identify, clock: Callable[[], float]
) -> QueryResult:
    grades: dict[str, int] = {}
    absent: list[str] = []
    for expected in query.expected:
        key = identify(expected.document)
        if key is None:
            absent.append(key := expected.document)
        grades[key] = max(expected.grade, grades.get(key, 0))
    start, error = clock(), None
    found: Sequence[Found] = ()
    try:
        found = search(query)
    except Interrupted:
        raise
    except TruespanError as failure:
        error = failure.code
    seconds = clock() - start
    # Each document once, at the place and with the score of its first passage.
    ranked: dict[str, RankedDocument] = {}
    for passage in found:
        key, grade = passage.document, grades.get(passage.document)
        ranked.setdefault(key, RankedDocument(key, passage.name, passage.score, grade))
    documents = tuple(ranked.values())[: max(query.top_k, NDCG_CUT)]
    metrics = document_metrics([document.document for document in documents], grades, query.top_k)
    hits = tuple(ScoredHit(document.score, bool(document.grade)) for document in documents)
    phrase_rank = None
    if query.phrases:
        matches = phrase_matcher(query.phrases)
        passages = found[: query.top_k]
        hits = tuple(ScoredHit(passage.score, matches(passage.text)) for passage in passages)
        phrase_rank = first_rank(hit.relevant for hit in hits)
        by_phrase = phrase_metrics(phrase_rank)
        metrics = (
            by_phrase if metrics.hit is None else replace(metrics, phrase_hit=by_phrase.phrase_hit)
        )
    return QueryResult(
        id=query.id,
        query=query.query,
        top_k=query.top_k,
        state=State.FAILED if error else State.ANSWERED if found else State.EMPTY,
        judged=metrics.hit is not None,
        metrics=metrics,
        question=question_digest(query),
        expected=tuple(Expected(key, grade) for key, grade in grades.items()),
        absent=tuple(absent),
        phrases=len(query.phrases),
        phrase_rank=phrase_rank,
        documents=documents,
        hits=hits,
        best_relevant=max((hit.score for hit in hits if hit.relevant), default=None),
        best_irrelevant=max((hit.score for hit in hits if not hit.relevant), default=None),
        error=error,
        seconds=seconds,
    )


def document_metrics(ranking: Sequence[str], grades: Mapping[str, int], top_k: int) -> QueryMetrics:
    """Return the metrics of a ranking without repetitions; all None without relevant documents."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    if not relevant:
        return QueryMetrics()
    rank = first_rank(document in relevant for document in ranking[:top_k])
    found = len(relevant.intersection(ranking[:top_k]))
    return QueryMetrics(
        hit=float(rank is not None),
        reciprocal_rank=1 / rank if rank else 0.0,
        recall=found / len(relevant),
        precision=found / top_k,
        ndcg=ndcg(ranking, grades),
    )


def phrase_metrics(rank: int | None) -> QueryMetrics:
    """Return the metrics of a query by the rank of the first passage that contains a phrase."""
    hit = float(rank is not None)
    return QueryMetrics(hit=hit, reciprocal_rank=1 / rank if rank else 0.0, phrase_hit=hit)


def first_rank(holds: Iterable[bool]) -> int | None:
    """Return the rank of the first true value, counted from 1; None if there is none."""
    return next((place for place, one in enumerate(holds, start=1) if one), None)


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], cut: int = NDCG_CUT) -> float:
    """Return the discounted gain of the first `cut` places as a share of the ideal gain."""
    ideal = sorted(grades.values(), reverse=True)[:cut]
    gains = [grades.get(document, 0) for document in ranking[:cut]]
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return fsum(gain / log2(place + 1) for place, gain in enumerate(gains, start=1))


def phrase_matcher(phrases: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that checks a passage for any of these phrases."""
    wanted = [normalize_text(phrase) for phrase in phrases]

    def holds(passage: str) -> bool:
        plain = normalize_text(passage)
        return any(phrase in plain for phrase in wanted)

    return holds


def averages(judged: Sequence[QueryMetrics]) -> QueryMetrics:
    """Return the mean of each metric over the queries that have it, else None."""
    return QueryMetrics(**{name: mean(getattr(one, name) for one in judged) for name in NAMES})


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    present = [value for value in values if value is not None]
    return fsum(present) / len(present) if present else None
