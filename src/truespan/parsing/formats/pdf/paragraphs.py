"""Paragraphs of a PDF, rebuilt from its lines.

A PDF file has no paragraphs. A line continues the previous line unless there is a gap, another font
size, an indent after a full stop, or a list marker, or unless its first word would have fitted on
the previous line. If only the last is true and no sentence ended, the line break is kept, as in
tables, verses and titles.

Whether a hyphen at the end of a line is part of the word is decided by the other occurrences of the
word in the document. Words that occur only once are looked up in `words/english_words.txt`, a list
of 21,000 frequent English words.
"""

from __future__ import annotations

import re
from bisect import insort
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple, Self

from truespan.parsing.formats.pdf.lines import Line
from truespan.parsing.formats.text import Paragraph
from truespan.types.text import PageStart
from truespan.words.english import common_words

UNCLEAR = 0.95
"""Minimum confidence of clear text; recognised text with less is unclear."""
_WIDE_PITCH = 1.4
_OTHER_SIZE = 0.12
_INDENT = 0.7
_SLACK = 0.4
_SHORT_RUN = 3
_NORMAL_PITCH = 1.15
_TOP = 3
"""Number of blank lines assumed at the top of a page or column, and their maximum."""
_ENDS = re.compile(r"[.!?:…。！？][\"'”’»)\]]*$")
_BROKEN_WORD = re.compile(r"[^\W\d_][\u2010-]$")
_BULLET = re.compile(r"[•◦▪‣●○■□◆➢⁃∙](?:\s|$)")


_Relation = Literal["same", "line", "new"]
"""Relation of a line to the previous one: same paragraph, same with a line break, or new."""
_HYPHENS = "\u2010-"
_BROKEN = re.compile(rf"(?P<before>[\w’'{_HYPHENS}]*\w)[{_HYPHENS}]$")
_FIRST_PART = re.compile(r"[^\W_]+")
# Possessive and anchored at the start of a word; otherwise a long word is tried at each letter.
_TOKEN = re.compile(r"(?<![^\W\d_])[^\W\d_]++(?:-[^\W\d_]++)?+")
_KEEPS_HYPHEN = frozenset({"all", "ex", "half", "ill", "quasi", "self", "so", "vice", "well"})
_SUFFIXES = frozenset(
    {"able", "ally", "est", "ful", "ing", "ish", "less", "ling", "ment", "ness", "ship", "some",
     "ted", "ting", "tion", "ward", "wards"}
)  # fmt: skip
"""Suffixes that are also in the word list."""
_PREFIXES = frozenset(
    {"con", "counter", "dis", "fore", "inter", "mis", "out", "over", "per", "sub", "super", "trans",
     "under"}
)  # fmt: skip
"""Prefixes that are also words; they are usually joined to the following part."""
_INFLECTED = ("s", "es", "d", "ed", "ing", "ly")
_MUCH_MORE_OFTEN = 20
_MIN_PART, _MIN_NAME_PART = 3, 4
_ENGLISH = ("the", "of", "and", "to")
_ENGLISH_SHARE = 0.04
_UNSPACED = re.compile(
    "[\u2e80-\u2fdf\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60]"
)


class Placed(NamedTuple):
    """A line with the margins and line spacing of its run of lines."""

    line: Line
    page: int
    run: int
    left: float
    right: float
    pitch: float


def place_lines(pages: Sequence[Sequence[Line]]) -> list[Placed]:
    """Return the lines of all pages with the margins of their runs."""
    runs = [(page, run) for page, lines in enumerate(pages, 1) for run in _split_runs(lines)]
    # Widths of the long runs so far; later pages must not affect paragraphs.
    widths: list[float] = []
    result: list[Placed] = []
    for number, (page, run) in enumerate(runs):
        left, right = min(line.left for line in run), max(line.right for line in run)
        if len(run) > _SHORT_RUN:
            insort(widths, right - left)
        elif len(run) < _SHORT_RUN and widths:
            # Assume the median width for a short run.
            right = max(right, left + widths[len(widths) // 2])
        steps = sorted(
            before.bottom - after.bottom
            for before, after in pairwise(run)
            if not _other_size(before, after)
        )
        pitch = normal = _NORMAL_PITCH * median(line.height for line in run)
        # Up to half of the gaps may be between paragraphs, so only the lower half counts.
        if steps and (step := median(steps[: len(steps) // 2 + 1])):
            pitch = max(step, normal * 0.8)
        result.extend(
            Placed(line=line, page=page, run=number, left=left, right=right, pitch=pitch)
            for line in run
        )
    return result


def join_paragraphs(
    lines: Sequence[Placed], starts: Container[int], continued: Container[int]
) -> Iterator[Paragraph]:
    """Yield paragraphs; lines in `starts` always begin one, and lines in `continued` never do."""
    spelling = Spelling.of_lines(line.line.text for line in lines)
    relations: list[_Relation] = ["new"]
    start, page = 0, PageStart(0, 0)
    for number in range(1, len(lines) + 1):
        relation: _Relation = "new"
        if number in continued:
            relation = "same"
        elif number < len(lines) and number not in starts:
            relation = _relate(lines[start], lines[number - 1], lines[number])
        if relation == "new":
            text, pages = _join_text(lines[start:number], relations, page, spelling)
            current, blank_lines = lines[start], _TOP
            if start and lines[start - 1].run == current.run and current.pitch > 0:
                drop = (lines[start - 1].line.bottom - current.line.bottom) / current.pitch
                blank_lines = max(0, min(round(drop) - 1, _TOP))
            yield Paragraph(text, blank_lines, pages, start, _BULLET.match(text) is not None)
            start, page, relations = number, pages[-1] if pages else page, []
        relations.append(relation)


def _join_text(
    lines: Sequence[Placed], relations: Sequence[_Relation], page: PageStart, spelling: Spelling
) -> tuple[str, tuple[PageStart, ...]]:
    """Return the text of a paragraph and the pages that start in it; `page` is the page before it.

    Recognised text is on a scanned page, or on an unclear page if its confidence is low.
    """
    recognised = [
        (line.line.confidence, len(line.line.text))
        for line in lines
        if line.line.confidence is not None
    ]
    mean = sum(c * size for c, size in recognised) / sum(size for _, size in recognised or [(0, 1)])
    kind = "unclear page" if mean < UNCLEAR else "scanned page"
    parts: list[str] = []
    pages: list[PageStart] = []
    length = 0
    for line, relation in zip(lines, relations, strict=True):
        text = line.line.text
        if parts:
            before, separator = parts[-1], "\n"
            if relation != "line":
                before, separator = join_lines(parts[-1], text, spelling)
            length += len(before) - len(parts[-1]) + len(separator)
            parts[-1] = before + separator
        current = PageStart(length, line.page, "page" if line.line.confidence is None else kind)
        if current[1:] != page[1:]:
            page = current
            pages.append(page)
        parts.append(text)
        length += len(text)
    return "".join(parts), tuple(pages)


def _relate(first: Placed, before: Placed, current: Placed) -> _Relation:
    """Return the relation of a line to a paragraph with this first and last line."""
    if _other_size(before.line, current.line) or _BULLET.match(current.line.text):
        return "new"
    ended = _ENDS.search(before.line.text) is not None
    # The first word of this line would have fitted on the previous line.
    room = before.right - before.line.right
    short = room > current.line.first_width + _SLACK * before.line.height
    broken_word = _BROKEN_WORD.search(before.line.text) is not None
    lower_case = current.line.text[:1].islower()
    if current.run != before.run:
        # Moving down and to the left leads to the next row of a table.
        next_row = current.line.right <= before.left and current.line.middle < before.line.middle
        if current.page == before.page and next_row:
            # A lone bracket closes the indented lines above it.
            return "new" if any(map(str.isalnum, current.line.text)) else "line"
        if short and not broken_word:
            return "new"
        return "same" if lower_case or not ended else "new"
    height = current.line.height
    usual = max(current.pitch, _NORMAL_PITCH * height)
    if before.line.bottom - current.line.bottom > _WIDE_PITCH * usual:
        return "new"
    if broken_word and lower_case:
        return "same"
    if before.line.cells > 1 or current.line.cells > 1:
        return "line"
    indented = current.line.left - before.line.left > _INDENT * height
    if short:
        return "new" if ended or indented else "line"
    hanging = before.line.left - first.line.left > _INDENT * height
    back = abs(current.line.left - first.line.left) < _SLACK * height
    if (indented and ended) or (hanging and back):
        return "new"
    return "same"


def _other_size(line: Line, other: Line) -> bool:
    return abs(line.height - other.height) > _OTHER_SIZE * max(line.height, other.height)


def _split_runs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield runs of lines that are below each other."""
    run: list[Line] = []
    for line in lines:
        before = run[-1] if run else line
        overlaps = line.left < before.right and line.right > before.left
        if run and not (overlaps and line.middle <= before.top):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


class Spelling:
    """Spelling of words within the lines of a document: `words` counts them with hyphens."""

    def __init__(self, words: Counter[str]) -> None:
        self._words = words
        english = sum(words[word] for word in _ENGLISH)
        self._is_english = english >= _ENGLISH_SHARE * words.total()

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> Self:
        """Count the words of a document, except words broken at a line end."""
        words: Counter[str] = Counter()
        broken = False
        for line in lines:
            plain = line.casefold().replace("\u2010", "-")
            tokens = _TOKEN.findall(plain)
            first = 1 if broken else 0
            broken = plain.endswith("-")
            words.update(tokens[first : len(tokens) - broken])
        return cls(words)

    def joins(self, first: str, second: str) -> bool:
        """Return whether a word is spelled without a hyphen between these two parts."""
        # Of a word with other hyphens ("user-de-" and "fined"), only the last part can be broken.
        _, other_hyphen, last = first.replace("\u2010", "-").rpartition("-")
        parts = (last.casefold(), second.casefold())
        whole = "".join(parts)
        if hyphenated := self._words["-".join(parts)]:
            return self._words[whole] > _MUCH_MORE_OFTEN * hyphenated
        # Two words that do not form a known word, as in "comma-separated". Only for English, since
        # other languages join words without a hyphen.
        shortest = _MIN_NAME_PART if last.istitle() else _MIN_PART
        is_compound = (
            self._is_english
            and min(map(len, parts)) >= shortest
            and parts[0] not in _PREFIXES
            and parts[1] not in _SUFFIXES
            and all(self._knows(part) for part in parts)
        )
        stems = (whole, *(whole.removesuffix(ending) for ending in _INFLECTED))
        if any(self._knows(stem) for stem in stems if len(stem) > len(parts[0])):
            return not (is_compound and other_hyphen)
        return not (is_compound or other_hyphen or parts[0] in _KEEPS_HYPHEN)

    def _knows(self, word: str) -> bool:
        return word in self._words or word in common_words()


def join_lines(before: str, after: str, spelling: Spelling) -> tuple[str, str]:
    """Return the text before a line break without a hyphen of the break, and the separator."""
    if not before:
        return before, ""
    broken = _BROKEN.search(before, max(0, len(before) - 100))
    following = _FIRST_PART.match(after)
    if not broken or not following:
        unspaced = _UNSPACED.match(before[-1]) and _UNSPACED.match(after)
        return before, "" if unspaced else " "
    first, second = broken["before"], following[0]
    capitals = first.isupper() and second.isupper()
    is_broken_word = (
        len(first) >= 2
        and first[-1].isalpha()
        and second[0].isalpha()
        and (capitals or not second[0].isupper())
        and spelling.joins(first, second)
    )
    return (before[:-1] if is_broken_word else before), ""


def describe_recognised(pages: Sequence[Sequence[Line]]) -> Iterator[str]:
    """Yield sentences on the number of recognised pages and the confidence."""
    found = [
        [(line.confidence, len(line.text)) for line in lines if line.confidence is not None]
        for lines in pages
    ]
    recognised = [number for number, lines in enumerate(found, 1) if lines]
    if not recognised:
        return
    weights = [pair for lines in found for pair in lines]
    mean = sum(value * count for value, count in weights) / sum(count for _, count in weights)
    yield (
        f"{len(recognised)} of {len(pages)} pages were read by text recognition, "
        f"with a mean confidence of {mean:.2f}."
    )
    unclear = sum(value < UNCLEAR for value, _ in weights)
    if unclear:
        on = [n for n, lines in enumerate(found, 1) if any(value < UNCLEAR for value, _ in lines)]
        listed = ", ".join(map(str, on[:10])) + (", ..." if len(on) > 10 else "")
        yield (
            f"{unclear} of {len(weights)} recognised lines are unclear "
            f"(confidence below {UNCLEAR}), on pages {listed}."
        )
