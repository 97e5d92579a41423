"""What a world holds: documents, their text, chunks and numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from truespan.engine.held import HeldWorld
from truespan.engine.removal import remover
from truespan.engine.uploads import remove_uploads
from truespan.errors import ChunkNotFound, DocumentNotFound, ImageNotFound, WorldNotFound
from truespan.maintenance.delete import Receipt
from truespan.retrieval.pages import pages_in_force
from truespan.retrieval.snapshot import with_stable_snapshot
from truespan.types.chunk import ChunkRecord
from truespan.types.document import AuditEntry, Document, OutlineEntry, WorldStatus
from truespan.types.figure import ImageFile
from truespan.types.ids import ChunkId
from truespan.types.reading import (
    PAGE_SENTENCES,
    InForce,
    PageRequest,
    SentencePage,
    StoredImage,
    wanted_image,
)
from truespan.types.scope import Scope, Verb

T = TypeVar("T")

_NUMBER = re.compile("[1-9][0-9]{0,17}")
"""How a document's number is spelled, and in no other way."""


class ShelvedWorld(HeldWorld):
    """The documents of a world, as its holder may look at them and delete them."""

    def documents(self) -> list[Document]:
        """Return the world's documents, by number."""
        scope = self._readable()
        return self._parts.store.documents(scope) if scope else []

    def document(self, reference: str | int) -> Document:
        """Return the document with this number, doc id, or file name if only one has it.

        Raises:
            DocumentNotFound: no document, or more than one, answers to it.
        """
        scope, reference = self._readable(), str(reference)
        if scope is None:
            raise DocumentNotFound(reference)
        for look in (self._numbered, self._identified, self._named):
            found = look(scope, reference)
            if len(found) == 1:
                return found[0]
        raise DocumentNotFound(reference)

    def _numbered(self, scope: Scope, reference: str) -> list[Document]:
        number = int(reference) if _NUMBER.fullmatch(reference) else None
        if number is None:
            return []
        return self._parts.store.documents(scope.narrow(documents=[number]))

    def _identified(self, scope: Scope, reference: str) -> list[Document]:
        if not reference.isprintable():
            # What a database may not even be asked for is looked for by name, among all.
            return [one for one in self._parts.store.documents(scope) if one.doc_id == reference]
        return self._parts.store.documents(scope, named=[reference])

    def _named(self, scope: Scope, reference: str) -> list[Document]:
        return [one for one in self._parts.store.documents(scope) if one.name == reference]

    def text(self, reference: str) -> str:
        """Return the canonical text of a document, checked against its hash."""
        document = self.document(reference)
        scope = self._readable()
        if scope is None:
            raise DocumentNotFound(reference)
        return self._parts.store.canonical_text(scope, document.number)

    def sentences(
        self, reference: str | int, *, first: int = 0, count: int = PAGE_SENTENCES
    ) -> SentencePage:
        """Return sentences of a document, each checked against its hash.

        They are of the revision that readers see. Past the end the page is empty.

        Raises:
            InvalidSettings: there is no such page; 1 to 1000 sentences can be asked for.
            DocumentNotFound: no document, or none that is complete, answers to it.
            StoreDamaged: a sentence is not what it was when the document was taken in.
        """
        wanted = PageRequest(first, count)

        def attempt() -> SentencePage:
            scope, held = self._in_force(self.document(reference).number)
            if scope is None or held is None:
                raise DocumentNotFound(str(reference))
            return pages_in_force(self._parts.store, scope, held).page(wanted)

        return self._settled(attempt)

    def image(self, image_ref: str) -> StoredImage:
        """Return an image that a figure of a document shows, by the reference the figure has.

        Raises:
            ImageNotFound: there is none, or none in this world.
        """
        wanted = wanted_image(image_ref)
        found = self._settled(lambda: self._image(wanted) if wanted else None)
        if found is None:
            raise ImageNotFound
        return found

    def _image(self, wanted: ImageFile) -> StoredImage | None:
        scope, held = self._in_force(wanted.doc_id)
        if scope is None or held is None:
            return None
        pages = pages_in_force(self._parts.store, scope, held)
        return pages.image_of(self._parts.assets, held.images, wanted)

    def _in_force(self, reference: int | str) -> tuple[Scope | None, InForce | None]:
        scope = self._readable()
        return scope, self._parts.store.in_force(scope, reference) if scope else None

    def _settled(self, attempt: Callable[[], T]) -> T:
        """Return what an attempt gives that no change of the world has cut in two."""
        self._readable()
        store = self._parts.store
        return with_stable_snapshot(store, self._authority, self._record(), lambda _: attempt())

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

    def status(self) -> WorldStatus:
        """Return the world in numbers."""
        scope = self._readable()
        return self._parts.store.status(scope) if scope else WorldStatus(0, 0, 0, 0, 0, 0, 0)

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
        # Before anything is hidden: whoever is stopped in between still has it to delete again.
        uploads = remove_uploads(self._parts, scope, document.doc_id)
        return remover(self._parts).document(scope, record, document, erase=erase, uploads=uploads)
