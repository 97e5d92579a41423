"""Filtering, sorting and paging the documents of a world, without reading their text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from truespan.errors import InvalidArgument
from truespan.retrieval.filters import matching_documents
from truespan.types.catalog import DocumentCatalog
from truespan.types.document import (
    MAX_DOCUMENT_SEARCH_LENGTH,
    MAX_PAGE_DOCUMENTS,
    Document,
    DocumentPage,
    DocumentSort,
    DocumentStatus,
)
from truespan.types.reading import LAST_FIRST
from truespan.types.request import FilterArguments, Filters, check_whole

_STATUS_ORDER = tuple(DocumentStatus)
_SORT_KEYS: dict[DocumentSort, Callable[[Document], Any]] = {
    DocumentSort.NUMBER: lambda document: document.number,
    DocumentSort.TITLE: lambda document: _fold(document.title or document.name),
    DocumentSort.PATH: lambda document: _fold(document.shown_path),
    DocumentSort.STATUS: lambda document: _STATUS_ORDER.index(document.status),
    DocumentSort.KIND: lambda document: document.kind,
    DocumentSort.LANGUAGE: lambda document: document.language,
    DocumentSort.VERSION: lambda document: document.version,
    DocumentSort.CHARACTERS: lambda document: document.characters,
    DocumentSort.CHUNKS: lambda document: document.chunks,
}


class DocumentQuery(Struct, frozen=True):
    """Filters, sort order and page of a list of documents."""

    words: tuple[str, ...]
    status: DocumentStatus | None
    sort: DocumentSort
    descending: bool
    offset: int
    limit: int | None
    filters: Filters

    @classmethod
    def from_arguments(
        cls,
        search: str | None,
        status: DocumentStatus | str | None,
        sort: DocumentSort | str,
        descending: bool,
        offset: int,
        limit: int | None,
        filters: FilterArguments,
    ) -> DocumentQuery:
        """Return a checked query; raises InvalidArgument."""
        check_whole("offset", offset, 0, LAST_FIRST)
        if limit is not None:
            check_whole("limit", limit, 1, MAX_PAGE_DOCUMENTS)
        if search is not None and not isinstance(search, str):
            raise InvalidArgument("search must be a string.")
        if search is not None and len(search) > MAX_DOCUMENT_SEARCH_LENGTH:
            raise InvalidArgument(
                f"search must have at most {MAX_DOCUMENT_SEARCH_LENGTH} characters."
            )
        try:
            wanted = None if status is None else DocumentStatus(status)
        except ValueError:
            raise InvalidArgument(f"status must be one of {', '.join(DocumentStatus)}.") from None
        try:
            order = DocumentSort(sort)
        except ValueError:
            raise InvalidArgument(f"sort must be one of {', '.join(DocumentSort)}.") from None
        chosen = Filters().with_arguments(filters)
        if chosen.chapter is not None or chosen.section is not None:
            raise InvalidArgument(
                "Whole documents are listed, so a chapter or section filter does not apply to them."
            )
        words = tuple(_fold(search or "").split())
        return cls(words, wanted, order, bool(descending), offset, limit, chosen)

    def page(
        self, documents: Sequence[Document], catalog: DocumentCatalog | None = None
    ) -> DocumentPage:
        """Return the page of the documents; filters need the catalog."""
        left = None if catalog is None else matching_documents(catalog, self.filters)
        if catalog is not None and left is None:
            # Only complete documents: others have no labels to filter by.
            left = frozenset(entry.number for entry in catalog)
        found = [
            document
            for document in documents
            if (left is None or document.number in left) and self._has_words(document)
        ]
        statuses = Counter(document.status for document in found)
        if self.status is not None:
            found = [document for document in found if document.status is self.status]
        # Equal documents keep the order of their numbers, in both directions.
        found.sort(key=_SORT_KEYS[self.sort], reverse=self.descending)
        end = None if self.limit is None else self.offset + self.limit
        part = tuple(found[self.offset : end])
        return DocumentPage(part, self.offset, len(found), dict(statuses))

    def _has_words(self, document: Document) -> bool:
        if not self.words:
            return True
        names = document.title, document.name, document.shown_path
        labels = *document.tags, document.source_url or "", document.metadata or ""
        text = _fold("\n".join((*names, *labels)))
        # An id ends in a digest, which contains almost any short number.
        doc_id = _fold(document.doc_id)
        return all(word in text or word == doc_id for word in self.words)


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
