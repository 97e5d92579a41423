"""Where a document comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class DocumentKind(StrEnum):
    """Whether a document is looked things up in, or read from front to back."""

    DOCUMENT = "document"
    BOOK = "book"


@dataclass(frozen=True, slots=True)
class Declared:
    """What the caller says of a document; None leaves it to the source or to the default."""

    kind: DocumentKind | None = None
    title: str | None = None
    language: str | None = None
    version: str | None = None
    chunking: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file that may become a document. `doc_id` is its identity within a world."""

    path: str
    name: str
    doc_id: str
    size: int
    declared: Declared = field(default_factory=Declared)
