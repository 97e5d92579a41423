"""The reader of a page, and the handlers of elements.

A handler is called at the start of its element and returns a function to call at the end. Some
handlers are generators, which continue after `yield` at the end of the element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import unquote

from msgspec.structs import replace

from truespan.parsing.formats.html.inline import (
    MEANINGFUL,
    Anchor,
    Attributes,
    Flow,
    Inline,
    Page,
    Picture,
    effective_tag,
    find_purpose,
    format_note_link,
    holds_notes,
    is_block,
    is_contents_list,
    is_hidden,
    is_layout,
    page_number,
    read_picture,
)
from truespan.parsing.formats.html.structure import (
    PAGE,
    Head,
    PageList,
    Piece,
    Table,
    enter_region,
    one_line,
    whole_number,
)
from truespan.text.headings import MAX_LEVEL
from truespan.types.text import BlockKind

End = Callable[[], None]

_IN_DRAWINGS = frozenset({"svg", "image", "title"})


class PageReader:
    """Parser target that collects the pieces of a page; `targets` are the element ids to mark.

    In a book, `is_later` returns whether a link points to a later page; None if to this page.
    """

    def __init__(
        self,
        targets: frozenset[str] = frozenset(),
        is_later: Callable[[str], bool | None] = lambda href: None if href[:1] == "#" else False,
    ) -> None:
        self._targets = targets
        self._is_later = is_later
        self._ids: set[str] = set()
        self.later_links = 0
        self._linked: list[str] = []
        self._ends: list[End | None] = []
        self.head = Head()
        self.pieces: list[Piece] = []
        self.out = self.pieces
        """Current list of pieces: of the page or of a table cell."""
        self.inline = Inline()
        self.level = 0
        self.quotes = self.notes = self.captions = 0
        self.code = self.links = self.drawings = 0
        self.superscripts = self.superscript_total = 0
        self.lists: list[PageList] = []
        self.marker: str | None = None
        self.tables: list[Table] = []
        self.flat_tables = 0
        self.region, self.articles = PAGE, 0
        self.has_parentheses = False
        self.skipped = 0
        """Number of open elements whose content is ignored."""
        self.captured: list[str] | None = None

    # lxml defines the names of these four methods.

    def start(self, tag: str, attributes: Attributes) -> None:
        if self.skipped:
            self.skipped += 1
            return
        handler = HANDLERS.get(tag)
        if handler is None and ":" in tag:
            tag = tag[tag.rfind(":") + 1 :]
            handler = HANDLERS.get(tag)
        if self.drawings and tag not in _IN_DRAWINGS:
            handler = None
        elif attributes:
            if id := attributes.get("id") or attributes.get("name"):
                self._ids.add(id)
            for name in ("id", "xml:id", "name") if self._targets else ():
                id = attributes.get(name) if name != "name" or tag == "a" else None
                if id and id in self._targets:
                    if tag in HANDLERS and tag not in _WITHIN_LINES:
                        self.flush()
                    self.inline.mark(Anchor(id))
                    break
            if not MEANINGFUL.isdisjoint(attributes):
                handler = _apply_attributes(tag, attributes, handler)
            if handler and tag not in _NO_LISTS and is_contents_list(attributes):
                handler = _in_contents(handler)
        self._ends.append(handler(self, tag, attributes) if handler else None)

    def data(self, text: str) -> None:
        if self.skipped:
            if self.captured is not None:
                self.captured.append(text)
        elif not self.drawings:
            self.inline.add(text)
            if self.later_links:
                self._linked.append(text)
            region = self.region
            if region.landmark and not region.navigation:
                region.landmark.count(text, bool(self.links))

    def end(self, _: str) -> None:
        if self.skipped:
            self.skipped -= 1
            if self.skipped:
                return
        if end := self._ends.pop():
            end()

    def close(self) -> list[Piece]:
        """Return the pieces of the page; marks after the last text are in a piece without text."""
        flow = self.inline.take()
        if flow.text or flow.marks:
            self.emit(flow, self.kind)
        return self.pieces

    def flush(self) -> None:
        """End the block, or the line in code. Marks without text are kept for the next block."""
        if not self.inline.parts:
            return
        if self.code:
            self.inline.begin_line()
            return
        kind = self.kind
        flow = self.inline.take(breaks=kind is not BlockKind.HEADING)
        if flow.text or any(isinstance(mark, Picture) for _, mark in flow.marks):
            self.emit(flow, kind)
        elif flow.marks:
            self.inline.add_flow(flow)

    def emit(self, flow: Flow, kind: BlockKind) -> None:
        level = self.level if kind is BlockKind.HEADING else 0
        piece = Piece(kind, flow.text, self.region, flow.marks, level)
        if self.lists and kind is not BlockKind.CODE:
            piece.depth = len(self.lists)
            if flow.text:
                piece.marker, self.marker = self.marker, None
        piece.linked = "".join(self._linked)
        self._linked.clear()
        self.out.append(piece)

    def points_ahead(self, address: str) -> bool:
        address = address.strip()
        later = self._is_later(address) if address else False
        if later is not None:
            return later
        fragment = address.partition("#")[2]
        return bool(fragment) and not self._ids & {fragment, unquote(fragment)}

    @property
    def kind(self) -> BlockKind:
        """Kind of the current block. Headings in lists, quotes and notes begin no chapter."""
        if self.notes:
            return BlockKind.FOOTNOTE
        if self.captions:
            return BlockKind.CAPTION
        if self.lists:
            return BlockKind.LIST
        if self.quotes:
            return BlockKind.QUOTE
        return BlockKind.HEADING if self.level else BlockKind.PARAGRAPH

    def enter(self, **values: object) -> End:
        """Start a block with other values of these attributes until it ends."""
        self.flush()
        outer = {name: getattr(self, name) for name in values}
        for name, value in values.items():
            setattr(self, name, value)

        def end() -> None:
            self.flush()
            for name, value in outer.items():
                setattr(self, name, value)

        return end

    def capture(self) -> list[str]:
        """Collect the text of an element outside of the page; return the list for it."""
        self.skipped, self.captured = 1, []
        return self.captured


Handler = Callable[[PageReader, str, Attributes], End | None]

_MAX_TABLE_DEPTH = 8
"""Maximum nesting of tables; cells of deeper tables become paragraphs."""
_ROLE_LEVEL = 2
"""Level of a heading with the role `heading` and no level."""


def _handler(steps: Callable[[PageReader, str, Attributes], Iterator[None]]) -> Handler:
    """Turn a generator into a handler; code after `yield` runs at the end of the element."""

    def start(page: PageReader, tag: str, attributes: Attributes) -> End:
        running = steps(page, tag, attributes)
        next(running, None)
        return partial(next, running, None)

    return start


def _skip(page: PageReader, *_: object) -> None:
    page.skipped = 1


def _skip_replaced(page: PageReader, *_: object) -> None:
    """Replace an inline element by a space."""
    page.inline.add(" ")
    page.skipped = 1


def _start_block(page: PageReader, *_: object) -> End:
    page.flush()
    return page.flush


@_handler
def _read_link(page: PageReader, _: str, attributes: Attributes) -> Iterator[None]:
    """Count a link; at its end, rewrite its text if it is the number of a note."""
    page.links += 1
    points_ahead = page.points_ahead(attributes.get("href", ""))
    page.later_links += points_ahead
    purpose = find_purpose(attributes) if attributes and not page.code else None
    inline, start = page.inline, page.inline.position()
    superscript_total, in_superscript = page.superscript_total, page.superscripts > 0
    yield
    page.links -= 1
    page.later_links -= points_ahead
    text = inline.text_since(start) if purpose else None
    if purpose is None or text is None:
        return
    at_start = inline.is_blank_before(start)
    is_reference = (
        purpose == "reference"
        or in_superscript
        or page.superscript_total > superscript_total
        or (at_start and page.notes > 0)
    )
    marker = format_note_link(text, purpose, is_reference, at_start)
    if marker is not None:
        inline.replace_since(start, marker)


@_handler
def _read_superscript(page: PageReader, *_: object) -> Iterator[None]:
    page.superscripts += 1
    page.superscript_total += 1
    yield
    page.superscripts -= 1


def _around(inner: Handler | None, enter: Callable[[PageReader], End]) -> Handler:
    """Return a handler that enters a part of the page around another handler, if there is one."""

    @_handler
    def read(page: PageReader, tag: str, attributes: Attributes) -> Iterator[None]:
        end_part = enter(page)
        end_inner = inner(page, tag, attributes) if inner else None
        yield
        if end_inner:
            end_inner()
        end_part()

    return read


def _with_notes(inner: Handler | None) -> Handler:
    return _around(inner, lambda page: page.enter(notes=page.notes + 1))


def _in_contents(inner: Handler) -> Handler:
    return _around(inner, lambda page: page.enter(region=replace(page.region, contents=True)))


def _may_hold_notes(handler: Handler) -> Handler:
    with_notes = _with_notes(handler)

    def start(page: PageReader, tag: str, attributes: Attributes) -> End | None:
        chosen = with_notes if attributes and holds_notes(attributes) else handler
        return chosen(page, tag, attributes)

    return start


def _start_heading(page: PageReader, tag: str, attributes: Attributes) -> End:
    level = int(tag[1]) if tag in _HEADINGS else _ROLE_LEVEL
    aria_level = whole_number(attributes.get("aria-level"))
    if aria_level and aria_level > 0:
        level = min(aria_level, MAX_LEVEL)
    if level == 1 and page.region.landmark:
        page.region.landmark.has_title = True
    return page.enter(level=level)


@_handler
def _read_code(page: PageReader, *_: object) -> Iterator[None]:
    page.flush()
    page.code += 1
    yield
    page.code -= 1
    if not page.code:
        flow = page.inline.take_verbatim()
        if flow.text.strip() or flow.marks:
            page.emit(flow, BlockKind.CODE)


def _start_region(page: PageReader, tag: str, attributes: Attributes) -> End | None:
    """Start a region that may be navigation or boilerplate, or the main text."""
    page.flush()
    role_tag = effective_tag(tag, attributes)
    if role_tag == "nav" and page.code:
        return _skip(page)
    region = enter_region(page.region, role_tag, page.articles)
    page.articles = max(page.articles, region.article)
    return page.enter(region=region)


@_handler
def _read_list(page: PageReader, tag: str, attributes: Attributes) -> Iterator[None]:
    page.flush()
    started = PageList()
    if tag == "ol":
        start, step = whole_number(attributes.get("start")), 1
        if "reversed" in attributes:
            step = -1
        # Without a start, the numbers of a descending list depend on the items that follow.
        if start is not None or step > 0:
            first = 1 if start is None else start
            started = PageList(True, attributes.get("type", "1"), first - step, step)
    page.lists.append(started)
    yield
    page.flush()
    page.lists.pop()


@_handler
def _read_item(page: PageReader, _: str, attributes: Attributes) -> Iterator[None]:
    end_list = None if page.lists else _read_list(page, "ul", attributes)
    page.flush()
    page.marker = page.lists[-1].next_marker(whole_number(attributes.get("value")))
    yield
    page.flush()
    page.marker = None
    if end_list:
        end_list()


def _start_term(page: PageReader, *_: object) -> End:
    """Start a term of a definition list, which has no marker and no indentation."""
    page.flush()
    page.marker = "" if page.lists else None
    return page.flush


@_handler
def _read_table(page: PageReader, _: str, attributes: Attributes) -> Iterator[None]:
    page.flush()
    if len(page.tables) == _MAX_TABLE_DEPTH:
        page.flat_tables += 1
        yield
        page.flush()
        page.flat_tables -= 1
        return
    table = Table(layout=is_layout(attributes))
    page.tables.append(table)
    outer, page.out = page.out, table.outside
    yield
    page.flush()
    page.tables.pop()
    page.out = outer
    table.end_outside()
    outer.extend(table.captions)
    if table.is_layout:
        outer.extend(table.contents())
    else:
        flow = table.to_flow()
        linked = " ".join(piece.linked for piece in table.contents())
        piece = Piece(BlockKind.TABLE, flow.text, page.region, flow.marks, linked=linked)
        piece.header_rows = table.header_rows
        outer.append(piece)


@_handler
def _read_table_head(page: PageReader, *_: object) -> Iterator[None]:
    page.flush()
    table = page.tables[-1] if page.tables and not page.flat_tables else None
    if table:
        table.in_head = True
    yield
    page.flush()
    if table:
        table.in_head = False


def _start_row(page: PageReader, *_: object) -> End:
    page.flush()
    if page.tables and not page.flat_tables:
        page.tables[-1].begin_row()
        page.out = page.tables[-1].outside
    return page.flush


@_handler
def _read_cell(page: PageReader, tag: str, _: Attributes) -> Iterator[None]:
    page.flush()
    table = page.tables[-1] if page.tables and not page.flat_tables else None
    if table:
        page.out = table.begin_cell(is_heading=tag == "th")
    yield
    page.flush()
    if table:
        page.out = table.outside


def _start_quotation(page: PageReader, *_: object) -> End:
    page.inline.add("“")
    return partial(page.inline.add, "”")


def _start_pronunciation(page: PageReader, *_: object) -> End | None:
    """Put a pronunciation in parentheses unless the page has its own."""
    if page.has_parentheses:
        return None
    page.inline.add("(")
    return partial(page.inline.add, ")")


def _add_picture(page: PageReader, tag: str, attributes: Attributes) -> None:
    if tag == "input" and attributes.get("type", "").strip().lower() != "image":
        page.inline.add(" ")
        return
    # Outside of drawings, <image> is an alias of <img>.
    tag = "img" if tag == "image" and not page.drawings else tag
    if picture := read_picture(tag, attributes):
        page.inline.mark(picture)


def _add_object(page: PageReader, tag: str, attributes: Attributes) -> None:
    if attributes.get("type", "").strip().lower().startswith("image/"):
        _add_picture(page, tag, attributes)
    page.skipped = 1


@_handler
def _read_drawing(page: PageReader, *_: object) -> Iterator[None]:
    page.drawings += 1
    yield
    page.drawings -= 1


@_handler
def _read_page_break(page: PageReader, _: str, attributes: Attributes) -> Iterator[None]:
    label, captured = attributes.get("title") or attributes.get("aria-label"), page.capture()
    yield
    page.captured = None
    if number := page_number(label or "".join(captured)):
        page.inline.mark(Page(number))


@_handler
def _read_title(page: PageReader, *_: object) -> Iterator[None]:
    captured = page.capture()
    yield
    page.captured = None
    if not page.drawings and page.head.title is None:
        page.head.title = one_line("".join(captured))


def _start_root(page: PageReader, _: str, attributes: Attributes) -> End:
    language = attributes.get("lang") or attributes.get("xml:lang")
    page.head.language = page.head.language or one_line(language)
    return _start_block(page)


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")

# fmt: off
_BLOCKS = (
    "address", "center", "dd", "details", "div", "fieldset", "figure", "form", "frameset",
    "hgroup", "hr", "legend", "p", "search", "summary", "tbody", "tfoot",
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
_NO_LISTS = frozenset((*_WITHIN_LINES, *_HEADINGS, "html", "main", "article"))
"""Elements that are never a contents list, regardless of their class."""
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_BLOCKS, _start_block),
    **dict.fromkeys(_SKIPPED, _skip),
    **dict.fromkeys(_REPLACED, _skip_replaced),
    **dict.fromkeys(("mtd", "mtr"), lambda page, *_: page.inline.add(" ")),
    **dict.fromkeys((*_HEADINGS, "heading"), _start_heading),
    **dict.fromkeys(("pre", "listing", "xmp", "plaintext", "textarea"), _read_code),
    **dict.fromkeys(
        ("caption", "figcaption"), lambda page, *_: page.enter(captions=page.captions + 1)
    ),
    **dict.fromkeys(("main", "article", "section", "nav"), _start_region),
    **dict.fromkeys(("header", "footer", "aside", "noscript", "noframes"), _start_region),
    **dict.fromkeys(("ul", "ol", "dl", "menu", "dir"), _read_list),
    **dict.fromkeys(("td", "th"), _read_cell),
    **dict.fromkeys(("rt", "rtc"), _start_pronunciation),
    **dict.fromkeys(("img", "image", "input"), _add_picture),
    **dict.fromkeys(
        ("ruby", "rp"), lambda page, tag, _: setattr(page, "has_parentheses", tag == "rp")
    ),
    **dict.fromkeys(("html", "body"), _start_root),
    "blockquote": lambda page, *_: page.enter(quotes=page.quotes + 1),
    "footnote": lambda page, tag, attributes: _with_notes(_read_item if tag == "li" else None)(
        page, tag, attributes
    ),
    "pagebreak": _read_page_break,
    "dialog": lambda page, _, attributes: (_start_block if "open" in attributes else _skip)(page),
    "li": _read_item,
    "dt": _start_term,
    "table": _read_table,
    "thead": _read_table_head,
    "tr": _start_row,
    "br": lambda page, *_: page.inline.break_line(),
    "a": _read_link,
    "sup": _read_superscript,
    "q": _start_quotation,
    "object": _add_object,
    "svg": _read_drawing,
    "title": _read_title,
    "meta": lambda page, _, attributes: page.head.add_meta(attributes),
}
for _tag in ("div", "section", "aside", "ol", "ul", "dl"):
    HANDLERS[_tag] = _may_hold_notes(HANDLERS[_tag])


def _apply_attributes(tag: str, attributes: Attributes, handler: Handler | None) -> Handler | None:
    if tag in ("html", "body"):
        return handler
    role_tag = effective_tag(tag, attributes)
    # A note that is shown on request is hidden, but it is part of the text.
    if role_tag == "footnote":
        return HANDLERS[role_tag]
    if is_hidden(attributes):
        return _skip
    if role_tag != tag and handler is not _skip:
        return HANDLERS[role_tag]
    return _start_block if handler is None and is_block(attributes) else handler
