"""Documents sentence by sentence: pages of them, and reading positions.

A position is given by sentence, by chapter or by the passage read last. Each sentence is checked
against its hash as it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from truespan.errors import (
    DocumentNotFound,
    InvalidSettings,
    PassageAmbiguous,
    PassageNotFound,
    StoreDamaged,
)
from truespan.protocols import AssetStore
from truespan.retrieval.snapshot import Restart
from truespan.types.chunk import ImageFile
from truespan.types.document import Document, OutlineEntry, RevisionRef
from truespan.types.ids import hash_bytes
from truespan.types.reading import (
    NOTHING_READ,
    InForce,
    PageFigure,
    PageHead,
    PageRequest,
    PageSentence,
    Position,
    ReadingPosition,
    SentencePage,
    StoredFigure,
    StoredImage,
    StoredSentence,
)
from truespan.types.scope import Scope
from truespan.types.text import CanonicalText

if TYPE_CHECKING:
    from truespan.store import Store

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
"""For everything that no browser should open as a page of its own: SVG can contain scripts."""


@dataclass(frozen=True, slots=True)
class Pages:
    """One revision, read page by page. Nothing past `until` is read, if that is given."""

    store: Store
    scope: Scope
    ref: RevisionRef
    head: PageHead
    until: int | None = None

    def page(self, wanted: PageRequest) -> SentencePage:
        """Return the wanted sentences, as many as there are.

        Raises:
            StoreDamaged: a sentence has changed since the document was ingested.
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
        """Return an image that a figure of the revision shows; None if there is no such figure."""
        reference = f"{wanted.doc_id}/{wanted.name}"
        if all(figure.image_ref != reference for figure in self._visible_figures()):
            return None
        found = assets.read(self.scope.world, wanted.doc_id, token, wanted.name)
        if found is None:
            return None
        return StoredImage(found, _MEDIA_TYPES.get(wanted.extension, _UNNAMED))

    def _stored(self, wanted: PageRequest) -> list[StoredSentence]:
        """Return the wanted sentences and, if it may be seen, the one after them."""
        first, last = wanted.first, wanted.first + wanted.count
        if self.until is not None:
            last = min(last, self.until)
        stored = self.store.sentences(self.scope, self.ref, first, last) if first <= last else []
        if any(sentence.sid != first + place for place, sentence in enumerate(stored)):
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
        # Bytes that cannot be decoded are replaced, and the text then no longer matches its hash.
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

    def _visible_figures(self) -> list[StoredFigure]:
        """Return the figures that may be seen: for a reader, those independent of unread text."""
        figures = self.store.figures(self.scope, self.ref)
        until = self.until
        if until is None:
            return figures
        return [one for one in figures if one.reach is not None and one.reach <= until]

    def _figures(
        self, shown: Sequence[StoredSentence], following: Sequence[StoredSentence]
    ) -> tuple[PageFigure, ...]:
        """Return the figures in or right after the sentences of a page."""
        if not shown:
            return ()
        sentence_of = _sentence_finder(shown, following)
        placed = ((sentence_of(figure.start), figure) for figure in self._visible_figures())
        return tuple(
            PageFigure(sid, figure.figure_id, figure.image_ref, _description(figure))
            for sid, figure in placed
            if sid is not None
        )


def pages_in_force(store: Store, scope: Scope, held: InForce) -> Pages:
    """Return the pages of the whole active revision, for a caller who may read all of it."""
    head = PageHead(held.ref.document, held.doc_id, held.title, held.name)
    return Pages(store, scope, held.ref, head)


def _sentence_finder(
    shown: Sequence[StoredSentence], following: Sequence[StoredSentence]
) -> Callable[[int], int | None]:
    """Return a function from a figure's offset to its sentence on the page; None if on another."""
    end = following[0].start if following else None

    def sid(offset: int) -> int | None:
        if end is not None and offset > end:
            return None
        # A sentence that begins exactly at the figure comes after it.
        earlier = [one.sid for one in shown if one.start < offset]
        if earlier:
            return earlier[-1]
        return 0 if shown[0].sid == 0 else None

    return sid


def _description(figure: StoredFigure) -> str | None:
    """Return the description of a figure, checked against the hash of its chunk."""
    if figure.text_hash is None:
        return None
    if hash_bytes(figure.description) != figure.text_hash:
        raise StoreDamaged("The description of a figure does not match its hash.")
    return figure.description.decode()


def read_pages(store: Store, scope: Scope, position: Position) -> Pages:
    """Return the pages of the revision that was read, up to the position."""
    return Pages(
        store,
        scope.for_reader(position.document, position.revision, position.sid),
        RevisionRef(position.document, position.revision),
        PageHead(position.document, position.doc_id, position.title, position.name),
        until=position.sid,
    )


_END_OF_TEXT = 2**62
"""An offset beyond any text."""
_SAME_CHARACTERS = ('"“”„‟«»″', "'‘’‚‛′`", "-‐‑‒–—―−")
_PATTERNS = {char: f"[{re.escape(group)}]" for group in _SAME_CHARACTERS for char in group}
_PATTERNS["…"] = r"(?:…|\.\.\.)"


def find_passage(passage: str, text: str, *, stop: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield where `passage` occurs in `text[:stop]`, in order; occurrences may overlap.

    Any run of white space matches any other, and so do the usual forms of quotes and dashes.
    """
    words = passage.replace("...", "…").split()
    if not words:
        return
    pattern = re.compile(
        r"\s+".join("".join(_PATTERNS.get(c) or re.escape(c) for c in word) for word in words)
    )
    start, end = 0, len(text) if stop is None else stop
    while found := pattern.search(text, start, end):
        yield found.span()
        # From the next character on: occurrences may overlap.
        start = found.start() + 1


def resolve(
    store: Store,
    scope: Scope,
    document: Document,
    *,
    sid: int | None,
    through_chapter: str | None,
    passage: str | None,
) -> int:
    """Return the last sentence read, given in exactly one of three ways.

    Raises:
        InvalidSettings: not exactly one is given, or the sentence does not exist.
        PassageNotFound, PassageAmbiguous: the passage occurs nowhere, or more than once.
    """
    given = [value for value in (sid, through_chapter, passage) if value is not None]
    if len(given) != 1:
        raise InvalidSettings(
            "Give the position as a sentence, a chapter or a passage: exactly one of them."
        )
    if document.active is None:
        raise DocumentNotFound(document.doc_id)
    if passage is not None:
        return _by_passage(store, scope, document, passage)
    if through_chapter is not None:
        return _by_chapter(store, scope, document, through_chapter)
    if isinstance(sid, bool) or not isinstance(sid, int):
        raise InvalidSettings("The sentence must be a whole number.")
    last = _last_sentence(store, scope, document)
    if not NOTHING_READ <= sid <= last:
        raise InvalidSettings(f"The document has sentences 0 to {last}.")
    return sid


def _last_sentence(store: Store, scope: Scope, document: Document) -> int:
    """Return the last sentence of the active revision; a newer one may be staged."""
    return store.sentence_at(
        scope, RevisionRef(document.number, document.active or 0), _END_OF_TEXT
    )


def _by_passage(store: Store, scope: Scope, document: Document, passage: str) -> int:
    text = store.canonical_text(scope, document.number)
    found = list(find_passage(passage, text))
    if not found:
        raise PassageNotFound
    if len(found) > 1:
        raise PassageAmbiguous(len(found))
    start, end = found[0]
    return store.sentences_across(scope, document.number, start, end)[1]


def _by_chapter(store: Store, scope: Scope, document: Document, chapter: str) -> int:
    """Return the last sentence of a chapter, given by its name or its number."""
    starts = _chapter_starts(store.outline(scope, document.number))
    wanted = chapter.strip().casefold()
    if not wanted:
        raise InvalidSettings("Name a chapter, or give its number.")
    names = [name.casefold() for name, _ in starts]
    if wanted in names:
        place = names.index(wanted)
    elif wanted.isdecimal() and 1 <= int(wanted) <= len(names) - (skipped := _title_lines(starts)):
        place = int(wanted) - 1 + skipped
    else:
        matching = [place for place, name in enumerate(names) if name.startswith(wanted)]
        if len(matching) != 1:
            raise InvalidSettings(
                f"There is no chapter {chapter!r}.", advice="'truespan show DOCUMENT' lists them."
            )
        place = matching[0]
    if place + 1 < len(starts):
        return starts[place + 1][1] - 1
    return _last_sentence(store, scope, document)


def _title_lines(starts: list[tuple[str, int]]) -> int:
    """Return 1 if the first entry is only a title line, which does not count as a chapter."""
    return int(len(starts) > 1 and starts[1][1] - starts[0][1] <= 1)


def _chapter_starts(outline: list[OutlineEntry]) -> list[tuple[str, int]]:
    """Return each chapter with its first sentence."""
    starts: list[tuple[str, int]] = []
    for entry in outline:
        if entry.chapter and (not starts or starts[-1][0] != entry.chapter):
            starts.append((entry.chapter, entry.first_sid))
    return starts


def describe_position(store: Store, scope: Scope, position: Position) -> ReadingPosition:
    """Describe a position by what was read: the chapters reached and the last sentence."""
    ref = RevisionRef(position.document, position.revision)
    last = store.sentences(scope, ref, position.sid, position.sid)
    reached: list[str] = []
    sentence = None
    if last:
        entries = store.places_until(scope, ref, last[0].end)
        reached = [name for name, _ in _chapter_starts(entries)]
        sentence = store.text_between(scope, ref, last[0].start, last[0].end)
        if sha256(sentence.encode()).digest() != last[0].digest:
            raise StoreDamaged("A sentence of the book does not match its hash.")
    return ReadingPosition(
        document=position.document,
        doc_id=position.doc_id,
        title=position.title,
        source=position.name,
        sid=position.sid,
        chapter=reached[-1] if reached else None,
        chapters_reached=tuple(reached),
        last_sentence=sentence,
        current=position.current,
    )
