"""Search a whole world: for a caller, for the candidates of an answer, and for an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from truespan.errors import StoreDamaged
from truespan.observer import NULL_OBSERVER
from truespan.retrieval.fetch import fetch_by_similarity
from truespan.retrieval.pack import count_rendered, render
from truespan.retrieval.passages import (
    Budget,
    PassageFitter,
    name_dropped,
    packing_count,
)
from truespan.retrieval.pipeline import (
    METADATA_DAMAGED,
    Attempt,
    Pipeline,
    count_funnel,
    follows_contract,
    merges_copies,
    ranks_boilerplate_last,
    renders_tables,
)
from truespan.retrieval.query_vector import LOW_FLOOR, floor_discriminates, round_score
from truespan.retrieval.repeats import add_place, merge_copies
from truespan.retrieval.stages import (
    Best,
    choose_best,
    drop_boilerplate,
    parent_id,
    put_boilerplate_last,
    rank,
    rank_visible,
    reveal,
)
from truespan.types.answer import (
    ANSWER_TOP_K,
    MAX_NEAR_MISSES,
    Fitted,
    Retrieved,
    Shortlist,
    shortlist,
)
from truespan.types.bundle import Notice, Passage, Receipt, SearchResult, Skipped, WhyNot
from truespan.types.chunk import ChunkKind
from truespan.types.decision import DecisionSettings
from truespan.types.ids import ChunkId
from truespan.types.request import (
    MAX_CONTEXT_TOKENS,
    MAX_QUERY_LENGTH,
    Defaults,
    Filters,
    Mode,
    RetrievalRequest,
    SearchRequest,
)
from truespan.types.scope import Scope, World
from truespan.types.telemetry import CounterName, Stage
from truespan.types.trust import Verified, Visible
from truespan.types.vectors import Vector

Rules: TypeAlias = Callable[[Scope, Defaults], tuple[DecisionSettings, float]]
"""Returns, for a scope, the settings of the decision and the floor to search with."""


def search(pipeline: Pipeline, request: SearchRequest) -> SearchResult:
    """Find the chunks closest to a query, each verified as it is read.

    Checks come in the order of their cost: world, k, query, what is in scope, then the provider and
    the index.
    """
    clock, trace = pipeline.deps.clock, pipeline.trace
    began, query, options = clock.monotonic(), request.query.strip(), request.passages
    # Checked before anything is read; without `max_tokens` a search has no budget.
    budget = inf if options.max_tokens is None else options.budget(pipeline.deps.most_tokens)
    wanted = query if request.top_k else None
    world = pipeline.admit("search without a reader", wanted, longest=MAX_QUERY_LENGTH)
    stage, tables = pipeline.rerank_stage(world, request.rerank, query), renders_tables(world)
    attempt, best = Attempt(world, request.mode, query), Best([], 0, None)

    def fill(latest: World) -> None:
        nonlocal best
        best = Best([], 0, None)
        scope = pipeline.scope(attempt, latest, request.filters)
        if scope is None:
            return
        shown = packing_count(options, request.top_k, scope, attempt.in_scope)
        # More than are returned if they are reranked.
        k = min(max(shown, stage.candidates if stage else 0), attempt.in_scope)
        last = ranks_boilerplate_last(latest, options)
        text_of = _text_of(scope) if merges_copies(latest) else None
        attempt.discriminates = floor_discriminates(pipeline.store, scope, latest, request.floor)
        vector = pipeline.query_vector(scope, latest, query)

        def missing(verified: list[Verified], _: float) -> int:
            nonlocal best
            with trace.stage(Stage.RANKED):
                best = choose_best(verified, k, boilerplate_last=last, text_of=text_of)
            return best.missing

        attempt.fetched = pipeline.fetch(
            attempt, scope, vector, k=k, floor=request.floor, missing=missing
        )
        visible = attempt.reorder(stage, _visible(best.found, scope, best.copies))
        if stage is not None and last:
            visible = put_boilerplate_last(visible)
        fitter = PassageFitter(
            deps=pipeline.deps,
            scope=scope,
            options=options,
            vector=vector,
            query=query,
            mode=attempt.mode,
        )
        attempt.chunks = tuple(
            fitter.fit(visible[:shown], request.top_k, Budget(budget, tables=tables))
        )
        attempt.warnings += fitter.warnings
        attempt.settled = not options.reads_sentences

    if request.top_k:
        pipeline.run(world, attempt, fill)
    k = min(request.top_k, attempt.in_scope)
    with trace.stage(Stage.BUNDLE):
        if not best.found and attempt.discriminates is False:
            attempt.warnings.append(LOW_FLOOR)
        counted, scope = attempt.fetched.down_to(best.last), attempt.scope
        known = {found.chunk.chunk_id: found for found in best.found}
        contract = follows_contract(attempt.world)
        passages = tuple(
            _passage(part, known[part.chunk_id], scope, contract=contract)
            for part in attempt.chunks
            if scope
        )
        context = render(
            (part for part in passages if part.chunk_type is not ChunkKind.FIGURE), tables=tables
        )
        result = SearchResult(
            world=world.id,
            passages=passages,
            context=context,
            requested_k=request.top_k,
            effective_k=k,
            floor=request.floor,
            funnel=counted.funnel(attempt.in_scope, len(passages)),
            skipped=(*counted.skipped(), *_count_copies(passages)),
            warnings=tuple(attempt.warnings),
            processing_time_ms=int((clock.monotonic() - began) * 1000),
            floor_discriminates=attempt.discriminates,
            rerank=attempt.rerank,
            mode=attempt.mode,
            defaults=attempt.world.defaults,
            chunk_text=context if contract else UNSET,
        )
    count_funnel(trace, result.funnel, result.skipped)
    return result


class AnswerAttempt(Attempt):
    """A pass through the stages that ends in the candidates for an answer."""

    fitter: PassageFitter | None = None
    """Fits the chunks that a model gets to the options of the request."""
    closest: tuple[Visible, ...] = ()
    """The best chunks below the floor, where no chunk reached it."""


def find_candidates(pipeline: Pipeline, request: RetrievalRequest, rules: Rules) -> Retrieved:
    """Return the best chunks for an answer at or above the floor, from one state of the world."""
    query, options = (request.query or "").strip(), request.passages
    options.budget(pipeline.deps.most_tokens)
    world = pipeline.admit("answer without a reader", query)
    stage = pipeline.rerank_stage(world, request.rerank, query)
    attempt = AnswerAttempt(world, request.mode, query)

    def fill(latest: World) -> None:
        scope = pipeline.scope(attempt, latest, request.filters)
        if scope is None:
            return
        settings, floor = rules(scope, latest.defaults)
        chosen: Sequence[Visible] = ()

        def select(verified: list[Verified], wanted: int) -> Shortlist:
            with pipeline.trace.stage(Stage.VISIBLE):
                visible = [_best_part(parts, query) for parts in _revealed(verified, scope)]
            with pipeline.trace.stage(Stage.RANKED):
                excluded = settings.exclude_chunk_types_from_llm
                ranked = rank_visible(visible)
                if ranks_boilerplate_last(latest, options):
                    ranked = drop_boilerplate(ranked)
                if merges_copies(latest):
                    ranked = merge_copies(ranked)
                return shortlist(ranked, wanted, excluded)

        def missing(verified: list[Verified], _: float) -> int:
            nonlocal chosen
            selected = select(verified, ANSWER_TOP_K)
            chosen = selected.chunks
            return selected.missing

        vector = pipeline.query_vector(scope, latest, query)
        attempt.fetched = pipeline.fetch(
            attempt,
            scope,
            vector,
            k=min(ANSWER_TOP_K, attempt.in_scope),
            floor=floor,
            missing=missing,
        )
        attempt.fitter = PassageFitter(
            deps=pipeline.deps,
            scope=scope,
            options=options,
            vector=vector,
            query=query,
            mode=attempt.mode,
        )
        # Only their order changes: what is decided from similarities is decided alike.
        attempt.chunks = tuple(attempt.reorder(stage, chosen))
        if not chosen:
            attempt.closest = find_closest(pipeline, scope, vector, select)
        if settings.min_coverage is not None and attempt.mode is not Mode.VECTOR:
            from truespan.retrieval.word_scores import word_rarity

            with pipeline.trace.stage(Stage.WORDS):
                rarity = word_rarity(pipeline.store, scope, latest, query)
                attempt.coverage = rarity.of_each(attempt.chunks)

    pipeline.run(world, attempt, fill)
    return candidates_of(pipeline, attempt)


def find_closest(
    pipeline: Pipeline,
    scope: Scope,
    vector: Vector,
    select: Callable[[list[Verified], int], Shortlist],
) -> tuple[Visible, ...]:
    """Return the best chunks by similarity without a floor, to be shown beside a refusal."""
    wanted, found = MAX_NEAR_MISSES, ()

    def missing(verified: list[Verified], _: float) -> int:
        nonlocal found
        selected = select(verified, wanted)
        found = selected.chunks
        return selected.missing

    with pipeline.trace.stage(Stage.NEAR_MISSES):
        deps = replace(pipeline.deps, trace=NULL_OBSERVER)
        fetch_by_similarity(deps, scope, vector, k=wanted, floor=None, missing=missing)
    return found


def _name_skipped(attempt: Attempt) -> Iterator[Notice]:
    """Give a warning if chunks were left out because they could not be verified."""
    if skipped := attempt.fetched.skipped():
        kinds = ", ".join(f"{entry.count} {entry.code}" for entry in skipped)
        yield Notice("chunks_skipped", f"Chunks could not be verified and were left out: {kinds}.")


def candidates_of(pipeline: Pipeline, attempt: AnswerAttempt) -> Retrieved:
    """Return the chunks that an attempt selected for an answer, and count them."""
    failures = tuple(attempt.fetched.failures)
    pipeline.trace.count(CounterName.RETURNED, len(attempt.chunks))
    for failed in failures:
        pipeline.trace.count(CounterName.SKIPPED, 1, failed.kind)
    warnings = (*attempt.warnings, *_name_skipped(attempt))
    chunks, fitter = attempt.chunks, attempt.fitter
    tokens = None if fitter is None else fitter.options.max_tokens
    tables = renders_tables(attempt.world)
    if tokens is not None:
        left = Budget(tokens, tables=tables)
        chunks = tuple(part for part in chunks if left.take_text(part.tokens, part.text))
        warnings += tuple(name_dropped(len(attempt.chunks) - len(chunks), tokens))

    def fit(sources: Sequence[Visible], most: int, characters: int) -> Fitted:
        if fitter is None:
            return Fitted(tuple(sources))
        if fitter.options.is_plain:
            located = fitter.locate(sources, every=True)
            return Fitted(tuple(located), tuple(fitter.warnings))
        # The sources themselves were chosen by their characters; neighbours need room beside them.
        least = sum(count_rendered(part, tables=tables) for part in sources)
        budget = Budget(tokens or max(MAX_CONTEXT_TOKENS, least), characters, tables)
        fitted = fitter.locate(fitter.fit(sources, most, budget), every=True)
        return Fitted(tuple(fitted), tuple(fitter.warnings))

    return Retrieved(
        world=attempt.world,
        mode=attempt.mode,
        scope=attempt.scope,
        chunks=chunks,
        warnings=warnings,
        flaws=failures,
        closest=attempt.closest,
        coverage=attempt.coverage,
        fit=fit,
    )


def search_documents(
    pipeline: Pipeline,
    query: str,
    filters: Filters,
    *,
    passages: int,
    documents: int,
    mode: Mode | None = None,
    rerank: bool | None = None,
) -> list[Verified]:
    """Return verified chunks, best first, until there are enough chunks and different documents.

    No floor applies: this is for evaluations. A reranker that fails is an error here, since the
    order without it is not what was to be graded, and so are metadata that cannot be compared.
    """
    query = query.strip()
    world = pipeline.admit("evaluate without a reader", query, longest=MAX_QUERY_LENGTH)
    stage = pipeline.rerank_stage(world, rerank, query)
    attempt = Attempt(world, mode, query)

    def missing(verified: list[Verified], _: float) -> int:
        found = {chunk.document.number for chunk in verified}
        candidates = stage.candidates if stage else 0
        return max(passages - len(verified), documents - len(found), candidates - len(verified))

    def fill(latest: World) -> None:
        scope = pipeline.scope(attempt, latest, filters)
        if unreadable := next((n for n in attempt.warnings if n.code == METADATA_DAMAGED), None):
            raise StoreDamaged(unreadable.message)
        if scope is None:
            return
        vector = pipeline.query_vector(scope, latest, query)
        attempt.fetched = pipeline.fetch(
            attempt,
            scope,
            vector,
            k=max(passages, documents, stage.candidates if stage else 0),
            floor=None,
            missing=missing,
        )
        if stage is not None:
            ranked = rank(attempt.fetched.verified, len(attempt.fetched.verified))
            attempt.chunks = tuple(attempt.reorder(stage, _visible(ranked, scope)))

    pipeline.run(world, attempt, fill)
    if stage is not None and stage.failure is not None:
        raise stage.failure
    if attempt.lost is not None:
        # What the whole index would have returned cannot be graded.
        raise attempt.lost
    ranked = rank(attempt.fetched.verified, len(attempt.fetched.verified))
    ordered, scope = _in_order_of(attempt.chunks, ranked), attempt.scope
    if scope is None or not scope.names_place:
        return ordered
    # What is graded is what would be shown.
    shown = ((found, reveal(found, scope)) for found in ordered)
    return [replace(found, text="\n\n".join(part.text for part in parts)) for found, parts in shown]


def _visible(
    ranked: Sequence[Verified],
    scope: Scope,
    copies: Mapping[ChunkId, Sequence[Verified]] = MappingProxyType({}),
) -> list[Visible]:
    """Return the visible parts of chunks; the first of each with the places of its copies."""
    visible = [part for parts in _revealed(ranked, scope) for part in parts]
    if not copies:
        return visible
    places = {known: _visible(found, scope) for known, found in copies.items()}
    for number, part in enumerate(visible):
        for copy in places.pop(part.chunk_id, ()):
            visible[number] = add_place(visible[number], copy)
    return visible


def _text_of(scope: Scope) -> Callable[[Verified], str]:
    """Return what gives the visible text of a chunk."""
    if not scope.names_place:
        return lambda found: found.text
    return lambda found: " ".join(part.text for part in reveal(found, scope))


def _count_copies(passages: Sequence[Passage]) -> Iterator[Skipped]:
    """Give how many chunks were left out because a passage has their text."""
    if count := sum(len(passage.other_places) for passage in passages):
        yield Skipped(WhyNot.DUPLICATE.value, count)


def _revealed(verified: Sequence[Verified], scope: Scope) -> Iterator[list[Visible]]:
    """Give the visible parts of each chunk that has any."""
    return filter(None, (reveal(found, scope) for found in verified))


def _best_part(parts: list[Visible], query: str) -> Visible:
    """Return the part of a chunk with the most words of a query; of equal ones, the first."""
    if len(parts) == 1:
        return parts[0]
    from truespan.retrieval.best_sentence import score_words

    scores = score_words(query, [part.text for part in parts])
    return parts[scores.index(max(scores))]


def _in_order_of(reranked: Sequence[Visible], ranked: list[Verified]) -> list[Verified]:
    """Return verified chunks in the order that a reranker gave to what is visible of them."""
    if not reranked:
        return ranked
    found = {part.chunk.chunk_id: part for part in ranked}
    # Several parts of a chunk may be visible; the best of them counts.
    best = {part.chunk_id: part for part in reversed(reranked)}
    order = dict.fromkeys(part.chunk_id for part in reranked)
    return [replace(found[chunk_id], rerank=best[chunk_id].rerank) for chunk_id in order]


def _passage(part: Visible, found: Verified, scope: Scope, *, contract: bool) -> Passage:
    """Return what is shown of a chunk: all of it, one sentence, or more than it holds."""
    chunk, document, labels = found.chunk, found.document, part.labels
    figure = chunk.figure
    return Passage(
        chunk_id=chunk.chunk_id,
        score=round_score(part.score),
        document=document.number,
        doc_id=document.doc_id,
        source=document.name,
        title=document.title,
        chapter=part.chapter,
        section=part.section,
        index=chunk.index,
        start=part.start,
        end=part.end,
        first_sid=part.first_sid,
        last_sid=part.last_sid,
        chunk_type=chunk.kind,
        text=part.text,
        # What comes before a chunk may lie outside of the chapter or section that was asked for.
        overlap_text="" if part.start != chunk.start or scope.names_place else chunk.overlap_text,
        token_count=part.tokens,
        receipt=Receipt(
            part.text_hash, scope.profile.id, scope.generation.number, document.revision
        ),
        page=part.page,
        location=part.location,
        figure_id=figure.figure_id if figure else None,
        image_ref=figure.image_ref if figure else None,
        parent_chunk_id=parent_id(found, scope) if figure else None,
        parent_chunk_local_index=figure.parent.index if figure and figure.parent else None,
        fused=found.fused,
        rerank=part.rerank,
        match=part.match,
        best_sentence=part.best_sentence,
        other_places=part.other_places,
        source_url=labels.source_url,
        address=labels.address,
        path=labels.path,
        language=labels.language,
        version=labels.version,
        tags=labels.tags,
        metadata=labels.metadata,
        content=part.text if contract else UNSET,
        start_char=part.start if contract else UNSET,
        end_char=part.end if contract else UNSET,
        space_id=scope.world if contract else UNSET,
    )
