"""Lists of a page: the marks of their items, and how far their lines are indented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from truespan.ingest.load.html.inline import Flow, PlacedMark

_DEEPEST = 20
"""Levels that are indented. Deeper ones stay at this margin, so that it cannot outgrow the text."""
_ROMAN = (
    (1000, "m"),
    (900, "cm"),
    (500, "d"),
    (400, "cd"),
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
    (9, "ix"),
    (5, "v"),
    (4, "iv"),
    (1, "i"),
)
_LARGEST_ROMAN = 3999
_LARGEST = 10**9


@dataclass(slots=True, eq=False)
class PageList:
    """A list that is being read; only its end tells where a reversed one began to count."""

    ordered: bool = False
    style: str = "1"
    start: int | None = None
    backwards: bool = False
    _count: int = 0
    _known: tuple[int, int] | None = None
    """The last item that was given a number, as its place and that number."""

    def next_item(self, value: int | None) -> Item:
        """Return the next item; `value` is the number it is given, if any."""
        if value is not None:
            self._known = self._count, value
        self._count += 1
        return Item(self, self._count - 1, self._known)

    def first(self) -> int:
        """Return the number that counting begins with."""
        if self.start is not None:
            return self.start
        return self._count if self.backwards else 1


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One item. Its mark is asked for when the whole list was read."""

    list: PageList | None
    place: int = 0
    known: tuple[int, int] | None = None

    def mark(self) -> str:
        """Return what stands before the text of the item."""
        if self.list is None:
            return ""
        if not self.list.ordered:
            return "- "
        origin, number = self.known or (0, self.list.first())
        steps = origin - self.place if self.list.backwards else self.place - origin
        return f"{_numeral(number + steps, self.list.style)}. "


TERM = Item(None)
"""The item of a list of definitions that is defined: it stands at the margin without a mark."""


def ordered_list(attributes: Mapping[str, str]) -> PageList:
    """Return an ordered list as its attributes describe it."""
    return PageList(
        ordered=True,
        style=attributes.get("type", "1"),
        start=whole_number(attributes.get("start")),
        backwards="reversed" in attributes,
    )


def whole_number(text: str | None) -> int | None:
    """Return the number that an attribute gives, or None."""
    try:
        number = int(text) if text and len(text) < 20 else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < _LARGEST else None


def indented(flow: Flow, depth: int, item: Item | None) -> Flow:
    """Put the mark of an item before its first text, and the rest below that text."""
    margin = "  " * (min(depth, _DEEPEST) - 1)
    first, rest = margin + (item.mark() if item else "  "), f"{margin}  "
    marks: list[PlacedMark] = []
    lines = done = 0
    for offset, mark in flow.marks:
        lines += flow.text.count("\n", done, offset)
        done = offset
        marks.append(PlacedMark(len(first) + offset + lines * len(rest), mark))
    return Flow(first + flow.text.replace("\n", f"\n{rest}"), tuple(marks))


def _numeral(number: int, style: str) -> str:
    if style in ("a", "A") and number > 0:
        written = _letters(number)
    elif style in ("i", "I") and 0 < number <= _LARGEST_ROMAN:
        written = _roman(number)
    else:
        return str(number)
    return written.upper() if style.isupper() else written


def _letters(number: int) -> str:
    written = ""
    while number:
        number, letter = divmod(number - 1, 26)
        written = chr(ord("a") + letter) + written
    return written


def _roman(number: int) -> str:
    written = ""
    for value, sign in _ROMAN:
        times, number = divmod(number, value)
        written += sign * times
    return written
