"""Documents: uploaded, listed, read and removed; and chunks of them."""

from __future__ import annotations

from typing import Any

from truespan.errors import (
    ChunkNotFound,
    DocumentNotFound,
    ImageNotFound,
    InvalidSettings,
    NotAllowed,
    ProfileMismatch,
    SourceTooLarge,
    StorageFull,
    StoreDamaged,
    WorldNotFound,
)
from truespan.http import schemas as shapes
from truespan.http.call import Call, CallContext, Reply
from truespan.http.routes.jobs import accepted
from truespan.serialize import chunk_data
from truespan.types.reading import SentencePage

_READING = (WorldNotFound, DocumentNotFound, NotAllowed)


def _list(asked: CallContext) -> Reply:
    found = asked.world().documents.list()
    return Reply(shapes.DocumentList(documents=[*map(shapes.document_entry, found)]))


def _may_upload(asked: CallContext) -> None:
    asked.world().require_writable()


def _upload(asked: CallContext) -> Reply:
    world = asked.world()
    return accepted(world, world.submit_uploads(asked.body.uploads, **asked.body.declared))


def _show(asked: CallContext) -> Reply:
    world, reference = asked.world(), asked.path["document"]
    document = world.documents.get(reference)
    return Reply(
        shapes.DocumentDetail(
            document=shapes.document_entry(document),
            outline=world.documents.outline(reference),
            metadata=world.documents.metadata(reference),
            audit=world.documents.audit(reference),
            last_sid=document.sentences - 1,
        )
    )


def _delete(asked: CallContext) -> Reply:
    receipt = asked.world().documents.delete(asked.path["document"], erase=asked.query.erase)
    return Reply(receipt.to_json())


def _sentences(asked: CallContext) -> Reply:
    page = asked.query
    found = asked.world().documents.sentences(
        asked.path["document"], first=page.first, count=page.count
    )
    return Reply(found)


def _chunk(asked: CallContext) -> Reply:
    return Reply(chunk_data(asked.world().documents.chunk(asked.path["chunk"])))


def _image(asked: CallContext) -> Reply:
    return image_reply(asked.world().documents.image(asked.path["image_ref"]))


def image_reply(image: Any) -> Reply:
    """Return an image so that a browser shows it and does nothing else with it."""
    headers = (
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cache-control", "private, no-store"),
    )
    return Reply(image.data, 200, headers, image.media_type)


_DOCUMENTS = "/v1/worlds/{world}/documents"

CALLS = (
    Call(
        "GET",
        _DOCUMENTS,
        "listDocuments",
        "The documents of a world",
        _list,
        shapes.DocumentList,
        errors=(WorldNotFound, NotAllowed),
        description="Gives the documents of a world by number, and how much of each can be asked "
        "already.",
    ),
    Call(
        "POST",
        _DOCUMENTS,
        "uploadDocuments",
        "Upload documents; a job takes them in",
        _upload,
        shapes.OneJob,
        status=202,
        before=_may_upload,
        form=True,
        errors=(WorldNotFound, InvalidSettings, SourceTooLarge, StorageFull, ProfileMismatch),
        writes=True,
        description="Takes files in and starts a job that parses, cuts and embeds them. The reply "
        "comes before that is done; the job tells how it goes on. A file of a name "
        "that the world has already becomes a new revision of that document.",
    ),
    Call(
        "GET",
        _DOCUMENTS + "/{document}",
        "showDocument",
        "A document with its structure",
        _show,
        shapes.DocumentDetail,
        errors=_READING,
        description="Gives a document with its chapters and sections, what was derived from it, "
        "and what the sanitiser counted in it.",
    ),
    Call(
        "DELETE",
        _DOCUMENTS + "/{document}",
        "deleteDocument",
        "Remove a document for good",
        _delete,
        shapes.DeletionReceipt,
        asks=shapes.EraseQuery,
        errors=_READING,
        writes=True,
        description="Removes a document with its text and vectors, and gives a receipt as for a "
        "world.",
    ),
    Call(
        "GET",
        _DOCUMENTS + "/{document}/sentences",
        "readSentences",
        "The verified text of a document, sentence by sentence",
        _sentences,
        SentencePage,
        asks=shapes.PageQuery,
        errors=(*_READING, StoreDamaged),
        description="Gives sentences of the revision in use, each checked against the hash it was "
        "taken in with; if one does not have it, nothing of the page is given.",
    ),
    Call(
        "GET",
        "/v1/worlds/{world}/chunks/{chunk}",
        "showChunk",
        "A chunk as the store holds it",
        _chunk,
        shapes.ChunkDetail,
        errors=(WorldNotFound, ChunkNotFound, NotAllowed),
        description="Gives a chunk with its state. Text that does not have its hash is not given.",
    ),
    Call(
        "GET",
        "/v1/worlds/{world}/images/{image_ref:path}",
        "showImage",
        "The image of a figure",
        _image,
        bytes,
        errors=(WorldNotFound, ImageNotFound, NotAllowed),
        media_type="image/*",
        description="Gives the bytes of an image that was taken out of a document. What a browser "
        "could run is given as bytes of no kind.",
    ),
)
