"""What a watch is told of a result: the numbers that the result itself has, and no others."""

from __future__ import annotations

from truespan.observer import RequestTrace
from truespan.types.answer import Retrieved
from truespan.types.bundle import ContextBundle, Funnel, SearchResult, Skipped
from truespan.types.telemetry import CounterName


def tell_search(course: RequestTrace, result: SearchResult) -> None:
    """Count what a search says of itself."""
    _tell_funnel(course, result.funnel)
    _tell_skipped(course, result.skipped)


def tell_bundle(course: RequestTrace, bundle: ContextBundle) -> None:
    """Count what a bundle says of itself; one that tells of a failure is a failure here, too."""
    _tell_funnel(course, bundle.metadata.funnel)
    _tell_skipped(course, bundle.metadata.skipped)
    course.count(CounterName.CONTEXT_TOKENS, bundle.total_tokens)
    course.count(CounterName.BUNDLES, 1, bundle.status)
    if bundle.error is not None:
        course.count(CounterName.ERRORS, 1, bundle.error.code)


def tell_candidates(course: RequestTrace, found: Retrieved) -> None:
    """Count what was found for an answer, and what of it could not be trusted."""
    course.count(CounterName.RETURNED, len(found.chunks))
    for flaw in found.flaws:
        course.count(CounterName.SKIPPED, 1, flaw.kind)


def _tell_funnel(course: RequestTrace, funnel: Funnel) -> None:
    course.count(CounterName.FETCHED, funnel.fetched)
    course.count(CounterName.VERIFIED, funnel.verified)
    course.count(CounterName.RETURNED, funnel.returned)


def _tell_skipped(course: RequestTrace, skipped: tuple[Skipped, ...]) -> None:
    for one in skipped:
        course.count(CounterName.SKIPPED, one.count, one.code)
