"""The source of a document as it looks, for callers who may see all of it and for readers.

Office documents are converted to PDF once, with the pages of their sentences.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from truespan.engine.components import Components
from truespan.errors import OfficeMissing, SourceRefused, StoreDamaged
from truespan.parsing.detect import OFFICE, format_by_name
from truespan.protocols import PictureStore
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
    if pictures is None or last < 0:
        return None
    # What the sanitizer removed from the text, the source still shows.
    if any(entry.redacted for entry in store.audit(scope, revision.ref.document)):
        return None
    [end] = [each.end for each in store.sentences(scope, revision.ref, last, last)] or [-1]
    if end < 0:
        raise Restart
    document = _DrawnDocument(components, pictures, scope, revision)
    if format_by_name(revision.name) in OFFICE:
        return document.draw_office_page(page, sentence) if until is None else None
    starts = store.page_starts(scope, revision.ref)
    if sentence is not None:
        page = document.page_of(starts, sentence) or page
    visible = [start for start in starts if start.offset < end]
    parts = document.read_parts(_spans(visible, page, end), last)
    only_parts = until is not None
    if only_parts and not parts:
        return None
    texts = tuple(part.text for part in parts)
    request = PictureRequest(revision.name, page, texts, only_parts=only_parts)
    return document.draw(request, [part.sid for part in parts], document.source)


def _spans(starts: list[PageStart], page: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a text up to `end` that are on a page."""
    ends = [*(start.offset for start in starts[1:]), end]
    return [
        (start.offset, stop)
        for start, stop in zip(starts, ends, strict=False)
        if start.page_number == page
    ]


_PDF, _PLACES = "pdf", "places"
"""Names under which the PDF file of a document and the pages of its sentences are kept."""
_MAX_SENTENCES = 20_000
"""Maximum number of sentences of a document whose places are searched."""


class _DrawnDocument(Struct, frozen=True):
    """A revision whose pages are drawn, and the store of what was drawn of it."""

    components: Components
    pictures: PictureStore
    scope: Scope
    revision: ActiveRevision

    def draw(
        self, request: PictureRequest, sids: Sequence[int], read: Callable[[], bytes | None]
    ) -> PagePicture | None:
        """Return a page with the places of sentences, kept or drawn; None if it cannot be drawn."""
        key = sha256(_VERSION.encode() + msgspec.json.encode(request)).hexdigest()[:32]
        if (kept := self._read_kept(key)) is not None:
            drawn = msgspec.msgpack.decode(kept, type=Rendering)
        else:
            data = read()
            if data is None:
                return None
            try:
                drawn = self.components.parser.draw(data, request)
            except SourceRefused:
                return None
            if drawn is None:
                return None
            self._keep(key, msgspec.msgpack.encode(drawn))
        return PagePicture(
            document=self.revision.ref.document,
            doc_id=self.revision.doc_id,
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

    def draw_office_page(self, page: int, sentence: int | None) -> PagePicture | None:
        """Return a page of an office document as LibreOffice prints it; raises OfficeMissing."""
        pdf = self._pdf()
        if pdf is None:
            return None
        placed = self._find_parts(pdf)
        page = next((part.page for part in placed if part.sid == sentence), page)
        parts = [part for part in placed if part.page == page]
        letters = tuple(part.letters for part in parts)
        request = PictureRequest(f"{self.revision.name}.pdf", page, letters, anywhere=True)
        return self.draw(request, [part.sid for part in parts], lambda: pdf)

    def page_of(self, starts: Sequence[PageStart], sid: int) -> int | None:
        """Return the page on which a sentence begins; None if it is unknown."""
        for sentence in self.components.store.sentences(self.scope, self.revision.ref, sid, sid):
            before = [start for start in starts if start.offset <= sentence.start]
            return before[-1].page_number if before else None
        return None

    def read_parts(self, spans: list[tuple[int, int]], last: int) -> list[_Part]:
        """Return the sentences in some parts of the text, each verified and cut at the page."""
        store, scope, ref = self.components.store, self.scope, self.revision.ref
        parts: list[_Part] = []
        for start, end in spans:
            first = max(store.sentence_at(scope, ref, start), 0)
            until = min(store.sentence_at(scope, ref, end - 1), last)
            for sentence in store.sentences(scope, ref, first, until):
                if sentence.end <= start:
                    continue
                text = store.text_between(scope, ref, sentence.start, sentence.end)
                _verify(sentence, text)
                cut = text[max(start - sentence.start, 0) : end - sentence.start]
                parts.append(_Part(sentence.sid, cut))
        return parts

    def source(self) -> bytes | None:
        """Return the source; None if it is not kept, is gone, or changed since it was ingested."""
        data = self._read_source()
        # A changed file has other pages.
        if data is None or sha256(data).hexdigest() != self.revision.source_hash:
            return None
        return data

    def _read_source(self) -> bytes | None:
        if (kept := self._read_kept(SOURCE)) is not None:
            return kept
        revision, scope = self.revision, self.scope.narrow(documents=[self.revision.ref.document])
        [path] = [each.path for each in self.components.store.documents(scope)] or [UPLOAD]
        if path.startswith(UPLOAD) or is_page(path):
            return None
        source = Source(path, revision.name, revision.doc_id, 0, confined=True)
        try:
            return self.components.sources.read(source)
        except SourceRefused:
            return None

    def _pdf(self) -> bytes | None:
        """Return the document as PDF, converted once; None if it cannot be converted.

        Raises:
            OfficeMissing: There is no LibreOffice.
        """
        office = self.components.office
        if office is None:
            raise OfficeMissing
        pdf = self._read_kept(_PDF)
        if pdf is None:
            data = self.source()
            if data is None:
                return None
            try:
                pdf = office.to_pdf(self.revision.name, data)
            except SourceRefused:
                # Kept as an empty file, so that a document that takes too long is not tried again.
                pdf = b""
            self._keep(_PDF, pdf)
        return pdf or None

    def _find_parts(self, pdf: bytes) -> tuple[PlacedPart, ...]:
        """Return the sentences on the pages of the PDF file, searched once."""
        if self.revision.sentences > _MAX_SENTENCES:
            return ()
        # Sentences are searched again when they change, as after an ingest with other options.
        request = self._places_request()
        name = f"{_PLACES}-{sha256(msgspec.json.encode(request)).hexdigest()[:32]}"
        if (kept := self._read_kept(name)) is not None:
            return msgspec.msgpack.decode(kept, type=tuple[PlacedPart, ...])
        try:
            found = self.components.parser.find_places(pdf, request)
        except SourceRefused:
            found = ()
        self._keep(name, msgspec.msgpack.encode(found))
        return found

    def _places_request(self) -> PlacesRequest:
        store, scope, ref = self.components.store, self.scope, self.revision.ref
        sentences = list(store.sentences(scope, ref, 0, self.revision.sentences - 1))
        end = max((sentence.end for sentence in sentences), default=0)
        whole = store.text_between(scope, ref, 0, end)
        texts = tuple(whole[sentence.start : sentence.end] for sentence in sentences)
        for sentence, text in zip(sentences, texts, strict=True):
            _verify(sentence, text)
        starts = store.page_starts(scope, ref)
        offsets = [start.offset for start in starts]
        slides = [start.page if start.unit == "slide" else 0 for start in starts]
        pages = tuple(
            slides[at - 1] if (at := bisect_right(offsets, sentence.start)) else 0
            for sentence in sentences
        )
        return PlacesRequest(self.revision.name, texts, pages)

    def _read_kept(self, name: str) -> bytes | None:
        revision = self.revision
        return self.pictures.read(self.scope.world, revision.doc_id, revision.source_hash, name)

    def _keep(self, name: str, data: bytes) -> None:
        """Keep a file of the document, unless the document was deleted or changed meanwhile.

        Deletion removes files after the record of the document, so checking after writing is
        enough.
        """
        world, doc_id, source_hash = (
            self.scope.world,
            self.revision.doc_id,
            self.revision.source_hash,
        )
        self.pictures.write(world, doc_id, source_hash, name, data)
        current = self.components.store.in_force(self.scope, self.revision.ref.document)
        if current is None:
            self.pictures.remove(world, doc_id)
        elif current.source_hash != source_hash:
            self.pictures.keep_only(world, doc_id, current.source_hash)


def _verify(sentence: StoredSentence, text: str) -> None:
    if not sentence.matches(text):
        raise StoreDamaged("A sentence of the document does not match its hash.")
