"""Markdown: the text as a page would show it, without markup, and the outline of its headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from truespan.parsing.headings import HeadingPlaces, begins_with_title
from truespan.parsing.text import load_text
from truespan.types.text import Block, BlockKind, Loaded

if TYPE_CHECKING:
    from markdown_it.token import Token

_DEEPEST = 20
"""Levels of nesting that are followed. The parser drops what lies deeper, without a word."""
_DEEP_LINE = re.compile(r"^(?=(?:[ \t]*(?:>|[-*+]|[0-9]{1,9}[.)])){12})", re.MULTILINE)

_FRONT_MATTER = re.compile(
    r"---[^\S\n]*\n(?P<fields>(?:#.*\n|[^\S\n]*\n)*[\w-]+[^\S\n]*:(?:[^\S\n].*)?\n(?:.*\n)*?)"
    r"(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)"
)
_TITLE = re.compile(r"^title[^\S\n]*:[^\S\n]+(?P<value>\S.*)$", re.MULTILINE | re.IGNORECASE)


def load_markdown(text: str) -> Loaded:
    """Return the blocks of a Markdown text.

    What the parser cannot follow is loaded as plain text: it is better shown with its markup than
    not at all.
    """
    title, body = _split_front_matter(text)
    try:
        # Escaped, a line of that many marks is text. Nested, it would have the whole document read
        # as plain text, and change the chapters of what stands before it.
        pieces = _parse(_DEEP_LINE.sub(r"\\", body))
    # A parser of other people's files may trip in ways it did not foresee, not only by recursion;
    # one strange file must not stop the others.
    except Exception:
        pieces = None
    if pieces is None:
        return Loaded(load_text(body).blocks, title)
    return _with_places(pieces, title)


class _Piece(NamedTuple):
    """A block that has no place yet; `level` is that of a heading, else 0."""

    kind: BlockKind
    text: str
    level: int = 0


def _split_front_matter(text: str) -> tuple[str | None, str]:
    found = _FRONT_MATTER.match(text)
    if not found:
        return None, text
    title = _TITLE.search(found["fields"])
    return _scalar(title["value"]) if title else None, text[found.end() :]


def _scalar(value: str) -> str | None:
    """Return a plain or quoted YAML scalar; None for a list, a mapping or a block."""
    value = value.strip()
    if value[0] in "\"'":
        end = value.find(value[0], 1)
        return value[1:end].strip() or None if end > 0 else None
    return None if value[0] in "[{|>&*!%@`#" else re.split(r"\s#", value, maxsplit=1)[0].strip()


def _parse(text: str) -> list[_Piece] | None:
    # Here, because most runs of the program load no Markdown.
    from markdown_it import MarkdownIt

    # Without HTML a tag is text like any other, so nothing that stands between tags is lost.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable("table")
    tokens = parser.parse(text)
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        return None
    return [piece for piece in _Reading().pieces(tokens) if piece.text.strip()]


@dataclass(slots=True)
class _List:
    """A list that is open: the number of its next item, or None where items have dots."""

    number: int | None

    def mark(self) -> str:
        """Return the mark of the next item."""
        if self.number is None:
            return "- "
        self.number += 1
        return f"{self.number - 1}. "


@dataclass(slots=True)
class _Reading:
    """What is open at the current token."""

    lists: list[_List] = field(default_factory=list)
    quotes: int = 0
    mark: str = ""
    rows: list[list[str]] = field(default_factory=list)

    def pieces(self, tokens: Sequence[Token]) -> Iterator[_Piece]:
        """Give the pieces of a document in order."""
        opened = ""
        for token in tokens:
            if token.type == "inline":
                yield from self._inline(opened, token)
            elif token.type in ("fence", "code_block"):
                yield _Piece(BlockKind.CODE, token.content)
            elif token.type == "table_close":
                rows = "\n".join(" | ".join(row) for row in self.rows)
                yield _Piece(BlockKind.TABLE, rows)
            else:
                self._enter(token)
                opened = f"{token.type}{token.tag}" if token.nesting == 1 else opened

    def _enter(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open":
                self.lists.append(_List(None))
            case "ordered_list_open":
                self.lists.append(_List(int(token.attrGet("start") or 1)))
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
            case "list_item_open":
                self.mark = self.lists[-1].mark()
            case "blockquote_open" | "blockquote_close":
                self.quotes += token.nesting
            case "table_open":
                self.rows = []
            case "tr_open":
                self.rows.append([])

    def _inline(self, opened: str, token: Token) -> Iterator[_Piece]:
        text = _plain(token.children or ())
        if opened in ("th_openth", "td_opentd"):
            self.rows[-1].append(" ".join(text.split()))
        elif self.lists:
            yield _Piece(BlockKind.LIST, self._indented(text))
        elif self.quotes:
            yield _Piece(BlockKind.QUOTE, text)
        elif opened.startswith("heading_open"):
            yield _Piece(BlockKind.HEADING, " ".join(text.split()), int(opened[-1]))
        else:
            yield _Piece(BlockKind.PARAGRAPH, text)

    def _indented(self, text: str) -> str:
        """Put the mark before the first paragraph of an item, and the rest below its text."""
        margin = "  " * (len(self.lists) - 1)
        first = margin + (self.mark or "  ")
        self.mark = ""
        return first + text.replace("\n", f"\n{margin}  ")


def _plain(tokens: Iterable[Token]) -> str:
    parts: list[str] = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif token.type == "image":
            parts.append(_plain(token.children or ()))
        else:
            parts.append(token.content)
    return "".join(parts)


def _with_places(pieces: Sequence[_Piece], title: str | None) -> Loaded:
    """Give each piece its chapter and section, and the document its title."""
    places = HeadingPlaces()
    blocks: list[Block] = []
    for piece in pieces:
        places.enter(piece.level, piece.text)
        blocks.append(Block(piece.kind, piece.text, places.chapter, places.section))
    titled = begins_with_title([piece.level for piece in pieces])
    return Loaded(tuple(blocks), title or (pieces[0].text if titled else None))
