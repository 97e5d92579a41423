"""Text with figures at their places in it, joined and trimmed without losing a place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from truespan.model.text import Figure, PlacedFigure

_SPACE = re.compile(r"\s+")


class Passage(NamedTuple):
    """A text and the figures in it, by ascending offset."""

    text: str
    figures: tuple[PlacedFigure, ...] = ()

    @property
    def blank(self) -> bool:
        """Say whether there is neither a word nor a figure."""
        return not self.figures and not self.text.strip()

    def stripped(self) -> Passage:
        """Return the passage without white space at both ends."""
        text = self.text.strip()
        if len(text) == len(self.text) or not self.figures:
            return Passage(text, self.figures)
        before = len(self.text) - len(self.text.lstrip())
        moved = (max(0, min(place - before, len(text))) for place, _ in self.figures)
        placed = zip(moved, self.figures, strict=True)
        return Passage(text, tuple(PlacedFigure(place, found.figure) for place, found in placed))

    def trimmed(self) -> Passage:
        """Return the passage without blank lines at both ends.

        The white space before its first word stays, because the margin of code is nothing else; not
        so where a figure stands before that word.
        """
        margin = len(self.text) - len(self.text.lstrip())
        if not margin or (self.figures and self.figures[0].offset <= margin):
            return self.stripped()
        begin = self.text.rfind("\n", 0, margin) + 1
        text = self.text[begin:].rstrip()
        placed = ((min(place - begin, len(text)), figure) for place, figure in self.figures)
        return Passage(text, tuple(PlacedFigure(*found) for found in placed))

    def on_one_line(self) -> Passage:
        """Return the passage with one space wherever it has white space."""
        if not self.figures:
            return Passage(" ".join(self.text.split()))
        parts, figures, start, length = [], [], 0, 0
        for place, figure in self.figures:
            parts.append(_SPACE.sub(" ", self.text[start:place]))
            length += len(parts[-1])
            figures.append(PlacedFigure(length, figure))
            start = place
        parts.append(_SPACE.sub(" ", self.text[start:]))
        return Passage("".join(parts), tuple(figures)).stripped()

    def indented(self, first: str, rest: str) -> Passage:
        """Return the passage with `first` before it, and `rest` before each further line."""
        text = first + self.text.replace("\n", f"\n{rest}")
        moved: list[PlacedFigure] = []
        start, added = 0, len(first)
        for place, figure in self.figures:
            added += len(rest) * self.text.count("\n", start, place)
            start = place
            moved.append(PlacedFigure(place + added, figure))
        return Passage(text, tuple(moved))


def joined(passages: Iterable[Passage], between: str) -> Passage:
    """Return several passages as one."""
    texts: list[str] = []
    figures: list[PlacedFigure] = []
    start = 0
    for passage in passages:
        texts.append(passage.text)
        figures += (PlacedFigure(start + place, figure) for place, figure in passage.figures)
        start += len(passage.text) + len(between)
    return Passage(between.join(texts), tuple(figures))


def gathered(parts: list[str], figures: list[tuple[int, Figure]]) -> Passage:
    """Return parts as one passage; each figure stands before the part of its number."""
    if not figures:
        return Passage("".join(parts))
    placed: list[PlacedFigure] = []
    length, done = 0, 0
    for before, figure in figures:
        length += sum(map(len, parts[done:before]))
        done = before
        placed.append(PlacedFigure(length, figure))
    return Passage("".join(parts), tuple(placed))
