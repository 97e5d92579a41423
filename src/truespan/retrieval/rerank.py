"""Rerank the first candidates with a model that reads query and text together.

    Visible, by rank ──the first `candidates`──> reranker ──scores──> Visible in their new order

This is the last stage before packing. It takes only `Visible` chunks, so nothing else is sent to a
reranker. Reranking changes the order only: `score` remains the similarity. If a reranker fails, the
order stays; the result says so and is otherwise complete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

from msgspec import Struct, field
from msgspec.structs import replace

from truespan import errors
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Reranker
from truespan.types.bundle import Notice, RerankReport
from truespan.types.telemetry import RERANKED, CounterName, Stage
from truespan.types.trust import RerankScore, Visible

CANDIDATES = 30
"""Default number of candidates that are reranked."""
SECONDS = 10.0
"""Default time that a request may spend on reranking."""


class RerankOptions(Struct, frozen=True):
    """The configured reranker, its number of candidates, and its time for one request."""

    reranker: Reranker
    candidates: int = CANDIDATES
    seconds: float = SECONDS


def reorder(ranked: Sequence[Visible], scores: Sequence[float], model: str) -> list[Visible]:
    """Return chunks by the scores of a reranker; equal scores keep the order of `ranked`.

    The scores belong to the first chunks. Those without a score follow in their order.
    """
    count = len(scores)
    order = sorted(range(count), key=lambda place: -scores[place])
    moved = [
        replace(
            ranked[place], rerank=RerankScore(model, scores[place], before=place + 1, after=after)
        )
        for after, place in enumerate(order, 1)
    ]
    return [*moved, *ranked[count:]]


def check_scores(scores: object, count: int) -> list[float]:
    """Return the scores of a reranker as numbers; raise ProviderBadReply if they cannot be right.

    There must be one finite number for each text.
    """
    if not isinstance(scores, Sequence) or isinstance(scores, str | bytes):
        raise errors.ProviderBadReply(
            "The reranker returned something other than a list of scores."
        )
    if len(scores) != count:
        raise errors.ProviderBadReply(
            f"The reranker returned {len(scores)} scores for {count} texts."
        )
    if not all(isinstance(score, Real) and not isinstance(score, bool) for score in scores):
        raise errors.ProviderBadReply("The reranker returned a score that is not a number.")
    try:
        numbers = [float(score) for score in scores]
    except OverflowError:
        numbers = [math.inf]
    if not all(map(math.isfinite, numbers)):
        raise errors.ProviderBadReply("The reranker returned a score that is not finite.")
    return numbers


class RerankStage(Struct):
    """Reranking within one request, which may pass through the stages several times.

    The reranker gets the same texts only once, and nothing more after it failed or used up its
    time: a world that changes all the while must not multiply requests.
    """

    options: RerankOptions
    query: str
    clock: Clock
    trace: RequestTrace = NULL_OBSERVER
    _known: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    failure: errors.TruespanError | None = None
    """Error that ended reranking for this request."""
    _spent: float = 0.0

    @property
    def candidates(self) -> int:
        """Return the minimum number of chunks to fetch for reranking."""
        return self.options.candidates

    def order(self, ranked: Sequence[Visible]) -> tuple[list[Visible], RerankReport, list[Notice]]:
        """Return chunks in their new order, a report, and a warning if the reranker failed.

        Raises:
            Interrupted: the request was cancelled.
        """
        model, first = self.options.reranker.name, ranked[: self.options.candidates]
        scores: list[float] = []
        if first:
            with self.trace.stage(Stage.RERANKED):
                scores = self._scores(tuple(part.text for part in first)) or []
        ordered = reorder(ranked, scores, model)
        moved = sum(part.rerank.before != part.rerank.after for part in ordered if part.rerank)
        failure = self.failure
        report = RerankReport(model, len(first), moved, failure.code if failure else None)
        return ordered, report, [_failed(failure)] if failure else []

    def _scores(self, texts: tuple[str, ...]) -> list[float] | None:
        """Return the scores of texts; None if the reranker has failed for this request."""
        if self.failure is not None:
            return None
        if texts in self._known:
            return self._known[texts]
        if self._spent >= self.options.seconds:
            self.failure = errors.ProviderUnavailable("The time for reranking is used up.")
            return None
        began = self.clock.monotonic()
        try:
            found = self.options.reranker.scores(self.query, texts)
            self._known[texts] = check_scores(found, len(texts))
        except errors.Interrupted:
            raise
        except Exception as error:
            # The passages are verified and have an order without the reranker.
            known = (
                error if isinstance(error, errors.TruespanError) else errors.resource_error(error)
            )
            self.failure = known or errors.InternalError(type(error).__name__)
            self.trace.count(CounterName.RERANKS, 1, self.failure.code)
            return None
        finally:
            self._spent += self.clock.monotonic() - began
        self.trace.count(CounterName.RERANKS, 1, RERANKED)
        return self._known[texts]


def _failed(error: errors.TruespanError) -> Notice:
    """Return the warning about a failed reranker, without the address that its message may name."""
    return Notice(
        "rerank_failed",
        f"The reranker failed ({error.code}), so the results are in the order without it.",
    )
