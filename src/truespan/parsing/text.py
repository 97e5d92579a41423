"""Plain text: one block a paragraph, kept as it is, with the chapters that its headings tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from truespan.parsing.headings import Outline, is_contents, recognise, title_like
from truespan.types.text import Block, BlockKind, Loaded

_GAP = re.compile(r"\n(?:[^\S\n]*\n)+")


def load_text(text: str) -> Loaded:
    """Return the paragraphs of `text`, which are what blank lines divide."""
    return Loaded(tuple(_blocks(text)))


def _blocks(text: str) -> Iterator[Block]:
    outline = Outline()
    paragraphs = list(_paragraphs(text))
    place = 0
    while place < len(paragraphs):
        paragraph, blank_lines = paragraphs[place]
        place += 1
        heading = outline.enter(paragraph, blank_lines=blank_lines)
        if heading and heading.bare and place < len(paragraphs):
            title, _ = paragraphs[place]
            if title_like(title) and not recognise(title) and not is_contents(title):
                outline.add_title(title)
                paragraph, place = f"{paragraph}\n\n{title}", place + 1
        kind = BlockKind.HEADING if heading else BlockKind.PARAGRAPH
        yield Block(kind, paragraph, outline.chapter, outline.section)


def _paragraphs(text: str) -> Iterator[tuple[str, int]]:
    """Give each paragraph with the number of blank lines before it."""
    start, blank_lines = 0, 0
    for gap in _GAP.finditer(text):
        if text[start : gap.start()].strip():
            yield text[start : gap.start()], blank_lines
        start, blank_lines = gap.end(), gap[0].count("\n") - 1
    if text[start:].strip():
        yield text[start:], blank_lines
