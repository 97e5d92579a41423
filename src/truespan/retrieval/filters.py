"""Which documents and places the filters of a request mean."""

from __future__ import annotations

from dataclasses import replace

from truespan.types.bundle import Notice
from truespan.types.document import CatalogEntry, DocumentCatalog
from truespan.types.request import DEFAULT_LANGUAGE, DEFAULT_VERSION, Filters
from truespan.types.scope import Scope

DEFAULT_FILTER = Notice(
    "default_filter_emptied_result",
    f"Every document in scope was left out by the default language {DEFAULT_LANGUAGE!r} or version "
    f"{DEFAULT_VERSION!r}; ask for any language or version instead.",
)


def narrow_scope(scope: Scope, catalog: DocumentCatalog, filters: Filters) -> Scope:
    """Return the scope restricted by all filters together.

    Language, version and tags belong to documents and are looked up in the store, so that a changed
    label counts at once. They reach the index as document numbers.
    """
    numbers = catalog.labelled(lambda entry: _labels_match(entry, filters))
    if filters.documents is not None:
        named = catalog.named(filters.documents)
        numbers = named if numbers is None else named & numbers
    return scope.narrow(documents=numbers, chapter=filters.chapter, section=filters.section)


def emptied_by_defaults(catalog: DocumentCatalog, filters: Filters) -> bool:
    """Return whether the default language or version alone left no document."""
    relaxed = filters
    if filters.language == DEFAULT_LANGUAGE:
        relaxed = replace(relaxed, language=None)
    if filters.version == DEFAULT_VERSION:
        relaxed = replace(relaxed, version=None)
    return not _matches_any(catalog, filters) and _matches_any(catalog, relaxed)


def _matches_any(catalog: DocumentCatalog, filters: Filters) -> bool:
    named = filters.documents
    return any(
        (named is None or not {str(entry.number), entry.doc_id, entry.name}.isdisjoint(named))
        and _labels_match(entry, filters)
        for entry in catalog
    )


def _labels_match(entry: CatalogEntry, filters: Filters) -> bool:
    """Return whether a document has all tags, the version and the language; 'en' covers 'en-GB'."""
    language, wanted = (
        None if label is None else label.casefold().replace("_", "-")
        for label in (entry.language, filters.language)
    )
    return (
        set(filters.tags) <= set(entry.tags)
        and filters.version in (None, entry.version)
        and (wanted is None or language == wanted or f"{language}".startswith(f"{wanted}-"))
    )
