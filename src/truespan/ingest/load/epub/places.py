"""Chapters and sections of a book: by its table of contents, and by headings where that is silent.

Entries of the first level begin chapters, deeper ones sections. Headings that follow such an entry
before any other text are its title in the page, so they begin nothing. Later ones begin sections,
unless the contents named the section. An entry for a place that its page does not have is left out:
nobody can say what it would label.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from truespan.ingest.load.epub.toc import Entry
from truespan.ingest.load.html.inline import Anchor
from truespan.ingest.load.html.open import Piece
from truespan.ingest.load.places import HeadingPlaces
from truespan.model.text import Place


class BookPlaces:
    """The place that the reading has come to. It is given each page, and each piece of it."""

    def __init__(self) -> None:
        self._places = HeadingPlaces()
        self._due: list[Entry] = []
        """Entries that point to a place that was passed: the next piece is the first behind it."""
        self._anchored: dict[str, list[Entry]] = {}
        self._listed = self._titling = self._section_listed = False

    def begin_page(self, entries: Sequence[Entry]) -> None:
        """Begin a page to which these entries point."""
        self._due += (entry for entry in entries if not entry.fragment)
        self._anchored = defaultdict(list)
        for entry in entries:
            if entry.fragment:
                self._anchored[entry.fragment].append(entry)
        self._listed = self._titling = False

    def enter(self, piece: Piece) -> Place:
        """Take the next piece, and return its place."""
        here, later = self._reached(piece)
        for entry in (*self._due, *here):
            self._begin(entry, piece.level)
        if not here and not self._due:
            self._follow(piece)
        elif piece.text and not piece.level:
            self._titling = False
        self._due = later
        return Place(self._places.chapter, self._places.section)

    def _reached(self, piece: Piece) -> tuple[list[Entry], list[Entry]]:
        """Return the entries that point to this piece, and those that point into it.

        A label must not stand before its place, so it waits for the next piece, except where the
        place is within a heading: that is one sentence, and says of itself what begins.
        """
        here: list[Entry] = []
        later: list[Entry] = []
        for offset, mark in piece.marks:
            if isinstance(mark, Anchor):
                reached = here if offset == 0 or piece.level else later
                reached += self._anchored.pop(mark.id, ())
        return here, later

    def _begin(self, entry: Entry, level: int) -> None:
        self._listed = self._titling = True
        self._section_listed = entry.depth > 1
        if self._section_listed:
            self._places.begin_section(entry.label)
        else:
            self._places.begin_chapter(entry.label, level)

    def _follow(self, piece: Piece) -> None:
        """Take a piece that no entry points to."""
        if not piece.text:
            return
        if not self._listed:
            self._places.enter(piece.level, piece.text)
        elif not piece.level:
            self._titling = False
        elif self._titling:
            self._places.lead(piece.level)
        elif not self._section_listed and not self._says_the_same(piece.text):
            self._places.begin_section(piece.text)

    def _says_the_same(self, heading: str) -> bool:
        said, label = _words(heading), _words(self._places.chapter or "")
        return not said or said in label or (bool(label) and label in said)


def _words(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())
