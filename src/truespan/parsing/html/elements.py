"""The state of the reader of a page, and the handler of each element.

A start handler is called where its element starts; it returns the handler to call where it ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from truespan.parsing.headings import LOWEST_LEVEL
from truespan.parsing.html.inline import (
    Attributes,
    Flow,
    Inline,
    Page,
    Picture,
    effective_tag,
    is_layout,
    page_number,
    read_picture,
)
from truespan.parsing.html.structure import (
    PAGE,
    TERM,
    Head,
    Item,
    PageList,
    Piece,
    Table,
    enter_region,
    one_line,
    whole_number,
)
from truespan.types.text import BlockKind

EndHandler = Callable[[], None]

# Looking up a member of an enumeration takes longer than everything else for a short block.
_HEADING, _PARAGRAPH = BlockKind.HEADING, BlockKind.PARAGRAPH


class PageState:
    """What the open elements of a page mean for the text in them."""

    def __init__(self) -> None:
        self.head = Head()
        self.pieces: list[Piece] = []
        self.out = self.pieces
        """Where pieces are added: to the page or to the cell of a table."""
        self.inline = Inline()
        self.level = 0
        self.quotes = self.notes = self.captions = 0
        self.code = self.links = self.drawings = 0
        self.superscripts = self.superscript_total = 0
        """How many superscripts are open, and how many there were in all."""
        self.lists: list[PageList] = []
        self.item: Item | None = None
        self.tables: list[Table] = []
        self.flat_tables = 0
        self.region, self.articles = PAGE, 0
        self.has_parentheses = False
        self.skipped = 0
        """How many elements are open whose content is ignored."""
        self.captured: list[str] | None = None

    def flush(self) -> None:
        """End the current block, if any. Within code, end a line.

        Marks without text wait for the text that follows, unless one is a picture.
        """
        if not self.inline.parts:
            return
        if self.code:
            self.inline.begin_line()
            return
        kind = self.kind
        text = self.inline.take_plain()
        if text:
            # The same as `emit`, without the checks that plain text does not need.
            piece = Piece(kind, text, self.region)
            if self.lists:
                piece.depth = len(self.lists)
                piece.item, self.item = self.item, None
            if self.level and kind is _HEADING:
                piece.level = self.level
            self.out.append(piece)
        elif text is None:
            flow = self.inline.take(breaks=kind is not _HEADING)
            if flow.text or any(isinstance(mark, Picture) for _, mark in flow.marks):
                self.emit(flow, kind)
            elif flow.marks:
                self.inline.add_flow(flow)

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
        """Return the kind of a block here. Headings in lists, quotes and notes begin no chapter."""
        if self.notes:
            return BlockKind.FOOTNOTE
        if self.captions:
            return BlockKind.CAPTION
        if self.lists:
            return BlockKind.LIST
        if self.quotes:
            return BlockKind.QUOTE
        return _HEADING if self.level else _PARAGRAPH

    def count(self, counter: str) -> EndHandler:
        """Count a block in the attribute `counter` until it ends."""
        self.flush()
        setattr(self, counter, getattr(self, counter) + 1)

        def end() -> None:
            self.flush()
            setattr(self, counter, getattr(self, counter) - 1)

        return end

    def capture(self, callback: Callable[[str], None]) -> EndHandler:
        """Keep the text of an element out of the page and pass it to `callback` at its end."""
        captured: list[str] = []
        self.skipped, self.captured = 1, captured

        def end() -> None:
            self.captured = None
            callback("".join(captured))

        return end


_REFERENCES = frozenset({"noteref", "doc-noteref"})
_REFERENCE_CLASSES = frozenset(
    {"footnote-ref", "sdfootnoteanc", "sdendnoteanc", "sdfootnotesym", "sdendnotesym"}
)
_BACK_ROLES = frozenset({"backlink", "doc-backlink"})
_NOTE_CLASSES = frozenset({"footnotes", "footnote"})
_NOTE_ID = re.compile(r"sd(?:foot|end)note\d{1,6}")

_SUPERSCRIPT_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_MARK = re.compile(
    r"(?P<open>[\[(])?\s*(?P<mark>\d{1,4}|[*†‡§¶]{1,4}|[ivxlc]{1,8}|[^\W\d_]{1,3})\s*(?(open)[\])])",
    re.IGNORECASE,
)
_BACK = re.compile("(?:[↩↑↵⤴][\ufe0e\ufe0f]?\\s*\\d{0,3}|\\^)[\ufe0e\ufe0f]?")
_LONGEST_MARK, _LONGEST_BACK_LINK = 20, 40
"""Longer links are text, whatever their attributes say."""


class _Purpose(Enum):
    """What a link is for, as far as its attributes tell."""

    REFERENCE = auto()
    BACK = auto()
    WITHIN = auto()
    """It leads to a place in the document, which may be a note."""


def _start_link(page: PageState, _: str, attributes: Attributes) -> EndHandler:
    """Count a link; at its end, rewrite its text if it is the number of a note."""
    page.links += 1
    purpose = _find_purpose(attributes) if attributes and not page.code else None
    inline, start = page.inline, page.inline.position()
    superscript_total = page.superscript_total
    in_superscript = page.superscripts > 0

    def end() -> None:
        page.links -= 1
        text = inline.text_since(start) if purpose else None
        if purpose is None or text is None:
            return
        at_start = inline.is_blank_before(start)
        is_reference = (
            purpose is _Purpose.REFERENCE
            or in_superscript
            or page.superscript_total > superscript_total
            or (at_start and page.notes > 0)
        )
        marker = _format_note_link(text, purpose, is_reference, at_start)
        if marker is not None and not inline.is_bracketed(start):
            inline.replace_since(start, marker)

    return end


def _start_superscript(page: PageState, *_: object) -> EndHandler:
    page.superscripts += 1
    page.superscript_total += 1

    def end() -> None:
        page.superscripts -= 1

    return end


def _holds_notes(attributes: Attributes) -> bool:
    """Return whether an element holds notes, by the names that common programs write."""
    if not _NOTE_CLASSES.isdisjoint(_split_words(attributes, "class")):
        return True
    return bool(_NOTE_ID.fullmatch(attributes.get("id", "")[:40]))


def _find_purpose(attributes: Attributes) -> _Purpose | None:
    roles = {*_split_words(attributes, "epub:type"), *_split_words(attributes, "role")}
    if roles & _BACK_ROLES:
        return _Purpose.BACK
    classes = _split_words(attributes, "class")
    if roles & _REFERENCES or not _REFERENCE_CLASSES.isdisjoint(classes):
        return _Purpose.REFERENCE
    address = attributes.get("href", "")[:1000]
    return _Purpose.WITHIN if "#" in address and "://" not in address else None


def _split_words(attributes: Attributes, name: str) -> list[str]:
    return attributes[name][:200].lower().split() if name in attributes else []


def _format_note_link(
    text: str, purpose: _Purpose, is_reference: bool, at_start: bool
) -> str | None:
    """Return the text that replaces a link to or from a note; None to keep it as it is."""
    bare = text.strip()
    if len(bare) <= _LONGEST_MARK and _BACK.fullmatch(bare):
        return ""
    plain = bare.translate(_SUPERSCRIPT_DIGITS)
    found = _MARK.fullmatch(plain) if len(plain) <= _LONGEST_MARK else None
    if purpose is _Purpose.BACK and not (found and at_start):
        return "" if len(bare) <= _LONGEST_BACK_LINK else None
    if not found or not (is_reference or plain != bare or purpose is _Purpose.BACK):
        return None
    before = " " if text[0].isspace() else ""
    after = " " if at_start or text[-1].isspace() else ""
    return f"{before}[{found['mark']}]{after}"


StartHandler = Callable[[PageState, str, Attributes], EndHandler | None]

_DEEPEST_TABLE = 8
"""The deepest nesting of tables; the cells of deeper ones become paragraphs."""
_ROLE_LEVEL = 2
"""The level of a heading by role without a level."""


def skip(page: PageState, *_: object) -> None:
    """Ignore an element and its content."""
    page.skipped = 1


def is_always_block(tag: str) -> bool:
    """Return whether an element is a block, whatever its style."""
    return tag in START_HANDLERS and tag not in _WITHIN_LINES


def _skip_replaced(page: PageState, *_: object) -> None:
    """Ignore an element that takes up room in a line, but keep a space."""
    page.inline.add(" ")
    page.skipped = 1


def start_block(page: PageState, *_: object) -> EndHandler:
    """Start a block."""
    page.flush()
    return page.flush


def _start_quote(page: PageState, *_: object) -> EndHandler:
    return page.count("quotes")


def _start_caption(page: PageState, *_: object) -> EndHandler:
    return page.count("captions")


def _start_footnote(page: PageState, tag: str, attributes: Attributes) -> EndHandler:
    return _start_note(_start_item if tag == "li" else None, page, tag, attributes)


def _start_note(
    inner: StartHandler | None, page: PageState, tag: str, attributes: Attributes
) -> EndHandler:
    """Start one or more notes in an element that has a handler of its own."""
    end_note = page.count("notes")
    end_inner = inner(page, tag, attributes) if inner else None

    def end() -> None:
        if end_inner:
            end_inner()
        end_note()

    return end


def _with_notes(handler: StartHandler) -> StartHandler:
    """Wrap a handler so that it first checks whether its element holds notes."""

    def start(page: PageState, tag: str, attributes: Attributes) -> EndHandler | None:
        if attributes and _holds_notes(attributes):
            return _start_note(handler, page, tag, attributes)
        return handler(page, tag, attributes)

    return start


def _start_heading(page: PageState, tag: str, attributes: Attributes) -> EndHandler:
    level = int(tag[1]) if tag in _HEADINGS else _ROLE_LEVEL
    aria_level = whole_number(attributes.get("aria-level"))
    if aria_level and aria_level > 0:
        level = min(aria_level, LOWEST_LEVEL)
    page.flush()
    outer, page.level = page.level, level
    if level == 1 and page.region.landmark:
        page.region.landmark.has_title = True

    def end() -> None:
        page.flush()
        page.level = outer

    return end


def _start_code(page: PageState, *_: object) -> EndHandler:
    page.flush()
    page.code += 1

    def end() -> None:
        page.code -= 1
        if not page.code:
            flow = page.inline.take_verbatim()
            if flow.text.strip() or flow.marks:
                page.emit(flow, BlockKind.CODE)

    return end


def _start_region(page: PageState, tag: str, attributes: Attributes) -> EndHandler | None:
    """Start a region that may be navigation or boilerplate, or the main text."""
    page.flush()
    outer, role_tag = page.region, effective_tag(tag, attributes)
    if role_tag == "nav" and page.code:
        return skip(page)
    page.region = enter_region(outer, role_tag, page.articles)
    page.articles = max(page.articles, page.region.article)

    def end() -> None:
        page.flush()
        page.region = outer

    return end


def _start_dialog(page: PageState, _: str, attributes: Attributes) -> EndHandler | None:
    return start_block(page) if "open" in attributes else skip(page)


# Lists


def _start_list(page: PageState, tag: str, attributes: Attributes) -> EndHandler:
    page.flush()
    page.lists.append(
        PageList(
            ordered=True,
            style=attributes.get("type", "1"),
            start=whole_number(attributes.get("start")),
            descending="reversed" in attributes,
        )
        if tag == "ol"
        else PageList()
    )

    def end() -> None:
        page.flush()
        page.lists.pop()

    return end


def _start_item(page: PageState, _: str, attributes: Attributes) -> EndHandler:
    end_list = None if page.lists else _start_list(page, "ul", attributes)
    page.flush()
    page.item = page.lists[-1].next_item(whole_number(attributes.get("value")))

    def end() -> None:
        page.flush()
        page.item = None
        if end_list:
            end_list()

    return end


def _start_term(page: PageState, *_: object) -> EndHandler:
    page.flush()
    page.item = TERM if page.lists else None
    return page.flush


# Tables


def _start_table(page: PageState, _: str, attributes: Attributes) -> EndHandler:
    page.flush()
    if len(page.tables) == _DEEPEST_TABLE:
        return page.count("flat_tables")
    table = Table(layout=is_layout(attributes))
    page.tables.append(table)
    outer, page.out = page.out, table.outside

    def end() -> None:
        page.flush()
        page.tables.pop()
        page.out = outer
        table.end_outside()
        outer.extend(table.captions)
        if table.is_layout:
            outer.extend(table.contents())
        else:
            flow = table.to_flow()
            outer.append(Piece(BlockKind.TABLE, flow.text, page.region, flow.marks))

    return end


def _start_row(page: PageState, *_: object) -> EndHandler:
    page.flush()
    if page.tables and not page.flat_tables:
        page.tables[-1].begin_row()
        page.out = page.tables[-1].outside
    return page.flush


def _start_cell(page: PageState, *_: object) -> EndHandler:
    page.flush()
    if not page.tables or page.flat_tables:
        return page.flush
    table = page.tables[-1]
    page.out = table.begin_cell()

    def end() -> None:
        page.flush()
        page.out = table.outside

    return end


# Within lines


def _add_break(page: PageState, *_: object) -> None:
    page.inline.break_line()


def _add_space(page: PageState, *_: object) -> None:
    page.inline.add(" ")


def _start_quotation(page: PageState, *_: object) -> EndHandler:
    page.inline.add("“")
    return partial(page.inline.add, "”")


def _start_ruby(page: PageState, *_: object) -> None:
    page.has_parentheses = False


def _start_parenthesis(page: PageState, *_: object) -> None:
    page.has_parentheses = True


def _start_pronunciation(page: PageState, *_: object) -> EndHandler | None:
    """Put a pronunciation in parentheses unless the page has its own."""
    if page.has_parentheses:
        return None
    page.inline.add("(")
    return partial(page.inline.add, ")")


# Pictures, printed pages and metadata


def _add_picture(page: PageState, tag: str, attributes: Attributes) -> None:
    if tag == "input" and attributes.get("type", "").strip().lower() != "image":
        page.inline.add(" ")
    elif picture := read_picture(tag, attributes):
        page.inline.mark(picture)


def _add_object(page: PageState, tag: str, attributes: Attributes) -> None:
    if attributes.get("type", "").strip().lower().startswith("image/"):
        _add_picture(page, tag, attributes)
    page.skipped = 1


def _start_drawing(page: PageState, *_: object) -> EndHandler:
    page.drawings += 1

    def end() -> None:
        page.drawings -= 1

    return end


def _add_drawing_image(page: PageState, _: str, attributes: Attributes) -> None:
    # Outside of drawings <image> is an old spelling of <img>.
    _add_picture(page, "image" if page.drawings else "img", attributes)


def _start_page(page: PageState, _: str, attributes: Attributes) -> EndHandler:
    label = attributes.get("title") or attributes.get("aria-label")

    def add_page(text: str) -> None:
        if number := page_number(label or text):
            page.inline.mark(Page(number))

    return page.capture(add_page)


def _start_title(page: PageState, *_: object) -> EndHandler:
    def set_title(text: str) -> None:
        if not page.drawings and page.head.title is None:
            page.head.title = one_line(text)

    return page.capture(set_title)


def _add_meta(page: PageState, _: str, attributes: Attributes) -> None:
    page.head.add_meta(attributes)


def _start_root(page: PageState, _: str, attributes: Attributes) -> EndHandler:
    language = attributes.get("lang") or attributes.get("xml:lang")
    page.head.language = page.head.language or one_line(language)
    return start_block(page)


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")

# fmt: off
_BLOCKS = (
    "address", "center", "dd", "details", "div", "fieldset", "figure", "form", "frameset",
    "hgroup", "hr", "legend", "p", "search", "summary", "tbody", "tfoot", "thead",
)
_SKIPPED = ("annotation", "annotation-xml", "datalist", "script", "style", "template")
_REPLACED = (
    "applet", "audio", "button", "canvas", "embed", "frame", "iframe", "meter", "progress",
    "select", "video",
)
_WITHIN_LINES = frozenset((
    *_SKIPPED, *_REPLACED, "a", "br", "image", "img", "input", "meta", "mtd", "mtr", "object",
    "q", "rp", "rt", "rtc", "ruby", "sup", "svg", "title",
))
# fmt: on
START_HANDLERS: dict[str, StartHandler] = {
    **dict.fromkeys(_BLOCKS, start_block),
    **dict.fromkeys(_SKIPPED, skip),
    **dict.fromkeys(_REPLACED, _skip_replaced),
    **dict.fromkeys(("mtd", "mtr"), _add_space),
    **dict.fromkeys((*_HEADINGS, "heading"), _start_heading),
    **dict.fromkeys(("pre", "listing", "xmp", "plaintext", "textarea"), _start_code),
    **dict.fromkeys(("caption", "figcaption"), _start_caption),
    **dict.fromkeys(("main", "article", "section", "nav"), _start_region),
    **dict.fromkeys(("header", "footer", "aside", "noscript", "noframes"), _start_region),
    **dict.fromkeys(("ul", "ol", "dl", "menu", "dir"), _start_list),
    **dict.fromkeys(("td", "th"), _start_cell),
    **dict.fromkeys(("rt", "rtc"), _start_pronunciation),
    **dict.fromkeys(("img", "input"), _add_picture),
    **dict.fromkeys(("html", "body"), _start_root),
    "blockquote": _start_quote,
    "footnote": _start_footnote,
    "pagebreak": _start_page,
    "dialog": _start_dialog,
    "li": _start_item,
    "dt": _start_term,
    "table": _start_table,
    "tr": _start_row,
    "br": _add_break,
    "a": _start_link,
    "sup": _start_superscript,
    "q": _start_quotation,
    "ruby": _start_ruby,
    "rp": _start_parenthesis,
    "object": _add_object,
    "svg": _start_drawing,
    "image": _add_drawing_image,
    "title": _start_title,
    "meta": _add_meta,
}
for _tag in ("div", "section", "aside", "ol", "ul", "dl"):
    START_HANDLERS[_tag] = _with_notes(START_HANDLERS[_tag])
