"""Sentences of a revision, page by page, each held against its hash as it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from truespan.errors import StoreDamaged
from truespan.protocols import AssetStore, PageStore, ReaderStore
from truespan.retrieval.snapshot import Restart
from truespan.types.document import RevisionRef
from truespan.types.figure import ImageFile
from truespan.types.ids import hash_bytes
from truespan.types.reading import (
    InForce,
    PageFigure,
    PageHead,
    PageRequest,
    PageSentence,
    Position,
    SentencePage,
    StoredFigure,
    StoredImage,
    StoredSentence,
)
from truespan.types.scope import Scope
from truespan.types.text import CanonicalText

_MEDIA_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
}
_UNNAMED = "application/octet-stream"
"""For all that no browser should open as a page of its own: SVG can hold scripts."""


class PagedStore(PageStore, ReaderStore, Protocol):
    """What pages are made of."""


@dataclass(frozen=True, slots=True)
class Pages:
    """One revision to be read page by page. Nothing past `until` is read, where that is given."""

    store: PagedStore
    scope: Scope
    ref: RevisionRef
    head: PageHead
    until: int | None = None

    def page(self, wanted: PageRequest) -> SentencePage:
        """Return the wanted sentences, as far as there are any.

        Raises:
            StoreDamaged: a sentence is not what it was when the document was taken in.
            Restart: the revision is gone.
        """
        stored = self._stored(wanted)
        shown, following = stored[: wanted.count], stored[wanted.count :]
        return SentencePage(
            document=self.head.document,
            doc_id=self.head.doc_id,
            title=self.head.title,
            source=self.head.source,
            first=wanted.first,
            last=shown[-1].sid if shown else -1,
            more=bool(following),
            sentences=self._sentences(shown),
            figures=self._figures(shown, following),
        )

    def image_of(self, assets: AssetStore, token: str, wanted: ImageFile) -> StoredImage | None:
        """Return an image that a figure of the revision shows; None where there is none."""
        reference = f"{wanted.doc_id}/{wanted.name}"
        if all(figure.image_ref != reference for figure in self._seen_figures()):
            return None
        found = assets.read(self.scope.world, wanted.doc_id, token, wanted.name)
        if found is None:
            return None
        return StoredImage(found, _MEDIA_TYPES.get(wanted.extension, _UNNAMED))

    def _stored(self, wanted: PageRequest) -> list[StoredSentence]:
        """Return the wanted sentences and, where it may be seen, the one after them."""
        first, last = wanted.first, wanted.first + wanted.count
        if self.until is not None:
            last = min(last, self.until)
        stored = self.store.sentences(self.scope, self.ref, first, last) if first <= last else []
        if any(one.sid != first + place for place, one in enumerate(stored)):
            raise StoreDamaged("A sentence of the document is missing.")
        if self.until is not None and len(stored) != max(last - first + 1, 0):
            raise Restart
        return stored

    def _sentences(self, shown: Sequence[StoredSentence]) -> tuple[PageSentence, ...]:
        if not shown:
            return ()
        start = shown[0].start
        passage = self.store.passage(self.scope, self.ref, start, shown[-1].end)
        if passage is None:
            raise Restart
        # What cannot be decoded becomes something else, and then no longer fits its hash.
        text = passage.text.decode(errors="replace")
        places = CanonicalText(text, passage.starts, passage.places, pages=passage.pages)
        return tuple(
            self._sentence(one, text[one.start - start : one.end - start], places) for one in shown
        )

    def _sentence(self, one: StoredSentence, text: str, places: CanonicalText) -> PageSentence:
        if sha256(text.encode()).digest() != one.digest:
            raise StoreDamaged("A sentence of the document does not match its hash.")
        place = places.place_at(one.start)
        chapter = place.chapter or self.head.title
        section = place.section or chapter
        page = places.page_at(one.start)
        return PageSentence(one.sid, one.start, one.end, text, chapter, section, page)

    def _seen_figures(self) -> list[StoredFigure]:
        """Return the figures that may be seen: for a reader, those that nothing unread decided."""
        figures = self.store.figures(self.scope, self.ref)
        until = self.until
        if until is None:
            return figures
        return [one for one in figures if one.reach is not None and one.reach <= until]

    def _figures(
        self, shown: Sequence[StoredSentence], following: Sequence[StoredSentence]
    ) -> tuple[PageFigure, ...]:
        """Return the figures that stand in or right after the sentences of a page."""
        if not shown:
            return ()
        before = _standing(shown, following)
        placed = ((before(figure.start), figure) for figure in self._seen_figures())
        return tuple(
            PageFigure(sid, figure.figure_id, figure.image_ref, _described(figure))
            for sid, figure in placed
            if sid is not None
        )


def pages_in_force(store: PagedStore, scope: Scope, held: InForce) -> Pages:
    """Return the whole revision that readers of a document see, for whoever may see all of it."""
    head = PageHead(held.ref.document, held.doc_id, held.title, held.name)
    return Pages(store, scope, held.ref, head)


def _standing(
    shown: Sequence[StoredSentence], following: Sequence[StoredSentence]
) -> Callable[[int], int | None]:
    """Return what tells the sentence of a page that a figure belongs to, None for no such."""
    end = following[0].start if following else None

    def sid(offset: int) -> int | None:
        if end is not None and offset > end:
            return None
        # What begins just where it stands comes after it.
        earlier = [one.sid for one in shown if one.start < offset]
        if earlier:
            return earlier[-1]
        return 0 if shown[0].sid == 0 else None

    return sid


def _described(figure: StoredFigure) -> str | None:
    """Return what is said of a figure, if the hash of its chunk confirms it."""
    if figure.text_hash is None:
        return None
    if hash_bytes(figure.description) != figure.text_hash:
        raise StoreDamaged("The description of a figure does not match its hash.")
    return figure.description.decode()


def read_pages(store: PagedStore, scope: Scope, position: Position) -> Pages:
    """Return the revision that a position was read in, up to that position and no farther."""
    return Pages(
        store,
        scope.for_reader(position.document, position.revision, position.sid),
        RevisionRef(position.document, position.revision),
        PageHead(position.document, position.doc_id, position.title, position.name),
        until=position.sid,
    )
