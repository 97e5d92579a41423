"""HTML: the main text of a page as a browser shows it, and the outline of its headings."""

from __future__ import annotations

from collections.abc import Sequence

from truespan.parsing.headings import HeadingPlaces, begins_with_title
from truespan.parsing.html.inline import Page, Picture, Pictures
from truespan.parsing.html.reader import Reading, read_page
from truespan.parsing.html.state import Piece
from truespan.parsing.html.structure import main_text
from truespan.types.text import Block, Loaded, PageStart, PlacedFigure


def load_html(shown: str, data: bytes, *, images: bool) -> Loaded:
    """Return the blocks of a page. Nothing it refers to is fetched.

    Raises:
        SourceRefused: it is no text, or no page can be made out in it.
    """
    reading = Reading()
    read_page(shown, data, reading)
    pieces = main_text(reading.close())
    pictures = Pictures(wanted=images)
    blocks = _placed(pieces, pictures)
    properties = reading.head.properties()
    return Loaded(
        blocks=blocks,
        title=_title(pieces) or properties.title,
        properties=properties,
        images=tuple(pictures.images),
        pictures=pictures.counts(),
    )


def block_of(piece: Piece, chapter: str | None, section: str | None, pictures: Pictures) -> Block:
    """Return a piece as a block with its place, its figures and the pages that begin in it."""
    flow = piece.shown() if piece.depth else piece
    if not flow.marks:
        return Block(piece.kind, flow.text, chapter, section)
    return Block(
        kind=piece.kind,
        text=flow.text,
        chapter=chapter,
        section=section,
        figures=tuple(
            PlacedFigure(offset, pictures.figure(mark))
            for offset, mark in flow.marks
            if isinstance(mark, Picture)
        ),
        pages=tuple(
            PageStart(offset, mark.number) for offset, mark in flow.marks if isinstance(mark, Page)
        ),
    )


def _placed(pieces: Sequence[Piece], pictures: Pictures) -> tuple[Block, ...]:
    places = HeadingPlaces()
    blocks: list[Block] = []
    for piece in pieces:
        if piece.text:
            places.enter(piece.level, piece.text)
        block = block_of(piece, places.chapter, places.section, pictures)
        if block.text or block.figures:
            blocks.append(block)
    return tuple(blocks)


def _title(pieces: Sequence[Piece]) -> str | None:
    texts = [piece for piece in pieces if piece.text]
    titled = begins_with_title([piece.level for piece in texts])
    return texts[0].text if titled else None
