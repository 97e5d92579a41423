"""Documents sentence by sentence: pages of them, and reading positions.

A position is given by sentence, by chapter or by the passage read last. Each sentence is checked
against its hash as it is read.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from truespan import errors
from truespan.retrieval.deps import Restart
from truespan.retrieval.reading.chapters import find_chapter, list_chapters
from truespan.types.chunk import ImageFile
from truespan.types.document import Document, RevisionRef
from truespan.types.reading import (
    NOTHING_READ,
    ActiveRevision,
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
from truespan.types.text import CanonicalText, Place, contents_start

if TYPE_CHECKING:
    from truespan.files.assets import AssetFolder
    from truespan.store import Store

_MEDIA_TYPES = {"jpg": "jpeg", "tif": "tiff"} | {
    kind: kind for kind in ("png", "jpeg", "gif", "webp", "avif", "bmp", "tiff")
}
"""Media types of images by their ending. All others are served as plain bytes, which no browser
opens as a page: SVG can contain scripts."""


class Pages(Struct, frozen=True):
    """One revision, read page by page. With `until`, nothing past that sentence is read."""

    store: Store
    scope: Scope
    ref: RevisionRef
    head: PageHead
    until: int | None = None
    count: int | None = None
    """Number of sentences of the revision; None for a reader, who must not learn it."""

    def page(self, wanted: PageRequest) -> SentencePage:
        """Return the requested sentences, as far as they exist."""
        # One more than requested, if visible, shows whether others follow.
        first, last = wanted.offset, wanted.offset + wanted.limit
        if self.until is not None:
            last = min(last, self.until)
        stored = (
            self.store.readers.sentences(self.scope, self.ref, first, last) if first <= last else []
        )
        if any(sentence.sid != first + place for place, sentence in enumerate(stored)):
            raise errors.StoreDamaged("A sentence of the document is missing.")
        if self.until is not None and len(stored) != max(last - first + 1, 0):
            raise Restart
        if self.count is not None and len(stored) != max(min(last + 1, self.count) - first, 0):
            raise Restart
        shown, following = stored[: wanted.limit], stored[wanted.limit :]
        return SentencePage(
            **asdict(self.head),
            first=wanted.offset,
            last=shown[-1].sid if shown else -1,
            more=bool(following),
            sentences=tuple(self._sentences(shown)) if shown else (),
            figures=tuple(self._figures(shown, following)) if shown else (),
        )

    def image_of(self, assets: AssetFolder, token: str, wanted: ImageFile) -> StoredImage | None:
        """Return an image that a figure of the revision shows; None if there is no such figure."""
        reference = f"{wanted.doc_id}/{wanted.name}"
        figures = self._visible_figures()
        if not any(figure.intact and figure.image_ref == reference for figure in figures):
            return None
        found = assets.read(self.scope.world, wanted.doc_id, token, wanted.name)
        if found is None:
            return None
        kind = _MEDIA_TYPES.get(wanted.extension)
        return StoredImage(found, f"image/{kind}" if kind else "application/octet-stream")

    def _sentences(self, shown: Sequence[StoredSentence]) -> Iterator[PageSentence]:
        # The character before the first sentence shows whether it begins a line.
        start = max(shown[0].start - 1, 0)
        passage = self.store.readers.passage(self.scope, self.ref, start, shown[-1].end)
        if passage is None:
            raise Restart
        # Bytes that cannot be decoded are replaced, and the text then no longer matches its hash.
        text = passage.text.decode(errors="replace")
        places = CanonicalText(text, passage.starts, passage.places, pages=passage.pages)
        for sentence in shown:
            content = text[sentence.start - start : sentence.end - start]
            if not sentence.matches(content):
                raise errors.StoreDamaged("A sentence of the document does not match its hash.")
            place, page = places.place_at(sentence.start), places.page_at(sentence.start)
            chapter = place.chapter or self.head.title
            section = place.section or chapter
            before = text[sentence.start - start - 1 : sentence.start - start]
            starts_line = before in ("", "\n") or not sentence.start
            location = places.location(sentence.start, sentence.start)
            yield PageSentence(
                sid=sentence.sid,
                start=sentence.start,
                end=sentence.end,
                text=content,
                chapter=chapter,
                section=section,
                page=page,
                starts_line=starts_line,
                location=location,
            )

    def _visible_figures(self) -> list[StoredFigure]:
        """Return the visible figures: for a reader, those independent of unread text.

        A damaged figure counts as read only if that is certain: a row that may lie ahead must not
        matter.
        """
        until = self.until
        figures = self.store.readers.figures(self.scope, self.ref, all_of_them=until is None)
        if until is None:
            return figures
        read = [figure.reach is not None and figure.reach <= until for figure in figures]
        # Figures are in reading order.
        last = max((place for place, is_read in enumerate(read) if is_read), default=-1)
        return [
            figure
            for place, (figure, is_read) in enumerate(zip(figures, read, strict=True))
            if is_read or (figure.reach is None and not figure.intact and place < last)
        ]

    def _figures(
        self, shown: Sequence[StoredSentence], following: Sequence[StoredSentence]
    ) -> Iterator[PageFigure]:
        """Yield the figures in or right after the sentences of a page."""
        end = following[0].start if following else None
        for figure in self._visible_figures():
            # A sentence that begins exactly at the figure comes after it.
            earlier = [sentence.sid for sentence in shown if sentence.start < figure.start]
            before_all = not earlier and shown[0].sid == 0
            if (end is not None and figure.start > end) or not (earlier or before_all):
                continue
            if not figure.intact:
                raise errors.StoreDamaged(
                    f"A figure of document {self.ref.document} does not match its checksum.",
                    advice="Run 'truespan doctor --apply'.",
                )
            description = figure.description.decode() if figure.has_chunk else None
            sid = earlier[-1] if earlier else 0
            yield PageFigure(sid, figure.figure_id, figure.image_ref, description)


def active_pages(store: Store, scope: Scope, revision: ActiveRevision) -> Pages:
    """Return the pages of the whole active revision, for a caller who may read all of it."""
    names = revision.doc_id, revision.title, revision.name, revision.path
    head = PageHead(revision.ref.document, *names)
    return Pages(store, scope, revision.ref, head, count=revision.sentences)


def read_pages(store: Store, scope: Scope, position: Position) -> Pages:
    """Return the pages of the revision that was read, up to the position."""
    names = position.doc_id, position.title, position.name, position.label.path
    return Pages(
        store,
        scope.for_reader(position.document, position.revision, position.sid),
        RevisionRef(position.document, position.revision),
        PageHead(position.document, *names),
        until=position.sid,
    )


_END_OF_TEXT = 2**62
"""An offset beyond any text."""
_SAME_CHARACTERS = ('"“”„‟«»″', "'‘’‚‛′`", "-‐‑‒–—―−")
_FOLD = str.maketrans({char: group[0] for group in _SAME_CHARACTERS for char in group})
_FOLD[ord("…")] = "..."
_FOLDED = re.compile(f"[{re.escape(''.join(_SAME_CHARACTERS))}….]")
"""Characters that may look different in a text that has the passage."""
_RUNS = re.compile(r"[^\s…]+|…")
_QUICK_WORDS = 3


def find_passage(passage: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of `passage` in `text`, in order; they may overlap.

    Any run of white space matches any other, and so do the usual forms of quotes and dashes; "…"
    counts as three dots. The time is linear in both lengths for every text.
    """
    words = passage.split()
    plain = sorted((word for word in words if not _FOLDED.search(word)), key=len)
    # Nearly all texts without the passage lack one of its longest words, which is cheap to test.
    if not words or not all(word in text for word in plain[-_QUICK_WORDS:]):
        return
    wanted = " ".join(passage.translate(_FOLD).split())
    occurrences = _find_all(wanted, " ".join(text.translate(_FOLD).split()))
    first = next(occurrences, None)
    if first is None:
        return
    # Start of each run without white space, in the text and in the folded text.
    starts, folded_starts, length, past = [], [], 0, 0
    for run in _RUNS.finditer(text):
        length += bool(starts) and run.start() > past
        starts.append(run.start())
        folded_starts.append(length)
        past = run.end()
        length += 3 if text[past - 1] == "…" else past - run.start()
    for found in chain((first,), occurrences):
        run = bisect_right(folded_starts, found) - 1
        last = bisect_left(folded_starts, found + len(wanted)) - 1
        before, inside = found - folded_starts[run], found + len(wanted) - folded_starts[last]
        if text[starts[last]] == "…":
            inside, rest = divmod(inside, 3)
        else:
            rest = 0
        # No occurrence begins or ends within an ellipsis.
        if not rest and (not before or text[starts[run]] != "…"):
            yield starts[run] + before, starts[last] + inside


def _find_all(wanted: str, text: str) -> Iterator[int]:
    """Yield the starts of `wanted` in `text`, also of overlapping occurrences, in linear time."""
    # After an occurrence the search continues character by character (Knuth, Morris, Pratt) until
    # no other one can have begun; searching from its second character would be quadratic.
    borders: list[int] = []
    length, at = len(wanted), text.find(wanted)
    while at >= 0:
        yield at
        if not borders:
            borders = _borders(wanted)
        place, matched = at + length, borders[-1]
        while matched and place < len(text):
            while matched and text[place] != wanted[matched]:
                matched = borders[matched - 1]
            matched += text[place] == wanted[matched]
            place += 1
            if matched == length:
                yield place - length
                matched = borders[-1]
        at = text.find(wanted, place)


def _borders(word: str) -> list[int]:
    """Return the length of the longest border of each prefix of a word."""
    borders, matched = [0], 0
    for char in word[1:]:
        while matched and char != word[matched]:
            matched = borders[matched - 1]
        matched += char == word[matched]
        borders.append(matched)
    return borders


def resolve(
    store: Store,
    scope: Scope,
    document: Document,
    *,
    sid: int | None,
    through_chapter: str | None,
    passage: str | None,
    position: int = NOTHING_READ,
) -> int:
    """Return the last sentence read, given in exactly one of three ways; see `Reader.set_position`.

    `position` is the last sentence read until now.
    """
    if [sid, through_chapter, passage].count(None) != 2:
        raise errors.InvalidArgument(
            "Give the position as a sentence, a chapter or a passage: exactly one of them."
        )
    if document.active is None:
        raise errors.NotFound("document", document.doc_id)
    outline = store.documents.outline(scope, document.number)
    # Lists such as the contents stand at the end, but a reader who has seen a line of one has not
    # read that far.
    body_end = contents_start([(e.start, Place(e.chapter, e.section)) for e in outline])
    if passage is not None:
        text = store.documents.canonical_text(scope, document.number)[:body_end]
        found = list(find_passage(passage, text))
        if not found:
            raise errors.NotFound("passage")
        if len(found) > 1:
            raise errors.InvalidArgument(code="passage_ambiguous", count=len(found))
        return store.documents.sentences_across(scope, document.number, *found[0])[1]
    # The last sentence of the active revision; a newer one may be staged.
    last = store.readers.sentence_at(
        scope, RevisionRef(document.number, document.active), _END_OF_TEXT
    )
    if through_chapter is not None:
        end = next((e.first_sid - 1 for e in outline if e.start == body_end), last)
        return find_chapter(list_chapters(outline, end), through_chapter, position=position).end
    if isinstance(sid, bool) or not isinstance(sid, int):
        raise errors.InvalidArgument("The number of the sentence must be a whole number.")
    if not NOTHING_READ <= sid <= last:
        raise errors.InvalidArgument(f"The document has sentences 0 to {last}.")
    return sid


def describe_position(store: Store, scope: Scope, position: Position) -> ReadingPosition:
    """Describe a position by the chapters reached and the last sentence read."""
    ref = RevisionRef(position.document, position.revision)
    last = store.readers.sentences(scope, ref, position.sid, position.sid)
    reached: list[str] = []
    sentence = None
    if not last and position.sid != NOTHING_READ:
        raise Restart
    if last:
        entries = store.readers.places_until(scope, ref, last[0].end)
        reached = [chapter.name for chapter in list_chapters(entries, position.sid)]
        sentence = store.readers.text_between(scope, ref, last[0].start, last[0].end)
        if not last[0].matches(sentence):
            raise errors.StoreDamaged("A sentence of the book does not match its hash.")
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
        path=position.label.path,
    )
