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
    tags: tuple[str, ...] | None = None
    source_url: str | None = None
    metadata: str | None = None
    """A JSON object of the caller's own, in one spelling."""
    priority: int | None = None
    """Sources with a higher one, from 0 to 10, are taken first."""

    def or_else(self, earlier: Declared) -> Declared:
        """Return what is declared now, and where nothing is, what was declared before."""
        if self == _NOTHING:
            return earlier
        # Another kind of document is cut in its own way, unless a way is named.
        same_kind = self.kind in (None, earlier.kind)
        return Declared(
            kind=self.kind or earlier.kind,
            title=self.title or earlier.title,
            language=self.language or earlier.language,
            version=self.version or earlier.version,
            chunking=self.chunking or (earlier.chunking if same_kind else None),
            tags=earlier.tags if self.tags is None else self.tags,
            source_url=self.source_url or earlier.source_url,
            metadata=self.metadata or earlier.metadata,
            priority=self.priority,
        )


_NOTHING = Declared()


@dataclass(frozen=True, slots=True)
class Source:
    """A file that may become a document. `doc_id` is its identity within a world."""

    path: str
    name: str
    doc_id: str
    size: int
    declared: Declared = field(default_factory=Declared)
    origin: str = ""
    """The manifest that named it, if one did."""
    upload: str = ""
    """Where an upload is kept, for whoever keeps it; empty for a file that stays where it is."""
