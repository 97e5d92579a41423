"""Documents and revisions as they are written and listed, their word counts, and facets."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, cast

from msgspec import UNSET, Struct, UnsetType, field

from truespan.types.audience import EVERYONE, Audience
from truespan.types.bundle import Notice
from truespan.types.chunk import DocumentNames, FigureRecord, NewChunk
from truespan.types.ids import ChunkId, TextHash
from truespan.types.metadata import ValueKind
from truespan.types.profile import ChunkingProfile
from truespan.types.scope import Generation
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


class DocumentRecord(DocumentNames, frozen=True, kw_only=True):
    """Names, labels and recipe of a document and revision.

    `source_hash` identifies the bytes of the source and `recipe` how they were processed. If both
    are unchanged, ingesting again would change nothing.
    """

    path: str
    kind: DocumentKind
    title: str
    declared_title: str | None
    source_hash: str
    recipe: str
    language_stated: bool = False
    """Whether the source states the language, not the caller."""
    metadata: str | None = None
    """Declared metadata, as a JSON object."""
    origin: str = ""
    """Manifest that listed the document; empty if none did."""
    shown_path: str = ""
    """Path shown in results, relative to the ingested folder; the name of an upload."""
    audience: Audience = (EVERYONE,)
    """Labels of the callers who see the document; empty for the owner alone, and if damaged."""


class Draft(DocumentRecord, frozen=True, kw_only=True):
    """A complete revision, ready to be written."""

    chunking: ChunkingProfile
    canonical: CanonicalText
    sentences: Sequence[MeasuredSentence]
    chunks: tuple[NewChunk, ...]
    stated_title: str | None = None
    """Title from the metadata fields of the source, not from its text."""
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


class Document(DocumentRecord, frozen=True, kw_only=True, gc=False):
    """A document in its current state. `active` is None until its first revision is complete.

    Labels and recipe are those of the staged revision, else of the active one.
    """

    number: int
    chunking: str
    active: int | None
    staged: int | None
    chunks: int
    embedded: int
    quarantined: int
    characters: int
    sentences: int
    skipped: int = 0
    """Number of chunks left out because they exceed the input limit of the model."""
    damaged: bool = False
    """Whether labels or metadata do not match their checksum and cannot be trusted."""
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
            audience=self.audience,
        )


class DocumentPage(Struct, frozen=True):
    """A page of a list of documents, starting at `offset`, and the length of the whole list.

    `statuses` counts the documents of each status, also when the list is filtered by status.
    """

    documents: tuple[Document, ...]
    offset: int
    total: int
    statuses: dict[DocumentStatus, int]


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


class Verdict(Struct, frozen=True):
    """Result of a gate of promotion: whether it passed, and all reasons against it."""

    passed: bool
    reasons: tuple[Notice, ...]


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
    word_states: int = 0
    """Number of texts with stored states of words."""
    missing: int | None = 0
    """Number of embedded chunks that the index lacks; None if it could not be counted."""


class WordEntry(Struct, frozen=True):
    """An active revision for keyword search.

    `segment` and `ref` identify its postings. `recipe` identifies the word rules; it is None if the
    words were not counted. `fresh` is false if the chunks have changed since then.
    """

    key: int
    segment: int
    """Key of the first revision of its segment, or its own key until its words are counted."""
    ref: RevisionRef
    language: str
    recipe: str | None
    fresh: bool
    lengths: Mapping[int, int]
    """Number of words of each embedded and counted chunk, by chunk index."""
    languages: Mapping[int, str]
    """Language of each chunk in another language than the document, by chunk index."""
    miscounted: Mapping[int, TextHash] = field(default_factory=dict)
    """Pending chunks that the tally may count as embedded, by chunk index; empty if it is right."""


class WordCatalog(Struct, frozen=True, eq=False, weakref=True):
    """The active revisions of one state of a world, by document number. Compared by identity."""

    entries: tuple[WordEntry, ...]


class Vocabulary(Struct, frozen=True, eq=False, weakref=True):
    """Terms with counted words, of a generation or of the segment of a revision, each once.

    Some may occur in inactive revisions alone, or in other documents. Compared by identity.
    """

    terms: tuple[str, ...]


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
    language: str | None = None
    """Language of the text; None if it is that of the document."""
    miscounted: bool = False
    """Whether the chunk is pending, and the tally may count it as embedded."""


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
    the number of words of each counted chunk, `languages` the codes of the chunks in another
    language than the document. A chunk whose bytes could not be trusted is not counted.
    """

    recipe: str
    hashes: Mapping[int, TextHash]
    lengths: Mapping[int, int]
    terms: Sequence[str]
    chunks: Sequence[int]
    packed: bytes
    languages: Mapping[int, str] = {}

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
    """Occurrences of a term: the revisions that contain it, and the chunks of each.

    For each revision, `keys` has its segment, `refs` the numbers of document and revision, and
    `chunks` the number of chunks. `packed` has six bytes for each chunk: its index in four, and the
    number of occurrences in two, both little-endian.
    """

    keys: list[int]
    refs: list[tuple[int, int]]
    chunks: list[int]
    packed: bytes
    damaged: list[int]
    """Keys of the rows that do not match their checksum."""


LABELS = ("tags", "language", "version", "kind")
"""Labels that every document has, besides its own metadata."""
METADATA_PREFIX = "metadata."
"""Prefix of a metadata key that has the same name as a label."""
DEFAULT_FACET_VALUES = 10
MAX_FACET_VALUES = 1000
MAX_FACETS = 100
"""Maximum number of counted keys if the request names none; the most frequent ones."""


class FacetValue(Struct, frozen=True):
    """A value with the number of documents that have it and of their searchable chunks."""

    value: str | int | float | bool
    kind: ValueKind
    documents: int
    chunks: int


class Facet(Struct, frozen=True):
    """Values of one label or metadata key, the most frequent first."""

    key: str
    metadata: bool
    """Whether `key` is a metadata key, not a label."""
    documents: int
    """Number of documents that have a comparable value."""
    values: tuple[FacetValue, ...]
    more_values: int = 0
    """Number of values that are not listed."""
    least: str | int | float | None = None
    """Smallest value, if all values are numbers or all are dates."""
    greatest: str | int | float | None = None
    """Largest value, if all values are numbers or all are dates."""


class Facets(Struct, frozen=True):
    """Facets of the documents that match the filters. Damaged documents cause a warning."""

    documents: int
    chunks: int
    facets: tuple[Facet, ...]
    more_keys: int = 0
    """Number of keys that are not listed."""
    warnings: tuple[Notice, ...] = ()
