"""The last stage: choose visible chunks within the budget and build a bundle from them.

It accepts only `Visible` chunks, so unverified text cannot reach a bundle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from truespan.core.records import copy_fields
from truespan.errors import CallerError, ScopeViolation, TruespanError
from truespan.observer import RequestTrace
from truespan.retrieval.pipeline import Attempt, Pipeline, count_funnel
from truespan.retrieval.query import SCORE_DECIMALS, round_score
from truespan.retrieval.repeats import CoveredText, EqualTexts, add_place, count_rendered, render
from truespan.retrieval.stages import MAX_BOILERPLATE, Fetched, language_of_passage
from truespan.types.bundle import (
    BundleMetadata,
    BundleStatus,
    ContextBundle,
    FigureNote,
    Funnel,
    Located,
    NearMiss,
    Problem,
    Reason,
    RetrievedChunk,
    Skipped,
    SourceNote,
    WhyNot,
)
from truespan.types.chunk import ChunkKind, FigureMark
from truespan.types.ids import ChunkId
from truespan.types.origin import set_origin
from truespan.types.request import ReadingRequest, RetrievalRequest, WorldDefaults
from truespan.types.scope import Scope, World
from truespan.types.telemetry import CounterName, Stage
from truespan.types.trust import Visible

if TYPE_CHECKING:
    from truespan.retrieval.rerank import RerankStage

OVER_BUDGET = "over_budget"
EXCLUDED = "excluded_kind"
DUPLICATE = "duplicate_passage"
PATIENCE = 64
"""Number of candidates that exceed the rest of the budget before it counts as full."""


class Packed(Struct):
    """The chosen chunks by rank, and those that were skipped, by reason."""

    chosen: list[Visible] = field(default_factory=list)
    left_out: dict[str, list[Visible]] = field(default_factory=dict)
    missing: int = 0
    """Minimum number of further chunks needed; 0 once choosing has ended."""
    last: float | None = None
    """Score at which choosing ended; None if there was nothing left to choose from."""

    seen: int = 0
    """Number of chunks that were considered."""


class Packer:
    """Takes the best chunks that fit, at most `k` with at most `budget` tokens in all.

    Boilerplate, if there is a test for it, comes after all other text. Unless packing is `plain`,
    the tokens that Markdown adds to tables count too.

    A chunk that is too large is skipped, and the next ones are tried; none is cut to fit. A chunk
    that lies wholly within earlier chunks is a duplicate. Unless packing is `plain`, so is a chunk
    with the text of a chosen one, which gets its place.
    """

    def __init__(
        self,
        *,
        k: int,
        budget: float,
        is_boilerplate: Callable[[str], bool] | None = None,
        plain: bool = True,
    ) -> None:
        self._k = k
        self._budget = budget
        self._is_boilerplate = is_boilerplate
        self._plain = plain
        self._ranked: Sequence[Visible] | None = None

    def pack(self, ranked: Sequence[Visible]) -> Packed:
        """Choose from chunks by rank; continue if the list is the same one, with more chunks."""
        if ranked is not self._ranked:
            self._ranked, self._left = ranked, self._budget
            self._packed, self._covered = Packed(), CoveredText()
            self._texts = EqualTexts[Visible]()
        packed, boilerplate = self._packed, list[Visible]()
        if packed.last is not None:
            return self._end(ranked, packed.last)
        for part in ranked[packed.seen :]:
            packed.seen += 1
            if self._is_boilerplate and self._is_boilerplate(part.text):
                boilerplate.append(part)
                if len(boilerplate) == MAX_BOILERPLATE:
                    packed.last = part.score
                    break
            elif self._take(part):
                packed.missing = 0
                return self._end(ranked, part.score)
        packed.missing = self._k - len(packed.chosen) if packed.last is None else 0
        # Boilerplate is taken last and does not count as found, so the search continues.
        for part in boilerplate:
            self._ranked = None
            if self._take(part):
                break
        return packed

    def _end(self, ranked: Sequence[Visible], last: float) -> Packed:
        """End choosing at a score; copies of chosen chunks that follow with it are still merged."""
        packed = self._packed
        packed.last = last
        if not self._plain:
            for part in ranked[packed.seen :]:
                if round(part.score, SCORE_DECIMALS) != round(last, SCORE_DECIMALS):
                    break
                packed.seen += 1
                if self._is_copy(part):
                    packed.left_out.setdefault(DUPLICATE, []).append(part)
        return packed

    def _is_copy(self, part: Visible) -> bool:
        """Return whether a chosen chunk has the same text; if so, add the place of `part` to it."""
        if self._plain or part.kind is ChunkKind.FIGURE:
            return False
        known = self._texts.add(part.text, part)
        for place, chosen in enumerate(self._packed.chosen if known is not part else ()):
            if (chosen.chunk_id, chosen.start) == (known.chunk_id, known.start):
                self._packed.chosen[place] = add_place(chosen, part)
                return True
        return False

    def _take(self, part: Visible) -> bool:
        """Take a part if it fits; return whether choosing has ended."""
        packed, covered = self._packed, self._covered
        uncovered = covered.uncovered(part.document, part.start, part.end)
        if part.kind is ChunkKind.FIGURE:
            reason = EXCLUDED
        elif self._is_copy(part) or not any(
            part.text[a - part.start : b - part.start].strip() for a, b in uncovered
        ):
            reason = DUPLICATE
        elif (tokens := count_rendered(part, tables=not self._plain)) > self._left:
            reason = OVER_BUDGET
        else:
            reason = None
            packed.chosen.append(part)
            covered.add(part.document, part.start, part.end)
            self._left -= tokens
        if reason is not None:
            packed.left_out.setdefault(reason, []).append(part)
        return (
            len(packed.chosen) == self._k or len(packed.left_out.get(OVER_BUDGET, ())) == PATIENCE
        )


def require_candidates(packed: Packed, ranked: Sequence[Visible], count: int) -> Packed:
    """Return the packing, with the chunks missing for it and for `count` candidates to rerank."""
    if len(ranked) < count:
        return Packed(missing=max(packed.missing, count - len(ranked)))
    if packed.last is None or count == 0:
        return packed
    return Packed(last=min(packed.last, ranked[count - 1].score))


def pack_reranked(
    attempt: Attempt,
    stage: RerankStage | None,
    ranked: Sequence[Visible],
    packer: Packer,
    trace: RequestTrace,
) -> Packed:
    """Rerank the first candidates and pack; without a reranker, pack them unchanged.

    Only the candidates, and chunks that packing without a reranker considers, can be chosen. The
    number of chunks beyond those depends on what was skipped.
    """
    with trace.stage(Stage.PACKED):
        packed = packer.pack(ranked)
    if stage is None:
        return packed
    end = len(ranked) if packed.last is None else max(packed.seen, stage.candidates)
    ordered = attempt.reorder(stage, ranked[:end])
    with trace.stage(Stage.PACKED):
        reranked = packer.pack(ordered)
    reranked.last = None if len(ranked) < end or packed.last is None else ranked[end - 1].score
    return reranked


def why_not_packed(packed: Packed, chunk_id: ChunkId) -> Reason | None:
    """Return the decision of packing about a chunk; None if the chunk was not considered."""
    for code, parts in ((WhyNot.RETURNED, packed.chosen), *packed.left_out.items()):
        for part in parts:
            if part.chunk_id == chunk_id:
                return Reason(WhyNot(code), round_score(part.score))
    return None


class RankedPacking(Struct, frozen=True):
    """Chunks by rank, and the number of further ones that a packer needs."""

    ranked: list[Visible]
    missing: int


class BundleAttempt(Attempt, kw_only=True):
    """The outcome of the stages that choose the chunks of a bundle, as far as they got."""

    query_type: str
    top_k: int
    floor: float | None
    budget: int
    """Maximum number of tokens of the context."""
    steps: list[str] = field(default_factory=lambda: ["received"])
    packed: Packed = field(default_factory=Packed)
    fetched_count: int = 0
    verified_count: int = 0
    skipped: tuple[Skipped, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    located: tuple[Located, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.packed.chosen

    def count(self, verified: int, counted: Fetched) -> None:
        """Record the number of verified and readable chunks, and the skipped ones."""
        self.verified_count = verified
        self.fetched_count = verified + len(counted.failures)
        self.skipped = counted.skipped()


class BundleRequest(ABC):
    """An admitted request for a bundle, with its latest attempt."""

    def __init__(
        self, pipeline: Pipeline, world: World, request: RetrievalRequest | ReadingRequest
    ) -> None:
        self.pipeline = pipeline
        self._world = world
        self._budget = request.passages.budget(pipeline.deps.max_tokens)
        self._stage = pipeline.rerank_stage(world, request.rerank, request.query)
        self.attempt = self._start(world)

    @abstractmethod
    def _start(self, world: World) -> BundleAttempt:
        """Return an attempt at the request that has not found anything yet."""

    @abstractmethod
    def _retrieve_once(self, world: World) -> BundleAttempt:
        """Choose the chunks of the bundle from one state of the world, which may change."""

    def run(self) -> BundleAttempt:
        """Choose the chunks of the bundle from one state of the world."""
        return self.pipeline.in_stable_world(self._world, self._retrieve_once)

    def bundle(self) -> ContextBundle:
        """Run the request and build its bundle, also if a service failed meanwhile.

        An invalid request raises. A violated selection is reported in a bundle,
        since it says something about the text and is no mistake in the request.
        """
        clock, trace = self.pipeline.deps.clock, self.pipeline.deps.trace
        began = clock.monotonic()
        failure: TruespanError | None = None
        try:
            self.run()
        except TruespanError as error:
            if isinstance(error, CallerError) and not isinstance(error, ScopeViolation):
                raise
            failure = error
        with trace.stage(Stage.BUNDLE):
            bundle = assemble(self.attempt, seconds=clock.monotonic() - began, failure=failure)
        count_funnel(trace, bundle.metadata.funnel, bundle.metadata.skipped)
        trace.count(CounterName.CONTEXT_TOKENS, bundle.total_tokens)
        trace.count(CounterName.BUNDLES, 1, bundle.status)
        if bundle.error is not None:
            trace.count(CounterName.ERRORS, 1, bundle.error.code)
        return bundle


def status_of(
    *, failed: bool, reached: bool, returned: int, expected: int, unreadable: bool = False
) -> BundleStatus:
    """Return the first status that applies.

    `reached` says whether any candidate reached the floor, verified or not; `expected` is the size
    of a full result: the number requested, or all there is in scope. With `unreadable`, documents
    in scope could not be filtered, so that the result may not be complete.
    """
    if failed:
        return BundleStatus.ERROR
    if not reached:
        return BundleStatus.NO_MATCHES
    return BundleStatus.SUCCESS if returned >= expected and not unreadable else BundleStatus.PARTIAL


def assemble(
    attempt: BundleAttempt, *, seconds: float, failure: TruespanError | None = None
) -> ContextBundle:
    """Build the bundle of an attempt. A failed one has no chunks."""
    scope, packed, defaults = attempt.scope, attempt.packed, attempt.world.defaults.values
    tables, contract = not defaults.plain, defaults.contract_fields
    chosen = [] if failure else packed.chosen
    figures = [] if failure else packed.left_out.get(EXCLUDED, [])
    steps = attempt.steps if failure else [*attempt.steps, "assembled", "completed"]
    left_out = [Skipped(code, len(parts)) for code, parts in sorted(packed.left_out.items())]
    contained = sum(len(part.other_places) for part in chosen)
    if scope is not None and scope.names_place:
        # Overlapping chunks often have the same part of a chapter, which is shown once.
        contained = len(packed.left_out.get(DUPLICATE, ()))
    ordered = chosen
    if scope is not None and scope.position is not None:
        # A reader's context follows the order of the book.
        ordered = sorted(chosen, key=lambda part: (part.first_sid, part.start, part.end))
    metadata = copy_fields(
        BundleMetadata,
        attempt,
        processing_time_ms=int(seconds * 1000),
        original_top_k=attempt.top_k,
        returned_count=len(chosen),
        trace=tuple(steps),
        funnel=Funnel(attempt.in_scope, attempt.fetched_count, attempt.verified_count, len(chosen)),
        skipped=(*attempt.skipped, *left_out),
        warnings=tuple(attempt.warnings),
        sources=tuple(_source_note(part, scope, defaults) for part in chosen if scope),
        figures=tuple(_figure_note(part) for part in figures),
        floor_discriminates=attempt.discriminates,
        defaults=attempt.world.defaults,
    )
    bundle = ContextBundle(
        retrieved_chunks=tuple(_retrieved_chunk(part, contract=contract) for part in chosen),
        metadata=metadata,
        status=status_of(
            failed=failure is not None,
            reached=attempt.fetched_count > 0,
            # Figures are returned beside the chunks, and count as returned.
            returned=len(chosen) + len(figures) + (0 if failure else contained),
            expected=min(attempt.top_k, attempt.in_scope),
            unreadable=attempt.unreadable > 0,
        ),
        total_tokens=sum(count_rendered(part, tables=tables) for part in chosen),
        context=render(ordered, tables=tables),
        error=Problem(failure.code, str(failure), failure.retryable) if failure else None,
    )
    return set_origin(bundle, attempt.world, scope)


def _retrieved_chunk(part: Visible, *, contract: bool) -> RetrievedChunk:
    # The contract requires a URL, and a path is none.
    is_path = contract and part.source_url == part.path
    return copy_fields(
        RetrievedChunk,
        part,
        content=part.text,
        source_url=part.address if is_path else part.source_url,
        relevance_score=round_score(part.score),
        token_count=part.tokens,
    )


def _source_note(part: Visible, scope: Scope, defaults: WorldDefaults) -> SourceNote:
    return copy_fields(
        SourceNote,
        part,
        profile=scope.profile.id,
        generation=scope.generation.number,
        chunk_type=part.kind,
        text_language=language_of_passage(part, contract=defaults.contract_fields),
    )


def _figure_note(part: Visible) -> FigureNote:
    mark = part.figure or FigureMark("", None, None)
    return copy_fields(
        FigureNote,
        part,
        mark,
        parent_chunk_id=part.parent_id,
        parent_chunk_local_index=mark.parent.index if mark.parent else None,
        description=part.text,
        relevance_score=round_score(part.score),
    )
