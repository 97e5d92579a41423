"""Documents: upload, list, read and delete; and their chunks and images."""

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
from truespan.http import schemas
from truespan.http.bodies import Form
from truespan.http.operation import CallContext, Reply, Routes
from truespan.http.routes.jobs import JOB_LINKS, accept_job
from truespan.serialize import chunk_data
from truespan.types.reading import SentencePage

_DOCUMENTS = "/v1/worlds/{world}/documents"
_DOCUMENT_ERRORS = (WorldNotFound, DocumentNotFound, NotAllowed)

routes = Routes("Documents", "Upload, list, read and delete documents.")


@routes.get(_DOCUMENTS, errors=(WorldNotFound, NotAllowed))
def list_documents(context: CallContext) -> Reply[schemas.DocumentList]:
    """List the documents of a world.

    Returns the documents ordered by number, with how much of each can be searched already.
    """
    found = context.world().documents.list()
    return Reply(
        schemas.DocumentList(documents=[schemas.document_entry(document) for document in found])
    )


def _require_writable(context: CallContext) -> None:
    context.world().require_writable()


@routes.post(
    _DOCUMENTS,
    status=202,
    writes=True,
    check=_require_writable,
    errors=(WorldNotFound, InvalidSettings, SourceTooLarge, StorageFull, ProfileMismatch),
    links=JOB_LINKS,
)
def upload_documents(context: CallContext, body: Form) -> Reply[schemas.AcceptedJob]:
    """Upload documents and start an ingest job.

    Stores the files and starts a job that parses, chunks and embeds them. The reply is sent before
    the job is done; follow the job for its progress. A file whose name the world already has
    becomes a new revision of that document.
    """
    world = context.world()
    return accept_job(world, world.submit_uploads(body.uploads, **body.declared))


@routes.get(_DOCUMENTS + "/{document}", errors=_DOCUMENT_ERRORS)
def show_document(context: CallContext) -> Reply[schemas.DocumentDetail]:
    """Get a document with its outline.

    Returns a document with its chapters and sections, its derived metadata, and the counts of the
    sanitiser.
    """
    world, reference = context.world(), context.path["document"]
    document = world.documents.get(reference)
    return Reply(
        schemas.DocumentDetail(
            document=schemas.document_entry(document),
            outline=world.documents.outline(reference),
            metadata=world.documents.metadata(reference),
            audit=world.documents.audit(reference),
            last_sid=document.sentences - 1,
        )
    )


@routes.delete(_DOCUMENTS + "/{document}", errors=_DOCUMENT_ERRORS)
def delete_document(
    context: CallContext, query: schemas.EraseQuery
) -> Reply[schemas.DeletionReceipt]:
    """Delete a document.

    Removes a document with its text and vectors, and returns a receipt as for a world.
    """
    receipt = context.world().documents.delete(context.path["document"], erase=query.erase)
    return Reply(schemas.DeletionReceipt(**receipt.to_json()))


@routes.get(_DOCUMENTS + "/{document}/sentences", errors=(*_DOCUMENT_ERRORS, StoreDamaged))
def read_sentences(context: CallContext, query: schemas.PageQuery) -> Reply[SentencePage]:
    """Read the verified text of a document by sentence.

    Returns sentences of the active revision, each verified against its stored hash. If one
    sentence does not match, the whole page is refused.
    """
    reference = context.path["document"]
    return Reply(
        context.world().documents.sentences(reference, first=query.first, count=query.count)
    )


@routes.get("/v1/worlds/{world}/chunks/{chunk}", errors=(WorldNotFound, ChunkNotFound, NotAllowed))
def show_chunk(context: CallContext) -> Reply[schemas.ChunkDetail]:
    """Get a chunk as stored.

    Returns a chunk with its state. Text that does not match its hash is not returned.
    """
    return Reply(
        schemas.ChunkDetail(**chunk_data(context.world().documents.chunk(context.path["chunk"])))
    )


@routes.get(
    "/v1/worlds/{world}/images/{image_ref:path}",
    errors=(WorldNotFound, ImageNotFound, NotAllowed),
    media_type="image/*",
)
def show_image(context: CallContext) -> Reply[bytes]:
    """Get the image of a figure.

    Returns the bytes of an image extracted from a document. Formats that a browser could execute
    are returned as application/octet-stream.
    """
    return image_reply(context.world().documents.image(context.path["image_ref"]))


def image_reply(image: Any) -> Reply[bytes]:
    """Return an image with headers that let a browser display it and nothing else."""
    headers = (
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cache-control", "private, no-store"),
    )
    return Reply(image.data, 200, headers, image.media_type)
