"""The source of a document as it looks, for callers who may see all of it and for readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from truespan.core.decoding import prepare
from truespan.engine.components import Components
from truespan.engine.documents import Documents
from truespan.engine.reader import Reader
from truespan.errors import NotFound, SourceRefused, StoreDamaged
from truespan.retrieval.deps import Restart
from truespan.types.picture import (
    SOURCE,
    MarkedSentence,
    PagePicture,
    PictureRequest,
    Rendering,
)
from truespan.types.reading import LAST_FIRST, ActiveRevision, StoredSentence
from truespan.types.request import check_whole
from truespan.types.scope import Scope
from truespan.types.source import UPLOAD, Source, is_page
from truespan.types.text import PageStart

if TYPE_CHECKING:
    from truespan.files.assets import PictureFolder

_VERSION = "2"
"""Changes whenever pages are drawn differently."""


def picture_of(
    documents: Documents, reference: str | int, page: int = 1, *, sentence: int | None = None
) -> PagePicture:
    """Return a page of a document; see `Documents.picture`."""
    check_whole("page", page, 1, LAST_FIRST)
    if sentence is not None:
        check_whole("sentence", sentence, 0, LAST_FIRST)
    components = documents._access.components

    def read() -> PagePicture | None:
        scope, document = documents._find(reference)
        revision = components.store.readers.in_force(scope, document.number)
        if revision is None:
            return None
        return draw_page(components, scope, revision, page, sentence=sentence)

    return _require(documents._access.with_stable_snapshot(read))


def read_picture_of(reader: Reader, page: int = 1, *, book: str | None = None) -> PagePicture:
    """Return a page of a book without unread text; see `Reader.picture`."""
    check_whole("page", page, 1, LAST_FIRST)

    def read() -> PagePicture | None:
        scope, position = reader._open_book(book)
        active = reader._require_active(scope, position)
        return draw_page(reader._access.components, scope, active, page, until=position.sid)

    return _require(reader._access.with_stable_snapshot(read))


def _require(picture: PagePicture | None) -> PagePicture:
    if picture is None:
        raise NotFound("image")
    return picture


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
    whole would tell that it has none.
    """
    store, pictures = components.store, components.pictures
    last = revision.sentences - 1 if until is None else until
    if pictures is None or last < 0:
        return None
    # The source still shows text that the sanitizer removed. Whether it removed any depends on the
    # whole document, so readers are treated alike: they get no pictures while redaction is on, and
    # later those whose stored text is on the page unchanged.
    if until is not None:
        if components.preparation.redacts:
            return None
    elif any(entry.redacted for entry in store.revisions.audit(scope, revision.ref.document)):
        return None
    [end] = [each.end for each in store.readers.sentences(scope, revision.ref, last, last)] or [-1]
    if end < 0:
        raise Restart
    document = _DrawnDocument(components, pictures, scope, revision)
    starts = store.readers.page_starts(scope, revision.ref)
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


class _DrawnDocument(Struct, frozen=True):
    """A revision whose pages are drawn, and the store of its pictures."""

    components: Components
    pictures: PictureFolder
    scope: Scope
    revision: ActiveRevision

    def draw(
        self, request: PictureRequest, sids: Sequence[int], read: Callable[[], bytes | None]
    ) -> PagePicture | None:
        """Return a page with the places of sentences, kept or drawn; None if it cannot be drawn."""
        key = sha256(_VERSION.encode() + msgspec.json.encode(request)).hexdigest()[:32]
        if (kept := self._read_kept(key)) is not None:
            drawn = msgspec.msgpack.decode(kept, type=prepare(Rendering))
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

    def page_of(self, starts: Sequence[PageStart], sid: int) -> int | None:
        """Return the page on which a sentence begins; None if it is unknown."""
        for sentence in self.components.store.readers.sentences(
            self.scope, self.revision.ref, sid, sid
        ):
            before = [start for start in starts if start.offset <= sentence.start]
            return before[-1].page_number if before else None
        return None

    def read_parts(self, spans: list[tuple[int, int]], last: int) -> list[_Part]:
        """Return the sentences in some parts of the text, each verified and cut at the page."""
        store, scope, ref = self.components.store, self.scope, self.revision.ref
        parts: list[_Part] = []
        for start, end in spans:
            first = max(store.readers.sentence_at(scope, ref, start), 0)
            until = min(store.readers.sentence_at(scope, ref, end - 1), last)
            for sentence in store.readers.sentences(scope, ref, first, until):
                if sentence.end <= start:
                    continue
                text = store.readers.text_between(scope, ref, sentence.start, sentence.end)
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
        [path] = [each.path for each in self.components.store.documents.all(scope)] or [UPLOAD]
        if path.startswith(UPLOAD) or is_page(path):
            return None
        source = Source(path, revision.name, revision.doc_id, 0, confined=True)
        try:
            return self.components.sources.read(source)
        except SourceRefused:
            return None

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
        current = self.components.store.readers.in_force(self.scope, self.revision.ref.document)
        if current is None:
            self.pictures.remove(world, doc_id)
        elif current.source_hash != source_hash:
            self.pictures.keep_only(world, doc_id, current.source_hash)


def _verify(sentence: StoredSentence, text: str) -> None:
    if not sentence.matches(text):
        raise StoreDamaged("A sentence of the document does not match its hash.")
