"""Office documents as they look: converted to PDF once, with the pages of their sentences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from hashlib import sha256

import msgspec

from truespan.engine.components import Components
from truespan.errors import OfficeMissing, SourceRefused, StoreDamaged
from truespan.parsing.detect import OFFICE, format_by_name
from truespan.types.picture import PlacedPart, PlacesRequest
from truespan.types.reading import ActiveRevision
from truespan.types.scope import Scope

_PDF, _PLACES = "pdf", "places"
"""Names under which the PDF file of a document and the pages of its sentences are kept."""
_MAX_SENTENCES = 20_000
"""Maximum number of sentences of a document whose places are searched."""


def is_office(revision: ActiveRevision) -> bool:
    """Return whether LibreOffice is needed to draw a document."""
    return format_by_name(revision.name) in OFFICE


def read_pdf(
    components: Components,
    scope: Scope,
    revision: ActiveRevision,
    read_source: Callable[[], bytes | None],
) -> bytes | None:
    """Return a document as PDF, converted once; None if it cannot be converted.

    Raises:
        OfficeMissing: There is no LibreOffice.
    """
    pictures, office = components.pictures, components.office
    if office is None:
        raise OfficeMissing
    if pictures is None:
        return None
    owner = scope.world, revision.doc_id, revision.source_hash
    pdf = pictures.read(*owner, _PDF)
    if pdf is None:
        data = read_source()
        if data is None:
            return None
        try:
            pdf = office.to_pdf(revision.name, data)
        except SourceRefused:
            # Kept as an empty file, so that a document that takes too long is not tried again.
            pdf = b""
        keep_picture(components, scope, revision, _PDF, pdf)
    return pdf or None


def find_parts(
    components: Components, scope: Scope, revision: ActiveRevision, pdf: bytes
) -> tuple[PlacedPart, ...]:
    """Return the sentences of a document on the pages of its PDF file, searched once."""
    pictures = components.pictures
    if pictures is None or revision.sentences > _MAX_SENTENCES:
        return ()
    # Sentences are searched again when they change, as after an ingest with other options.
    owner = scope.world, revision.doc_id, revision.source_hash
    request = _request(components, scope, revision)
    name = f"{_PLACES}-{sha256(msgspec.json.encode(request)).hexdigest()[:32]}"
    if (kept := pictures.read(*owner, name)) is not None:
        return msgspec.msgpack.decode(kept, type=tuple[PlacedPart, ...])
    try:
        found = components.parser.find_places(pdf, request)
    except SourceRefused:
        found = ()
    keep_picture(components, scope, revision, name, msgspec.msgpack.encode(found))
    return found


def keep_picture(
    components: Components, scope: Scope, revision: ActiveRevision, name: str, data: bytes
) -> None:
    """Keep a file of a document, unless the document was deleted or changed meanwhile.

    Deletion removes files after the record of the document, so checking after writing is enough.
    """
    pictures = components.pictures
    if pictures is None:
        return
    pictures.write(scope.world, revision.doc_id, revision.source_hash, name, data)
    current = components.store.in_force(scope, revision.ref.document)
    if current is None:
        pictures.remove(scope.world, revision.doc_id)
    elif current.source_hash != revision.source_hash:
        pictures.keep_only(scope.world, revision.doc_id, current.source_hash)


def _request(components: Components, scope: Scope, revision: ActiveRevision) -> PlacesRequest:
    store, last = components.store, revision.sentences - 1
    sentences = list(store.sentences(scope, revision.ref, 0, last))
    end = max((sentence.end for sentence in sentences), default=0)
    whole = store.text_between(scope, revision.ref, 0, end)
    texts = tuple(whole[sentence.start : sentence.end] for sentence in sentences)
    for sentence, text in zip(sentences, texts, strict=True):
        if sha256(text.encode()).digest() != sentence.digest:
            raise StoreDamaged("A sentence of the document does not match its hash.")
    starts = store.page_starts(scope, revision.ref)
    offsets = [start.offset for start in starts]
    slides = [start.page if start.unit == "slide" else 0 for start in starts]
    pages = tuple(
        slides[at - 1] if (at := bisect_right(offsets, sentence.start)) else 0
        for sentence in sentences
    )
    return PlacesRequest(revision.name, texts, pages)
