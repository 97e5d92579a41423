"""Find the sources that an answer cites by number: `[1]`, `[1, 3]`, `[1][2]`, `[1-3]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from truespan.core.records import copy_fields
from truespan.types.answer import Citation
from truespan.types.bundle import Notice
from truespan.types.trust import Visible

MAX_UNKNOWN = 20
"""Maximum number of reported numbers without a source."""

MAX_SHOWN = 10**15 - 1
"""Greatest number to report; every JSON reader can represent it."""

_DASH = "[-\u2010-\u2015]"
_MINUS = "[-\u2212]"
_GAP = r"\s{0,9}+"
"""White space, bounded and possessive: otherwise a list without its closing bracket would take
quadratic time."""
_NUMBERS = (
    rf"(?:sources?\b:?{_GAP})?[\^#\u2116]?{_GAP}{_MINUS}?\d++"
    rf"(?:{_GAP}{_DASH}{_GAP}\d++)?"
)
_AND = rf"{_GAP}(?:[,;/&+]{_GAP}(?:and\b)?|\band\b){_GAP}"
OPENERS, CLOSERS = "[\u3010\uff3b", "]\u3011\uff3d"
GROUP = re.compile(
    rf"\\?[{re.escape(OPENERS)}]{_GAP}({_NUMBERS}(?:{_AND}{_NUMBERS})*)"
    rf"(?:{_GAP}[.:])?{_GAP}\\?[{re.escape(CLOSERS)}]",
    re.IGNORECASE,
)
"""Numbers in brackets, also as some models write them: `[#1]`, `[1 and 2]`, full-width ones."""
_RANGE = re.compile(rf"({_MINUS}?)(\d+)(?:\s*{_DASH}\s*(\d+))?")


class Citations(Struct, frozen=True):
    """The citations of an answer in order of first use, and warnings about them."""

    found: tuple[Citation, ...]
    warnings: tuple[Notice, ...]


def find_citations(
    answer: str, sources: Sequence[Visible], literal: Sequence[tuple[int, int]] = ()
) -> Citations:
    """Return the sources that an answer cites; number 1 is the first of `sources`.

    The `literal` spans are quoted words of a source: numbers in brackets there are not citations.
    """
    order: dict[int, None] = {}
    spans = sorted(literal, reverse=True)
    literal_end = -1
    for group in GROUP.finditer(answer):
        # Some span contains the group if one of those that begin before it ends after it.
        while spans and spans[-1][0] <= group.start():
            literal_end = max(literal_end, spans.pop()[1])
        if group.end() > literal_end:
            order |= dict.fromkeys(citation_numbers(group[1], len(sources)))
    unknown = [number for number in order if not 1 <= number <= len(sources)]
    dropped = set(unknown[MAX_UNKNOWN:])
    found = tuple(citation(number, sources) for number in order if number not in dropped)
    shown = ", ".join(f"[{number}]" for number in unknown[:MAX_UNKNOWN])
    warning = Notice("unknown_citation", f"The answer cites {shown}; there is no such source.")
    return Citations(found, (warning,) if unknown else ())


def citation(number: int, sources: Sequence[Visible]) -> Citation:
    """Return the citation of a source by its number; without a source, only the number."""
    if not 1 <= number <= len(sources):
        return Citation(number)
    source = sources[number - 1]
    return copy_fields(Citation, source, number=number)


def citation_numbers(group: str, known: int) -> Iterable[int]:
    """Yield the numbers of a group, with both ends of a range and the sources between them."""
    for found in _RANGE.finditer(group):
        first = -_number(found[2]) if found[1] else _number(found[2])
        last = _number(found[3]) if found[3] else first
        within = range(max(min(first, last), 1), min(max(first, last), known) + 1)
        yield from sorted({first, last, *within})


def _number(digits: str) -> int:
    """Return the value of digits, at most `MAX_SHOWN`."""
    return int(digits) if len(digits) <= len(str(MAX_SHOWN)) else MAX_SHOWN
