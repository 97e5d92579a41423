"""Markdown: the text as a page would show it, without markup, and the outline of its headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from truespan.parsing.headings import HeadingPlaces, begins_with_title
from truespan.parsing.text import load_text
from truespan.types.text import Block, BlockKind, Loaded

if TYPE_CHECKING:
    from markdown_it.token import Token

_DEEPEST = 20
"""Levels of nesting that are parsed. The library silently drops what lies deeper."""
_DEEP_LINE = re.compile(r"^(?=(?:[ \t]*(?:>|[-*+]|[0-9]{1,9}[.)])){12})", re.MULTILINE)

_FRONT_MATTER = re.compile(
    r"---[^\S\n]*\n(?P<fields>(?:#.*\n|[^\S\n]*\n)*[\w-]+[^\S\n]*:(?:[^\S\n].*)?\n(?:.*\n)*?)"
    r"(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)"
)
_TITLE = re.compile(r"^title[^\S\n]*:[^\S\n]+(?P<value>\S.*)$", re.MULTILINE | re.IGNORECASE)


class _Piece(NamedTuple):
    """A block that has no place yet; `level` is that of a heading, else 0."""

    kind: BlockKind
    text: str
    level: int = 0


def load_markdown(text: str) -> Loaded:
    """Parse Markdown; what the parser cannot follow becomes plain text with its markup."""
    title = None
    if found := _FRONT_MATTER.match(text):
        text = text[found.end() :]
        if field := _TITLE.search(found["fields"]):
            title = _read_scalar(field["value"].strip())
    try:
        # Escaped, a line of that many marks is text. Nested, it would have the whole document read
        # as plain text, and change the chapters of what precedes it.
        pieces = _parse(_DEEP_LINE.sub(r"\\", text))
    # A parser of untrusted files may fail in unforeseen ways, not only by recursion; one strange
    # file must not stop the others.
    except Exception:
        pieces = None
    if pieces is None:
        return Loaded(load_text(text).blocks, title)
    places = HeadingPlaces()
    blocks: list[Block] = []
    for piece in pieces:
        places.enter(piece.level, piece.text)
        blocks.append(Block(piece.kind, piece.text, places.chapter, places.section))
    if not title and begins_with_title([piece.level for piece in pieces]):
        title = pieces[0].text
    return Loaded(tuple(blocks), title)


def _read_scalar(value: str) -> str | None:
    """Return a plain or quoted YAML scalar; None for a list, a mapping or a block."""
    if value[0] in "\"'":
        end = value.find(value[0], 1)
        return value[1:end].strip() or None if end > 0 else None
    return None if value[0] in "[{|>&*!%@`#" else re.split(r"\s#", value, maxsplit=1)[0].strip()


def _parse(text: str) -> list[_Piece] | None:
    """Return the pieces of a text; None if it nests too deep."""
    # Here, because most runs of the program load no Markdown.
    from markdown_it import MarkdownIt

    # Without HTML a tag is text like any other, so that no text between tags is lost.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable("table")
    tokens = parser.parse(text)
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        return None
    return [piece for piece in _read_pieces(tokens) if piece.text.strip()]


def _read_pieces(tokens: Iterable[Token]) -> Iterator[_Piece]:
    lists: list[int | None] = []
    """The open lists: the number of the next item, or None where items have dots."""
    rows: list[list[str]] = []
    quotes, marker, opened = 0, "", ""
    for token in tokens:
        match token.type:
            case "inline":
                text = _plain_text(token.children or ())
                if opened in ("th", "td"):
                    rows[-1].append(" ".join(text.split()))
                elif lists:
                    # The marker before the first paragraph of an item, the rest below its text.
                    margin = "  " * (len(lists) - 1)
                    text = margin + (marker or "  ") + text.replace("\n", f"\n{margin}  ")
                    marker = ""
                    yield _Piece(BlockKind.LIST, text)
                elif quotes:
                    yield _Piece(BlockKind.QUOTE, text)
                elif opened.startswith("h"):
                    yield _Piece(BlockKind.HEADING, " ".join(text.split()), int(opened[1]))
                else:
                    yield _Piece(BlockKind.PARAGRAPH, text)
            case "fence" | "code_block":
                yield _Piece(BlockKind.CODE, token.content)
            case "table_open":
                rows = []
            case "tr_open":
                rows.append([])
            case "table_close":
                yield _Piece(BlockKind.TABLE, "\n".join(" | ".join(row) for row in rows))
            case "bullet_list_open":
                lists.append(None)
            case "ordered_list_open":
                lists.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
            case "list_item_open":
                number = lists[-1]
                marker = "- " if number is None else f"{number}. "
                lists[-1] = None if number is None else number + 1
            case "blockquote_open" | "blockquote_close":
                quotes += token.nesting
        opened = token.tag if token.nesting == 1 else opened


def _plain_text(tokens: Iterable[Token]) -> str:
    parts: list[str] = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif token.type == "image":
            parts.append(_plain_text(token.children or ()))
        else:
            parts.append(token.content)
    return "".join(parts)
