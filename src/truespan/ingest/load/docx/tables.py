"""Tables as rows that can be read: a row is a line, and strokes divide its cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import lxml.etree as etree

from truespan.ingest.load.docx.names import (
    ALTERNATIVES,
    DROPPED,
    PROPERTIES,
    SDT,
    TBL,
    TC,
    TR,
    A,
    P,
    W,
    chosen,
    switch,
)
from truespan.ingest.load.docx.passage import Passage, joined
from truespan.model.text import PlacedFigure

_ALT_CHUNK = f"{W}altChunk"
_PARAGRAPHS = (P, f"{A}p")
_BLOCKS = frozenset({*_PARAGRAPHS, TBL, _ALT_CHUNK})
_CONTENTS = "table of contents"

Read = Callable[[etree._Element], Passage]
"""Reads a paragraph of a cell."""


def is_paragraph(element: etree._Element) -> bool:
    """Say whether an element is a paragraph, of a document or of a drawing."""
    return element.tag in _PARAGRAPHS


def blocks_in(
    container: etree._Element, listed: bool = False
) -> Iterator[tuple[etree._Element, bool]]:
    """Give the paragraphs and tables in a container, through all that wraps them.

    With each comes whether a control around it says that it is a table of contents.
    """
    for child in container:
        tag = child.tag
        if tag in _BLOCKS:
            yield child, listed
        elif tag == ALTERNATIVES:
            for option in chosen(child):
                yield from blocks_in(option, listed)
        elif tag not in DROPPED and tag not in PROPERTIES:
            yield from blocks_in(child, listed or (tag == SDT and _is_contents(child)))


def only_cell(table: etree._Element) -> etree._Element | None:
    """Return the cell of a table that has one alone, and so is a frame around what it holds."""
    rows = list(_within(table, TR))
    cells = list(_within(rows[0], TC)) if len(rows) == 1 else []
    return cells[0] if len(cells) == 1 else None


def read_table(table: etree._Element, read: Read) -> Passage:
    """Return a table as lines; what a merged cell holds stands once, where it begins."""
    return _stacked((_row(row, read, " | ") for row in _rows(table)), "\n")


def _nested(table: etree._Element, read: Read) -> Passage:
    return _stacked((_row(row, read, ", ") for row in _rows(table)), "; ")


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    return (row for row in _within(table, TR) if not _is_gone(row))


def _row(row: etree._Element, read: Read, between: str) -> Passage:
    cells = [_cell(cell, read) for cell in _within(row, TC)]
    while cells and cells[-1].blank:
        cells.pop()
    if all(not cell.text for cell in cells):
        return joined(cells, "")
    return joined(cells, between)


def _cell(cell: etree._Element, read: Read) -> Passage:
    found = (
        read(element) if is_paragraph(element) else _nested(element, read)
        for element, _ in blocks_in(cell)
        if element.tag != _ALT_CHUNK
    )
    return joined([passage for passage in found if not passage.blank], " ").on_one_line()


def _stacked(rows: Iterable[Passage], between: str) -> Passage:
    """Put rows below each other; one with pictures alone leaves them where the next one begins."""
    lines: list[Passage] = []
    waiting: tuple[PlacedFigure, ...] = ()
    for row in rows:
        if not row.text:
            waiting += row.figures
            continue
        here = tuple(PlacedFigure(0, found.figure) for found in waiting)
        lines.append(Passage(row.text, here + row.figures))
        waiting = ()
    whole = joined(lines, between)
    end = tuple(PlacedFigure(len(whole.text), found.figure) for found in waiting)
    return Passage(whole.text, whole.figures + end)


def _within(container: etree._Element, wanted: str) -> Iterator[etree._Element]:
    """Give the rows of a table or the cells of a row, through all that wraps them."""
    for child in container:
        tag = child.tag
        if tag == wanted:
            yield child
        elif tag == ALTERNATIVES:
            for option in chosen(child):
                yield from _within(option, wanted)
        elif tag not in DROPPED and tag not in PROPERTIES and tag not in _BLOCKS:
            yield from _within(child, wanted)


def _is_gone(row: etree._Element) -> bool:
    """Say whether a row was deleted, or is hidden."""
    for properties in row.iterchildren(f"{W}trPr"):
        if next(properties.iterchildren(f"{W}del"), None) is not None:
            return True
        return bool(switch(properties, f"{W}hidden"))
    return False


def _is_contents(control: etree._Element) -> bool:
    for properties in control.iterchildren(f"{W}sdtPr"):
        for gallery in properties.iter(f"{W}docPartGallery"):
            return gallery.get(f"{W}val", "").strip().lower() == _CONTENTS
    return False
