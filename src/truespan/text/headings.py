"""Headings: chapters and sections by their level, headings by their words; numbers of list items.

Formats of numbers have the names of DOCX; the parsers of other formats translate theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from truespan.core.graphemes import shorten

MAX_LEVEL = 6


class HeadingPlaces(Struct):
    """The current chapter and section. It receives each block in order.

    A heading of level 1 that begins the document is its title, and until the next heading its
    chapter too. After it the highest level so far makes chapters, lower ones sections.
    """

    chapter: str | None = None
    section: str | None = None
    top_level: int = MAX_LEVEL
    _begun: bool = False

    def enter(self, level: int, text: str) -> None:
        """Process the next block; `level` is the level of a heading, else 0."""
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

    A title is a label of the whole document, so it may depend on all of it.
    """
    return list(levels[:1]) == [1] and levels.count(1) == 1


_NO_LETTERS = re.compile(r"[\W_]+")


def letters_of(text: str) -> str:
    """Return the letters and digits of a text without case, for comparing titles."""
    return _NO_LETTERS.sub("", text.casefold())


MAX_ROMAN = 3999
_ROMAN_VALUES = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


def format_roman(number: int) -> str:
    """Return a number from 1 to `MAX_ROMAN` in lower-case Roman digits."""
    text = ""
    for value, digits in _ROMAN_VALUES:
        repeats, number = divmod(number, value)
        text += digits * repeats
    return text


_ROMAN_DIGITS = {digit: value for value, digit in _ROMAN_VALUES if len(digit) == 1}


def parse_roman(text: str) -> int | None:
    """Return the value of Roman digits in either case; None if the text is not a Roman number."""
    values = [_ROMAN_DIGITS.get(char, 0) for char in text.lower()]
    if not values or not all(values):
        return None
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < following else value for value, following in pairs)


_MAX_LENGTH, _MAX_LINES = 160, 3
_MAX_TITLE_LENGTH = 120

_PARTS = "part|book|volume|vol\\.|teil|partie|parte|часть"
_CHAPTERS = "chapter|letter|canto|stave|kapitel|chapitre|cap[ií]tulo|capitolo|глава"
_NAMES = (
    "prologue|prelude|preface|foreword|introduction|interlude|epilogue|afterword|conclusion"
    "|postscript|acknowledge?ments|appendix(?: [A-Z0-9]{1,3}\\b)?|author['’]s note"
)
BEFORE_THE_FIRST = re.compile("(?i)prologue|prelude|preface|foreword|introduction|acknowledge")
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
_OPENING, _CLOSING = "\"'“‘", "\"'”’"


Rank = Literal["part", "chapter", "named", "numeral"]
"""Rank of a heading. Headings of one rank follow one another."""


class Heading(Struct, frozen=True):
    """A recognised heading. `label` is its text on one line, `short` its kind and number."""

    rank: Rank
    kind: str
    number: int | str
    short: str
    label: str
    bare: bool = False
    """Whether the heading has no title, so that the next paragraph may be its title."""


def parse_heading(paragraph: str) -> Heading | None:
    """Return a paragraph as a heading; None if it is not one.

    In doubt it is not: a missed heading loses a label, while a wrong one ends a chapter.
    """
    text = paragraph.strip()
    if len(text) > _MAX_LENGTH or text.count("\n") >= _MAX_LINES:
        return None
    heading = None
    if (found := _NUMBERED.match(text)) and (title := _read_title(found["rest"])) is not None:
        kind, number = found["kind"].lower(), found["number"]
        rank = "part" if _PART.fullmatch(kind) else "chapter"
        value = int(number) if number.isdigit() else parse_roman(number)
        if value is None:
            value = number.lower().removeprefix("the ").replace(" ", "-")
        short, label = text[: found.end("number")], " ".join(text.split())
        heading = Heading(rank, kind, value, short, label, bare=not title)
    # A Roman number alone or before a title in capitals; others number paragraphs.
    elif (
        text.isupper()
        and (found := _NUMERAL.match(text))
        and (title := _read_title(found["rest"])) is not None
    ):
        number, label = found["number"], " ".join(text.split())
        heading = Heading("numeral", "", parse_roman(number) or 0, number, label, bare=not title)
    elif (found := _NAMED.match(text)) and "\n" not in text:
        rest, name = found["rest"].strip(), found["name"].lower()
        if not rest.strip(".:") or rest[0] in '.:—–“"(' or text.isupper():
            label = " ".join(text.split())
            return Heading("named", name, name, label, label)
    if heading is None or "\n" not in text:
        return heading
    is_list = any(_NUMBERED.match(line.strip()) for line in text.split("\n")[1:])
    return None if is_list else heading


def _read_title(rest: str) -> str | None:
    """Return the title after a number, possibly empty; None if a sentence continues."""
    separator = _SEPARATOR.match(rest)
    title = rest[separator.end() :] if separator else rest
    if separator and not title.startswith("\n"):
        first = title.lstrip().lstrip("_*\"'“‘")[:1]
        fits = not first.islower() and first not in ("(", ",", ";")
    else:
        fits = not title.strip() or (title[0].isspace() and is_title_like(title))
    return title.strip() if fits else None


def is_title_like(text: str) -> bool:
    """Return whether a paragraph could be a title and hardly anything else."""
    text = text.strip()
    if len(text) > _MAX_TITLE_LENGTH or text.count("\n") > 1 or not text[:1].strip("([*-"):
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


_FIRST_WORDS = re.compile(r"(?:[^\s.!?…。！？:;]+\s?){1,8}")
_MAX_BEGINNING_LENGTH = 60


def first_words(text: str) -> str:
    """Return the first words of a text as a label; at most its first sentence."""
    found = _FIRST_WORDS.search(text)
    return " ".join(shorten(found[0] if found else text, _MAX_BEGINNING_LENGTH).split())


def is_prose(text: str) -> bool:
    """Return whether a paragraph is too long for a list entry and does not begin like one."""
    long = len(text) > _MAX_LENGTH or text.count("\n") >= _MAX_LINES
    return long and parse_heading(text.strip().partition("\n")[0]) is None


_MAX_REPEATS = 20
_CIRCLED = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔㉕㉖㉗㉘㉙㉚㉛㉜㉝㉞㉟㊱㊲㊳㊴㊵㊶㊷㊸㊹㊺㊻㊼㊽㊾㊿"
_LETTERS = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "lowerGreek": "αβγδεζηθικλμνξοπρστυφχψω",
    "hebrew2": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabicAlpha": "أبتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "thaiLetters": "กขคงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ",
    "aiueoFullWidth": (
        "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
    ),
    "ganada": "가나다라마바사아자차카타파하",
}
"""Alphabets whose letters are doubled after the last: 27 is "aa"."""
_LETTERS |= {
    "upperLetter": _LETTERS["lowerLetter"].upper(),
    "russianUpper": _LETTERS["russianLower"].upper(),
}
_IDEOGRAPHS = "〇一二三四五六七八九"
_DIGITS = {
    "ideographDigital": _IDEOGRAPHS,
    "decimalFullWidth": "０１２３４５６７８９",
    "hindiNumbers": "०१२३४५६७८९",
    "thaiNumbers": "๐๑๒๓๔๕๖๗๘๙",
    "arabicNumbers": "٠١٢٣٤٥٦٧٨٩",
    "persianNumbers": "۰۱۲۳۴۵۶۷۸۹",
}


class _Counting(NamedTuple):
    """Numerals below 10,000 with characters for ten, hundred and thousand.

    `ones` is the first power of ten before which a one is written: with 2, 十 but 一百.
    """

    digits: str
    powers: str
    ones: int
    zero: str = ""
    below: int = 10_000


_COUNTING = {
    "japaneseCounting": _Counting(_IDEOGRAPHS, "十百千", 9),
    "chineseCounting": _Counting(_IDEOGRAPHS.replace("〇", "○"), "十", 2, below=100),
    "taiwaneseCounting": _Counting(_IDEOGRAPHS.replace("〇", "○"), "十", 2, below=100),
    "chineseCountingThousand": _Counting(_IDEOGRAPHS, "十百千", 2, "零"),
    "taiwaneseCountingThousand": _Counting(_IDEOGRAPHS, "十百千", 2, "零"),
    "koreanCounting": _Counting("영일이삼사오육칠팔구", "십백천", 9),
}


def format_number(count: int, form: str) -> str:
    """Return a number in a format; in digits if the format is unknown or has too many letters."""
    text = str(count)
    if letters := _LETTERS.get(form):
        repeats, letter = divmod(count - 1, len(letters))
        return letters[letter] * (repeats + 1) if 0 <= repeats < _MAX_REPEATS else text
    if digits := _DIGITS.get(form):
        return "".join(digits[int(char)] for char in text) if count >= 0 else text
    if form in _COUNTING:
        return _spell(count, _COUNTING[form])
    match form:
        case "lowerRoman" | "upperRoman" if 1 <= count <= MAX_ROMAN:
            text = format_roman(count)
        case "decimalZero":
            text = f"{count:02}"
        case "decimalEnclosedCircle" if 1 <= count <= len(_CIRCLED):
            text = _CIRCLED[count - 1]
        case "ordinal":
            suffix = {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
            text += "th" if count % 100 in (11, 12, 13) else suffix
        case "none" | "bullet":
            text = ""
    return text.upper() if form == "upperRoman" else text


def _spell(count: int, counting: _Counting) -> str:
    digits, powers, ones, zero, below = counting
    if not 0 < count < below:
        shown = str(count)
        return "".join(digits[int(char)] for char in shown) if count >= 0 else shown
    text, gap = "", False
    for power in range(len(powers), -1, -1):
        digit = count // 10**power % 10
        if not digit:
            gap = bool(text)
            continue
        text += zero if gap else ""
        # A one before ten is written within a longer number: 一百一十.
        spelled = digit > 1 or power == 0 or power >= ones or (bool(text) and bool(zero))
        text += (digits[digit] if spelled else "") + (powers[power - 1] if power else "")
        gap = False
    return text
