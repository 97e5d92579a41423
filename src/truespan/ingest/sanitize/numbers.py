"""Numbers with check digits: payment cards, national identity numbers, IBANs.

A text is looked through once, from one number to the next. What follows a number in groups is read
only as long as some known shape begins that way, so a long column of numbers costs a few steps for
each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from string import ascii_letters, digits
from typing import NamedTuple

from truespan.ingest.sanitize.audit import CREDIT_CARD, IBAN, NATIONAL_ID, Finding
from truespan.ingest.sanitize.fold import before, lowered
from truespan.ingest.sanitize.national_ids import DISTINCTIVE, INTRODUCED
from truespan.ingest.sanitize.validators import Check, card, iban

CONTEXT = 48
"""How far before a number the word may stand that it needs."""

_ALNUM = frozenset(ascii_letters + digits)
_SIGNS = str.maketrans(digits + ascii_letters, "9" * 10 + "A" * 52)
_GAPS = {" ": " ", "\n": " ", "-": "-", ".": ".", "/": "/"}
_LEADING = 6
"""The most letters that a known shape begins with."""
_START = re.compile("[0-9][0-9A-Za-z]{0,18}(?![0-9A-Za-z])")
_GROUP = re.compile("[0-9A-Za-z]{1,18}(?![0-9A-Za-z])")
_OTHER_NUMBER = re.compile(
    r"(?<![a-z])(?:isbn|issn|ismn|ean|gtin|upc|doi|asin|imei|sku)(?:-?1[03])?[ :#.]{0,3}$",
    re.IGNORECASE,
)


class _Kind(NamedTuple):
    label: str
    rule: str
    check: Check
    words: tuple[str, ...]
    whole: bool
    edges: str
    """What joins a number to the digit beyond it, so that both are parts of something else."""


_CARD = _Kind(CREDIT_CARD, "credit_card", card, (), False, ".")
_CARD_SHAPES = (
    *("9" * length for length in range(14, 20)),
    *(
        gap.join("9" * size for size in sizes)
        for gap in " -"
        for sizes in ((4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4))
    ),
)


@cache
def _shapes() -> dict[str, tuple[_Kind, ...]]:
    """Return the kinds of each shape; the beginnings of shapes are there as well, without any."""
    kinds: dict[str, list[_Kind]] = {shape: [_CARD] for shape in _CARD_SHAPES}
    for number in (*DISTINCTIVE, *INTRODUCED):
        kind = _Kind(
            NATIONAL_ID,
            f"national_id.{number.name}",
            number.check,
            number.words,
            number.whole,
            ".-/",
        )
        for shape in number.shapes:
            kinds.setdefault(shape, []).append(kind)
    for shape in tuple(kinds):
        for gap in re.finditer("[^9A]", shape):
            kinds.setdefault(shape[: gap.start()], [])
    return {shape: tuple(found) for shape, found in kinds.items()}


def scan_numbers(view: str) -> Iterator[Finding]:
    """Give the cards and identity numbers of a text, overlapping ones too."""
    shapes = _shapes()
    for found in _START.finditer(view):
        for start in _starts(view, found.start()):
            yield from _walk(view, start, shapes)


def _starts(view: str, start: int) -> Iterator[int]:
    """Give where a number with this first digit may begin: letters can stand before it."""
    first = start
    while first and start - first <= _LEADING and view[first - 1] in ascii_letters:
        first -= 1
    if first and (view[first - 1] in _ALNUM or view[first - 1] == "_"):
        return
    yield first
    # The Spanish number of foreigners may have a dash after its letter.
    if first > 1 and view[first - 1] == "-" and view[first - 2] in "XYZxyz":
        yield first - 2


def _walk(view: str, start: int, shapes: dict[str, tuple[_Kind, ...]]) -> Iterator[Finding]:
    """Read groups from `start` on while they begin a known shape, and check each whole shape."""
    shape, at, lines = "", start, 0
    while group := _GROUP.match(view, at):
        shape += group[0].translate(_SIGNS)
        kinds = shapes.get(shape)
        if kinds is None:
            return
        for kind in kinds:
            if _holds(view, start, group.end(), kind):
                yield Finding(start, group.end(), kind.label, kind.rule)
                break
        gap = view[group.end() : group.end() + 1]
        lines += gap == "\n"
        # A number may be broken at the end of one line. At the end of each, it is a column.
        if gap not in _GAPS or lines > 1:
            return
        shape += _GAPS[gap]
        at = group.end() + 1


def _holds(view: str, start: int, end: int, kind: _Kind) -> bool:
    """Say whether what has the shape of a number is one; what is quickly told is asked first."""
    if _goes_on(view, start - 1, -1, kind.edges) or _goes_on(view, end, 1, kind.edges):
        return False
    context = before(view, start, CONTEXT)
    if kind.words and not _names(lowered(context), kind.words):
        return False
    value = view[start:end] if kind.whole else _compact(view[start:end])
    # One digit all along passes many checks, and is a number that somebody made up.
    return len(set(value)) > 1 and kind.check(value) and not _OTHER_NUMBER.search(context)


def _compact(value: str) -> str:
    return "".join(filter(_ALNUM.__contains__, value)).upper()


def _goes_on(view: str, at: int, step: int, edges: str) -> bool:
    """Say whether the character at `at` joins the number to another one."""
    if not 0 <= at < len(view):
        return False
    beyond = at + step
    joined = view[at] in edges and 0 <= beyond < len(view) and view[beyond] in digits
    return view[at] == "_" or joined


def _names(context: str, words: tuple[str, ...]) -> bool:
    """Say whether one of the words stands in a context, not as the end of a longer one."""
    return any(
        word in context and re.search(rf"(?<!\w){re.escape(word)}", context) for word in words
    )


# IBANs

# Patterns that begin with a digit run fast over prose, so what stands before is asked for after it.
_IBAN_START = re.compile("[0-9](?<=[A-Za-z]{2}[0-9])[0-9](?=[ -]?[0-9A-Za-z])")


def scan_ibans(view: str) -> Iterator[Finding]:
    """Give the IBANs of a text. How long one is follows from its country."""
    for found in _IBAN_START.finditer(view):
        start = found.start() - 2
        if start and (view[start - 1] in _ALNUM or view[start - 1] == "_"):
            continue
        length = _iban_length(view[start : start + 2].upper())
        end = _take(view, start, length) if length else 0
        if end and iban(view[start:end]):
            yield Finding(start, end, IBAN, "iban")


@cache
def _iban_length(country: str) -> int:
    """Return how many letters and digits an IBAN of a country has; 0 if it has none."""
    from stdnum import numdb

    (_, properties), *_ = numdb.get("iban").info(country)
    return 4 + sum(map(int, re.findall(r"\d+", properties["bban"]))) if properties else 0


def _take(view: str, start: int, length: int) -> int:
    """Return where `length` letters and digits end that single gaps may divide; else 0.

    Gaps are spaces or dashes, and one of them may be the end of a line.
    """
    at, lines = start, 0
    for _ in range(length):
        if view[at : at + 1] in (" ", "-", "\n"):
            lines += view[at] == "\n"
            at += 1
        if view[at : at + 1] not in _ALNUM or lines > 1:
            return 0
        at += 1
    return 0 if view[at : at + 1] in _ALNUM else at
