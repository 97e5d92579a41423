"""Tables in canonical text, and the same tables as Markdown.

A row is a line, with a bar between spaces after each cell but the last. A blank line ends a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

BAR = re.compile(r"(?<!\S)\|(?!\S)")
"""Separator between two cells of a row."""
_PARAGRAPH = "\n\n"
_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")


_INDENTED = re.compile(r"\s++(?!\|)|\Z")
"""Start of a blank line, or of one with spaces that are not those of an empty first cell."""
_CODE = re.compile(r"[{};:,(\\]$|^[$#>@] |(?:^|\s)(?:[-+*/=!<>]?=|->|=>|\|\||&&)(?:\s|$)")
"""Marks of source code lines that are rare in tables."""


def format_tables(text: str) -> str:
    """Return a text with its tables in Markdown; nothing else changes.

    Consecutive parts of a table are joined, with one header. The first row becomes the header,
    since Markdown has no table without one.
    """
    if "|" not in text:
        return text
    blocks: list[str | list[str]] = []
    part: list[str] = []
    """The lines of the paragraph before, if it is a table."""
    for paragraph in text.split(_PARAGRAPH):
        lines = paragraph.split("\n")
        if not is_table(lines):
            blocks.append(paragraph)
            part = []
            continue
        same = takewhile(lambda pair: pair[0] == pair[1], zip(part, lines, strict=False))
        header = sum(1 for _ in same)
        if part and blocks and isinstance(blocks[-1], list) and 0 < header < len(lines):
            blocks[-1] += lines[header:]
        else:
            blocks.append(lines)
        part = lines
    return _PARAGRAPH.join(
        block if isinstance(block, str) else _format_table(block) for block in blocks
    )


def added_tokens(text: str) -> int:
    """Return the maximum number of tokens that Markdown tables add to a text."""
    if "|" not in text:
        return 0
    formatted = format_tables(text)
    return max(sum(formatted.count(sign) - text.count(sign) for sign in "|-\\"), 0)


def added_characters(text: str) -> int:
    """Return the number of characters that Markdown tables add to a text."""
    return max(len(format_tables(text)) - len(text), 0)


def unformat_rows(text: str) -> str:
    """Return rows of a Markdown table in the form of canonical text."""
    rows = (line.strip() for line in text.split("\n"))
    return "\n".join(
        row.removeprefix("|").removesuffix("|").strip().replace("\\|", "|")
        for row in rows
        if not _RULE.fullmatch(row)
    )


def drop_empty_cells(text: str) -> str:
    """Return rows in canonical text without the empty cells at their ends."""
    return "\n".join(line.rstrip("| \t") for line in text.split("\n"))


def is_table(lines: Sequence[str]) -> bool:
    """Return whether lines are a table: most have several cells and do not look like code."""
    if len(lines) < 2 or any(_INDENTED.match(line) for line in lines):
        return False
    if all(line.startswith("|") and line.rstrip().endswith("|") for line in lines):
        # Already Markdown.
        return False
    if sum(bool(_CODE.search(line)) for line in lines) * 2 > len(lines):
        return False
    return sum(bool(BAR.search(line)) for line in lines) * 2 > len(lines)


def _format_table(lines: Sequence[str]) -> str:
    first = next(place for place, line in enumerate(lines) if BAR.search(line))
    rows = [
        [cell.strip().replace("|", "\\|") for cell in BAR.split(line)] for line in lines[first:]
    ]
    width = max(map(len, rows))
    shown = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
    shown.insert(1, "|" + "---|" * width)
    # A title above the columns, as in the first row of a spreadsheet, is not part of the table.
    titles = [*lines[:first], ""] if first else []
    return "\n".join([*titles, *shown])
