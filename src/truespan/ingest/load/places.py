"""Chapters and sections by the levels of headings, decided by nothing that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

LOWEST_LEVEL = 6


@dataclass(slots=True)
class HeadingPlaces:
    """The chapter and section that the reading has come to. It is given each block in turn.

    A heading of level 1 that begins the document is taken for its title, and until the next heading
    for the chapter too. After it the highest level so far makes chapters, lower ones sections.
    """

    chapter: str | None = None
    section: str | None = None
    _top: int = field(default=LOWEST_LEVEL)
    _begun: bool = False

    def enter(self, level: int, text: str) -> None:
        """Take the next block; `level` is that of a heading, else 0."""
        if level and level <= self._top:
            self.chapter, self.section = text, None
            self._top = level if self._begun or level > 1 else self._top
        elif level:
            self.section = text
        self._begun = True

    def begin_chapter(self, label: str, level: int) -> None:
        """Begin a chapter that a table of contents names, at a heading of `level` or at none."""
        self.chapter, self.section = label, None
        self._top = level or self._top
        self._begun = True

    def lead(self, level: int) -> None:
        """Take a heading that is part of a chapter's title."""
        self._top = level

    def begin_section(self, label: str) -> None:
        """Begin a section of the current chapter."""
        self.section = label
        self._begun = True


def begins_with_title(levels: Sequence[int]) -> bool:
    """Say whether the first block is a title: the only heading of level 1.

    The title itself is a label of the whole, so it may be decided by all that follows.
    """
    return list(levels[:1]) == [1] and levels.count(1) == 1
