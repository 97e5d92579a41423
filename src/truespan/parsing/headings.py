"""Chapters and sections by the level of headings, and Roman numbers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

LOWEST_LEVEL = 6


class HeadingPlaces(Struct):
    """The current chapter and section. It receives each block in order.

    A heading of level 1 that begins the document is its title, and until the next heading its
    chapter too. After it the highest level so far makes chapters, lower ones sections.
    """

    chapter: str | None = None
    section: str | None = None
    top_level: int = LOWEST_LEVEL
    _begun: bool = False

    def enter(self, level: int, text: str) -> None:
        """Process the next block; `level` is that of a heading, else 0."""
        if level and level <= self.top_level:
            self.chapter, self.section = text, None
            self.top_level = level if self._begun or level > 1 else self.top_level
        elif level:
            self.section = text
        self._begun = True

    def begin_chapter(self, label: str, level: int) -> None:
        """Begin a chapter that a table of contents names, at a heading of `level` or at none."""
        self.chapter, self.section = label, None
        self.top_level = level or self.top_level
        self._begun = True

    def begin_section(self, label: str) -> None:
        self.section = label
        self._begun = True


def begins_with_title(levels: Sequence[int]) -> bool:
    """Return whether the first block is a title: the only heading of level 1.

    The title itself is a label of the whole, so it may be decided by all that follows.
    """
    return list(levels[:1]) == [1] and levels.count(1) == 1


def letters_of(text: str) -> str:
    """Return the letters and digits of a text without case, to compare titles."""
    return "".join(char for char in text.casefold() if char.isalnum())


LARGEST_ROMAN = 3999
_ROMAN_VALUES = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


def format_roman(number: int) -> str:
    """Return a number from 1 to `LARGEST_ROMAN` in lower-case Roman digits."""
    text = ""
    for value, digits in _ROMAN_VALUES:
        repeats, number = divmod(number, value)
        text += digits * repeats
    return text


_ROMAN_DIGITS = {digit: value for value, digit in _ROMAN_VALUES if len(digit) == 1}


def parse_roman(text: str) -> int | None:
    """Return the value of Roman digits in either case; None without any, or with others."""
    values = [_ROMAN_DIGITS.get(char, 0) for char in text.lower()]
    if not values or not all(values):
        return None
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)
