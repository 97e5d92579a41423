"""Paragraphs of a PDF, rebuilt from its lines.

A file of this kind knows no paragraphs. A line goes on with the one before unless something says
otherwise: a gap, another size, an indent after a full stop, a mark of a list, or that its first
word would have fitted on the line before. Where the last is all there is, and no sentence ended,
the line end stays: that is how tables, verses and titles look.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from truespan.ingest.load.pdf.join import joined, words_with_hyphen
from truespan.ingest.load.pdf.lines import Line
from truespan.model.text import PageStart

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


class Bond(Enum):
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
    bonds = [Bond.NEW]
    start, page = 0, 0
    for number in range(1, len(lines) + 1):
        bond = Bond.NEW
        if number in goes_on:
            bond = Bond.SAME
        elif number < len(lines) and number not in begins:
            bond = _bond(lines[start], lines[number - 1], lines[number])
        if bond is Bond.NEW:
            text, pages = _text(lines[start:number], bonds, page, with_hyphen)
            yield Paragraph(text, pages, start, _blank_lines(lines, start), _is_bulleted(text))
            start, page, bonds = number, lines[number - 1].page, []
        bonds.append(bond)


def _text(
    lines: Sequence[Placed], bonds: Sequence[Bond], page: int, with_hyphen: frozenset[str]
) -> tuple[str, tuple[PageStart, ...]]:
    """Return the text of a paragraph, and where pages begin in it; `page` is that before it."""
    parts: list[str] = []
    pages: list[PageStart] = []
    length = 0
    for place, bond in zip(lines, bonds, strict=True):
        text = place.line.text
        if parts:
            before, between = parts[-1], "\n"
            if bond is not Bond.LINE:
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


def _bond(first: Placed, before: Placed, here: Placed) -> Bond:
    """Say how a line belongs to a paragraph, given the first and the last line of that."""
    if _other_size(before.line, here.line) or _is_bulleted(here.line.text):
        return Bond.NEW
    if here.run != before.run:
        return _bond_across(before, here)
    height = here.line.height
    usual = max(here.pitch, _NORMAL_PITCH * height)
    if before.line.bottom - here.line.bottom > _WIDE_PITCH * usual:
        return Bond.NEW
    if _BROKEN_WORD.search(before.line.text) and here.line.text[:1].islower():
        return Bond.SAME
    if before.line.cells > 1 or here.line.cells > 1:
        return Bond.LINE
    ended = _ENDS.search(before.line.text) is not None
    indented = here.line.left - before.line.left > _INDENT * height
    if _ends_short(before, here.line):
        return Bond.NEW if ended or indented else Bond.LINE
    hanging = before.line.left - first.line.left > _INDENT * height
    back = abs(here.line.left - first.line.left) < _SLACK * height
    if (indented and ended) or (hanging and back):
        return Bond.NEW
    return Bond.SAME


def _bond_across(before: Placed, here: Placed) -> Bond:
    """Say how the first line of a column or page belongs to the last one of that before it."""
    if _ends_short(before, here.line) and not _BROKEN_WORD.search(before.line.text):
        return Bond.NEW
    ended = _ENDS.search(before.line.text) is not None
    goes_on = here.line.text[:1].islower() or not ended
    return Bond.SAME if goes_on else Bond.NEW


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
