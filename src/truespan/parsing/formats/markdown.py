"""Markdown: the text as a page would show it, without markup, and the outline of its headings."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from truespan.parsing.detect import require_text
from truespan.parsing.formats.text import load_text
from truespan.text.clean import clean
from truespan.text.contents import ContentsFinder, links_ahead
from truespan.text.headings import HeadingPlaces, begins_with_title
from truespan.types.text import Block, BlockKind, Loaded

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_MAX_DEPTH, _MAX_INLINE_DEPTH = 100, 20
"""Levels of nesting that are parsed. The library silently drops blocks that lie deeper."""
_DEEP_LINE = re.compile(r"^(?=(?:[ \t]*(?:>|[-*+]|[0-9]{1,9}[.)])){12})", re.MULTILINE)
_WIDE_MARGIN = re.compile(
    r"^(?:[ \t>]|[-*+](?=[ \t]|$)|[0-9]{1,9}[.)](?=[ \t]|$)){18,}", re.MULTILINE
)
_MARKER = re.compile(r">|[-*+]|[0-9]{1,9}[.)]")
_MAX_CONTAINERS = 40
"""Each list has two levels, itself and its item."""

_NOT_IN_ANCHORS = re.compile(r"[^\w\s-]")
_REFERENCE = re.compile(r"\[(?P<text>[^][`\\<]{2,200})\]\[[^][`\\<]{0,200}\]")
_FRONT_MATTER = re.compile(
    r"---[^\S\n]*\n(?P<fields>(?:#.*\n|[^\S\n]*\n)*[\w-]+[^\S\n]*:(?:[^\S\n].*)?\n(?:.*\n)*?)"
    r"(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)"
)
_TITLE = re.compile(r"^title[^\S\n]*:[^\S\n]+(?P<value>\S.*)$", re.MULTILINE | re.IGNORECASE)


class _Piece(NamedTuple):
    """A block without a place; the label of an `underlined` heading applies after the next line."""

    kind: BlockKind
    text: str
    level: int = 0
    underlined: bool = False
    links_ahead: bool = False
    """Whether the block consists of a link to later text."""
    header_rows: int = 0


def load_markdown_file(name: str, data: bytes) -> Loaded:
    # The result is cleaned again when it is assembled: an entity may be an invisible character.
    return load_markdown(clean(require_text(name, data)))


def load_markdown(text: str) -> Loaded:
    """Parse Markdown; text that the parser cannot handle becomes plain text with its markup."""
    title = None
    if found := _FRONT_MATTER.match(text):
        text = text[found.end() :]
        if field := _TITLE.search(found["fields"]):
            title = _read_scalar(field["value"].strip())
    blocks, levels = read_markdown(text, HeadingPlaces(), ContentsFinder())
    if not title and begins_with_title(levels):
        title = blocks[0].text
    return Loaded(tuple(blocks), title)


def read_markdown(
    text: str, places: HeadingPlaces, contents: ContentsFinder, parser: MarkdownIt | None = None
) -> tuple[list[Block], list[int]]:
    """Return the blocks of a text that starts at a place, and the heading level of each, else 0."""
    # Pass a `parser` to reuse it for several texts.
    try:
        parser = parser or make_parser()
        # Reset, because parsing changes it.
        parser.options["maxNesting"] = _MAX_DEPTH
        parsed = _read_pieces(parser.parse(_limit_depth(text)))
        pieces = [piece for piece in parsed if piece.text.strip()]
    # The parser may fail in unforeseen ways on untrusted input, not only by recursion.
    except Exception:
        return list(load_text(text).blocks), []
    blocks: list[Block] = []
    for piece in pieces:
        kind = piece.kind
        if piece.underlined and not contents.is_open:
            kind = BlockKind.PARAGRAPH
        is_contents = contents.enter(piece.text, kind, level=piece.level, linked=piece.links_ahead)
        if not is_contents and not piece.underlined:
            places.enter(piece.level, piece.text)
        blocks.append(
            Block(
                piece.kind,
                piece.text,
                places.chapter,
                places.section,
                is_contents=is_contents,
                header_rows=piece.header_rows,
            )
        )
        if not is_contents and piece.underlined:
            places.enter(piece.level, piece.text)
    return blocks, [piece.level for piece in pieces]


def _read_scalar(value: str) -> str | None:
    """Return a plain or quoted YAML scalar; None for a list, a mapping or a block."""
    if value[0] in "\"'":
        end = value.find(value[0], 1)
        return value[1:end].strip() or None if end > 0 else None
    return None if value[0] in "[{|>&*!%@`#" else re.split(r"\s#", value, maxsplit=1)[0].strip()


def _limit_depth(text: str) -> str:
    """Escape the markers of containers that are nested too deep, so that they become text."""
    # The parser would drop their content. Each line is treated separately, so it does not affect
    # the text before it.

    def escape(found: re.Match[str]) -> str:
        margin = found[0]
        for count, marker in enumerate(_MARKER.finditer(margin), 1):
            # A container indents its later lines by at least two columns.
            before = margin[: marker.start()]
            if len(before.expandtabs(4)) // 2 + count > _MAX_CONTAINERS:
                return f"{before}\\{margin[marker.start() :]}"
        return margin

    return _WIDE_MARGIN.sub(escape, _DEEP_LINE.sub(r"\\", text))


def make_parser() -> MarkdownIt:
    """Return a parser for one thread."""
    # Imported on first use, because most runs of the program parse no Markdown.
    from markdown_it import MarkdownIt

    # With HTML off, tags are text, so that no text between tags is lost.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_DEPTH}).enable("table")
    parser.core.ruler.at("inline", _parse_inline)
    parser.inline.ruler.after("link", "reference", _read_reference)
    return parser


def _parse_inline(state: StateCore) -> None:
    """Parse the inline text of all blocks. A reference needs an earlier definition."""
    # A later definition must not change earlier text.
    state.md.options["maxNesting"] = _MAX_INLINE_DEPTH
    defined = sorted(
        state.env.get("references", {}).items(), key=lambda pair: pair[1]["map"][1], reverse=True
    )
    # Without definitions the parser skips the costly search for references.
    state.env.pop("references", None)
    for token in state.tokens:
        if token.type == "inline":
            while defined and token.map and defined[-1][1]["map"][1] <= token.map[0]:
                label, definition = defined.pop()
                state.env.setdefault("references", {})[label] = definition
            token.children = []
            state.md.inline.parse(token.content, state.md, state.env, token.children)


def _read_reference(state: StateInline, silent: bool) -> bool:
    """Parse a link such as "[text][1]" without its definition."""
    start = state.pos
    found = _REFERENCE.match(state.src, start, state.posMax)
    if found is None or state.src[max(start - 1, 0) : start].isalnum():
        return False
    if sum(map(str.isalpha, found["text"])) < 2:
        return False
    if not silent:
        if state.pending.endswith("!"):
            state.pending = state.pending[:-1]  # The mark of an image.
        limit, state.pos, state.posMax = state.posMax, start + 1, found.end("text")
        state.push("link_open", "a", 1).attrs = {"href": ""}
        state.linkLevel += 1
        state.md.inline.tokenize(state)
        state.linkLevel -= 1
        state.push("link_close", "a", -1)
        state.posMax = limit
    state.pos = found.end()
    return True


def _read_pieces(tokens: Iterable[Token]) -> Iterator[_Piece]:
    lists: list[int | None] = []
    """Open lists: the number of the next item, or None for a bulleted list."""
    rows: list[list[str]] = []
    quotes, marker, opened, markup = 0, "", "", ""
    anchors: set[str] = set()
    for token in tokens:
        match token.type:
            case "inline":
                children = token.children or ()
                text = _plain_text(children)
                ahead = links_ahead(_linked_text(children, anchors), text)
                if opened in ("th", "td"):
                    rows[-1].append(" ".join(text.split()))
                elif lists:
                    # The marker precedes the first paragraph of an item; the rest is indented.
                    margin = "  " * (len(lists) - 1)
                    text = margin + (marker or "  ") + text.replace("\n", f"\n{margin}  ")
                    marker = ""
                    yield _Piece(BlockKind.LIST, text, links_ahead=ahead)
                elif quotes:
                    yield _Piece(BlockKind.QUOTE, text, links_ahead=ahead)
                # A line of dashes does not turn prose into a heading.
                elif opened.startswith("h") and (markup[0] == "#" or "\n" not in text):
                    title = " ".join(text.split())
                    # The address that programs give to a heading.
                    anchors.add(_NOT_IN_ANCHORS.sub("", title.casefold()).replace(" ", "-"))
                    yield _Piece(BlockKind.HEADING, title, int(opened[1]), markup[0] != "#")
                else:
                    yield _Piece(BlockKind.PARAGRAPH, text, links_ahead=ahead)
            case "fence" | "code_block":
                yield _Piece(BlockKind.CODE, token.content)
            case "table_open":
                rows = []
            case "tr_open":
                rows.append([])
            case "table_close":
                # The first row of a table is the header, which may be empty.
                header = any(rows[0]) if len(rows) > 1 else False
                lines = [" | ".join(row) for row in rows]
                yield _Piece(BlockKind.TABLE, "\n".join(lines), header_rows=int(header))
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
        if token.nesting == 1:
            opened, markup = token.tag, token.markup


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


def _linked_text(tokens: Iterable[Token], anchors: Container[str]) -> str:
    """Return the text of links to places in this text that are not among `anchors`."""
    parts: list[str] = []
    depth = 0
    for token in tokens:
        if token.type == "link_open":
            address = str(token.attrGet("href") or "")
            known = unquote(address[1:]).casefold() in anchors
            depth += 1 if depth or (address[:1] == "#" and not known) else 0
        elif token.type == "link_close":
            depth -= bool(depth)
        elif depth:
            parts.append(_plain_text([token]))
    return "".join(parts)
