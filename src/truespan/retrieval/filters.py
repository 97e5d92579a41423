"""Filters of a request: the scope that they leave, and warnings about what they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from truespan.types.bundle import Notice
from truespan.types.catalog import CatalogEntry, DocumentCatalog
from truespan.types.request import Filters
from truespan.types.scope import Scope, Unlimited, World
from truespan.types.text import fold_name, fold_names, list_some

if TYPE_CHECKING:
    from truespan.store import Store

ASK_FOR_ANY = "Ask for any language and version, or run 'truespan config --defaults recommended'."
MAX_NAMES = 5
"""Maximum number of similar names that a warning lists."""
MAX_COMPARED = 2000
"""Maximum number of names that are compared letter by letter."""
MAX_KEYS = 20
"""Maximum number of metadata keys that a warning lists."""
MAX_VALUES = 5
"""Maximum number of languages or versions that a warning lists."""
NO_DOCUMENT = Notice("no_document_matches", "No document in this world matches the filters.")
NOTHING_EMBEDDED = Notice("no_embedded_chunks", "Nothing in scope is embedded.")
METADATA_DAMAGED = "metadata_damaged"


def with_defaults(filters: Filters, names: frozenset[str], world: World) -> Filters:
    """Return filters with the defaults of a world for the named ones."""
    values = world.defaults.values
    return replace(filters, **{name: getattr(values, name) for name in names})


def narrow_scope(scope: Scope, catalog: DocumentCatalog, filters: Filters) -> Scope:
    """Return the scope restricted by all filters together.

    Filters by document are applied in the store, so that a changed label counts at once. The index
    gets document numbers.
    """
    numbers = catalog.select(filters, lambda: matching_documents(catalog, filters))
    return scope.narrow(documents=numbers, chapter=filters.chapter, section=filters.section)


def matching_documents(catalog: DocumentCatalog, filters: Filters) -> frozenset[int] | None:
    """Return the documents that match all filters by document; None if all match.

    A document with damaged labels matches, so that its chunks are found to be damaged. A document
    with damaged metadata matches no condition, and `unreadable_metadata` names it.
    """
    found = [catalog.labelled(filters.match_labels)]
    if filters.documents is not None:
        found.append(catalog.named(filters.documents))
    if filters.source is not None:
        found.append(catalog.from_source(filters.source))
    if filters.metadata:
        found.append(catalog.metadata.matching(filters.metadata) | catalog.damaged)
    sets = sorted((numbers for numbers in found if numbers is not None), key=len)
    numbers = frozenset.intersection(*sets) if sets else None
    if numbers is None or (numbers and len(numbers) == len(catalog)):
        return None
    return catalog.limit(numbers)


def hidden_documents(scope: Scope, relaxed: Scope, catalog: DocumentCatalog) -> frozenset[int]:
    """Return the documents of a relaxed scope that are not in the scope."""
    if isinstance(scope.documents, Unlimited):
        return frozenset()
    if isinstance(relaxed.documents, Unlimited):
        return frozenset(entry.number for entry in catalog) - scope.documents
    return relaxed.documents - scope.documents


def explain_empty(
    store: Store, scope: Scope, catalog: DocumentCatalog, filters: Filters, reasons: str
) -> Notice:
    """Return a warning that says why nothing is in scope.

    `reasons` are the default filters that left out every document, if they did.
    """
    if reasons:
        text = f"Every document in scope was left out by {reasons}. {ASK_FOR_ANY}"
        return Notice("default_filter_emptied_result", text)
    nothing = NOTHING_EMBEDDED if scope.documents else _name_unmatched(catalog, filters)
    return _name_places(store, scope, catalog, filters) or nothing


def _name_unmatched(catalog: DocumentCatalog, filters: Filters) -> Notice:
    """Return a warning that no document matches, with a tag or a document that does not exist.

    The catalog has only documents that the caller may see.
    """
    tags = sorted({tag for entry in catalog if not entry.damaged for tag in entry.tags})
    for tag in filters.tags:
        if tag not in tags:
            text = f"No document has the tag {tag!r}.{_list_closest(tag, tags)}"
            return replace(NO_DOCUMENT, message=text)
    for name in filters.documents or ():
        if not catalog.named([name]):
            return replace(NO_DOCUMENT, message=f"There is no document {name!r} in this world.")
    return NO_DOCUMENT


def _list_closest(wanted: str, names: Sequence[str]) -> str:
    """Return a sentence with the names closest to `wanted`; blank if there are none."""
    listed = ", ".join(map(repr, closest_names(wanted, names)))
    return f" The closest: {listed}." if listed else ""


def _name_places(
    store: Store, scope: Scope, catalog: DocumentCatalog, filters: Filters
) -> Notice | None:
    """Return a warning if no text in scope is in the chapter or section of the filters.

    The warning lists similar names, since the caller may read the whole world.
    """
    if not scope.names_place or not catalog.count_chunks(scope.documents)[0]:
        return None
    places = store.catalogs.place_names(scope)
    if any(map(scope.covers, places)):
        return None
    for member, wanted in (("chapter", filters.chapter), ("section", filters.section)):
        names = list(dict.fromkeys(getattr(place, member) for place in places))
        if wanted is not None and fold_name(wanted) not in fold_names(names):
            text = f"No {member} in scope is named {wanted!r}.{_list_closest(wanted, names)}"
            if member == "chapter":
                return Notice("chapter_not_found", text)
            return Notice("section_not_found", text)
    text = (
        f"No text in scope is in the chapter {filters.chapter!r} and in the section "
        f"{filters.section!r} at once."
    )
    return Notice("section_not_found", text)


def closest_names(wanted: str, names: Sequence[str]) -> list[str]:
    """Return the names closest to `wanted`: names that contain it, then similar ones."""
    from difflib import get_close_matches

    folded = {fold_name(name): name for name in reversed(names)}
    own = fold_name(wanted)
    found = [name for name in folded if own and (own in name or (len(name) > 2 and name in own))]
    found += get_close_matches(own, list(folded)[:MAX_COMPARED], n=MAX_NAMES)
    return [folded[name] for name in dict.fromkeys(found)][:MAX_NAMES]


def unreadable_metadata(catalog: DocumentCatalog, filters: Filters) -> list[CatalogEntry]:
    """Return the documents that conditions leave out because their metadata are damaged."""
    if not filters.metadata or not catalog.metadata.damaged:
        return []
    others = matching_documents(catalog, replace(filters, metadata=()))
    damaged = catalog.metadata.damaged - catalog.damaged
    return list(catalog.among(sorted(damaged if others is None else damaged & others)))


def name_defaults(
    entries: Iterable[CatalogEntry], filters: Filters, by_default: frozenset[str]
) -> str:
    """Describe the default filters that leave entries out, with the values of the entries."""
    entries, reasons = list(entries), []
    for member in sorted(by_default):
        own = Filters(**{member: getattr(filters, member)})
        values = [getattr(entry, member) for entry in entries if not own.match_labels(entry)]
        counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
        if counts:
            listed = [f"{value} ({count})" for value, count in counts[:MAX_VALUES]]
            more = [f"{len(counts) - MAX_VALUES} more"] if len(counts) > MAX_VALUES else []
            wanted = getattr(filters, member)
            reasons.append(f"the default {member} {wanted!r}: {', '.join([*listed, *more])}")
    return "; by ".join(reasons)


def name_unreadable(entries: Sequence[CatalogEntry]) -> Notice:
    names = list_some([entry.name for entry in entries], MAX_VALUES)
    return Notice(
        METADATA_DAMAGED,
        "Metadata do not match their checksum, so that these documents were left out: "
        f"{names}. Run 'truespan doctor'.",
    )


def name_unknown_keys(catalog: DocumentCatalog, filters: Filters) -> list[Notice]:
    """Return a warning if a filter has a key that no document has, probably misspelt."""
    keys = {condition.key for condition in filters.metadata if condition.exists}
    unknown = keys.difference(catalog.metadata) if keys else ()
    if not unknown:
        return []
    wanted = ", ".join(repr(key) for key in sorted(unknown))
    known = list_some(sorted(catalog.metadata), MAX_KEYS)
    listed = f"there are: {known}" if known else "there are no metadata"
    text = f"No document has metadata under {wanted}; {listed}."
    return [Notice("metadata_key_unknown", text)]
