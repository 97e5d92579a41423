"""The source of a document as it looks, for callers who may see all of it and for readers.

Office documents are converted to PDF once, with the pages of their sentences.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from truespan.engine.components import Components
from truespan.errors import OfficeMissing, SourceRefused, StoreDamaged
from truespan.parsing.detect import OFFICE, format_by_name
from truespan.retrieval.deps import Restart
from truespan.types.picture import (
    SOURCE,
    MarkedSentence,
    PagePicture,
    PictureRequest,
    PlacedPart,
    PlacesRequest,
    Rendering,
)
from truespan.types.reading import ActiveRevision, StoredSentence
from truespan.types.scope import Scope
from truespan.types.source import UPLOAD, Source, is_page
from truespan.types.text import PageStart

if TYPE_CHECKING:
    from truespan.store import Store

_VERSION = "1"
"""Changes whenever pages are drawn differently."""


class _Part(Struct, frozen=True):
    sid: int
    text: str


def draw_page(
    components: Components,
    scope: Scope,
    revision: ActiveRevision,
    page: int = 1,
    *,
    sentence: int | None = None,
    until: int | None = None,
) -> PagePicture | None:
    """Return a page of a document as it looks; None if it cannot be shown to this caller.

    With `sentence`, that is the page on which the sentence begins, if it is known. `until` is the
    last sentence that a reader has read: only read text is drawn then, on every page. An
    earlier page may also have unread text, such as a list of contents, and a page that is drawn
    whole would tell that it has none. Office documents have no pages for readers: what follows may
    move the read text.

    Raises:
        OfficeMissing: The document is an office document, and there is no LibreOffice.
    """
    store, pictures = components.store, components.pictures
    last = revision.sentences - 1 if until is None else until
    if pictures is None or last < 0 or _is_redacted(store, scope, revision):
        return None
    [end] = [each.end for each in store.sentences(scope, revision.ref, last, last)] or [-1]
    if end < 0:
        raise Restart
    if is_office(revision):
        if until is not None:
            return None
        return _draw_office_page(components, scope, revision, page, sentence)
    starts = store.page_starts(scope, revision.ref)
    if sentence is not None:
        page = _page_of(store, scope, revision, starts, sentence) or page
    visible = [start for start in starts if start.offset < end]
    parts = _read_parts(store, scope, revision, _spans(visible, page, end), last)
    only_parts = until is not None
    if only_parts and not parts:
        return None
    request = PictureRequest(
        revision.name, page, tuple(part.text for part in parts), only_parts=only_parts
    )
    drawn = _draw(
        components, scope, revision, request, lambda: _source(components, scope, revision)
    )
    return _picture(revision, request, [part.sid for part in parts], drawn)


def _draw_office_page(
    components: Components, scope: Scope, revision: ActiveRevision, page: int, sentence: int | None
) -> PagePicture | None:
    pdf = read_pdf(components, scope, revision, lambda: _source(components, scope, revision))
    if pdf is None:
        return None
    placed = find_parts(components, scope, revision, pdf)
    page = next((part.page for part in placed if part.sid == sentence), page)
    parts = [part for part in placed if part.page == page]
    letters = tuple(part.letters for part in parts)
    request = PictureRequest(f"{revision.name}.pdf", page, letters, anywhere=True)
    drawn = _draw(components, scope, revision, request, lambda: pdf)
    return _picture(revision, request, [part.sid for part in parts], drawn)


def _picture(
    revision: ActiveRevision, request: PictureRequest, sids: Sequence[int], drawn: Rendering | None
) -> PagePicture | None:
    """Return a drawn page with the places of sentences."""
    if drawn is None:
        return None
    return PagePicture(
        document=revision.ref.document,
        doc_id=revision.doc_id,
        page=request.page,
        media_type=drawn.media_type,
        width=drawn.width,
        height=drawn.height,
        partial=request.only_parts,
        sentences=tuple(
            MarkedSentence(sid, boxes)
            for sid, boxes in zip(sids, drawn.boxes, strict=True)
            if boxes
        ),
        image=drawn.data,
    )


def _is_redacted(store: Store, scope: Scope, revision: ActiveRevision) -> bool:
    """Return whether the sanitizer removed something, which the source still shows."""
    return any(entry.redacted for entry in store.audit(scope, revision.ref.document))


def _spans(starts: list[PageStart], page: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a text up to `end` that are on a page."""
    ends = [*(start.offset for start in starts[1:]), end]
    return [
        (start.offset, stop)
        for start, stop in zip(starts, ends, strict=False)
        if start.page_number == page
    ]


def _read_parts(
    store: Store, scope: Scope, revision: ActiveRevision, spans: list[tuple[int, int]], last: int
) -> list[_Part]:
    """Return the sentences in some parts of a text, each verified and cut at the page."""
    parts: list[_Part] = []
    for start, end in spans:
        first = max(store.sentence_at(scope, revision.ref, start), 0)
        until = min(store.sentence_at(scope, revision.ref, end - 1), last)
        for sentence in store.sentences(scope, revision.ref, first, until):
            if sentence.end <= start:
                continue
            text = _verified_text(store, scope, revision, sentence)
            cut = text[max(start - sentence.start, 0) : end - sentence.start]
            parts.append(_Part(sentence.sid, cut))
    return parts


def _verified_text(
    store: Store, scope: Scope, revision: ActiveRevision, sentence: StoredSentence
) -> str:
    text = store.text_between(scope, revision.ref, sentence.start, sentence.end)
    if sha256(text.encode()).digest() != sentence.digest:
        raise StoreDamaged("A sentence of the document does not match its hash.")
    return text


def _draw(
    components: Components,
    scope: Scope,
    revision: ActiveRevision,
    request: PictureRequest,
    read: Callable[[], bytes | None],
) -> Rendering | None:
    """Return a drawn page from the pictures that are kept, or draw it; None if it cannot be."""
    pictures = components.pictures
    if pictures is None:
        return None
    key = sha256(_VERSION.encode() + msgspec.json.encode(request)).hexdigest()[:32]
    owner = scope.world, revision.doc_id, revision.source_hash
    if (kept := pictures.read(*owner, key)) is not None:
        return msgspec.msgpack.decode(kept, type=Rendering)
    data = read()
    if data is None:
        return None
    try:
        drawn = components.parser.draw(data, request)
    except SourceRefused:
        return None
    if drawn is not None:
        keep_picture(components, scope, revision, key, msgspec.msgpack.encode(drawn))
    return drawn


def _page_of(
    store: Store, scope: Scope, revision: ActiveRevision, starts: Sequence[PageStart], sid: int
) -> int | None:
    """Return the page on which a sentence begins; None if it is unknown."""
    for sentence in store.sentences(scope, revision.ref, sid, sid):
        before = [start for start in starts if start.offset <= sentence.start]
        return before[-1].page_number if before else None
    return None


def _source(components: Components, scope: Scope, revision: ActiveRevision) -> bytes | None:
    """Return the source of a revision; None if it is gone, or has changed since it was ingested."""
    data = _read_source(components, scope, revision)
    # The file may have changed since it was ingested; then its pages have another text.
    if data is None or sha256(data).hexdigest() != revision.source_hash:
        return None
    return data


def _read_source(components: Components, scope: Scope, revision: ActiveRevision) -> bytes | None:
    """Return the source of a revision; None if it is not kept, or its file is gone."""
    pictures = components.pictures
    if pictures is None:
        return None
    kept = pictures.read(scope.world, revision.doc_id, revision.source_hash, SOURCE)
    if kept is not None:
        return kept
    number = revision.ref.document
    [path] = [
        document.path for document in components.store.documents(scope.narrow(documents=[number]))
    ] or [UPLOAD]
    if path.startswith(UPLOAD) or is_page(path):
        return None
    source = Source(path, revision.name, revision.doc_id, 0, confined=True)
    try:
        return components.sources.read(source)
    except SourceRefused:
        return None


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
