"""Sentences of a document page by page, and the pictures that stand among them."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, Struct, UnsetType

from truespan.errors import InvalidArgument
from truespan.types.chunk import (
    ChunkKind,
    ChunkState,
    DocumentLabel,
    FigureMark,
    ImageFile,
    Vector,
    image_file,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import ChunkingProfile
from truespan.types.request import check_whole
from truespan.types.text import PageStart, Place, PlacedSentence

NOTHING_READ = -1


class Position(Struct, frozen=True):
    """The last sentence a reader has read of a document, in the revision it was set for."""

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
    """Whether the language is declared or stated; otherwise it was detected in the text."""
    label: DocumentLabel

    @property
    def title(self) -> str:
        """Return the title a reader may see: the declared one, or the file's name."""
        return self.declared_title or self.name

    @property
    def ref(self) -> RevisionRef:
        return RevisionRef(self.document, self.revision)


class ReadingPosition(Struct, frozen=True):
    """How far a reader has come in a book. It contains no totals and nothing from ahead."""

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
    """Of its file, from the folder that was ingested on; the name of an upload."""


class StoredSentence(PlacedSentence, frozen=True):
    """A sentence as it was read from the store, checked with its place, and what its text must
    match."""

    digest: bytes


class TailChunk(Struct, frozen=True):
    """A chunk made of read sentences alone, as if the book ended at the position."""

    index: int
    part: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    text: str
    text_hash: TextHash
    tokens: int
    chapter: str | None
    section: str | None
    page: int | None = None
    location: str | None = None
    vector: Vector | None = None


class Anchor(Struct, frozen=True):
    """Where cutting can begin again: the last stored chunk that a position leaves whole."""

    chunk_id: ChunkId
    index: int
    start: int
    first_sid: int


PAGE_SENTENCES = 200
MAX_PAGE_SENTENCES = 1000
PAGE_CHUNKS = 50
MAX_PAGE_CHUNKS = 500
LAST_FIRST = 2**31 - 1
"""No document has that many sentences."""


class PageRequest(Struct, frozen=True):
    """Which sentences are wanted: so many, from this one on."""

    first: int = 0
    count: int = PAGE_SENTENCES

    def __post_init__(self) -> None:
        check_whole("first", self.first, 0, LAST_FIRST)
        check_whole("count", self.count, 1, MAX_PAGE_SENTENCES)


class PageSentence(Struct, frozen=True):
    """One sentence, checked against its hash, and the place where it begins."""

    sid: int
    start: int
    end: int
    text: str
    chapter: str
    section: str
    page: int | None
    starts_line: bool = True
    """Whether it begins a line of the text."""
    location: str | None = None
    """The page, slide, line, cell or row on which it begins."""


class PageFigure(Struct, frozen=True):
    """A figure and the sentence that it stands in or after.

    `description` is None where no chunk was made of it: nothing recorded could confirm its words.
    """

    sid: int
    figure_id: str
    image_ref: str | None
    description: str | None


class PageHead(Struct, frozen=True):
    """What stands above a page: which document it is of, in names that its caller may see."""

    document: int
    doc_id: str
    title: str
    source: str
    path: str


class SentencePage(PageHead, frozen=True):
    """Some sentences of a document, in order. `last` is the last one given, -1 for none.

    `more` says whether others follow that the same caller may see.
    """

    first: int
    last: int
    more: bool
    sentences: tuple[PageSentence, ...]
    figures: tuple[PageFigure, ...]


class ListedChunk(Struct, frozen=True):
    """A chunk of a document, its place in the canonical text, and its text if that is intact.

    From `context_start` to `start` is its overlap, which is stored apart. `reason` is why it is
    quarantined or has to be embedded again; None if there is none.
    """

    index: int
    chunk_id: ChunkId
    chunk_type: ChunkKind
    state: ChunkState
    reason: str | None
    context_start: int
    start: int
    end: int
    first_sid: int
    last_sid: int
    tokens: int
    text_hash: TextHash
    chapter: str | None
    section: str | None
    page: int | None
    location: str | None
    figure: FigureMark | None
    intact: bool
    text: str | None
    content: str | UnsetType | None = UNSET
    """The same as `text`. This member and the following are there in `contract` worlds only."""
    start_char: int | UnsetType = msgspec.field(default=UNSET, name="startChar")
    end_char: int | UnsetType = msgspec.field(default=UNSET, name="endChar")
    space_id: str | UnsetType = UNSET
    """The id of the world."""


class RevisionChunks(PageHead, frozen=True):
    """Chunks of a document in reading order, and the revision and generation they belong to."""

    revision: int
    source_hash: str
    text_hash: str
    recipe: str
    generation: int
    chunking: str
    characters: int
    first: int
    total: int
    chunks: tuple[ListedChunk, ...]


class ChunkPage(RevisionChunks, frozen=True, kw_only=True):
    """Chunks of a document, and when their revision was ingested."""

    created_at: float


@dataclass(frozen=True, slots=True)
class StoredImage:
    """The bytes of an image as they were ingested, and their media type."""

    data: bytes = field(repr=False)
    media_type: str


class InForce(Struct, frozen=True):
    """The revision of a document that readers see, under its own labels.

    `images` is the token of the images that belong to it, `sentences` how many it has.
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
    """A figure as the store has it. `reach` is the last sentence that decided anything about it.

    `has_chunk` says whether chunks were made of figures.
    """

    start: int
    figure_id: str
    image_ref: str | None
    description: bytes
    reach: int | None
    has_chunk: bool
    intact: bool
    """Whether its row matches its checksum."""


class Passage(Struct, frozen=True):
    """A stretch of a revision's text, and the places and pages that begin before its end."""

    text: bytes
    starts: tuple[int, ...]
    places: tuple[Place, ...]
    pages: tuple[PageStart, ...]


def wanted_image(image_ref: str) -> ImageFile | None:
    """Return what a reference names; None where no image can have it."""
    if not isinstance(image_ref, str):
        raise InvalidArgument("An image is named by a string.")
    return image_file(image_ref)
