"""Find a chapter of a book by what a person calls it: its number, its name or a part of that.

A number means the one that the book prints, as "5", "V" or "Five". Only in a book that prints no
numbers the chapters are counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import chain

from msgspec import Struct

from truespan.errors import InvalidSettings
from truespan.types.graphemes import shorten
from truespan.types.text import fold_name

MOST_LISTED = 8
"""So many chapters are listed when a name is not one chapter's."""
MOST_COMPARED = 2000
"""So many names are compared letter by letter."""
LONGEST_QUOTED = 120

_CHAPTER_WORDS = (
    "chapter|chap|ch|kapitel|kap|chapitre|capítulo|capitulo|capitolo|hoofdstuk|rozdział"
)
_OTHER_WORDS = "part|book|volume|vol|section|act|scene|appendix|canto|letter|teil|buch|livre|partie"
_UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12,
}  # fmt: skip
_NUMBER_WORDS = (
    {word: number for number, word in enumerate(_UNITS)}
    | {word: 20 + 10 * place for place, word in enumerate(_TENS)}
    | {
        f"{ten}{join}{unit}": 20 + 10 * place + number
        for place, ten in enumerate(_TENS)
        for number, unit in enumerate(_UNITS[1:10], 1)
        for join in ("-", " ")
    }
    | {f"{lead}hundred": 100 for lead in ("one ", "a ", "")}
    | _ORDINALS
)
_ROMAN = re.compile(r"(?=[ivxlc])(c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})")
_ROMAN_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_SPELLED = "|".join(sorted(map(re.escape, _NUMBER_WORDS), key=len, reverse=True))
_LABEL = re.compile(
    rf"(?P<word>(?:{_CHAPTER_WORDS}|{_OTHER_WORDS})\b\.?)?\s*(?:(?:no|nr|the)\b\.?\s*)?"
    rf"(?P<number>[0-9]{{1,4}}|[ivxlc]+|{_SPELLED})(?=$|\W)(?![.,][0-9])(?P<after>.*)",
    re.DOTALL,
)
_WORDS = re.compile(r"\w+")


class _Label(Struct, frozen=True):
    """The number that a name begins with, and what it counts: chapters, or something larger."""

    number: int
    of_chapters: bool
    explicit: bool
    """Whether a word such as "chapter" comes before it."""
    whole: bool
    """Whether the name has nothing else."""


def find_chapter(names: Sequence[str], wanted: str, *, first: int = 0) -> int:
    """Return the place of the chapter that `wanted` means among the names of all chapters.

    It is the whole name, the number that the book prints, or a part of the name that no other name
    has. Where chapters have to be counted, counting begins at place `first`.

    Raises:
        InvalidSettings: no chapter is meant, or it could be several.
    """
    spoken = _fold(wanted)
    if not spoken:
        raise InvalidSettings("Name a chapter, or give its number.")
    folded = [_fold(name) for name in names]
    label = _label_of(wanted)
    number = label if label is not None and label.whole else None
    printed = _printed(names)
    found = [place for place, name in enumerate(folded) if name == spoken]
    if not found and number is not None:
        found = _by_number(printed, number)
    if not found and (number is None or not number.explicit) and not spoken.isdecimal():
        found = _by_part(folded, spoken)
    if not found and number is not None and not printed:
        place = first - 1 + number.number
        found = [place] if first <= place < len(names) else []
    if len(found) == 1:
        return found[0]
    raise _refusal(names, wanted, found)


def _printed(names: Sequence[str]) -> dict[int, _Label]:
    """Return the numbers that names begin with, by their places."""
    labels = {place: label for place, name in enumerate(names) if (label := _label_of(name))}
    if len(labels) == 1 and all(label.number != 1 for label in labels.values()):
        # One title that happens to begin with a number says nothing of the others.
        return {}
    return labels


def _by_number(printed: dict[int, _Label], wanted: _Label) -> list[int]:
    """Return the chapters that have a number printed."""
    found = {place: label for place, label in printed.items() if label.number == wanted.number}
    chapters = [place for place, label in found.items() if label.of_chapters]
    others = [place for place, label in found.items() if not label.of_chapters]
    if wanted.explicit:
        return chapters if wanted.of_chapters else others
    # A number alone means a chapter, unless only parts, letters or the like have numbers.
    return chapters or ([] if any(label.of_chapters for label in printed.values()) else others)


def _by_part(folded: Sequence[str], spoken: str) -> list[int]:
    """Return the chapters whose name has these words; if none has, these letters."""
    whole = [place for place, name in enumerate(folded) if f" {spoken} " in f" {name} "]
    return whole or [
        place
        for place, name in enumerate(folded)
        if name.startswith(spoken) or (len(spoken) > 1 and spoken in name)
    ]


def _refusal(names: Sequence[str], wanted: str, found: Sequence[int]) -> InvalidSettings:
    quoted = repr(shorten(wanted, LONGEST_QUOTED, "..."))
    if found:
        listed = [names[place] for place in found]
        more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
        candidates = ", ".join(map(repr, listed[:MOST_LISTED])) + more
        return InvalidSettings(
            f"{quoted} can mean several chapters: {candidates}.",
            advice="Give more of the name, or words of the last sentence read with --passage.",
        )
    folded = {_fold(name): name for name in names[:MOST_COMPARED]}
    spoken = _fold(wanted)[:LONGEST_QUOTED]
    close = [folded[name] for name in get_close_matches(spoken, folded, n=3, cutoff=0.5)]
    listed = close or list(names[:MOST_LISTED])
    text = f"There is no chapter {quoted}."
    if close:
        text += f" The closest: {', '.join(map(repr, listed))}."
    elif listed:
        dots = ", ..." if len(names) > len(listed) else ""
        text += f" The chapters: {', '.join(map(repr, listed))}{dots}."
    return InvalidSettings(text, advice="'truespan show DOCUMENT' lists them.")


def _fold(name: str) -> str:
    """Return the words of a name as names are compared, without marks between them."""
    return " ".join(_WORDS.findall(fold_name(name)))


def _label_of(name: str) -> _Label | None:
    """Return the number that a name begins with; None if it has none, or only looks so.

    "V", "Five: The Boat", "5 The Boat" and "Chapter five" have one. "I saw him" and "Two of us" do
    not: without a word such as "chapter", a number in letters needs an end after it.
    """
    stripped = " ".join(name.split())
    found = _LABEL.match(fold_name(stripped))
    if found is None:
        return None
    word, number, after = found["word"], found["number"], found["after"]
    value = int(number) if number.isdecimal() else _NUMBER_WORDS.get(number)
    if value is None and _ROMAN.fullmatch(number) is None:
        return None
    rest = after.strip(" .:)-–—")
    if word is None and rest and not number.isdecimal() and after[0] == " ":
        # In capitals it is a number even without a mark after it, if it is no word.
        capitals = stripped[: found.end("number")].isupper() and value is None and len(number) > 1
        if not capitals and after[1] not in ":-–—":
            return None
    return _Label(
        number=_roman_value(number) if value is None else value,
        of_chapters=word is None or re.fullmatch(rf"(?:{_CHAPTER_WORDS})\.?", word) is not None,
        explicit=word is not None,
        whole=not rest,
    )


def _roman_value(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    pairs = zip(values, chain(values[1:], [0]), strict=True)
    return sum(value if value >= after else -value for value, after in pairs)
