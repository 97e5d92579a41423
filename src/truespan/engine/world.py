"""One world of a library: ingest, search, retrieve, answer, and its collaborators.

Collaborators are imported where they are used, so that a search imports only what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import replace

from truespan.engine.access import WorldAccess
from truespan.engine.components import Components
from truespan.errors import (
    InvalidArgument,
    JobNotResumable,
    NotAllowed,
    OperatorError,
    PromotionRefused,
    ServiceError,
)
from truespan.observer import Observer, RequestTrace, combine_observers
from truespan.retrieval.search import Rules, find_candidates, search
from truespan.retrieval.snapshot import require_world
from truespan.types.answer import Answer, AnswerEvent, Retrieved, UsageRecord
from truespan.types.bundle import ContextBundle, Reason, SearchResult
from truespan.types.conversation import CONVERSATION_LIMIT, ConversationInfo
from truespan.types.document import DEFAULT_FACET_VALUES, Facets, WorldStatus
from truespan.types.ids import ChunkId
from truespan.types.job import Job
from truespan.types.maintenance import MAX_SAMPLE
from truespan.types.request import (
    DEFAULT_FILTERS,
    DEFAULT_FLOOR,
    DEFAULT_TOP_K,
    NO_FILTERS,
    RETRIEVAL_TOP_K,
    Defaults,
    FilterArguments,
    Mode,
    QueryArguments,
    RetrievalRequest,
    SearchRequest,
    check_defaults,
    check_mode,
    check_reader_name,
    check_whole,
    require_domain_key,
    split_arguments,
)
from truespan.types.scope import Authority, Scope, Verb
from truespan.types.scope import World as WorldRecord
from truespan.types.source import (
    UPLOAD,
    DocumentArguments,
    DocumentOptions,
    IngestArguments,
    IngestOptions,
    Upload,
    check_uploads,
    is_page,
)
from truespan.types.telemetry import Request

if TYPE_CHECKING:
    from truespan.answers.decide import Replay
    from truespan.engine.answering import Find
    from truespan.engine.conversations import Conversation
    from truespan.engine.documents import Documents
    from truespan.engine.evaluation import Golden, WorldEvaluation
    from truespan.engine.generations import Generations
    from truespan.engine.ingestion import IngestJobs, OnPrune
    from truespan.engine.jobs import Jobs
    from truespan.engine.reader import Reader
    from truespan.engine.watching import OnError, Watch
    from truespan.evaluation.evaluate import Evaluation
    from truespan.ingest.plan import DryRun
    from truespan.ingest.report import IngestReport, Progress
    from truespan.maintenance.delete import Receipt
    from truespan.maintenance.repair import RepairReport

    OnProgress = Callable[[Progress], None]

USAGE_LIMIT = 50


class World:
    """One world of a library, with the permissions of an authority."""

    def __init__(self, access: WorldAccess) -> None:
        self.access = access

    @property
    def id(self) -> str:
        """Return the id, or the name by which the world was opened."""
        return self.access.world

    @property
    def name(self) -> str:
        return self.access.record().name

    @property
    def defaults(self) -> Defaults:
        """Return what the world's requests do unless they say otherwise."""
        return self.access.record().defaults

    def set_defaults(self, defaults: Defaults | str) -> None:
        """Choose the recommended defaults, or those of the contract, from the next request on.

        Raises:
            InvalidArgument: there are no such defaults.
            WorldNotFound: the caller may not administer the world.
        """
        chosen = check_defaults(defaults)
        store, record = self._components.store, self.access.record()
        store.set_defaults(self.authority, record.id, chosen)

    @property
    def authority(self) -> Authority:
        return self.access.authority

    @property
    def documents(self) -> Documents:
        """Return the world's documents: list, read, inspect and delete them."""
        from truespan.engine.documents import Documents

        return Documents(self.access)

    @property
    def generations(self) -> Generations:
        """Return the world's generations: build, check and promote them, or go back."""
        from truespan.engine.generations import Generations

        return Generations(self.access)

    @property
    def evaluation(self) -> WorldEvaluation:
        """Return the evaluation of the world: golden queries, comparisons, calibration."""
        from truespan.engine.evaluation import WorldEvaluation

        return WorldEvaluation(self.access)

    @property
    def jobs(self) -> Jobs:
        """Return the world's jobs; needs permission to write, or to read everything."""
        from truespan.engine.jobs import Jobs

        access, scope = self.access, self.access.scope()
        if scope is None or not access.authority.may(Verb.WRITE, scope.world):
            scope = access.readable_scope()
        return Jobs(access.components, scope)

    def reader(self, name: str) -> Reader:
        """Return the reader of this name; a reader without a position can read nothing."""
        from truespan.engine.reader import Reader

        return Reader(self.access, check_reader_name(name))

    def readers(self) -> list[str]:
        """Return the names of the readers who have a position in a book, in order.

        Raises:
            NotAllowed: the caller may read only as a reader.
        """
        scope = self.access.readable_scope()
        return self._components.store.readers(scope) if scope else []

    def observed_by(self, observer: Observer) -> World:
        """Return this world with a further observer of its requests.

        No result depends on it: what an observer raises is dropped.
        """
        both = combine_observers(self._components.observer, observer)
        components = replace(self._components, observer=both)
        return World(replace(self.access, components=components))

    def status(self) -> WorldStatus:
        """Return the counts of documents, chunks and repairs.

        The points in the index are counted too; `missing` is None if the index cannot do that.
        """
        scope = self.access.readable_scope()
        if scope is None:
            return WorldStatus(
                documents=0, chunks=0, embedded=0, pending=0, quarantined=0, repairs=0, vectors=0
            )
        numbers = self._components.store.status(scope)
        if not numbers.embedded:
            return numbers
        try:
            missing = max(numbers.embedded - self._components.index.count(scope), 0)
        except (ServiceError, OperatorError):
            missing = None
        return replace(numbers, missing=missing)

    def facets(
        self,
        keys: Sequence[str] | None = None,
        *,
        limit: int = DEFAULT_FACET_VALUES,
        **filters: Unpack[FilterArguments],
    ) -> Facets:
        """Count the documents by tag, language, version, kind and each key of their metadata.

        `keys` are labels and keys to count, by default all; `metadata.language` is a key with the
        name of a label. `limit` is how many values of each are listed. Filters by document choose
        what is counted.

        Raises:
            InvalidArgument: before anything is read.
            NotAllowed: the caller may only read as a reader.
        """
        from truespan.retrieval.facets import check_facets, count_facets

        chosen = NO_FILTERS.with_arguments(filters)
        check_facets(keys, limit, chosen)
        scope, store = self.access.readable_scope(), self._components.store
        if scope is None:
            return Facets(0, 0, ())

        def count() -> Facets:
            catalog = store.document_catalog(scope, self.access.record())
            return count_facets(catalog, chosen, keys, limit)

        return self.access.with_stable_snapshot(count)

    def require_writable(self) -> None:
        """Raise WorldNotFound if the caller may not write; for checks before an upload."""
        self.access.require_writable()

    # Querying

    def search(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        floor: float = DEFAULT_FLOOR,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        highlight: bool = False,
        **arguments: Unpack[QueryArguments],
    ) -> SearchResult:
        """Find the chunks closest to a query, each verified against the store as it is read.

        `mode` is one of `Mode`, by default the world's. With `rerank`, the configured reranker
        orders the first candidates; if it fails, a warning says so. With `highlight`, each passage
        says which of its sentences and words match. Further arguments are those of
        `PassageArguments`, how much of what is found is returned, and the filters of
        `FilterArguments`.

        Raises:
            InvalidArgument: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
            ProfileMismatch: the configured embedder is not the world's.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: the provider failed.
            IndexUnavailable, IndexRefused, IndexSchemaMismatch: the index failed.
        """
        options, filters = split_arguments(arguments)
        if highlight is not False:
            options = replace(options, highlight=highlight)
        chosen = NO_FILTERS.with_arguments(filters)
        request = SearchRequest(
            query=query,
            top_k=top_k,
            floor=floor,
            mode=check_mode(mode),
            rerank=rerank,
            passages=options,
            filters=chosen,
        )
        with self._components.observer.request(Request.SEARCH) as trace:
            return search(self.access.pipeline(trace), request)

    def retrieve(
        self,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        near_misses: bool = False,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        highlight: bool = False,
        **arguments: Unpack[QueryArguments],
    ) -> ContextBundle:
        """Return context for a query, a selection or both, within the token budget.

        `mode`, `rerank` and `highlight` are as in `search`. Further arguments are those of
        `PassageArguments`, such as `neighbours` and `max_tokens`, and the filters of
        `FilterArguments`; None stands for any. In a world with the contract's defaults, language
        and version default to "en" and "1.0", and the bundle says what that left out. If the
        provider, the index or the store fails, the bundle has the status `error`.

        Raises:
            InvalidArgument: before anything is read.
            BlankQuery, QueryTooLong: before the provider is asked.
        """
        request = _retrieval_request(query, selected_text, top_k, mode, rerank, arguments)
        request = replace(request, passages=replace(request.passages, highlight=highlight))
        from truespan.retrieval.retrieve import Retrieval

        with self._components.observer.request(Request.RETRIEVE) as trace:
            pipeline = self.access.pipeline(trace)
            return Retrieval(pipeline, request, near_misses=near_misses).bundle()

    def why_not(
        self,
        chunk_id: str,
        query: str | None = None,
        *,
        selected_text: str | None = None,
        top_k: int = RETRIEVAL_TOP_K,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **arguments: Unpack[QueryArguments],
    ) -> Reason:
        """Return why a chunk is not among what `retrieve` returns for the same arguments."""
        request = _retrieval_request(query, selected_text, top_k, mode, rerank, arguments)
        from truespan.retrieval.retrieve import Retrieval

        with self._components.observer.request(Request.WHY_NOT) as trace:
            return Retrieval(self.access.pipeline(trace), request).why_not(ChunkId(chunk_id))

    def answer(
        self,
        query: str,
        *,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **arguments: Unpack[QueryArguments],
    ) -> Answer:
        """Answer a question from the documents that the filters leave, or say that they do not.

        Raises:
            InvalidArgument, BlankQuery, QueryTooLong: before any provider is asked.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: a provider failed. That is
                never reported as a lack of answers.
        """
        from truespan.engine.answering import final_answer

        return final_answer(self.answer_stream(query, mode=mode, rerank=rerank, **arguments))

    def answer_stream(
        self,
        query: str,
        *,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **arguments: Unpack[QueryArguments],
    ) -> Iterator[AnswerEvent]:
        """Answer piece by piece: `Started` once the mode is decided, `Piece`s, then `Finished`.

        Closing the iterator ends the request to the model, and nothing is logged.
        """
        from truespan.engine.answering import Answerer, plain_question

        find = self._prepare(query, mode=mode, rerank=rerank, **arguments)
        question, answerer = plain_question(query), Answerer(self._components, self.authority)
        rules = answerer.rules_for(query)
        return answerer.events(
            lambda trace: (question, find(trace, query, rules, None)), reading=False
        )

    def conversation(self, id: str | None = None) -> Conversation:
        """Return a conversation about the whole world, or begin one.

        Its questions may follow up on earlier ones. It is stored with its first turn. What earlier
        turns said is never evidence: only passages found for a question can be cited.

        Raises:
            ConversationNotFound: there is no such conversation, or not for this caller.
            ConversationsOff: the operator does not keep conversations.
            NotAllowed: the caller may read only as a reader.
        """
        from truespan.engine.conversations import Conversation

        return Conversation(self.access, self._prepare, id)

    def conversations(
        self, *, limit: int = CONVERSATION_LIMIT, offset: int = 0
    ) -> list[ConversationInfo]:
        """Return the caller's conversations about the whole world, the latest first.

        Raises:
            ConversationsOff, NotAllowed: as `conversation`.
            InvalidArgument: `limit` or `offset` is out of range.
        """
        from truespan.engine.conversations import list_conversations

        return list_conversations(self.access, None, None, limit=limit, offset=offset)

    def delete_conversations(self, *, erase: bool = True) -> Receipt:
        """Delete every conversation of the world that is this caller's, those of readers too.

        See `Documents.delete` for `erase`. It works also while conversations are turned off.
        """
        from truespan.engine.conversations import delete_conversations

        return delete_conversations(self.access, erase=erase)

    def usage(self, *, limit: int = USAGE_LIMIT) -> list[UsageRecord]:
        """Return the latest answered requests of the world, the newest first.

        Raises:
            NotAllowed: the caller may read only as a reader.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InvalidArgument("The limit must be an integer of at least 0.")
        world = self._require_usage_log()
        return self._components.store.usage(self.authority, world.id, limit=limit)

    def explain(self, record: str) -> Replay:
        """Repeat the decision of an answered request from its record in the usage log.

        Raises:
            RecordNotFound: the log does not have it, or no longer.
        """
        from truespan.answers.decide import replay_record

        store, world = self._components.store, self._require_usage_log()
        return replay_record(store.usage_record(self.authority, world.id, record))

    def evaluate(
        self,
        golden: Golden,
        *,
        generation: int | None = None,
        domain: str | None = None,
        name: str | None = None,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        reader: str | None = None,
    ) -> Evaluation:
        """Ask golden queries and grade the results; see `WorldEvaluation.run`."""
        return self.evaluation.run(
            golden,
            generation=generation,
            domain=domain,
            name=name,
            mode=mode,
            rerank=rerank,
            reader=reader,
        )

    # Ingestion

    def ingest(
        self,
        paths: str | PurePath | Sequence[str | PurePath] = (),
        *,
        manifest: str | PurePath | None = None,
        sitemap: str | None = None,
        domain_key: str | None = None,
        update_alias: bool = False,
        golden: str | None = None,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
        **options: Unpack[IngestArguments],
    ) -> IngestReport:
        """Ingest files, folders and web pages, or those of a manifest or a sitemap.

        The options are those of `IngestArguments`, such as `kind`, `tags` and `prune`. Unchanged
        documents cost nothing. With `prune`, documents below the given folders whose files are
        gone are deleted; `on_prune` is called with them before. `report.job` is the id of the run.

        With `update_alias`, a new generation is then built of all documents, and the domain, or
        the world's default, is moved to it: only if no document failed and the `golden` queries,
        if given, find as much in it as they did before the ingestion. Documents belong to the world
        and are found as soon as they are ingested, also if the alias is not moved.

        Raises:
            SourceMissing: a path does not exist; then nothing was ingested.
            DomainNotFound: the domain does not exist, and `update_alias` is not given.
            PromotionRefused: the documents are ingested and found, and the alias was not moved; the
                new generation was removed. `report` of the error is that of the ingestion.
            ManifestInvalid: with every invalid line; then nothing was ingested.
            ProfileMismatch: the configured embedder is not the one the world was built with.
            Interrupted: stopped by Ctrl-C; the same call continues.
        """
        checked = IngestOptions.from_arguments(**options)
        require_domain_key(domain_key)
        target = self._access_for(domain_key, update_alias=update_alias)
        if golden is not None and not update_alias:
            raise InvalidArgument("Golden queries need update_alias.")
        own = self.access.target
        domain = domain_key or (own if isinstance(own, str) else None)
        queries = before = None
        if golden is not None:
            # Refuses an invalid file before anything is ingested or built.
            queries = self.evaluation.queries(golden)
            before = self.generations.measure(queries, domain)
        jobs = self._ingest_jobs(target.writable_scope())
        request = jobs.request(paths, manifest, checked, sitemap)
        report = jobs.run(request, on_progress=on_progress, on_prune=on_prune)
        # Finish erasures that a deletion could not do at once.
        self._components.remover().finish_erasures(urgent=True)
        if update_alias and report.failures:
            report.warnings.append("The alias was not moved, because documents failed.")
        elif update_alias:
            try:
                promotion = self.generations.rotate(
                    domain=domain, golden=queries, before=before, on_progress=on_progress
                )
            except PromotionRefused as refusal:
                alias = f"The domain {domain!r}" if domain else "The world's default"
                raise PromotionRefused(
                    f"{refusal.message} {alias} was not moved, and the new generation was removed. "
                    "The documents of this run are ingested: the generations in use have them, and "
                    "searches find them.",
                    advice=f"{refusal.advice} 'truespan delete' takes documents out again.".strip(),
                    report=report,
                ) from None
            report.generation = promotion.generation
        return report

    def watch(
        self,
        folders: str | PurePath | Sequence[str | PurePath],
        *,
        settle_seconds: float = 1.0,
        on_error: OnError | None = None,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
        **options: Unpack[IngestArguments],
    ) -> Watch:
        """Ingest folders with `prune`, then keep their documents in step; iterate over the result.

        Each step of the iteration gives the report of a job: first of everything that is not
        ingested yet, then of what changed, moved or vanished since. `Watch.stop` ends it. A change
        counts once nothing has happened to its file for `settle_seconds`. The options are those of
        `ingest`. Errors do not end the iteration: `on_error` is called with each, and with the
        seconds until the next attempt.

        Raises:
            SourceMissing, SourceOutside: a folder does not exist, or leads elsewhere.
            InvalidArgument: a path is not a folder.
        """
        from truespan.engine.watching import Watch
        from truespan.ingest.requests import find_sources

        components, access = self._components, self.access
        jobs = self._ingest_jobs(access.writable_scope())
        checked = replace(IngestOptions.from_arguments(**options), prune=True)
        request = jobs.request(folders, None, checked)
        roots = find_sources(jobs.deps, jobs.scope, request, open_files=False).roots
        if len(roots) < len(request.paths) or any(root.pattern for root in roots):
            raise InvalidArgument("Only folders can be watched.", advice="Name the file's folder.")
        if components.watch_folders is None:
            raise NotAllowed("watch folders")
        return Watch(
            lambda: self._ingest_jobs(access.writable_scope()),
            request,
            components.watch_folders([root.folder for root in roots]),
            components.clock,
            finish=lambda: components.remover().finish_erasures(urgent=True),
            settle_seconds=settle_seconds,
            on_error=on_error,
            on_progress=on_progress,
            on_prune=on_prune,
        )

    def ingest_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[DocumentArguments]
    ) -> IngestReport:
        """Ingest uploaded files in this process, as `submit_uploads` does in the background.

        Raises:
            InvalidArgument, SourceTooLarge, StorageFull, ProfileMismatch: as `submit_uploads`.
        """
        from truespan.ingest.requests import IngestRequest

        components = self._components
        declared = DocumentOptions.from_arguments(**options)
        checked = check_uploads(uploads)
        jobs = self._ingest_jobs(self.access.writable_scope())
        components.preparation.check(declared)
        if components.uploads is None:
            raise NotAllowed("upload")
        with components.uploads.receive(jobs.scope.world, checked) as batch:
            return jobs.run(IngestRequest(uploads=batch, options=IngestOptions(declared)))

    def plan_ingest(
        self,
        paths: str | PurePath | Sequence[str | PurePath] = (),
        *,
        manifest: str | PurePath | None = None,
        sitemap: str | None = None,
        **options: Unpack[IngestArguments],
    ) -> DryRun:
        """Return what `ingest` would do and cost; at most the provider is asked for its model."""
        checked = IngestOptions.from_arguments(**options)
        jobs = self._ingest_jobs(self.access.planned_scope())
        return jobs.plan(jobs.request(paths, manifest, checked, sitemap))

    def submit_ingest(
        self,
        paths: str | PurePath | Sequence[str | PurePath] = (),
        *,
        manifest: str | PurePath | None = None,
        sitemap: str | None = None,
        **options: Unpack[IngestArguments],
    ) -> Job:
        """Ingest files and folders in the background, as `ingest` does; return the queued job.

        Raises:
            SourceMissing, InvalidArgument, ProfileMismatch: as `ingest`, before a job is created.
            Overloaded: too many jobs are queued.
        """
        checked = IngestOptions.from_arguments(**options)
        jobs = self._ingest_jobs(self.access.writable_scope())
        return self._submit(jobs.queue(jobs.request(paths, manifest, checked, sitemap)))

    def submit_pages(
        self,
        urls: Sequence[str] = (),
        *,
        sitemap: str | None = None,
        prune: bool = False,
        **options: Unpack[DocumentArguments],
    ) -> Job:
        """Ingest web pages in the background, or those of a sitemap; return the queued job.

        Unlike `submit_ingest` it reads no file of this machine, whichever addresses are given.

        Raises:
            InvalidArgument: no host is allowed, that of an address is not, or it is no address.
            ProfileMismatch, Overloaded: as `submit_ingest`.
        """
        if not all(isinstance(url, str) and is_page(url) for url in urls):
            raise InvalidArgument("The address of a page must begin with http:// or https://.")
        return self.submit_ingest(urls, sitemap=sitemap, prune=prune, **options)

    def submit_reingest(self, reference: str | int) -> Job:
        """Read the file or page of a document again in the background; return the queued job.

        Labels stay as they are. The file must still be where it was ingested from, and no link.

        Raises:
            NotAllowed: the caller may not administer the world: a file of this machine is read.
            InvalidArgument: the document was uploaded, or named by a manifest.
            SourceMissing, SourceOutside: the file is gone, or has become a link to elsewhere.
            DocumentNotFound, DocumentAmbiguous, Overloaded: as elsewhere.
        """
        from truespan.ingest.requests import IngestRequest

        document, access = self.documents.get(reference), self.access
        access.require_writable()
        page = is_page(document.path)
        if not page and not access.authority.may(Verb.ADMINISTER, access.record().id):
            raise NotAllowed("read files of the server")
        if document.path.startswith(UPLOAD):
            raise InvalidArgument(
                f"{document.name} was uploaded, and uploaded files are not kept.",
                advice="Upload it again: the same name makes a new revision.",
            )
        if document.origin and not is_page(document.origin):
            raise InvalidArgument(
                f"{document.name} is named by a manifest, which describes it.",
                advice="Ingest the manifest again.",
            )
        jobs = self._ingest_jobs(access.writable_scope())
        if page:
            return self._submit(jobs.queue(IngestRequest((document.path,))))
        folder = access.components.sources.folder_of(document.path)
        options = IngestOptions(DocumentOptions(), within=(folder,))
        return self._submit(jobs.queue(IngestRequest((document.path,), None, options=options)))

    def submit_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[DocumentArguments]
    ) -> Job:
        """Store uploaded files and ingest them in the background; return the queued job.

        A file with the name of an earlier upload is a new revision of that document. The files
        are deleted once the job is done or cancelled; a failed job keeps them to be resumed.

        Raises:
            InvalidArgument: a name is invalid, or a declared value is.
            SourceTooLarge: a file is larger than a document may be.
            StorageFull: the disk is full.
            ProfileMismatch: the configured embedder is not the one the world was built with.
            Overloaded: too many jobs are queued.
        """
        from truespan.ingest.requests import IngestRequest

        components = self._components
        # Refuse before files are stored.
        components.queue.require_room()
        declared = DocumentOptions.from_arguments(**options)
        checked = check_uploads(uploads)
        jobs = self._ingest_jobs(self.access.writable_scope())
        components.preparation.check(declared)
        if components.uploads is None:
            raise NotAllowed("upload")
        with components.uploads.receive(jobs.scope.world, checked) as batch:
            job = jobs.queue(IngestRequest(uploads=batch, options=IngestOptions(declared)))
        return self._submit(job)

    def submit_sample(self) -> Job:
        """Ingest the sample book of the package in the background; return the queued job.

        Raises:
            StorageFull, ProfileMismatch, Overloaded: as `submit_uploads`.
        """
        from truespan.ingest.sample import sample_book

        return self.submit_uploads([sample_book()], kind="book")

    def resume(
        self,
        job: str,
        *,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
    ) -> IngestReport:
        """Continue an ingestion that failed, was cancelled or was interrupted.

        Raises:
            JobNotFound, JobNotResumable: there is no such job, or it cannot be resumed.
        """
        from truespan.engine.jobs import MAINTENANCE, REINDEX

        kind = self.jobs.get(job).kind
        if kind == REINDEX:
            advice = "Resume it with 'generations.resume'."
            raise InvalidArgument("This job builds a generation.", advice=advice)
        if kind in MAINTENANCE:
            advice = "Resume it with 'submit_resume'."
            raise InvalidArgument(f"This is a {kind} job.", advice=advice)
        jobs = self._ingest_jobs(self.access.writable_scope())
        return jobs.resume(job, on_progress=on_progress, on_prune=on_prune)

    def submit_resume(self, job: str) -> Job:
        """Continue a job of any kind in the background.

        Raises:
            JobNotFound, JobNotResumable: there is no such job, or it cannot be resumed.
        """
        from truespan.engine.jobs import MAINTENANCE, REINDEX

        access, components, kind = self.access, self._components, self.jobs.get(job).kind
        if kind == REINDEX:
            # Raises NotAllowed unless the caller may change generations.
            access.generations_scope()
        scope = access.maintenance_scope() if kind in MAINTENANCE else access.writable_scope()
        earlier = self.jobs.require_resumable(job)
        components.queue.require_room()
        owner = components.job_owner
        if not components.store.requeue_job(scope, job, owner, seen=earlier.state, crashes=0):
            raise JobNotResumable(job, self.jobs.get(job).state)
        return self._submit(self.jobs.get(job))

    # Maintenance

    def repair(self, on_progress: OnProgress | None = None) -> RepairReport:
        """Apply queued repairs and embed what they left pending."""
        from truespan.engine.doctor import repair_world

        with self._components.observer.request(Request.REPAIR) as trace:
            return repair_world(self.access, on_progress, trace)

    def submit_repair(self) -> Job:
        """Do in the background what `repair` does; return the job, which may be queued already.

        Raises:
            WorldNotFound: the caller may not write to the world.
            InvalidArgument: the world is empty.
            Overloaded: too many jobs are queued.
        """
        from truespan.engine.jobs import REPAIR, submit_maintenance

        return submit_maintenance(self._components, self.access.maintenance_scope(), REPAIR)

    def submit_doctor(
        self, *, apply: bool = False, embed_sample: int = 0, self_test: bool = False
    ) -> Job:
        """Examine the world in the background, as `Library.doctor` does.

        The findings, and with `apply` the repairs, are in the lines of the job. If the same
        request is queued already, that job is returned.

        Raises:
            WorldNotFound, InvalidArgument, Overloaded: as `submit_repair`.
        """
        from truespan.engine.jobs import DOCTOR, doctor_request, submit_maintenance

        check_whole("embed_sample", embed_sample, 0, MAX_SAMPLE)
        request = doctor_request(apply=apply, embed_sample=embed_sample, self_test=self_test)
        scope = self.access.maintenance_scope()
        return submit_maintenance(self._components, scope, DOCTOR, request)

    @property
    def _components(self) -> Components:
        return self.access.components

    def _prepare(
        self,
        query: str,
        *,
        mode: Mode | str | None = None,
        rerank: bool | None = None,
        **arguments: Unpack[QueryArguments],
    ) -> Find:
        """Check the arguments of a question; return what finds candidates for it."""
        if not isinstance(query, str):
            raise InvalidArgument("The query must be a string.")
        options, filters = split_arguments(arguments)
        request = RetrievalRequest(
            query=query,
            filters=NO_FILTERS.with_arguments(filters),
            mode=check_mode(mode),
            rerank=rerank,
            passages=options,
            by_default=frozenset(),
        )

        def find(trace: RequestTrace, query: str, rules: Rules, _book: str | None) -> Retrieved:
            pipeline = self.access.pipeline(trace)
            return find_candidates(pipeline, replace(request, query=query), rules)

        return find

    def _ingest_jobs(self, scope: Scope) -> IngestJobs:
        from truespan.engine.ingestion import IngestJobs

        return IngestJobs(self._components, scope)

    def _submit(self, job: Job) -> Job:
        from truespan.engine.jobs import submit_job

        submit_job(self._components, self.access.record().id, job)
        return job

    def _access_for(self, domain: str | None, *, update_alias: bool) -> WorldAccess:
        """Return the access to a domain of this world; a new domain starts from this target."""
        if domain is None:
            return self.access
        known = self._components.store.find_domain(self.authority, domain)
        if known is not None and known.id != self.id:
            raise InvalidArgument(f"The domain {domain!r} names no generation of this world.")
        if known is None and update_alias:
            return self.access
        access = replace(self.access, target=domain)
        access.record()
        return access

    def _require_usage_log(self) -> WorldRecord:
        world = require_world(self._components.store, self.authority, self.id)
        if not self.authority.may(Verb.READ, world.id):
            raise NotAllowed("read the usage log")
        return world


def _retrieval_request(
    query: str | None,
    selected_text: str | None,
    top_k: int,
    mode: Mode | str | None,
    rerank: bool | None,
    arguments: QueryArguments,
) -> RetrievalRequest:
    options, filters = split_arguments(arguments)
    return RetrievalRequest(
        query=query,
        selected_text=selected_text,
        top_k=top_k,
        filters=NO_FILTERS.with_arguments(filters),
        mode=check_mode(mode),
        rerank=rerank,
        passages=options,
        by_default=DEFAULT_FILTERS.difference(filters),
    )
