"""Counting facets on the catalog of documents; nothing of their text is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from truespan.errors import InvalidSettings
from truespan.retrieval.pipeline import matching_documents, unreadable_metadata
from truespan.types.bundle import Notice
from truespan.types.document import CatalogEntry, DocumentCatalog
from truespan.types.facet import (
    DEFAULT_FACET_VALUES,
    LABELS,
    METADATA_PREFIX,
    MOST_FACET_VALUES,
    MOST_FACETS,
    Facet,
    Facets,
    FacetValue,
)
from truespan.types.metadata import Scalar, Value, ValueKind, show_value, type_value
from truespan.types.request import Filters, check_whole

MOST_NAMES = 5
"""So many damaged documents are named."""
_LABEL_VALUES: dict[str, Callable[[CatalogEntry], Sequence[str]]] = {
    "tags": lambda entry: entry.tags,
    "language": lambda entry: (entry.language,),
    "version": lambda entry: (entry.version,),
    "kind": lambda entry: (str(entry.kind),),
}


def check_facets(keys: Sequence[str] | None, limit: object, filters: Filters) -> None:
    """Raise InvalidSettings unless facets can be counted."""
    check_whole("limit", limit, 1, MOST_FACET_VALUES)
    if isinstance(keys, str) or not all(isinstance(key, str) for key in keys or ()):
        raise InvalidSettings("keys must be a list of strings.")
    if keys is not None and len(keys) > MOST_FACETS:
        raise InvalidSettings(f"keys must be at most {MOST_FACETS}.")
    if filters.chapter is not None or filters.section is not None:
        raise InvalidSettings(
            "Facets count whole documents, so a chapter or section filter does not apply to them."
        )


def count_facets(
    catalog: DocumentCatalog,
    filters: Filters,
    keys: Sequence[str] | None = None,
    limit: int = DEFAULT_FACET_VALUES,
) -> Facets:
    """Return how many of the documents that filters leave have which values.

    Labels that do not match their checksum are not counted, and neither are metadata; a warning
    names these documents.
    """
    left = matching_documents(catalog, filters)
    every = {entry.number: entry for entry in (catalog if left is None else catalog.among(left))}
    counted = {number: entry for number, entry in every.items() if not entry.damaged}
    named = [entry for entry in every.values() if entry.damaged]
    named += [counted[number] for number in catalog.metadata.damaged & counted.keys()]
    named += unreadable_metadata(catalog, filters)
    own = {
        key: {number: catalog.metadata.stored(key)[number] for number in numbers}
        for key in catalog.metadata
        if (numbers := catalog.metadata.stored(key).keys() & counted.keys())
    }
    labels, chosen, more = list(LABELS), sorted(own, key=lambda key: (-len(own[key]), key)), 0
    if keys is not None:
        wanted = dict.fromkeys(keys)
        labels = [key for key in wanted if key in LABELS]
        chosen = [key.removeprefix(METADATA_PREFIX) for key in wanted if key not in LABELS]
    elif len(chosen) > MOST_FACETS:
        chosen, more = chosen[:MOST_FACETS], len(chosen) - MOST_FACETS
    facets = [
        _count(
            key, False, {n: list(_LABEL_VALUES[key](e)) for n, e in counted.items()}, counted, limit
        )
        for key in labels
    ]
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
    # Many documents have the same few values.
    typed: dict[tuple[type, object], Value | None] = {}
    counts: dict[Value, list[int]] = {}
    documents = 0
    for number, value in stored.items():
        found: set[Value] = set()
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, list | dict):
                continue
            known = type(part), part
            if known not in typed:
                # A label is a text, whatever it looks like.
                typed[known] = type_value(part) if metadata else Value(ValueKind.TEXT, str(part))
            if (same := typed[known]) is not None:
                found.add(same)
        documents += bool(found)
        for each in found:
            count = counts.setdefault(each, [0, 0])
            count[0] += 1
            count[1] += entries[number].embedded
    ordered = sorted(counts, key=lambda each: (-counts[each][0], each.kind, each.key))
    least, greatest = _range_of(counts)
    values = tuple(
        FacetValue(show_value(each), each.kind, *counts[each]) for each in ordered[:limit]
    )
    return Facet(key, metadata, documents, values, len(ordered) - len(values), least, greatest)


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
    names = ", ".join(found[number] for number in sorted(found)[:MOST_NAMES])
    more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    text = f"Labels or metadata do not match their checksum and are not counted: {names}{more}."
    return (Notice("metadata_damaged", f"{text} Run 'truespan doctor'."),)
