"""From visible chunks to a bundle: the last stage, which accepts nothing less trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from truespan.errors import CallerError, ScopeViolation, TruespanError
from truespan.model.bundle import (
    BundleMetadata,
    BundleStatus,
    ContextBundle,
    FigureNote,
    Funnel,
    Located,
    NearMiss,
    Notice,
    Problem,
    RetrievedChunk,
    Skipped,
    SourceNote,
)
from truespan.model.chunk import FigureMark
from truespan.model.names import Stage
from truespan.model.scope import Scope
from truespan.model.trail import Flaw, Visible
from truespan.ports import UNWATCHED, Clock, Course
from truespan.query.pack import EXCLUDED, Packed
from truespan.query.render import render
from truespan.query.similarity import shown
from truespan.query.told import tell_bundle

RECEIVED, VECTORIZED, SEARCHED, FILTERED, RANKED, ASSEMBLED, COMPLETED = (
    "received",
    "vectorized",
    "searched",
    "filtered",
    "ranked",
    "assembled",
    "completed",
)


@dataclass(slots=True)
class Account:
    """How a bundle comes about, written down on the way."""

    query_type: str
    top_k: int
    floor: float | None
    trace: list[str] = field(default_factory=lambda: [RECEIVED])
    in_scope: int = 0
    fetched: int = 0
    verified: int = 0
    reached: bool = False
    """Whether any candidate reached the floor, believed or not."""
    skipped: tuple[Skipped, ...] = ()
    warnings: list[Notice] = field(default_factory=list)
    near_misses: tuple[NearMiss, ...] = ()
    located: tuple[Located, ...] = ()
    discriminates: bool | None = None


@dataclass(slots=True)
class Attempt:
    """One way of a request through the stages, as far as it came."""

    account: Account
    scope: Scope | None = None
    packed: Packed = field(default_factory=Packed)
    flaws: list[Flaw] = field(default_factory=list)

    def begin(self, account: Account) -> None:
        """Forget what an earlier attempt found: the world has changed since."""
        self.account, self.scope, self.packed, self.flaws = account, None, Packed(), []


def bundled(
    attempt: Attempt, work: Callable[[], None], clock: Clock, course: Course = UNWATCHED
) -> ContextBundle:
    """Do the work and make the one bundle of it, also when something we depend on failed.

    A request that cannot be answered by anybody raises; only a violated selection is told in a
    bundle, since it is a finding about the text and no mistake in the request.
    """
    began = clock.monotonic()
    failure: TruespanError | None = None
    try:
        work()
    except TruespanError as error:
        if isinstance(error, CallerError) and not isinstance(error, ScopeViolation):
            raise
        failure = error
    with course.stage(Stage.BUNDLE):
        bundle = assemble(
            attempt.account,
            attempt.scope,
            attempt.packed,
            seconds=clock.monotonic() - began,
            failure=failure,
        )
    tell_bundle(course, bundle)
    return bundle


def status_of(*, failed: bool, reached: bool, returned: int, expected: int) -> BundleStatus:
    """Return the first status that applies.

    `expected` is what a full answer would have: the number asked for, or all there is in scope.
    """
    if failed:
        return BundleStatus.ERROR
    if not reached:
        return BundleStatus.NO_MATCHES
    return BundleStatus.SUCCESS if returned >= expected else BundleStatus.PARTIAL


def assemble(
    account: Account,
    scope: Scope | None,
    packed: Packed,
    *,
    seconds: float,
    failure: TruespanError | None = None,
) -> ContextBundle:
    """Make the one bundle that a request gets. A failed one has no chunks."""
    chosen = [] if failure else packed.chosen
    figures = [] if failure else packed.left_out.get(EXCLUDED, [])
    if not failure:
        account.trace += [ASSEMBLED, COMPLETED]
    # A reader goes through a book from front to back, and so does the context.
    ordered = chosen if scope is None or scope.position is None else sorted(chosen, key=_place)
    return ContextBundle(
        retrieved_chunks=tuple(_chunk(part, scope) for part in chosen if scope),
        metadata=_metadata(account, scope, packed, chosen, figures, seconds),
        status=status_of(
            failed=failure is not None,
            reached=account.reached,
            # Figures are given beside the chunks, and count as given.
            returned=len(chosen) + len(figures),
            expected=min(account.top_k, account.in_scope),
        ),
        total_tokens=sum(part.tokens for part in chosen),
        context=render(ordered),
        error=Problem(failure.code, str(failure), failure.retryable) if failure else None,
    )


def _place(part: Visible) -> tuple[int, int, int]:
    return (part.first_sid, part.start, part.end)


def _metadata(
    account: Account,
    scope: Scope | None,
    packed: Packed,
    chosen: Sequence[Visible],
    figures: Sequence[Visible],
    seconds: float,
) -> BundleMetadata:
    left_out = [Skipped(code, len(parts)) for code, parts in sorted(packed.left_out.items())]
    return BundleMetadata(
        query_type=account.query_type,
        processing_time_ms=int(seconds * 1000),
        original_top_k=account.top_k,
        returned_count=len(chosen),
        trace=tuple(account.trace),
        funnel=Funnel(account.in_scope, account.fetched, account.verified, len(chosen)),
        skipped=(*account.skipped, *left_out),
        warnings=tuple(account.warnings),
        near_misses=account.near_misses,
        sources=tuple(_note(part, scope) for part in chosen if scope),
        located=account.located,
        floor=account.floor,
        figures=tuple(_figure(part) for part in figures),
        floor_discriminates=account.discriminates,
    )


def _chunk(part: Visible, scope: Scope) -> RetrievedChunk:
    return RetrievedChunk(
        content=part.text,
        source_url=f"truespan://{scope.world}/{part.document}",
        chapter=part.chapter,
        section=part.section,
        chunk_id=part.chunk_id,
        relevance_score=shown(part.score),
        token_count=part.tokens,
    )


def _note(part: Visible, scope: Scope) -> SourceNote:
    return SourceNote(
        chunk_id=part.chunk_id,
        document=part.document,
        source=part.source,
        title=part.title,
        first_sid=part.first_sid,
        last_sid=part.last_sid,
        text_hash=part.text_hash,
        profile=scope.profile.id,
        generation=scope.generation.number,
        revision=part.revision,
        page=part.page,
        fused=part.fused,
    )


def _figure(part: Visible) -> FigureNote:
    mark = part.figure or FigureMark("", None, None)
    return FigureNote(
        chunk_id=part.chunk_id,
        figure_id=mark.figure_id,
        image_ref=mark.image_ref,
        parent_chunk_id=part.parent_id,
        parent_chunk_local_index=mark.parent.index if mark.parent else None,
        description=part.text,
        document=part.document,
        source=part.source,
        title=part.title,
        chapter=part.chapter,
        section=part.section,
        page=part.page,
        relevance_score=shown(part.score),
    )
