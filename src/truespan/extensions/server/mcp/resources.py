"""Resources: the documents of a world or the books of a reader, and their sentences by number.

URIs, names and descriptions consist of doc ids, file names and fixed text; document text is only in
the contents. What a reader has not read is reported as if it did not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from truespan.errors import CallerError, InvalidArgument, NotFound
from truespan.types.document import Document, OutlineEntry
from truespan.types.reading import LAST_FIRST, MAX_PAGE_SENTENCES, ReadingPosition, SentencePage
from truespan.wire.serialize import members

if TYPE_CHECKING:
    from truespan.engine.world import World

DOCUMENT = "truespan://documents/{doc_id}"
SENTENCES = "truespan://documents/{doc_id}/sentences/{first}-{last}"
PAGE_SIZE = 100
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Clients must not cache resources: positions move, and permissions change."""
_URI = re.compile(
    r"truespan://documents/([^/?#\s]+)(?:/sentences/([0-9]{1,10})-([0-9]{1,10}))?", re.ASCII
)


class DocumentDescription(Struct, frozen=True):
    """A document as its owner sees it: its labels and its outline."""

    document: int
    doc_id: str
    title: str
    source: str
    path: str
    kind: str
    language: str
    version: str
    tags: tuple[str, ...]
    sentences: int
    outline: tuple[OutlineEntry, ...] = ()


class ResourceProvider(Struct, frozen=True):
    """Lists and describes the documents that a role can see, and reads their sentences."""

    list: Callable[[Any], Sequence[DocumentDescription | ReadingPosition]]
    describe: Callable[[Any, str], DocumentDescription | ReadingPosition]
    sentences: Callable[[Any, str, int, int], SentencePage]


def _list_documents(world: World) -> Sequence[DocumentDescription]:
    active = [document for document in world.documents.list() if document.active is not None]
    return [_describe(document) for document in active]


def _describe_document(world: World, reference: str) -> DocumentDescription:
    document = world.documents.get(reference)
    if document.active is None:
        raise NotFound("document", reference)
    return _describe(document, tuple(world.documents.outline(document.doc_id)))


def _describe(document: Document, outline: tuple[OutlineEntry, ...] = ()) -> DocumentDescription:
    names = ("doc_id", "title", "kind", "language", "version", "tags", "sentences")
    values = members(document, *names)
    return DocumentDescription(
        document=document.number,
        source=document.name,
        path=document.shown_path,
        outline=outline,
        **values,
    )


WORLD_RESOURCES = ResourceProvider(
    _list_documents,
    _describe_document,
    lambda world, reference, first, count: world.documents.sentences(
        reference, offset=first, limit=count
    ),
)
"""The active documents of a world."""
READER_RESOURCES = ResourceProvider(
    lambda reader: reader.books(),
    lambda reader, reference: reader.position(reference),
    lambda reader, reference, first, count: reader.sentences(reference, offset=first, limit=count),
)
"""The books in which a reader has a position, up to that position."""

TEMPLATES: dict[str, Any] = {
    "resourceTemplates": [
        {
            "uriTemplate": DOCUMENT,
            "name": "document",
            "title": "Document",
            "description": "Labels and outline of a document, or the reader's position in it, by "
            "doc_id.",
            "mimeType": "application/json",
        },
        {
            "uriTemplate": SENTENCES,
            "name": "sentences",
            "title": "Sentences of a document",
            "description": "The verified text of sentences by number, the last one included; "
            f"at most {MAX_PAGE_SENTENCES} at a time.",
            "mimeType": "text/plain",
        },
    ],
    **COMPLETE,
}


def list_resources(provider: ResourceProvider, cursor: str | None, subject: Any) -> dict[str, Any]:
    """Return a page of documents ordered by number, and the cursor of the next page."""
    if cursor is not None and not re.fullmatch("[0-9]{1,18}", cursor):
        raise InvalidArgument("The cursor is not one that this server returned.")
    after = -1 if cursor is None else int(cursor)
    remaining = [entry for entry in provider.list(subject) if entry.document > after]
    remaining.sort(key=lambda entry: entry.document)
    page = remaining[:PAGE_SIZE]
    entries = [
        {
            "uri": f"truespan://documents/{quote(entry.doc_id, safe='')}",
            "name": entry.doc_id,
            "title": entry.path,
            "mimeType": "application/json",
        }
        for entry in page
    ]
    following = {"nextCursor": str(page[-1].document)} if len(remaining) > PAGE_SIZE else {}
    return {"resources": entries, **following, **COMPLETE}


def read_resource(provider: ResourceProvider, uri: str, subject: Any) -> dict[str, Any]:
    """Return the contents of a resource."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise _not_found()
    reference = unquote(found[1])
    try:
        if found[2] is None:
            media_type = "application/json"
            text = msgspec.json.encode(provider.describe(subject, reference)).decode()
        else:
            media_type = "text/plain"
            text = _read_text(provider, subject, reference, int(found[2]), int(found[3]))
    except NotFound as missing:
        missing.raise_unless("document_not_found", "no_reading_position")
        raise _not_found() from None
    return {"contents": [{"uri": uri, "mimeType": media_type, "text": text}], **COMPLETE}


def _read_text(
    provider: ResourceProvider, subject: Any, reference: str, first: int, last: int
) -> str:
    """Return exactly these sentences: a part of them would not be what the URI names."""
    if not first <= last <= LAST_FIRST:
        raise _not_found()
    if last - first >= MAX_PAGE_SENTENCES:
        raise InvalidArgument(f"At most {MAX_PAGE_SENTENCES} sentences can be read at a time.")
    sentences = provider.sentences(subject, reference, first, last - first + 1).sentences
    if [sentence.sid for sentence in sentences] != list(range(first, last + 1)):
        raise _not_found()
    text = sentences[0].text
    for before, after in pairwise(sentences):
        # An empty line where a paragraph or line ended.
        text += (" " if after.start - before.end < 2 else "\n\n") + after.text
    return text


def _not_found() -> CallerError:
    return CallerError("The resource does not exist or may not be read.")
