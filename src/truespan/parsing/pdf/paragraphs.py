"""Paragraphs of a PDF, rebuilt from its lines.

A file of this kind knows no paragraphs. A line goes on with the one before unless something says
otherwise: a gap, another size, an indent after a full stop, a mark of a list, or that its first
word would have fitted on the line before. Where the last is all there is, and no sentence ended,
the line end stays: that is how tables, verses and titles look.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from truespan.parsing.pdf.lines import Line
from truespan.types.text import PageStart

_HYPHENS = "\u2010-"
_BROKEN = re.compile(rf"(?P<before>[\w’'{_HYPHENS}]*\w)[{_HYPHENS}]$")
_FIRST_PART = re.compile(r"[^\W_]+")
# From the beginning of a word and without a way back: a long word would be tried at each letter.
_WITH_HYPHEN = re.compile(rf"(?<![^\W\d_])[^\W\d_]++[{_HYPHENS}][^\W\d_]++")
_KEEPING = frozenset({"all", "ex", "half", "ill", "quasi", "self", "so", "vice", "well"})
_UNSPACED = re.compile(
    "[\u2e80-\u2fdf\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60]"
)


def words_with_hyphen(lines: Iterable[str]) -> frozenset[str]:
    """Return the words that stand with a hyphen in the middle of some line."""
    return frozenset(word.casefold() for line in lines for word in _WITH_HYPHEN.findall(line))


def joined(before: str, after: str, with_hyphen: frozenset[str]) -> tuple[str, str]:
    """Return what the text before becomes, and what is put between it and the next line."""
    if not before:
        return before, ""
    broken = _BROKEN.search(before, max(0, len(before) - 100))
    following = _FIRST_PART.match(after)
    if broken and following:
        mended = _is_broken_word(broken["before"], following[0], with_hyphen)
        return (before[:-1] if mended else before), ""
    unspaced = _UNSPACED.match(before[-1]) and _UNSPACED.match(after)
    return before, "" if unspaced else " "


def _is_broken_word(before: str, after: str, with_hyphen: frozenset[str]) -> bool:
    """Say whether the hyphen between two parts is there only because the line ended."""
    last = re.split(rf"[{_HYPHENS}]", before)[-1]
    if last != before or len(before) < 2 or not (before[-1].isalpha() and after[0].isalpha()):
        return False
    shouted = before.isupper() and after.isupper()
    if after[0].isupper() and not shouted:
        return False
    whole = f"{before}-{after}".casefold()
    return before.casefold() not in _KEEPING and whole not in with_hyphen


_NUMBERED_PAGES, _PLAIN_PAGES = 3, 4
_MOST = 0.6
_SAME_HEIGHT = 3.0
_LONGEST = 120
_NUMBER = re.compile(r"\d{1,5}")
_ROMAN = re.compile(r"m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_ROMAN_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
_COUNTING = re.compile("(?:pages?|p|seite|página|pagina|стр)?(?:of|von|de|di|из)?")


class _Key(NamedTuple):
    """What repeats: the edge, the words without the number, and how far the number is ahead.

    The words are None for lines that have nothing in common but such a number at one end.
    """

    highest: bool
    words: str | None
    ahead: int | None


class _Found(NamedTuple):
    page: int
    place: int
    height: float
    words: str


def without_running_heads(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Return the pages without running heads. A head may have two lines, hence two rounds."""
    kept = [list(lines) for lines in pages]
    for _ in range(2):
        gone = _running(kept)
        kept = [
            [line for place, line in enumerate(lines) if (page, place) not in gone]
            for page, lines in enumerate(kept)
        ]
    return kept


def _running(pages: Sequence[list[Line]]) -> set[tuple[int, int]]:
    """Return the page and place of each line that is dropped."""
    groups: defaultdict[_Key, list[_Found]] = defaultdict(list)
    for page, lines in enumerate(pages):
        for highest, place in _edges(lines):
            line = lines[place]
            for words, ahead in _readings(line.text, page):
                found = _Found(page, place, line.bottom, _plain(line.text))
                groups[_Key(highest, words, ahead)].append(found)
    certain = {
        key: level
        for key, found in groups.items()
        if _is_certain(key, level := _at_one_height(found), len(pages))
    }
    if not certain:
        return set()
    everything = "\n".join(_plain(line.text) for lines in pages for line in lines)
    return {
        (one.page, one.place) for found in certain.values() for one in _dropped(found, everything)
    }


def _at_one_height(found: Sequence[_Found]) -> list[_Found]:
    if len(found) < _NUMBERED_PAGES:
        return []
    usual = median(one.height for one in found)
    return [one for one in found if abs(one.height - usual) <= _SAME_HEIGHT]


def _edges(lines: Sequence[Line]) -> Iterator[tuple[bool, int]]:
    """Give the place of the highest and of the lowest line, if nothing stands beside it."""
    if len(lines) < 2:
        return
    order = sorted(range(len(lines)), key=lambda place: -lines[place].middle)
    for highest, place, neighbour in ((True, order[0], order[1]), (False, order[-1], order[-2])):
        if len(lines[place].text) <= _LONGEST and not lines[place].beside(lines[neighbour]):
            yield highest, place


def _readings(text: str, page: int) -> Iterator[tuple[str | None, int | None]]:
    """Give the words of a line without each of its numbers in turn, and whole."""
    yield text, None
    for number in _NUMBER.finditer(text):
        words = f"{text[: number.start()]}#{text[number.end() :]}"
        yield words, int(number[0]) - page
        if number.start() == 0 or number.end() == len(text):
            yield None, int(number[0]) - page
    if _ROMAN.fullmatch(text.strip("- ").lower()):
        yield "#", _roman(text.strip("- ").lower()) - page


def _roman(text: str) -> int:
    values = [_ROMAN_DIGITS[char] for char in text]
    following = [*values[1:], 0]
    return sum(-one if one < two else one for one, two in zip(values, following, strict=True))


def _is_certain(key: _Key, found: Sequence[_Found], pages: int) -> bool:
    if key.ahead is not None:
        return len(found) >= max(_NUMBERED_PAGES, _MOST * pages if key.words is None else 0)
    if len(found) < _PLAIN_PAGES:
        return False
    odd = sum(one.page % 2 for one in found)
    shares = (len(found) / pages, odd / max(pages // 2, 1), (len(found) - odd) / ((pages + 1) // 2))
    return max(shares) >= _MOST


def _dropped(found: Sequence[_Found], everything: str) -> Iterator[_Found]:
    """Give those to drop: all, or all but the first of those whose words stand nowhere else."""
    by_words: defaultdict[str, list[_Found]] = defaultdict(list)
    for one in found:
        by_words[one.words].append(one)
    for words, group in by_words.items():
        elsewhere = _COUNTING.fullmatch(words) or everything.count(words) > len(group)
        yield from group if elsewhere else group[1:]


def _plain(text: str) -> str:
    """Return the letters of a text; of a page number written with letters, nothing."""
    if _ROMAN.fullmatch(text.strip("- ").lower()):
        return ""
    return "".join(char for char in text.casefold() if char.isalpha())


_WIDE_PITCH = 1.4
_OTHER_SIZE = 0.12
_INDENT = 0.7
_SLACK = 0.4
_SHORT_RUN = 3
_NORMAL_PITCH = 1.15
_TOP = 3
_ENDS = re.compile(r"[.!?:…。！？][\"'”’»)\]]*$")
_BROKEN_WORD = re.compile(r"[^\W\d_][\u2010-]$")
_BULLET = re.compile(r"[•◦▪‣●○■□◆➢⁃∙](?:\s|$)")


class LineRelation(Enum):
    """How a line belongs to the one before it."""

    SAME = "same paragraph"
    LINE = "same paragraph, after a line end"
    NEW = "a new paragraph"


class Placed(NamedTuple):
    """A line with the margins of the run of lines it belongs to, and how far apart those stand."""

    line: Line
    page: int
    run: int
    left: float
    right: float
    pitch: float


class Paragraph(NamedTuple):
    """A paragraph, the pages that begin in it, and the number of its first line."""

    text: str
    pages: tuple[PageStart, ...]
    first: int
    blank_lines: int
    """How many lines would have had room before it; 3 at the top of a page or column."""
    bulleted: bool


def placed(pages: Sequence[Sequence[Line]]) -> list[Placed]:
    """Return the lines of all pages, each with what is known about its surroundings."""
    runs = [(page, run) for page, lines in enumerate(pages, 1) for run in _runs(lines)]
    usual = _usual_width([run for _, run in runs])
    result: list[Placed] = []
    for number, (page, run) in enumerate(runs):
        left, right = min(line.left for line in run), max(line.right for line in run)
        if len(run) < _SHORT_RUN:
            right = max(right, left + usual)
        pitch = _pitch(run)
        result.extend(Placed(line, page, number, left, right, pitch) for line in run)
    return result


def paragraphs(
    lines: Sequence[Placed], begins: Container[int], goes_on: Container[int]
) -> Iterator[Paragraph]:
    """Give the paragraphs of a document.

    The lines with the numbers `begins` always begin one, and those in `goes_on` never do.
    """
    with_hyphen = words_with_hyphen(place.line.text for place in lines)
    bonds = [LineRelation.NEW]
    start, page = 0, 0
    for number in range(1, len(lines) + 1):
        bond = LineRelation.NEW
        if number in goes_on:
            bond = LineRelation.SAME
        elif number < len(lines) and number not in begins:
            bond = _bond(lines[start], lines[number - 1], lines[number])
        if bond is LineRelation.NEW:
            text, pages = _text(lines[start:number], bonds, page, with_hyphen)
            yield Paragraph(text, pages, start, _blank_lines(lines, start), _is_bulleted(text))
            start, page, bonds = number, lines[number - 1].page, []
        bonds.append(bond)


def _text(
    lines: Sequence[Placed], bonds: Sequence[LineRelation], page: int, with_hyphen: frozenset[str]
) -> tuple[str, tuple[PageStart, ...]]:
    """Return the text of a paragraph, and where pages begin in it; `page` is that before it."""
    parts: list[str] = []
    pages: list[PageStart] = []
    length = 0
    for place, bond in zip(lines, bonds, strict=True):
        text = place.line.text
        if parts:
            before, between = parts[-1], "\n"
            if bond is not LineRelation.LINE:
                before, between = joined(parts[-1], text, with_hyphen)
            length += len(before) - len(parts[-1]) + len(between)
            parts[-1] = before + between
        if place.page != page:
            page = place.page
            pages.append(PageStart(length, page))
        parts.append(text)
        length += len(text)
    return "".join(parts), tuple(pages)


def _blank_lines(lines: Sequence[Placed], number: int) -> int:
    here = lines[number]
    before = lines[number - 1] if number else None
    if before is None or before.run != here.run or here.pitch <= 0:
        return _TOP
    drop = (before.line.bottom - here.line.bottom) / here.pitch
    return max(0, min(round(drop) - 1, _TOP))


def _is_bulleted(text: str) -> bool:
    return _BULLET.match(text) is not None


def _bond(first: Placed, before: Placed, here: Placed) -> LineRelation:
    """Say how a line belongs to a paragraph, given the first and the last line of that."""
    if _other_size(before.line, here.line) or _is_bulleted(here.line.text):
        return LineRelation.NEW
    if here.run != before.run:
        return _bond_across(before, here)
    height = here.line.height
    usual = max(here.pitch, _NORMAL_PITCH * height)
    if before.line.bottom - here.line.bottom > _WIDE_PITCH * usual:
        return LineRelation.NEW
    if _BROKEN_WORD.search(before.line.text) and here.line.text[:1].islower():
        return LineRelation.SAME
    if before.line.cells > 1 or here.line.cells > 1:
        return LineRelation.LINE
    ended = _ENDS.search(before.line.text) is not None
    indented = here.line.left - before.line.left > _INDENT * height
    if _ends_short(before, here.line):
        return LineRelation.NEW if ended or indented else LineRelation.LINE
    hanging = before.line.left - first.line.left > _INDENT * height
    back = abs(here.line.left - first.line.left) < _SLACK * height
    if (indented and ended) or (hanging and back):
        return LineRelation.NEW
    return LineRelation.SAME


def _bond_across(before: Placed, here: Placed) -> LineRelation:
    """Say how the first line of a column or page belongs to the last one of that before it."""
    if _ends_short(before, here.line) and not _BROKEN_WORD.search(before.line.text):
        return LineRelation.NEW
    ended = _ENDS.search(before.line.text) is not None
    goes_on = here.line.text[:1].islower() or not ended
    return LineRelation.SAME if goes_on else LineRelation.NEW


def _ends_short(before: Placed, after: Line) -> bool:
    """Say whether the next line's first word would still have fitted on this one."""
    room = before.right - before.line.right
    return room > after.first_width + _SLACK * before.line.height


def _other_size(one: Line, other: Line) -> bool:
    return abs(one.height - other.height) > _OTHER_SIZE * max(one.height, other.height)


def _runs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Give the runs of lines that go down the page one below the other."""
    run: list[Line] = []
    for line in lines:
        if run and not _goes_down(run[-1], line):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _goes_down(before: Line, line: Line) -> bool:
    overlaps = line.left < before.right and line.right > before.left
    return overlaps and line.middle <= before.top


def _pitch(run: Sequence[Line]) -> float:
    """Return how far apart the lines of a run stand as a rule."""
    steps = [
        before.bottom - after.bottom
        for before, after in pairwise(run)
        if not _other_size(before, after)
    ]
    height = median(line.height for line in run)
    # Half of all gaps could be between paragraphs, so the rule is the lower half's.
    usual = median(sorted(steps)[: len(steps) // 2 + 1]) if steps else 0.0
    return max(usual, _NORMAL_PITCH * height * 0.8) if usual else _NORMAL_PITCH * height


def _usual_width(runs: Sequence[Sequence[Line]]) -> float:
    """Return how wide a line is when it is full, as most of the long runs have it."""
    widths = [
        max(line.right for line in run) - min(line.left for line in run)
        for run in runs
        if len(run) > _SHORT_RUN
    ]
    return median(widths) if widths else 0.0
