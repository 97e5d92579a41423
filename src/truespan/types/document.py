"""Documents and revisions as they are written and listed, and the counts of their words."""

from __future__ import annotations

import fnmatch
import re
import struct
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from truespan.errors import DocumentAmbiguous
from truespan.types.chunk import FigureRecord, NewChunk
from truespan.types.ids import ChunkId, TextHash
from truespan.types.metadata_index import MetadataIndex
from truespan.types.profile import ChunkingProfile
from truespan.types.request import Filters
from truespan.types.scope import Generation, MostDocuments, Unlimited
from truespan.types.source import DocumentKind, DocumentOptions
from truespan.types.text import (
    CanonicalText,
    Image,
    NumberedRows,
    PageStart,
    Place,
    Properties,
    Sentence,
    Validators,
)

T = TypeVar("T")

PAIR = struct.Struct("<IH")
"""An entry of packed postings: the index of a chunk and the number of times the term occurs."""


class DocumentStatus(StrEnum):
    """State of a document for search."""

    READY = "ready"
    INGESTING = "ingesting"
    """The first revision is not complete, so the document is not searchable yet."""
    UPDATING = "updating"
    """A new revision is not complete; searches use the previous one."""
    INCOMPLETE = "incomplete"
    """Some chunks are not embedded, or are longer than the input limit of the model."""
    DAMAGED = "damaged"
    """Labels do not match their checksum, or chunks are quarantined."""


class DocumentSort(StrEnum):
    """Sort key of a list of documents."""

    NUMBER = "number"
    TITLE = "title"
    PATH = "path"
    STATUS = "status"
    KIND = "kind"
    LANGUAGE = "language"
    VERSION = "version"
    CHARACTERS = "characters"
    CHUNKS = "chunks"


PAGE_DOCUMENTS = 100
MAX_PAGE_DOCUMENTS = 1000
MAX_DOCUMENT_SEARCH_LENGTH = 200


class RevisionRef(Struct, frozen=True, gc=False):
    """A revision of a document in the world of the scope."""

    document: int
    revision: int


MeasuredSentence: TypeAlias = tuple[int, int, int, int, bytes]
"""Number, start, end, token count and digest of a sentence, as stored in its row."""


class MeasuredSentences(NumberedRows[MeasuredSentence]):
    """Sentences of a revision in order, as columns of starts, ends, token counts and digests."""

    __slots__ = ()

    def make(self, *cells: Any) -> MeasuredSentence:
        return cells

    def __iter__(self) -> Iterator[MeasuredSentence]:
        return cast("Iterator[MeasuredSentence]", zip(range(len(self)), *self.columns, strict=True))


class AuditEntry(Struct, frozen=True):
    """Number of findings of one rule of the sanitizer, without the text that it found."""

    label: str
    rule: str
    count: int
    redacted: bool


class Draft(Struct, frozen=True):
    """A complete revision, ready to be written.

    `source_hash` identifies the bytes of the source and `recipe` how they were processed. If both
    are unchanged, ingesting again would change nothing.
    """

    doc_id: str
    name: str
    path: str
    kind: DocumentKind
    title: str
    language: str
    language_declared: bool
    version: str
    declared_title: str | None
    tags: tuple[str, ...]
    chunking: ChunkingProfile
    source_hash: str
    recipe: str
    canonical: CanonicalText
    sentences: Sequence[MeasuredSentence]
    chunks: tuple[NewChunk, ...]
    stated_title: str | None = None
    """Title from the metadata fields of the source, not from its text."""
    language_stated: bool = False
    """Whether the source states the language, not the caller."""
    source_url: str | None = None
    metadata: str | None = None
    """Declared metadata, as a JSON object."""
    origin: str = ""
    shown_path: str = ""
    properties: Properties = field(default_factory=Properties)
    validators: Validators | None = None
    """HTTP validators of this version of a web page."""
    figures: tuple[FigureRecord, ...] = ()
    images: tuple[Image, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    notes: tuple[str, ...] = ()
    """Lines for the log. They contain no text of the document."""
    remarks: tuple[str, ...] = ()
    """Sentences for the report of the run. Unlike notes, they may quote the text."""
    words: CountedWords | None = None
    """Counted words of the chunks; None if they are not counted during ingestion."""


def assets_token(source_hash: str, recipe: str) -> str:
    """Return the name under which the images of a revision are staged before it has a number."""
    return f"{source_hash[:16]}-{recipe[:16]}"


class Document(Struct, frozen=True, gc=False):
    """A document in its current state. `active` is None until its first revision is complete."""

    number: int
    doc_id: str
    name: str
    path: str
    kind: DocumentKind
    title: str
    language: str
    version: str
    tags: tuple[str, ...]
    declared_title: str | None
    language_declared: bool
    chunking: str
    active: int | None
    staged: int | None
    source_hash: str
    recipe: str
    """Recipe of the staged revision, else of the active one; likewise `source_hash` and labels."""
    chunks: int
    embedded: int
    quarantined: int
    characters: int
    sentences: int
    language_stated: bool = False
    source_url: str | None = None
    metadata: str | None = None
    skipped: int = 0
    """Number of chunks left out because they exceed the input limit of the model."""
    origin: str = ""
    """Manifest that listed the document; empty if none did."""
    damaged: bool = False
    """Whether labels or metadata do not match their checksum and cannot be trusted."""
    shown_path: str = ""
    """Path shown in results, relative to the ingested folder; the name of an upload."""
    provider: str | UnsetType = UNSET
    """Provider of the embedding model. Set in `contract` worlds only, like the fields below."""
    model: str | UnsetType = UNSET
    dimensions: int | UnsetType = UNSET
    space_id: str | UnsetType = UNSET
    """Id of the world."""

    @property
    def status(self) -> DocumentStatus:
        """Return the status; the worst condition wins."""
        if self.damaged or self.quarantined:
            return DocumentStatus.DAMAGED
        if self.active is None:
            return DocumentStatus.INGESTING
        if self.staged is not None:
            return DocumentStatus.UPDATING
        return DocumentStatus.READY if self.embedded == self.chunks else DocumentStatus.INCOMPLETE

    @property
    def declared_language(self) -> str | None:
        """Return the declared language; None if the source stated it or it was detected."""
        return self.language if self.language_declared and not self.language_stated else None

    @property
    def declared(self) -> DocumentOptions:
        """Return the options declared when the document was last ingested."""
        return DocumentOptions(
            kind=self.kind,
            title=self.declared_title,
            language=self.declared_language,
            version=self.version,
            chunking=self.chunking,
            tags=self.tags,
            source_url=self.source_url,
            metadata=self.metadata,
        )


class DocumentPage(Struct, frozen=True):
    """A page of a list of documents, starting at index `first`, and the length of the whole list.

    `statuses` counts the documents of each status, also when the list is filtered by status.
    """

    documents: tuple[Document, ...]
    first: int
    total: int
    statuses: dict[DocumentStatus, int]


class CatalogEntry(Struct, frozen=True):
    """Fields of an active document that filters use."""

    number: int
    doc_id: str
    name: str
    language: str
    language_declared: bool
    version: str
    tags: tuple[str, ...]
    embedded: int
    pending: int
    damaged: bool = False
    kind: str = DocumentKind.DOCUMENT
    path: str = ""
    """Path shown in results."""
    source_url: str | None = None
    """Declared URL."""


class References(Generic[T]):
    """Lookup of documents by number, doc id, URL, path, or the end of the path.

    The first match in this order wins, so a file called `7` does not hide document 7.
    """

    def __init__(
        self,
        documents: Iterable[T],
        label: Callable[[T], tuple[int, str, str, str | None]],
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
        """Return the document that matches a reference; None if there is none.

        Raises:
            DocumentAmbiguous: several documents match the reference.
        """
        found = self.find(reference)
        if len(found) > 1:
            labels = map(self._label, found)
            raise DocumentAmbiguous(reference, [(number, path) for number, _, path, _ in labels])
        return found[0] if found else None


def _without_dots(path: str) -> str:
    """Return a relative path without `.` and empty parts."""
    if path.startswith("/"):
        return path
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def document_references(documents: Iterable[Document]) -> References[Document]:
    """Return a lookup of documents by number, doc id, URL and path."""
    return References(
        documents,
        lambda found: (found.number, found.doc_id, found.shown_path, found.source_url),
    )


class OutlineEntry(Struct, frozen=True):
    """Start of a chapter or section of a document."""

    first_sid: int
    start: int
    chapter: str | None
    section: str | None


class Derived(Struct, frozen=True):
    """Derived metadata of a revision: a JSON object, or the error code of a failure."""

    revision: RevisionRef
    metadata: str | None = None
    error: str | None = None


class Derivable(Struct, frozen=True):
    """Input for deriving metadata: labels, stated properties, text and outline of a revision."""

    title: str
    declared_title: str | None
    language: str
    language_declared: bool
    metadata: str | None
    properties: Properties
    text: str
    outline: tuple[OutlineEntry, ...]
    sentences: int


class StoredText(Struct, frozen=True):
    """Stored text and structure of a revision, from which its chunks are made.

    `figures` are the figure chunks of another generation. Their text is reused; only the chunks
    that contain them differ.
    """

    text: str
    language: str
    starts: tuple[int, ...]
    places: tuple[Place, ...]
    pages: tuple[PageStart, ...]
    sentences: tuple[Sentence, ...]
    chunking: ChunkingProfile
    figures: tuple[NewChunk, ...] = ()


class KeptGeneration(Struct, frozen=True):
    """A generation, and whether it is the default of the world or the target of a domain."""

    generation: Generation
    named: bool


class GenerationRecord(Struct, frozen=True):
    """Counts of a generation. `missing` is the number of documents without chunks in it."""

    generation: Generation
    created_at: float
    documents: int
    chunks: int
    embedded: int
    pending: int
    quarantined: int
    missing: int
    is_default: bool
    domains: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every active document of the world is fully embedded in the generation."""
        return self.missing == 0 and self.pending == 0


class DomainRecord(Struct, frozen=True):
    """A domain: a library-wide name for one generation of one world."""

    key: str
    world: str
    world_name: str
    generation: int


class WorldStatus(Struct, frozen=True):
    """Counts of a world."""

    documents: int
    chunks: int
    embedded: int
    pending: int
    quarantined: int
    repairs: int
    vectors: int
    missing: int | None = 0
    """Number of embedded chunks that the index lacks; None if it could not be counted."""


Documents = frozenset[int] | Unlimited


class DocumentCatalog:
    """The active documents of a world by number, cached until the world changes.

    Totals and selections are computed once, so that the cost of a request does not grow with the
    number of documents. `read_metadata` is called when metadata are first needed.
    """

    def __init__(
        self,
        entries: Iterable[CatalogEntry],
        read_metadata: Callable[[], MetadataIndex] = lambda: MetadataIndex(()),
    ) -> None:
        self._entries = {entry.number: entry for entry in entries}
        self._read_metadata = read_metadata
        self._selections: dict[bytes, frozenset[int] | None] = {}
        self._counts: dict[frozenset[int], tuple[int, int]] = {}

    def __iter__(self) -> Iterator[CatalogEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def embedded(self, among: Documents) -> int:
        return self._count(among)[0]

    def pending(self, among: Documents) -> int:
        return self._count(among)[1]

    def _count(self, among: Documents) -> tuple[int, int]:
        if isinstance(among, Unlimited):
            return self._totals
        counts = self._counts.get(among)
        if counts is None:
            most = isinstance(among, MostDocuments)
            counted = list(self.among(among.others if most else among))
            counts = sum(part.embedded for part in counted), sum(part.pending for part in counted)
            if most:
                counts = self._totals[0] - counts[0], self._totals[1] - counts[1]
            _keep(self._counts, among, counts)
        return counts

    @cached_property
    def metadata(self) -> MetadataIndex:
        """Metadata of the documents, read on first use.

        A request during which the world changed is repeated with another catalog.
        """
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
        """Return the numbers of the documents that match references; see `References`.

        Raises:
            DocumentAmbiguous: a reference matches several documents.
        """
        found = (self._references.find_one(reference) for reference in references)
        return frozenset(entry.number for entry in found if entry is not None)

    def among(self, numbers: Iterable[int]) -> Iterator[CatalogEntry]:
        """Yield the documents with the given numbers."""
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
    def _totals(self) -> tuple[int, int]:
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


Key = TypeVar("Key")
Value = TypeVar("Value")
MAX_KEPT = 64
"""Maximum number of cached filter results."""


def _keep(kept: dict[Key, Value], key: Key, value: Value) -> None:
    if len(kept) >= MAX_KEPT:
        kept.clear()
    kept[key] = value


class WordEntry(Struct, frozen=True):
    """An active revision for keyword search.

    Postings refer to the revision by `key`, or by `segment` and `ref`. `recipe` identifies the word
    rules; it is None if the words were not counted. `fresh` is false if the chunks have changed
    since the words were counted.
    """

    key: int
    segment: int
    """Key of the postings rows: the own key, or the key of a revision that shares the rows."""
    ref: RevisionRef
    language: str
    recipe: str | None
    fresh: bool
    lengths: Mapping[int, int]
    """Number of words of each embedded and counted chunk, by chunk index."""


class WordCatalog(Struct, frozen=True, eq=False, weakref=True):
    """The active revisions of one state of a world, by document number. Compared by identity."""

    entries: tuple[WordEntry, ...]


class RevisionChunk(Struct, frozen=True):
    """A chunk of a revision, from its row.

    `seen_from` is the first position at which all of the chunk has been read. `trusted` is true if
    the row matches its checksum and the chunk is not quarantined.
    """

    index: int
    seen_from: int
    text_hash: TextHash
    trusted: bool
    embedded: bool
    words: int | None
    """Number of words; None if they were not counted."""


class RevisionWords(Struct, frozen=True, eq=False, weakref=True):
    """Chunks and word counts of one revision, for searches of a reader. Compared by identity.

    `recipe` and `fresh` have the same meaning as in `WordEntry`.
    """

    key: int
    recipe: str | None
    fresh: bool
    chunks: Mapping[ChunkId, RevisionChunk]


class CountableChunk(Struct, frozen=True):
    """The bytes of a chunk as read, and their hash at the time of writing."""

    index: int
    data: bytes
    text_hash: TextHash


class CountedWords(Struct, frozen=True):
    """Word counts of the chunks of a revision, made when the chunks are written.

    `terms` are sorted. `chunks` has the number of chunks that contain each term, and `packed` the
    chunks themselves, term by term, as in `Postings`. `hashes` and `lengths` have the text hash and
    the number of words of each counted chunk. A chunk whose bytes could not be trusted is not
    counted.
    """

    recipe: str
    hashes: Mapping[int, TextHash]
    lengths: Mapping[int, int]
    terms: Sequence[str]
    chunks: Sequence[int]
    packed: bytes

    def postings(self) -> Iterator[tuple[str, bytes]]:
        """Yield each term with its packed postings."""
        start = 0
        for term, count in zip(self.terms, self.chunks, strict=True):
            end = start + PAIR.size * count
            yield term, self.packed[start:end]
            start = end

    def places(self, term: str) -> dict[int, int]:
        """Return the chunks that contain a term: index and number of occurrences."""
        row = bisect_left(self.terms, term)
        if row == len(self.terms) or self.terms[row] != term:
            return {}
        start = PAIR.size * sum(self.chunks[:row])
        return dict(PAIR.iter_unpack(self.packed[start : start + PAIR.size * self.chunks[row]]))


class CountedRevision(Struct, frozen=True):
    """Word counts of a revision."""

    ref: RevisionRef
    words: CountedWords


class Postings(Struct, frozen=True):
    """Occurrences of a term: the revisions, the number of chunks in each, and the chunks.

    `keys` are the keys of the rows. `refs` are the document and revision numbers if a row has the
    postings of several revisions; zeros if the key identifies the revision. `packed` has six bytes
    for each chunk, little-endian: its index in four, the number of occurrences in two.
    """

    keys: list[int]
    refs: list[tuple[int, int]]
    chunks: list[int]
    packed: bytes
    damaged: list[int]
    """Keys of the rows that do not match their checksum."""
