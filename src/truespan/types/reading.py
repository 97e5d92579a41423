"""Reading: positions, pages of sentences with their figures, and lists of chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

import msgspec
from msgspec import UNSET, Struct, UnsetType

from truespan.errors import InvalidArgument
from truespan.types.chunk import (
    ChunkKind,
    ChunkPlace,
    ChunkState,
    DocumentLabel,
    FigureMark,
    ImageFile,
    image_file,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId
from truespan.types.profile import ChunkingProfile
from truespan.types.request import check_whole
from truespan.types.text import PageStart, Place, PlacedSentence
from truespan.types.vectors import Vector, WordStates

NOTHING_READ = -1


class Position(Struct, frozen=True):
    """Last sentence that a reader has read of a document, in the revision it was set for."""

    reader: str
    document: int
    doc_id: str
    name: str
    declared_title: str | None
    chunking: ChunkingProfile
    revision: int
    sid: int
    current: bool
    language: str
    language_declared: bool
    """Whether the language was declared or stated; otherwise it was detected."""
    label: DocumentLabel

    @property
    def title(self) -> str:
        """Title that a reader may see: the declared title, or the file name."""
        return self.declared_title or self.name

    @property
    def ref(self) -> RevisionRef:
        return RevisionRef(self.document, self.revision)


class ReadingPosition(Struct, frozen=True):
    """Position of a reader in a book, without totals or anything after the position."""

    document: int
    doc_id: str
    title: str
    source: str
    sid: int
    chapter: str | None
    chapters_reached: tuple[str, ...]
    last_sentence: str | None
    current: bool
    path: str
    """Path of the file, relative to the ingested folder; the name of an upload."""


class StoredSentence(PlacedSentence, frozen=True):
    """A sentence from the store, verified with its place, and the digest of its text."""

    digest: bytes

    def matches(self, text: str) -> bool:
        """Return whether a text is the text of the sentence."""
        return sha256(text.encode()).digest() == self.digest


class TailChunk(ChunkPlace, frozen=True, kw_only=True):
    """A chunk made from read sentences only, as if the book ended at the position."""

    part: int
    text: str
    vector: Vector | None = None
    states: WordStates | None = None
    """States of its words, if they are used."""


class Anchor(Struct, frozen=True):
    """The last stored chunk before a position, where chunking can restart."""

    chunk_id: ChunkId
    index: int
    start: int
    first_sid: int


PAGE_SENTENCES = 200
MAX_PAGE_SENTENCES = 1000
PAGE_CHUNKS = 50
MAX_PAGE_CHUNKS = 500
LAST_FIRST = 2**31 - 1
"""Maximum start of a page; no document has more sentences."""


class PageRequest(Struct, frozen=True):
    """A page of sentences: `limit` sentences starting at `offset`."""

    offset: int = 0
    limit: int = PAGE_SENTENCES

    def __post_init__(self) -> None:
        check_whole("offset", self.offset, 0, LAST_FIRST)
        check_whole("limit", self.limit, 1, MAX_PAGE_SENTENCES)


class PageSentence(Struct, frozen=True):
    """A sentence verified against its hash, and the place where it begins."""

    sid: int
    start: int
    end: int
    text: str
    chapter: str
    section: str
    page: int | None
    starts_line: bool = True
    """Whether the sentence begins a line of the text."""
    location: str | None = None
    """Page, slide, line, cell or row on which the sentence begins."""


class PageFigure(Struct, frozen=True):
    """A figure and the sentence that contains or precedes it.

    `description` is None without a figure chunk, since it could not be verified.
    """

    sid: int
    figure_id: str
    image_ref: str | None
    description: str | None


class PageHead(Struct, frozen=True):
    """Header of a page: the document, with the names that the caller may see."""

    document: int
    doc_id: str
    title: str
    source: str
    path: str


class SentencePage(PageHead, frozen=True):
    """A page of sentences of a document. `last` is the last sentence, -1 for none.

    `more` is true if the caller may see further sentences.
    """

    first: int
    last: int
    more: bool
    sentences: tuple[PageSentence, ...]
    figures: tuple[PageFigure, ...]


class ListedChunk(ChunkPlace, frozen=True, kw_only=True):
    """A chunk of a document, its place in the canonical text, and its text if intact.

    The overlap from `context_start` to `start` is stored separately. `reason` says why the chunk is
    quarantined or must be embedded again; None otherwise.
    """

    chunk_id: ChunkId
    chunk_type: ChunkKind
    state: ChunkState
    reason: str | None
    context_start: int
    figure: FigureMark | None
    intact: bool
    text: str | None
    content: str | UnsetType | None = UNSET
    """Same as `text`. Set in `contract` worlds only, like the fields below."""
    start_char: int | UnsetType = msgspec.field(default=UNSET, name="startChar")
    end_char: int | UnsetType = msgspec.field(default=UNSET, name="endChar")
    space_id: str | UnsetType = UNSET
    """Id of the world."""


class RevisionChunks(PageHead, frozen=True):
    """Chunks of a document in reading order, with their revision and generation."""

    revision: int
    source_hash: str
    text_hash: str
    recipe: str
    generation: int
    chunking: str
    characters: int
    offset: int
    total: int
    chunks: tuple[ListedChunk, ...]


class ChunkPage(RevisionChunks, frozen=True, kw_only=True):
    """Chunks of a document, and the time when their revision was ingested."""

    created_at: float


@dataclass(frozen=True, slots=True)
class StoredImage:
    """The bytes of an ingested image and their media type."""

    data: bytes = field(repr=False)
    media_type: str


class ActiveRevision(Struct, frozen=True):
    """The active revision of a document with its labels.

    `images` is the token of its images, `sentences` the number of sentences.
    """

    ref: RevisionRef
    doc_id: str
    name: str
    title: str
    path: str
    images: str
    sentences: int
    created_at: float
    source_hash: str
    text_hash: str
    recipe: str
    chunking: str
    characters: int


class StoredFigure(Struct, frozen=True):
    """A figure from the store. `reach` is the last sentence that affected it.

    `has_chunk` is true if figures have chunks.
    """

    start: int
    figure_id: str
    image_ref: str | None
    description: bytes
    reach: int | None
    has_chunk: bool
    intact: bool
    """Whether the row matches its checksum."""


class Passage(Struct, frozen=True):
    """A span of a revision's text, and the places and pages that begin before its end."""

    text: bytes
    starts: tuple[int, ...]
    places: tuple[Place, ...]
    pages: tuple[PageStart, ...]


def wanted_image(image_ref: str) -> ImageFile | None:
    """Parse a reference to an image; None if it is not valid."""
    if not isinstance(image_ref, str):
        raise InvalidArgument("An image is named by a string.")
    return image_file(image_ref)
