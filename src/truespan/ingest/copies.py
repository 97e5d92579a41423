"""Files with the same content as another document of their world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.store import Store

MAX_NAMED_COPIES = 10
"""Maximum number of copies that a report names, each in a line."""


class CopyFinder:
    """Finds the document that has the content of a new source, among stored and new ones."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._known: dict[str, str] = {}
        """The paths of documents that were found or are new, by the hash of their content."""

    def add(self, source_hash: str, path: str) -> None:
        """Remember that a source of this run becomes a document."""
        self._known.setdefault(source_hash, path)

    def find(self, source_hash: str) -> str | None:
        """Return the path of a document with this content; None if there is none."""
        if source_hash in self._known:
            return self._known[source_hash]
        if not (doc_ids := self._store.content_owners(self._scope, source_hash)):
            return None
        # Only what matches its checksum may decide that a file is not ingested.
        documents = self._store.documents(self._scope, named=doc_ids)
        for document in documents:
            if document.source_hash == source_hash and not document.damaged:
                return self._known.setdefault(source_hash, document.shown_path)
        return None


def name_copies(copies: list[tuple[str, str]]) -> list[str]:
    """Return what a report says of copies, each given with the path of its original."""
    named = [f"{name}: same content as {path}." for name, path in copies[:MAX_NAMED_COPIES]]
    more = len(copies) - len(named)
    return [*named, f"{more} more have the same content as others."] if more else named
