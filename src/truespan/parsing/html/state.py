"""What is open while a page is read, and the pieces of text that came before."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from truespan.parsing.html.inline import Attributes, Flow, Inline, Picture, PlacedMark
from truespan.parsing.html.structure import PAGE, Head, Item, PageList, Region, Table, indented
from truespan.types.text import BlockKind

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


_REFERENCES = frozenset({"noteref", "doc-noteref"})
_REFERENCE_CLASSES = frozenset({"footnote-ref", "sdfootnoteanc", "sdendnoteanc"})
_OWN_CLASSES = frozenset({"sdfootnotesym", "sdendnotesym"})
_WAYS_BACK = frozenset({"backlink", "doc-backlink"})
_NOTE_CLASSES = frozenset({"footnotes", "footnote"})
_NOTE_ID = re.compile(r"sd(?:foot|end)note\d{1,6}")

_RAISED_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_MARK = re.compile(
    r"(?P<open>[\[(])?\s*(?P<mark>\d{1,4}|[*†‡§¶]{1,4}|[ivxlc]{1,8}|[^\W\d_]{1,3})\s*(?(open)[\])])",
    re.IGNORECASE,
)
_BACK = re.compile("(?:[↩↑↵⤴][\ufe0e\ufe0f]?\\s*\\d{0,3}|\\^)[\ufe0e\ufe0f]?")
_LONGEST_MARK, _LONGEST_WAY_BACK = 20, 40
"""Characters beyond which a link is text, whatever it says of itself."""


class _Purpose(Enum):
    """What a link is for, as far as its attributes tell."""

    REFERENCE = auto()
    BACK = auto()
    WITHIN = auto()
    """It leads to a place in the document, which may be a note."""


def open_link(page: Open, _: str, attributes: Attributes) -> Closing:
    """Begin a link; where it ends, its text tells whether it is the mark of a note."""
    page.links += 1
    purpose = _purpose(attributes) if attributes and not page.code else None
    if purpose is None:
        return page.close_link
    inline, began, raisings = page.inline, page.inline.here(), page.raisings
    raised = page.raised > 0

    def close() -> None:
        page.links -= 1
        text = inline.since(began)
        if text is None:
            return
        at_start = inline.is_blank_before(began)
        meant = purpose is _Purpose.REFERENCE or raised or page.raisings > raisings
        written = _written(text, purpose, meant or (at_start and page.notes > 0), at_start)
        if written is not None and not inline.is_bracketed(began):
            inline.put_since(began, written)

    return close


def open_raised(page: Open, *_: object) -> Closing:
    """Begin what stands above the line."""
    page.raised += 1
    page.raisings += 1
    return page.close_raised


def holds_notes(attributes: Attributes) -> bool:
    """Say whether an element holds a note or several, by the names that writing programs give."""
    if not _NOTE_CLASSES.isdisjoint(_words(attributes, "class")):
        return True
    return bool(_NOTE_ID.fullmatch(attributes.get("id", "")[:40]))


def _purpose(attributes: Attributes) -> _Purpose | None:
    said = {*_words(attributes, "epub:type"), *_words(attributes, "role")}
    if said & _WAYS_BACK:
        return _Purpose.BACK
    called = _words(attributes, "class")
    if said & _REFERENCES or not (_REFERENCE_CLASSES | _OWN_CLASSES).isdisjoint(called):
        return _Purpose.REFERENCE
    address = attributes.get("href", "")[:1000]
    return _Purpose.WITHIN if "#" in address and "://" not in address else None


def _words(attributes: Attributes, name: str) -> list[str]:
    return attributes[name][:200].lower().split() if name in attributes else []


def _written(text: str, purpose: _Purpose, meant: bool, at_start: bool) -> str | None:
    """Return what a link reads as; None when it reads as it stands."""
    bare = text.strip()
    if len(bare) <= _LONGEST_MARK and _BACK.fullmatch(bare):
        return ""
    plain = bare.translate(_RAISED_DIGITS)
    found = _MARK.fullmatch(plain) if len(plain) <= _LONGEST_MARK else None
    if purpose is _Purpose.BACK and not (found and at_start):
        return "" if len(bare) <= _LONGEST_WAY_BACK else None
    if not found or not (meant or plain != bare or purpose is _Purpose.BACK):
        return None
    before = " " if text[0].isspace() else ""
    after = " " if at_start or text[-1].isspace() else ""
    return f"{before}[{found['mark']}]{after}"
