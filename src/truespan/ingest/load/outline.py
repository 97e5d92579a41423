"""Chapters of plain text, found while reading it from front to back.

Nothing is decided by what follows. A reader's results must not depend on what lies ahead, and the
place of a sentence is part of them. So a list of chapters is known by the line that announces it,
or by the second of two headings of one rank with nothing between them; and a title below a bare
"CHAPTER I" becomes one block with it, hence one sentence: the label never says more than was read.

Chapters within parts are told apart by their label: "PART II, CHAPTER I". Headings with a name
("EPILOGUE") stand for themselves. Sections are the Roman numbers below a chapter or an epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from truespan.ingest.load.headings import (
    Heading,
    Rank,
    is_contents,
    is_prose,
    listed_heading,
    lists_chapters,
    plain_title,
    recognise,
)

_LONG, _LONG_LINE = 240, 60
_WIDE_GAP = 3
"""Blank lines that set off what follows a list from its entries."""


@dataclass(slots=True)
class _Contents:
    """A list of chapters or pictures being read, and what it has named so far."""

    names_chapters: bool = True
    begun: bool = False
    ranks: set[Rank] = field(default_factory=set)
    _keys: set[tuple[str, str, int | str]] = field(default_factory=set)
    _part: str = ""

    def has(self, heading: Heading) -> bool:
        """Say whether an entry of the list was this heading."""
        return self._key(heading) in self._keys

    def add(self, heading: Heading) -> None:
        """Take a heading for an entry."""
        if heading.rank is Rank.PART:
            self._part = heading.short
        self.ranks.add(heading.rank)
        self._keys.add(self._key(heading))

    def _key(self, heading: Heading) -> tuple[str, str, int | str]:
        part = "" if heading.rank is Rank.PART else self._part
        return part, heading.kind, heading.number


@dataclass(slots=True)
class Outline:
    """How far the reading has come. It is given each paragraph in turn."""

    chapter: str | None = None
    section: str | None = None
    _parts: dict[str, str] = field(default_factory=dict)
    _contents: _Contents | None = None
    _titles: set[str] = field(default_factory=set)
    _numeral: int = 0
    _current: Heading | None = None
    _previous: Heading | None = None

    def enter(self, paragraph: str, *, blank_lines: int) -> Heading | None:
        """Take the next paragraph; return the heading it is, or None for body text."""
        if self._contents is None and _is_plainly_prose(paragraph):
            self._previous = None
            return None
        found = recognise(paragraph)
        if self._within_contents(found, paragraph, blank_lines):
            found = None
        elif found is None:
            found = self._announced(paragraph)
        elif found.rank is Rank.NUMERAL and not self._continues(found, blank_lines):
            found = None
        if found:
            self._place(found)
        self._previous = found
        return found

    def add_title(self, title: str) -> None:
        """Take a paragraph for the title of the bare heading that was entered last."""
        if self._previous:
            label = f"{self._previous.label} {' '.join(title.split())}"
            self._place(replace(self._previous, label=label))

    def _within_contents(self, found: Heading | None, paragraph: str, blank_lines: int) -> bool:
        """Say whether the paragraph belongs to a list of chapters, and note what it names."""
        first, _, rest = paragraph.strip().partition("\n")
        if is_contents(first):
            self._contents = _Contents(lists_chapters(first))
            self._note(rest)
        elif self._contents is None:
            if not (found and self._previous and found.follows(self._previous)):
                return False
            self._contents = _Contents()
            self._contents.add(self._previous)
            self._note(paragraph)
        elif self._ends_contents(found, paragraph, blank_lines):
            self._contents = None
            return False
        else:
            self._note(paragraph)
        return True

    def _ends_contents(self, found: Heading | None, paragraph: str, blank_lines: int) -> bool:
        """Say whether the list is over: it begins to repeat itself, or something else begins."""
        listed = self._contents or _Contents()
        if found is None:
            return is_prose(paragraph)
        new = found.rank is Rank.NAMED or found.rank not in listed.ranks
        set_off = blank_lines >= _WIDE_GAP and listed.begun
        return listed.has(found) or (new and set_off)

    def _note(self, entries: str) -> None:
        """Remember what a paragraph of the list names: one entry in all, or one a line."""
        contents = self._contents or _Contents()
        contents.begun = contents.begun or bool(entries)
        whole = recognise(entries)
        for entry in [entries] if whole else entries.split("\n"):
            if heading := recognise(entry):
                contents.add(heading)
            elif contents.names_chapters and (title := plain_title(entry)):
                self._titles.add(title)

    def _announced(self, paragraph: str) -> Heading | None:
        """Return the heading that a list of chapters has announced in just these words."""
        title = plain_title(paragraph) if self._titles and not is_prose(paragraph) else ""
        if title not in self._titles:
            return None
        # Once only: what comes again is a running head, or something that a person says.
        self._titles.discard(title)
        return listed_heading(paragraph)

    def _continues(self, numeral: Heading, blank_lines: int) -> bool:
        """Say whether a Roman number is the next one, so that it is no word and no initial."""
        if numeral.number != self._numeral + 1:
            return False
        return self._numeral > 0 or self._previous is not None or blank_lines > 1

    def _place(self, heading: Heading) -> None:
        if heading.rank is Rank.NUMERAL:
            self._numeral = int(heading.number)
            if self._current and self._current.has_sections:
                self.section = heading.label
                return
        else:
            self._numeral, self._current = 0, heading
        outer = self._outer(heading)
        self.chapter, self.section = ", ".join([*outer, heading.label]), None

    def _outer(self, heading: Heading) -> list[str]:
        """Return the parts that a heading lies in, and enter the part that it begins."""
        if heading.rank is Rank.NAMED:
            return []
        if heading.rank is Rank.PART:
            kinds = list(self._parts)
            inner = kinds[kinds.index(heading.kind) :] if heading.kind in kinds else []
            for kind in inner:
                del self._parts[kind]
        outer = list(self._parts.values())
        if heading.rank is Rank.PART:
            self._parts[heading.kind] = heading.short
        return outer


def _is_plainly_prose(paragraph: str) -> bool:
    """Say at a glance that a paragraph is body text, as nearly all are.

    It is too long for a heading or a title, and its first line too long to announce a list.
    """
    return len(paragraph) > _LONG and not 0 <= paragraph.find("\n", 0, _LONG_LINE) < _LONG_LINE
