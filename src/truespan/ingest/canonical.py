"""From blocks to canonical text, with the offsets of chapters, blocks, pages and figures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from truespan.parsing.clean import clean
from truespan.types.text import Block, BlockKind, CanonicalText, FigureSpot, PageStart, Place

_BETWEEN = "\n\n"
_NOWHERE = Place(None, None)

Marker = Callable[[int], str]
"""Returns the placeholder of a figure; figures are numbered from 1 in reading order."""


def assemble(blocks: Sequence[Block], marker: Marker | None = None) -> CanonicalText:
    """Join blocks into one text with a blank line between them.

    Blank lines at both ends of a block are removed; the spaces before its first word stay, because
    code needs them. Blocks without text are dropped, with their place. With a `marker`, figures get
    a placeholder in the text; without one, only their offsets are recorded.
    """
    builder = _Builder()
    for block in blocks:
        builder.add(block, _clean_block(block, marker, len(builder.figures)))
    return builder.build()


@dataclass(slots=True)
class _CleanBlock:
    """The final text of a block, with the offsets of its figures and pages."""

    text: str
    figures: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Builder:
    """The canonical text so far."""

    parts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    block_starts: list[int] = field(default_factory=list)
    captions: list[int] = field(default_factory=list)
    pages: list[PageStart] = field(default_factory=list)
    figures: list[FigureSpot] = field(default_factory=list)
    offset: int = 0
    place: Place = _NOWHERE

    def add(self, block: Block, cleaned: _CleanBlock) -> None:
        for offset, start in zip(cleaned.pages, block.pages, strict=True):
            self._turn_page(self.offset + offset, start.page)
        follows = self.offset + (len(cleaned.text) + len(_BETWEEN) if cleaned.text else 0)
        for offset, placed in zip(cleaned.figures, block.figures, strict=True):
            self.figures.append(FigureSpot(self.offset + offset, follows, placed.figure))
        if cleaned.text:
            self._add_text(block, cleaned.text)

    def _add_text(self, block: Block, text: str) -> None:
        here = Place(_label(block.chapter), _label(block.section))
        if here != self.place:
            self.starts.append(self.offset)
            self.places.append(here)
            self.place = here
        if block.kind is BlockKind.CAPTION:
            self.captions.append(self.offset)
        self.block_starts.extend(_units(block.kind, text, self.offset))
        self.parts.append(text)
        self.offset += len(text) + len(_BETWEEN)

    def _turn_page(self, offset: int, page: int) -> None:
        if self.pages and self.pages[-1].page == page:
            return
        if self.pages and self.pages[-1].offset == offset:
            # The page before has no text.
            self.pages.pop()
        self.pages.append(PageStart(offset, page))

    def build(self) -> CanonicalText:
        text = _BETWEEN.join(self.parts)
        return CanonicalText(
            text,
            tuple(self.starts),
            tuple(self.places),
            tuple(self.block_starts),
            pages=tuple(start for start in self.pages if start.offset < len(text)),
            figures=tuple(_move_inside(spot, len(text)) for spot in self.figures),
            captions=tuple(self.captions),
        )


def _move_inside(spot: FigureSpot, length: int) -> FigureSpot:
    """Move a figure after the last block to the end of the text."""
    if spot.follows <= length:
        return spot
    return FigureSpot(min(spot.offset, length), length, spot.figure)


def _clean_block(block: Block, marker: Marker | None, before: int) -> _CleanBlock:
    """Clean a block's text and adjust the offsets in it; `before` counts the earlier figures."""
    cleaned = clean(block.text)
    margin = len(cleaned) - len(cleaned.lstrip())
    # Without the blank lines at both ends.
    text = cleaned[cleaned.rfind("\n", 0, margin) + 1 :].rstrip()
    if not block.figures and not block.pages:
        return _CleanBlock(text)
    lead = cleaned.find(text) if text else 0
    moved = _move_offsets(block, cleaned)

    def clip(offset: int) -> int:
        return min(max(moved[offset] - lead, 0), len(text))

    result = _CleanBlock(
        text,
        [clip(placed.offset) for placed in block.figures],
        [clip(start.offset) for start in block.pages],
    )
    return _insert_markers(result, marker, before) if marker else result


def _move_offsets(block: Block, cleaned: str) -> dict[int, int]:
    """Return the offset in the clean text of each offset in a block's text.

    The text between two offsets is cleaned separately. At its edges the result can differ from the
    clean whole by a character that has a meaning only together with its neighbour.
    """
    offsets = sorted(
        {
            0,
            *(placed.offset for placed in block.figures),
            *(start.offset for start in block.pages),
        }
    )
    if cleaned == block.text:
        return {offset: offset for offset in offsets}
    moved, at = {offsets[0]: 0}, 0
    for start, end in pairwise(offsets):
        at += len(clean(block.text[start:end]))
        moved[end] = at
    return moved


def _insert_markers(block: _CleanBlock, marker: Marker, before: int) -> _CleanBlock:
    """Insert the markers of a block's figures into its text, separated by white space."""
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


def _label(label: str | None) -> str | None:
    return " ".join(clean(label).split()) or None if label else None


def _units(kind: BlockKind, text: str, offset: int) -> Iterator[int]:
    """Yield the start of a block; of a table, of each row, because no sentence crosses rows."""
    yield offset
    if kind is BlockKind.TABLE:
        for place, char in enumerate(text):
            if char == "\n":
                yield offset + place + 1
