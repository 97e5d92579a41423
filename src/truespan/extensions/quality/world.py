"""Golden queries asked of one world: how good its results are, and which thresholds suit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations, islice
from pathlib import PurePath
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from truespan.core.graphemes import shorten
from truespan.engine.access import WorldAccess, WorldPart
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed, ServiceError, StoreDamaged, TruespanError
from truespan.extensions.quality.calibrate import (
    CalibrationReport,
    EvidenceReport,
    WeighedQuery,
    calibrate,
    curves_of,
    propose,
    propose_evidence,
    unrelated_high,
)
from truespan.extensions.quality.compare import ALLOWED_DROP, compare, gate, gate_generation
from truespan.extensions.quality.evaluate import (
    NDCG_CUT,
    Evaluation,
    Found,
    QueryResult,
    judge_each,
    scored_hits,
    summarize,
)
from truespan.extensions.quality.golden import (
    DocumentNames,
    GoldenQuery,
    normalize_text,
    parse_golden,
)
from truespan.extensions.quality.report import EvaluationReport, name_generation
from truespan.extensions.quality.search import decide_query, search_documents
from truespan.files.jail import read_file
from truespan.retrieval.pipeline import APPROXIMATE, require_world
from truespan.retrieval.query import calibration_of, round_score
from truespan.types.bundle import Notice
from truespan.types.document import Document, Verdict
from truespan.types.profile import Calibration
from truespan.types.reading import MAX_PAGE_SENTENCES
from truespan.types.request import (
    MAX_TOP_K,
    Filters,
    Mode,
    RankPart,
    check_mode,
    check_share,
    check_whole,
)
from truespan.types.scope import MAX_GENERATION, GenerationSelector, Scope, Verb
from truespan.types.source import display_path
from truespan.types.vectors import similarity_of

T = TypeVar("T")

Golden: TypeAlias = str | PurePath | bytes | Sequence[GoldenQuery]
"""Golden queries: a file's path, its bytes, or the queries themselves."""

MAX_FILE_SIZE = 64 << 20
PAUSES = (0.5, 2.0)
"""Seconds to wait before a query that failed with a retryable error is asked again."""
SAMPLED_PASSAGES = 200
SAMPLED_QUERIES = 100
"""Numbers of passages and queries that are compared to see how unrelated pairs score."""


class EvaluationProgress(Struct, frozen=True):
    """Progress of an evaluation: finished searches and all searches."""

    done: int
    searches: int


class _Run(Struct, frozen=True):
    """One evaluation that has run no query yet; each step runs one."""

    name: str
    steps: Iterator[QueryResult]
    warnings: tuple[Notice, ...]
    find_absent: Callable[[Sequence[QueryResult]], Iterator[Notice]]

    def finish(self, results: Iterable[QueryResult]) -> Evaluation:
        asked = tuple(results)
        warnings = (*self.warnings, *self.find_absent(asked))
        return replace(summarize(self.name, asked), warnings=warnings)


class Candidate(Struct, frozen=True):
    """A generation to be promoted, as its gates see it."""

    generation: int
    replaced: int
    golden: Golden | None = None
    before: Evaluation | None = None
    """An earlier evaluation of the replaced generation, to compare with."""
    allowed_drop: float = ALLOWED_DROP
    min_hit_rate: float = 0.0


class WorldEvaluation(WorldPart, frozen=True):
    """Golden queries for the generations of one world."""

    def run(
        self,
        golden: Golden,
        *,
        generation: int | None = None,
        domain: str | None = None,
        name: str | None = None,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        reader: str | None = None,
        without: Sequence[RankPart | str] = (),
    ) -> Evaluation:
        """Ask golden queries and grade the results. No floor applies.

        A query that fails counts as failed, and the others are still asked.

        Args:
            golden: Path of a file, its bytes, or the queries.
            generation: Number of the generation to ask; None for the default.
            domain: Domain whose generation to ask.
            name: Name of the evaluation in reports.
            mode: 'hybrid', 'vector', 'keyword' or 'auto'; None for the default of the world.
            rerank: Whether the configured reranker orders the first candidates; None for the
                default of the world. A query whose reranker fails counts as failed.
            reader: Name of a reader to ask as, in the current book. Queries are judged by the
                phrases that were read; a query without such a phrase is not judged.
            without: Parts of the ranking to leave out, to see their share: 'window', 'late',
                'feedback'.

        Returns:
            The grades of each query and their means.

        Raises:
            LinesInvalid: The file has invalid lines; the error lists all of them. Nothing was
                asked.
            NotFound, NotFound: The world has no such generation or domain.
            NotAllowed: The caller may read only as a reader.
        """
        target = self._select(generation, domain, without)
        return target._evaluate(golden, name, mode=check_mode(mode), rerank=rerank, reader=reader)

    def report_stream(
        self,
        golden: Golden,
        *,
        modes: Sequence[Mode | str] = (),
        generation: int | None = None,
        against: int | None = None,
        allowed_drop: float = ALLOWED_DROP,
        rerank: bool | None = None,
        reader: str | None = None,
        without: Sequence[RankPart | str] = (),
    ) -> Iterator[EvaluationProgress | EvaluationReport]:
        """Evaluate step by step: progress after each query, and at the end the report.

        Args:
            golden: Path of a file, its bytes, or the queries.
            modes: Modes to ask each query in; none for the default of the world.
            generation: Number of the generation to ask; None for the default.
            against: Number of a generation to compare with, as the old one.
            allowed_drop: How far a mean may fall below the old one.
            rerank: Whether the configured reranker orders the first candidates; None for the
                default of the world.
            reader: Name of a reader to ask as, in the current book. Queries are judged by the
                phrases that were read; a query without such a phrase is not judged.
            without: Parts of the ranking to leave out, to see their share: 'window', 'late',
                'feedback'.

        Returns:
            An iterator. The first progress comes once the arguments are checked and before anything
            is asked. Closing the iterator ends the evaluation.

        Raises:
            InvalidArgument: Several modes and `against` are given.
            LinesInvalid, NotFound, NotAllowed: As `run`.
        """
        wanted = _check_modes(modes) or [None]
        if against is not None and len(wanted) > 1:
            raise InvalidArgument("Modes and generations cannot be compared at once.")
        check_share("The allowed drop", allowed_drop)
        queries, target = self.queries(golden), self._select(generation, None, without)
        old = [] if against is None else [self._select(against, None, without)]
        runs = [
            evaluation._prepare(queries, mode=mode, rerank=rerank, reader=reader)
            for evaluation in (*old, target)
            for mode in wanted
        ]
        done, searches = 0, len(queries) * len(runs)
        yield EvaluationProgress(done, searches)
        evaluations: list[Evaluation] = []
        for run in runs:
            results: list[QueryResult] = []
            for result in run.steps:
                results.append(result)
                done += 1
                yield EvaluationProgress(done, searches)
            evaluations.append(run.finish(results))
        comparisons = tuple(compare(old, new) for old, new in combinations(evaluations, 2))
        title, names = evaluations[-1].name, tuple(map(str, wanted))
        if against is not None:
            names = tuple(map(name_generation, evaluations))
        elif len(wanted) > 1:
            title = title.replace(f", {wanted[-1]}", "")
        yield EvaluationReport(
            title=title,
            names=names if comparisons else ("mean",),
            evaluations=tuple(evaluations),
            comparisons=comparisons,
            verdict=None if against is None else gate(comparisons[0], allowed_drop),
            curve=calibrate(scored_hits(evaluations[-1])),
        )

    def calibrate(
        self, golden: Golden, *, generation: int | None = None, keep: bool = False
    ) -> CalibrationReport:
        """Propose a floor and thresholds for the embedding profile of a generation.

        The report also proposes the setting `answer_min_evidence`, the minimum evidence of an
        answer, if there are queries that are marked as absent. It changes only in the settings.

        Args:
            golden: Path of a file, its bytes, or the queries.
            generation: Number of the generation to ask; None for the default.
            keep: Whether the proposal applies from now on to callers who may read the whole world.
                Readers always get the shipped calibration.

        Returns:
            The proposal, with the curves it rests on.

        Raises:
            LinesInvalid, NotFound: As `run`.
            NotAllowed: The caller may not read the whole world, or not write with `keep`.
        """
        target, store = self._with_target(generation), self._access.components.store
        scope, queries = target._scope(), self.queries(golden)
        if scope.is_limited:
            raise NotAllowed("calibrate without all documents")
        # Thresholds are compared with similarities, even if a world ranks by other scores.
        evaluation = target._evaluate(queries, mode=Mode.VECTOR)
        if keep and not self._access.authority.may(Verb.WRITE, scope.world):
            raise NotAllowed("keep a calibration")
        passages, by_query = curves_of(evaluation)
        far = target._unrelated_high(scope, queries)
        if far is None:
            message = (
                "Every document is expected by every query, so the scores of unrelated text are "
                "unknown."
            )
            proposed, notes = None, (Notice("nothing_unrelated", message),)
        else:
            source = f"{evaluation.totals.judged} golden queries of the world itself"
            proposed, notes = propose(passages, by_query, far, source)
        in_force = calibration_of(store, scope)
        if keep and proposed is not None:
            store.records.keep_calibration(scope, proposed)
        return CalibrationReport(
            profile=str(scope.profile),
            passages=passages,
            queries=by_query,
            proposed=proposed,
            in_force=in_force,
            evidence=target._propose_evidence(queries),
            notes=(*notes, *evaluation.warnings),
            kept=keep and proposed is not None,
        )

    def calibration(self) -> Calibration | None:
        """Return the calibration that applies to this caller: kept, shipped, or none."""
        scope = self._access.scope()
        return calibration_of(self._access.components.store, scope) if scope else None

    def forget_calibration(self) -> bool:
        """Go back to the shipped calibration.

        Returns:
            Whether another calibration was kept.

        Raises:
            NotAllowed: The caller may not write to the world.
        """
        scope = self._scope()
        if not self._access.authority.may(Verb.WRITE, scope.world):
            raise NotAllowed("forget a calibration")
        return self._access.components.store.generations.forget_calibration(scope)

    def queries(self, golden: Golden) -> tuple[GoldenQuery, ...]:
        """Return golden queries, parsed and checked.

        Args:
            golden: Path of a file, its bytes, or the queries.

        Raises:
            LinesInvalid: The file has invalid lines; the error lists all of them.
        """
        if isinstance(golden, str | PurePath):
            path = str(golden)
            content = read_file(path, display_path(path), jailed=False, max_bytes=MAX_FILE_SIZE)
            return tuple(parse_golden(PurePath(golden).name, content))
        if isinstance(golden, bytes):
            # A JSON line starts with a brace, an entry of a YAML list with a dash.
            is_jsonl = golden.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
            return tuple(parse_golden("golden.jsonl" if is_jsonl else "golden.yaml", golden))
        return tuple(golden)

    def _with_target(self, target: GenerationSelector) -> WorldEvaluation:
        if target is not None and not isinstance(target, str):
            check_whole("generation", target, 0, MAX_GENERATION)
        return self if target is None else WorldEvaluation(replace(self._access, target=target))

    def _select(
        self, generation: int | None, domain: str | None, without: Sequence[RankPart | str]
    ) -> WorldEvaluation:
        if generation is not None and domain is not None:
            raise InvalidArgument("Give a generation or a domain, not both.")
        target = self._with_target(domain if generation is None else generation)
        if not without:
            return target
        components = self._access.components
        components = replace(components, without=components.without | _check_parts(without))
        return WorldEvaluation(replace(target._access, components=components))

    def _evaluate(
        self,
        golden: Golden,
        name: str | None = None,
        *,
        mode: Mode | None = None,
        rerank: bool | None = None,
        reader: str | None = None,
    ) -> Evaluation:
        run = self._prepare(self.queries(golden), name, mode=mode, rerank=rerank, reader=reader)
        return run.finish(run.steps)

    def _propose_evidence(self, queries: Sequence[GoldenQuery]) -> EvidenceReport:
        """Weigh the evidence for each query that is judged or marked as absent.

        No chat model is asked, neither for answers nor for further queries.
        """
        weighed, in_force = list[WeighedQuery](), None
        for query in queries:
            present = bool(query.phrases) or any(one.grade for one in query.expected)
            if not present and not query.absent:
                continue
            decision = self._with_retries(
                partial(decide_query, self._access, query.query, filters=query.filters)
            )
            if decision.evidence.settings.evidence is None:
                return EvidenceReport()
            in_force = decision.evidence.settings.evidence.threshold
            weighed.append(WeighedQuery(present, decision.found.score if decision.found else None))
        if in_force is None:
            return EvidenceReport(message="No query is judged or marked as absent.")
        return propose_evidence(weighed, in_force)

    def _prepare(
        self,
        queries: Sequence[GoldenQuery],
        name: str | None = None,
        *,
        mode: Mode | None,
        rerank: bool | None,
        reader: str | None,
    ) -> _Run:
        """Check the caller and the reader before the first query."""
        scope, components = self._scope(), self._access.components
        label = f"{self._access.record().name}, generation {scope.generation.number}"
        search = partial(self._search, mode=mode, rerank=rerank)
        if reader is not None:
            label += f", reader {reader}"
            queries = self._read_queries(reader, queries)
            search = partial(self._search_as_reader, reader, mode=mode, rerank=rerank)
        names = DocumentNames(self._active_documents(scope).values())
        steps = judge_each(queries, search, identify=names.key_of, clock=components.clock.monotonic)
        label += (f", {mode}" if mode else "") + (", reranked" if rerank else "")
        label += "".join(f", without {part}" for part in sorted(components.without))
        is_approximate = components.index.approximate(scope)
        # What a reader has not read is left out of the queries, and is not to be told.
        find_absent = partial(self._find_absent, scope, queries if reader is None else ())
        return _Run(name or label, steps, (APPROXIMATE,) if is_approximate else (), find_absent)

    def _find_absent(
        self, scope: Scope, queries: Sequence[GoldenQuery], results: Sequence[QueryResult]
    ) -> Iterator[Notice]:
        """Yield a notice about the phrases that were not found because no document has them."""
        missed = {result.id for result in results if result.phrase_rank is None}
        phrases = (phrase for query in queries if query.id in missed for phrase in query.phrases)
        absent = {normalize_text(phrase): phrase for phrase in phrases}
        store = self._access.components.store
        for document in store.documents.all(scope) if absent else ():
            # A damaged document is reported elsewhere, and its text is not known.
            with suppress(StoreDamaged):
                text = normalize_text(store.documents.canonical_text(scope, document.number))
                absent = {plain: phrase for plain, phrase in absent.items() if plain not in text}
            if not absent:
                return
        if absent:
            named = ", ".join(f'"{shorten(phrase, 80, "…")}"' for phrase in absent.values())
            yield Notice("golden_phrase_absent", f"No document contains {named}.")

    def _scope(self) -> Scope:
        access = self._access
        # Before the generation is looked at: readers do not learn which generations there are.
        world = require_world(access.components.store, access.authority, access.world)
        if not access.authority.may(Verb.READ, world.id):
            raise NotAllowed("evaluate without a reader")
        record = access.record()
        if record.generation is None:
            raise InvalidArgument("The world is empty.", advice="Ingest a document first.")
        return access.components.store.catalogs.scope_of(
            access.authority, record, record.generation
        )

    def _search(self, query: GoldenQuery, *, mode: Mode | None, rerank: bool | None) -> list[Found]:
        search = partial(
            search_documents,
            self._access.pipeline,
            query.query,
            query.filters,
            passages=query.top_k,
            documents=max(query.top_k, NDCG_CUT),
            mode=mode,
            rerank=rerank,
        )
        return [
            Found(chunk.document.doc_id, chunk.document.name, round_score(chunk.score), chunk.text)
            for chunk in self._with_retries(search)
        ]

    def _read_queries(self, name: str, queries: Sequence[GoldenQuery]) -> list[GoldenQuery]:
        """Return queries that expect only read text; queries left without any are not judged."""
        if any(query.filters != Filters() for query in queries):
            raise InvalidArgument("Golden queries with filters cannot be asked as a reader.")
        reader = Reader(self._access, name)
        sentences: list[str] = []
        more = True
        while more:
            page = reader.sentences(offset=len(sentences), limit=MAX_PAGE_SENTENCES)
            sentences += [sentence.text for sentence in page.sentences]
            more = page.more
        read = normalize_text(" ".join(sentences))
        return [
            replace(
                query,
                expected=(),
                phrases=tuple(one for one in query.phrases if normalize_text(one) in read),
                top_k=min(query.top_k, MAX_TOP_K),
            )
            for query in queries
        ]

    def _search_as_reader(
        self, name: str, query: GoldenQuery, *, mode: Mode | None, rerank: bool | None
    ) -> list[Found]:
        def search() -> list[Found]:
            reader = Reader(self._access, name)
            bundle = reader.retrieve(query.query, top_k=query.top_k, mode=mode, rerank=rerank)
            if problem := bundle.error:
                error = ServiceError(problem.message)
                error.code, error.retryable = problem.code, problem.retryable
                raise error
            if bundle.metadata.rerank and (failure := bundle.metadata.rerank.failure):
                # The order without the reranker must not be graded.
                raise ServiceError(f"The reranker failed ({failure}).")
            return [
                Found(str(note.document), note.source, chunk.relevance_score, chunk.content)
                for chunk, note in zip(
                    bundle.retrieved_chunks, bundle.metadata.sources, strict=True
                )
            ]

        return self._with_retries(search)

    def _with_retries(self, search: Callable[[], T]) -> T:
        """Search, and retry retryable errors: one hiccup should not spoil a long evaluation."""
        for pause in PAUSES:
            try:
                return search()
            except TruespanError as error:
                if not error.retryable:
                    raise
                self._access.components.clock.sleep(pause)
        return search()

    def _active_documents(self, scope: Scope) -> Mapping[int, Document]:
        documents = self._access.components.store.documents.all(scope)
        return {document.number: document for document in documents if document.active is not None}

    def _unrelated_high(self, scope: Scope, golden: Sequence[GoldenQuery]) -> float | None:
        """Return the similarity that 95 of 100 unrelated pairs do not exceed; None without any."""
        store, documents = self._access.components.store, self._active_documents(scope)
        names = DocumentNames(documents.values())
        embedded = (
            (chunk.document, chunk.vector)
            for page in store.chunks.expected(scope)
            for chunk in page
            if chunk.vector is not None
            and chunk.document in documents
            and chunk.revision == documents[chunk.document].active
        )
        # Spread evenly over the generation, and always the same ones.
        step = max(1, store.worlds.status(scope).embedded // SAMPLED_PASSAGES)
        sample = list(islice(embedded, 0, None, step))
        pipeline, world, scores = self._access.pipeline, self._access.record(), []
        for query in golden[:: max(1, -(-len(golden) // SAMPLED_QUERIES))]:
            expected = {names.key_of(item.document) for item in query.expected if item.grade}
            vector = pipeline.embed(scope, world, query.query.strip()).vector
            # Where only phrases are expected, most passages are still about something else.
            scores.extend(
                similarity_of(vector, other, scope.profile.distance)
                for number, other in sample
                if documents[number].doc_id not in expected
            )
        return unrelated_high(scores) if scores else None


def evaluation_of(world: World) -> WorldEvaluation:
    """Return the evaluation of a world."""
    return WorldEvaluation(world.access)


def ask_golden(access: WorldAccess, candidate: Candidate) -> Verdict | None:
    """Ask golden queries of a generation, and of the one it replaces unless that was done before.

    Returns None if there are no golden queries.
    """
    if candidate.golden is None:
        return None
    run, old = partial(WorldEvaluation(access).run, candidate.golden), candidate.before
    if old is None and candidate.replaced != candidate.generation:
        old = run(generation=candidate.replaced)
    new = run(generation=candidate.generation)
    return gate_generation(old, new, candidate.allowed_drop, min_hit_rate=candidate.min_hit_rate)


def _check_modes(modes: Sequence[Mode | str]) -> list[Mode]:
    if isinstance(modes, str):
        raise InvalidArgument("modes must be a list.")
    wanted = [mode for mode in map(check_mode, modes) if mode is not None]
    if len(set(wanted)) < len(modes):
        raise InvalidArgument("Name each mode once.")
    return wanted


def _check_parts(parts: object) -> frozenset[RankPart]:
    """Return parts of the ranking by their names; raises InvalidArgument."""
    if not isinstance(parts, list | tuple | set | frozenset) or not set(parts) <= set(RankPart):
        raise InvalidArgument(f"without must be a list of {', '.join(RankPart)}.")
    return frozenset(map(RankPart, parts))
