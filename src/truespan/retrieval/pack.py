"""From visible chunks to a bundle: the last stage, which accepts nothing less trusted."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from truespan.errors import CallerError, ScopeViolation, TruespanError
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock
from truespan.retrieval.metrics import tell_bundle
from truespan.retrieval.query_vector import shown
from truespan.types.bundle import (
    BundleMetadata,
    BundleStatus,
    ContextBundle,
    FigureNote,
    Funnel,
    Located,
    NearMiss,
    Notice,
    Problem,
    Reason,
    RetrievedChunk,
    Skipped,
    SourceNote,
    WhyNot,
)
from truespan.types.chunk import ChunkKind, FigureMark
from truespan.types.ids import ChunkId
from truespan.types.scope import Scope
from truespan.types.telemetry import Stage
from truespan.types.trust import VerificationFailure, Visible

OVER_BUDGET = "over_budget"
EXCLUDED = "excluded_kind"
PATIENCE = 64
"""Candidates that may be too large for what is left of the budget before it counts as full."""


@dataclass(slots=True)
class Packed:
    """The chosen chunks by rank, and the ones that were passed over, by reason."""

    chosen: list[Visible] = field(default_factory=list)
    left_out: dict[str, list[Visible]] = field(default_factory=dict)
    last: float | None = None
    """The score at which choosing ended; None when there was nothing left to choose from."""

    def missing(self, k: int) -> int:
        """Return how many more chunks are needed at least; none when choosing has ended."""
        return k - len(self.chosen) if self.last is None else 0

    @property
    def tokens(self) -> int:
        """Return the tokens of all chosen chunks."""
        return sum(part.tokens for part in self.chosen)


def pack(
    ranked: Sequence[Visible],
    *,
    k: int,
    budget: int,
    excluded: Collection[ChunkKind] = (ChunkKind.FIGURE,),
) -> Packed:
    """Take the best that fit, at most `k` and `budget` tokens in all.

    A chunk that is too large is passed over, and the next ones get their chance; none is cut to
    fit. One that lies wholly within earlier ones is a repetition.
    """
    packed, shown, left = Packed(), Shown(), budget
    for part in ranked:
        reason = _reason(part, shown, left, excluded)
        if reason is None:
            packed.chosen.append(part)
            shown.add(part.document, part.start, part.end)
            left -= part.tokens
        else:
            packed.left_out.setdefault(reason, []).append(part)
        if len(packed.chosen) == k or len(packed.left_out.get(OVER_BUDGET, ())) == PATIENCE:
            packed.last = part.score
            break
    return packed


def _reason(part: Visible, shown: Shown, left: int, excluded: Collection[ChunkKind]) -> str | None:
    """Return why a chunk is passed over; None when it is taken."""
    if part.kind in excluded:
        return EXCLUDED
    fresh = shown.uncovered(part.document, part.start, part.end)
    if not any(part.text[a - part.start : b - part.start].strip() for a, b in fresh):
        return "duplicate_passage"
    return OVER_BUDGET if part.tokens > left else None


def why_not_packed(packed: Packed, chunk_id: ChunkId) -> Reason | None:
    """Return what packing had to say of a chunk; None when it never came that far."""
    for part in packed.chosen:
        if part.chunk_id == chunk_id:
            return Reason(WhyNot.RETURNED, shown(part.score))
    for code, parts in packed.left_out.items():
        for part in parts:
            if part.chunk_id == chunk_id:
                return Reason(WhyNot(code), shown(part.score))
    return None


SEPARATOR = "\n\n"


class Showable(Protocol):
    """Text that stands at a place of a document."""

    @property
    def document(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def text(self) -> str: ...


@dataclass(slots=True)
class Shown:
    """Which parts of which documents were shown already, as code-point intervals.

    Repetition is told by place, never by comparing text: two equal sentences in two places are both
    there. All parts of a document are of one revision, since a response sees one state of a world.
    """

    _taken: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def uncovered(self, document: int, start: int, end: int) -> list[tuple[int, int]]:
        """Return what of an interval was not shown yet, in order."""
        return uncovered(self._taken.get(document, ()), start, end)

    def add(self, document: int, start: int, end: int) -> None:
        """Take note of an interval that is shown."""
        insort(self._taken.setdefault(document, []), (start, end))


def render(parts: Iterable[Showable]) -> str:
    """Join texts in their order; what overlaps an earlier one is not said twice."""
    shown = Shown()
    pieces: list[str] = []
    for part in parts:
        for start, end in shown.uncovered(part.document, part.start, part.end):
            piece = part.text[start - part.start : end - part.start].strip()
            if piece:
                pieces.append(piece)
        shown.add(part.document, part.start, part.end)
    return SEPARATOR.join(pieces)


def uncovered(taken: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return what of [start, end) none of the sorted intervals covers, in order."""
    left: list[tuple[int, int]] = []
    for begin, finish in taken[: bisect_left(taken, (end, end))]:
        if begin > start:
            left.append((start, begin))
        start = max(start, finish)
        if start >= end:
            return left
    left.append((start, end))
    return left


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
class RetrievalLog:
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
class RetrievalAttempt:
    """One way of a request through the stages, as far as it came."""

    account: RetrievalLog
    scope: Scope | None = None
    packed: Packed = field(default_factory=Packed)
    flaws: list[VerificationFailure] = field(default_factory=list)

    def begin(self, account: RetrievalLog) -> None:
        """Forget what an earlier attempt found: the world has changed since."""
        self.account, self.scope, self.packed, self.flaws = account, None, Packed(), []


def bundled(
    attempt: RetrievalAttempt,
    work: Callable[[], None],
    clock: Clock,
    course: RequestTrace = NULL_OBSERVER,
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
    account: RetrievalLog,
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
    account: RetrievalLog,
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
