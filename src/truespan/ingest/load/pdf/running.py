"""Running heads: what stands at the edge of page after page, and is no part of the text.

A line is one only if that is certain. It is the highest or the lowest of its page, and on other
pages the same words stand at the same height there: on three, if a number in it grows with the
pages; without one, on four that are most of all pages, or of the left or right ones. The words may
differ where a number at their end or beginning grows with most of the pages. The first of several
with the same words is kept unless those words also stand elsewhere, so nothing is lost. Page
numbers alone are dropped: the pages are counted anyway.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from truespan.ingest.load.pdf.lines import Line

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
