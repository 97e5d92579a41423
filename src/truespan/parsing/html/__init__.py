"""HTML parser: the main text of a page as a browser shows it, with the outline of its headings."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from html import escape

import lxml.etree as etree

from truespan.errors import SourceBroken, SourceNotText, SourceRefused, SourceUnsafe
from truespan.parsing.detect import decode
from truespan.parsing.headings import HeadingPlaces, begins_with_title
from truespan.parsing.html.elements import (
    START_HANDLERS,
    EndHandler,
    PageState,
    StartHandler,
    is_always_block,
    skip,
    start_block,
)
from truespan.parsing.html.inline import (
    BASIC,
    MEANINGFUL,
    Anchor,
    Attributes,
    Page,
    Picture,
    Pictures,
    effective_tag,
    is_block,
    is_hidden,
)
from truespan.parsing.html.structure import Piece, select_main_text
from truespan.parsing.xml import local, parse_xhtml
from truespan.types.text import Block, Loaded, PageStart, PlacedFigure


def load_html(name: str, data: bytes, *, images: bool) -> Loaded:
    """Parse a page into blocks. Nothing it refers to is fetched.

    Raises:
        SourceRefused: the data is not text or cannot be parsed as a page.
    """
    reader = PageReader()
    read_page(name, data, reader)
    pieces = select_main_text(reader.close())
    pictures = Pictures(wanted=images)
    places = HeadingPlaces()
    blocks: list[Block] = []
    for piece in pieces:
        if piece.text:
            places.enter(piece.level, piece.text)
        block = to_block(piece, places.chapter, places.section, pictures)
        if block.text or block.figures:
            blocks.append(block)
    texts = [piece for piece in pieces if piece.text]
    has_title = begins_with_title([piece.level for piece in texts])
    properties = reader.head.properties()
    return Loaded(
        blocks=tuple(blocks),
        title=texts[0].text if has_title else properties.title,
        properties=properties,
        images=tuple(pictures.images),
        pictures=pictures.counts(),
    )


def to_block(piece: Piece, chapter: str | None, section: str | None, pictures: Pictures) -> Block:
    """Convert a piece to a block with its figures and the printed pages that begin in it."""
    flow = piece.to_flow() if piece.depth else piece
    if not flow.marks:
        return Block(piece.kind, flow.text, chapter, section)
    figures = [
        PlacedFigure(offset, pictures.figure(mark))
        for offset, mark in flow.marks
        if isinstance(mark, Picture)
    ]
    pages = [
        PageStart(offset, mark.number) for offset, mark in flow.marks if isinstance(mark, Page)
    ]
    return Block(piece.kind, flow.text, chapter, section, tuple(figures), tuple(pages))


_IN_DRAWINGS = frozenset({"svg", "image", "title"})


class PageReader(PageState):
    """Parser target that collects one page. `targets` are the element ids to mark in the text."""

    def __init__(self, targets: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._targets = targets
        self._end_handlers: list[EndHandler | None] = []

    # The names of these four methods are fixed by lxml.

    def start(self, tag: str, attributes: Attributes) -> None:
        """Start an element."""
        if self.skipped:
            self.skipped += 1
            return
        handler = START_HANDLERS.get(tag)
        if handler is None and ":" in tag:
            tag = tag[tag.rfind(":") + 1 :]
            handler = START_HANDLERS.get(tag)
        if self.drawings and tag not in _IN_DRAWINGS:
            handler = None
        elif attributes:
            if self._targets:
                self._mark_target(tag, attributes)
            if not MEANINGFUL.isdisjoint(attributes):
                handler = _apply_attributes(tag, attributes, handler)
        self._end_handlers.append(handler(self, tag, attributes) if handler else None)

    def data(self, text: str) -> None:
        """Add text at the current position."""
        if self.skipped:
            if self.captured is not None:
                self.captured.append(text)
        elif not self.drawings:
            self.inline.add(text)
            region = self.region
            if region.landmark and not region.navigation:
                region.landmark.count(text, bool(self.links))

    def end(self, _: str) -> None:
        """End the innermost element."""
        if self.skipped:
            self.skipped -= 1
            if self.skipped:
                return
        if handler := self._end_handlers.pop():
            handler()

    def close(self) -> list[Piece]:
        """Return the pieces of the page.

        Marks after the last text are on a last piece without text.
        """
        flow = self.inline.take()
        if flow.text or flow.marks:
            self.emit(flow, self.kind)
        return self.pieces

    def _mark_target(self, tag: str, attributes: Attributes) -> None:
        for attribute in ("id", "xml:id", "name") if tag == "a" else ("id", "xml:id"):
            if (id := attributes.get(attribute)) and id in self._targets:
                if is_always_block(tag):
                    self.flush()
                self.inline.mark(Anchor(id))
                return


def _apply_attributes(
    tag: str, attributes: Attributes, handler: StartHandler | None
) -> StartHandler | None:
    """Return the handler of an element whose attributes may change its meaning."""
    if tag in ("html", "body"):
        return handler
    role_tag = effective_tag(tag, attributes)
    # A note that is shown on request is hidden in the page but belongs to its text.
    if role_tag == "footnote":
        return START_HANDLERS[role_tag]
    if is_hidden(attributes):
        return skip
    if role_tag != tag and handler is not skip:
        return START_HANDLERS[role_tag]
    return start_block if handler is None and is_block(attributes) else handler


_HEAD = 4096
_CHARSET = re.compile(rb"<meta\s[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w:.-]{2,40})", re.IGNORECASE)
_DECLARATION = re.compile(rb"\s*<\?xml\s[^>]{0,500}?encoding\s*=\s*[\"']([\w:.-]{2,40})[\"']")
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Browsers decode these names as larger character sets, and pages rely on it.
_READ_AS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
}
_ENCODINGS = re.compile(
    r"cp(?:125[0-8]|437|85\d|866|874|932|949)|iso8859-\d+|koi8-[rtu]|mac-(?:roman|cyrillic)"
    r"|euc_jp|iso2022_(?:jp|kr)|gb18030|big5hkscs|johab"
)
"""Allowed encodings. Python knows more codecs, and some of them do not encode text at all."""

_XHTML = re.compile(rb"\s*<\?xml\s|.{0,2000}?<html\s[^>]*xmlns\s*=", re.DOTALL | re.IGNORECASE)
_EMPTY_TAG = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
_MANY = 100
_PREFIXES = {
    "{http://www.idpf.org/2007/ops}": "epub:",
    "{http://www.w3.org/1999/xlink}": "xlink:",
    "{http://www.w3.org/XML/1998/namespace}": "xml:",
}


def read_page(name: str, content: bytes, reader: PageReader, *, xhtml: bool = False) -> None:
    """Feed a page to `reader`, parsed as XML if it is XHTML and well-formed, else as HTML.

    Raises:
        SourceRefused: the content is not text, or its document type declares entities.
    """
    xhtml = xhtml or bool(_XHTML.match(content, 0, _HEAD))
    if xhtml and (root := _parse_xml(name, content)) is not None:
        _walk(root, reader)
        return
    # By its byte order mark, by the encoding it names, or by detection.
    encoding = None if content.startswith(_BYTE_ORDER_MARKS) else _find_encoding(content)
    text = content.decode(encoding, "replace") if encoding else decode(content)
    if text is None:
        raise SourceNotText(name)
    _parse_html(name, text, reader, xhtml=xhtml)


def _find_encoding(content: bytes) -> str | None:
    """Return the encoding that a page names; None for UTF-8 and for unknown names."""
    found = _CHARSET.search(content, 0, _HEAD) or _DECLARATION.match(content, 0, _HEAD)
    if not found:
        return None
    try:
        codec = codecs.lookup(found[1].decode("ascii", "replace")).name
    except LookupError:
        return None
    codec = _READ_AS.get(codec, codec)
    return codec if _ENCODINGS.fullmatch(codec) else None


def _parse_xml(name: str, content: bytes) -> etree._Element | None:
    """Return the root of a well-formed page; None if it has to be parsed as HTML."""
    try:
        root = parse_xhtml(name, content)
    except SourceUnsafe:
        # A page may nest deeper than the XML parser allows. Entities, however, are an attack.
        if b"<!ENTITY" in content:
            raise
        return None
    except SourceRefused:
        return None
    # Without a namespace the page was parsed as HTML, by a parser that stops at some depth and
    # lets an empty title swallow the page.
    return root if isinstance(root.tag, str) and root.tag.startswith("{") else None


def _walk(root: etree._Element, reader: PageReader) -> None:
    """Feed a tree to `reader` in document order, without recursion."""
    reader.start(local(root), _read_attributes(root))
    if root.text:
        reader.data(root.text)
    stack: list[tuple[str, str | None, Iterator[etree._Element]]] = [
        (local(root), None, iter(root))
    ]
    while stack:
        tag, tail, children = stack[-1]
        for child in children:
            name = local(child)
            if name:
                reader.start(name, _read_attributes(child))
                if child.text:
                    reader.data(child.text)
                stack.append((name, child.tail, iter(child)))
                break
            if child.tail:
                reader.data(child.tail)
        else:
            stack.pop()
            reader.end(tag)
            if tail:
                reader.data(tail)


def _read_attributes(element: etree._Element) -> Attributes:
    attributes = element.attrib
    if not attributes:
        return {}
    # Listing all attributes takes quadratic time, so of very many only the basic ones are read.
    if len(attributes) > _MANY:
        return {name: value for name in BASIC if (value := element.get(name)) is not None}
    result: dict[str, str] = {}
    for key, value in attributes.items():
        name = str(key)
        if name.startswith("{"):
            end = name.index("}") + 1
            name = _PREFIXES.get(name[:end], name[:end]) + name[end:]
        result[name] = str(value)
    return result


def _parse_html(name: str, text: str, reader: PageReader, *, xhtml: bool) -> None:
    """Feed a page to `reader` while it is parsed.

    No tree is built: the parser cuts trees at a depth of 2,048 elements and loses the text below,
    and it takes minutes for an element with 100,000 attributes.
    """
    text = text.replace("\0", "")
    # Browsers treat a closing line break as another one; the parser does not.
    for stray in ("</br>", "</BR>"):
        text = text.replace(stray, "<br>")
    if xhtml:
        # HTML takes CDATA sections for comments, so they are written as text.
        first, *others = text.split("<![CDATA[")
        parts = [first]
        for other in others:
            literal, closed, rest = other.partition("]]>")
            parts.append(escape(literal, quote=False) + rest if closed else other)
        text = _EMPTY_TAG.sub(r"<\1\2></\1>", "".join(parts))
    parser = etree.HTMLParser(
        target=reader,
        encoding="utf-8",
        no_network=True,
        remove_comments=True,
        remove_pis=True,
        huge_tree=True,
    )
    try:
        etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.LxmlError as error:
        raise SourceBroken(name) from error
