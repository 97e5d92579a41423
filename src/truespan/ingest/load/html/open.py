"""What is open while a page is read, and the pieces of text that came before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from truespan.ingest.load.html.head import Head
from truespan.ingest.load.html.inline import Flow, Inline, Picture, PlacedMark
from truespan.ingest.load.html.lists import Item, PageList, indented
from truespan.ingest.load.html.main import PAGE, Region
from truespan.ingest.load.html.tables import Table
from truespan.model.text import BlockKind

Closing = Callable[[], None]

# To ask an enumeration for a member takes longer than all else that is done for a short block.
_HEADING, _PARAGRAPH = BlockKind.HEADING, BlockKind.PARAGRAPH


@dataclass(slots=True, eq=False)
class Piece:
    """A block that has no place in the document's structure yet.

    `level` is that of a heading, else 0. Within lists, `depth` counts them, and `item` is the one
    that begins here; its mark is not part of `text`.
    """

    kind: BlockKind
    text: str
    region: Region = PAGE
    marks: tuple[PlacedMark, ...] = ()
    level: int = 0
    depth: int = 0
    item: Item | None = None

    def shown(self) -> Flow:
        """Return the text with the mark and margin of its list."""
        flow = Flow(self.text, self.marks)
        return indented(flow, self.depth, self.item) if self.depth and self.text else flow


class Open:
    """The elements that are open, by what they mean for the text in them."""

    def __init__(self) -> None:
        self.head = Head()
        self.pieces: list[Piece] = []
        self.out = self.pieces
        """Where pieces go: into the page, or into the cell of a table."""
        self.inline = Inline()
        self.level = 0
        self.quotes = self.notes = self.captions = 0
        self.code = self.links = self.drawings = 0
        self.raised = self.raisings = 0
        """How many elements above the line are open, and how many there were in all."""
        self.lists: list[PageList] = []
        self.item: Item | None = None
        self.tables: list[Table[Piece]] = []
        self.lost_tables = 0
        self.region, self.articles = PAGE, 0
        self.has_parentheses = False
        self.skipped = 0
        """How many elements are open of which nothing is kept."""
        self.caught: list[str] | None = None

    def flush(self) -> None:
        """End the block that is open, if any. Within code it is a line that ends.

        Marks without text wait for the text that follows; a picture needs none.
        """
        if not self.inline.parts:
            return
        if self.code:
            self.inline.begin_line()
            return
        text = self.inline.take_plain()
        if text is None:
            self._flush_marked()
        elif text:
            self._emit_plain(text)

    def _flush_marked(self) -> None:
        kind = self.kind
        flow = self.inline.take(breaks=kind is not BlockKind.HEADING)
        if flow.text or any(isinstance(mark, Picture) for _, mark in flow.marks):
            self.emit(flow, kind)
        elif flow.marks:
            self.inline.add_flow(flow)

    def _emit_plain(self, text: str) -> None:
        """Add a piece as `emit` does, without looking for what a plain text cannot have."""
        piece = Piece(self.kind, text, self.region)
        if self.lists:
            piece.depth = len(self.lists)
            piece.item, self.item = self.item, None
        if self.level and piece.kind is _HEADING:
            piece.level = self.level
        self.out.append(piece)

    def emit(self, flow: Flow, kind: BlockKind) -> None:
        """Add a piece."""
        level = self.level if kind is BlockKind.HEADING else 0
        piece = Piece(kind, flow.text, self.region, flow.marks, level)
        if self.lists and kind is not BlockKind.CODE:
            piece.depth = len(self.lists)
            if flow.text:
                piece.item, self.item = self.item, None
        self.out.append(piece)

    @property
    def kind(self) -> BlockKind:
        """Return what a block would be here. Only what stands free makes a chapter."""
        if self.notes:
            return BlockKind.FOOTNOTE
        if self.captions:
            return BlockKind.CAPTION
        if self.lists:
            return BlockKind.LIST
        if self.quotes:
            return BlockKind.QUOTE
        return _HEADING if self.level else _PARAGRAPH

    def count(self, counter: str) -> Closing:
        """Count a block in the attribute `counter` until it ends."""
        self.flush()
        setattr(self, counter, getattr(self, counter) + 1)

        def close() -> None:
            self.flush()
            setattr(self, counter, getattr(self, counter) - 1)

        return close

    def catch(self, then: Callable[[str], None]) -> Closing:
        """Keep the text of an element out of the page, and give it to `then` where it ends."""
        caught: list[str] = []
        self.skipped, self.caught = 1, caught

        def close() -> None:
            self.caught = None
            then("".join(caught))

        return close

    def close_link(self) -> None:
        """End a link."""
        self.links -= 1

    def close_raised(self) -> None:
        """End what stands above the line."""
        self.raised -= 1

    def close_drawing(self) -> None:
        """End a drawing."""
        self.drawings -= 1
