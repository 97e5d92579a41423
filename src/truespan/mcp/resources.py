"""Resources: the documents of a world or the books of a reader, and their sentences by number.

Addresses, names and descriptions are made of doc ids, file names and fixed words. Text stands in
what is read and nowhere else. What a reader has not read is answered for as what does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote

import msgspec

from truespan.errors import CallerError, DocumentNotFound, InvalidSettings, PositionNotFound
from truespan.retrieval.positions import ReadingPosition
from truespan.types.document import OutlineEntry
from truespan.types.reading import LAST_FIRST, MOST_PAGE_SENTENCES, PageSentence, SentencePage

if TYPE_CHECKING:
    from truespan.reader import Reader
    from truespan.world import World

DOCUMENT = "truespan://documents/{doc_id}"
SENTENCES = "truespan://documents/{doc_id}/sentences/{first}-{last}"
PAGE = 100
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Nothing here is kept by a client: the position moves, and rights are taken away."""
MOST_COMPLETED = 100
_ADDRESS = re.compile(
    r"truespan://documents/([^/?#\s]+)(?:/sentences/([0-9]{1,10})-([0-9]{1,10}))?", re.ASCII
)


class Listed(Protocol):
    """A document as a list names it."""

    @property
    def document(self) -> int: ...
    @property
    def doc_id(self) -> str: ...
    @property
    def source(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Described:
    """A document as its owner sees it: its labels, and where its chapters and sections begin."""

    document: int
    doc_id: str
    title: str
    source: str
    kind: str
    language: str
    version: str
    tags: tuple[str, ...]
    sentences: int
    outline: tuple[OutlineEntry, ...] = ()


class ResourceProvider(Protocol):
    """How a role names its documents, tells of one, and gives sentences of it."""

    def listed(self, subject: Any) -> Sequence[Listed]: ...

    def described(self, subject: Any, reference: str) -> Any: ...

    def sentences(self, subject: Any, reference: str, first: int, count: int) -> SentencePage: ...


class WorldOffering:
    """The documents in force of a world."""

    def listed(self, subject: World) -> Sequence[Listed]:
        """Return the documents that can be read."""
        return [_described(found) for found in subject.documents.list() if found.active is not None]

    def described(self, subject: World, reference: str) -> Described:
        """Return a document's labels and its outline."""
        document = subject.documents.get(reference)
        if document.active is None:
            raise DocumentNotFound(reference)
        return _described(document, tuple(subject.documents.outline(document.doc_id)))

    def sentences(self, subject: World, reference: str, first: int, count: int) -> SentencePage:
        """Return sentences of a document."""
        return subject.documents.sentences(reference, first=first, count=count)


class ReaderOffering:
    """The books in which a reader has a position."""

    def listed(self, subject: Reader) -> Sequence[Listed]:
        """Return the books."""
        return subject.books()

    def described(self, subject: Reader, reference: str) -> ReadingPosition:
        """Return how far the reader is in a book."""
        return subject.where(reference)

    def sentences(self, subject: Reader, reference: str, first: int, count: int) -> SentencePage:
        """Return sentences of a book, up to the reader's position."""
        return subject.sentences(reference, first=first, count=count)


def _described(document: Any, outline: tuple[OutlineEntry, ...] = ()) -> Described:
    return Described(
        document=document.number,
        doc_id=document.doc_id,
        title=document.title,
        source=document.name,
        kind=document.kind,
        language=document.language,
        version=document.version,
        tags=document.tags,
        sentences=document.sentences,
        outline=outline,
    )


def templates() -> dict[str, Any]:
    """Return the addresses that a client can fill in."""
    return {
        "resourceTemplates": [
            {
                "uriTemplate": DOCUMENT,
                "name": "document",
                "title": "Document",
                "description": "What is known of a document, by its doc_id: its chapters as far "
                "as they may be seen.",
                "mimeType": "application/json",
            },
            {
                "uriTemplate": SENTENCES,
                "name": "sentences",
                "title": "Sentences of a document",
                "description": "The verified text of sentences by number, the last one included; "
                f"at most {MOST_PAGE_SENTENCES} at a time.",
                "mimeType": "text/plain",
            },
        ],
        **COMPLETE,
    }


def page_of_resources(
    offered: ResourceProvider, cursor: str | None, subject: Any
) -> dict[str, Any]:
    """Return some of the documents in their order, and where the next ones begin.

    Raises:
        InvalidSettings: the cursor is not one of ours.
    """
    if cursor is not None and not re.fullmatch("[0-9]{1,18}", cursor):
        raise InvalidSettings("The cursor is not one that this server gave.")
    after = -1 if cursor is None else int(cursor)
    left = sorted(
        (entry for entry in offered.listed(subject) if entry.document > after),
        key=lambda entry: entry.document,
    )
    page = left[:PAGE]
    following = {"nextCursor": str(page[-1].document)} if len(left) > PAGE else {}
    return {"resources": [_entry(one) for one in page], **following, **COMPLETE}


def _entry(listed: Listed) -> dict[str, Any]:
    return {
        "uri": f"truespan://documents/{quote(listed.doc_id, safe='')}",
        "name": listed.doc_id,
        "title": listed.source,
        "mimeType": "application/json",
    }


def read_resource(offered: ResourceProvider, uri: str, subject: Any) -> dict[str, Any]:
    """Return what stands at an address.

    Raises:
        CallerError: nothing does, or nothing that may be read; which of the two is not said.
        InvalidSettings: too many sentences are asked for at once.
    """
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        raise _absent()
    reference = unquote(found[1])
    try:
        if found[2] is None:
            text = msgspec.json.encode(offered.described(subject, reference)).decode()
            return _contents(uri, "application/json", text)
        page = _page(offered, subject, reference, int(found[2]), int(found[3]))
    except (DocumentNotFound, PositionNotFound):
        raise _absent() from None
    return _contents(uri, "text/plain", _joined(page.sentences))


def _page(
    offered: ResourceProvider, subject: Any, reference: str, first: int, last: int
) -> SentencePage:
    """Return exactly these sentences; a part of them would not be what the address names."""
    if not first <= last <= LAST_FIRST:
        raise _absent()
    if last - first >= MOST_PAGE_SENTENCES:
        raise InvalidSettings(f"At most {MOST_PAGE_SENTENCES} sentences can be read at a time.")
    page = offered.sentences(subject, reference, first, last - first + 1)
    if [one.sid for one in page.sentences] != list(range(first, last + 1)):
        raise _absent()
    return page


def _joined(sentences: Sequence[PageSentence]) -> str:
    """Return sentences as one text; where a paragraph or line ended, there is an empty line."""
    pieces = [sentences[0].text]
    for before, after in pairwise(sentences):
        pieces.append(" " if after.start - before.end < 2 else "\n\n")
        pieces.append(after.text)
    return "".join(pieces)


def _contents(uri: str, media_type: str, text: str) -> dict[str, Any]:
    return {
        "contents": [{"uri": uri, "mimeType": media_type, "text": text}],
        **COMPLETE,
    }


def _absent() -> CallerError:
    return CallerError("There is no such resource, or none that may be read here.")


def completed(offered: ResourceProvider, name: str, begun: str, subject: Any) -> dict[str, Any]:
    """Return how an argument could go on: only documents have names that can be guessed at."""
    values: list[str] = []
    if name in ("doc_id", "book"):
        values = [one.doc_id for one in offered.listed(subject) if one.doc_id.startswith(begun)]
    return {
        "completion": {
            "values": values[:MOST_COMPLETED],
            "hasMore": len(values) > MOST_COMPLETED,
        },
        "resultType": "complete",
    }
