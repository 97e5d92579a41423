"""Find a chapter of a book by its number, its name or a part of its name.

A number means the one that the book prints, as "5", "V" or "Five". Only in a book that prints no
numbers the chapters are counted. In a book with parts, a chapter may be named with its part or
without; where parts number their chapters anew, the reader's position decides which is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby, islice, pairwise

from msgspec import Struct
from msgspec.structs import replace

from truespan.core.graphemes import shorten
from truespan.errors import InvalidArgument
from truespan.text.headings import parse_roman
from truespan.types.document import OutlineEntry
from truespan.types.text import fold_name

MAX_LISTED = 8
"""Maximum number of chapters that an error lists."""
MAX_COMPARED = 2000
"""Maximum number of names that are compared letter by letter."""
MAX_QUOTED_LENGTH = 120

_WITHIN = " › "
"""Separates a chapter from its section in a name."""
_CHAPTER_WORDS = (
    "chapter|chap|ch|kapitel|kap|chapitre|capítulo|capitulo|capitolo|hoofdstuk|rozdział"
)
_PART_WORDS = "part|book|volume|vol|act|teil|buch|livre|partie|parte|libro|часть"
_OTHER_WORDS = f"{_PART_WORDS}|section|scene|appendix|canto|letter"
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
_SPELLED = "|".join(sorted(map(re.escape, _NUMBER_WORDS), key=len, reverse=True))
_LABEL = re.compile(
    rf"(?P<word>(?:{_CHAPTER_WORDS}|{_OTHER_WORDS})\b\.?)?\s*(?:(?:no|nr|the)\b\.?\s*)?"
    rf"(?P<number>[0-9]{{1,4}}|[ivxlc]+|{_SPELLED})(?=$|\W)(?![.,][0-9])(?P<after>.*)",
    re.DOTALL,
)
_WORDS = re.compile(r"\w+")
_AFTER_THE_PARTS = re.compile(
    "epilogue|afterword|appendix|conclusion|postscript|acknowledge?ments|notes|glossary|index"
    "|about the author|epilog|nachwort|anhang|épilogue|epílogo"
)
"""Names that end the last part of a book."""


class Chapter(Struct, frozen=True):
    """A chapter, a part or a section of a book, from its first to its last sentence."""

    name: str
    start: int
    end: int
    own_name: str
    """Name without the names of the parts that contain the chapter."""
    place: int
    """Place in the list of chapters."""
    parts: tuple[int, ...] = ()
    """Places of the entries that contain this one, the outermost first."""
    is_section: bool = False
    """Whether it is a section of another entry, by the levels of their headings."""
    contains_others: bool = False
    in_chapter: bool = False
    """Whether an entry that contains this one is numbered with the word "chapter"."""


class _Label(Struct, frozen=True):
    """Number at the start of a name, and its unit: chapters, or something larger."""

    number: int
    word: str
    """Word before the number, such as "chapter"; "" without one."""
    title: str
    """Rest of the name, folded for comparison; "" if there is none."""

    @property
    def of_chapters(self) -> bool:
        return not self.word or re.fullmatch(_CHAPTER_WORDS, self.word) is not None

    @property
    def of_parts(self) -> bool:
        return re.fullmatch(_PART_WORDS, self.word) is not None


def list_chapters(outline: Sequence[OutlineEntry], last: int) -> list[Chapter]:
    """Return the parts, chapters and sections of a book; `last` is the last sentence of the book.

    An entry ends with the last entry that it contains. A plain text names its chapters "PART I,
    CHAPTER II"; in other books, a part is a heading before its chapters, or they are its sections.
    """
    named = [entry for entry in outline if entry.chapter]
    groups = [[*group] for _, group in groupby(named, lambda entry: entry.chapter)]
    found: list[Chapter] = []
    places: list[int] = []
    """Place of each chapter among the chapters and their sections."""
    paths = _find_parts([group[0].chapter or "" for group in groups])
    for group, (parts, own_name) in zip(groups, paths, strict=True):
        name, above = group[0].chapter or "", len(found)
        path = tuple(places[part] for part in parts)
        places.append(above)
        found.append(Chapter(name, group[0].first_sid, last, own_name, place=above, parts=path))
        path = (*path, above)
        sections = [entry for entry in group if entry.section]
        for entry, inner in zip(sections, _divide_sections(sections), strict=True):
            own_name, place = entry.section or "", len(found)
            inside = (*path, *(above + 1 + part for part in inner))
            full_name = f"{found[inside[-1]].name}{_WITHIN}{own_name}"
            section = Chapter(full_name, entry.first_sid, last, own_name, place=place, parts=inside)
            found.append(replace(section, is_section=True))
    return [_complete(chapter, found) for chapter in found]


def _complete(chapter: Chapter, found: Sequence[Chapter]) -> Chapter:
    """Return an entry with its last sentence, and its numbers among the others."""
    above = [_label_of(found[part].own_name) for part in chapter.parts]
    following = found[chapter.place + 1 : chapter.place + 2]
    return replace(
        chapter,
        end=next(
            (
                after.start - 1
                for after in islice(found, chapter.place + 1, None)
                if chapter.place not in after.parts
            ),
            chapter.end,
        ),
        contains_others=any(chapter.place in after.parts for after in following),
        in_chapter=any(label and label.word and label.of_chapters for label in above),
    )


def _divide_sections(sections: Sequence[OutlineEntry]) -> list[tuple[int, ...]]:
    """Return the places of the sections that contain each section of a chapter.

    Sections can be of several levels: parts and their chapters, or the number of a chapter and the
    title below it.
    """
    paths = [parts for parts, _ in _find_parts([entry.section or "" for entry in sections])]
    for place, (before, entry) in enumerate(pairwise(sections), 1):
        number, label = _label_of(before.section or ""), _label_of(entry.section or "")
        is_only_heading = entry.first_sid - before.first_sid <= 1
        if number is not None and number.of_chapters and label is None and is_only_heading:
            paths[place] = (*paths[place - 1], place - 1)
    return paths


def _find_parts(names: Sequence[str]) -> list[tuple[tuple[int, ...], str]]:
    """Return the places of the parts that contain each chapter, and its own name."""
    prefixed = list(_split_prefixes(names))
    if any(parts for parts, _ in prefixed):
        return prefixed
    found: list[tuple[tuple[int, ...], str]] = []
    open_parts: list[tuple[int, str]] = []
    for place, name in enumerate(names):
        label = _label_of(name)
        is_part = label is not None and label.of_parts
        if label is not None and is_part:
            # A part ends the open part of the same kind, and the parts inside that one.
            words = [word for _, word in open_parts]
            del open_parts[words.index(label.word) if label.word in words else len(words) :]
        elif _AFTER_THE_PARTS.match(_fold(name)):
            open_parts.clear()
        found.append((tuple(part for part, _ in open_parts), name))
        if label is not None and is_part:
            open_parts.append((place, label.word))
    return found


def _split_prefixes(names: Sequence[str]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the parts that each name begins with, and the rest of it."""
    latest: dict[tuple[tuple[int, ...], str], int] = {}
    for place, name in enumerate(names):
        parts: tuple[int, ...] = ()
        prefix, comma, rest = name.partition(", ")
        while comma and (part := latest.get((parts, _fold(prefix)))) is not None:
            parts, name = (*parts, part), rest
            prefix, comma, rest = name.partition(", ")
        label = _label_of(name)
        if label is not None and label.of_parts:
            # The prefix of its chapters has its word and its number, without its title.
            words = _fold(name)
            short = words[: len(words) - len(label.title)].strip() if label.title else words
            latest[parts, short] = place
        yield parts, name


def find_chapter(
    chapters: Sequence[Chapter], wanted: str, *, position: int | None = None
) -> Chapter:
    """Return the chapter, part or section that `wanted` means.

    It is the whole name, with or without the part; the title without the number; the number that
    the book prints; or a part of the name that no other name has. A number alone is that of a
    chapter, not of a part that contains chapters. If several chapters have the number or the name,
    the reader's `position` decides, unless that leaves several or they are of different levels.

    Raises:
        InvalidArgument: no chapter is meant, or it could be several.
    """
    if not _fold(wanted):
        raise InvalidArgument("Name a chapter, or give its number.")
    found = _by_name(chapters, wanted)
    part, rest = _split_part(wanted)
    if not found and part:
        parts = {chapter.place for chapter in _by_name(chapters, part)}
        inside = [chapter for chapter in chapters if parts & {*chapter.parts}]
        found = _by_name(inside, rest) or _by_words(inside, rest)
    elif len({chapter.is_section for chapter in found}) == 1 and position is not None:
        found = _nearest(found, chapters, position)
    found = found or _by_words(chapters, wanted)
    if len({chapter.end for chapter in found}) > 1:
        raise _refuse_several(wanted, found)
    if not found:
        raise _refuse(chapters, wanted)
    return found[-1]


def _by_name(pool: Sequence[Chapter], wanted: str) -> Sequence[Chapter]:
    """Return the chapters of a pool with this name, this title or this printed number."""
    spoken, label = _fold(wanted), _label_of(wanted)
    labels = [(chapter, _label_of(chapter.own_name)) for chapter in pool]
    same = [
        chapter
        for chapter, own in labels
        if spoken in (_fold(chapter.name), _fold(chapter.own_name), own and own.title)
    ]
    if label is None or label.title:
        return same
    printed = [(chapter, own) for chapter, own in labels if own is not None]
    if len(printed) == 1 and printed[0][1].number != 1:
        # A single title that begins with a number does not number the others.
        printed = []
    found = _by_number(printed, label) or same
    if found or printed:
        return found
    words = [] if label.word or spoken.isdecimal() else _by_words(pool, wanted)
    return words or _by_count(pool, label.number)


def _by_count(pool: Sequence[Chapter], number: int) -> list[Chapter]:
    """Return the chapter and the section with a number in a book that prints none."""
    found: list[Chapter] = []
    for is_section in (False, True):
        level = [chapter for chapter in pool if chapter.is_section == is_section]
        # A first one that is only a title line is not counted.
        first = int(len(level) > 1 and level[1].start - level[0].start <= 1)
        found += level[first:][number - 1 : number] if number else []
    return found


def _split_part(wanted: str) -> tuple[str, str]:
    """Return the part that a name begins with, "" without one, and the rest of the name."""
    name = fold_name(" ".join(wanted.split()))
    found, label = _LABEL.match(name), _label_of(name)
    if found is None or label is None or not label.of_parts:
        return "", wanted
    return name[: found.start("after")], found["after"].strip(" .,:;-–—›")


def _by_number(printed: Sequence[tuple[Chapter, _Label]], wanted: _Label) -> list[Chapter]:
    """Return the chapters that have a number printed."""
    same = [(chapter, label) for chapter, label in printed if label.number == wanted.number]
    others = [(chapter, label) for chapter, label in same if not label.of_chapters]
    if wanted.word and not wanted.of_chapters:
        with_word = [chapter for chapter, label in others if label.word == wanted.word]
        return with_word or [chapter for chapter, _ in others]
    if not wanted.word and not any(label.of_chapters for _, label in printed):
        # A number alone means a chapter, unless only letters or the like have numbers.
        return [chapter for chapter, _ in others if not chapter.contains_others]
    # Numbers within a chapter that has the word "chapter" are those of its sections.
    found = [
        (chapter, label) for chapter, label in same if label.of_chapters and not chapter.in_chapter
    ]
    return [chapter for chapter, label in found if label.word] or [chapter for chapter, _ in found]


def _by_words(pool: Sequence[Chapter], wanted: str) -> list[Chapter]:
    """Return the chapters whose name or title begins with these words; if none does, those that
    have them; if none has, those that have these letters."""
    spoken, label = _fold(wanted), _label_of(wanted)
    if spoken.isdecimal() or (label is not None and label.word and not label.title):
        return []
    begins: list[Chapter] = []
    for chapter in pool:
        known = _label_of(chapter.own_name)
        pairs = [(_fold(chapter.own_name), spoken)]
        if known is not None:
            pairs.append((known.title, spoken))
        if known is not None and label is not None and label.number == known.number:
            # "Chapter 2: The Boat" may be printed as "II. The Boat on the River".
            pairs.append((known.title, label.title))
        if any(words and f"{name} ".startswith(f"{words} ") for name, words in pairs):
            begins.append(chapter)
    names = [
        (chapter, _fold(chapter.own_name if chapter.is_section else chapter.name))
        for chapter in pool
    ]
    whole = [chapter for chapter, name in names if f" {spoken} " in f" {name} "]
    return (
        begins
        or whole
        or [
            chapter
            for chapter, name in names
            if name.startswith(spoken) or (len(spoken) > 1 and spoken in name)
        ]
    )


def _nearest(found: Sequence[Chapter], pool: Sequence[Chapter], position: int) -> Sequence[Chapter]:
    """Return the chapter that a reader at a position means; all if that is not clear.

    It is the chapter that the position is in, the next one if that was read to its end, the one in
    the same part, or the first one if none was reached. Otherwise the reader may want to go back.
    """
    leaves = [chapter for chapter in pool if not chapter.contains_others]
    within = [chapter for chapter in found if chapter.start <= position <= chapter.end]
    if within:
        return within[-1:]
    current = next((chapter for chapter in reversed(leaves) if chapter.start <= position), None)
    following = next((chapter for chapter in leaves if chapter.start > position), None)
    if following is not None and following in found and (not current or current.end == position):
        return [following]
    parts = current.parts if current else ()
    same_part = [chapter for chapter in found if parts and chapter.parts == parts]
    if len(same_part) == 1:
        return same_part
    return found if any(chapter.start <= position for chapter in found) else found[:1]


def _refuse_several(wanted: str, found: Sequence[Chapter]) -> InvalidArgument:
    listed = [
        # The first sentence distinguishes chapters with the same name.
        f"{chapter.name!r} (from sentence {chapter.start})"
        if sum(other.name == chapter.name for other in found) > 1
        else repr(chapter.name)
        for chapter in found[:MAX_LISTED]
    ]
    more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    return InvalidArgument(
        f"{_quote(wanted)} can mean several chapters: {', '.join(listed)}{more}.",
        advice="Give more of the name, with its part if it has one, or the last sentence read: "
        "its number as 'sentence', or words of it as 'passage'.",
    )


def _refuse(chapters: Sequence[Chapter], wanted: str) -> InvalidArgument:
    folded = {_fold(chapter.name): chapter.name for chapter in chapters[:MAX_COMPARED]}
    spoken = _fold(wanted)[:MAX_QUOTED_LENGTH]
    close = [folded[name] for name in get_close_matches(spoken, folded, n=3, cutoff=0.5)]
    listed = close or [chapter.name for chapter in chapters[:MAX_LISTED]]
    text = f"There is no chapter {_quote(wanted)}."
    if close:
        text += f" The closest: {', '.join(map(repr, listed))}."
    elif listed:
        more = f" and {len(chapters) - len(listed)} more" if len(chapters) > len(listed) else ""
        text += f" The chapters: {', '.join(map(repr, listed))}{more}."
    return InvalidArgument(text, advice="'truespan show DOCUMENT' lists them.")


def _quote(wanted: str) -> str:
    return repr(shorten(wanted, MAX_QUOTED_LENGTH, "..."))


def _fold(name: str) -> str:
    """Return the words of a name, folded for comparison, without punctuation."""
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
        # A numeral in capitals needs no mark after it, unless it is a word.
        capitals = stripped[: found.end("number")].isupper() and value is None and len(number) > 1
        if not capitals and after[1] not in ":-–—":
            return None
    value = parse_roman(number) or 0 if value is None else value
    return _Label(value, (word or "").rstrip("."), _fold(rest))
