"""Worlds, domains and documents; the caller's permissions; and the state of the server."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

import truespan
from truespan import __version__, errors
from truespan.engine.world import World
from truespan.engine.world_ingestion import as_uploads
from truespan.extensions.proof.types import PublicKeys
from truespan.extensions.server.http import requests, schemas
from truespan.extensions.server.http.bodies import Form
from truespan.extensions.server.http.operation import CallContext, Reply, Routes
from truespan.extensions.server.http.routes.jobs import JOB_LINKS, accept_job
from truespan.extensions.server.sources import ingest_pages, sample_book
from truespan.types.document import Facets
from truespan.types.job import IngestJob
from truespan.types.picture import PagePicture
from truespan.types.reading import SentencePage
from truespan.types.request import Defaults
from truespan.types.source import Upload
from truespan.wire.serialize import allowed_names, chunk_data, record_data

METRICS = "text/plain; version=0.0.4; charset=utf-8"
_CREATED = {"world": "$response.body#/id"}
_DOCUMENTS = "/v1/worlds/{world}/documents"
_IMAGE = "/v1/worlds/{world}/images/{image_ref:path}"
_READ_ERRORS = ("not_allowed",)
_PICTURE_ERRORS = (*_READ_ERRORS, "image_not_found")

# Shared by threads: filled while modules are imported, then only read.
worlds = Routes("Worlds", "Worlds keep documents apart. Domains are named aliases of generations.")
# Shared by threads: as above.
documents = Routes("Documents", "Upload, list, read and delete documents.")
# Shared by threads: as above.
server = Routes("Server", "Health, readiness, metrics, and this document.")


@worlds.get("/v1/me")
def me(context: CallContext) -> schemas.Permissions:
    """Get the caller's permissions.

    Returns the id of the token and the worlds, verbs, readers and labels it allows. Without a token
    on loopback, everything is allowed. `default_world` is the id of the world that the server was
    started with, or null.
    """
    authority = context.principal.authority
    default = context.default_world
    # A token must not learn of a world that it has no part in.
    seen = default is not None and any(world.id == default for world in context.library.worlds())
    return schemas.Permissions(
        token=context.principal.token,
        worlds=allowed_names(authority.worlds),
        verbs=sorted(authority.verbs),
        readers=allowed_names(authority.readers),
        audience=allowed_names(authority.audience),
        default_world=default if seen else None,
    )


@worlds.get("/v1/worlds")
def list_worlds(context: CallContext) -> schemas.WorldList:
    """List worlds.

    Returns the worlds that the caller may see, ordered by name.
    """
    found = context.library.worlds()
    return schemas.WorldList(
        worlds=[schemas.WorldEntry(**schemas.world_data(world)) for world in found]
    )


@worlds.post(
    "/v1/worlds",
    status=201,
    writes=True,
    errors=("world_exists", "world_not_found", errors.ModelUnavailable),
    example={"name": "mysteries"},
    links={"showWorld": _CREATED, "listDocuments": _CREATED, "deleteWorld": _CREATED},
)
def create_world(context: CallContext, body: requests.NewWorld) -> Reply[schemas.WorldEntry]:
    """Create an empty world.

    The name must not be in use. A caller who may not create worlds gets `world_not_found`.
    """
    world = context.library.create_world(
        body.name,
        defaults=body.defaults,
        model=body.model,
        audience=body.audience,
        audience_required=body.audience_required,
    )
    entry = schemas.WorldEntry(**schemas.world_data(world.access.record()))
    return Reply(entry, 201, (("location", f"/v1/worlds/{world.id}"),))


@worlds.get("/v1/worlds/{world}")
def show_world(context: CallContext) -> schemas.WorldDetail:
    """Get a world and its statistics.

    The statistics are null for a caller who may only read as a reader.
    """
    return _world_detail(context.world())


@worlds.put(
    "/v1/worlds/{world}/defaults", writes=True, example={"defaults": str(Defaults.RECOMMENDED)}
)
def set_defaults(context: CallContext, body: requests.ChosenDefaults) -> schemas.WorldDetail:
    """Choose the defaults of a world.

    They apply from the next request on: `recommended`, or `contract`, which follows the original
    specification to the letter. `audience` has the labels of new documents that declare none, or
    with `audience_required` such documents are refused. A caller who may not administer the world
    gets `world_not_found`.
    """
    world = context.world()
    world.set_defaults(
        body.defaults, audience=body.audience, audience_required=body.audience_required
    )
    return _world_detail(world)


def _world_detail(world: World) -> schemas.WorldDetail:
    try:
        status = world.status()
    except errors.NotAllowed:
        status = None
    audience = world.documents.default_audience
    return schemas.WorldDetail(
        **schemas.world_data(world.access.record()),
        status=status,
        audience=None if audience is None else list(audience),
    )


@worlds.delete("/v1/worlds/{world}", errors=("world_busy",))
def delete_world(context: CallContext, query: requests.EraseQuery) -> schemas.DeletionReceipt:
    """Delete a world and everything in it.

    Removes the world with its documents, positions and vectors. Returns a receipt that says what
    was removed and whether any of it can still be found in the library's files. With erase=false
    the files are not rewritten.
    """
    receipt = context.library.delete_world(context.path["world"], **asdict(query))
    return schemas.DeletionReceipt(**receipt.to_json())


@worlds.get("/v1/domains")
def list_domains(context: CallContext) -> schemas.DomainList:
    """List domains.

    Returns the domains of the worlds that the caller may see, each with its generation.
    """
    return schemas.DomainList(domains=context.library.domains())


@documents.get(_DOCUMENTS, errors=_READ_ERRORS)
def list_documents(context: CallContext, query: requests.DocumentQuery) -> schemas.DocumentList:
    """List the documents of a world.

    Returns the documents ordered by number, with how much of each can be searched already. With
    `limit` it returns that many from `offset` on; words to search for, a status and filters choose
    documents. Lists and objects in the query string are JSON.
    """
    return schemas.document_list(context.world().documents, query)


@documents.get("/v1/worlds/{world}/freshness", errors=_READ_ERRORS)
def check_freshness(context: CallContext, query: requests.FreshnessQuery) -> schemas.FreshnessList:
    """Compare the sources of documents with the indexed revisions.

    Reads the files again, and sends conditional requests for web pages of hosts that the operator
    allows. A source that was not checked within `seconds` is `unknown`.
    """
    found = context.world().documents.freshness(seconds=query.seconds)
    return schemas.FreshnessList(documents=found)


@documents.get("/v1/worlds/{world}/facets", errors=_READ_ERRORS)
def count_facets(context: CallContext, query: requests.FacetQuery) -> Facets:
    """Count documents by label and metadata.

    Returns how many documents have each tag, language, version, kind and value of their metadata,
    and how many chunks of them can be searched. Lists and objects in the query string are JSON.
    """
    return context.world().documents.facets(**query.arguments())


@documents.post(
    _DOCUMENTS,
    status=202,
    writes=True,
    check=lambda context: context.world().access.require_writable(),
    errors=("source_too_large", errors.ProfileMismatch),
    links=JOB_LINKS,
)
def upload_documents(context: CallContext, body: Form) -> Reply[schemas.AcceptedJob]:
    """Upload documents and start an ingest job.

    Stores the files and starts a job that parses, chunks and embeds them. The reply is sent before
    the job is done; follow the job for its progress. A file whose name the world already has
    becomes a new revision of that document.
    """
    world, uploads = context.world(), [Upload(*file) for file in body.files]
    return accept_job(world, world.jobs.submit(IngestJob(uploads, **body.declared)))


@documents.post(
    "/v1/worlds/{world}/sources",
    status=202,
    writes=True,
    errors=(errors.ProfileMismatch,),
    example={"texts": ["The spare key hangs on hook seven."], "ids": ["keys"]},
    links=JOB_LINKS,
)
def ingest_sources(
    context: CallContext, body: requests.SourcesRequest
) -> Reply[schemas.AcceptedJob]:
    """Start an ingest job for texts, web pages or the sample book.

    Each text becomes a document; one whose id the world already has becomes a new revision of that
    document. Only pages of hosts that the operator allows are fetched, and those that the world has
    already with conditional requests. The sample book is part of the package.
    """
    world, labels = context.world(), asdict(body)
    texts = {name: labels.pop(name) for name in ("texts", "ids", "metadata")}
    pages = {name: labels.pop(name) for name in ("urls", "sitemap", "prune", "ocr")}
    if [any(texts.values()), any(pages.values()), labels.pop("sample")].count(True) != 1:
        raise errors.InvalidArgument("Give either texts, or urls or a sitemap, or sample.")
    if body.sample:
        if any(value is not None for value in labels.values()):
            raise errors.InvalidArgument("The sample book takes no labels.")
        return accept_job(world, world.jobs.submit(IngestJob(sample_book(), kind="book")))
    if any(texts.values()):
        uploads = as_uploads(**texts)
        return accept_job(world, world.jobs.submit(IngestJob(uploads, **labels)))
    return accept_job(world, ingest_pages(world, **pages, **labels))


@documents.get(_DOCUMENTS + "/{document}", errors=_READ_ERRORS)
def show_document(context: CallContext) -> schemas.DocumentDetail:
    """Get a document with its outline.

    Returns a document with its chapters and sections, its derived metadata, and the counts of the
    sanitiser.
    """
    found, reference = context.world().documents, context.path["document"]
    document = found.get(reference)
    return schemas.DocumentDetail(
        document=schemas.document_entry(document),
        outline=found.outline(reference),
        metadata=found.metadata(reference),
        audit=found.audit(reference),
        last_sid=document.sentences - 1,
    )


@documents.patch(
    _DOCUMENTS + "/{document}",
    errors=_READ_ERRORS,
    example={"tags": ["draft"], "metadata": {"team": "a", "year": 2026}},
)
def update_document(context: CallContext, body: requests.LabelChanges) -> schemas.DocumentEntry:
    """Change labels of a document.

    Changes the named labels without the document's file; nothing is embedded. `null` removes a
    label. An `audience` counts from the next request on; an empty one is for the owner alone. The
    keys of `metadata` are added to those that are stored, and a key with `null` is removed.
    """
    changes = {name: value for name, value in asdict(body).items() if value is not UNSET}
    found = context.world().documents.update(context.path["document"], **changes)
    return schemas.document_entry(found)


@documents.post(
    _DOCUMENTS + "/{document}/ingest",
    status=202,
    writes=True,
    errors=("not_allowed", "source_missing", "source_outside", errors.ProfileMismatch),
    links=JOB_LINKS,
)
def reingest_document(context: CallContext) -> Reply[schemas.AcceptedJob]:
    """Start a job that reads the file of a document again.

    Only for a file of the server that was ingested there, by a caller who may administer the world.
    An uploaded document is replaced by another upload of the same name.
    """
    world = context.world()
    return accept_job(world, world.documents.reingest(context.path["document"]))


@documents.delete(_DOCUMENTS + "/{document}", errors=_READ_ERRORS)
def delete_document(context: CallContext, query: requests.EraseQuery) -> schemas.DeletionReceipt:
    """Delete a document.

    Removes a document with its text and vectors, and returns a receipt as for a world.
    """
    receipt = context.world().documents.delete(context.path["document"], **asdict(query))
    return schemas.DeletionReceipt(**receipt.to_json())


@documents.get(_DOCUMENTS + "/{document}/sentences", errors=_READ_ERRORS)
def read_sentences(context: CallContext, query: requests.PageQuery) -> SentencePage:
    """Read the verified text of a document by sentence.

    Returns sentences of the active revision, each verified against its stored hash. If one
    sentence does not match, the whole page is refused.
    """
    return context.world().documents.sentences(context.path["document"], **asdict(query))


@documents.get(_DOCUMENTS + "/{document}/chunks", errors=_READ_ERRORS)
def list_chunks(context: CallContext, query: requests.ChunkQuery) -> schemas.ChunkList:
    """List the chunks of a document.

    Returns the chunks of the active revision in reading order: where each begins and ends in the
    text, the overlap beside it, its state, and why it is quarantined. A text that does not match
    its hash is not returned.
    """
    page = context.world().documents.chunks(context.path["document"], **asdict(query))
    return schemas.ChunkList(**record_data(page))


@documents.get("/v1/worlds/{world}/chunks/{chunk}", errors=_READ_ERRORS)
def show_chunk(context: CallContext) -> schemas.ChunkDetail:
    """Get a chunk as stored.

    Returns a chunk with its state. Text that does not match its hash is not returned.
    """
    record = context.world().documents.chunk(context.path["chunk"])
    return schemas.ChunkDetail(**chunk_data(record))


@documents.get(_IMAGE, errors=_READ_ERRORS, media_type="image/*")
def show_image(context: CallContext) -> Reply[bytes]:
    """Get the image of a figure.

    Returns the bytes of an image extracted from a document. Formats that a browser could execute
    are returned as application/octet-stream.
    """
    return image_reply(context.world().documents.image(context.path["image_ref"]))


@documents.get(_DOCUMENTS + "/{document}/picture", errors=_PICTURE_ERRORS)
def draw_document(context: CallContext, query: requests.PictureQuery) -> PagePicture:
    """Get a page of a document as it looks.

    Returns a page of a PDF file, an image, or a web page without scripts, in Base64, with the
    places of its sentences: left, top, right and bottom of each line, as shares of the width and
    the height.
    """
    documents = context.world().documents
    return documents.picture(context.path["document"], query.page, sentence=query.sentence)


def image_reply(image: Any) -> Reply[bytes]:
    """Return an image with headers that let a browser display it and nothing else."""
    headers = (
        ("content-security-policy", "default-src 'none'; sandbox"),
        ("cache-control", "private, no-store"),
    )
    return Reply(image.data, 200, headers, image.media_type)


@server.get("/health", public=True, inline=True)
def health(_: CallContext) -> schemas.Health:
    """Check that the server runs.

    Answers as long as the server runs, without using the library.
    """
    return schemas.Health(status="alive", version=__version__)


@server.get(
    "/ready", public=True, errors=(errors.IndexUnavailable, errors.StoreBusy, errors.StoreDamaged)
)
def ready(context: CallContext) -> schemas.Health:
    """Check that store and index answer.

    Use it as the readiness check of a load balancer.
    """
    context.library.server.check_ready()
    return schemas.Health(status="ready", version=__version__)


@server.get("/v1/keys")
def list_keys(context: CallContext) -> PublicKeys:
    """List the public keys of the library.

    Returns the keys that verify signed receipts, the oldest first. The last one signs, unless it is
    retired. The reply is what the option --keys of a verifier takes.
    """
    return context.library.keys.list()


@server.post("/v1/receipts/verify", example={"receipt": '{"envelope":{},"texts":[]}'})
def verify_receipt(context: CallContext, body: requests.ReceiptText) -> schemas.ReceiptCheck:
    """Verify a signed receipt with the public keys of the library.

    Returns the signed claims and texts, or the failure, as 'truespan verify --json' prints them. To
    verify a receipt without trusting the server, use a verifier of your own and the public keys.
    """
    try:
        found = truespan.verify_receipt(body.receipt, context.library.keys.list())
    except errors.ReceiptInvalid as error:
        return schemas.ReceiptCheck(valid=False, failure=error.failure, message=error.message)
    return schemas.ReceiptCheck(valid=True, receipt=found)


@server.get("/metrics", errors=("not_allowed",), media_type=METRICS)
def metrics(context: CallContext) -> Reply[bytes]:
    """Get metrics for Prometheus.

    Returns the metrics since the server started, in the Prometheus text format. The owner may read
    them, and a token with the verb `observe`.
    """
    return Reply(context.library.server.metrics(), media_type=METRICS)
