"""What a paragraph of plain text says when it is a heading. Each is judged by itself alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

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
        """Say whether Roman numbers below it are sections of it and no chapters."""
        if self.rank is Rank.NAMED:
            return not _BEFORE_THE_FIRST.search(self.kind)
        return self.rank is Rank.CHAPTER

    def follows(self, previous: Heading) -> bool:
        """Say whether both are of one rank, as entries of a list are."""
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
    """Say whether a paragraph could be a title and hardly anything else."""
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
    """Say whether a line announces a list of chapters or pictures."""
    return _CONTENTS.fullmatch(text.strip().rstrip(".:")) is not None


def lists_chapters(text: str) -> bool:
    """Say whether the list that `text` announces is one of chapters."""
    return "llustration" not in text.lower()


def plain_title(text: str) -> str:
    """Return the words of a title, so that its entry in a list and its heading compare equal."""
    words = _ASIDE.sub(" ", _PAGE.sub("", text.strip()))
    return " ".join(re.findall(r"\w+", words.casefold()))


def is_prose(text: str) -> bool:
    """Say whether a paragraph is too long to be an entry of a list that does not begin like one."""
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
