"""Untrusted XML: without DTD, entities and network access, and with limited depth.

`parse_xml` is strict. `parse_xhtml` is for pages of books, which have harmless document types and
HTML entities, and often are not well-formed.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from html.entities import html5
from typing import Any

import lxml.etree as etree

from truespan.errors import SourceRefused
from truespan.parsing.detect import decode

# Possessive, because backtracking would take exponential time.
_PROLOG = r"\s*+(?:<\?.*?\?>\s*+|<!--.*?-->\s*+)*+"
_DOCTYPE = re.compile(rb"(?:\xef\xbb\xbf)?" + _PROLOG.encode() + rb"<!DOCTYPE", re.DOTALL)
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"<\0", b"\0<")
_PAGE_DOCTYPE = re.compile(
    rf"(?P<prolog>{_PROLOG})<!doctype(?:[^]\[\"'>]++|\"[^\"]*+\"|'[^']*+')*+(?P<end>.)?",
    re.DOTALL | re.IGNORECASE,
)
_DECLARATION = re.compile(r"\A\s*<\?xml\b.*?\?>", re.DOTALL)
_DECLARED = (
    re.compile(rb"(?<!\s)\s*+<\?xml[^<>]*?encoding\s*+=\s*+[\"']([A-Za-z0-9_-]{1,40})[\"']"),
    re.compile(rb"<meta[^<>]*?charset\s*+=\s*+[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE),
)
_DECLARATION_AREA = 4096
_CODECS = re.compile(
    "ascii|utf-8|utf-16(?:-[lb]e)?|iso8859-[0-9]+|cp(?:125[0-8]|437|85[0-9]|866|874|932|949|950)"
    "|koi8-[ru]|mac-(?:roman|cyrillic)|shift_jis|euc_(?:jp|kr)|iso2022_jp|gb2312|gbk|gb18030"
    "|big5(?:hkscs)?|tis-620"
)

_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\ufffe\uffff]")
# Up to the end of the page if unclosed; otherwise each opening mark would be followed to the end.
_LITERAL = r"<!\[CDATA\[(?P<text>.*?)(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)"
_ENTITY = re.compile(rf"{_LITERAL}|&(?P<entity>[A-Za-z][A-Za-z0-9]{{1,31}};)", re.DOTALL)
_CDATA = re.compile(_LITERAL, re.DOTALL)
_OF_XML = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})

_RESOURCE_LIMIT = 114
_SAFE: dict[str, Any] = {
    **dict.fromkeys(("resolve_entities", "load_dtd", "dtd_validation", "huge_tree"), False),
    **dict.fromkeys(("no_network", "remove_comments", "remove_pis"), True),
    "collect_ids": False,
}
"""Options of every XML parser: nothing is loaded or expanded, and sizes are limited."""


def parse_xml(name: str, data: bytes) -> etree._Element:
    """Return the root of an XML document, without comments and processing instructions."""
    # The document must be well-formed, without a document type, and within the limits of depth and
    # size.
    wide = data.startswith(_WIDE)
    document = _to_utf8(name, data) if wide else data
    if _DOCTYPE.match(document):
        raise SourceRefused("source_unsafe", name)
    return _parse(name, document, encoding="utf-8" if wide else None)


def iterate_xml(name: str, data: bytes, *tags: str) -> Iterator[etree._Element]:
    """Yield the elements with these tags when they end, and release them."""
    # `{*}row` is a row in any namespace. The rules of `parse_xml` apply, but the document may be
    # large.
    document = _to_utf8(name, data) if data.startswith(_WIDE) else data
    if _DOCTYPE.match(document):
        raise SourceRefused("source_unsafe", name)
    reading = etree.iterparse(
        io.BytesIO(document), tag=tags, encoding="utf-8" if document is not data else None, **_SAFE
    )
    try:
        for _, element in reading:
            yield element
            element.clear()
            parent = element.getparent()
            while parent is not None and element.getprevious() is not None:
                del parent[0]
    except (etree.LxmlError, ValueError) as error:
        raise _refusal(name, error) from error
    root = reading.root
    if root is not None and root.getroottree().docinfo.doctype:
        raise SourceRefused("source_unsafe", name)


def parse_xhtml(name: str, data: bytes) -> etree._Element:
    """Return the root of a page; it is parsed as HTML if it is not well-formed XML."""
    # Compare tags with `local`, because the namespace depends on the parser. A document type with
    # declarations is unsafe.
    page = _CONTROLS.sub("", _decode_page(name, data))
    if found := _PAGE_DOCTYPE.match(page):
        if found["end"] == "[":
            raise SourceRefused("source_unsafe", name)
        page = found["prolog"] + page[found.end() :] if found["end"] == ">" else page
    page = _ENTITY.sub(_replace_entity, _DECLARATION.sub("", page))
    encoded = page.replace("\f", " ").encode("utf-8", "replace")
    try:
        return _parse(name, encoded, encoding="utf-8")
    except SourceRefused as refused:
        refused.raise_unless("source_broken", "source_unsafe")
        # Unclosed tags nest in XML, while in HTML the next tag closes them.
        page = _CDATA.sub(lambda found: escape(found["text"] or "", quote=False), page)
        return _parse_as_html(name, page)


def local(element: etree._Element) -> str:
    """Return the name of a tag without its namespace; "" for a comment or an instruction."""
    tag = element.tag
    if not isinstance(tag, str):
        return ""
    return tag[tag.rfind("}") + 1 :] if tag[:1] == "{" else tag[tag.rfind(":") + 1 :]


# Shared by threads: a cache of parsers without a document; each locks while it parses.
@cache
def _xml_parser(encoding: str | None) -> etree.XMLParser:
    return etree.XMLParser(encoding=encoding, **_SAFE)


def _parse(name: str, data: bytes, *, encoding: str | None = None) -> etree._Element:
    root = _run(name, data, _xml_parser(encoding))
    # Checked again, because an encoding may hide the declaration from the check above.
    if root.getroottree().docinfo.doctype:
        raise SourceRefused("source_unsafe", name)
    return root


def _parse_as_html(name: str, page: str) -> etree._Element:
    parser = etree.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, collect_ids=False
    )
    root = _run(name, page.encode("utf-8", "replace"), parser)
    # The parser continues after this error, but drops the deeper text.
    if any(entry.type == _RESOURCE_LIMIT for entry in parser.error_log):
        raise SourceRefused("source_unsafe", name)
    if root is None:
        raise SourceRefused("source_broken", name)
    return root


def _run(name: str, data: bytes, parser: etree.XMLParser | etree.HTMLParser) -> etree._Element:
    try:
        return etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as error:
        raise _refusal(name, error) from error


def _refusal(name: str, error: Exception) -> SourceRefused:
    if getattr(error, "code", None) != _RESOURCE_LIMIT:
        return SourceRefused("source_broken", name)
    return SourceRefused("source_unsafe" if "depth" in str(error) else "source_too_large", name)


def _to_utf8(name: str, data: bytes) -> bytes:
    """Convert UTF-16 to UTF-8, for searches in bytes."""
    big = data.startswith((codecs.BOM_UTF16_BE, b"\0<"))
    try:
        text = data.decode("utf-16-be" if big else "utf-16-le").removeprefix("\ufeff")
        return text.encode("utf-8")
    except UnicodeError as error:
        raise SourceRefused("source_broken", name) from error


def _decode_page(name: str, data: bytes) -> str:
    """Decode a page in its declared encoding, if that succeeds, or by detection."""
    if not data.startswith((codecs.BOM_UTF8, *_WIDE)):
        matches = (pattern.search(data, 0, _DECLARATION_AREA) for pattern in _DECLARED)
        if found := next(filter(None, matches), None):
            with contextlib.suppress(LookupError, UnicodeError):
                codec = codecs.lookup(found[1].decode("ascii")).name
                if _CODECS.fullmatch(codec) and (text := data.decode(codec)):
                    return text.removeprefix("\ufeff")
    text = decode(data)
    if text is None and data.startswith(_WIDE):
        return _to_utf8(name, data).decode("utf-8")
    if text is None:
        raise SourceRefused("source_broken", name)
    return text.removeprefix("\ufeff")


def _replace_entity(found: re.Match[str]) -> str:
    """Replace an HTML entity by its character; an unknown name is text."""
    entity = found["entity"]
    if entity is None or entity in _OF_XML:
        return found[0]
    return escape(html5.get(entity, f"&{entity}"), quote=False)
