"""Search a whole world: for a caller, for the candidates of an answer, and for an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import UNSET, field
from msgspec.structs import replace

from truespan.core.records import copy_fields
from truespan.observer import NULL_OBSERVER
from truespan.retrieval.background import LAST_RANK, background_of
from truespan.retrieval.passages import Budget, PassageFitter, name_dropped, packing_count
from truespan.retrieval.pipeline import Attempt, Pipeline, boilerplate_test, count_funnel
from truespan.retrieval.query import (
    LOW_FLOOR,
    SCORE_DECIMALS,
    calibration_of,
    embed_shown,
    query_language,
    round_score,
)
from truespan.retrieval.repeats import add_place, count_rendered, merge_copies, render
from truespan.retrieval.stages import (
    Best,
    choose_best,
    drop_boilerplate,
    fetch_by_similarity,
    language_of_passage,
    parent_id,
    put_boilerplate_last,
    rank_visible,
    reveal,
)
from truespan.types.answer import (
    ANSWER_TOP_K,
    MAX_NEAR_MISSES,
    Fitted,
    Measured,
    Retrieved,
    Shortlist,
    shortlist,
)
from truespan.types.arguments import DEFAULT_FLOOR
from truespan.types.bundle import Funnel, Notice, Passage, Receipt, SearchResult, Skipped, WhyNot
from truespan.types.chunk import ChunkKind
from truespan.types.decision import DecisionSettings, EvidenceRules
from truespan.types.ids import ChunkId, hash_text
from truespan.types.origin import set_origin
from truespan.types.profile import crosses_languages, is_trained_for, relies_on_words, usual_late
from truespan.types.request import (
    MAX_CONTEXT_TOKENS,
    MAX_QUERY_LENGTH,
    Defaults,
    Mode,
    RetrievalRequest,
    SearchRequest,
    mode_in_force,
)
from truespan.types.scope import Scope, World
from truespan.types.telemetry import CounterName, Stage
from truespan.types.trust import Verified, Visible
from truespan.types.vectors import Vector, similarity_of

if TYPE_CHECKING:
    from truespan.retrieval.deps import RetrievalDeps
    from truespan.retrieval.rerank import RerankStage
    from truespan.words.scoring import WordRarity

MAX_MISSING = 3
"""Maximum number of missing words that an explanation names."""
MAX_COMPARED = 3
"""Maximum number of passages in other languages whose sentences are compared with the query."""
MAX_COMPARED_SENTENCES = 16
"""Maximum number of sentences of each."""

Rules: TypeAlias = Callable[[Scope, Defaults], tuple[DecisionSettings, float]]
"""Returns, for a scope, the settings of the decision and the floor to search with."""


class SearchAttempt(Attempt):
    """The outcome of the stages of a search."""

    best: Best = Best([], 0, None)
    floor: float | None = DEFAULT_FLOOR
    """Minimum similarity of the passages; None if there is none."""
    dropped: int = 0
    """Number of passages that did not fit into the budget."""


def search(pipeline: Pipeline, request: SearchRequest) -> SearchResult:
    """Find the chunks closest to a query, each verified as it is read.

    Checks come in the order of their cost: world, k, query, what is in scope, then the provider and
    the index.
    """
    began, query = pipeline.deps.clock.monotonic(), request.query.strip()
    # Checked before anything is read; without `max_tokens` a search has no budget.
    limit, options = pipeline.deps.max_tokens, request.passages
    tokens = inf if options.max_tokens is None else options.budget(limit)
    wanted = query if request.top_k else None
    world = pipeline.admit("search without a reader", wanted, max_length=MAX_QUERY_LENGTH)
    stage = pipeline.rerank_stage(world, request.rerank, query)
    if request.top_k:
        attempt = pipeline.in_stable_world(
            world, lambda latest: search_once(pipeline, request, latest, query, tokens, stage)
        )
    else:
        mode = mode_in_force(request.mode, world.defaults, query)
        attempt = SearchAttempt(world, mode, query)
        attempt.floor = DEFAULT_FLOOR if request.floor is None else request.floor
    with pipeline.deps.trace.stage(Stage.BUNDLE):
        seconds = pipeline.deps.clock.monotonic() - began
        result = to_result(attempt, request, seconds)
    count_funnel(pipeline.deps.trace, result.funnel, result.skipped)
    return result


def search_once(
    pipeline: Pipeline,
    request: SearchRequest,
    world: World,
    query: str,
    tokens: float,
    stage: RerankStage | None,
) -> SearchAttempt:
    """Search one state of the world: scope, embed, fetch, rerank and fit the passages."""
    mode, options = mode_in_force(request.mode, world.defaults, query), request.passages
    attempt, defaults = SearchAttempt(world, mode, query), world.defaults.values
    attempt.floor = request.floor
    if request.floor is None and (mode is not Mode.KEYWORD or defaults.plain):
        attempt.floor = DEFAULT_FLOOR
    scope = pipeline.scope(attempt, request.filters)
    if scope is None:
        return attempt
    shown = packing_count(options, request.top_k, scope, attempt.in_scope)
    # More than are returned if they are reranked.
    k = min(max(shown, stage.candidates if stage else 0), attempt.in_scope)
    is_boilerplate = boilerplate_test(world, options)
    calibration = calibration_of(pipeline.deps.store, scope, world)
    if calibration is not None and attempt.floor is not None:
        attempt.discriminates = calibration.discriminates(attempt.floor)
    vector, attempt.states = pipeline.embed(scope, world, query)

    def select(verified: list[Verified]) -> Best:
        with pipeline.deps.trace.stage(Stage.RANKED):
            merged_in = None if defaults.plain else scope
            return choose_best(verified, k, is_boilerplate=is_boilerplate, merged_in=merged_in)

    best = attempt.best = pipeline.fetch(
        attempt, scope, vector, k=k, floor=attempt.floor, select=select
    )
    visible: Sequence[Visible] = reveal_all(best.found, scope, best.copies)
    if stage is not None:
        visible = attempt.reorder(stage, visible)
        if is_boilerplate is not None:
            visible = put_boilerplate_last(visible, is_boilerplate)
    fitter = PassageFitter(pipeline.deps, scope, options, vector, attempt)
    budget = Budget(tokens, tables=not defaults.plain)
    attempt.chunks = tuple(fitter.fit(visible[:shown], request.top_k, budget))
    attempt.warnings += fitter.warnings
    attempt.dropped = sum(fitter.dropped)
    is_last = not options.reads_sentences
    attempt.settled = is_last and attempt.fetched.changes == world.changes
    return attempt


def to_result(attempt: SearchAttempt, request: SearchRequest, seconds: float) -> SearchResult:
    """Build the result of a search."""
    best, scope, defaults = attempt.best, attempt.scope, attempt.world.defaults.values
    if not best.found and attempt.discriminates is False and not attempt.lacks_words:
        attempt.warnings.append(LOW_FLOOR)
    counted = attempt.fetched.down_to(best.last)
    known = {found.chunk.chunk_id: found for found in best.found}
    contract = defaults.contract_fields
    passages = tuple(
        _passage(part, known[part.chunk_id], scope, contract=contract)
        for part in attempt.chunks
        if scope
    )
    texts = (part for part in passages if part.chunk_type is not ChunkKind.FIGURE)
    context = render(texts, tables=not defaults.plain)
    verified, skipped = len(counted.verified), counted.skipped()
    funnel = Funnel(attempt.in_scope, verified + len(counted.failures), verified, len(passages))
    if copies := sum(len(passage.other_places) for passage in passages):
        skipped = (*skipped, Skipped(WhyNot.DUPLICATE.value, copies))
    if attempt.dropped:
        skipped = (*skipped, Skipped(WhyNot.OVER_BUDGET.value, attempt.dropped))
    result = SearchResult(
        world=attempt.world.id,
        passages=passages,
        context=context,
        requested_k=request.top_k,
        effective_k=min(request.top_k, attempt.in_scope),
        floor=attempt.floor or 0.0,
        funnel=funnel,
        skipped=skipped,
        warnings=tuple(attempt.warnings),
        processing_time_ms=int(seconds * 1000),
        floor_discriminates=attempt.discriminates,
        rerank=attempt.rerank,
        mode=attempt.mode,
        defaults=attempt.world.defaults,
        chunk_text=context if contract else UNSET,
    )
    return set_origin(result, attempt.world, scope)


class AnswerAttempt(Attempt):
    """The outcome of the stages that choose the candidates for an answer."""

    fitter: PassageFitter | None = None
    """Fits the chunks that a model gets to the options of the request."""
    closest: tuple[Visible, ...] = ()
    """Chunks below the floor that a refusal shows, where no chunk reached it."""
    measured: Measured = field(default_factory=Measured)

    def measure(
        self,
        deps: RetrievalDeps,
        settings: DecisionSettings,
        vector: Vector,
        rarity: WordRarity,
        closest: Sequence[Visible],
        language: str | None = None,
    ) -> None:
        """Measure the evidence of the chunks; `closest` are the closest chunks in scope. `language`
        applies to chunks of unknown language; without it, the language of their document does.
        """
        scope, rules = self.scope, settings.evidence
        self.measured = Measured(cover=rarity.cover)
        if scope is None or rules is None:
            return
        excluded = settings.exclude_chunk_types_from_llm
        near = [part.score for part in closest if part.kind not in excluded]
        with deps.trace.stage(Stage.VECTOR):
            cohort = deps.cohort.similarities(vector, scope, deps.store, partial(embed_shown, deps))
            background = background_of(cohort, near, rules.floor)
        profile, asked_in = scope.profile, query_language(scope.profile, self.query or "")
        parts = (*closest, *self.chunks)
        languages = {
            part.chunk_id: part.compared_language or language or part.language for part in parts
        }
        spoken = {chunk_id: own for chunk_id, own in languages.items() if own}
        crossed = frozenset(
            chunk_id
            for chunk_id, own in spoken.items()
            if crosses_languages(profile, asked_in, own)
        )
        if not self.chunks:
            self.closest = choose_closest(closest, rarity)
        self.measured = Measured(
            cover=rarity.cover,
            foreign=frozenset(
                chunk_id for chunk_id, own in spoken.items() if not is_trained_for(profile, own)
            ),
            by_words=frozenset(
                chunk_id for chunk_id, own in spoken.items() if relies_on_words(profile, own)
            )
            - crossed,
            crossed=crossed,
            sentences=self._compare_sentences(deps, scope, rules, vector, crossed, spoken),
            late={
                part.chunk_id: round(part.fused.late - usual, SCORE_DECIMALS)
                for part in self.chunks
                if part.fused
                and part.fused.late is not None
                and (own := spoken.get(part.chunk_id))
                and (usual := usual_late(profile, own, crossed=part.chunk_id in crossed))
            },
            has_names=self._compare_names(asked_in, crossed, spoken),
            background=background,
            cohort=deps.cohort.digest,
            # A passage in another language lacks words of the query even if it answers it.
            find_missing_words=tuple
            if crossed
            else lambda: rarity.missing(
                self.query or "", [part.text for part in self.chunks], MAX_MISSING
            ),
        )

    def _compare_names(
        self, asked_in: str | None, crossed: frozenset[ChunkId], languages: Mapping[ChunkId, str]
    ) -> dict[ChunkId, bool]:
        """Return whether each chunk has the names of a query in the language `asked_in`.

        A query in an unknown language counts as one in the language of each chunk.
        """
        # Imported here because only answers need names.
        from truespan.words.names import find_names, has_names, has_names_across
        from truespan.words.terms import stemmer_of

        own = stemmer_of(asked_in) if asked_in else None
        names: dict[str, frozenset[str]] = {}
        compared: dict[ChunkId, bool] = {}
        for part in self.chunks:
            if not (language := languages.get(part.chunk_id)):
                continue
            stemmer = stemmer_of(language) if own is None else own
            if stemmer not in names:
                names[stemmer] = find_names(self.query or "", stemmer)
            found = None
            if part.chunk_id in crossed:
                found = has_names_across(part.text, names[stemmer], stemmer)
            elif names[stemmer] and stemmer == stemmer_of(language):
                found = has_names(part.text, names[stemmer], stemmer)
            if found is not None:
                compared[part.chunk_id] = found
        return compared

    def _compare_sentences(
        self,
        deps: RetrievalDeps,
        scope: Scope,
        rules: EvidenceRules,
        vector: Vector,
        crossed: frozenset[ChunkId],
        languages: Mapping[ChunkId, str],
    ) -> dict[ChunkId, float]:
        """Return the similarity of the most similar sentence of the first crossed chunks.

        Only their visible text takes part.
        """
        if not rules.sentence_share or not crossed:
            return {}
        from truespan.text.sentences import sentence_spans

        first = [part for part in self.chunks if part.chunk_id in crossed][:MAX_COMPARED]
        sentences = {
            part.chunk_id: [
                part.text[start:end]
                for start, end in sentence_spans(part.text, languages[part.chunk_id])
            ][:MAX_COMPARED_SENTENCES]
            for part in first
        }
        with deps.trace.stage(Stage.VECTOR):
            texts = {hash_text(text): text for known in sentences.values() for text in known}
            vectors = embed_shown(deps, scope, texts)
        return {
            chunk_id: round(max(near), SCORE_DECIMALS)
            for chunk_id, known in sentences.items()
            if (
                near := [
                    similarity_of(vector, vectors[key], scope.profile.distance)
                    for key in map(hash_text, known)
                    if key in vectors
                ]
            )
        }


def find_candidates(pipeline: Pipeline, request: RetrievalRequest, rules: Rules) -> Retrieved:
    """Return the best chunks for an answer at or above the floor, from one state of the world."""
    query = (request.query or "").strip()
    request.passages.budget(pipeline.deps.max_tokens)
    world = pipeline.admit("answer without a reader", query)
    stage = pipeline.rerank_stage(world, request.rerank, query)
    attempt = pipeline.in_stable_world(
        world, lambda latest: _find_candidates_once(pipeline, request, latest, query, rules, stage)
    )
    return candidates_of(pipeline, attempt)


def _find_candidates_once(
    pipeline: Pipeline,
    request: RetrievalRequest,
    world: World,
    query: str,
    rules: Rules,
    stage: RerankStage | None,
) -> AnswerAttempt:
    mode, options = mode_in_force(request.mode, world.defaults, query), request.passages
    attempt = AnswerAttempt(world, mode, query)
    scope = pipeline.scope(attempt, request.filters)
    if scope is None:
        return attempt
    settings, floor = rules(scope, world.defaults)
    is_boilerplate = boilerplate_test(world, options)

    def shortlist_best(verified: list[Verified], count: int) -> Shortlist:
        with pipeline.deps.trace.stage(Stage.VISIBLE):
            revealed = (reveal(found, scope) for found in verified)
            visible = [_best_part(parts, query) for parts in revealed if parts]
        with pipeline.deps.trace.stage(Stage.RANKED):
            ranked = rank_visible(visible)
            if is_boilerplate is not None:
                ranked = drop_boilerplate(ranked, is_boilerplate)
            if not world.defaults.values.plain:
                ranked = merge_copies(ranked)
            return shortlist(ranked, count, settings.exclude_chunk_types_from_llm)

    vector, attempt.states = pipeline.embed(scope, world, query)
    chosen = pipeline.fetch(
        attempt,
        scope,
        vector,
        k=min(ANSWER_TOP_K, attempt.in_scope),
        floor=floor,
        select=lambda verified: shortlist_best(verified, ANSWER_TOP_K),
    ).chunks
    attempt.fitter = PassageFitter(pipeline.deps, scope, options, vector, attempt)
    attempt.chunks = tuple(attempt.reorder(stage, chosen)) if stage else chosen
    closest = ()
    if not chosen or settings.evidence is not None:
        count = MAX_NEAR_MISSES if settings.evidence is None else LAST_RANK
        closest = _find_closest(pipeline, scope, vector, shortlist_best, count)
        attempt.closest = () if chosen else closest[:MAX_NEAR_MISSES]
    if settings.evidence is not None:
        from truespan.retrieval.candidates import word_rarity

        with pipeline.deps.trace.stage(Stage.WORDS):
            rarity = word_rarity(pipeline.deps.store, scope, world, query)
        attempt.measure(pipeline.deps, settings, vector, rarity, closest)
    return attempt


def choose_closest(closest: Sequence[Visible], rarity: WordRarity) -> tuple[Visible, ...]:
    """Return the chunks that a refusal shows: the one with most of the query's words comes first.

    A name that the model does not know says little about similarity. The others are the most
    similar ones, in their order; the most similar one is always among them.
    """
    shares = [own.share for own in rarity.cover([part.text for part in closest])]
    first = shares.index(max(shares)) if shares else 0
    others = (part for place, part in enumerate(closest) if place != first)
    return (*closest[first : first + 1], *others)[:MAX_NEAR_MISSES]


def _find_closest(
    pipeline: Pipeline,
    scope: Scope,
    vector: Vector,
    shortlist_best: Callable[[list[Verified], int], Shortlist],
    count: int,
) -> tuple[Visible, ...]:
    """Return the closest chunks, also below the floor."""
    with pipeline.deps.trace.stage(Stage.NEAR_MISSES):
        _, found = fetch_by_similarity(
            replace(pipeline.deps, trace=NULL_OBSERVER),
            scope,
            vector,
            k=count,
            floor=None,
            select=lambda verified: shortlist_best(verified, count),
        )
    return found.chunks


def candidates_of(pipeline: Pipeline, attempt: AnswerAttempt) -> Retrieved:
    """Return the chunks that an attempt selected for an answer, and count them."""
    pipeline.deps.trace.count(CounterName.RETURNED, len(attempt.chunks))
    for failed in attempt.fetched.failures:
        pipeline.deps.trace.count(CounterName.SKIPPED, 1, failed.kind)
    warnings = tuple(attempt.warnings)
    if skipped := attempt.fetched.skipped():
        kinds = ", ".join(f"{entry.count} {entry.code}" for entry in skipped)
        text = f"Chunks could not be verified and were left out: {kinds}."
        warnings = (*warnings, Notice("chunks_skipped", text))
    chunks, fitter = attempt.chunks, attempt.fitter
    tokens = None if fitter is None else fitter.options.max_tokens
    defaults = attempt.world.defaults.values
    tables = not defaults.plain
    if tokens is not None:
        left = Budget(tokens, tables=tables)
        chunks = tuple(part for part in chunks if left.take(part.tokens, part.text))
        if dropped := len(attempt.chunks) - len(chunks):
            warnings = (*warnings, name_dropped(dropped, tokens))

    def fit(sources: Sequence[Visible], most: int, characters: int, quoted: bool) -> Fitted:
        if fitter is None:
            return Fitted(tuple(sources))
        chosen = fitter.quoting() if quoted and not defaults.plain else fitter
        if chosen.options.is_plain:
            located = chosen.locate(sources, every=True)
            return Fitted(tuple(located), tuple(chosen.warnings))
        # The sources themselves were chosen by their characters; neighbours need room beside them.
        least = sum(count_rendered(part, tables=tables) for part in sources)
        budget = Budget(tokens or max(MAX_CONTEXT_TOKENS, least), characters, tables)
        fitted = chosen.locate(chosen.fit(sources, most, budget), every=True)
        return Fitted(tuple(fitted), tuple(chosen.warnings))

    return copy_fields(Retrieved, attempt, chunks=chunks, warnings=warnings, fit=fit)


def reveal_all(
    ranked: Sequence[Verified],
    scope: Scope,
    copies: Mapping[ChunkId, Sequence[Verified]] = MappingProxyType({}),
) -> list[Visible]:
    """Return the visible parts of chunks; the first of each with the places of its copies."""
    visible = [part for found in ranked for part in reveal(found, scope)]
    if not copies:
        return visible
    places = {known: reveal_all(found, scope) for known, found in copies.items()}
    for number, part in enumerate(visible):
        for copy in places.pop(part.chunk_id, ()):
            visible[number] = add_place(visible[number], copy)
    return visible


def _best_part(parts: list[Visible], query: str) -> Visible:
    """Return the part of a chunk with the most words of a query; of equal ones, the first."""
    if len(parts) == 1:
        return parts[0]
    from truespan.retrieval.best_sentence import spoken_in
    from truespan.words.searched import SearchedWords

    scores = SearchedWords(query).score([(part.text, spoken_in(part)) for part in parts])
    return parts[scores.index(max(scores))]


def _passage(part: Visible, found: Verified, scope: Scope, *, contract: bool) -> Passage:
    """Return the part of a chunk to show: the chunk, one sentence, or the chunk with neighbours."""
    chunk, document = found.chunk, found.document
    figure = chunk.figure
    passage = copy_fields(
        Passage,
        part,
        document,
        score=round_score(part.score),
        chunk_type=chunk.kind,
        # Text before a chunk may be outside of the requested chapter or section.
        overlap_text="" if part.start != chunk.start or scope.names_place else chunk.overlap_text,
        token_count=part.tokens,
        receipt=Receipt(
            part.text_hash, scope.profile.id, scope.generation.number, document.revision
        ),
        figure_id=figure.figure_id if figure else None,
        image_ref=figure.image_ref if figure else None,
        parent_chunk_id=parent_id(found, scope) if figure else None,
        parent_chunk_local_index=figure.parent.index if figure and figure.parent else None,
        text_language=language_of_passage(part, contract=contract),
    )
    if not contract:
        return passage
    return replace(
        passage,
        content=part.text,
        start_char=part.start,
        end_char=part.end,
        space_id=scope.world,
    )
