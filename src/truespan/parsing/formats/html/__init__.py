"""HTML parser: the main text of a page as a browser shows it, with the outline of its headings."""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Protocol
from urllib.parse import unquote_to_bytes

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceRefused
from truespan.parsing.archive import Archive
from truespan.parsing.detect import decode_declared
from truespan.parsing.formats.html.elements import PageReader
from truespan.parsing.formats.html.inline import BASIC, Attributes, Page, Picture
from truespan.parsing.formats.html.structure import Piece, select_main_text
from truespan.parsing.xml import local, parse_xhtml
from truespan.text.contents import ContentsFinder
from truespan.text.headings import HeadingPlaces, begins_with_title
from truespan.types.text import Block, Figure, Image, Loaded, PageStart, PictureCounts, PlacedFigure


def load_html(name: str, data: bytes, *, images: bool, whole: bool = False) -> Loaded:
    """Parse a page or raise `SourceRefused`. Nothing that it refers to is fetched."""
    # Only the main text is returned, unless `whole` is true.
    reader = PageReader()
    read_page(name, data, reader)
    pieces = reader.close() if whole else select_main_text(reader.close())
    pictures = Pictures(wanted=images)
    places, contents = HeadingPlaces(), ContentsFinder()
    blocks: list[Block] = []
    for piece in pieces:
        is_contents = piece.belongs_to(contents)
        if piece.text and not is_contents:
            places.enter(piece.level, piece.text)
        block = to_block(piece, places.chapter, places.section, pictures, is_contents)
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


def to_block(
    piece: Piece,
    chapter: str | None,
    section: str | None,
    pictures: Pictures,
    is_contents: bool = False,
) -> Block:
    flow = piece.to_flow() if piece.depth else piece
    figures: list[PlacedFigure] = []
    pages: list[PageStart] = []
    for offset, mark in flow.marks:
        if isinstance(mark, Picture):
            figures.append(PlacedFigure(offset, pictures.figure(mark)))
        elif isinstance(mark, Page):
            pages.append(PageStart(offset, mark.number))
    return Block(
        kind=piece.kind,
        text=flow.text,
        chapter=chapter,
        section=section,
        figures=tuple(figures),
        pages=tuple(pages),
        is_contents=is_contents,
        header_rows=piece.header_rows,
    )


MAX_IMAGE_SIZE = 32 << 20
_MAX_ORIGIN_LENGTH = 200
_EXTENSIONS = {
    "image/png": "png", "image/apng": "png", "image/jpeg": "jpg", "image/jpg": "jpg",
    "image/pjpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/avif": "avif",
    "image/svg+xml": "svg", "image/bmp": "bmp", "image/x-ms-bmp": "bmp", "image/tiff": "tif",
    "image/x-icon": "ico", "image/vnd.microsoft.icon": "ico",
}  # fmt: skip
_DATA = re.compile(
    r"\s*data:(?P<type>[\w.+/-]{0,80})(?P<options>[^,]{0,200}),", re.IGNORECASE | re.ASCII
)


class Pictures(Struct):
    """Collected pictures, read once if `wanted`; in a book, `find` resolves their addresses."""

    wanted: bool
    archive: Archive | None = None
    media_types: Mapping[str, str] = field(default_factory=dict)
    find: Callable[[str], str | None] = lambda _: None
    images: list[Image] = field(default_factory=list)
    _indexes: dict[str, int | None] = field(default_factory=dict)
    _total: int = 0
    _sourced: int = 0
    _mapped: int = 0
    _missing: int = 0

    def figure(self, picture: Picture) -> Figure:
        self._total += 1
        source = picture.source.strip()
        if not source:
            return Figure(picture.alt)
        self._sourced += 1
        if found := _DATA.match(source):
            self._mapped += 1

            def decode_image() -> Image | None:
                extension = _extension_of(found["type"])
                is_small = (len(source) - found.end()) * 3 // 4 <= MAX_IMAGE_SIZE
                if not extension or not is_small or "base64" not in found["options"].lower():
                    return None
                try:
                    content = binascii.a2b_base64(unquote_to_bytes(source[found.end() :]))
                except ValueError:
                    return None
                return Image(extension, content) if content else None

            image = self._add_image(source, decode_image)
            return Figure(picture.alt, f"data:{found['type'].lower()}", image)
        archive, member = self.archive, self.find(source)
        if archive is None or not member:
            return Figure(picture.alt, source[:_MAX_ORIGIN_LENGTH])
        self._mapped += 1
        self._missing += member not in archive.names

        def read_member() -> Image | None:
            extension = _extension_of(self.media_types.get(member, ""), member)
            try:
                content = archive.read(member) if extension else None
            except SourceRefused as refused:
                if refused.code == "source_unsafe":
                    raise
                return None
            return Image(extension, content) if extension and content else None

        image = self._add_image(member, read_member)
        # An alternative text that is only the file name is noise.
        file_name = picture.alt.replace("\\", "/").lstrip("./").lower()
        is_name = file_name and f"/{member.lower()}".endswith(f"/{file_name}")
        return Figure("" if is_name else picture.alt, member[:_MAX_ORIGIN_LENGTH], image)

    def counts(self) -> PictureCounts:
        return PictureCounts(self._total, self._sourced, self._mapped, self._missing)

    def _add_image(self, key: str, read: Callable[[], Image | None]) -> int | None:
        if not self.wanted:
            return None
        if key not in self._indexes:
            image = read()
            self._indexes[key] = len(self.images) if image else None
            if image:
                self.images.append(image)
        return self._indexes[key]


def _extension_of(media_type: str, name: str = "") -> str | None:
    """Return the extension of a media type or a file name; None if not a picture."""
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type in _EXTENSIONS:
        return _EXTENSIONS[media_type]
    ending = name.rpartition(".")[2].lower()
    ending = {"jpeg": "jpg", "tiff": "tif"}.get(ending, ending)
    return ending if ending in _EXTENSIONS.values() else None


_HEAD = 4096
_CHARSET = re.compile(
    rb"<meta\s[^<>]{0,500}?charset\s*+=\s*+[\"']?\s*+([\w:.-]{2,40})", re.IGNORECASE
)
_DECLARATION = re.compile(rb"\s*<\?xml\s[^>]{0,500}?encoding\s*=\s*[\"']([\w:.-]{2,40})[\"']")
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_XHTML = re.compile(rb"\s*<\?xml\s|.{0,2000}?<html\s[^<>]*xmlns\s*=", re.DOTALL | re.IGNORECASE)
_EMPTY_TAG = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
_MANY = 100
_PREFIXES = {
    "{http://www.idpf.org/2007/ops}": "epub:",
    "{http://www.w3.org/1999/xlink}": "xlink:",
    "{http://www.w3.org/XML/1998/namespace}": "xml:",
}


class PageTarget(Protocol):
    """Receiver of the elements and the text of a page, as the parser calls it."""

    def start(self, tag: str, attributes: Attributes, /) -> object: ...
    def end(self, tag: str, /) -> object: ...
    def data(self, text: str, /) -> object: ...
    def close(self) -> object: ...


def read_page(name: str, content: bytes, reader: PageTarget, *, xhtml: bool = False) -> None:
    """Feed a page to `reader`, parsed as XML if it is XHTML and well-formed, else as HTML."""
    xhtml = xhtml or bool(_XHTML.match(content, 0, _HEAD))
    if xhtml and (root := _parse_xml(name, content)) is not None:
        for event, element in etree.iterwalk(root, events=("start", "end")):
            tag = local(element)
            if event == "start":
                reader.start(tag, _read_attributes(element))
            else:
                reader.end(tag)
            text = element.text if event == "start" else element.tail
            if text:
                reader.data(text)
        return
    # By the byte order mark, the declared encoding, or detection.
    found = None
    if not content.startswith(_BYTE_ORDER_MARKS):
        found = _CHARSET.search(content, 0, _HEAD) or _DECLARATION.match(content, 0, _HEAD)
    text = decode_declared(content, found[1].decode("ascii", "replace") if found else "")
    if text is None:
        raise SourceRefused("source_not_text", name)
    _parse_html(name, text, reader, xhtml=xhtml)


def _parse_xml(name: str, content: bytes) -> etree._Element | None:
    """Return the root of a well-formed page; None if it has to be parsed as HTML."""
    try:
        root = parse_xhtml(name, content)
    except SourceRefused as refused:
        # A page may be nested too deep for the XML parser, but entity declarations are an attack.
        if refused.code == "source_unsafe" and b"<!ENTITY" in content:
            raise
        return None
    # A page without a namespace was parsed as HTML by a parser that limits the depth and loses the
    # page after an empty title.
    return root if isinstance(root.tag, str) and root.tag.startswith("{") else None


def _read_attributes(element: etree._Element) -> Attributes:
    attributes = element.attrib
    if not attributes:
        return {}
    # Listing all attributes takes quadratic time, so of many only the basic ones are read.
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


def _parse_html(name: str, text: str, reader: PageTarget, *, xhtml: bool) -> None:
    """Feed a page to `reader` while it is parsed."""
    # No tree is built: trees are cut at a depth of 2,048 elements, and an element with 100,000
    # attributes takes minutes.
    text = text.replace("\0", "")
    # Browsers treat `</br>` as a line break; the parser does not.
    for stray in ("</br>", "</BR>"):
        text = text.replace(stray, "<br>")
    if xhtml:
        # HTML parsers treat CDATA sections as comments, so they are converted to text.
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
        raise SourceRefused("source_broken", name) from error
