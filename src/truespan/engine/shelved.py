"""What a world holds: documents, their text, chunks and numbers."""

from __future__ import annotations

import json
from typing import Any

from truespan.engine.held import HeldWorld
from truespan.engine.removal import remover
from truespan.errors import (
    ChunkNotFound,
    DocumentNotFound,
    WorldNotFound,
)
from truespan.model.chunk import ChunkRecord
from truespan.model.document import AuditEntry, Document, OutlineEntry, WorldStatus
from truespan.model.ids import ChunkId
from truespan.model.scope import Scope, Verb
from truespan.upkeep.receipt import Receipt


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
        return remover(self._parts).document(scope, record, document, erase=erase)
