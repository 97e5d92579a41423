"""The documents of a world: list, read, inspect and delete them."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from msgspec.structs import replace

from truespan import errors
from truespan.core.records import copy_fields
from truespan.engine.access import WorldPart
from truespan.engine.arguments import list_arguments
from truespan.engine.jobs import remove_uploads
from truespan.ingest.metadata import derive_metadata
from truespan.maintenance.delete import Receipt
from truespan.retrieval.reading.pages import active_pages
from truespan.tables import member_of
from truespan.types.audience import EVERYONE, Audience, DocumentAccess, check_labels
from truespan.types.catalog import document_references, find_by_title
from truespan.types.chunk import ChunkRecord
from truespan.types.document import (
    DEFAULT_FACET_VALUES,
    PAGE_DOCUMENTS,
    AuditEntry,
    Derived,
    Document,
    DocumentPage,
    DocumentSort,
    DocumentStatus,
    Facets,
    OutlineEntry,
    RevisionRef,
)
from truespan.types.ids import ChunkId
from truespan.types.job import IngestJob, Job, Paths
from truespan.types.picture import PagePicture
from truespan.types.reading import (
    LAST_FIRST,
    MAX_PAGE_CHUNKS,
    PAGE_CHUNKS,
    PAGE_SENTENCES,
    ActiveRevision,
    ChunkPage,
    PageRequest,
    SentencePage,
    StoredImage,
    wanted_image,
)
from truespan.types.request import DEFAULT_VERSION, NO_FILTERS, FilterArguments, check_whole
from truespan.types.scope import Scope, Unlimited, Verb, admits
from truespan.types.source import (
    UPLOAD,
    IngestArguments,
    LabelArguments,
    is_page,
)

if TYPE_CHECKING:
    from truespan.engine.ingestion import OnProgress, OnPrune
    from truespan.extensions.crawl.freshness import DocumentFreshness
    from truespan.extensions.crawl.watching import OnError, Watch
    from truespan.ingest.plan import DryRun


T = TypeVar("T")

_NUMBER = re.compile("[1-9][0-9]{0,17}")
"""The only spelling of a document's number."""


class Documents(WorldPart, frozen=True):
    """The documents of one world.

    A document is named by number, doc id, declared URL or path; the end of the path is enough. To
    read it, its title, its file name without the ending, or the beginning of either is enough too,
    if no other document has it.
    """

    def list(self) -> list[Document]:
        """Return the documents of the world, by number."""
        scope = self._access.readable_scope()
        return (
            self._name(scope, self._access.components.store.documents.all(scope)) if scope else []
        )

    @list_arguments
    def find(
        self,
        search: str | None = None,
        *,
        status: DocumentStatus | str | None = None,
        sort: DocumentSort | str = DocumentSort.NUMBER,
        descending: bool = False,
        offset: int = 0,
        limit: int | None = PAGE_DOCUMENTS,
        **filters: Unpack[FilterArguments],
    ) -> DocumentPage:
        """Find documents by words in their names, tags, URL or metadata, and by labels.

        A document that is not complete yet matches no filter.

        Args:
            search: Words that must all occur; None for any document.
            status: Only documents with this status.
            sort: Order of the documents, such as 'title' or 'number'.
            descending: Whether to reverse the order.
            offset: Number of documents to skip.
            limit: Maximum number of documents, 1 to 1000; None for all.
        """
        from truespan.retrieval.listing import DocumentQuery

        query = DocumentQuery.from_arguments(
            search, status, sort, descending, offset, limit, filters
        )
        scope, store = self._access.readable_scope(), self._access.components.store
        if scope is None:
            return query.page(())

        def read() -> DocumentPage:
            documents = self._name(scope, store.documents.all(scope))
            if filters:
                catalog = store.catalogs.documents(scope, self._access.record())
                return query.page(documents, catalog)
            return query.page(documents)

        return self._access.with_stable_snapshot(read)

    @list_arguments
    def facets(
        self,
        keys: Sequence[str] | None = None,
        *,
        limit: int = DEFAULT_FACET_VALUES,
        **filters: Unpack[FilterArguments],
    ) -> Facets:
        """Count the documents by tag, language, version, kind and each key of their metadata.

        Args:
            keys: Labels and keys to count; None for all. `metadata.language` is a key of metadata
                with the name of a label.
            limit: Maximum number of values for each key.
        """
        from truespan.retrieval.listing import check_facets, count_facets

        chosen = NO_FILTERS.with_arguments(filters)
        check_facets(keys, limit, chosen)
        scope, store = self._access.readable_scope(), self._access.components.store
        if scope is None:
            return Facets(0, 0, ())

        def count() -> Facets:
            catalog = store.catalogs.documents(scope, self._access.record())
            return count_facets(catalog, chosen, keys, limit)

        return self._access.with_stable_snapshot(count)

    @property
    def default_audience(self) -> Audience | None:
        """Audience of new documents that declare none; None if each must declare one.

        For a caller with labels it is None too.
        """
        limited = not isinstance(self._access.authority.audience, Unlimited)
        return None if limited else self._access.record().audience

    def freshness(self, *, seconds: int = 10) -> list[DocumentFreshness]:
        """Compare the source of each document with the indexed revision, by number.

        Args:
            seconds: Maximum time, 1 to 600. Sources that were not checked by then are `unknown`.
        """
        return member_of(self, "freshness", "crawl")(seconds=seconds)

    def get(self, reference: str | int) -> Document:
        """Return one document.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.

        Raises:
            DocumentAmbiguous: Several documents have this name.
        """
        return self._find(reference)[1]

    def text(self, reference: str | int) -> str:
        """Return the canonical text of a document, checked against its hash.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
        """
        scope, document = self._find(reference)
        return self._access.components.store.documents.canonical_text(scope, document.number)

    def sentences(
        self, reference: str | int, *, offset: int = 0, limit: int = PAGE_SENTENCES
    ) -> SentencePage:
        """Return sentences of a document's active revision, each checked against its hash.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
            offset: Number of the first sentence.
            limit: Maximum number of sentences, 1 to 1000.
        """
        wanted, store = PageRequest(offset, limit), self._access.components.store

        def read() -> SentencePage:
            scope, revision = self._find_active(reference)
            return active_pages(store, scope, revision).page(wanted)

        return self._access.with_stable_snapshot(read)

    def chunks(
        self, reference: str | int, *, offset: int = 0, limit: int | None = PAGE_CHUNKS
    ) -> ChunkPage:
        """Return chunks of a document's active revision, in reading order.

        A chunk that does not match its checksum is listed without its text.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
            offset: Number of chunks to skip.
            limit: Maximum number of chunks, 1 to 500; None for all.
        """
        check_whole("offset", offset, 0, LAST_FIRST)
        if limit is not None:
            check_whole("limit", limit, 1, MAX_PAGE_CHUNKS)
        store = self._access.components.store

        def read() -> ChunkPage:
            scope, revision = self._find_active(reference)
            profile = scope.generation.chunking
            chunking = profile.name if profile else revision.chunking
            total, chunks = store.chunks.page(
                scope, revision.ref, first=offset, count=LAST_FIRST if limit is None else limit
            )
            if self._has_contract_fields():
                chunks = [
                    replace(
                        chunk,
                        content=chunk.text,
                        start_char=chunk.start,
                        end_char=chunk.end,
                        space_id=scope.world,
                    )
                    for chunk in chunks
                ]
            return copy_fields(
                ChunkPage,
                revision,
                revision.ref,
                source=revision.name,
                generation=scope.generation.number,
                chunking=str(chunking),
                offset=offset,
                total=total,
                chunks=tuple(chunks),
            )

        return self._access.with_stable_snapshot(read)

    def image(self, image_ref: str) -> StoredImage:
        """Return the image of a figure.

        Args:
            image_ref: The figure's `image_ref`.
        """
        wanted, store = wanted_image(image_ref), self._access.components.store

        def read() -> StoredImage | None:
            scope = self._access.readable_scope()
            revision = store.readers.in_force(scope, wanted.doc_id) if scope and wanted else None
            if scope is None or wanted is None or revision is None:
                return None
            pages = active_pages(store, scope, revision)
            return pages.image_of(self._access.components.assets, revision.images, wanted)

        found = self._access.with_stable_snapshot(read)
        if found is None:
            raise errors.NotFound("image")
        return found

    def picture(
        self, reference: str | int, page: int = 1, *, sentence: int | None = None
    ) -> PagePicture:
        """Return a page of the source as it looks, with the places of its sentences.

        Pages of PDF files are drawn. Images and web pages have one page; a web page is HTML
        without scripts. An upload is shown as long as there is room to keep it.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
            page: Number of the page, from 1.
            sentence: A sentence whose page is wanted instead, if it is known.

        Raises:
            NotFound: There is no such page, the source has changed or is gone, the sanitizer
                removed something from its text, or its format cannot be shown.
        """
        return member_of(self, "picture", "server")(reference, page, sentence=sentence)

    def outline(self, reference: str | int) -> builtins.list[OutlineEntry]:
        """Return where the chapters and sections of a document begin.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
        """
        scope, document = self._find(reference)
        return self._access.components.store.documents.outline(scope, document.number)

    def chunk(self, chunk_id: str) -> ChunkRecord:
        """Return the record of one chunk.

        Args:
            chunk_id: Id of the chunk.
        """
        scope, key = self._access.readable_scope(), ChunkId(chunk_id)
        found = self._access.components.store.chunks.read(scope, [key]) if scope else {}
        record = found.get(key)
        if scope is None or record is None or not admits(scope.documents, record.document.number):
            raise errors.NotFound("chunk", chunk_id)
        if scope.is_limited:
            # The count includes changes of documents that the caller does not see.
            record = replace(record, changes=0)
        return replace(record, space_id=scope.world) if self._has_contract_fields() else record

    def metadata(self, reference: str | int) -> dict[str, Any]:
        """Return a document's derived metadata: title, authors, dates, keywords, outline.

        Declared values take precedence over derived ones.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
        """
        scope, document = self._find(reference)
        found = self._access.components.store.revisions.derived(scope, document.number)
        return json.loads(found) if found else {}

    def audit(self, reference: str | int) -> builtins.list[AuditEntry]:
        """Return the counts of the sanitizer for a document; never the text it found.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
        """
        scope, document = self._find(reference)
        return self._access.components.store.revisions.audit(scope, document.number)

    @list_arguments
    def update(self, reference: str | int, **changes: Unpack[LabelArguments]) -> Document:
        """Change labels of a document without its file; return the document with them.

        Nothing is embedded, and filters see the change at once. None removes a label. `metadata` is
        merged into the stored metadata, and a key whose value is None is removed.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.

        Raises:
            InvalidArgument: A label is not valid. Nothing was changed.
            StoreDamaged: The labels do not match their checksum, so they cannot be changed.
        """
        scope, document = self._writable(reference)
        if document.damaged:
            raise errors.StoreDamaged(
                f"The labels of document {document.number} do not match their checksum.",
                advice="Run 'truespan doctor'; ingest its source again if they cannot be restored.",
            )
        declared = document.declared.relabel(**changes)
        store = self._access.components.store
        store.documents.relabel(
            scope,
            document.number,
            tags=declared.tags or (),
            audience=declared.audience or (),
            language=declared.language,
            version=declared.version or DEFAULT_VERSION,
            source_url=declared.source_url,
            metadata=declared.metadata,
            origin=document.origin,
            shown_path=document.shown_path,
        )
        if document.active is not None:
            # Derived metadata contains the labels.
            ref = RevisionRef(document.number, document.active)
            source = store.revisions.derivable(scope, ref)
            store.revisions.keep_derived(
                scope, [Derived(ref, derive_metadata(source))] if source else []
            )
        return self.get(document.number)

    def audit_access(self, labels: Sequence[str]) -> builtins.list[DocumentAccess]:
        """Return the documents that a caller with these labels sees, and why.

        Args:
            labels: Labels of the caller, such as 'group:legal'.
        """
        scope, store = self._access.whole_scope("audit access"), self._access.components.store
        if scope is None:
            return []
        own = {EVERYONE, *check_labels(labels)}
        return [
            copy_fields(DocumentAccess, document, path=document.shown_path, by=by)
            for document in store.documents.all(scope)
            if document.active is not None
            and (by := tuple(label for label in document.audience if label in own))
        ]

    def reingest(self, reference: str | int) -> Job:
        """Queue the file or page of a document to be read again; its labels stay.

        The file must still be where it was ingested from, and must not be a link.

        Args:
            reference: The document, by number, id, URL or path.

        Raises:
            NotAllowed: The caller may not administer the world: a file of this machine is read.
            InvalidArgument: The document was uploaded, or named by a manifest.
            SourceRefused: The file is gone, or has become a link to elsewhere.
        """
        from truespan.engine.world_jobs import WorldJobs

        access = self._access
        document = self.get(reference)
        access.require_writable()
        page = is_page(document.path)
        if not page and not access.authority.may(Verb.ADMINISTER, access.record().id):
            raise errors.NotAllowed("read files of the server")
        if document.path.startswith(UPLOAD):
            raise errors.InvalidArgument(
                f"{document.name} was uploaded, and uploads are not kept as files.",
                advice="Upload it again: the same name makes a new revision.",
            )
        if document.origin and not is_page(document.origin):
            raise errors.InvalidArgument(
                f"{document.name} is named by a manifest, which describes it.",
                advice="Ingest the manifest again.",
            )
        within = None if page else [access.components.sources.folder_of(document.path)]
        return WorldJobs(access).submit(IngestJob(document.path, within=within))

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
        """
        from truespan.engine.ingestion import Ingestion

        job = IngestJob(paths, manifest=manifest, sitemap=sitemap, **options)
        ingestion = Ingestion(self._access.components, self._access.planned_scope())
        return ingestion.plan(ingestion.request(job))

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
            SourceRefused: A folder does not exist, or leads elsewhere.
        """
        return member_of(self, "watch", "crawl")(
            folders,
            settle_seconds=settle_seconds,
            on_error=on_error,
            on_progress=on_progress,
            on_prune=on_prune,
            **options,
        )

    def delete(self, reference: str | int, *, erase: bool = True) -> Receipt:
        """Delete a document: hide it at once, then delete its points, then its rows.

        Args:
            reference: The document, by number, id, URL or path; the end of the path is enough.
            erase: Whether to rewrite the files that contained the document, so that nothing of it
                can be recovered from them. What could not be rewritten is queued for `repair`.
        """
        access, record = self._access, self._access.record()
        scope, document = self._writable(reference)
        # Uploads first: if this process stops in between, the document can be deleted again.
        uploads = remove_uploads(access.components, scope, document.path)
        remover = access.components.remover()
        return remover.document(scope, record, document, erase=erase, uploads=uploads)

    def _writable(self, reference: str | int) -> tuple[Scope, Document]:
        """Return a document and the scope to change it in; may raise NotFound."""
        # A document is changed or deleted by an exact name only.
        access, (_, document) = self._access, self._find(reference, by_title=False)
        record = access.record()
        if record.generation is None or not access.authority.may(Verb.WRITE, record.id):
            raise errors.NotFound("world", access.world)
        return Scope(access.authority, record.id, record.generation), document

    def _find(self, reference: str | int, *, by_title: bool = True) -> tuple[Scope, Document]:
        """Return the document that a reference names; see `References` and `find_by_title`."""
        if isinstance(reference, int):
            check_whole("The number of a document", reference, -LAST_FIRST, LAST_FIRST)
        name, scope = str(reference), self._access.readable_scope()
        store = self._access.components.store
        if scope is None:
            raise errors.NotFound("document", name)
        found = []
        if _NUMBER.fullmatch(name):
            found = store.documents.all(scope.narrow(documents=[int(name)]))
        if len(found) != 1 and name.isprintable():
            # PostgreSQL refuses to search for some characters; such ids are compared below.
            found = store.documents.all(scope, named=[name])
        if len(found) != 1:
            documents = store.documents.all(scope)
            document = document_references(documents).find_one(name)
            if document is None and by_title:
                document = find_by_title(
                    documents, name, lambda each: (each.number, each.shown_path, each.title)
                )
            if document is None:
                raise errors.NotFound("document", name)
            found = [document]
        return scope, self._name(scope, found)[0]

    def _find_active(self, reference: str | int) -> tuple[Scope, ActiveRevision]:
        """Return the active revision of a document; raises NotFound if it has none."""
        scope, document = self._find(reference)
        revision = self._access.components.store.readers.in_force(scope, document.number)
        if revision is None:
            raise errors.NotFound("document", str(reference))
        return scope, revision

    def _has_contract_fields(self) -> bool:
        return self._access.record().defaults.values.contract_fields

    def _name(self, scope: Scope, documents: builtins.list[Document]) -> builtins.list[Document]:
        """Return documents with the names that only `contract` worlds use."""
        if not documents or not self._has_contract_fields():
            return documents
        named = {name: getattr(scope.profile, name) for name in ("provider", "model", "dimensions")}
        return [replace(document, **named, space_id=scope.world) for document in documents]
