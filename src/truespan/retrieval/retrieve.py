"""Retrieve context for a query, a selection, or a query within a selection, within the budget."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.errors import ScopeViolation
from truespan.observer import NULL_OBSERVER
from truespan.retrieval.deps import Restart
from truespan.retrieval.filters import ASK_FOR_ANY, METADATA_DAMAGED, name_defaults, with_defaults
from truespan.retrieval.pack import (
    BundleAttempt,
    BundleRequest,
    RankedPacking,
    pack_reranked,
    require_candidates,
    why_not_packed,
)
from truespan.retrieval.passages import PassageFitter, fit_packed, packer_for, packing_count
from truespan.retrieval.pipeline import APPROXIMATE, Pipeline
from truespan.retrieval.query import LOW_FLOOR, calibration_of, round_score, split_query
from truespan.retrieval.reading.pages import find_passage
from truespan.retrieval.stages import (
    Best,
    HitPager,
    complete_until,
    fetch_by_similarity,
    rank,
    rank_visible,
    read_chunks,
    reveal,
    verify,
)
from truespan.types.bundle import Located, NearMiss, Notice, Reason, WhyNot
from truespan.types.chunk import ChunkState
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import float32
from truespan.types.request import RELEVANCE_FLOOR, Mode, RetrievalRequest, mode_in_force
from truespan.types.scope import Scope, World, admits
from truespan.types.telemetry import Stage
from truespan.types.trust import Hit, Verified, Visible
from truespan.types.vectors import Vector, similarity_of

MAX_NEAR_MISSES = 5
MAX_FURTHER = 100
"""Maximum number of chunks that are counted beside those of a request."""
MAX_SEARCHED_FOR_SELECTION = 50
"""Maximum number of documents searched for a selection; those with chosen chunks come first."""


class Retrieval(BundleRequest):
    """One request for context, with its latest attempt."""

    def __init__(
        self, pipeline: Pipeline, request: RetrievalRequest, *, near_misses: bool = False
    ) -> None:
        """Check and admit the request; `near_misses` adds them to a result that is not empty."""
        self._request = request
        self._wants_near_misses = near_misses
        world = pipeline.admit("retrieve without a reader", request.query, request.selected_text)
        super().__init__(pipeline, world, request)

    def why_not(self, chunk_id: ChunkId) -> Reason:
        """Return why a chunk is not among the results; raises also when a service fails."""
        try:
            self.run()
            reason = why_not_packed(self.attempt.packed, chunk_id)
        except ScopeViolation:
            reason = Reason(WhyNot.UNRELATED)
        attempt, world = self.attempt, self._world
        if reason is None and world.generation is not None:
            store, authority = self.pipeline.deps.store, self.pipeline.authority
            whole = store.catalogs.scope_of(authority, world, world.generation)
            reason = self._why_not_found(attempt.scope or whole, chunk_id)
        codes = APPROXIMATE.code, METADATA_DAMAGED
        warnings = tuple(notice for notice in attempt.warnings if notice.code in codes)
        return replace(reason or Reason(WhyNot.ABSENT), warnings=warnings)

    def _start(self, world: World) -> BundleAttempt:
        request = self._request
        mode = mode_in_force(request.mode, world.defaults, request.query)
        has_floor = mode is not Mode.KEYWORD or world.defaults.values.plain
        return BundleAttempt(
            world,
            mode,
            request.query,
            query_type=request.query_type,
            top_k=request.top_k,
            floor=RELEVANCE_FLOOR if has_floor else None,
            budget=self._budget,
        )

    def _retrieve_once(self, world: World) -> BundleAttempt:
        # A failure is reported together with what the latest attempt found.
        attempt = self.attempt = self._start(world)
        pipeline, request = self.pipeline, self._request
        scope = pipeline.scope(attempt, request.filters, request.by_default)
        if scope is None:
            return attempt
        ranking, selection = self._vectors(attempt, scope)
        attempt.steps.append("vectorized")
        calibration = calibration_of(pipeline.deps.store, scope, world)
        if calibration is not None and attempt.floor is not None:
            attempt.discriminates = calibration.discriminates(attempt.floor)
        self._choose(attempt, scope, ranking, selection)
        self._warn_of_defaults(attempt, ranking)
        reads_more = request.selected_text is not None or request.passages.reads_sentences
        is_last = attempt.hidden is None and not reads_more
        attempt.settled = is_last and attempt.fetched.changes == world.changes
        if self._wants_near_misses or not attempt.packed.chosen:
            attempt.settled = False
            with pipeline.deps.trace.stage(Stage.NEAR_MISSES):
                attempt.near_misses = self._near_misses(scope, ranking, attempt.floor)
            if attempt.discriminates is False and not attempt.lacks_words:
                attempt.warnings.append(LOW_FLOOR)
        if request.selected_text is not None:
            with pipeline.deps.trace.stage(Stage.LOCATED):
                attempt.located = self._locate(attempt, scope, request.selected_text)
        return attempt

    def _vectors(self, attempt: BundleAttempt, scope: Scope) -> tuple[Vector, list[Vector]]:
        """Return the vector to rank by, and the vectors of the parts of the selection."""
        parts, request = [], self._request
        if request.selected_text is not None:
            parts = split_query(
                self.pipeline.deps, request.selected_text, scope.profile.input_limit
            )
        query = None if request.query is None else request.query.strip()
        return self.pipeline.vectors(attempt, scope, query, parts)

    def _choose(
        self, attempt: BundleAttempt, scope: Scope, ranking: Vector, selection: Sequence[Vector]
    ) -> None:
        """Search, verify and pack, fetching more while candidates have to be skipped."""
        request, stage, trace = self._request, self._stage, self.pipeline.deps.trace
        k = packing_count(request.passages, request.top_k, scope, attempt.in_scope)
        related = _Related(self.pipeline, scope, selection if request.query is not None else ())
        candidates = stage.candidates if stage else 0
        packer = packer_for(attempt, request.passages, k)

        def select(verified: list[Verified]) -> RankedPacking:
            with trace.stage(Stage.VISIBLE):
                visible = [part for found in verified for part in reveal(found, scope)]
                kept = related.keep(visible)
            with trace.stage(Stage.RANKED):
                ranked = rank_visible(kept)
            packed = require_candidates(packer.pack(ranked), ranked, candidates)
            return RankedPacking(ranked, packed.missing)

        selected = self.pipeline.fetch(
            attempt,
            scope,
            ranking,
            k=min(max(k, candidates), attempt.in_scope),
            floor=attempt.floor,
            select=select,
        )
        attempt.steps += ["searched", "filtered", "ranked"]
        attempt.packed = pack_reranked(attempt, stage, selected.ranked, packer, trace)
        attempt.steps += ["reranked"] if stage else []
        fitter = PassageFitter(self.pipeline.deps, scope, request.passages, ranking, attempt)
        fit_packed(attempt, fitter)
        counted = attempt.fetched.down_to(attempt.packed.last)
        readable = len(counted.verified)
        attempt.count(readable, counted)
        if related.parts and readable and not any(related.known.values()):
            raise ScopeViolation

    def _warn_of_defaults(self, attempt: BundleAttempt, ranking: Vector) -> None:
        """Warn of chunks that only a default filter left out, and the search would have found.

        The index is queried only if a default left out documents.
        """
        hidden, catalog = attempt.hidden, attempt.catalog
        if hidden is None or catalog is None or not catalog.count_chunks(hidden.documents)[0]:
            return
        found = self._find_further(hidden, ranking, attempt.floor)
        numbers = [chunk.document.number for chunk in found if reveal(chunk, hidden)]
        if not numbers:
            return
        entries = (entry for number in numbers for entry in catalog.among([number]))
        names = self._request.by_default
        filters = with_defaults(self._request.filters, names, attempt.world)
        reasons = name_defaults(entries, filters, names)
        more = " or more" if len(numbers) == MAX_FURTHER else ""
        passages = "passage was" if len(numbers) == 1 else "passages were"
        text = f"{len(numbers)}{more} {passages} left out by {reasons}. {ASK_FOR_ANY}"
        attempt.warnings.append(Notice("default_filter_left_out", text))

    def _find_further(self, scope: Scope, ranking: Vector, floor: float | None) -> list[Verified]:
        """Return the best chunks of a scope, found in the way of the request."""
        deps, attempt = replace(self.pipeline.deps, trace=NULL_OBSERVER), self.attempt

        def select(verified: list[Verified]) -> Best:
            return Best(verified, MAX_FURTHER - len(verified), None)

        if attempt.by_words and attempt.query is not None:
            from truespan.retrieval.candidates import fetch_fused

            found, _ = fetch_fused(
                *(deps, scope, attempt.world, ranking, attempt.query),
                k=MAX_FURTHER,
                floor=floor,
                select=select,
                mode=attempt.mode,
            )
        else:
            found, _ = fetch_by_similarity(
                deps, scope, ranking, k=MAX_FURTHER, floor=floor, select=select
            )
        return found.verified[:MAX_FURTHER]

    def _why_not_found(self, scope: Scope, chunk_id: ChunkId) -> Reason:
        """Return why a chunk that was not packed is not among the results."""
        record = read_chunks(self.pipeline.deps, scope, [chunk_id]).get(chunk_id)
        if record is None or not record.live:
            return Reason(WhyNot.ABSENT)
        store, world = self.pipeline.deps.store, self._world
        catalog = store.catalogs.documents(scope, world) if scope.is_limited else None
        if catalog is not None and record.document.number not in catalog.numbers:
            return Reason(WhyNot.ABSENT)
        if record.state is not ChunkState.EMBEDDED or record.chunk is None:
            return Reason(WhyNot.NOT_EMBEDDED)
        embedded = record.chunk.text_hash
        verified = verify([Hit(chunk_id, 0.0, embedded)], {chunk_id: record}).verified
        if not verified:
            return Reason(WhyNot.NOT_TRUSTED)
        parts = reveal(verified[0], scope)
        if not parts:
            return Reason(WhyNot.FILTERED)
        stored = self.pipeline.deps.store.chunks.vectors(scope, [embedded]).get(embedded)
        if stored is None:
            return Reason(WhyNot.NOT_EMBEDDED)
        ranking, selection = self._vectors(self.attempt, scope)
        score = similarity_of(ranking, stored, scope.profile.distance)
        floor = self.attempt.floor
        if self.attempt.by_words and not self._has_words(scope, verified[0]):
            return Reason(WhyNot.NO_WORDS, round_score(score))
        if floor is not None and float32(score) < float32(floor):
            return Reason(WhyNot.BELOW_FLOOR, round_score(score))
        has_query = self._request.query is not None
        related = _Related(self.pipeline, scope, selection if has_query else ())
        code = WhyNot.OUTRANKED if related.keep(parts) else WhyNot.UNRELATED
        return Reason(code, round_score(score))

    def _has_words(self, scope: Scope, found: Verified) -> bool:
        """Return whether a chunk has a word of the query, and every phrase of it."""
        from truespan.retrieval.candidates import word_scores

        document, attempt = found.document, self.attempt
        words = word_scores(self.pipeline.deps.store, scope, attempt.world, attempt.query or "")
        layout = words.finder.layout
        place = layout.place(document.number, document.revision, found.chunk.index)
        if place is None or not words.scores.of(place):
            return False
        return words.query.occurs_in(found.text, layout.language(place))

    def _near_misses(
        self, scope: Scope, ranking: Vector, floor: float | None
    ) -> tuple[NearMiss, ...]:
        """Return the best verified chunks below the floor that the caller may see."""
        if floor is None:
            return ()
        if self.attempt.by_words:
            found = self._find_further(scope, ranking, None)
            below = [part for part in found if float32(part.score) < float32(floor)]
            return _name_near_misses(sorted(below, key=lambda part: -part.score), scope)
        pager = HitPager(self.pipeline.deps.index, scope, ranking, None, limit=64)
        while True:
            below = [hit for hit in pager.hits if hit.score < floor]
            length = complete_until(below, MAX_NEAR_MISSES, exhausted=pager.exhausted)
            if length is not None:
                break
            pager.extend(0)
        ids = [hit.chunk_id for hit in below[:length]]
        verified = verify(below[:length], read_chunks(self.pipeline.deps, scope, ids)).verified
        return _name_near_misses(rank(verified, len(verified)), scope)

    def _locate(self, attempt: BundleAttempt, scope: Scope, text: str) -> tuple[Located, ...]:
        """Return the place of a selection in the first document that contains it."""
        store = self.pipeline.deps.store
        entries = (
            entry for entry in attempt.catalog or () if admits(scope.documents, entry.number)
        )
        names = {entry.number: (entry.name, entry.path) for entry in entries}
        likely = dict.fromkeys(part.document for part in attempt.packed.chosen)
        order = [*likely, *(number for number in names if number not in likely)]
        for number in order[:MAX_SEARCHED_FOR_SELECTION]:
            if number not in names:
                # Its document was added since the catalog was read.
                raise Restart
            span = next(find_passage(text, store.documents.canonical_text(scope, number)), None)
            if span is None:
                continue
            name, path = names[number]
            before = [
                entry for entry in store.documents.outline(scope, number) if entry.start <= span[0]
            ]
            chapter = (before[-1].chapter if before else None) or name
            section = (before[-1].section if before else None) or chapter
            first, last = store.documents.sentences_across(scope, number, *span)
            return (
                Located(
                    document=number,
                    source=name,
                    path=path,
                    chapter=chapter,
                    section=section,
                    first_sid=first,
                    last_sid=last,
                    start=span[0],
                    end=span[1],
                ),
            )
        return ()


def _name_near_misses(ranked: Sequence[Verified], scope: Scope) -> tuple[NearMiss, ...]:
    """Return the first verified chunks that the caller may see."""
    visible = [part for found in ranked for part in reveal(found, scope)[:1]]
    return tuple(
        NearMiss(*(part.chunk_id, round_score(part.score), part.source, part.chapter), part.path)
        for part in visible[:MAX_NEAR_MISSES]
    )


class _Related(Struct, frozen=True):
    """Test whether chunks are related to some part of a selection; without parts, all are."""

    pipeline: Pipeline
    scope: Scope
    parts: Sequence[Vector]
    known: dict[TextHash, bool] = field(default_factory=dict)

    def keep(self, visible: list[Visible]) -> list[Visible]:
        """Return the related ones. Each text is compared once."""
        if not self.parts:
            return visible
        hashes = [part.embedded_hash or part.text_hash for part in visible]
        unknown = [text_hash for text_hash in hashes if text_hash not in self.known]
        stored = self.pipeline.deps.store.chunks.vectors(self.scope, unknown) if unknown else {}
        distance = self.scope.profile.distance
        for text_hash in unknown:
            vector = stored.get(text_hash)
            self.known[text_hash] = vector is not None and any(
                similarity_of(vector, part, distance) >= RELEVANCE_FLOOR for part in self.parts
            )
        return [part for part, known in zip(visible, hashes, strict=True) if self.known[known]]
