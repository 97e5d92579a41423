"""Tables of a page: rows as lines, unless a table only puts a page in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from truespan.ingest.load.html.inline import PLACE, Flow, Inline, collapsed
from truespan.model.text import BlockKind

_LONGEST_CELL = 2000
"""Characters in one cell beyond which nobody would write it into a row."""
_OWN_BLOCKS = frozenset({BlockKind.HEADING, BlockKind.TABLE, BlockKind.CODE})


class Content(Protocol):
    """What stands in a cell."""

    @property
    def kind(self) -> BlockKind: ...
    @property
    def text(self) -> str: ...
    def shown(self) -> Flow: ...


ContentT = TypeVar("ContentT", bound=Content)


@dataclass(slots=True, eq=False)
class Table(Generic[ContentT]):
    """A table that is being read. What stands in no cell is a row of its own, except captions that
    come before all rows: they lead the table."""

    layout: bool = False
    captions: list[ContentT] = field(default_factory=list)
    outside: list[ContentT] = field(default_factory=list)
    """The place for what stands in no cell; another one after each cell."""
    _rows: list[list[list[ContentT]]] = field(default_factory=list)

    def begin_row(self) -> None:
        """Begin a row."""
        self.gather()
        self._rows.append([])

    def begin_cell(self) -> list[ContentT]:
        """Begin a cell, and return the place for what stands in it."""
        if self.gather() or not self._rows:
            self._rows.append([])
        cell: list[ContentT] = []
        self._rows[-1].append(cell)
        return cell

    def gather(self) -> bool:
        """Take in what stood in no cell; say whether it is a row now."""
        if not self.outside:
            return False
        found, self.outside = self.outside, []
        # Words keep their order, so only what stands before all else in a table leads it.
        leading = 0
        if not self._rows:
            kinds = (content.kind is BlockKind.CAPTION for content in found)
            leading = next((place for place, it in enumerate(kinds) if not it), len(found))
        self.captions += found[:leading]
        loose = found[leading:]
        if loose:
            self._rows.append([loose])
        return bool(loose)

    def contents(self) -> Iterator[ContentT]:
        """Give what stands in the cells, one after the other."""
        for row in self._rows:
            for cell in row:
                yield from cell

    @property
    def is_layout(self) -> bool:
        """Say whether its cells are parts of a page rather than values.

        So they are when the page says so, when they hold blocks that cannot stand in a line, and
        when no row has more than one of them.
        """
        if self.layout or all(sum(map(bool, row)) < 2 for row in self._rows):
            return True
        return any(_is_part(cell) for row in self._rows for cell in row)

    def joined(self) -> Flow:
        """Return its rows as lines, and cells with a bar between two of them."""
        rows = [_plain_row(row) for row in self._rows if any(row)]
        if None not in rows:
            return Flow("\n".join(row for row in rows if row))
        lines = Inline()
        for row in self._rows:
            if any(row):
                lines.begin_line()
                _add_row(lines, row)
        return lines.take()


def _is_part(cell: Sequence[Content]) -> bool:
    length = 0
    for content in cell:
        if content.kind in _OWN_BLOCKS:
            return True
        length += len(content.text)
    return length > _LONGEST_CELL


def _plain_row(row: Sequence[Sequence[Content]]) -> str | None:
    """Return a row as `_add_row` would write it; None if it has marks.

    Hardly any row has, and this is several times as fast for the many small ones.
    """
    cells: list[str] = []
    for cell in row:
        flows = [content.shown() for content in cell]
        if any(flow.marks for flow in flows):
            return None
        cells.append(" ".join([flow.text for flow in flows]))
    line = collapsed(" | ".join(cells)).strip(" ")
    return None if PLACE in line else line


def _add_row(lines: Inline, row: Sequence[Sequence[Content]]) -> None:
    cells = Inline()
    for place, cell in enumerate(row):
        if place:
            cells.add(" | ")
        for content in cell:
            cells.add_flow(content.shown())
            cells.add(" ")
    lines.add_flow(cells.take(breaks=False))
