"""Passages of text with figures, for the parsers of office formats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct, field

from truespan.types.text import Figure, PlacedFigure

_SPACE = re.compile(r"\s+")


class Passage(NamedTuple):
    """Text and the figures in it, by ascending offset."""

    text: str
    figures: tuple[PlacedFigure, ...] = ()

    @property
    def blank(self) -> bool:
        """Whether the passage has neither text nor figures."""
        return not self.figures and (not self.text or self.text.isspace())

    def strip(self) -> Passage:
        if not self.figures:
            text = self.text.strip()
            return self if text is self.text else Passage(text)
        return self._cut(len(self.text) - len(self.text.lstrip()), self.text.strip())

    def trim(self) -> Passage:
        """Remove blank lines at both ends.

        The indentation of the first line is kept (it matters in code), unless a figure precedes the
        first word.
        """
        if not self.text[:1].isspace():
            return self.strip()
        margin = len(self.text) - len(self.text.lstrip())
        if self.figures and self.figures[0].offset <= margin:
            return self.strip()
        begin = self.text.rfind("\n", 0, margin) + 1
        return self._cut(begin, self.text[begin:].rstrip())

    def _cut(self, begin: int, text: str) -> Passage:
        """Keep `text`, which begins at `begin`; figures outside move to its ends."""
        moved = (
            (max(0, min(offset - begin, len(text))), figure) for offset, figure in self.figures
        )
        return Passage(text, tuple(PlacedFigure(*placed) for placed in moved))

    def on_one_line(self) -> Passage:
        """Replace each run of white space with one space."""
        if not self.figures:
            return Passage(" ".join(self.text.split()))
        parts, figures, start, length = [], [], 0, 0
        for place, figure in self.figures:
            parts.append(_SPACE.sub(" ", self.text[start:place]))
            length += len(parts[-1])
            figures.append(PlacedFigure(length, figure))
            start = place
        parts.append(_SPACE.sub(" ", self.text[start:]))
        return Passage("".join(parts), tuple(figures)).strip()

    def indent(self, first: str, rest: str) -> Passage:
        """Put `first` before the first line and `rest` before each other line."""
        text = first + self.text.replace("\n", f"\n{rest}")
        moved: list[PlacedFigure] = []
        start, added = 0, len(first)
        for place, figure in self.figures:
            added += len(rest) * self.text.count("\n", start, place)
            start = place
            moved.append(PlacedFigure(place + added, figure))
        return Passage(text, tuple(moved))


class PassageParts(Struct):
    """The text and figures of a paragraph that is being read."""

    parts: list[str] = field(default_factory=list)
    figures: list[tuple[int, Figure]] = field(default_factory=list)
    """Figures, each with the index of the following part."""

    def passage(self) -> Passage:
        if not self.figures:
            return Passage("".join(self.parts)).trim()
        figures: list[PlacedFigure] = []
        length = start = 0
        for index, figure in self.figures:
            length += sum(map(len, self.parts[start:index]))
            start = index
            figures.append(PlacedFigure(length, figure))
        return Passage("".join(self.parts), tuple(figures)).trim()


def join(passages: Iterable[Passage], separator: str) -> Passage:
    texts: list[str] = []
    figures: list[PlacedFigure] = []
    start = 0
    for passage in passages:
        texts.append(passage.text)
        figures += (PlacedFigure(start + offset, figure) for offset, figure in passage.figures)
        start += len(passage.text) + len(separator)
    return Passage(separator.join(texts), tuple(figures))


class TableLines:
    """The rows of a table as lines of text.

    The cells of a nested table are joined by commas, and its rows by semicolons. Figures of a row
    without text move to the next row.
    """

    def __init__(self, *, nested: bool = False) -> None:
        self._between_cells, self._between_rows = (", ", "; ") if nested else (" | ", "\n")
        self._lines: list[Passage] = []
        self._header_rows = 0
        self._pending: tuple[Figure, ...] = ()

    def add_row(self, cells: list[Passage], *, is_header: bool = False, repeats: int = 1) -> None:
        """Add a row without the blank cells at its end."""
        while cells and cells[-1].blank:
            cells.pop()
        if not any(cell.text for cell in cells):
            self._pending += tuple(placed.figure for placed in join(cells, "").figures)
            return
        text, figures = join(cells, self._between_cells)
        before = tuple(PlacedFigure(0, figure) for figure in self._pending)
        self._lines += [Passage(text, before + figures)] * repeats
        self._header_rows += is_header
        self._pending = ()

    def passage(self) -> Passage:
        text, figures = join(self._lines, self._between_rows)
        after = tuple(PlacedFigure(len(text), figure) for figure in self._pending)
        return Passage(text, figures + after)

    @property
    def header_rows(self) -> int:
        """Number of header rows; 0 if there are no other rows."""
        return self._header_rows if self._header_rows < len(self._lines) else 0
