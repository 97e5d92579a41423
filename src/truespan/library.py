"""The engine: a library, its worlds, and everything a door can ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from types import TracebackType
from typing import Any

from truespan.errors import (
    ChunkNotFound,
    DocumentNotFound,
    Interrupted,
    InvalidSettings,
    NotAllowed,
    ProfileMismatch,
    WorldNotFound,
)
from truespan.ingest.parts import parts as split_parts
from truespan.ingest.run import Ingestion, IngestReport, Progress
from truespan.model.bundle import ContextBundle, Reason, SearchResult
from truespan.model.chunk import ChunkRecord
from truespan.model.document import Document, OutlineEntry, WorldStatus
from truespan.model.ids import ChunkId
from truespan.model.request import (
    DEFAULT_FLOOR,
    DEFAULT_TOP_K,
    RETRIEVAL_TOP_K,
    RetrievalRequest,
    SearchRequest,
)
from truespan.model.scope import OWNER, Authority, Scope, Verb
from truespan.model.scope import World as WorldRecord
from truespan.model.source import Declared, DocumentKind
from truespan.parts import Parts
from truespan.query.retrieve import Retriever
from truespan.query.search import Searcher
from truespan.reader import Reader
from truespan.upkeep.background import BackgroundRepairs
from truespan.upkeep.doctor import Plan, apply_plan, examine
from truespan.upkeep.repair import RepairReport, apply_repairs

OnProgress = Callable[[Progress], None]

INSTRUCTION_ROOM = 32
"""Tokens left free for a model's query instruction when a long selection is cut into parts."""


class Library:
    """All that one installation holds. Close it, or use it in a `with` statement."""

    def __init__(self, parts: Parts, authority: Authority = OWNER) -> None:
        self._parts = parts
        self._authority = authority
        self._repairs = BackgroundRepairs(parts.store, parts.index)

    def create_world(self, name: str) -> World:
        """Make an empty world.

        Raises:
            WorldExists: the name is taken.
            InvalidSettings: the name is blank or too long.
        """
        if not isinstance(name, str) or not name.strip() or len(name) > 200:
            raise InvalidSettings("A world needs a name of 1 to 200 characters.")
        record = self._parts.store.create_world(self._authority, name.strip())
        return World(self, record.id)

    def world(self, reference: str, *, create: bool = False) -> World:
        """Return the world with this id or name; with `create`, make it if it is not there.

        Raises:
            WorldNotFound: it is absent, or not for this authority.
        """
        try:
            return World(self, self._record(reference).id)
        except WorldNotFound:
            if not create:
                raise
            return self.create_world(reference)

    def worlds(self) -> list[WorldRecord]:
        """Return what is known of every world, by name."""
        return self._parts.store.worlds(self._authority)

    def doctor(
        self,
        worlds: str | Iterable[str] | None = None,
        *,
        apply: bool = False,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Plan]:
        """Compare store and index of each world; with `apply`, make the index what the store says.

        Vectors are kept in the store, so this needs no provider. An index that cannot be read at
        all is shared by every world of its profile: then all of those are rebuilt.
        """
        chosen = [worlds] if isinstance(worlds, str) else worlds
        names = [world.name for world in self.worlds()] if chosen is None else list(chosen)
        plans = {name: self.world(name)._examine() for name in names}
        if apply:
            if any(plan.unreadable for plan in plans.values()):
                plans = {world.name: self.world(world.name)._examine() for world in self.worlds()}
            self._rebuild_unreadable(plans)
            for name, plan in plans.items():
                self.world(name)._apply(plan, on_progress)
        return plans

    def _rebuild_unreadable(self, plans: dict[str, Plan]) -> None:
        """Start the index of a profile anew.

        First every chunk it held is marked pending, in every world that shares it: no reader may
        take the empty index for an empty world.
        """
        reset: set[str] = set()
        for name, plan in plans.items():
            scope = self.world(name)._scope()
            if plan.unreadable and scope is not None and scope.profile.id not in reset:
                self._parts.store.forget_index(scope)
                self._parts.index.reset(scope)
                reset.add(scope.profile.id)

    def close(self) -> None:
        """Let go of everything; what was committed stays."""
        self._repairs.close()
        self._parts.index.close()
        self._parts.store.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _record(self, reference: str) -> WorldRecord:
        record = self._parts.store.find_world(self._authority, reference)
        if record is None:
            raise WorldNotFound(reference)
        return record


class World:
    """One world of a library, as its holder may use it."""

    def __init__(self, library: Library, world_id: str) -> None:
        self._library = library
        self._parts = library._parts
        self._authority = library._authority
        self.id = world_id

    @property
    def name(self) -> str:
        """Return the world's name."""
        return self._library._record(self.id).name

    def search(
        self, query: str, *, top_k: int = DEFAULT_TOP_K, floor: float = DEFAULT_FLOOR
    ) -> SearchResult:
        """Find the chunks closest to a query, each verified against the store as it is read.

        Raises:
            InvalidSettings: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
            ProfileMismatch: the configured embedder is not the world's.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: the provider failed.
            IndexUnavailable, IndexRefused, IndexSchemaMismatch: the index failed.
        """
        request = SearchRequest(query, top_k, floor)
        parts = self._parts
        searcher = Searcher(
            parts.store, parts.index, parts.embedder, parts.clock, self._library._repairs.submit
        )
        return searcher.search(self._authority, self.id, request)

    def retrieve(
        self,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        chapter_filter: str | None = None,
        section_filter: str | None = None,
        language_constraint: str | None = "en",
        version_constraint: str | None = "1.0",
        documents: Sequence[str] | None = None,
        tags: Sequence[str] = (),
        near_misses: bool = False,
    ) -> ContextBundle:
        """Return context for a query, a selection or both, within the token budget.

        A failure of provider, index or store is a bundle with the status `error`.

        Raises:
            InvalidSettings: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        request = RetrievalRequest(
            query=query,
            selected_text=selected_text,
            top_k=top_k,
            chapter_filter=chapter_filter,
            section_filter=section_filter,
            language_constraint=language_constraint,
            version_constraint=version_constraint,
            documents=_listed("documents", documents),
            tags=_listed("tags", tags) or (),
        )
        retriever = self._retriever()
        return retriever.retrieve(self._authority, self.id, request, near_misses=near_misses)

    def why_not(self, chunk_id: str, query: str, **settings: Any) -> Reason:
        """Say why a chunk is not among what `retrieve` returns for the same arguments."""
        request = RetrievalRequest(query=query, **settings)
        return self._retriever().why_not(self._authority, self.id, request, ChunkId(chunk_id))

    def reader(self, name: str) -> Reader:
        """Return the reader of this name; whoever has no position yet can read nothing."""
        if not isinstance(name, str) or not name.strip() or len(name) > 200:
            raise InvalidSettings("A reader needs a name of 1 to 200 characters.")
        return Reader(self, self._parts, self._library._repairs.submit, name.strip())

    def _retriever(self) -> Retriever:
        parts = self._parts
        limit = parts.embedder.profile.input_limit
        return Retriever(
            parts.store,
            parts.index,
            parts.embedder,
            parts.clock,
            self._library._repairs.submit,
            lambda text: split_parts(text, parts.counter, limit - INSTRUCTION_ROOM),
        )

    def ingest(
        self,
        paths: str | PurePath | Sequence[str | PurePath],
        *,
        kind: str | None = None,
        title: str | None = None,
        language: str | None = None,
        version: str | None = None,
        chunking: str | None = None,
        tags: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> IngestReport:
        """Carry files and folders into the world; what is there and unchanged costs nothing.

        Raises:
            SourceMissing: a path names nothing; then nothing was ingested.
            ProfileMismatch: the configured embedder is not the one the world was built with.
            Interrupted: stopped by Ctrl-C; the same call goes on.
        """
        declared = _declared(kind, title, language, version, chunking, tags)
        given = [paths] if isinstance(paths, str | PurePath) else paths
        sources = self._parts.sources.find([str(path) for path in given], declared)
        ingestion = self._ingestion(self._writing_scope(), on_progress)
        try:
            return ingestion.run(sources)
        except KeyboardInterrupt:
            raise Interrupted from None

    def documents(self) -> list[Document]:
        """Return the world's documents, by number."""
        scope = self._readable()
        return self._parts.store.documents(scope) if scope else []

    def document(self, reference: str | int) -> Document:
        """Return the document with this number, doc id, or file name if only one has it.

        Raises:
            DocumentNotFound: no document, or more than one, answers to it.
        """
        documents, reference = self.documents(), str(reference)
        for exact in (
            [found for found in documents if str(found.number) == reference],
            [found for found in documents if found.doc_id == reference],
            [found for found in documents if found.name == reference],
        ):
            if len(exact) == 1:
                return exact[0]
        raise DocumentNotFound(reference)

    def text(self, reference: str) -> str:
        """Return the canonical text of a document, checked against its hash."""
        document = self.document(reference)
        scope = self._readable()
        if scope is None:
            raise DocumentNotFound(reference)
        return self._parts.store.canonical_text(scope, document.number)

    def outline(self, reference: str) -> list[OutlineEntry]:
        """Return where the chapters and sections of a document begin."""
        document = self.document(reference)
        scope = self._readable()
        return self._parts.store.outline(scope, document.number) if scope else []

    def chunk(self, chunk_id: str) -> ChunkRecord:
        """Return what the store knows of one chunk.

        Raises:
            ChunkNotFound: nothing, or nothing in this world.
        """
        scope = self._readable()
        found = self._parts.store.read_chunks(scope, [ChunkId(chunk_id)]) if scope else {}
        if chunk_id not in found:
            raise ChunkNotFound(chunk_id)
        return found[ChunkId(chunk_id)]

    def delete(self, reference: str) -> Document:
        """Remove a document: it is out of sight at once, then its points go, then its rows."""
        document = self.document(reference)
        scope = self._writing_scope()
        self._parts.store.tombstone(scope, document.number)
        self._ingestion(scope, None).clear_retired()
        return document

    def repair(self, on_progress: OnProgress | None = None) -> RepairReport:
        """Apply queued repairs and embed what they left pending."""
        scope = self._readable()
        if scope is None:
            return RepairReport()
        report = apply_repairs(self._parts.store, self._parts.index, scope)
        report.reembedded = self._finish(scope, on_progress)
        return report

    def status(self) -> WorldStatus:
        """Return the world in numbers."""
        scope = self._readable()
        return self._parts.store.status(scope) if scope else WorldStatus(0, 0, 0, 0, 0, 0, 0)

    def _examine(self) -> Plan:
        scope = self._readable()
        return examine(self._parts.store, self._parts.index, scope) if scope else Plan()

    def _apply(self, plan: Plan, on_progress: OnProgress | None) -> None:
        scope = self._scope()
        if scope is None or plan.healthy:
            return
        apply_plan(plan, self._parts.store, self._parts.index, scope)
        apply_repairs(self._parts.store, self._parts.index, scope)
        self._finish(scope, on_progress)

    def _finish(self, scope: Scope, on_progress: OnProgress | None) -> int:
        ingestion = self._ingestion(scope, on_progress)
        try:
            ingestion.finish(self._parts.store.unfinished(scope))
            ingestion.clear_retired()
        except KeyboardInterrupt:
            raise Interrupted from None
        return ingestion.written

    def _ingestion(self, scope: Scope, on_progress: OnProgress | None) -> Ingestion:
        parts = self._parts
        return Ingestion(
            store=parts.store,
            index=parts.index,
            embedder=parts.embedder,
            counter=parts.counter,
            sources=parts.sources,
            clock=parts.clock,
            limits=parts.limits,
            scope=scope,
            on_progress=on_progress,
        )

    def _readable(self) -> Scope | None:
        """Return the scope of the whole world for a caller who may read all of it."""
        scope = self._scope()
        if scope is not None and not self._authority.may(Verb.READ, scope.world):
            raise NotAllowed("read without a reader")
        return scope

    @property
    def authority(self) -> Authority:
        """Return who is asking."""
        return self._authority

    def _scope(self) -> Scope | None:
        """Return the scope of the whole world; None while it has no generation."""
        record = self._library._record(self.id)
        if record.generation is None:
            return None
        return Scope(self._authority, record.id, record.generation)

    def _writing_scope(self) -> Scope:
        """Return the scope for writing, with the world's profile locked and equal to ours."""
        record = self._library._record(self.id)
        if not self._authority.may(Verb.WRITE, record.id):
            raise WorldNotFound(self.id)
        if record.generation is None:
            profile = self._parts.embedder.profile
            record = self._parts.store.begin_generation(self._authority, record.id, profile)
        generation = record.generation
        if generation is None or generation.profile.id != self._parts.embedder.profile.id:
            built = str(generation.profile) if generation else "nothing"
            raise ProfileMismatch(built, str(self._parts.embedder.profile))
        return Scope(self._authority, record.id, generation)


def _listed(name: str, values: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(values, str):
        # A string is a sequence of letters to Python, and hardly ever meant so.
        raise InvalidSettings(f"{name} must be a list of strings.")
    return None if values is None else tuple(values)


def _declared(
    kind: str | None,
    title: str | None,
    language: str | None,
    version: str | None,
    chunking: str | None,
    tags: Sequence[str] | None,
) -> Declared:
    try:
        chosen = DocumentKind(kind) if kind is not None else None
    except ValueError:
        raise InvalidSettings(
            f"A document is of kind 'document' or 'book', not {kind!r}."
        ) from None
    texts: dict[str, Any] = {
        "title": title,
        "language": language,
        "version": version,
        "chunking": chunking,
    }
    for label, value in texts.items():
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise InvalidSettings(f"The {label} must be text, and not blank.")
    if tags is None:
        return Declared(kind=chosen, **texts)
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag.strip() for tag in tags):
        raise InvalidSettings("Tags must be a list of words.")
    return Declared(kind=chosen, tags=tuple(sorted(set(tags))), **texts)
