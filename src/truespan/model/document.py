"""Documents and revisions, as they are written and as they are listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from truespan.model.chunk import CutChunk
from truespan.model.source import Declared, DocumentKind
from truespan.model.text import CanonicalText, Sentence


@dataclass(frozen=True, slots=True)
class RevisionRef:
    """One revision of one document of the scope's world."""

    document: int
    revision: int


class MeasuredSentence(NamedTuple):
    """A sentence with the digest and token count that later reads are checked against."""

    sentence: Sentence
    digest: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Draft:
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
    chunking: str
    source_hash: str
    recipe: str
    canonical: CanonicalText
    sentences: tuple[MeasuredSentence, ...]
    chunks: tuple[CutChunk, ...]


@dataclass(frozen=True, slots=True)
class Document:
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

    @property
    def declared(self) -> Declared:
        """Return what was declared of the document when it was last taken in."""
        return Declared(
            kind=self.kind,
            title=self.declared_title,
            language=self.language if self.language_declared else None,
            version=self.version,
            chunking=self.chunking,
            tags=self.tags,
        )


@dataclass(frozen=True, slots=True)
class ShelfEntry:
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


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """Where a chapter or section of a document begins."""

    first_sid: int
    start: int
    chapter: str | None
    section: str | None


@dataclass(frozen=True, slots=True)
class WorldStatus:
    """A world in numbers."""

    documents: int
    chunks: int
    embedded: int
    pending: int
    quarantined: int
    repairs: int
    vectors: int
