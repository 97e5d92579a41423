"""Documents and revisions: as they are written, as they are listed, and their words."""

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
"""In packed postings, a chunk's index and how often a term is in it."""


class DocumentStatus(StrEnum):
    """How much of a document can be found."""

    READY = "ready"
    INGESTING = "ingesting"
    """Its first revision is not complete, so that nothing of it can be found yet."""
    UPDATING = "updating"
    """A new revision is not complete; the earlier one is found until then."""
    INCOMPLETE = "incomplete"
    """Some of its chunks are not embedded, or are longer than the model reads."""
    DAMAGED = "damaged"
    """Labels do not match their checksum, or chunks are quarantined."""


class DocumentSort(StrEnum):
    """What a list of documents can be sorted by."""

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
    """One revision of one document of the scope's world."""

    document: int
    revision: int


MeasuredSentence: TypeAlias = tuple[int, int, int, int, bytes]
"""Number, start, end, token count and digest of a sentence, as its row has them."""


class MeasuredSentences(NumberedRows[MeasuredSentence]):
    """The sentences of a revision in order: their starts, ends, token counts and digests."""

    __slots__ = ()

    def make(self, *cells: Any) -> MeasuredSentence:
        return cells

    def __iter__(self) -> Iterator[MeasuredSentence]:
        return cast("Iterator[MeasuredSentence]", zip(range(len(self)), *self.columns, strict=True))


class AuditEntry(Struct, frozen=True):
    """How often one rule of the sanitiser found something; never what it found."""

    label: str
    rule: str
    count: int
    redacted: bool


class Draft(Struct, frozen=True):
    """Everything one revision consists of, ready to be written.

    `source_hash` and `recipe` together say whether ingesting again could change anything: the
    first covers the bytes, the second all that was done to them.
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
    """The title that the source's own fields give, apart from its text."""
    language_stated: bool = False
    """Whether the language is one that the source states, and not the caller."""
    source_url: str | None = None
    metadata: str | None = None
    """Metadata of the caller, as a JSON object."""
    origin: str = ""
    shown_path: str = ""
    properties: Properties = field(default_factory=Properties)
    validators: Validators | None = None
    """What the server said of this version of a web page."""
    figures: tuple[FigureRecord, ...] = ()
    images: tuple[Image, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    notes: tuple[str, ...] = ()
    """What is worth a line in the log, without words of the text."""
    remarks: tuple[str, ...] = ()
    """Sentences for the report of the run; unlike notes, they may quote the text."""
    words: CountedWords | None = None
    """The words of its chunks; None if they are not counted while ingesting."""


def assets_token(source_hash: str, recipe: str) -> str:
    """Return the name under which a revision's images wait; known before the revision is."""
    return f"{source_hash[:16]}-{recipe[:16]}"


class Document(Struct, frozen=True, gc=False):
    """A document as it stands. `active` is None until its first revision is complete."""

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
    """Labels, `source_hash` and `recipe` are of the staged revision, else of the active one."""
    chunks: int
    embedded: int
    quarantined: int
    characters: int
    sentences: int
    language_stated: bool = False
    source_url: str | None = None
    metadata: str | None = None
    skipped: int = 0
    """Chunks that were left out because the model reads less than they hold."""
    origin: str = ""
    """The manifest that named it, if one did."""
    damaged: bool = False
    """Whether labels or metadata do not match their checksum, so that they cannot be believed."""
    shown_path: str = ""
    """What results show of its path: from the folder that was ingested on; an upload's name."""
    provider: str | UnsetType = UNSET
    """Of its embedding model. This member and the following are there in `contract` worlds only."""
    model: str | UnsetType = UNSET
    dimensions: int | UnsetType = UNSET
    space_id: str | UnsetType = UNSET
    """The id of the world."""

    @property
    def status(self) -> DocumentStatus:
        """Return how much of it can be found; what is worst counts."""
        if self.damaged or self.quarantined:
            return DocumentStatus.DAMAGED
        if self.active is None:
            return DocumentStatus.INGESTING
        if self.staged is not None:
            return DocumentStatus.UPDATING
        return DocumentStatus.READY if self.embedded == self.chunks else DocumentStatus.INCOMPLETE

    @property
    def declared_language(self) -> str | None:
        """Return the language that the caller declared; None if it was stated or detected."""
        return self.language if self.language_declared and not self.language_stated else None

    @property
    def declared(self) -> DocumentOptions:
        """Return the options that were declared when the document was last ingested."""
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
    """Some documents of a list, from the one at `first` on, and how many the whole list has.

    `statuses` counts the documents of each status, whichever status was asked for.
    """

    documents: tuple[Document, ...]
    first: int
    total: int
    statuses: dict[DocumentStatus, int]


class CatalogEntry(Struct, frozen=True):
    """What filters need to know of a document in force."""

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
    """What results show of the path of its file."""
    source_url: str | None = None
    """The declared one."""


class References(Generic[T]):
    """Documents by all that refers to them: number, doc id, URL, path, or the end of the path.

    Whatever comes first in this order counts, so that a file called `7` does not hide document 7.
    """

    def __init__(
        self,
        documents: Iterable[T],
        label: Callable[[T], tuple[int, str, str, str | None]],
    ) -> None:
        """`label` returns number, doc id, path and declared URL of a document."""
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
        """Return the documents that a reference names; several if it is ambiguous."""
        for name in (reference, _without_dots(reference)):
            for known in (*self._exact, self._ends):
                if name in known:
                    return known[name]
        return []

    def find_one(self, reference: str) -> T | None:
        """Return the document that a reference names; None if there is none.

        Raises:
            DocumentAmbiguous: it names several.
        """
        found = self.find(reference)
        if len(found) > 1:
            labels = map(self._label, found)
            raise DocumentAmbiguous(reference, [(number, path) for number, _, path, _ in labels])
        return found[0] if found else None


def _without_dots(path: str) -> str:
    """Return a relative path without `.` and empty parts, as documents are called."""
    if path.startswith("/"):
        return path
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def document_references(documents: Iterable[Document]) -> References[Document]:
    """Return documents by all that refers to them."""
    return References(
        documents,
        lambda found: (found.number, found.doc_id, found.shown_path, found.source_url),
    )


class OutlineEntry(Struct, frozen=True):
    """Where a chapter or section of a document begins."""

    first_sid: int
    start: int
    chapter: str | None
    section: str | None


class Derived(Struct, frozen=True):
    """What became of deriving a revision's metadata: a JSON object, or the code of a failure."""

    revision: RevisionRef
    metadata: str | None = None
    error: str | None = None


class Derivable(Struct, frozen=True):
    """What metadata are derived from: a revision's labels, its own words about itself, its text."""

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
    """What the chunks of a revision are made of, as it is stored.

    `figures` are chunks of kind `figure` as another generation has them: their text is kept, only
    the chunks they stand in differ.
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
    """A generation, and whether the world or a domain sends readers to it."""

    generation: Generation
    named: bool


class GenerationRecord(Struct, frozen=True):
    """A generation in numbers. `missing` counts documents that it has no chunks of yet."""

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
        """Say whether it has every document that readers of the world see, fully embedded."""
        return self.missing == 0 and self.pending == 0


class DomainRecord(Struct, frozen=True):
    """A domain: a library-wide name for one generation of one world."""

    key: str
    world: str
    world_name: str
    generation: int


class WorldStatus(Struct, frozen=True):
    """A world in numbers."""

    documents: int
    chunks: int
    embedded: int
    pending: int
    quarantined: int
    repairs: int
    vectors: int
    missing: int | None = 0
    """Embedded chunks that the index has lost; None if it could not be counted."""


Documents = frozenset[int] | Unlimited


class DocumentCatalog:
    """Every document in force, by number.

    It is cached until the world changes. What can be counted once is, so that a request
    costs the same in a world of a thousand documents and of a million. `read_metadata` is called
    when metadata are needed for the first time.
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
        """The metadata of the documents.

        They are read later than the labels. A request that saw the world change in between is
        repeated with another catalog.
        """
        return self._read_metadata()

    def select(
        self, filters: Filters, find: Callable[[], frozenset[int] | None]
    ) -> frozenset[int] | None:
        """Return what `find` gives for filters, which is called once for equal filters."""
        key = msgspec.json.encode(filters)
        try:
            return self._selections[key]
        except KeyError:
            found = find()
        _keep(self._selections, key, found)
        return found

    def labelled(self, suits: Callable[[CatalogEntry], bool]) -> frozenset[int] | None:
        """Return the numbers of documents whose labels suit; None when those of all do.

        Only language, version, tags and kind may be looked at: one document is asked for all that
        have the same. A damaged document always matches: its chunks are then found damaged.
        """
        suitable = [
            numbers for example, numbers in self._groups if example.damaged or suits(example)
        ]
        return None if len(suitable) == len(self._groups) else frozenset().union(*suitable)

    def from_source(self, pattern: str) -> frozenset[int]:
        """Return the numbers of documents whose path or source URL matches a pattern.

        `*` stands for any characters, also for slashes, and `?` for one. A pattern may begin at any
        folder, unless it begins with a slash or a scheme. A damaged document suits.
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
        """Return the numbers of the documents that are referred to; see `References`.

        Raises:
            DocumentAmbiguous: a reference names several.
        """
        found = (self._references.find_one(reference) for reference in references)
        return frozenset(entry.number for entry in found if entry is not None)

    def among(self, numbers: Iterable[int]) -> Iterator[CatalogEntry]:
        """Give the documents with these numbers."""
        return (self._entries[number] for number in numbers if number in self._entries)

    @cached_property
    def numbers(self) -> frozenset[int]:
        """The numbers of all documents."""
        return frozenset(self._entries)

    @cached_property
    def damaged(self) -> frozenset[int]:
        """The documents whose labels do not match their checksum."""
        return frozenset(entry.number for entry in self if entry.damaged)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        return sum(entry.embedded for entry in self), sum(entry.pending for entry in self)

    @cached_property
    def _groups(self) -> list[tuple[CatalogEntry, frozenset[int]]]:
        """Return the documents with the same labels, with one that stands for all of them."""
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
"""How many results of filters are cached; most are used many times or never again."""


def _keep(kept: dict[Key, Value], key: Key, value: Value) -> None:
    if len(kept) >= MAX_KEPT:
        kept.clear()
    kept[key] = value


class WordEntry(Struct, frozen=True):
    """A revision in force as word search sees it.

    `key` names it in postings, or `segment` together with `ref`. `recipe` says how its words were
    made, None when they were not counted; `fresh` is false when its chunks are not the ones that
    were counted.
    """

    key: int
    segment: int
    """The key under which its postings lie: its own, or that of a revision that shares its rows."""
    ref: RevisionRef
    language: str
    recipe: str | None
    fresh: bool
    lengths: Mapping[int, int]
    """Words of each chunk that is embedded and counted, by its index."""


class WordCatalog(Struct, frozen=True, eq=False, weakref=True):
    """The revisions in force of one state of a world, by document number; itself and no equal."""

    entries: tuple[WordEntry, ...]


class RevisionChunk(Struct, frozen=True):
    """A chunk of a revision, as its row says.

    `seen_from` is the position from which on it is read whole. `trusted` says whether the row
    matches its checksum and the chunk is not quarantined; otherwise nothing of it can be believed.
    """

    index: int
    seen_from: int
    text_hash: TextHash
    trusted: bool
    embedded: bool
    words: int | None
    """How many words it has; None if they were not counted."""


class RevisionWords(Struct, frozen=True, eq=False, weakref=True):
    """The chunks and the words of one revision, as a reader's search needs them; itself and no
    equal.

    `recipe` is that of a `WordEntry`; `fresh` is false when a counted chunk has another text now.
    """

    key: int
    recipe: str | None
    fresh: bool
    chunks: Mapping[ChunkId, RevisionChunk]


class CountableChunk(Struct, frozen=True):
    """A chunk's bytes as they were read, and the hash they had when they were written."""

    index: int
    data: bytes
    text_hash: TextHash


class CountedWords(Struct, frozen=True):
    """The words of the chunks of a revision, as they are counted when the chunks are written.

    `terms` are in order. For each, `chunks` says in how many chunks it stands, and `packed` which
    those are, one term after another, as in `Postings`. `hashes` are the texts that were counted,
    `lengths` their words. A chunk whose bytes could not be trusted is in none of them.
    """

    recipe: str
    hashes: Mapping[int, TextHash]
    lengths: Mapping[int, int]
    terms: Sequence[str]
    chunks: Sequence[int]
    packed: bytes

    def postings(self) -> Iterator[tuple[str, bytes]]:
        """Yield each term with the packed places where it stands."""
        start = 0
        for term, count in zip(self.terms, self.chunks, strict=True):
            end = start + PAIR.size * count
            yield term, self.packed[start:end]
            start = end

    def places(self, term: str) -> dict[int, int]:
        """Return the indexes of the chunks that contain a term, and how often each does."""
        row = bisect_left(self.terms, term)
        if row == len(self.terms) or self.terms[row] != term:
            return {}
        start = PAIR.size * sum(self.chunks[:row])
        return dict(PAIR.iter_unpack(self.packed[start : start + PAIR.size * self.chunks[row]]))


class CountedRevision(Struct, frozen=True):
    """The counted words of a revision."""

    ref: RevisionRef
    words: CountedWords


class Postings(Struct, frozen=True):
    """Where a term stands: in which revisions, in how many chunks of each, and which.

    `keys` are those of the rows. `refs` are the numbers of document and revision where a row has
    postings of several revisions; zeros where the key is that of the revision.
    `packed` has six bytes for each of those chunks: its index in four, how often the term is in it
    in two, both little-endian.
    """

    keys: list[int]
    refs: list[tuple[int, int]]
    chunks: list[int]
    packed: bytes
    damaged: list[int]
    """The keys of rows that do not match their checksum."""
