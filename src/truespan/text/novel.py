"""Detection of novels in plain text: numbered chapters of prose with direct speech.

Only the text up to the third chapter is examined, so later text does not matter. In doubt a text is
not a novel: manuals, laws and papers have numbered chapters too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from truespan.text.headings import parse_heading
from truespan.types.text import Block, BlockKind

CHAPTERS = 3
"""The text is judged once this many chapters have begun."""
MIN_CHAPTER_CHARS = 1_500
MIN_SPEECH = 1 / 4_000
"""Minimum number of spoken sentences for each character."""
MAX_DIGITS = 1 / 200
MAX_ITEMS = 0.03
"""Maximum share of paragraphs that are list items, numbered sections or table rows."""

_SPEECH = re.compile(
    r"""[^\s\d"“”«»][,.!?…—–][”"»’“](?=\s|$|[—–])|(?m:^[ \t]*[—–―]\s?[A-ZÀ-Þ«¡¿])"""
)
"""The end of something said, or a line that a dash begins, as other languages have it."""
_ITEM = re.compile(
    r"\s*(?:[-*+•‣◦▪]\s|\(?(?:[0-9]{1,3}|[a-zA-Z])[.)]\s|\(?[ivxlc]{1,6}\)|[0-9]+(?:\.[0-9]+)+"
    r"|§|(?i:art(?:icle|ikel|\.)|section|sec\.|rule|clause|figure|table|step|note)\s+[0-9IVX])"
)
_TABLE = re.compile(r"\S(?: {3,}|\t+)\S.*\S(?: {3,}|\t+)\S|[|]")
_FIRST_NUMBERS = {"one": 1, "first": 1, "two": 2, "second": 2, "three": 3, "third": 3}


class Likeness(StrEnum):
    """Likeness of a text to a novel."""

    NOVEL = "novel"
    CHAPTERS = "chapters"
    """Numbered chapters of prose, without signs of a story."""
    OTHER = "other"


def classify(blocks: Sequence[Block]) -> Likeness:
    """Return whether the blocks of a plain text are a novel."""
    chapters = _first_chapters(blocks)
    sizes = [sum(map(len, chapter)) for chapter in chapters]
    if not sizes or min(sizes) < MIN_CHAPTER_CHARS:
        return Likeness.OTHER
    paragraphs = [paragraph for chapter in chapters for paragraph in chapter]
    text = "\n\n".join(paragraphs)
    items = sum(bool(_ITEM.match(each) or _TABLE.search(each)) for each in paragraphs)
    digits = sum(char.isdigit() for char in text)
    speech = sum(1 for _ in _SPEECH.finditer(text))
    if items > MAX_ITEMS * len(paragraphs) or digits > MAX_DIGITS * len(text):
        return Likeness.OTHER
    return Likeness.NOVEL if speech >= MIN_SPEECH * len(text) else Likeness.CHAPTERS


def _first_chapters(blocks: Iterable[Block]) -> list[list[str]]:
    """Return the paragraphs before the third chapter; none unless chapters count consecutively."""
    chapters: list[list[str]] = []
    last, restarts = 0, False
    for block in blocks:
        is_heading = block.kind is BlockKind.HEADING
        # A title may follow the number after a blank line.
        found = parse_heading(block.text.partition("\n\n")[0]) if is_heading else None
        if found is None or found.rank == "named":
            if chapters and not block.is_contents:
                chapters[-1].append(block.text)
        elif found.rank == "part":
            restarts = True
        else:
            number = found.number
            if isinstance(number, str):
                number = _FIRST_NUMBERS.get(number, 0)
            if number != last + 1 and not (restarts and number == 1):
                return []
            if len(chapters) == CHAPTERS - 1:
                return chapters
            chapters.append([])
            last, restarts = number, False
    return []
