"""Plain text: one block a paragraph, with the chapters that its headings name.

Each paragraph is judged by its own words, and by the list of chapters that may precede it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.parsing.headings import parse_roman
from truespan.types.text import Block, BlockKind, Loaded, PageStart

_GAP = re.compile(r"\n(?:[^\S\n]*\n)+")
_LONG, _LONG_LINE = 240, 60
_WIDE_GAP = 3
"""Blank lines that set off what follows a list from its entries."""
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


class Paragraph(NamedTuple):
    """A paragraph; in a PDF with the pages that begin in it and the number of its first line."""

    text: str
    blank_lines: int
    pages: tuple[PageStart, ...] = ()
    first: int = 0
    bulleted: bool = False


def load_text(text: str) -> Loaded:
    """Return the paragraphs of `text`, which are what blank lines divide."""
    paragraphs: list[Paragraph] = []
    start, blank_lines = 0, 0
    for end, next_start in [*(gap.span() for gap in _GAP.finditer(text)), (len(text), len(text))]:
        if text[start:end].strip():
            paragraphs.append(Paragraph(text[start:end], blank_lines))
        start, blank_lines = next_start, text.count("\n", end, next_start) - 1
    return Loaded(tuple(to_blocks(paragraphs)))


def to_blocks(paragraphs: Sequence[Paragraph]) -> Iterator[Block]:
    """Yield paragraphs as blocks, with the chapters that their headings name."""
    outline = Outline()
    skip = False
    for paragraph, title in zip(paragraphs, [*paragraphs[1:], None], strict=False):
        if skip:
            skip = False
            continue
        text, pages = paragraph.text, paragraph.pages
        heading = outline.enter(text, blank_lines=paragraph.blank_lines)
        if heading and heading.bare and title and _is_title_like(title.text):
            skip = not recognise(title.text) and not _is_contents(title.text)
        if title and skip:
            outline.add_title(title.text)
            shift = len(text) + 2
            pages += tuple(PageStart(offset + shift, page) for offset, page in title.pages)
            text = f"{text}\n\n{title.text}"
        kind = BlockKind.LIST if paragraph.bulleted else BlockKind.PARAGRAPH
        kind = BlockKind.HEADING if heading else kind
        yield Block(kind, text, outline.chapter, outline.section, pages=pages)


_Rank = Literal["part", "chapter", "named", "numeral"]
"""What kind of heading it is; those of one rank follow one another."""


class Heading(Struct, frozen=True):
    """A recognised heading. `label` is its text on one line, `short` its kind and number."""

    rank: _Rank
    kind: str
    number: int | str
    short: str
    label: str
    bare: bool = False
    """Whether it has no title, so that the next paragraph may be one."""


def recognise(paragraph: str) -> Heading | None:
    """Return the heading that a paragraph is, or None.

    In doubt it is none: a heading that was missed costs a label, a wrong one ends a chapter.
    """
    text = paragraph.strip()
    if len(text) > _LONGEST or text.count("\n") >= _MOST_LINES:
        return None
    label, heading = " ".join(text.split()), None
    if (found := _NUMBERED.match(text)) and (title := _read_title(found["rest"])) is not None:
        kind, number = found["kind"].lower(), found["number"]
        rank = "part" if _PART.fullmatch(kind) else "chapter"
        value = int(number) if number.isdigit() else parse_roman(number)
        if value is None:
            value = number.lower().removeprefix("the ").replace(" ", "-")
        short = text[: found.end("number")]
        heading = Heading(rank, kind, value, short, label, bare=not title)
    # A Roman number alone, or before a title in capitals: other ones number paragraphs.
    elif (
        text.isupper()
        and (found := _NUMERAL.match(text))
        and (title := _read_title(found["rest"])) is not None
    ):
        number = found["number"]
        heading = Heading("numeral", "", parse_roman(number) or 0, number, label, bare=not title)
    elif (found := _NAMED.match(text)) and "\n" not in text:
        rest, name = found["rest"].strip(), found["name"].lower()
        if not rest.strip(".:") or rest[0] in '.:—–“"(' or text.isupper():
            return Heading("named", name, name, label, label)
    is_list = any(_NUMBERED.match(line.strip()) for line in text.split("\n")[1:])
    return None if is_list else heading


def _read_title(rest: str) -> str | None:
    """Return the title that follows a number, empty where none does; None if a sentence goes on."""
    separator = _SEPARATOR.match(rest)
    title = rest[separator.end() :] if separator else rest
    if separator and not title.startswith("\n"):
        first = title.lstrip().lstrip("_*\"'“‘")[:1]
        fits = not first.islower() and first not in ("(", ",", ";")
    else:
        fits = not title.strip() or (title[0].isspace() and _is_title_like(title))
    return title.strip() if fits else None


def _is_title_like(text: str) -> bool:
    """Return whether a paragraph could be a title and hardly anything else."""
    text = text.strip()
    if len(text) > _LONGEST_TITLE or text.count("\n") > 1 or not text[:1].strip("([*-"):
        return False
    if text[0] in _OPENING and text[-1] not in _CLOSING:
        return False
    ends = text.rstrip("\"'”’_*)")[-1:] in {*".!?…,;:—–-"}
    if text.isupper():
        return not ends or " " in text
    words = [word.lstrip("_*\"'“‘(") for word in text.split()]
    # Short words in the middle of a title may be in lower case.
    weighty = [word for index, word in enumerate(words) if len(word) > 3 or not index]
    return not ends and not any(word[:1].islower() for word in weighty)


def _is_contents(text: str) -> bool:
    """Return whether a line announces a list of chapters or pictures."""
    return _CONTENTS.fullmatch(text.strip().rstrip(".:")) is not None


def _plain_title(text: str) -> str:
    """Return the words of a title, so that its entry in a list and its heading compare equal."""
    words = _ASIDE.sub(" ", _PAGE.sub("", text.strip()))
    return " ".join(re.findall(r"\w+", words.casefold()))


def _is_prose(text: str) -> bool:
    """Return whether a paragraph is too long for an entry of a list and does not begin like one."""
    long = len(text) > _LONGEST or text.count("\n") >= _MOST_LINES
    return long and recognise(text.strip().partition("\n")[0]) is None


class _Contents(Struct):
    """A list of chapters or pictures while it is read, and what it has named so far."""

    names_chapters: bool = True
    begun: bool = False
    ranks: set[_Rank] = field(default_factory=set)
    keys: set[tuple[str, str, int | str]] = field(default_factory=set)
    _part: str = ""

    def key(self, heading: Heading) -> tuple[str, str, int | str]:
        part = "" if heading.rank == "part" else self._part
        return part, heading.kind, heading.number

    def add(self, heading: Heading) -> None:
        if heading.rank == "part":
            self._part = heading.short
        self.ranks.add(heading.rank)
        self.keys.add(self.key(heading))


class Outline(Struct):
    """The current chapter and section. It receives each paragraph in order."""

    chapter: str | None = None
    section: str | None = None
    _parts: dict[str, str] = field(default_factory=dict)
    _contents: _Contents | None = None
    _titles: set[str] = field(default_factory=set)
    _numeral: int = 0
    _current: Heading | None = None
    _previous: Heading | None = None

    def enter(self, paragraph: str, *, blank_lines: int) -> Heading | None:
        """Process the next paragraph; return the heading it is, or None for body text."""
        # Nearly all paragraphs are too long for a heading or a title, and their first line is too
        # long to announce a list.
        is_long = len(paragraph) > _LONG and "\n" not in paragraph[:_LONG_LINE]
        if is_long and self._contents is None:
            self._previous = None
            return None
        found = recognise(paragraph)
        if self._is_in_contents(found, paragraph, blank_lines):
            found = None
        elif found is None:
            # A list of chapters may have announced it in just these words.
            title = _plain_title(paragraph) if self._titles and not _is_prose(paragraph) else ""
            if title in self._titles:
                # Once only: what comes again is a running head, or something that a person says.
                self._titles.discard(title)
                label = " ".join(paragraph.split())
                found = Heading("named", "listed", label, label, label)
        elif found.rank == "numeral":
            # Unless it is the next one, a Roman number is a word or an initial.
            is_first = self._previous is not None or blank_lines > 1
            is_next = found.number == self._numeral + 1 and (self._numeral > 0 or is_first)
            found = found if is_next else None
        if found:
            self._place(found)
        self._previous = found
        return found

    def add_title(self, title: str) -> None:
        """Add the title of the bare heading that was entered last."""
        if self._previous:
            label = f"{self._previous.label} {' '.join(title.split())}"
            self._place(replace(self._previous, label=label))

    def _is_in_contents(self, found: Heading | None, paragraph: str, blank_lines: int) -> bool:
        """Return whether the paragraph belongs to a list of chapters, and note what it names."""
        first, _, rest = paragraph.strip().partition("\n")
        entries, contents, previous = paragraph, self._contents, self._previous
        if _is_contents(first):
            entries = rest
            contents = _Contents(names_chapters="llustration" not in first.lower())
        elif contents is None:
            # Two headings of one rank in a row are entries of a list.
            if not found or not previous or found.rank == "named":
                return False
            if (found.rank, found.kind) != (previous.rank, previous.kind):
                return False
            contents = _Contents()
            contents.add(previous)
        else:
            # The list is over where it begins to repeat itself, or where something else begins.
            is_over = found is None and _is_prose(paragraph)
            if found:
                new = found.rank == "named" or found.rank not in contents.ranks
                set_off = blank_lines >= _WIDE_GAP and contents.begun
                is_over = contents.key(found) in contents.keys or (new and set_off)
            if is_over:
                self._contents = None
                return False
        self._contents = contents
        contents.begun = contents.begun or bool(entries)
        # A paragraph of the list is one entry in all, or one a line.
        for entry in [entries] if recognise(entries) else entries.split("\n"):
            if heading := recognise(entry):
                contents.add(heading)
            elif contents.names_chapters and (title := _plain_title(entry)):
                self._titles.add(title)
        return True

    def _place(self, heading: Heading) -> None:
        if heading.rank == "numeral":
            self._numeral = int(heading.number)
            # Below a chapter Roman numbers are its sections.
            current = self._current
            if current and (
                current.rank == "chapter"
                or (current.rank == "named" and not _BEFORE_THE_FIRST.search(current.kind))
            ):
                self.section = heading.label
                return
        else:
            self._numeral, self._current = 0, heading
        if heading.rank == "part":
            # It ends the part of its own kind, and those within.
            kinds = list(self._parts)
            for kind in kinds[kinds.index(heading.kind) :] if heading.kind in kinds else ():
                del self._parts[kind]
        outer = [] if heading.rank == "named" else list(self._parts.values())
        if heading.rank == "part":
            self._parts[heading.kind] = heading.short
        self.chapter, self.section = ", ".join([*outer, heading.label]), None
