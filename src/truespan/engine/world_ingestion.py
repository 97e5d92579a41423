"""Methods of a world that add documents: files, pages, uploads and texts, at once or as jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from truespan.engine.access import WorldAccess
from truespan.engine.arguments import list_arguments
from truespan.errors import InvalidArgument
from truespan.tables import member_of
from truespan.types.job import IngestJob, Sources
from truespan.types.request import require_domain_key
from truespan.types.source import IngestArguments, TextArguments, Upload

if TYPE_CHECKING:
    from truespan.engine.ingestion import OnProgress, OnPrune
    from truespan.extensions.quality.generations import Generations
    from truespan.ingest.report import IngestReport

TEXT_ENDING = ".txt"
_TEXT_ENDINGS = (TEXT_ENDING, ".md")


class WorldIngestion:
    """The part of `World` that adds documents."""

    access: WorldAccess

    @property
    def generations(self) -> Generations:
        """The generations of the world: build, check and promote them, or go back."""
        return member_of(self, "generations", "quality")()

    @list_arguments
    def ingest(
        self,
        paths: Sources = (),
        *,
        manifest: str | PurePath | None = None,
        sitemap: str | None = None,
        domain_key: str | None = None,
        update_alias: bool = False,
        golden: str | None = None,
        jobs: int | None = None,
        on_progress: OnProgress | None = None,
        on_prune: OnPrune | None = None,
        **options: Unpack[IngestArguments],
    ) -> IngestReport:
        """Ingest files, folders, web pages and uploads, or the entries of a manifest or a sitemap.

        Unchanged documents cost nothing. Documents belong to the world and are found as soon as
        they are ingested, also if the alias is not moved. An upload with the name of an earlier one
        is a new revision of that document; its file is deleted once the job is done or cancelled.

        Args:
            paths: Files, folders and URLs of web pages, or uploads.
            domain_key: Domain whose alias `update_alias` moves; None for the default of the world.
            update_alias: Whether to build a new generation of all documents afterwards and move
                the alias to it, if no document failed.
            jobs: Number of processes that prepare documents; None for the setting `ingest_jobs`.
                The result does not depend on it.
            on_progress: Called with the progress after each step.
            on_prune: Called with the documents that `prune` is about to delete.

        Returns:
            A report, whose `job` is the id of the run.

        Raises:
            SourceRefused: A path does not exist. Nothing was ingested.
            SourceRefused: An upload is larger than a document may be.
            LinesInvalid: The manifest has invalid lines; the error lists all of them.
            NotFound: The domain does not exist, and `update_alias` is not given.
            PromotionRefused: The documents are ingested, and the alias was not moved; the new
                generation was removed. `report` of the error is that of the ingestion.
            ProfileMismatch: The configured embedder is not the one the world was built with.
            Interrupted: Stopped by Ctrl-C; the same call continues.
        """
        from truespan.engine.ingestion import Ingestion

        sources = IngestJob(paths, manifest=manifest, sitemap=sitemap, **options)
        others = (domain_key, update_alias, golden, jobs, on_progress, on_prune)
        if sources.uploads and any(others):
            raise InvalidArgument("Uploads can only be combined with labels of documents.")
        require_domain_key(domain_key)
        target = self._access_for(domain_key, update_alias=update_alias)
        if golden is not None and not update_alias:
            raise InvalidArgument("Golden queries need update_alias.")

        def run() -> IngestReport:
            whole = Ingestion(target.components, target.writable_scope())
            with whole.with_jobs(jobs) as ingestion, ingestion.prepare(sources) as request:
                report = ingestion.run(request, on_progress=on_progress, on_prune=on_prune)
            # Finish erasures that a deletion could not do at once.
            self.access.components.remover().finish_erasures(urgent=True)
            return report

        if not update_alias:
            return run()
        return self.generations.rotate_after(
            run, domain=domain_key, golden=golden, on_progress=on_progress
        )

    @list_arguments
    def add_texts(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        **options: Unpack[TextArguments],
    ) -> IngestReport:
        """Add texts that are in memory; each becomes a document.

        Args:
            texts: Plain texts, or Markdown for ids that end with `.md`.
            ids: A name for each text; the ending `.txt` is added to a name without one. A text
                with the id of an earlier one is a new revision of that document. Without ids, a
                text is named by its hash, so that adding it twice changes nothing.
            metadata: Metadata of each text, to filter by and to show.

        Raises:
            InvalidArgument: A text is no string, an id is no file name or occurs twice, or there
                are not as many ids or metadata as texts.
        """
        return self.ingest(as_uploads(texts, ids, metadata), **options)

    @list_arguments
    def add_text(
        self,
        text: str,
        *,
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        title: str | None = None,
        source_url: str | None = None,
        **options: Unpack[TextArguments],
    ) -> IngestReport:
        """Add one text that is in memory; see `add_texts`.

        Args:
            text: A plain text, or Markdown for an id that ends with `.md`.
            id: Name of the text; None for its hash.
            title: Title; default: that of the text, or its name.
        """
        ids = None if id is None else [id]
        labels = None if metadata is None else [metadata]
        uploads = as_uploads([text], ids, labels)
        return self.ingest(uploads, title=title, source_url=source_url, **options)

    def _access_for(self, domain: str | None, *, update_alias: bool) -> WorldAccess:
        """Return the access to a domain of this world; a new domain starts from this target."""
        if domain is None:
            return self.access
        known = self.access.components.store.worlds.find_domain(self.access.authority, domain)
        if known is not None and known.id != self.access.world:
            raise InvalidArgument(f"The domain {domain!r} names no generation of this world.")
        if known is None and update_alias:
            return self.access
        access = replace(self.access, target=domain)
        access.record()
        return access


def as_uploads(
    texts: Sequence[str], ids: Sequence[str] | None, metadata: Sequence[Mapping[str, Any]] | None
) -> list[Upload]:
    """Return texts as files, each with its metadata; raises InvalidArgument."""
    is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
    if not is_list or not all(isinstance(text, str) for text in texts):
        raise InvalidArgument("texts must be a list of strings.")
    if not texts:
        raise InvalidArgument("There is no text to add.")
    for name, values in (("ids", ids), ("metadata", metadata)):
        if values is not None and len(values) != len(texts):
            raise InvalidArgument(
                f"There are {len(texts)} texts and {len(values)} {name}; give one for each text."
            )
    names = [sha256(text.encode()).hexdigest()[:16] for text in texts] if ids is None else ids
    return [
        Upload(
            name if str(name).lower().endswith(_TEXT_ENDINGS) else f"{name}{TEXT_ENDING}",
            text.encode(),
            None if metadata is None else metadata[place],
        )
        for place, (name, text) in enumerate(zip(names, texts, strict=True))
    ]
