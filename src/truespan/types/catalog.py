"""The active documents of a world: labels, references and metadata, for filters."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec

from truespan.errors import DocumentAmbiguous
from truespan.types.audience import EVERYONE, Audience, is_visible
from truespan.types.chunk import DocumentNames
from truespan.types.document import Document
from truespan.types.metadata import Condition, Value, ValueKind, type_value, type_values
from truespan.types.request import Filters
from truespan.types.scope import DocumentSubset, Unlimited
from truespan.types.source import DocumentKind

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Documents = frozenset[int] | Unlimited
MAX_KEPT = 64
"""Maximum number of cached filter results."""


class CatalogEntry(DocumentNames, frozen=True, kw_only=True):
    """Fields of an active document that filters use."""

    number: int
    embedded: int
    pending: int
    damaged: bool = False
    kind: str = DocumentKind.DOCUMENT
    path: str = ""
    """Path shown in results."""
    audience: Audience = (EVERYONE,)
    """Labels of the callers who see the document; empty if damaged."""


# Shared by threads: all its values, metadata included, are computed from entries that never change;
# two threads that compute the same value keep equal ones.
class DocumentCatalog:
    """The active documents of a world by number, cached until the world changes.

    Totals and selections are computed once, so that the cost of a request does not grow with the
    number of documents. `read_metadata` is called when metadata are first needed.
    """

    def __init__(
        self,
        entries: Iterable[CatalogEntry],
        read_metadata: Callable[[], MetadataIndex] = lambda: MetadataIndex(()),
        *,
        everything: frozenset[int] | None = None,
    ) -> None:
        """Make a catalog. `everything` are the numbers of further documents that it leaves out."""
        self._entries = {entry.number: entry for entry in entries}
        self._read_metadata = read_metadata
        self._everything = everything
        self._selections: dict[bytes, frozenset[int] | None] = {}
        self._counts: dict[frozenset[int], tuple[int, int]] = {}

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def for_audience(self, labels: frozenset[str], everything: Iterable[int]) -> DocumentCatalog:
        """Return the catalog of the documents that a caller with `labels` sees.

        `everything` are the numbers of all documents of the world, also of inactive ones.
        """
        seen = {
            audience: is_visible(audience, labels) for audience in {part.audience for part in self}
        }
        visible = [entry for entry in self if seen[entry.audience]]
        numbers = frozenset(entry.number for entry in visible)
        return DocumentCatalog(
            visible, lambda: self.metadata.among(numbers), everything=self.numbers.union(everything)
        )

    def limit(self, numbers: frozenset[int]) -> frozenset[int]:
        """Return a set of these documents that an index can use; see `DocumentSubset`."""
        return DocumentSubset.of(numbers, self._everything or self.numbers)

    @cached_property
    def scope(self) -> frozenset[int]:
        """Numbers of all documents of the catalog, for an index with others."""
        return self.limit(self.numbers)

    def count_chunks(self, among: Documents) -> tuple[int, int]:
        """Return the number of embedded chunks of documents, and of those not embedded yet."""
        if isinstance(among, Unlimited):
            return self.totals
        counts = self._counts.get(among)
        if counts is None:
            others = among.others if isinstance(among, DocumentSubset) else None
            fewer = among if others is None or len(among) <= len(others) else others
            counted = list(self.among(fewer))
            counts = sum(part.embedded for part in counted), sum(part.pending for part in counted)
            if fewer is others:
                counts = self.totals[0] - counts[0], self.totals[1] - counts[1]
            _keep(self._counts, among, counts)
        return counts

    @cached_property
    def metadata(self) -> MetadataIndex:
        """Metadata of the documents, read on first use."""
        return self._read_metadata()

    def select(
        self, filters: Filters, find: Callable[[], frozenset[int] | None]
    ) -> frozenset[int] | None:
        """Return the result of `find`, which is called once for equal filters."""
        key = msgspec.json.encode(filters)
        try:
            return self._selections[key]
        except KeyError:
            found = find()
        _keep(self._selections, key, found)
        return found

    def labelled(self, suits: Callable[[CatalogEntry], bool]) -> frozenset[int] | None:
        """Return the numbers of documents whose labels match; None if all documents match.

        `suits` may use language, version, tags and kind only: it is called once for all documents
        that share these labels. A damaged document always matches, and its chunks are reported as
        damaged.
        """
        suitable = [
            numbers for example, numbers in self._groups if example.damaged or suits(example)
        ]
        return None if len(suitable) == len(self._groups) else frozenset().union(*suitable)

    def from_source(self, pattern: str) -> frozenset[int]:
        """Return the numbers of documents whose path or source URL matches a pattern.

        `*` stands for any characters, also for slashes, and `?` for one. A pattern may begin at any
        folder, unless it begins with a slash or a scheme. A damaged document always matches.
        """
        pattern = unicodedata.normalize("NFC", pattern).replace("[", "[[]")
        patterns = [pattern.removeprefix("/")]
        if not pattern.startswith("/") and "://" not in pattern:
            patterns.append(f"*/{pattern}")
        match = re.compile("|".join(fnmatch.translate(each) for each in patterns)).match
        return frozenset(
            entry.number
            for entry, sources in zip(self, self._sources, strict=True)
            if entry.damaged or any(match(source) for source in sources)
        )

    def named(self, references: Iterable[str]) -> frozenset[int]:
        """Return the numbers of the documents that match references; raises DocumentAmbiguous."""
        found = (self._references.find_one(reference) for reference in references)
        return frozenset(entry.number for entry in found if entry is not None)

    def among(self, numbers: Iterable[int]) -> Iterator[CatalogEntry]:
        """Yield the documents with these numbers."""
        return (self._entries[number] for number in numbers if number in self._entries)

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Numbers of all documents."""
        return frozenset(self._entries)

    @cached_property
    def damaged(self) -> frozenset[int]:
        """Numbers of the documents whose labels do not match their checksum."""
        return frozenset(entry.number for entry in self if entry.damaged)

    @cached_property
    def totals(self) -> tuple[int, int]:
        """Number of embedded chunks of all documents, and of those not embedded yet."""
        return sum(entry.embedded for entry in self), sum(entry.pending for entry in self)

    @cached_property
    def _groups(self) -> list[tuple[CatalogEntry, frozenset[int]]]:
        """Return the numbers of documents that share their labels, each group with an example."""
        found: dict[tuple[object, ...], list[CatalogEntry]] = {}
        for entry in self:
            labels = entry.language, entry.version, entry.tags, entry.kind, entry.damaged
            found.setdefault(labels, []).append(entry)
        return [(group[0], frozenset(part.number for part in group)) for group in found.values()]

    @cached_property
    def _references(self) -> References[CatalogEntry]:
        return References(
            self, lambda entry: (entry.number, entry.doc_id, entry.path, entry.source_url)
        )

    @cached_property
    def _sources(self) -> list[tuple[str, ...]]:
        """Return the path of each document, and its source URL if it has one."""
        return [
            tuple(
                unicodedata.normalize("NFC", source)
                for source in (entry.path.replace("\\", "/"), entry.source_url)
                if source
            )
            for entry in self
        ]


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    if len(kept) >= MAX_KEPT:
        kept.clear()
    kept[key] = value


class References(Generic[T]):
    """Lookup of documents by number, doc id, URL, path, or the end of the path.

    The first match in this order wins, so a file called `7` does not hide document 7.
    """

    def __init__(
        self, documents: Iterable[T], label: Callable[[T], tuple[int, str, str, str | None]]
    ) -> None:
        """Index documents. `label` returns number, doc id, path and declared URL of a document."""
        self._label = label
        self._exact: list[dict[str, list[T]]] = [{}, {}, {}, {}]
        self._ends: dict[str, list[T]] = {}
        for document in documents:
            number, doc_id, path, source_url = label(document)
            folders = path if "/" in path else None
            for known, name in zip(
                self._exact, (str(number), doc_id, source_url, folders), strict=True
            ):
                if name is not None:
                    known.setdefault(name, []).append(document)
            parts = path.split("/")
            for count in range(1, len(parts) + 1):
                self._ends.setdefault("/".join(parts[-count:]), []).append(document)

    def find(self, reference: str) -> list[T]:
        """Return the documents that match a reference; several if it is ambiguous."""
        for name in (reference, _without_dots(reference)):
            for known in (*self._exact, self._ends):
                if name in known:
                    return known[name]
        return []

    def find_one(self, reference: str) -> T | None:
        """Return the document that matches a reference, or None; raises DocumentAmbiguous."""
        found = self.find(reference)
        if len(found) > 1:
            labels = map(self._label, found)
            raise DocumentAmbiguous(reference, [(number, path) for number, _, path, _ in labels])
        return found[0] if found else None


_JOINTS = re.compile(r"[-_\u2010\u2011]")
MIN_PREFIX = 3
"""Minimum number of characters of a name that stands for all names that begin with it."""


def find_by_title(
    documents: Iterable[T], reference: str, label: Callable[[T], tuple[int, str, str]]
) -> T | None:
    """Return the document with a title or file name, without its ending, or with a part of either.

    `label` returns number, path and title of a document, as far as the caller may know them. Case
    does not matter, nor whether words are joined by spaces, hyphens or underscores. The first of
    these that matches wins: title, file name, beginning of either, all words in either.
    """
    wanted = _name_key(reference)
    named: list[tuple[T, str, str]] = []
    for document in documents:
        _, path, title = label(document)
        stem = path.rpartition("/")[2].rpartition(".")[0]
        named.append((document, _name_key(title), _name_key(stem or path)))
    found = [document for document, title, _ in named if wanted == title]
    found = found or [document for document, _, stem in named if wanted == stem]
    if not found and len(wanted) >= MIN_PREFIX:
        found = [document for document, *names in named if any(n.startswith(wanted) for n in names)]
        words = set(wanted.split())
        found = found or [
            document for document, *names in named if any(words <= set(n.split()) for n in names)
        ]
    if len(found) > 1:
        raise DocumentAmbiguous(reference, [label(document)[:2] for document in found])
    return found[0] if found else None


def _name_key(name: str) -> str:
    """Return a title or file name in the form in which names are compared."""
    return " ".join(_JOINTS.sub(" ", name).split()).casefold()


def _without_dots(path: str) -> str:
    """Return a relative path without `.` and empty parts."""
    if path.startswith("/"):
        return path
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def document_references(documents: Iterable[Document]) -> References[Document]:
    """Return a lookup of documents by number, doc id, URL and path."""
    return References(
        documents, lambda found: (found.number, found.doc_id, found.shown_path, found.source_url)
    )


class MetadataIndex:
    """Metadata of all documents in one state of a world; each key is indexed on first use.

    A document in `damaged` meets no condition, not even that a key is absent: its metadata cannot
    be trusted.
    """

    def __init__(
        self, metadata: Iterable[tuple[int, Mapping[str, Any]]], damaged: Iterable[int] = ()
    ) -> None:
        self.damaged = frozenset(damaged)
        self._stored: dict[str, dict[int, Any]] = {}
        self._keys: dict[str, _KeyIndex] = {}
        numbers = []
        for number, members in metadata:
            numbers.append(number)
            for key, value in members.items():
                if value is not None:
                    self._stored.setdefault(key, {})[number] = value
        self._documents = frozenset(numbers)

    def __iter__(self) -> Iterator[str]:
        """Yield every key that a document has."""
        return iter(self._stored)

    def among(self, numbers: frozenset[int]) -> MetadataIndex:
        """Return the metadata of some documents."""
        limited = MetadataIndex((), self.damaged & numbers)
        limited._documents = self._documents & numbers
        for key, values in self._stored.items():
            if own := {number: values[number] for number in values if number in numbers}:
                limited._stored[key] = own
        return limited

    def stored(self, key: str) -> Mapping[int, Any]:
        """Return the values under a key by document number."""
        return self._stored.get(key, {})

    def matching(self, conditions: Iterable[Condition]) -> frozenset[int]:
        """Return the documents that meet all conditions."""
        found = self._documents
        for condition in conditions:
            stored = self.stored(condition.key)
            if condition.compares:
                index = self._keys.get(condition.key)
                if index is None:
                    index = self._keys[condition.key] = _KeyIndex(stored)
                found &= index.matching(condition)
            else:
                found = found.intersection(stored) if condition.exists else found.difference(stored)
        return found


class _KeyIndex:
    """Sorted values of one key, each with its document."""

    def __init__(self, stored: Mapping[int, Any]) -> None:
        pairs: dict[ValueKind, list[tuple[Any, int]]] = {}
        known: dict[tuple[type, Any], tuple[Value, ...]] = {}
        for number, value in stored.items():
            # Many documents share a few values, and typing a value dominates the time.
            key = type(value), str(value) if isinstance(value, list | dict) else value
            values = known.get(key)
            if values is None:
                values = known[key] = type_values(value)
            for typed in values:
                pairs.setdefault(typed.kind, []).append((typed.key, number))
        self._values: dict[ValueKind, tuple[list[Any], list[int]]] = {}
        for kind, found in pairs.items():
            found.sort()
            self._values[kind] = [pair[0] for pair in found], [pair[1] for pair in found]

    def matching(self, condition: Condition) -> frozenset[int]:
        """Return the documents that have a value accepted by the condition."""
        bounds = {
            name: bound
            for name in ("gt", "gte", "lt", "lte")
            if (bound := type_value(getattr(condition, name))) is not None
        }
        wanted = [value for part in condition.any_of or () if (value := type_value(part))]
        kinds = {value.kind for value in (*bounds.values(), *wanted)}
        found: set[int] = set()
        for kind in kinds & self._values.keys():
            if any(bound.kind is not kind for bound in bounds.values()):
                continue
            keys, numbers = self._values[kind]
            start, end = _within(keys, bounds)
            same = [value for value in wanted if value.kind is kind]
            parts = [_equal(keys, value) for value in same]
            for first, last in parts if condition.any_of is not None else [(start, end)]:
                found.update(numbers[max(first, start) : min(last, end)])
        return frozenset(found)


def _within(keys: list[Any], bounds: Mapping[str, Value]) -> tuple[int, int]:
    """Return the range of sorted keys within bounds; a date as a bound covers the whole day."""
    start, end = 0, len(keys)
    for name, bound in bounds.items():
        first: Any = bound.key
        past = bisect_left(keys, first + bound.length) if bound.length else None
        match name:
            case "gte":
                start = max(start, bisect_left(keys, first))
            case "gt":
                start = max(start, bisect_right(keys, first) if past is None else past)
            case "lt":
                end = min(end, bisect_left(keys, first))
            case _:
                end = min(end, bisect_right(keys, first) if past is None else past)
    return start, end


def _equal(keys: list[Any], wanted: Value) -> tuple[int, int]:
    """Return the range of sorted keys that equal a value, or are within a date."""
    first: Any = wanted.key
    if wanted.length:
        return bisect_left(keys, first), bisect_left(keys, first + wanted.length)
    return bisect_left(keys, first), bisect_right(keys, first)
