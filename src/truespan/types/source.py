"""Files that are handed over instead of being named where they lie."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import BinaryIO

from truespan.errors import InvalidSettings


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


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a manifest that was checked by itself; nothing was looked for yet."""

    line: int
    path: str
    doc_id: str | None = None
    declared: Declared = field(default_factory=Declared)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that was searched, and how many sources were found in it.

    `pattern` says which paths below the folder were asked for; without one all of them were. A root
    with an `origin` was searched for what that manifest names.
    """

    folder: str
    found: int
    pattern: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Sources in the order in which they are taken, and what was looked at and is not among them.

    `passed_over` counts files of other kinds, `unmatched` names what matched no file at all.
    """

    sources: tuple[Source, ...] = ()
    passed_over: int = 0
    unmatched: tuple[str, ...] = ()
    roots: tuple[Root, ...] = ()

    def __iter__(self) -> Iterator[Source]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)


MAX_NAME_BYTES = 255
_JOINERS = "\u200c\u200d"
"""Cannot be printed by themselves; names in some scripts are not spelled right without them."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file with the name that its owner gave it. The content is read once, from where it stands.

    Within a world the name is the identity: another upload of the same name is a new revision.
    """

    name: str
    content: bytes | PurePath | BinaryIO


def checked_name(name: object) -> str:
    """Return a name in its one spelling.

    Raises:
        InvalidSettings: it is empty, too long, has parts of a path, or cannot be printed in a line.
    """
    if not isinstance(name, str):
        raise InvalidSettings("The name of an upload must be text.")
    spelled = unicodedata.normalize("NFC", name)
    if not spelled.strip(" .") or spelled != spelled.strip():
        raise InvalidSettings(
            "The name of an upload must not be blank or only dots, nor have blanks around it."
        )
    if "/" in spelled or "\\" in spelled:
        raise InvalidSettings("The name of an upload is that of a file, without any folder.")
    if not all(char.isprintable() or char in _JOINERS for char in spelled):
        raise InvalidSettings("The name of an upload has characters that cannot be printed.")
    if len(spelled.encode()) > MAX_NAME_BYTES:
        raise InvalidSettings(f"The name of an upload has more than {MAX_NAME_BYTES} bytes.")
    return spelled


def checked_uploads(uploads: Sequence[Upload]) -> tuple[Upload, ...]:
    """Return uploads with their names in one spelling.

    Raises:
        InvalidSettings: there are none, a name is wrong, or two of them are the same.
    """
    checked = tuple(Upload(checked_name(one.name), one.content) for one in uploads)
    if not checked:
        raise InvalidSettings("There is no file to be taken in.")
    if len({one.name for one in checked}) < len(checked):
        raise InvalidSettings(
            "Two files have the same name.", advice="The name tells documents apart: rename one."
        )
    return checked
