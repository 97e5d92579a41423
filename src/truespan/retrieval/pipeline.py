"""The stages that every retrieval goes through.

    request ──admit──> world ──scope──> in scope ──vector, fetch──> Verified ──reveal──> Visible
                         ▲                                                                     │
                         └── again, if the world changed meanwhile <────── rank, rerank, pack ─┘

Search, retrieve, candidates for answers, evaluation and readers use a `Pipeline`. They differ in
how many chunks are enough and in the result that they build.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.errors import (
    BlankQuery,
    IndexIncomplete,
    IndexRefused,
    IndexUnavailable,
    InvalidArgument,
    NotAllowed,
    StorageFull,
    StoreBusy,
)
from truespan.observer import RequestTrace
from truespan.retrieval.fetch import Fetched, Select, SelectionT, fetch_by_similarity
from truespan.retrieval.query_vector import EmbeddedQuery, embed_query, query_vector
from truespan.retrieval.snapshot import RetrievalDeps, require_world, with_stable_snapshot
from truespan.types.bundle import Funnel, Notice, RerankReport, Skipped
from truespan.types.catalog import CatalogEntry, DocumentCatalog
from truespan.types.request import (
    NO_FILTERS,
    Filters,
    Mode,
    PassageOptions,
    check_query,
    is_blank,
    matches_language,
)
from truespan.types.scope import (
    Authority,
    GenerationSelector,
    Scope,
    Unlimited,
    Verb,
    World,
)
from truespan.types.telemetry import CounterName, Stage
from truespan.types.text import fold_name, fold_names
from truespan.types.trust import Visible
from truespan.types.vectors import QueryStates, Vector, mean_of

if TYPE_CHECKING:
    from truespan.retrieval.rerank import RerankStage

_SURROGATE = re.compile("[\ud800-\udfff]")

ASK_FOR_ANY = "Ask for any language and version, or run 'truespan defaults recommended'."
MAX_NAMES = 5
"""Maximum number of similar names that a warning lists."""
MAX_COMPARED = 2000
"""Maximum number of names that are compared letter by letter."""
MAX_KEYS = 20
"""Maximum number of metadata keys that a warning lists."""
MAX_VALUES = 5
"""Maximum number of languages or versions that a warning lists."""
NO_DOCUMENT = Notice("no_document_matches", "No document in this world matches the filters.")
NOTHING_EMBEDDED = Notice("no_embedded_chunks", "Nothing in scope is embedded.")
APPROXIMATE = Notice(
    "approximate_search",
    "This world is searched approximately, as its operator chose: close passages may be missing, "
    "and the content of other worlds may decide which.",
)
METADATA_DAMAGED = "metadata_damaged"
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
    rerank: RerankReport | None = None
    states: QueryStates | None = None
    """States of the words of the query, if the ranking uses them."""
    hidden: Scope | None = None
    """Documents that only a default filter leaves out, if there are any."""
    unreadable: int = 0
    """Number of documents that a condition leaves out because their metadata are damaged."""
    lost: IndexIncomplete | None = None
    """Set if the index has lost points that could have been among the results."""
    settled: bool = False
    """Whether the fetched chunks were the last read of the store."""
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

        query = self.query or ""
        return (
            requires_phrases(query)
            if self.world.defaults.values.refines
            else bool(find_phrases(query))
        )

    def is_settled(self, latest: World) -> bool:
        """Return whether the last read of the store already showed the state of the world."""
        return self.settled and self.fetched.changes == latest.changes

    def reorder(self, stage: RerankStage, ranked: Sequence[Visible]) -> Sequence[Visible]:
        """Return chunks in the order of the reranker, and record its report.

        Reranking changes the order only; thresholds still apply to similarities.
        """
        ordered, self.rerank, warnings = stage.order(ranked)
        self.warnings += warnings
        return ordered


AttemptT = TypeVar("AttemptT", bound=Attempt)


class Pipeline(Struct, frozen=True):
    """The stages of retrieval for one caller and one world."""

    deps: RetrievalDeps
    authority: Authority
    world: str
    generation: GenerationSelector = None

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
            BlankQuery: the query or a further text has no visible character.
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
                raise NotAllowed(action)
            given = [text for text in (query, *texts) if text is not None]
            if any(map(is_blank, given)):
                raise BlankQuery
            if any(_SURROGATE.search(text) for text in given):
                raise InvalidArgument(
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
            raise InvalidArgument(
                "No reranker is configured.",
                advice="Add [rerank] to truespan.toml, or leave out rerank.",
            )
        if wanted is None:
            wanted = world.defaults.values.reranks
        if not wanted or options is None or query is None:
            return None
        from truespan.retrieval.rerank import RerankStage

        return RerankStage(options, query.strip(), self.deps.clock, self.deps.trace)

    def in_stable_world(self, world: World, once: Callable[[World], AttemptT]) -> AttemptT:
        """Return an attempt on one state of the world, and record what needs repair.

        A result does not depend on whether the damage that it skips could be recorded. Chunks found
        in an index that lost points are returned with a warning.

        Raises:
            IndexIncomplete: nothing was found in an index that lost points, which proves nothing.
        """
        store = self.deps.store
        attempt = with_stable_snapshot(store, self.authority, world, once, Attempt.is_settled)
        scope, fetched = attempt.scope, attempt.fetched
        is_short = fetched.seen is not None and fetched.seen < attempt.stored
        if scope is not None and (is_short or fetched.unreturned):
            attempt.lost = self._find_lost_points(attempt, scope)
        # Recording damage changes the world that was read, so it comes last.
        failures, lost = fetched.failures, attempt.lost
        if failures and scope is not None:
            try:
                store.record_failures(scope, failures)
            except (StorageFull, StoreBusy):
                attempt.warnings.append(REPAIR_NOT_RECORDED)
            else:
                self.deps.start_repair(scope)
        if lost is not None and scope is not None:
            self.deps.start_repair(scope)
            if attempt.is_empty:
                raise lost
            attempt.warnings.append(Notice("index_incomplete", f"{lost.message} {lost.advice}"))
        return attempt

    def _find_lost_points(self, attempt: Attempt, scope: Scope) -> IndexIncomplete | None:
        """Compare the index, which returned less than it could have, with the store."""
        deps, stored = self.deps, attempt.stored
        try:
            missing = deps.completeness.missing_points(
                *(deps.store, deps.index, deps.clock, scope, attempt.world, stored),
                repeat=attempt.is_empty or attempt.fetched.seen == 0,
            )
        except (IndexUnavailable, IndexRefused):
            # The result is true without this count.
            if attempt.is_empty:
                raise
            return None
        return IndexIncomplete(missing, stored) if missing else None

    def scope(
        self,
        attempt: Attempt,
        filters: Filters,
        by_default: frozenset[str] = frozenset(),
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
            whole = self.deps.store.scope_of(self.authority, world, world.generation)
            catalog = attempt.catalog = self.deps.store.document_catalog(whole, world)
            scope = attempt.scope = narrow_scope(whole, catalog, filters)
            hidden: frozenset[int] = frozenset()
            if relaxed != filters:
                hidden = hidden_documents(scope, narrow_scope(whole, catalog, relaxed), catalog)
                attempt.hidden = replace(scope, documents=hidden) if hidden else None
            # Store and index may disagree about a chunk that only touches a chapter, so `stored`
            # counts whole documents.
            attempt.in_scope, pending = catalog.count_chunks(scope.documents)
            attempt.stored = attempt.in_scope
            if scope.names_place:
                attempt.in_scope = self.deps.store.count_in_place(scope, world)
            if filters.metadata:
                if unreadable := unreadable_metadata(catalog, filters):
                    attempt.unreadable = len(unreadable)
                    attempt.warnings.append(_name_unreadable(unreadable))
                attempt.warnings += _name_unknown_keys(catalog, filters)
            if pending:
                text = f"{pending} chunks in scope are not embedded; run 'truespan repair'."
                attempt.warnings.append(Notice("chunks_pending", text))
        if attempt.in_scope == 0:
            reasons = ""
            if hidden and not scope.documents:
                reasons = name_defaults(catalog.among(hidden), filters, by_default)
            attempt.warnings.append(self._explain_empty(scope, catalog, filters, reasons))
            return None
        if self.deps.index.approximate(scope):
            attempt.warnings.append(APPROXIMATE)
        return scope

    def _explain_empty(
        self, scope: Scope, catalog: DocumentCatalog, filters: Filters, reasons: str
    ) -> Notice:
        """Return a warning that says why nothing is in scope.

        `reasons` are the default filters that left out every document, if they did.
        """
        if reasons:
            text = f"Every document in scope was left out by {reasons}. {ASK_FOR_ANY}"
            return Notice("default_filter_emptied_result", text)
        nothing = NOTHING_EMBEDDED if scope.documents else NO_DOCUMENT
        return self._name_places(scope, catalog, filters) or nothing

    def _name_places(
        self, scope: Scope, catalog: DocumentCatalog, filters: Filters
    ) -> Notice | None:
        """Return a warning if no text in scope is in the chapter or section of the filters.

        The warning lists similar names, since the caller may read the whole world.
        """
        if not scope.names_place or not catalog.count_chunks(scope.documents)[0]:
            return None
        places = self.deps.store.place_names(scope)
        if any(map(scope.covers, places)):
            return None
        for member, wanted in (("chapter", filters.chapter), ("section", filters.section)):
            names = list(dict.fromkeys(getattr(place, member) for place in places))
            if wanted is not None and fold_name(wanted) not in fold_names(names):
                listed = ", ".join(repr(name) for name in closest_names(wanted, names))
                closest = f" The closest: {listed}." if listed else ""
                text = f"No {member} in scope is named {wanted!r}.{closest}"
                if member == "chapter":
                    return Notice("chapter_not_found", text)
                return Notice("section_not_found", text)
        text = (
            f"No text in scope is in the chapter {filters.chapter!r} and in the section "
            f"{filters.section!r} at once."
        )
        return Notice("section_not_found", text)

    def query_vector(self, scope: Scope, world: World, query: str) -> Vector:
        """Return the vector of a query; of a long one, the mean of the vectors of its parts."""
        with self.deps.trace.stage(Stage.VECTOR):
            return self._embed(scope, world, query).vector

    def embed(self, attempt: Attempt, scope: Scope, query: str) -> Vector:
        """Return the vector of a query, and keep the states of its words for the ranking."""
        with self.deps.trace.stage(Stage.VECTOR):
            embedded = self._embed(scope, attempt.world, query)
        attempt.states = embedded.states
        return embedded.vector

    def _embed(self, scope: Scope, world: World, query: str) -> EmbeddedQuery:
        defaults = world.defaults.values
        return embed_query(
            self.deps,
            scope,
            query,
            split=defaults.splits_queries,
            word_states=self.deps.word_states and defaults.word_states,
        )

    def vectors(
        self, attempt: Attempt, scope: Scope, query: str | None, parts: Sequence[str]
    ) -> tuple[Vector, list[Vector]]:
        """Return the vector of a query, and the vectors of the parts of a selection.

        Without a query, the query vector is the mean of the parts.
        """
        with self.deps.trace.stage(Stage.VECTOR):
            selection = [query_vector(self.deps, scope, part) for part in parts]
            if query is None:
                return mean_of(selection), selection
            embedded = self._embed(scope, attempt.world, query)
        attempt.states = embedded.states
        return embedded.vector, selection

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
            by_words=attempt.by_words,
            states=attempt.states,
        )
        attempt.warnings += attempt.fetched.notices
        return selected


def closest_names(wanted: str, names: Sequence[str]) -> list[str]:
    """Return the names closest to `wanted`: names that contain it, then similar ones."""
    from difflib import get_close_matches

    folded = {fold_name(name): name for name in reversed(names)}
    own = fold_name(wanted)
    found = [name for name in folded if own and (own in name or (len(name) > 2 and name in own))]
    found += get_close_matches(own, list(folded)[:MAX_COMPARED], n=MAX_NAMES)
    return [folded[name] for name in dict.fromkeys(found)][:MAX_NAMES]


def with_defaults(filters: Filters, names: frozenset[str], world: World) -> Filters:
    """Return filters with the defaults of a world for the named ones."""
    values = world.defaults.values
    return replace(filters, **{name: getattr(values, name) for name in names})


def ranks_boilerplate_last(world: World, options: PassageOptions) -> bool:
    """Return whether licences, lists of chapters and page numbers rank after all other text."""
    if options.include_boilerplate is None:
        return world.defaults.values.boilerplate_last
    return not options.include_boilerplate


def count_funnel(trace: RequestTrace, funnel: Funnel, skipped: tuple[Skipped, ...]) -> None:
    """Count the numbers that a result reports about itself."""
    trace.count(CounterName.FETCHED, funnel.fetched)
    trace.count(CounterName.VERIFIED, funnel.verified)
    trace.count(CounterName.RETURNED, funnel.returned)
    for reason in skipped:
        trace.count(CounterName.SKIPPED, reason.count, reason.code)


def narrow_scope(scope: Scope, catalog: DocumentCatalog, filters: Filters) -> Scope:
    """Return the scope restricted by all filters together.

    Filters by document are applied in the store, so that a changed label counts at once. The index
    gets document numbers.
    """
    if filters == NO_FILTERS:
        return scope
    numbers = catalog.select(filters, lambda: matching_documents(catalog, filters))
    return scope.narrow(documents=numbers, chapter=filters.chapter, section=filters.section)


def matching_documents(catalog: DocumentCatalog, filters: Filters) -> frozenset[int] | None:
    """Return the documents that match all filters by document; None if all match.

    A document with damaged labels matches, so that its chunks are found to be damaged. A document
    with damaged metadata matches no condition, and `unreadable_metadata` names it.
    """
    found = [catalog.labelled(lambda entry: _labels_match(entry, filters))]
    if filters.documents is not None:
        found.append(catalog.named(filters.documents))
    if filters.source is not None:
        found.append(catalog.from_source(filters.source))
    if filters.metadata:
        found.append(catalog.metadata.matching(filters.metadata) | catalog.damaged)
    sets = sorted((numbers for numbers in found if numbers is not None), key=len)
    numbers = frozenset.intersection(*sets) if sets else None
    if numbers is None or (numbers and len(numbers) == len(catalog)):
        return None
    return catalog.limit(numbers)


def unreadable_metadata(catalog: DocumentCatalog, filters: Filters) -> list[CatalogEntry]:
    """Return the documents that conditions leave out because their metadata are damaged."""
    if not filters.metadata or not catalog.metadata.damaged:
        return []
    others = matching_documents(catalog, replace(filters, metadata=()))
    damaged = catalog.metadata.damaged - catalog.damaged
    return list(catalog.among(sorted(damaged if others is None else damaged & others)))


def hidden_documents(scope: Scope, relaxed: Scope, catalog: DocumentCatalog) -> frozenset[int]:
    """Return the documents of a relaxed scope that are not in the scope."""
    if isinstance(scope.documents, Unlimited):
        return frozenset()
    if isinstance(relaxed.documents, Unlimited):
        return frozenset(entry.number for entry in catalog) - scope.documents
    return relaxed.documents - scope.documents


def name_defaults(
    entries: Iterable[CatalogEntry], filters: Filters, by_default: frozenset[str]
) -> str:
    """Describe the default filters that leave entries out, with the values of the entries."""
    entries, reasons = list(entries), []
    for member in sorted(by_default):
        own = Filters(**{member: getattr(filters, member)})
        values = [getattr(entry, member) for entry in entries if not _labels_match(entry, own)]
        counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
        if counts:
            listed = [f"{value} ({count})" for value, count in counts[:MAX_VALUES]]
            more = [f"{len(counts) - MAX_VALUES} more"] if len(counts) > MAX_VALUES else []
            wanted = getattr(filters, member)
            reasons.append(f"the default {member} {wanted!r}: {', '.join([*listed, *more])}")
    return "; by ".join(reasons)


def _name_unreadable(entries: Sequence[CatalogEntry]) -> Notice:
    names = ", ".join(entry.name for entry in entries[:MAX_VALUES])
    more = f" and {len(entries) - MAX_VALUES} more" if len(entries) > MAX_VALUES else ""
    return Notice(
        METADATA_DAMAGED,
        "Metadata do not match their checksum, so that these documents were left out: "
        f"{names}{more}. Run 'truespan doctor'.",
    )


def _name_unknown_keys(catalog: DocumentCatalog, filters: Filters) -> list[Notice]:
    """Return a warning if a filter has a key that no document has, probably misspelt."""
    keys = {condition.key for condition in filters.metadata if condition.exists}
    unknown = keys.difference(catalog.metadata) if keys else ()
    if not unknown:
        return []
    wanted = ", ".join(repr(key) for key in sorted(unknown))
    known = sorted(catalog.metadata)
    more = f" and {len(known) - MAX_KEYS} more" if len(known) > MAX_KEYS else ""
    listed = f"there are: {', '.join(known[:MAX_KEYS])}{more}" if known else "there are no metadata"
    text = f"No document has metadata under {wanted}; {listed}."
    return [Notice("metadata_key_unknown", text)]


def _labels_match(entry: CatalogEntry, filters: Filters) -> bool:
    """Return whether a document has all tags, the version, the language and one of the kinds."""
    return (
        set(filters.tags) <= set(entry.tags)
        and (not filters.kinds or entry.kind in filters.kinds)
        and filters.version in (None, entry.version)
        and matches_language(entry.language, filters.language)
    )
