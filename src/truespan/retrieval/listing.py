"""Lists of documents: filters, order, pages and facets, without reading their text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from truespan.errors import InvalidArgument
from truespan.retrieval.filters import matching_documents, unreadable_metadata
from truespan.types.bundle import Notice
from truespan.types.catalog import CatalogEntry, DocumentCatalog
from truespan.types.document import (
    DEFAULT_FACET_VALUES,
    LABELS,
    MAX_DOCUMENT_SEARCH_LENGTH,
    MAX_FACET_VALUES,
    MAX_FACETS,
    MAX_PAGE_DOCUMENTS,
    METADATA_PREFIX,
    Document,
    DocumentPage,
    DocumentSort,
    DocumentStatus,
    Facet,
    Facets,
    FacetValue,
)
from truespan.types.metadata import Scalar, Value, ValueKind, show_value, type_value
from truespan.types.reading import LAST_FIRST
from truespan.types.request import FilterArguments, Filters, check_whole
from truespan.types.text import list_some

MAX_NAMES = 5
"""Maximum number of damaged documents that a warning names."""
Key = TypeVar("Key")
_LABEL_VALUES: dict[str, Callable[[CatalogEntry], str | list[str]]] = {
    "tags": lambda entry: list(entry.tags),
    "language": lambda entry: entry.language,
    "version": lambda entry: entry.version,
    "kind": lambda entry: str(entry.kind),
}


def check_facets(keys: Sequence[str] | None, limit: object, filters: Filters) -> None:
    """Raise InvalidArgument if the keys, the limit or the filters are invalid."""
    check_whole("limit", limit, 1, MAX_FACET_VALUES)
    if isinstance(keys, str) or not all(isinstance(key, str) for key in keys or ()):
        raise InvalidArgument("keys must be a list of strings.")
    if keys is not None and len(keys) > MAX_FACETS:
        raise InvalidArgument(f"keys must be at most {MAX_FACETS}.")
    if filters.chapter is not None or filters.section is not None:
        raise InvalidArgument(
            "Facets count whole documents, so a chapter or section filter does not apply to them."
        )


def count_facets(
    catalog: DocumentCatalog,
    filters: Filters,
    keys: Sequence[str] | None = None,
    limit: int = DEFAULT_FACET_VALUES,
) -> Facets:
    """Return the number of documents with each value, among those that the filters leave.

    Labels that do not match their checksum are not counted, and neither are metadata; a warning
    names these documents.
    """
    left = matching_documents(catalog, filters)
    every = {entry.number: entry for entry in (catalog if left is None else catalog.among(left))}
    counted = {number: entry for number, entry in every.items() if not entry.damaged}
    named = [entry for entry in every.values() if entry.damaged]
    named += [counted[number] for number in catalog.metadata.damaged & counted.keys()]
    named += unreadable_metadata(catalog, filters)
    own: dict[str, Mapping[int, object]] = {}
    for key in catalog.metadata:
        stored = catalog.metadata.stored(key)
        if len(counted) < len(catalog):
            stored = {number: stored[number] for number in stored.keys() & counted.keys()}
        if stored:
            own[key] = stored
    labels, chosen, more = list(LABELS), sorted(own, key=lambda key: (-len(own[key]), key)), 0
    if keys is not None:
        wanted = dict.fromkeys(keys)
        labels = [key for key in wanted if key in LABELS]
        chosen = [key.removeprefix(METADATA_PREFIX) for key in wanted if key not in LABELS]
    elif len(chosen) > MAX_FACETS:
        chosen, more = chosen[:MAX_FACETS], len(chosen) - MAX_FACETS
    facets: list[Facet] = []
    for key in labels:
        read = _LABEL_VALUES[key]
        labelled = {number: read(entry) for number, entry in counted.items()}
        facets.append(_count(key, False, labelled, counted, limit))
    facets += [_count(key, True, own.get(key, {}), counted, limit) for key in chosen]
    chunks = sum(entry.embedded for entry in counted.values())
    return Facets(len(counted), chunks, tuple(facets), more, _name_damaged(named))


def _count(
    key: str,
    metadata: bool,
    stored: Mapping[int, object],
    entries: Mapping[int, CatalogEntry],
    limit: int,
) -> Facet:
    """Return the facet of one key; a document counts once for each of its values."""
    # Many documents have the same few values, so each value is typed once, and lists are rare.
    alike: dict[tuple[type, object], list[int]] = {}
    counts: dict[Value, list[int]] = {}
    documents = 0
    for number, value in stored.items():
        chunks = entries[number].embedded
        if isinstance(value, list):
            found = {same for part in value if (same := _type(part, metadata)) is not None}
            documents += bool(found)
            for each in found:
                _add(counts, each, 1, chunks)
        elif not isinstance(value, dict):
            _add(alike, (type(value), value), 1, chunks)
    for (_, value), (count, chunks) in alike.items():
        if (same := _type(value, metadata)) is not None:
            documents += count
            _add(counts, same, count, chunks)
    ordered = sorted(counts, key=lambda each: (-counts[each][0], each.kind, each.key))
    least, greatest = _range_of(counts)
    values = tuple(
        FacetValue(show_value(each), each.kind, *counts[each]) for each in ordered[:limit]
    )
    return Facet(
        key=key,
        metadata=metadata,
        documents=documents,
        values=values,
        more_values=len(ordered) - len(values),
        least=least,
        greatest=greatest,
    )


def _type(value: object, metadata: bool) -> Value | None:
    """Return a value in its form for comparison; a label is always a text."""
    return type_value(value) if metadata else Value(ValueKind.TEXT, str(value))


def _add(counts: dict[Key, list[int]], key: Key, documents: int, chunks: int) -> None:
    count = counts.setdefault(key, [0, 0])
    count[0] += documents
    count[1] += chunks


def _range_of(values: Iterable[Value]) -> tuple[Scalar | None, Scalar | None]:
    ordered = list(values)
    kinds = {value.kind for value in ordered}
    if len(kinds) != 1 or not kinds <= {ValueKind.NUMBER, ValueKind.DATE}:
        return None, None
    first, last = min(ordered, key=_key_of), max(ordered, key=_key_of)
    return show_value(first), show_value(last)


def _key_of(value: Value) -> float:
    return float(value.key)


def _name_damaged(entries: Iterable[CatalogEntry]) -> tuple[Notice, ...]:
    found = {entry.number: entry.name for entry in entries}
    if not found:
        return ()
    names = list_some([found[number] for number in sorted(found)], MAX_NAMES)
    text = f"Labels or metadata do not match their checksum and are not counted: {names}."
    return (Notice("metadata_damaged", f"{text} Run 'truespan doctor'."),)


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
