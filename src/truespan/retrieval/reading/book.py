"""Retrieval for a reader, from the part of a book up to the recorded position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.core.records import copy_fields
from truespan.errors import NotFound
from truespan.observer import NULL_OBSERVER
from truespan.retrieval import fused
from truespan.retrieval.background import LAST_RANK
from truespan.retrieval.pack import (
    BundleAttempt,
    BundleRequest,
    RankedPacking,
    pack_reranked,
    require_candidates,
    why_not_packed,
)
from truespan.retrieval.passages import PassageFitter, fit_packed, packer_for, packing_count
from truespan.retrieval.pipeline import Attempt, Pipeline, boilerplate_test
from truespan.retrieval.query import query_language
from truespan.retrieval.reading.candidates import ROUNDING, Found, FusedBookSearch, Select
from truespan.retrieval.reading.tail import TailMaker
from truespan.retrieval.reading.words import read_part, score_read
from truespan.retrieval.repeats import merge_copies
from truespan.retrieval.search import AnswerAttempt, Rules, candidates_of
from truespan.retrieval.stages import (
    SLACK,
    HitPager,
    drop_boilerplate,
    fetch_pages,
    labels_of,
    rank_visible,
    reveal,
    start_hits,
    visible_chunk_id,
)
from truespan.types.answer import ANSWER_TOP_K, MAX_NEAR_MISSES, Retrieved, Shortlist, shortlist
from truespan.types.bundle import Notice, Reason, WhyNot
from truespan.types.catalog import References, find_by_title
from truespan.types.chunk import ChunkKind
from truespan.types.decision import DecisionSettings
from truespan.types.ids import ChunkId, reader_chunk_id
from truespan.types.profile import crosses_languages, knows_well, reaches
from truespan.types.reading import NOTHING_READ, Position, TailChunk
from truespan.types.request import Mode, ReadingRequest, mode_in_force
from truespan.types.scope import Scope, Verb, World
from truespan.types.telemetry import Stage
from truespan.types.trust import FailureKind, VerificationFailure, Verified, Visible
from truespan.types.vectors import Vector, similarities_of

NO_POSITION = Notice(
    "no_reading_position", "No reading position is recorded, so nothing of this book is readable."
)
NOTHING_READ_YET = Notice("nothing_read", "Nothing of this book has been read yet.")


def find_position(positions: Sequence[Position], book: str | None) -> Position | None:
    """Return the position in the named book, or in the current one if none is named.

    A book is named as `References` and `find_by_title` say, by what its readers may know. Raises
    DocumentAmbiguous if the reader has a position in several of that name.
    """
    if book is None:
        return next((position for position in positions if position.current), None)

    def label(position: Position) -> tuple[int, str, str, str | None]:
        known = position.label
        return known.number, known.doc_id, known.path, known.source_url

    return References(positions, label).find_one(book) or find_by_title(
        positions, book, lambda each: (each.label.number, each.label.path, each.title)
    )


class ReaderRetrieval(BundleRequest):
    """One request of a reader for context, with its latest attempt."""

    def __init__(
        self,
        pipeline: Pipeline,
        read_positions: Callable[[Scope], list[Position]],
        reader: str,
        request: ReadingRequest,
    ) -> None:
        """Check and admit the request; `read_positions` reads the positions of the reader."""
        self._read_positions = read_positions
        self._request = request
        world = pipeline.admit("read as this reader", request.query, reader=reader)
        self._latest: tuple[BookSearch | FusedBookSearch, Position] | None = None
        super().__init__(pipeline, world, request)

    def why_not(self, chunk_id: ChunkId) -> Reason:
        """Return why a chunk is not among a reader's results. An unread chunk counts as absent."""
        attempt = self.run()
        packed, scope = attempt.packed, attempt.scope
        reason = why_not_packed(packed, chunk_id)
        if reason is not None or scope is None or scope.position is None:
            return reason or Reason(WhyNot.ABSENT)
        position = find_position(self._read_positions(scope), self._request.book)
        if position is None or position.sid != scope.position:
            return Reason(WhyNot.ABSENT)
        known = (
            reader_chunk_id(scope.world, scope.generation.number, position.document, *mark)
            for mark in self.pipeline.deps.store.readers.whole_marks(
                scope, position.ref, position.sid
            )
        )
        if chunk_id not in known:
            return Reason(WhyNot.ABSENT)
        # A search by words alone that is not full has looked at all chunks with a word.
        is_full = packed.last is not None
        return Reason(WhyNot.OUTRANKED if is_full or not attempt.by_words else WhyNot.NO_WORDS)

    def found(self, rules: Rules) -> Retrieved:
        """Return the chunks of the bundle as candidates for an answer, without another search.

        Their background is that of the cohort alone: no further chunks are searched for.
        """
        attempt, scope = self.attempt, self.attempt.scope
        if scope is None or self._latest is None:
            return Retrieved(attempt.world, attempt.mode)
        found = AnswerAttempt(attempt.world, attempt.mode, attempt.query, scope)
        found.chunks = tuple(attempt.packed.chosen)
        self._measure(found, rules(scope, attempt.world.defaults)[0], *self._latest, ())
        chunks, measured = found.chunks, found.measured
        return Retrieved(attempt.world, attempt.mode, scope, chunks, measured=measured)

    def candidates(self, rules: Rules) -> Retrieved:
        """Return the best chunks of the read part at or above the floor, for an answer."""
        attempt = self.pipeline.in_stable_world(
            self._world, lambda latest: self._find_candidates_once(latest, rules)
        )
        return candidates_of(self.pipeline, attempt)

    def _start(self, world: World) -> BundleAttempt:
        request = self._request
        return BundleAttempt(
            world,
            mode_in_force(request.mode, world.defaults, request.query),
            request.query,
            query_type="standard",
            top_k=request.top_k,
            floor=None,
            budget=self._budget,
        )

    def _retrieve_once(self, world: World) -> BundleAttempt:
        # A failure is reported together with what the latest attempt found.
        attempt = self.attempt = self._start(world)
        position, options = self._open(attempt), self._request.passages
        if attempt.scope is None or position is None:
            return attempt
        top_k, candidates = self._request.top_k, self._stage.candidates if self._stage else 0
        most = max(packing_count(options, top_k), candidates)
        search = self._search(attempt, attempt.scope, position, most, None)
        self._latest = search, position
        attempt.steps.append("vectorized")
        k = packing_count(options, top_k, attempt.scope, attempt.in_scope)
        packer = packer_for(attempt, options, k)
        found = search.find(
            min(max(k, candidates), attempt.in_scope),
            lambda visible: require_candidates(packer.pack(visible), visible, candidates),
        )
        found = self._add_miscounted(found, attempt.scope, world, position)
        attempt.fetched = found.fetched
        attempt.warnings += attempt.fetched.notices
        attempt.steps += ["searched", "filtered", "ranked"]
        trace = self.pipeline.deps.trace
        attempt.packed = pack_reranked(attempt, self._stage, found.visible, packer, trace)
        attempt.steps += ["reranked"] if self._stage else []
        attempt.count(*found.down_to(attempt.packed.last))
        deps, scope = self.pipeline.deps, attempt.scope
        fit_packed(attempt, PassageFitter(deps, scope, options, search.vector, attempt))
        is_last = not options.reads_sentences
        attempt.settled = is_last and attempt.fetched.changes == world.changes
        return attempt

    def _find_candidates_once(self, world: World, rules: Rules) -> AnswerAttempt:
        query = self._request.query
        mode = mode_in_force(self._request.mode, world.defaults, query)
        attempt = AnswerAttempt(world, mode, query)
        position = self._open(attempt)
        if attempt.scope is None or position is None:
            return attempt
        settings, floor = rules(attempt.scope, world.defaults)
        search = self._search(attempt, attempt.scope, position, ANSWER_TOP_K, floor)

        is_boilerplate = boilerplate_test(world, self._request.passages)

        def shortlist_best(parts: list[Visible], count: int) -> Shortlist:
            if is_boilerplate is not None:
                parts = drop_boilerplate(parts, is_boilerplate)
            if not world.defaults.values.plain:
                parts = merge_copies(parts)
            return shortlist(parts, count, settings.exclude_chunk_types_from_llm)

        def select(visible: list[Visible]) -> Shortlist:
            # Stored chunks and the tail are scored alike, so the floor applies only here.
            above = [part for part in visible if reaches(part.score, floor)]
            return shortlist_best(above, ANSWER_TOP_K)

        found = search.find(min(ANSWER_TOP_K, attempt.in_scope), select)
        found = self._add_miscounted(found, attempt.scope, world, position)
        attempt.fetched = found.fetched
        attempt.warnings += attempt.fetched.notices
        chosen = select(found.visible).chunks
        attempt.chunks = tuple(attempt.reorder(self._stage, chosen)) if self._stage else chosen
        closest = ()
        if not chosen or settings.evidence is not None:
            count = MAX_NEAR_MISSES if settings.evidence is None else LAST_RANK
            closest = self._find_closest(attempt, search, shortlist_best, count)
            attempt.closest = () if chosen else closest[:MAX_NEAR_MISSES]
        deps, options = self.pipeline.deps, self._request.passages
        attempt.fitter = PassageFitter(deps, attempt.scope, options, search.vector, attempt)
        if settings.evidence is not None:
            self._measure(attempt, settings, search, position, closest)
        return attempt

    def _measure(
        self,
        attempt: AnswerAttempt,
        settings: DecisionSettings,
        search: BookSearch | FusedBookSearch,
        position: Position,
        closest: Sequence[Visible],
    ) -> None:
        """Measure the evidence of the chunks of an attempt."""
        deps, query = self.pipeline.deps, self._request.query
        if isinstance(search, FusedBookSearch):
            words = search.counted
        else:
            words = score_read(
                deps.store, search.scope, attempt.world, position, search.tail, query
            )
        attempt.measure(deps, settings, search.vector, words.rarity, closest, words.language)

    def _add_miscounted(
        self, found: Found, scope: Scope, world: World, position: Position
    ) -> Found:
        """Add the read chunks whose state another program changed, to write their points again.

        They count as pending, so that a search by words does not find them.
        """
        words = self.pipeline.deps.store.catalogs.revision_words(scope, world, position.ref)
        failures = [
            VerificationFailure(FailureKind.STALE, id, text_hash, text_hash, inf)
            for id, text_hash in read_part(words, position.sid).miscounted
        ]
        fetched = found.fetched
        return replace(found, fetched=replace(fetched, failures=[*fetched.failures, *failures]))

    def _find_closest(
        self,
        attempt: Attempt,
        search: BookSearch | FusedBookSearch,
        shortlist_best: Callable[[list[Visible], int], Shortlist],
        count: int,
    ) -> tuple[Visible, ...]:
        """Return the closest read chunks, also below the floor."""
        count = min(count, attempt.in_scope)
        with self.pipeline.deps.trace.stage(Stage.NEAR_MISSES):
            deps = replace(self.pipeline.deps, trace=NULL_OBSERVER)
            pipeline = replace(self.pipeline, deps=deps)
            index, limit = pipeline.deps.index, count + SLACK
            hits = start_hits(index, search.scope, search.vector, None, limit=limit)
            book = BookSearch(pipeline, search.scope, search.vector, search.tail, hits)
            found = book.find(count, lambda visible: shortlist_best(visible, count))
        return shortlist_best(found.visible, count).chunks

    def _open(self, attempt: Attempt) -> Position | None:
        """Return the position in the named book, or in the current one, and narrow the scope to it.

        None, with a warning, if nothing is readable.
        """
        store, authority = self.pipeline.deps.store, self.pipeline.authority
        world, book = attempt.world, self._request.book
        with self.pipeline.deps.trace.stage(Stage.SCOPED):
            position = scope = None
            if world.generation is not None:
                scope = store.catalogs.scope_of(authority, world, world.generation)
                # The position is read here, once, before the index is queried.
                position = find_position(self._read_positions(scope), book)
            if scope is not None and position is not None:
                attempt.scope = scope.for_reader(position.document, position.revision, position.sid)
                if position.sid != NOTHING_READ:
                    return position
                attempt.warnings.append(NOTHING_READ_YET)
                return None
            # A caller who may not see the world's documents cannot tell a missing document from one
            # without a position, so that names cannot be guessed.
            if book is not None and authority.may(Verb.READ, world.id):
                catalog = store.catalogs.documents(scope, world) if scope else None
                if catalog is None or not catalog.named([book]):
                    raise NotFound("document", book)
            attempt.warnings.append(NO_POSITION)
            return None

    def _search(
        self, attempt: Attempt, scope: Scope, position: Position, most: int, floor: float | None
    ) -> BookSearch | FusedBookSearch:
        """Embed the query, query the index, and build the tail, which completes its hits.

        The index searches for the `most` best chunks while tail and words are read.
        """
        query = self._request.query
        vector, attempt.states = self.pipeline.embed(scope, attempt.world, query.strip())
        deps, ref, mode = self.pipeline.deps, position.ref, attempt.mode
        wait_for_hits = None
        if not attempt.by_words:
            # The margin covers the single precision of the index.
            least = None if floor is None else max(floor - ROUNDING, 0.0)
            limit = (most if mode is Mode.VECTOR else fused.POOL) + SLACK
            wait_for_hits = start_hits(deps.index, scope, vector, least, limit=limit)
        store = deps.store
        with self.pipeline.deps.trace.stage(Stage.TAIL):
            tail = TailMaker(deps).tail(
                scope,
                ref,
                position.sid,
                position.chunking,
                word_states=attempt.states is not None and mode is not Mode.VECTOR,
            )
        attempt.stored = store.catalogs.whole_chunks(scope, attempt.world, ref, position.sid)
        attempt.in_scope = attempt.stored + len(tail)
        vectors = {chunk.text_hash: chunk.vector for chunk in tail if chunk.vector is not None}
        similarities = similarities_of(vector, [*vectors.values()], scope.profile.distance)
        scores = dict(zip(vectors, similarities, strict=True))
        parts = [
            _tail_part(scope, position, chunk, scores[chunk.text_hash])
            for chunk in tail
            if chunk.text_hash in scores
        ]
        if wait_for_hits is not None and mode is Mode.VECTOR:
            return BookSearch(self.pipeline, scope, vector, parts, wait_for_hits)
        with self.pipeline.deps.trace.stage(Stage.WORDS):
            words = score_read(store, scope, attempt.world, position, parts, query)
        weight = 1.0 if mode is Mode.KEYWORD else deps.fused_weight
        refines = not attempt.world.defaults.values.plain
        return FusedBookSearch(
            deps=deps,
            scope=scope,
            vector=vector,
            floor=floor,
            tail=parts,
            counted=words,
            weight=weight,
            wait_for_hits=wait_for_hits,
            refines=refines,
            states=attempt.states,
            tail_states={chunk.text_hash: chunk.states for chunk in tail if chunk.states},
            tail_vectors=vectors,
            trained=not refines or knows_well(scope.profile, words.language),
            crossed=refines
            and crosses_languages(
                scope.profile, query_language(scope.profile, query), words.language
            ),
        )


class BookSearch(Struct, frozen=True):
    """One query against the read part of a book: stored chunks, and the tail.

    Stored chunks are scored from their vectors, as the tail is: one routine for both.
    """

    pipeline: Pipeline
    scope: Scope
    vector: Vector
    tail: list[Visible]
    wait_for_hits: Callable[[], HitPager]
    """Waits for the hits of the index, which was queried already."""
    _known: dict[ChunkId, list[Visible]] = field(default_factory=dict)

    def find(self, k: int, select: Select) -> Found:
        """Fetch and verify until nothing is missing that could be among the best `k`."""

        def rank_read(verified: list[Verified]) -> RankedPacking:
            with deps.trace.stage(Stage.VISIBLE):
                visible = self.reveal(verified)
            with deps.trace.stage(Stage.RANKED):
                ranked = rank_visible([*visible, *self.tail])
            selected = select(ranked)
            if selected.last is None:
                return RankedPacking(ranked, selected.missing)
            # Parts of the tail may have taken the places of stored chunks not fetched yet. The
            # margin covers the single precision of the index.
            seen_down_to = min((found.score for found in verified), default=inf)
            return RankedPacking(ranked, int(seen_down_to >= selected.last - ROUNDING))

        deps, scope = self.pipeline.deps, self.scope
        with deps.trace.stage(Stage.HITS):
            pager = self.wait_for_hits()
        # One more than are wanted shows where those end, in nearly every search.
        fetched, found = fetch_pages(deps, scope, pager, k=k + 1, select=rank_read)
        if failures := _without_vector(fetched.verified):
            failures = [*fetched.failures, *failures]
            fetched = replace(fetched, failures=failures)
        return Found(found.ranked, fetched)

    def reveal(self, verified: Sequence[Verified]) -> list[Visible]:
        """Return the visible parts of verified chunks, scored from their stored vectors."""
        unknown = [
            found
            for found in verified
            if found.chunk.vector is not None and found.chunk.chunk_id not in self._known
        ]
        vectors = [found.chunk.vector for found in unknown if found.chunk.vector is not None]
        scores = similarities_of(self.vector, vectors, self.scope.profile.distance)
        for found, score in zip(unknown, scores, strict=True):
            parts = reveal(replace(found, score=score, fused=None), self.scope)
            self._known[found.chunk.chunk_id] = parts
        return [part for found in verified for part in self._known.get(found.chunk.chunk_id, ())]


def _without_vector(verified: Sequence[Verified]) -> list[VerificationFailure]:
    """Return the chunks whose stored vector is missing or damaged.

    They cannot be ranked, and are embedded again.
    """
    return [
        VerificationFailure(
            FailureKind.STALE, chunk.chunk_id, chunk.text_hash, chunk.text_hash, found.score
        )
        for found in verified
        for chunk in [found.chunk]
        if chunk.vector is None
    ]


def _tail_part(scope: Scope, position: Position, chunk: TailChunk, score: float) -> Visible:
    chapter = chunk.chapter or position.title
    return copy_fields(
        Visible,
        labels_of(scope.world, position.label, for_reader=True),
        chunk,
        chunk_id=visible_chunk_id(scope, position.document, chunk),
        document=position.document,
        source=position.name,
        title=position.title,
        revision=None,
        chapter=chapter,
        section=chunk.section or chapter,
        kind=ChunkKind.TEXT,
        score=score,
    )
