"""From blocks to canonical text, with the offsets of chapters, blocks, pages and figures."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.text.clean import clean
from truespan.types.text import (
    NO_PLACE,
    Block,
    BlockKind,
    CanonicalText,
    FigureSpot,
    PageStart,
    Place,
    is_unit,
)

_BETWEEN = "\n\n"
_ROW_END = re.compile("\n+")

Marker = Callable[[int], str]
"""Returns the placeholder of a figure by its number, from 1 in reading order."""


_MAX_PART_LENGTH = 700
"""Maximum length of a part of a table, unless one row is longer."""
_MAX_HEADER_LENGTH = 300


def assemble(
    blocks: Sequence[Block], marker: Marker | None = None, *, divide_tables: bool = False
) -> CanonicalText:
    """Join blocks into one text with a blank line between them.

    Consecutive lines of a program stay consecutive across blocks. Blank lines at both ends of a
    block are removed; the indentation of its first line stays, because code needs it. Blocks
    without text are dropped. With a `marker`, figures get a placeholder in the text; without one,
    only their offsets are recorded.

    With `divide_tables`, a long table is split into parts of whole rows with a blank line between
    them. Each part begins with the header rows, as a printed table does on each page.

    Lists of contents follow after all other blocks, at a place without labels; see
    `contents_start`.
    """
    assembler = _Assembler(marker, divide_tables=divide_tables)
    for block in order_blocks(blocks):
        assembler.add(block)
    return assembler.text()


class _Assembler:
    """The canonical text of the blocks so far."""

    def __init__(self, marker: Marker | None, *, divide_tables: bool) -> None:
        self._marker = marker
        self._divide_tables = divide_tables
        self._parts: list[str] = []
        self._offset = 0
        self._starts: list[int] = []
        self._places: list[Place] = []
        self._block_starts: list[int] = []
        self._captions: list[int] = []
        self._lines: list[int] = []
        self._programs: list[tuple[int, int]] = []
        self._pages: list[PageStart] = []
        self._figures: list[FigureSpot] = []
        self._place = NO_PLACE
        self._in_contents = False
        self._next_line: int | None = None
        """Number of the line after a program."""

    def add(self, block: Block) -> None:
        cleaned = self._clean(block)
        text = cleaned.text
        is_program = bool(text) and block.kind is BlockKind.CODE and _has_lines(block)
        if is_program and block.pages[0].page == self._next_line:
            self._parts[-1] = "\n"
            self._offset -= len(_BETWEEN) - 1
        offset = self._offset
        self._add_pages(cleaned, block)
        follows = offset + (len(text) + len(_BETWEEN) if text else 0)
        for own, placed in zip(cleaned.figures, block.figures, strict=True):
            self._figures.append(FigureSpot(offset + own, follows, placed.figure))
        if not text:
            return
        self._add_place(block)
        if block.kind is BlockKind.CAPTION:
            self._captions.append(offset)
        if block.kind is BlockKind.CODE:
            self._programs.append((offset, offset + len(text)))
        self._block_starts.append(offset)
        if block.kind is BlockKind.TABLE:
            # No sentence spans rows.
            self._block_starts += (offset + row.end() for row in _ROW_END.finditer(text))
        elif is_program:
            # Each line is a sentence.
            self._lines += (offset + own for own in cleaned.pages)
        self._parts += (text, _BETWEEN)
        self._offset = follows
        self._next_line = block.pages[-1].page + 1 if is_program else None

    def _clean(self, block: Block) -> _CleanBlock:
        cleaned = _clean_block(block)
        if self._divide_tables and block.kind is BlockKind.TABLE and not block.is_contents:
            cleaned = _divide(cleaned, block.header_rows)
        if self._marker and cleaned.figures:
            cleaned = _insert_markers(cleaned, self._marker, len(self._figures))
        return cleaned

    def _add_pages(self, cleaned: _CleanBlock, block: Block) -> None:
        pages = self._pages
        for own, page in _page_starts(cleaned, block):
            # Parsers are not trusted: the unit may be unknown.
            if not is_unit(page.unit) or (pages and pages[-1][1:] == page[1:]):
                continue
            if pages and pages[-1].offset == self._offset + own:
                # The previous page has no text.
                pages.pop()
            pages.append(page._replace(offset=self._offset + own))

    def _add_place(self, block: Block) -> None:
        place = Place(_clean_label(block.chapter), _clean_label(block.section))
        begins_contents = block.is_contents and not self._in_contents
        if block.is_contents:
            place, self._in_contents = NO_PLACE, True
        elif place == NO_PLACE:
            # Only lists of contents have no place. A label without visible characters is none.
            place = self._place
        if place != self._place or (begins_contents and self._offset):
            self._starts.append(self._offset)
            self._places.append(place)
            self._place = place

    def text(self) -> CanonicalText:
        text = "".join(self._parts[:-1])
        end = len(text)
        return CanonicalText(
            text,
            tuple(self._starts),
            tuple(self._places),
            tuple(self._block_starts),
            pages=tuple(start for start in self._pages if start.offset < end),
            # A figure after the last block moves to the end of the text.
            figures=tuple(
                spot if spot.follows <= end else FigureSpot(min(spot.offset, end), end, spot.figure)
                for spot in self._figures
            ),
            captions=tuple(self._captions),
            lines=tuple(self._lines),
            programs=tuple(self._programs),
        )


def order_blocks(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks with lists of contents at the end; blocks of one kind stay unchanged."""
    # At the end, the lists change no number and offset of other sentences, and a reader reaches
    # them last. A block keeps its page.
    if all(block.is_contents == blocks[0].is_contents for block in blocks):
        return list(blocks)
    parts: dict[bool, list[Block]] = {False: [], True: []}
    page: PageStart | None = None
    shown = dict.fromkeys(parts, page)
    for block in blocks:
        part = block.is_contents
        if page and page != shown[part]:
            # The page began in a block of the other part.
            block = replace(block, pages=(page, *block.pages))
        if block.pages:
            page = block.pages[-1]._replace(offset=0)
        shown[part] = page
        parts[part].append(block)
    return [*parts[False], *parts[True]]


class _CleanBlock(Struct):
    """The final text of a block, with the offsets of its figures and pages."""

    text: str
    figures: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    repeats: list[int] = field(default_factory=list)
    """Offsets of repeated headers of a table before rows that begin a page."""


def _clean_block(block: Block) -> _CleanBlock:
    cleaned = clean(block.text)
    margin = len(cleaned) - len(cleaned.lstrip())
    # Remove the blank lines at both ends.
    text = cleaned[cleaned.rfind("\n", 0, margin) + 1 :].rstrip()
    if not block.figures and not block.pages:
        return _CleanBlock(text)
    lead = cleaned.find(text) if text else 0
    # The text between two offsets is cleaned separately. At its edges, the result can differ from
    # the cleaned whole by a character that depends on its neighbour.
    moved = {0: 0}
    for start, end in pairwise(sorted({0, *(at for at, *_ in (*block.figures, *block.pages))})):
        between = block.text[start:end]
        moved[end] = moved[start] + len(between if cleaned == block.text else clean(between))

    def clip(offset: int) -> int:
        return min(max(moved[offset] - lead, 0), len(text))

    figures = [clip(placed.offset) for placed in block.figures]
    return _CleanBlock(text, figures, [clip(start.offset) for start in block.pages])


def _page_starts(cleaned: _CleanBlock, block: Block) -> list[tuple[int, PageStart]]:
    starts = list(zip(cleaned.pages, block.pages, strict=True))
    if cleaned.repeats:
        # A repeated header is on no page: the page begins with the row after it.
        unit = starts[0][1].unit
        starts += ((offset, PageStart(offset, 0, unit)) for offset in cleaned.repeats)
        starts.sort(key=itemgetter(0))
    return starts


def _has_lines(block: Block) -> bool:
    return bool(block.pages) and block.pages[0].unit == "line"


def _divide(table: _CleanBlock, header_rows: int) -> _CleanBlock:
    """Split a long table into parts; a part ends before the row that would make it too long."""
    # So the parts of read rows do not depend on later rows.
    text = table.text
    if len(text) <= _MAX_PART_LENGTH:
        return table
    rows = text.split("\n")
    header = "\n".join(rows[:header_rows])
    repeated = f"{header}\n" if 0 < len(header) <= _MAX_HEADER_LENGTH else ""
    starts: list[int] = []
    at = length = 0
    for number, row in enumerate(rows):
        if length + len(row) > _MAX_PART_LENGTH and number > max(header_rows, 0):
            starts.append(at)
            length = len(repeated)
        at += len(row) + 1
        length += len(row) + 1
    added, own_pages = 1 + len(repeated), {*table.pages}
    edges = [0, *starts, len(text)]
    return _CleanBlock(
        f"\n{repeated}".join(text[start:end] for start, end in pairwise(edges)),
        [offset + added * bisect_right(starts, offset) for offset in table.figures],
        [offset + added * bisect_right(starts, offset) for offset in table.pages],
        [
            start + added * number + 1
            for number, start in enumerate(starts if repeated else ())
            if start in own_pages
        ],
    )


def _insert_markers(block: _CleanBlock, marker: Marker, before: int) -> _CleanBlock:
    """Insert the markers of a block's figures into its text, separated by white space."""
    # `before` is the number of figures in earlier blocks.
    text, written, figures, added = block.text, "", [], []
    pieces: list[str] = []
    at = length = 0
    for number, offset in enumerate(block.figures, before + 1):
        left, right = text[at:offset], text[offset : offset + 1]
        written = (left or written)[-1:]
        ahead = " " if written and not written.isspace() else ""
        behind = " " if right and not right.isspace() else ""
        inserted = f"{ahead}{marker(number)}{behind}"
        figures.append(length + len(left) + len(ahead))
        pieces += (left, inserted)
        length += len(left) + len(inserted)
        added.append(len(inserted))
        at, written = offset, inserted[-1:]
    pages = [page + sum(added[: bisect_left(block.figures, page)]) for page in block.pages]
    return _CleanBlock("".join((*pieces, text[at:])), figures, pages)


def _clean_label(label: str | None) -> str | None:
    return " ".join(clean(label).split()) or None if label else None
