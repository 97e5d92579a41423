"""Ingestion of documents that a world has: read one again, plan a run, watch folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, Unpack, overload

from msgspec.structs import replace

from truespan.engine.access import WorldPart
from truespan.engine.arguments import list_arguments
from truespan.engine.ingestion import IngestJobs
from truespan.engine.jobs import submit_job
from truespan.errors import InvalidArgument, NotAllowed
from truespan.types.job import Job
from truespan.types.scope import Verb
from truespan.types.source import (
    UPLOAD,
    DocumentOptions,
    IngestArguments,
    IngestOptions,
    is_page,
)

if TYPE_CHECKING:
    from truespan.engine.ingestion import OnProgress, OnPrune
    from truespan.extensions.crawl.watching import OnError, Watch
    from truespan.ingest.plan import DryRun
    from truespan.ingest.report import IngestReport

    Paths = str | PurePath | Sequence[str | PurePath]


class DocumentIngestion(WorldPart, frozen=True):
    """The part of `Documents` that reads sources."""

    @overload
    def reingest(self, reference: str | int, *, background: Literal[True]) -> Job: ...

    @overload
    def reingest(
        self, reference: str | int, *, background: Literal[False] = False
    ) -> IngestReport: ...

    def reingest(self, reference: str | int, *, background: bool = False) -> IngestReport | Job:
        """Read the file or page of a document again; its labels stay.

        The file must still be where it was ingested from, and must not be a link.

        Args:
            reference: The document, by number, id, URL or path.
            background: Whether to queue the ingestion and return its job at once.

        Raises:
            NotAllowed: The caller may not administer the world: a file of this machine is read.
            InvalidArgument: The document was uploaded, or named by a manifest.
            SourceMissing, SourceOutside: The file is gone, or has become a link to elsewhere.
            DocumentNotFound, DocumentAmbiguous: No document has this name, or several have it.
            Overloaded: Too many jobs are queued.
        """
        from truespan.engine.documents import Documents
        from truespan.ingest.requests import IngestRequest

        access = self._access
        document = Documents(access).get(reference)
        access.require_writable()
        page = is_page(document.path)
        if not page and not access.authority.may(Verb.ADMINISTER, access.record().id):
            raise NotAllowed("read files of the server")
        if document.path.startswith(UPLOAD):
            raise InvalidArgument(
                f"{document.name} was uploaded, and uploads are not kept as files.",
                advice="Upload it again: the same name makes a new revision.",
            )
        if document.origin and not is_page(document.origin):
            raise InvalidArgument(
                f"{document.name} is named by a manifest, which describes it.",
                advice="Ingest the manifest again.",
            )
        jobs = IngestJobs(access.components, access.writable_scope())
        options = IngestOptions(DocumentOptions())
        if not page:
            folder = access.components.sources.folder_of(document.path)
            options = replace(options, within=(folder,))
        request = IngestRequest((document.path,), options=options)
        if not background:
            return jobs.run(request)
        job = jobs.queue(request)
        submit_job(access.components, access.record().id, job)
        return job

    @list_arguments
    def plan(
        self,
        paths: Paths = (),
        *,
        manifest: str | PurePath | None = None,
        sitemap: str | None = None,
        **options: Unpack[IngestArguments],
    ) -> DryRun:
        """Return what `World.ingest` would do and cost.

        Embeds nothing, and asks a provider at most for its model.

        Args:
            paths: Files, folders and URLs of web pages.

        Returns:
            The files that would be ingested, with the number of chunks and tokens.

        Raises:
            SourceMissing, ManifestInvalid, ProfileMismatch: As `World.ingest`.
        """
        checked = IngestOptions.from_arguments(**options)
        jobs = IngestJobs(self._access.components, self._access.planned_scope())
        return jobs.plan(jobs.request(paths, manifest, checked, sitemap))

    @list_arguments
    def watch(
        self,
        folders: Paths,
        *,
        settle_seconds: float = 1.0,
        on_error: OnError | None = None,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
        **options: Unpack[IngestArguments],
    ) -> Watch:
        """Ingest folders with `prune`, then keep their documents in step.

        Iterate over the result: each step gives the report of a job, first of everything that is
        not ingested yet, then of what changed, moved or vanished since. `Watch.stop` ends it.

        Args:
            folders: Folders to watch.
            settle_seconds: Time without changes to a file after which it is ingested.
            on_error: Called with each error and the seconds until the next attempt; errors do not
                end the iteration.
            on_progress: Called with the progress after each step.
            on_prune: Called with the documents that are about to be deleted.

        Raises:
            SourceMissing, SourceOutside: A folder does not exist, or leads elsewhere.
            InvalidArgument: A path is not a folder.
        """
        from truespan.extensions.crawl.watching import Watch
        from truespan.ingest.requests import find_sources

        components, access = self._access.components, self._access
        jobs = IngestJobs(components, access.writable_scope())
        checked = replace(IngestOptions.from_arguments(**options), prune=True)
        request = jobs.request(folders, None, checked)
        roots = find_sources(jobs.deps, jobs.scope, request, open_files=False).roots
        if len(roots) < len(request.paths) or any(root.pattern for root in roots):
            raise InvalidArgument("Only folders can be watched.", advice="Name the file's folder.")
        if components.watch_folders is None:
            raise NotAllowed("watch folders")
        return Watch(
            lambda: IngestJobs(components, access.writable_scope()),
            request,
            components.watch_folders([root.folder for root in roots]),
            components.clock,
            finish=lambda: components.remover().finish_erasures(urgent=True),
            settle_seconds=settle_seconds,
            on_error=on_error,
            on_progress=on_progress,
            on_prune=on_prune,
        )
