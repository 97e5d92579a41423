"""What a watch is told of a result: the numbers that the result itself has, and no others."""

from __future__ import annotations

from truespan.model.bundle import ContextBundle, Funnel, SearchResult, Skipped
from truespan.model.names import Tally
from truespan.model.retrieved import Retrieved
from truespan.ports import Course


def tell_search(course: Course, result: SearchResult) -> None:
    """Count what a search says of itself."""
    _tell_funnel(course, result.funnel)
    _tell_skipped(course, result.skipped)


def tell_bundle(course: Course, bundle: ContextBundle) -> None:
    """Count what a bundle says of itself; one that tells of a failure is a failure here, too."""
    _tell_funnel(course, bundle.metadata.funnel)
    _tell_skipped(course, bundle.metadata.skipped)
    course.count(Tally.CONTEXT_TOKENS, bundle.total_tokens)
    course.count(Tally.BUNDLES, 1, bundle.status)
    if bundle.error is not None:
        course.count(Tally.ERRORS, 1, bundle.error.code)


def tell_candidates(course: Course, found: Retrieved) -> None:
    """Count what was found for an answer, and what of it could not be trusted."""
    course.count(Tally.RETURNED, len(found.chunks))
    for flaw in found.flaws:
        course.count(Tally.SKIPPED, 1, flaw.kind)


def _tell_funnel(course: Course, funnel: Funnel) -> None:
    course.count(Tally.FETCHED, funnel.fetched)
    course.count(Tally.VERIFIED, funnel.verified)
    course.count(Tally.RETURNED, funnel.returned)


def _tell_skipped(course: Course, skipped: tuple[Skipped, ...]) -> None:
    for one in skipped:
        course.count(Tally.SKIPPED, one.count, one.code)
