"""The stages of every retrieval.

    request ──admit──> world ──scope──> in scope ──vector, fetch──> Verified ──reveal──> Visible
                         ▲                                                                     │
                         └── again, if the world changed meanwhile <────── rank, rerank, pack ─┘

Search, retrieve, candidates for answers, evaluation and readers use a `Pipeline`. They differ in
how many chunks are enough and in the result that they build.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from truespan import errors
from truespan.observer import RequestTrace
from truespan.retrieval.deps import Restart, RetrievalDeps
from truespan.retrieval.filters import (
    NOTHING_EMBEDDED,
    explain_empty,
    hidden_documents,
    name_defaults,
    name_unknown_keys,
    name_unreadable,
    narrow_scope,
    unreadable_metadata,
    with_defaults,
)
from truespan.retrieval.query import EmbeddedQuery, embed_query
from truespan.retrieval.stages import Fetched, Select, SelectionT, fetch_by_similarity
from truespan.types.bundle import Funnel, Notice, RerankReport, Skipped
from truespan.types.catalog import DocumentCatalog
from truespan.types.request import NO_FILTERS, Filters, Mode, PassageOptions, check_query, is_blank
from truespan.types.scope import Authority, GenerationSelector, Scope, Verb, World
from truespan.types.telemetry import CounterName, Stage
from truespan.types.trust import Visible
from truespan.types.vectors import QueryStates, Vector, mean_of

if TYPE_CHECKING:
    from truespan.retrieval.rerank import RerankStage
    from truespan.store import Store

_SURROGATE = re.compile("[\ud800-\udfff]")

MAX_ATTEMPTS = 40
"""Maximum number of attempts at a request while the world keeps changing."""
APPROXIMATE = Notice(
    "approximate_search",
    "This world is searched approximately, as its operator chose: close passages may be missing, "
    "and the content of other worlds may decide which.",
)
REPAIR_NOT_RECORDED = Notice(
    "repair_not_recorded",
    "Damage was found and skipped, but could not be recorded for repair just now.",
)


class Attempt(Struct):
    """The outcome of each stage for one state of the world, as far as the stages got."""

    world: World
    """State of the world that was read."""
    mode: Mode
    """Mode of the search; see `mode_in_force`."""
    query: str | None
    """Query whose words count; None for a selection alone."""
    scope: Scope | None = None
    catalog: DocumentCatalog | None = None
    in_scope: int = 0
    stored: int = 0
    """Number of chunks that the index should have, in the documents and up to the position."""
    fetched: Fetched = field(default_factory=Fetched)
    chunks: tuple[Visible, ...] = ()
    """Chunks selected from the fetched ones."""
    discriminates: bool | None = None
    """Whether the floor keeps unrelated text out; None without a floor or a calibration."""
    rerank: RerankReport | None = None
    states: QueryStates | None = None
    """States of the words of the query, if the ranking uses them."""
    hidden: Scope | None = None
    """Documents that only a default filter leaves out, if there are any."""
    unreadable: int = 0
    """Number of documents that a condition leaves out because their metadata are damaged."""
    lost: errors.IndexUnavailable | None = None
    """Set if the index has lost points that could have been among the results."""
    settled: bool = False
    """Whether the last read of the store showed that the world is still in this state."""
    warnings: list[Notice] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found that can be shown."""
        return not (self.chunks or self.fetched.verified)

    @property
    def by_words(self) -> bool:
        """Whether words alone name the candidates."""
        if self.mode is not Mode.HYBRID:
            return self.mode is Mode.KEYWORD
        from truespan.words.query import find_phrases, requires_phrases

        phrases, refines = find_phrases(self.query or ""), not self.world.defaults.values.plain
        return bool(phrases) and (not refines or requires_phrases(self.query or "", phrases))

    @property
    def lacks_words(self) -> bool:
        """Whether no passage has the words that the search requires, so that no floor decided."""
        codes = {notice.code for notice in self.warnings}
        return self.by_words and not codes.isdisjoint(("no_word_matches", "no_phrase_matches"))

    def reorder(self, stage: RerankStage, ranked: Sequence[Visible]) -> Sequence[Visible]:
        """Return chunks in the order of the reranker, and record its report.

        Reranking changes the order only; thresholds still apply to similarities.
        """
        ordered, self.rerank, warnings = stage.order(ranked)
        self.warnings += warnings
        return ordered


T = TypeVar("T")
AttemptT = TypeVar("AttemptT", bound=Attempt)


class Pipeline(Struct, frozen=True):
    """The stages of retrieval for one caller and one world."""

    deps: RetrievalDeps
    authority: Authority
    world: str
    generation: GenerationSelector = None

    def with_trace(self, trace: RequestTrace) -> Pipeline:
        """Return this pipeline for one request, whose stages and counts are sent to `trace`."""
        return replace(self, deps=replace(self.deps, trace=trace))

    def admit(
        self,
        action: str,
        query: str | None,
        *texts: str | None,
        reader: str | None = None,
        max_length: int | None = None,
    ) -> World:
        """Return the world, if the caller may read all of it or may read as `reader`.

        Raises:
            InvalidArgument: the query or a further text has no visible character.
            QueryTooLong: the query has more than `max_length` characters; without it, more than the
                defaults of the world allow.
        """
        with self.deps.trace.stage(Stage.ADMITTED):
            world = require_world(self.deps.store, self.authority, self.world, self.generation)
            if reader is None:
                allowed = self.authority.may(Verb.READ, world.id)
            else:
                allowed = self.authority.may_follow(reader, world.id)
            if not allowed:
                raise errors.NotAllowed(action)
            given = [text for text in (query, *texts) if text is not None]
            if any(map(is_blank, given)):
                raise errors.InvalidArgument(code="blank_query")
            if any(_SURROGATE.search(text) for text in given):
                raise errors.InvalidArgument(
                    "The query has half a character (a lone surrogate).",
                    advice="Send valid Unicode text.",
                )
            check_query(query, max_length or world.defaults.values.max_query_length)
            return world

    def rerank_stage(
        self, world: World, wanted: bool | None, query: str | None
    ) -> RerankStage | None:
        """Return the stage that reranks the results of a request; None if they are not reranked.

        Raises:
            InvalidArgument: reranking is wanted, and no reranker is configured.
        """
        options = self.deps.rerank
        if wanted and options is None:
            raise errors.InvalidArgument(
                "No reranker is configured.",
                advice="Add [rerank] to truespan.toml, or leave out rerank.",
            )
        if wanted is None:
            wanted = not world.defaults.values.plain
        if not wanted or options is None or query is None:
            return None
        from truespan.retrieval.rerank import RerankStage

        return RerankStage(options, query.strip(), self.deps.clock, self.deps.trace)

    def in_stable_world(self, world: World, once: Callable[[World], AttemptT]) -> AttemptT:
        """Return an attempt on one state of the world, and record the necessary repairs.

        A result does not depend on whether the damage that it skips could be recorded. Chunks found
        in an index that lost points are returned with a warning.

        Raises:
            IndexUnavailable: nothing was found in an index that lost points, which proves nothing.
        """
        store = self.deps.store
        is_settled = attrgetter("settled")
        attempt = with_stable_snapshot(store, self.authority, world, once, is_settled)
        scope, fetched = attempt.scope, attempt.fetched
        is_short = fetched.seen is not None and fetched.seen < attempt.stored
        if scope is not None and (is_short or fetched.unreturned):
            attempt.lost = self._find_lost_points(attempt, scope)
        # Recording damage changes the world that was read, so it comes last.
        failures, lost = fetched.failures, attempt.lost
        if failures and scope is not None:
            try:
                store.chunks.record_failures(scope, failures)
            except (errors.StorageFull, errors.StoreBusy):
                attempt.warnings.append(REPAIR_NOT_RECORDED)
            else:
                self.deps.start_repair(scope)
        if lost is not None and scope is not None:
            self.deps.start_repair(scope)
            if attempt.is_empty:
                raise lost
            attempt.warnings.append(Notice("index_incomplete", f"{lost.message} {lost.advice}"))
        return attempt

    def _find_lost_points(self, attempt: Attempt, scope: Scope) -> errors.IndexUnavailable | None:
        """Compare the index, which returned less than it could have, with the store."""
        deps, stored = self.deps, attempt.stored
        try:
            missing = deps.completeness.missing_points(
                *(deps.store, deps.index, deps.clock, scope, attempt.world, stored),
                repeat=attempt.is_empty or attempt.fetched.seen == 0,
            )
        except (errors.IndexUnavailable, errors.IndexRefused):
            # The result is true without this count.
            if attempt.is_empty:
                raise
            return None
        return (
            errors.IndexUnavailable(code="index_incomplete", missing=missing, stored=stored)
            if missing
            else None
        )

    def scope(
        self, attempt: Attempt, filters: Filters, by_default: frozenset[str] = frozenset()
    ) -> Scope | None:
        """Return the part of the world that the filters leave; None, with a warning, if empty.

        `by_default` names the filters that have the defaults of the world.
        """
        world, relaxed = attempt.world, filters
        if by_default:
            filters = with_defaults(filters, by_default, world)
        if world.generation is None:
            attempt.warnings.append(NOTHING_EMBEDDED)
            return None
        with self.deps.trace.stage(Stage.SCOPED):
            whole = self.deps.store.catalogs.scope_of(self.authority, world, world.generation)
            catalog = attempt.catalog = self.deps.store.catalogs.documents(whole, world)
            scope, counts = whole, catalog.totals
            if filters != NO_FILTERS:
                scope = narrow_scope(whole, catalog, filters)
                counts = catalog.count_chunks(scope.documents)
            attempt.scope = scope
            hidden: frozenset[int] = frozenset()
            if relaxed != filters:
                hidden = hidden_documents(scope, narrow_scope(whole, catalog, relaxed), catalog)
                attempt.hidden = replace(scope, documents=hidden) if hidden else None
            # Store and index may disagree about a chunk that only touches a chapter, so `stored`
            # counts whole documents.
            attempt.in_scope, pending = counts
            attempt.stored = attempt.in_scope
            if scope.names_place:
                attempt.in_scope = self.deps.store.catalogs.count_in_place(scope, world)
            if filters.metadata:
                if unreadable := unreadable_metadata(catalog, filters):
                    attempt.unreadable = len(unreadable)
                    attempt.warnings.append(name_unreadable(unreadable))
                attempt.warnings += name_unknown_keys(catalog, filters)
            if pending:
                text = f"{pending} chunks in scope are not embedded; run 'truespan repair'."
                attempt.warnings.append(Notice("chunks_pending", text))
        if attempt.in_scope == 0:
            reasons = ""
            if hidden and not scope.documents:
                reasons = name_defaults(catalog.among(hidden), filters, by_default)
            notice = explain_empty(self.deps.store, scope, catalog, filters, reasons)
            attempt.warnings.append(notice)
            return None
        if self.deps.index.approximate(scope):
            attempt.warnings.append(APPROXIMATE)
        return scope

    def embed(self, scope: Scope, world: World, query: str) -> EmbeddedQuery:
        """Return the vector of a query, and the states of its words if the ranking uses them.

        The vector of a long query is the mean of the vectors of its parts.
        """
        with self.deps.trace.stage(Stage.VECTOR):
            return embed_query(self.deps, scope, query, world)

    def vectors(
        self, attempt: Attempt, scope: Scope, query: str | None, parts: Sequence[str]
    ) -> tuple[Vector, list[Vector]]:
        """Return the vector of a query, and the vectors of the parts of a selection.

        Without a query, the query vector is the mean of the parts.
        """
        with self.deps.trace.stage(Stage.VECTOR):
            selection = [embed_query(self.deps, scope, part).vector for part in parts]
            if query is None:
                return mean_of(selection), selection
            vector, attempt.states = embed_query(self.deps, scope, query, attempt.world)
            return vector, selection

    def fetch(
        self,
        attempt: Attempt,
        scope: Scope,
        vector: Vector,
        *,
        k: int,
        floor: float | None,
        select: Select[SelectionT],
    ) -> SelectionT:
        """Fetch and verify hits in the mode of the attempt until `select` has enough of them."""
        mode, query = attempt.mode, attempt.query
        if mode is Mode.VECTOR or query is None:
            attempt.fetched, selected = fetch_by_similarity(
                self.deps, scope, vector, k=k, floor=floor, select=select
            )
            return selected
        from truespan.retrieval.candidates import fetch_fused

        attempt.fetched, selected = fetch_fused(
            deps=self.deps,
            scope=scope,
            world=attempt.world,
            vector=vector,
            query=query,
            k=k,
            floor=floor,
            select=select,
            mode=mode,
            states=attempt.states,
        )
        attempt.warnings += attempt.fetched.notices
        return selected


def boilerplate_test(world: World, options: PassageOptions) -> Callable[[str], bool] | None:
    """Return the test for licences, lists of chapters and page numbers, which rank after all other
    text; None if they rank like it.
    """
    include = options.include_boilerplate
    if include or (include is None and world.defaults.values.plain):
        return None
    # Imported here because the import compiles many patterns.
    from truespan.text.boilerplate import is_boilerplate

    return is_boilerplate


def count_funnel(trace: RequestTrace, funnel: Funnel, skipped: tuple[Skipped, ...]) -> None:
    """Count the numbers that a result reports about itself."""
    trace.count(CounterName.FETCHED, funnel.fetched)
    trace.count(CounterName.VERIFIED, funnel.verified)
    trace.count(CounterName.RETURNED, funnel.returned)
    for reason in skipped:
        trace.count(CounterName.SKIPPED, reason.count, reason.code)


def require_world(
    store: Store, authority: Authority, reference: str, generation: GenerationSelector = None
) -> World:
    """Return the world that a request names.

    Raises:
        NotFound: it does not exist, or not for this authority. The two look the same.
        NotFound, NotFound: the same for its generation.
    """
    world = store.worlds.find(authority, reference, generation)
    if world is not None:
        return world
    if generation is None:
        raise errors.NotFound("world", reference)
    if isinstance(generation, str):
        raise errors.NotFound("domain", generation)
    raise errors.NotFound("generation", generation)


def with_stable_snapshot(
    store: Store,
    authority: Authority,
    world: World,
    attempt: Callable[[World], T],
    is_settled: Callable[[T], bool] = lambda _outcome: False,
) -> T:
    """Return the outcome of `attempt` for a world that did not change meanwhile.

    Index and store are read separately. A document that is replaced in between would be half
    visible or invisible, and a deleted one would look damaged. The change count of the world shows
    that, and the attempt is repeated. `is_settled` tells whether the last read of an attempt showed
    that count already.

    Raises:
        StoreBusy: every attempt ended in `Restart`; trying again may help.
        StoreDamaged: an attempt ended in `Restart` although the world did not change.
    """
    outcomes: list[T] = []
    for _ in range(MAX_ATTEMPTS):
        try:
            outcomes = [attempt(world)]
        except Restart as error:
            latest = require_world(store, authority, world.id, world.selector)
            if latest.changes == world.changes:
                raise errors.StoreDamaged(
                    "Rows of a document are missing.", advice="Run 'truespan doctor'."
                ) from error
            world = latest
            continue
        except Exception as error:
            expected = isinstance(error, errors.TruespanError)
            if expected and not isinstance(error, errors.DamageError | errors.NotFound):
                raise
            # Anything may be missing from a world that changed; from one that did not, it is.
            latest = require_world(store, authority, world.id, world.selector)
            if latest.changes == world.changes:
                raise
            world = latest
            continue
        if is_settled(outcomes[0]) or store.worlds.is_unchanged(world):
            break
        world = require_world(store, authority, world.id, world.selector)
    if not outcomes:
        raise errors.StoreBusy
    # If the world never stops changing, the latest outcome counts: all of it was true when read.
    return outcomes[0]
