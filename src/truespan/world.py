"""One world, as its holder may use it: what a door can ask of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from truespan.answering import AnsweringWorld
from truespan.checkup import unsound
from truespan.errors import (
    ChunkNotFound,
    DocumentNotFound,
    Interrupted,
    InvalidSettings,
    NotAllowed,
    ProfileMismatch,
    WorldNotFound,
)
from truespan.generations import KIND as REINDEX
from truespan.generations import Generations
from truespan.ingest.carry import Carrier
from truespan.ingest.parts import parts as split_parts
from truespan.ingest.plan import DryRun
from truespan.ingest.report import IngestReport, Progress
from truespan.intake import WorldIntake, declared_as
from truespan.jobs import Jobs
from truespan.judged import JudgedWorld, Repairs
from truespan.model.bundle import ContextBundle, Notice, Reason, SearchResult
from truespan.model.chunk import ChunkRecord
from truespan.model.document import AuditEntry, Document, OutlineEntry, WorldStatus
from truespan.model.ids import ChunkId
from truespan.model.request import (
    DEFAULT_FLOOR,
    DEFAULT_TOP_K,
    RETRIEVAL_TOP_K,
    RetrievalRequest,
    SearchRequest,
)
from truespan.model.scope import Aim, Authority, Generation, Scope, Verb
from truespan.model.scope import World as WorldRecord
from truespan.parts import Parts
from truespan.query.retrieve import Retriever
from truespan.query.search import Searcher
from truespan.query.settle import existing
from truespan.reader import Reader
from truespan.removal import remover
from truespan.upkeep.evaluate import Evaluation
from truespan.upkeep.receipt import Receipt
from truespan.upkeep.repair import RepairReport, apply_repairs

OnProgress = Callable[[Progress], None]

INSTRUCTION_ROOM = 32
"""Tokens left free for a model's query instruction when a long selection is cut into parts."""


class World(AnsweringWorld, JudgedWorld):
    """One world of a library, as its holder may use it."""

    def __init__(
        self,
        parts: Parts,
        authority: Authority,
        repairs: Repairs,
        world_id: str,
        aim: Aim = None,
    ) -> None:
        self._parts = parts
        self._authority = authority
        self._repairs = repairs
        self.id = world_id
        self.aim: Aim = aim
        """Which generation is asked: the default one, a domain's, or one by its number."""

    @property
    def name(self) -> str:
        """Return the world's name."""
        return self._record().name

    def search(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        floor: float = DEFAULT_FLOOR,
        fused: bool = False,
    ) -> SearchResult:
        """Find the chunks closest to a query, each verified against the store as it is read.

        With `fused`, the words of the query count for their order as well.

        Raises:
            InvalidSettings: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
            ProfileMismatch: the configured embedder is not the world's.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: the provider failed.
            IndexUnavailable, IndexRefused, IndexSchemaMismatch: the index failed.
        """
        request = SearchRequest(query, top_k, floor, fused)
        parts = self._parts
        searcher = Searcher(
            parts.store,
            parts.index,
            parts.embedder_for,
            parts.clock,
            self._repairs.submit,
            self.aim,
            parts.fused_weight,
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
        fused: bool = False,
    ) -> ContextBundle:
        """Return context for a query, a selection or both, within the token budget.

        With `fused`, the words of the query count for the order as well.

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
            fused=fused,
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
        return Reader(self, self._parts, self._repairs.submit, name.strip())

    def _retriever(self) -> Retriever:
        parts = self._parts
        return Retriever(
            parts.store,
            parts.index,
            parts.embedder_for,
            parts.clock,
            self._repairs.submit,
            lambda text, limit: split_parts(text, parts.counter, limit - INSTRUCTION_ROOM),
            self.aim,
            parts.fused_weight,
        )

    def ingest(
        self,
        paths: str | PurePath | Sequence[str | PurePath] = (),
        *,
        manifest: str | PurePath | None = None,
        kind: str | None = None,
        title: str | None = None,
        language: str | None = None,
        version: str | None = None,
        chunking: str | None = None,
        tags: Sequence[str] | None = None,
        prune: bool = False,
        allow_empty: bool = False,
        domain_key: str | None = None,
        update_alias: bool = False,
        golden: str | None = None,
        on_progress: OnProgress | None = None,
        on_prune: Callable[[Sequence[Document]], None] | None = None,
    ) -> IngestReport:
        """Carry files and folders, or what a manifest names, into the world.

        What is there and unchanged costs nothing. With `prune`, documents below the given folders
        that are no longer there are removed; `on_prune` is told which, before. The run is a job:
        `report.job` names it.

        With `update_alias`, a new generation is built of all documents afterwards, and the domain,
        or the world's default, is moved to it: only if no document failed and the `golden` queries,
        if any are given, find as much in it as before.

        Raises:
            SourceMissing: a path names nothing; then nothing was ingested.
            DomainNotFound: the domain is absent, and not to be made by moving it here.
            PromotionRefused: the documents are in, and the alias is where it was.
            ManifestInvalid: with every bad line; then nothing was ingested.
            ProfileMismatch: the configured embedder is not the one the world was built with.
            Interrupted: stopped by Ctrl-C; the same call goes on.
        """
        declared = declared_as(kind, title, language, version, chunking, tags)
        target = self._aimed_at(domain_key, update_alias=update_alias)
        if golden is not None and not update_alias:
            raise InvalidSettings("Golden queries are for moving an alias: say update_alias too.")
        intake = self._intake(target._writing_scope())
        request = intake.request(paths, manifest, declared, prune=prune, allow_empty=allow_empty)
        report = intake.run(request, on_progress=on_progress, on_prune=on_prune)
        # What a deletion could not erase at once is caught up by whoever writes next.
        remover(self._parts).catch_up(urgent=True)
        if update_alias and report.failures:
            report.warnings.append("The alias was not moved, because documents failed.")
        elif update_alias:
            domain = domain_key or (self.aim if isinstance(self.aim, str) else None)
            report.generation = self.generations.rotate(
                domain=domain, golden=golden, on_progress=on_progress
            ).generation
        return report

    def _aimed_at(self, domain: str | None, *, update_alias: bool) -> World:
        """Return the world as a domain means it; one that moving it will make is not there yet."""
        if domain is None:
            return self
        aimed = World(self._parts, self._authority, self._repairs, self.id, domain)
        known = self._parts.store.find_domain(self._authority, domain)
        if known is not None and known.id != self.id:
            raise InvalidSettings(f"The domain {domain!r} names no generation of this world.")
        if known is None and update_alias:
            return self
        aimed._record()
        return aimed

    @property
    def generations(self) -> Generations:
        """Return the world's generations: built beside each other, judged, and put into use."""
        return Generations(self._parts, self._kept_scope, self._unsound, self._evaluated)

    def _kept_scope(self) -> Scope:
        """Return the scope of the world's default generation, for whoever may change it."""
        record = existing(self._parts.store, self._authority, self.id)
        if not self._authority.may(Verb.ADMINISTER, record.id):
            raise NotAllowed("change generations")
        if record.generation is None:
            raise InvalidSettings("The world holds nothing yet.", advice="Ingest something first.")
        return Scope(self._authority, record.id, record.generation)

    def _unsound(self, scope: Scope) -> list[Notice]:
        """Say in what a generation's points are not what the store says."""
        return unsound(self._parts, scope)

    def _evaluated(self, golden: str, generation: int) -> Evaluation:
        return self.evaluate(golden, generation=generation)

    def plan_ingest(
        self,
        paths: str | PurePath | Sequence[str | PurePath] = (),
        *,
        manifest: str | PurePath | None = None,
        kind: str | None = None,
        title: str | None = None,
        language: str | None = None,
        version: str | None = None,
        chunking: str | None = None,
        tags: Sequence[str] | None = None,
        prune: bool = False,
        allow_empty: bool = False,
    ) -> DryRun:
        """Return what `ingest` would do, and what it would cost; nothing is spent or written.

        In a world that holds nothing yet the provider is asked what its model is.
        """
        declared = declared_as(kind, title, language, version, chunking, tags)
        intake = self._intake(self._planning_scope())
        request = intake.request(paths, manifest, declared, prune=prune, allow_empty=allow_empty)
        return intake.plan(request)

    def resume(
        self,
        job: str,
        *,
        on_progress: OnProgress | None = None,
        on_prune: Callable[[Sequence[Document]], None] | None = None,
    ) -> IngestReport:
        """Go on with a job that did not end well.

        Raises:
            JobNotFound, JobNotResumable: there is none, or nothing to go on with.
        """
        if self.jobs.get(job).kind == REINDEX:
            built = self.generations.resume(job, on_progress)
            return IngestReport(failures=built.failures, chunks=built.chunks, job=job)
        intake = self._intake(self._writing_scope())
        return intake.resume(job, on_progress=on_progress, on_prune=on_prune)

    @property
    def jobs(self) -> Jobs:
        """Return the world's jobs."""
        return Jobs(self._parts.store, self._parts.processes, self._readable())

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

    def delete(self, reference: str | int, *, erase: bool = True) -> Receipt:
        """Remove a document: it is out of sight at once, then its points go, then its rows.

        With `erase`, the files that held it are written anew as well, so that nothing of it can be
        found in them; `receipt.erased` says whether that could be done now. What could not waits
        for `repair`.
        """
        document, record = self.document(reference), self._record()
        if record.generation is None or not self._authority.may(Verb.WRITE, record.id):
            raise WorldNotFound(self.id)
        scope = Scope(self._authority, record.id, record.generation)
        return remover(self._parts).document(scope, record, document, erase=erase)

    def metadata(self, reference: str | int) -> dict[str, Any]:
        """Return what was derived from a document: title, authors, dates, keywords, outline.

        What the caller declared wins over it. Empty until it is derived.
        """
        document = self.document(reference)
        scope = self._readable()
        found = self._parts.store.derived(scope, document.number) if scope else None
        return json.loads(found) if found else {}

    def audit(self, reference: str | int) -> list[AuditEntry]:
        """Return what the sanitiser counted in a document; never what it found."""
        document = self.document(reference)
        scope = self._readable()
        return self._parts.store.audit(scope, document.number) if scope else []

    def repair(self, on_progress: OnProgress | None = None) -> RepairReport:
        """Apply queued repairs and embed what they left pending."""
        scope = self._readable()
        if scope is None:
            return RepairReport()
        report = apply_repairs(self._parts.store, self._parts.index, scope)
        report.reembedded = self._finish(scope, on_progress)
        erased = remover(self._parts).catch_up()
        report.erasures, report.erasures_waiting = erased.done, erased.waiting
        return report

    def status(self) -> WorldStatus:
        """Return the world in numbers."""
        scope = self._readable()
        return self._parts.store.status(scope) if scope else WorldStatus(0, 0, 0, 0, 0, 0, 0)

    def _finish(self, scope: Scope, on_progress: OnProgress | None) -> int:
        carrier = Carrier(self._intake(scope).tools, scope)
        try:
            return self._intake(scope).finish(carrier, on_progress)
        except KeyboardInterrupt:
            raise Interrupted from None

    def _intake(self, scope: Scope) -> WorldIntake:
        return WorldIntake(self._parts, scope)

    def _record(self) -> WorldRecord:
        return existing(self._parts.store, self._authority, self.id, self.aim)

    def _planning_scope(self) -> Scope:
        """Return the scope of the world as it is, or as it would begin."""
        record = self._record()
        generation = record.generation or Generation(1, self._parts.embedder.profile)
        return Scope(self._authority, record.id, generation)

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
        record = self._record()
        if record.generation is None:
            return None
        return Scope(self._authority, record.id, record.generation)

    def _writing_scope(self) -> Scope:
        """Return the scope for writing, with the world's profile locked and equal to ours."""
        record = self._record()
        if not self._authority.may(Verb.WRITE, record.id):
            raise WorldNotFound(self.id)
        if record.generation is None:
            profile = self._parts.embedder.profile
            record = self._parts.store.begin_generation(self._authority, record.id, profile)
        generation = record.generation
        if generation is None:
            raise WorldNotFound(self.id)
        configured = self._parts.embedder_for(generation.profile).profile
        if generation.profile.id != configured.id:
            raise ProfileMismatch(str(generation.profile), str(configured))
        return Scope(self._authority, record.id, generation)


def _listed(name: str, values: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(values, str):
        # A string is a sequence of letters to Python, and hardly ever meant so.
        raise InvalidSettings(f"{name} must be a list of strings.")
    return None if values is None else tuple(values)
