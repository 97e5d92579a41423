"""What a paragraph of plain text says when it is a heading. Each is judged by itself alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

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
    """Return whether the first block is a title: the only heading of level 1.

    The title itself is a label of the whole, so it may be decided by all that follows.
    """
    return list(levels[:1]) == [1] and levels.count(1) == 1


_LONGEST, _MOST_LINES = 160, 3
_LONGEST_TITLE = 120

_PARTS = "part|book|volume|vol\\.|teil|partie|parte|часть"
_CHAPTERS = "chapter|letter|canto|stave|kapitel|chapitre|cap[ií]tulo|capitolo|глава"
_NAMES = (
    "prologue|prelude|preface|foreword|introduction|interlude|epilogue|afterword|conclusion"
    "|postscript|acknowledge?ments|appendix(?: [A-Z0-9]{1,3}\\b)?|author['’]s note"
)
_BEFORE_THE_FIRST = re.compile("(?i)prologue|prelude|preface|foreword|introduction|acknowledge")
_UNITS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_TEENS = "thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_ORDINALS = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last"
_WORDS = f"(?:the )?(?:(?:{_TENS})[- ](?:{_UNITS})|{_UNITS}|{_TEENS}|{_TENS}|{_ORDINALS})(?![a-z-])"
_ROMAN = r"(?=[IVXLC])(?:C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})(?![A-Za-z])"

_NUMBERED = re.compile(
    f"(?P<kind>(?i:{_PARTS}|{_CHAPTERS})) +(?P<number>[0-9]{{1,4}}(?![0-9])|{_ROMAN}|(?i:{_WORDS}))"
    "(?P<rest>.*)",
    re.DOTALL,
)
_PART = re.compile(f"(?i){_PARTS}")
_NUMERAL = re.compile(f"(?P<number>{_ROMAN})(?P<rest>.*)", re.DOTALL)
_NAMED = re.compile(
    rf"(?=[A-ZÀ-Ý])(?:[A-Za-z]+['’](?i:s) )?(?P<name>(?i:{_NAMES}))(?![\w-])(?P<rest>.*)", re.DOTALL
)
_SEPARATOR = re.compile(r"[.:)\]]+|\s*[—–-]+(?=\s)|\s*[—–]+")
_CONTENTS = re.compile(
    "(?i)(?:table of )?contents|(?:list of )?illustrations|inhalt(?:sverzeichnis)?"
    "|table des matières|sommaire|índice|indice|содержание"
)
_ASIDE = re.compile(r"\([^()]*\)|\[[^][]*\]")
_OPENING, _CLOSING = "\"'“‘", "\"'”’"
_PAGE = re.compile(r"[\s.·…_-]*\b[0-9]{1,4}$")


class Rank(Enum):
    """What kind of heading it is; those of one rank follow one another."""

    PART = "part"
    CHAPTER = "chapter"
    NAMED = "named"
    NUMERAL = "numeral"


@dataclass(frozen=True, slots=True)
class Heading:
    """A recognised heading. `label` is its text on one line, `short` its kind and number."""

    rank: Rank
    kind: str
    number: int | str
    short: str
    label: str
    bare: bool
    """Whether it has no title, so that the next paragraph may be one."""

    @property
    def has_sections(self) -> bool:
        """Return whether Roman numbers below it are sections of it and no chapters."""
        if self.rank is Rank.NAMED:
            return not _BEFORE_THE_FIRST.search(self.kind)
        return self.rank is Rank.CHAPTER

    def follows(self, previous: Heading) -> bool:
        """Return whether both are of one rank, as entries of a list are."""
        same = self.rank is previous.rank and self.kind == previous.kind
        return same and self.rank is not Rank.NAMED


def recognise(paragraph: str) -> Heading | None:
    """Return the heading that a paragraph is, or None.

    In doubt it is none: a heading that was missed costs a label, a wrong one ends a chapter.
    """
    text = paragraph.strip()
    lines = text.count("\n") + 1
    if len(text) > _LONGEST or lines > _MOST_LINES:
        return None
    found = _numbered(text) or _numeral(text) or _named(text)
    return None if found and lines > 1 and _is_list(text) else found


def title_like(text: str) -> bool:
    """Return whether a paragraph could be a title and hardly anything else."""
    text = text.strip()
    if len(text) > _LONGEST_TITLE or text.count("\n") > 1 or not text[:1].strip("([*-"):
        return False
    if text[0] in _OPENING and text[-1] not in _CLOSING:
        return False
    ends = text.rstrip("\"'”’_*)")[-1:] in {*".!?…,;:—–-"}
    if text.isupper():
        return not ends or " " in text
    return not ends and all(word[:1].isupper() or not word[:1].islower() for word in _weighty(text))


def listed_heading(paragraph: str) -> Heading:
    """Return the heading of a chapter that has no number, as a list of chapters announced it."""
    label = _one_line(paragraph)
    return Heading(Rank.NAMED, "listed", label, label, label, bare=False)


def is_contents(text: str) -> bool:
    """Return whether a line announces a list of chapters or pictures."""
    return _CONTENTS.fullmatch(text.strip().rstrip(".:")) is not None


def lists_chapters(text: str) -> bool:
    """Return whether the list that `text` announces is one of chapters."""
    return "llustration" not in text.lower()


def plain_title(text: str) -> str:
    """Return the words of a title, so that its entry in a list and its heading compare equal."""
    words = _ASIDE.sub(" ", _PAGE.sub("", text.strip()))
    return " ".join(re.findall(r"\w+", words.casefold()))


def is_prose(text: str) -> bool:
    """Return whether a paragraph is too long for an entry of a list and does not begin like one."""
    long = len(text) > _LONGEST or text.count("\n") >= _MOST_LINES
    return long and recognise(text.strip().partition("\n")[0]) is None


def _numbered(text: str) -> Heading | None:
    found = _NUMBERED.match(text)
    if not found or (title := _title(found["rest"])) is None:
        return None
    kind, number = found["kind"].lower(), _value(found["number"])
    rank = Rank.PART if _PART.fullmatch(kind) else Rank.CHAPTER
    short = text[: found.end("number")]
    return Heading(rank, kind, number, short, _one_line(text), bare=not title)


def _numeral(text: str) -> Heading | None:
    """A Roman number alone, or before a title in capitals: other ones number paragraphs."""
    found = _NUMERAL.match(text)
    if not found or (title := _title(found["rest"])) is None or not text.isupper():
        return None
    number = found["number"]
    return Heading(Rank.NUMERAL, "", _value(number), number, _one_line(text), bare=not title)


def _named(text: str) -> Heading | None:
    found = _NAMED.match(text)
    if not found or "\n" in text:
        return None
    rest = found["rest"].strip()
    if rest.strip(".:") and not (rest[0] in '.:—–“"(' or text.isupper()):
        return None
    name = found["name"].lower()
    return Heading(Rank.NAMED, name, name, _one_line(text), _one_line(text), bare=False)


def _title(rest: str) -> str | None:
    """Return the title that follows a number, empty where none does; None if a sentence goes on."""
    separator = _SEPARATOR.match(rest)
    title = rest[separator.end() :] if separator else rest
    if separator and not title.startswith("\n"):
        first = title.lstrip().lstrip("_*\"'“‘")[:1]
        fits = not first.islower() and first not in ("(", ",", ";")
    else:
        fits = not title.strip() or (title[0].isspace() and title_like(title))
    return title.strip() if fits else None


def _is_list(text: str) -> bool:
    return any(_NUMBERED.match(line.strip()) for line in text.split("\n")[1:])


def _weighty(text: str) -> list[str]:
    words = [word.lstrip("_*\"'“‘(") for word in text.split()]
    return [word for position, word in enumerate(words) if len(word) > 3 or not position]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _value(number: str) -> int | str:
    if number.isdigit():
        return int(number)
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}.get(char, 0) for char in number]
    if not all(values):
        return number.lower().removeprefix("the ").replace(" ", "-")
    following = [*values[1:], 0]
    return sum(-one if one < two else one for one, two in zip(values, following, strict=True))


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
        """Return whether an entry of the list was this heading."""
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
        """Return whether the paragraph belongs to a list of chapters, and note what it names."""
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
        """Return whether the list is over: it begins to repeat itself, or something else begins."""
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
        """Return whether a Roman number is the next one, so that it is no word and no initial."""
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
