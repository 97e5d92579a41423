"""From blocks to canonical text, and where in it chapters, blocks, pages and figures begin."""

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
"""Gives what stands in the text for a figure; figures count from 1 in reading order."""


def assemble(blocks: Sequence[Block], marker: Marker | None = None) -> CanonicalText:
    """Join blocks into one text with a blank line between two of them.

    A block begins and ends with a line that holds something; the spaces before its first word
    stay, for code needs them. Blocks without any text leave no trace, not even their place. With a
    `marker`, figures have a text of their own; without, they are only remembered.
    """
    joined = _Joined()
    for block in blocks:
        joined.add(block, _settled(block, marker, len(joined.figures)))
    return joined.canonical()


@dataclass(slots=True)
class _Settled:
    """A block's text as it will stand, with the offsets in it of figures and pages."""

    text: str
    figures: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Joined:
    """The text so far."""

    parts: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    block_starts: list[int] = field(default_factory=list)
    captions: list[int] = field(default_factory=list)
    pages: list[PageStart] = field(default_factory=list)
    figures: list[FigureSpot] = field(default_factory=list)
    offset: int = 0
    place: Place = _NOWHERE

    def add(self, block: Block, settled: _Settled) -> None:
        for offset, start in zip(settled.pages, block.pages, strict=True):
            self._turn_page(self.offset + offset, start.page)
        follows = self.offset + (len(settled.text) + len(_BETWEEN) if settled.text else 0)
        for offset, placed in zip(settled.figures, block.figures, strict=True):
            self.figures.append(FigureSpot(self.offset + offset, follows, placed.figure))
        if settled.text:
            self._add_text(block, settled.text)

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
            # The page before has no text of its own.
            self.pages.pop()
        self.pages.append(PageStart(offset, page))

    def canonical(self) -> CanonicalText:
        text = _BETWEEN.join(self.parts)
        return CanonicalText(
            text,
            tuple(self.starts),
            tuple(self.places),
            tuple(self.block_starts),
            pages=tuple(start for start in self.pages if start.offset < len(text)),
            figures=tuple(_within(spot, len(text)) for spot in self.figures),
            captions=tuple(self.captions),
        )


def _within(spot: FigureSpot, length: int) -> FigureSpot:
    """Bring a figure behind the last block back to the end of the text."""
    if spot.follows <= length:
        return spot
    return FigureSpot(min(spot.offset, length), length, spot.figure)


def _settled(block: Block, marker: Marker | None, before: int) -> _Settled:
    """Clean a block's text, and move the offsets in it along."""
    cleaned = clean(block.text)
    if not block.figures and not block.pages:
        return _Settled(_trimmed(cleaned))
    text = _trimmed(cleaned)
    lead = cleaned.find(text) if text else 0
    moved = _moved(block, cleaned)
    settled = _Settled(
        text,
        [_clipped(moved[placed.offset] - lead, text) for placed in block.figures],
        [_clipped(moved[start.offset] - lead, text) for start in block.pages],
    )
    return _marked(settled, marker, before) if marker else settled


def _moved(block: Block, cleaned: str) -> dict[int, int]:
    """Return where each offset of a block's text lies once it is clean.

    What lies between two offsets is cleaned by itself. At their edges that can differ from what
    the whole becomes by a character that only has a meaning together with its neighbour.
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


def _clipped(offset: int, text: str) -> int:
    return min(max(offset, 0), len(text))


def _marked(settled: _Settled, marker: Marker, before: int) -> _Settled:
    """Put the markers of a block's figures into its text, set off by white space."""
    text, written, figures, added = settled.text, "", [], []
    pieces: list[str] = []
    at = length = 0
    for number, offset in enumerate(settled.figures, before + 1):
        left, right = text[at:offset], text[offset : offset + 1]
        written = (left or written)[-1:]
        ahead = " " if written and not written.isspace() else ""
        behind = " " if right and not right.isspace() else ""
        shown = f"{ahead}{marker(number)}{behind}"
        figures.append(length + len(left) + len(ahead))
        pieces += (left, shown)
        length += len(left) + len(shown)
        added.append(len(shown))
        at, written = offset, shown[-1:]
    pages = [page + sum(added[: bisect_left(settled.figures, page)]) for page in settled.pages]
    return _Settled("".join((*pieces, text[at:])), figures, pages)


def _trimmed(text: str) -> str:
    """Return `text` without the blank lines at both ends."""
    margin = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, margin) + 1 :].rstrip()


def _label(label: str | None) -> str | None:
    return " ".join(clean(label).split()) or None if label else None


def _units(kind: BlockKind, text: str, offset: int) -> Iterator[int]:
    """Give where a block begins; in a table each row is one, for no sentence runs on into it."""
    yield offset
    if kind is BlockKind.TABLE:
        for place, char in enumerate(text):
            if char == "\n":
                yield offset + place + 1
