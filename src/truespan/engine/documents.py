"""The documents of a world: list, read, inspect and delete them."""

from __future__ import annotations

import builtins
import json
import re
from typing import Any, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from truespan.engine.access import WorldAccess
from truespan.engine.jobs import remove_uploads
from truespan.errors import (
    ChunkNotFound,
    DocumentNotFound,
    ImageNotFound,
    StoreDamaged,
    WorldNotFound,
)
from truespan.ingest.metadata import derive_metadata
from truespan.maintenance.delete import Receipt
from truespan.retrieval.reading.pages import active_pages
from truespan.types.catalog import document_references
from truespan.types.chunk import ChunkRecord
from truespan.types.document import (
    PAGE_DOCUMENTS,
    AuditEntry,
    Derived,
    Document,
    DocumentPage,
    DocumentSort,
    DocumentStatus,
    OutlineEntry,
    RevisionRef,
)
from truespan.types.ids import ChunkId
from truespan.types.reading import (
    LAST_FIRST,
    MAX_PAGE_CHUNKS,
    PAGE_CHUNKS,
    PAGE_SENTENCES,
    ChunkPage,
    PageRequest,
    SentencePage,
    StoredImage,
    wanted_image,
)
from truespan.types.request import DEFAULT_VERSION, Defaults, FilterArguments, check_whole
from truespan.types.scope import Scope, Verb
from truespan.types.source import LabelArguments

T = TypeVar("T")

_NUMBER = re.compile("[1-9][0-9]{0,17}")
"""The only spelling of a document's number."""


class Documents(Struct, frozen=True):
    """The documents of one world.

    A document is named by number, doc id, declared URL or path; the end of the path is enough.
    """

    _access: WorldAccess

    def list(self) -> list[Document]:
        """Return the world's documents, by number."""
        scope = self._access.readable_scope()
        return self._name(scope, self._access.components.store.documents(scope)) if scope else []

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
        """Return documents with all words of `search` in their names, tags, URL or metadata.

        Filters by document are those of `facets`: what is not complete yet matches none of them.
        With `limit` None, all are returned from `offset` on.

        Raises:
            InvalidArgument: before anything is read.
        """
        from truespan.retrieval.document_list import DocumentQuery

        query = DocumentQuery.from_arguments(
            search, status, sort, descending, offset, limit, filters
        )
        scope, store = self._access.readable_scope(), self._access.components.store
        if scope is None:
            return query.page(())

        def read() -> DocumentPage:
            documents = self._name(scope, store.documents(scope))
            if filters:
                catalog = store.document_catalog(scope, self._access.record())
                return query.page(documents, catalog)
            return query.page(documents)

        return self._access.with_stable_snapshot(read)

    def get(self, reference: str | int) -> Document:
        """Return one document.

        Raises:
            DocumentNotFound: no document has this name.
            DocumentAmbiguous: several have it.
        """
        return self._find(reference)[1]

    def text(self, reference: str | int) -> str:
        """Return the canonical text of a document, checked against its hash."""
        scope, document = self._find(reference)
        return self._access.components.store.canonical_text(scope, document.number)

    def sentences(
        self, reference: str | int, *, offset: int = 0, limit: int = PAGE_SENTENCES
    ) -> SentencePage:
        """Return sentences of a document's active revision, each checked against its hash.

        Past the end the page is empty.

        Raises:
            InvalidArgument: `offset` is negative, or `limit` is not between 1 and 1000.
            DocumentNotFound: there is no such document, or it is not complete yet.
            StoreDamaged: a sentence differs from its hash.
        """
        wanted, store = PageRequest(offset, limit), self._access.components.store

        def read() -> SentencePage:
            scope, document = self._find(reference)
            revision = store.in_force(scope, document.number)
            if revision is None:
                raise DocumentNotFound(str(reference))
            return active_pages(store, scope, revision).page(wanted)

        self._access.readable_scope()
        return self._access.with_stable_snapshot(read)

    def chunks(
        self, reference: str | int, *, offset: int = 0, limit: int | None = PAGE_CHUNKS
    ) -> ChunkPage:
        """Return chunks of a document's active revision, in reading order.

        A chunk that does not match its checksum is listed without its text. With `limit` None, all
        are returned from `offset` on; past the end there are none.

        Raises:
            InvalidArgument: `offset` is negative, or `limit` is not between 1 and 500.
            DocumentNotFound: there is no such document, or it is not complete yet.
        """
        check_whole("offset", offset, 0, LAST_FIRST)
        if limit is not None:
            check_whole("limit", limit, 1, MAX_PAGE_CHUNKS)
        store = self._access.components.store

        def read() -> ChunkPage:
            scope, document = self._find(reference)
            revision = store.in_force(scope, document.number)
            if revision is None:
                raise DocumentNotFound(str(reference))
            profile = scope.generation.chunking
            chunking = profile.name if profile else revision.chunking
            total, chunks = store.list_chunks(
                scope, revision.ref, first=offset, count=LAST_FIRST if limit is None else limit
            )
            if self._follows_contract():
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
            return ChunkPage(
                document=document.number,
                doc_id=revision.doc_id,
                title=revision.title,
                source=revision.name,
                path=revision.path,
                revision=revision.ref.revision,
                source_hash=revision.source_hash,
                text_hash=revision.text_hash,
                recipe=revision.recipe,
                generation=scope.generation.number,
                chunking=str(chunking),
                characters=revision.characters,
                offset=offset,
                total=total,
                chunks=tuple(chunks),
                created_at=revision.created_at,
            )

        self._access.readable_scope()
        return self._access.with_stable_snapshot(read)

    def image(self, image_ref: str) -> StoredImage:
        """Return the image of a figure, by the figure's `image_ref`.

        Raises:
            ImageNotFound: the world has no such image.
        """
        wanted, store = wanted_image(image_ref), self._access.components.store

        def read() -> StoredImage | None:
            scope = self._access.readable_scope()
            revision = store.in_force(scope, wanted.doc_id) if scope and wanted else None
            if scope is None or wanted is None or revision is None:
                return None
            pages = active_pages(store, scope, revision)
            return pages.image_of(self._access.components.assets, revision.images, wanted)

        self._access.readable_scope()
        found = self._access.with_stable_snapshot(read)
        if found is None:
            raise ImageNotFound
        return found

    def outline(self, reference: str | int) -> builtins.list[OutlineEntry]:
        """Return where the chapters and sections of a document begin."""
        scope, document = self._find(reference)
        return self._access.components.store.outline(scope, document.number)

    def chunk(self, chunk_id: str) -> ChunkRecord:
        """Return the record of one chunk.

        Raises:
            ChunkNotFound: the world has no such chunk.
        """
        scope, key = self._access.readable_scope(), ChunkId(chunk_id)
        found = self._access.components.store.read_chunks(scope, [key]) if scope else {}
        if key not in found or scope is None:
            raise ChunkNotFound(chunk_id)
        record = found[key]
        return replace(record, space_id=scope.world) if self._follows_contract() else record

    def metadata(self, reference: str | int) -> dict[str, Any]:
        """Return a document's derived metadata: title, authors, dates, keywords, outline.

        Declared values take precedence over it. Empty until it is derived.
        """
        scope, document = self._find(reference)
        found = self._access.components.store.derived(scope, document.number)
        return json.loads(found) if found else {}

    def audit(self, reference: str | int) -> builtins.list[AuditEntry]:
        """Return what the sanitizer counted in a document; never the text it found."""
        scope, document = self._find(reference)
        return self._access.components.store.audit(scope, document.number)

    def update(self, reference: str | int, **changes: Unpack[LabelArguments]) -> Document:
        """Change labels of a document without its file; return the document with them.

        The labels are those of `LabelArguments`. Nothing is embedded, and filters see the change
        at once. None removes a label; `metadata` is joined with what is stored, and a key whose
        value is None is removed.

        Raises:
            InvalidArgument: a label is not valid; then nothing is changed.
            StoreDamaged: the labels do not match their checksum, so they cannot be changed.
        """
        scope, document = self._writable(reference)
        if document.damaged:
            raise StoreDamaged(
                f"The labels of document {document.number} do not match their checksum.",
                advice="Run 'truespan doctor'; ingest its source again if they cannot be restored.",
            )
        declared = document.declared.relabel(**changes)
        store = self._access.components.store
        store.relabel(
            scope,
            document.number,
            tags=declared.tags or (),
            language=declared.language,
            version=declared.version or DEFAULT_VERSION,
            source_url=declared.source_url,
            metadata=declared.metadata,
            origin=document.origin,
            shown_path=document.shown_path,
        )
        if document.active is not None:
            # What is derived contains the labels.
            ref = RevisionRef(document.number, document.active)
            source = store.derivable(scope, ref)
            store.keep_derived(scope, [Derived(ref, derive_metadata(source))] if source else [])
        return self.get(document.number)

    def delete(self, reference: str | int, *, erase: bool = True) -> Receipt:
        """Delete a document: hide it at once, then delete its points, then its rows.

        With `erase`, the files that contained it are rewritten too, so that nothing of it can be
        recovered from them; `receipt.erased` says whether that succeeded now. What could not be
        rewritten is queued for `repair`.
        """
        access, record = self._access, self._access.record()
        scope, document = self._writable(reference)
        # Uploads first: if this process stops in between, the document can be deleted again.
        uploads = remove_uploads(access.components, scope, document.path)
        remover = access.components.remover()
        return remover.document(scope, record, document, erase=erase, uploads=uploads)

    def _writable(self, reference: str | int) -> tuple[Scope, Document]:
        """Return a document and the scope to change it in; raises WorldNotFound if none may."""
        access, document = self._access, self.get(reference)
        record = access.record()
        if record.generation is None or not access.authority.may(Verb.WRITE, record.id):
            raise WorldNotFound(access.world)
        return Scope(access.authority, record.id, record.generation), document

    def _find(self, reference: str | int) -> tuple[Scope, Document]:
        """Return the document that a reference names; see `References`."""
        if isinstance(reference, int):
            check_whole("The number of a document", reference, -LAST_FIRST, LAST_FIRST)
        name, scope = str(reference), self._access.readable_scope()
        store = self._access.components.store
        if scope is None:
            raise DocumentNotFound(name)
        found = []
        if _NUMBER.fullmatch(name):
            found = store.documents(scope.narrow(documents=[int(name)]))
        if len(found) != 1 and name.isprintable():
            # PostgreSQL refuses to search for some characters; such ids are compared below.
            found = store.documents(scope, named=[name])
        if len(found) != 1:
            document = document_references(store.documents(scope)).find_one(name)
            if document is None:
                raise DocumentNotFound(name)
            found = [document]
        return scope, self._name(scope, found)[0]

    def _follows_contract(self) -> bool:
        return self._access.record().defaults is Defaults.CONTRACT

    def _name(self, scope: Scope, documents: builtins.list[Document]) -> builtins.list[Document]:
        """Return documents with the names that only `contract` worlds use."""
        if not documents or not self._follows_contract():
            return documents
        named = {name: getattr(scope.profile, name) for name in ("provider", "model", "dimensions")}
        return [replace(document, **named, space_id=scope.world) for document in documents]
