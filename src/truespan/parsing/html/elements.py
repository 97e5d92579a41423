"""What each element of a page means for the text in it.

A function here is called where its element begins; what it returns is called where that ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from truespan.parsing.headings import LOWEST_LEVEL
from truespan.parsing.html.inline import (
    Attributes,
    Page,
    is_layout,
    page_number,
    picture_of,
    played_tag,
)
from truespan.parsing.html.state import Closing, Open, Piece, holds_notes, open_link, open_raised
from truespan.parsing.html.structure import (
    TERM,
    PageList,
    Table,
    enter,
    one_line,
    ordered_list,
    whole_number,
)
from truespan.types.text import BlockKind

Opening = Callable[[Open, str, Attributes], Closing | None]

_DEEPEST_TABLE = 8
"""Tables within tables that are told apart; the cells of deeper ones are paragraphs."""
_ROLE_LEVEL = 2
"""The level of a heading by role that gives none."""


def skip(page: Open, *_: object) -> None:
    """Keep nothing of an element."""
    page.skipped = 1


def is_always_block(tag: str) -> bool:
    """Say whether an element stands on lines of its own, whatever its style."""
    return tag in OPENINGS and tag not in _WITHIN_LINES


def _replace(page: Open, *_: object) -> None:
    """Keep nothing of an element that takes up room in a line, but the room."""
    page.inline.add(" ")
    page.skipped = 1


def open_block(page: Open, *_: object) -> Closing:
    """Begin a block."""
    page.flush()
    return page.flush


def _quote(page: Open, *_: object) -> Closing:
    return page.count("quotes")


def _caption(page: Open, *_: object) -> Closing:
    return page.count("captions")


def _footnote(page: Open, tag: str, attributes: Attributes) -> Closing:
    return _as_note(_list_item if tag == "li" else None, page, tag, attributes)


def _as_note(inner: Opening | None, page: Open, tag: str, attributes: Attributes) -> Closing:
    """Begin a note, or several, whose element has a meaning of its own as well."""
    close = page.count("notes")
    close_inner = inner(page, tag, attributes) if inner else None

    def close_both() -> None:
        if close_inner:
            close_inner()
        close()

    return close_both


def _or_notes(opening: Opening) -> Opening:
    """Return an opening that looks first whether its element holds notes."""

    def open_either(page: Open, tag: str, attributes: Attributes) -> Closing | None:
        if attributes and holds_notes(attributes):
            return _as_note(opening, page, tag, attributes)
        return opening(page, tag, attributes)

    return open_either


def _heading(page: Open, tag: str, attributes: Attributes) -> Closing:
    named = int(tag[1]) if tag in _HEADINGS else _ROLE_LEVEL
    given = whole_number(attributes.get("aria-level"))
    level = min(given, LOWEST_LEVEL) if given and given > 0 else named
    page.flush()
    before, page.level = page.level, level
    if level == 1 and page.region.landmark:
        page.region.landmark.has_title = True

    def close() -> None:
        page.flush()
        page.level = before

    return close


def _code(page: Open, *_: object) -> Closing:
    page.flush()
    page.code += 1

    def close() -> None:
        page.code -= 1
        if not page.code:
            flow = page.inline.take_verbatim()
            if flow.text.strip() or flow.marks:
                page.emit(flow, BlockKind.CODE)

    return close


def _part(page: Open, tag: str, attributes: Attributes) -> Closing | None:
    """Open a part of the page that may be furniture, or be all that is wanted."""
    page.flush()
    before, role = page.region, played_tag(tag, attributes)
    if role == "nav" and page.code:
        return skip(page)
    page.region = enter(before, role, page.articles)
    page.articles = max(page.articles, page.region.article)

    def close() -> None:
        page.flush()
        page.region = before

    return close


def _dialog(page: Open, _: str, attributes: Attributes) -> Closing | None:
    return open_block(page) if "open" in attributes else skip(page)


# Lists


def _list(page: Open, tag: str, attributes: Attributes) -> Closing:
    page.flush()
    page.lists.append(ordered_list(attributes) if tag == "ol" else PageList())

    def close() -> None:
        page.flush()
        page.lists.pop()

    return close


def _list_item(page: Open, _: str, attributes: Attributes) -> Closing:
    close_list = None if page.lists else _list(page, "ul", attributes)
    page.flush()
    page.item = page.lists[-1].next_item(whole_number(attributes.get("value")))

    def close() -> None:
        page.flush()
        page.item = None
        if close_list:
            close_list()

    return close


def _term(page: Open, *_: object) -> Closing:
    page.flush()
    page.item = TERM if page.lists else None
    return page.flush


# Tables


def _table(page: Open, _: str, attributes: Attributes) -> Closing:
    page.flush()
    if len(page.tables) == _DEEPEST_TABLE:
        return page.count("lost_tables")
    table = Table[Piece](layout=is_layout(attributes))
    page.tables.append(table)
    before, page.out = page.out, table.outside

    def close() -> None:
        page.flush()
        page.tables.pop()
        page.out = before
        table.gather()
        before.extend(table.captions)
        if table.is_layout:
            before.extend(table.contents())
        else:
            before.append(_joined(page, table))

    return close


def _joined(page: Open, table: Table[Piece]) -> Piece:
    flow = table.joined()
    return Piece(BlockKind.TABLE, flow.text, page.region, flow.marks)


def _row(page: Open, *_: object) -> Closing:
    page.flush()
    if page.tables and not page.lost_tables:
        page.tables[-1].begin_row()
        page.out = page.tables[-1].outside
    return page.flush


def _cell(page: Open, *_: object) -> Closing:
    page.flush()
    if not page.tables or page.lost_tables:
        return page.flush
    table = page.tables[-1]
    page.out = table.begin_cell()

    def close() -> None:
        page.flush()
        page.out = table.outside

    return close


# Within lines


def _break(page: Open, *_: object) -> None:
    page.inline.break_line()


def _space(page: Open, *_: object) -> None:
    page.inline.add(" ")


def _quotation(page: Open, *_: object) -> Closing:
    page.inline.add("“")
    return partial(page.inline.add, "”")


def _ruby(page: Open, *_: object) -> None:
    page.has_parentheses = False


def _parenthesis(page: Open, *_: object) -> None:
    page.has_parentheses = True


def _reading(page: Open, *_: object) -> Closing | None:
    """Put how a word is read behind it, in parentheses where the page brings none."""
    if page.has_parentheses:
        return None
    page.inline.add("(")
    return partial(page.inline.add, ")")


# Pictures, pages and what is not shown


def _picture(page: Open, tag: str, attributes: Attributes) -> None:
    if tag == "input" and attributes.get("type", "").strip().lower() != "image":
        _space(page)
        return
    if picture := picture_of(tag, attributes):
        page.inline.mark(picture)


def _object(page: Open, tag: str, attributes: Attributes) -> None:
    if attributes.get("type", "").strip().lower().startswith("image/"):
        _picture(page, tag, attributes)
    page.skipped = 1


def _drawing(page: Open, *_: object) -> Closing:
    page.drawings += 1
    return page.close_drawing


def _drawn_picture(page: Open, _: str, attributes: Attributes) -> None:
    # Outside of drawings this is an old spelling of another element.
    _picture(page, "image" if page.drawings else "img", attributes)


def _page(page: Open, _: str, attributes: Attributes) -> Closing:
    label = attributes.get("title") or attributes.get("aria-label")

    def turn(text: str) -> None:
        if number := page_number(label or text):
            page.inline.mark(Page(number))

    return page.catch(turn)


def _title(page: Open, *_: object) -> Closing:
    def keep(text: str) -> None:
        if not page.drawings and page.head.title is None:
            page.head.title = one_line(text)

    return page.catch(keep)


def _meta(page: Open, _: str, attributes: Attributes) -> None:
    page.head.meta(attributes)


def _root(page: Open, _: str, attributes: Attributes) -> Closing:
    language = attributes.get("lang") or attributes.get("xml:lang")
    page.head.language = page.head.language or one_line(language)
    return open_block(page)


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
OPENINGS: dict[str, Opening] = {
    **dict.fromkeys(_BLOCKS, open_block),
    **dict.fromkeys(_SKIPPED, skip),
    **dict.fromkeys(_REPLACED, _replace),
    **dict.fromkeys(("mtd", "mtr"), _space),
    **dict.fromkeys((*_HEADINGS, "heading"), _heading),
    **dict.fromkeys(("pre", "listing", "xmp", "plaintext", "textarea"), _code),
    **dict.fromkeys(("caption", "figcaption"), _caption),
    **dict.fromkeys(("main", "article", "section", "nav"), _part),
    **dict.fromkeys(("header", "footer", "aside", "noscript", "noframes"), _part),
    **dict.fromkeys(("ul", "ol", "dl", "menu", "dir"), _list),
    **dict.fromkeys(("td", "th"), _cell),
    **dict.fromkeys(("rt", "rtc"), _reading),
    **dict.fromkeys(("img", "input"), _picture),
    **dict.fromkeys(("html", "body"), _root),
    "blockquote": _quote,
    "footnote": _footnote,
    "pagebreak": _page,
    "dialog": _dialog,
    "li": _list_item,
    "dt": _term,
    "table": _table,
    "tr": _row,
    "br": _break,
    "a": open_link,
    "sup": open_raised,
    "q": _quotation,
    "ruby": _ruby,
    "rp": _parenthesis,
    "object": _object,
    "svg": _drawing,
    "image": _drawn_picture,
    "title": _title,
    "meta": _meta,
}
OPENINGS.update(
    {tag: _or_notes(OPENINGS[tag]) for tag in ("div", "section", "aside", "ol", "ul", "dl")}
)
