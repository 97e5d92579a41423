"""Detection of running heads and page numbers, by lines that repeat from page to page.

A line is removed only if a gap separates it from the body of its page, its type is not larger, and
it is the same on most pages or contains the page number. A number is a page number if it is alone
on its line, follows a word such as "page", or is the label of the page and separated from the words
beside it. Other numbers that increase with the pages, such as years, are text.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from truespan.parsing.formats.pdf.lines import Line
from truespan.text.headings import letters_of, parse_roman

MIN_NUMBERED_PAGES, MIN_REPEATED_PAGES = 3, 4
MIN_SHARE = 0.6
"""Minimum share of all, odd or even pages that repeat a line without a number."""
MAX_HEAD_LINES = 2
MAX_CHARS = 120
_SAME_HEIGHT = 3.0
_LARGER = 1.12
_WIDE_STEP, _NORMAL_STEP = 1.4, 1.15
_YEARS = range(1500, 2101)
"""Numbers that are more likely years than page numbers, unless they are the page label."""

_MARKS = r"[\s\-–—―|·•~*<>\[\]_=]*"
_PAGE = r"\b(?:pages?|pg|p|seite|página|pág|pagina|pag|стр(?:аница)?)\b\.?\s*"
_TOTAL = r"(?:\s*(?:/|\bof\b|\bvon\b|\bde\b|\bdi\b|\bsur\b|\bиз\b)\s*(?P<total>\d{1,5}))?"
_LONE = re.compile(rf"(?i){_MARKS}(?P<page>{_PAGE})?(?P<number>\d{{1,5}}){_TOTAL}{_MARKS}")
_BESIDE_PAGE = re.compile(rf"(?i){_PAGE}(?P<number>\d{{1,5}})(?!\w)")
_ROMAN = re.compile(r"m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_SEPARATOR = re.compile(" [|·•–—] ")


class _Key(NamedTuple):
    """The repeating part of a line; a page number is `offset` more than the index of its page."""

    is_top: bool
    kind: Literal["same", "lone", "beside", "label"]
    words: str
    offset: int = 0


class _Candidate(NamedTuple):
    """A line at the edge of a page that may be a running head."""

    page: int
    line_index: int
    line: Line


def remove_running_heads(
    pages: Sequence[Sequence[Line]], labels: Sequence[str]
) -> tuple[list[list[Line]], list[str]]:
    """Return the pages without running heads and page numbers, and the removed lines."""
    # `labels` are the page labels, such as "iv" or "12". A head whose words no other line has is
    # kept once.
    usual = median([line.height for lines in pages for line in lines] or [0.0])
    titles = Counter(letters_of(line.text) for lines in pages for line in lines)
    groups: defaultdict[_Key, list[_Candidate]] = defaultdict(list)
    blocks: list[list[_Candidate]] = []
    for page, (lines, label) in enumerate(zip(pages, labels, strict=True)):
        edges = _find_edges(lines)
        rivals = _find_rivals([lines[i].text for _, block in edges for i in block], page, label)
        for is_top, block in edges:
            heads = [_Candidate(page, index, lines[index]) for index in block]
            if any(h.line.height > _LARGER * usual or len(h.line.text) > MAX_CHARS for h in heads):
                continue
            blocks.append(heads)
            for head in heads:
                for key in _read_keys(head, is_top, label, titles):
                    if key.kind != "lone" or head.line.text not in rivals:
                        groups[key].append(head)
    certain = _find_certain(groups, len(pages))
    # Remove all lines of a head or none, so that no line is removed from a paragraph.
    heads = [each for block in blocks if all(head in certain for head in block) for each in block]
    removed = {(head.page, head.line_index) for head in _without_first(heads, certain, titles)}
    kept = [
        [line for index, line in enumerate(lines) if (page, index) not in removed]
        for page, lines in enumerate(pages)
    ]
    return kept, [pages[page][index].text for page, index in sorted(removed)]


def _find_edges(lines: Sequence[Line]) -> list[tuple[bool, list[int]]]:
    """Return the lines at the top and bottom of a page that are separated by a gap."""
    order = sorted(range(len(lines)), key=lambda index: -lines[index].middle)
    steps = sorted(
        step for above, below in pairwise(lines) if (step := above.bottom - below.bottom) > 0
    )
    # The lower quartile, because many steps may be between paragraphs or at the edges.
    usual = steps[(len(steps) - 1) // 4] if steps else 0.0
    edges: list[tuple[bool, list[int]]] = []
    for is_top, inward in ((True, order), (False, order[::-1])):
        for count, (outer, inner) in enumerate(pairwise(inward[: MAX_HEAD_LINES + 1]), 1):
            step = abs(lines[outer].bottom - lines[inner].bottom)
            if step > _WIDE_STEP * max(usual, _NORMAL_STEP * lines[outer].height):
                edges.append((is_top, inward[:count]))
                break
    return edges


def _find_rivals(texts: Sequence[str], page: int, label: str) -> set[str]:
    """Return ambiguous numbers at the edges of a page."""
    # If there are several numbers, these are all but the page label, and the label too if it only
    # counts the pages of the file.
    numbers = {text: number for text in texts if (number := _lone_number(text, label)) is not None}
    if len(set(numbers.values())) < 2:
        return set()
    wanted = None if label == str(page + 1) else _read_number(label)
    return {text for text, number in numbers.items() if number != wanted}


def _read_keys(head: _Candidate, is_top: bool, label: str, titles: Counter[str]) -> Iterator[_Key]:
    """Yield the keys under which a line may repeat on other pages."""
    text, page = head.line.text, head.page
    yield _Key(is_top, "same", text)
    if (number := _lone_number(text, label)) is not None:
        lone = _LONE.fullmatch(text)
        yield _Key(is_top, "lone", (lone["total"] or "") if lone else "", number - page)
    elif found := _BESIDE_PAGE.search(text):
        words = text[: found.start("number")] + text[found.end("number") :]
        yield _Key(is_top, "beside", words, int(found["number"]) - page)
    else:
        for words, is_apart in _split_label(head.line, label):
            # Numbers of titles often equal the page number by chance.
            if is_apart or label != str(page + 1) or titles[letters_of(words)]:
                yield _Key(is_top, "label", words)


def _split_label(line: Line, label: str) -> Iterator[tuple[str, bool]]:
    """Yield the words beside a page label, and whether a gap or a mark separates them."""
    wanted = _read_number(label)
    parts = list(line.pieces) if line.cells > 1 else _SEPARATOR.split(line.text)
    is_apart = len(parts) > 1
    parts = parts if is_apart else line.text.split()
    if wanted is None or len(parts) < 2:
        return
    if _lone_number(parts[0], label) == wanted:
        yield " ".join(parts[1:]), is_apart
    if _lone_number(parts[-1], label) == wanted:
        yield " ".join(parts[:-1]), is_apart


def _find_certain(
    groups: Mapping[_Key, Sequence[_Candidate]], total: int
) -> dict[_Candidate, str | None]:
    """Return the running heads with their words; None for a page number alone."""
    certain: dict[_Candidate, str | None] = {}
    for key, heads in groups.items():
        usual = median(head.line.bottom for head in heads)
        level = [head for head in heads if abs(head.line.bottom - usual) <= _SAME_HEIGHT]
        count, odd = len(level), sum(head.page % 2 for head in level)
        shares = count / total, odd / max(total // 2, 1), (count - odd) / ((total + 1) // 2)
        if key.kind == "same":
            is_certain = count >= MIN_REPEATED_PAGES and max(shares) >= MIN_SHARE
        else:
            is_certain = count >= MIN_NUMBERED_PAGES
        words = None if key.kind == "lone" else letters_of(key.words) or key.words
        certain.update(dict.fromkeys(level if is_certain else (), words))
    return certain


def _without_first(
    heads: Sequence[_Candidate], certain: Mapping[_Candidate, str | None], titles: Counter[str]
) -> Iterator[_Candidate]:
    """Yield the lines to remove: page numbers and heads."""
    # The first head is kept if its words are on no other line, so that no words are lost.
    by_words: defaultdict[str | None, list[_Candidate]] = defaultdict(list)
    for head in heads:
        by_words[certain[head]].append(head)
    for words, group in by_words.items():
        own = sum(letters_of(head.line.text) == words for head in group)
        elsewhere = words is None or titles[words] > own
        yield from group if elsewhere else group[1:]


def _lone_number(text: str, label: str) -> int | None:
    """Return the page number that a line consists of; None if it is something else."""
    if (found := _LONE.fullmatch(text)) is None:
        return _roman_number(text)
    number, total = int(found["number"]), int(found["total"] or "99999")
    is_year = number in _YEARS and not found["page"] and found["number"] != label
    return None if is_year or number > total else number


def _read_number(label: str) -> int | None:
    return int(label) if label.isdecimal() else _roman_number(label.lower())


def _roman_number(text: str) -> int | None:
    """Return the value of lower-case Roman digits; capitals number chapters."""
    digits = text.strip("- ")
    # The pattern also matches an empty text, as of a line of hyphens.
    return parse_roman(digits) if _ROMAN.fullmatch(digits) else None
