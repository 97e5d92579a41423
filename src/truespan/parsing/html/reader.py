"""From the bytes of a page to the events that a reading is told."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from html import escape

import lxml.etree as etree

from truespan.errors import SourceBroken, SourceNotText, SourceRefused, SourceUnsafe
from truespan.parsing.detect import decode
from truespan.parsing.html.elements import OPENINGS, Opening, is_always_block, open_block, skip
from truespan.parsing.html.inline import (
    KNOWN,
    NOTABLE,
    Anchor,
    Attributes,
    is_block,
    is_hidden,
    played_tag,
)
from truespan.parsing.html.state import Closing, Open, Piece
from truespan.parsing.xml import local, parse_xhtml

_IN_DRAWINGS = frozenset({"svg", "image", "title"})


class Reading(Open):
    """The reading of one page. `targets` are the ids of elements whose place is wanted."""

    def __init__(self, targets: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._targets = targets
        self._closings: list[Closing | None] = []

    # The parser knows these four by their names.

    def start(self, tag: str, attributes: Attributes) -> None:
        """Take note that an element begins."""
        if self.skipped:
            self.skipped += 1
            return
        opening = OPENINGS.get(tag)
        if opening is None and ":" in tag:
            tag = tag[tag.rfind(":") + 1 :]
            opening = OPENINGS.get(tag)
        if self.drawings and tag not in _IN_DRAWINGS:
            opening = None
        elif attributes:
            if self._targets:
                self._aim(tag, attributes)
            if not NOTABLE.isdisjoint(attributes):
                opening = _noted(tag, attributes, opening)
        self._closings.append(opening(self, tag, attributes) if opening else None)

    def data(self, text: str) -> None:
        """Take the text that stands here."""
        if self.skipped:
            if self.caught is not None:
                self.caught.append(text)
        elif not self.drawings:
            self.inline.add(text)
            region = self.region
            if region.landmark and not region.navigation:
                region.landmark.count(text, bool(self.links))

    def end(self, _: str) -> None:
        """Take note that the element that began last ends."""
        if self.skipped:
            self.skipped -= 1
            if self.skipped:
                return
        if closing := self._closings.pop():
            closing()

    def close(self) -> list[Piece]:
        """Return the pieces of the whole page.

        Marks that no text follows come out on a last piece without text.
        """
        flow = self.inline.take()
        if flow.text or flow.marks:
            self.emit(flow, self.kind)
        return self.pieces

    def _aim(self, tag: str, attributes: Attributes) -> None:
        """Mark the place of an element that is wanted."""
        for attribute in ("id", "xml:id", "name") if tag == "a" else ("id", "xml:id"):
            if (id := attributes.get(attribute)) and id in self._targets:
                if is_always_block(tag):
                    self.flush()
                self.inline.mark(Anchor(id))
                return


def _noted(tag: str, attributes: Attributes, opening: Opening | None) -> Opening | None:
    """Return what to do with an element whose attributes say that it is not what it seems."""
    if tag in ("html", "body"):
        return opening
    played = played_tag(tag, attributes)
    # A note that is shown on request is hidden in the page, but not from its readers.
    if played == "footnote":
        return OPENINGS[played]
    if is_hidden(attributes):
        return skip
    if played != tag and opening is not skip:
        return OPENINGS[played]
    return open_block if opening is None and is_block(attributes) else opening


_HEAD = 4096
_CHARSET = re.compile(rb"<meta\s[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w:.-]{2,40})", re.IGNORECASE)
_DECLARATION = re.compile(rb"\s*<\?xml\s[^>]{0,500}?encoding\s*=\s*[\"']([\w:.-]{2,40})[\"']")
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Browsers read these names as larger sets than they are names of, and pages rely on it.
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
"""What text is written in. Python knows more codecs, and some of them do not encode text at all."""

_XHTML = re.compile(rb"\s*<\?xml\s|.{0,2000}?<html\s[^>]*xmlns\s*=", re.DOTALL | re.IGNORECASE)
_EMPTY_TAG = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
_MANY = 100
_PREFIXES = {
    "{http://www.idpf.org/2007/ops}": "epub:",
    "{http://www.w3.org/1999/xlink}": "xlink:",
    "{http://www.w3.org/XML/1998/namespace}": "xml:",
}


def read_page(name: str, content: bytes, reading: Reading, *, xhtml: bool = False) -> None:
    """Tell `reading` what the page `content` holds, as XML if it is that, else as HTML.

    Raises:
        SourceRefused: it is no text, or its document type declares entities.
    """
    xhtml = xhtml or is_xhtml(content)
    if xhtml and (root := _as_xml(name, content)) is not None:
        _walk(root, reading)
    else:
        _parse(name, page_text(name, content), reading, xhtml=xhtml)


def is_xhtml(content: bytes) -> bool:
    """Say whether a page claims to be XML."""
    return bool(_XHTML.match(content, 0, _HEAD))


def page_text(name: str, content: bytes) -> str:
    """Return the text of a page: by its mark, by the encoding it names, or as any other text.

    Raises:
        SourceNotText: it is none.
    """
    encoding = None if content.startswith(_MARKS) else _encoding(content)
    text = content.decode(encoding, "replace") if encoding else decode(content)
    if text is None:
        raise SourceNotText(name)
    return text


def _encoding(content: bytes) -> str | None:
    """Return the encoding that a page names, unless it is UTF-8 or none of text."""
    found = _CHARSET.search(content, 0, _HEAD) or _DECLARATION.match(content, 0, _HEAD)
    if not found:
        return None
    try:
        codec = codecs.lookup(found[1].decode("ascii", "replace")).name
    except LookupError:
        return None
    codec = _READ_AS.get(codec, codec)
    return codec if _ENCODINGS.fullmatch(codec) else None


def _as_xml(name: str, content: bytes) -> etree._Element | None:
    """Return the tree of a page that is well-formed; None when it has to be read as HTML."""
    try:
        root = parse_xhtml(name, content)
    except SourceUnsafe:
        # A page may nest deeper than XML is followed. Entities, however, are a trap.
        if b"<!ENTITY" in content:
            raise
        return None
    except SourceRefused:
        return None
    # Without a namespace it was read as HTML already, by a parser that stops at some depth and for
    # which an empty title swallows the page.
    return root if isinstance(root.tag, str) and root.tag.startswith("{") else None


def _walk(root: etree._Element, reading: Reading) -> None:
    """Tell `reading` of a tree, from front to back."""
    reading.start(local(root), _attributes(root))
    if root.text:
        reading.data(root.text)
    stack: list[tuple[str, str | None, Iterator[etree._Element]]] = [
        (local(root), None, iter(root))
    ]
    while stack:
        tag, tail, children = stack[-1]
        for child in children:
            name = local(child)
            if name:
                reading.start(name, _attributes(child))
                if child.text:
                    reading.data(child.text)
                stack.append((name, child.tail, iter(child)))
                break
            if child.tail:
                reading.data(child.tail)
        else:
            stack.pop()
            reading.end(tag)
            if tail:
                reading.data(tail)


def _attributes(element: etree._Element) -> Attributes:
    attributes = element.attrib
    if not attributes:
        return {}
    # To list them takes the square of their number, so of very many only a few are asked for.
    if len(attributes) > _MANY:
        return {name: value for name in KNOWN if (value := element.get(name)) is not None}
    return {_prefixed(str(name)): str(value) for name, value in attributes.items()}


def _prefixed(name: str) -> str:
    if not name.startswith("{"):
        return name
    end = name.index("}") + 1
    return _PREFIXES.get(name[:end], name[:end]) + name[end:]


def _parse(name: str, text: str, reading: Reading, *, xhtml: bool) -> None:
    """Tell `reading` of a page while it is parsed.

    There is no tree, since the parser builds none deeper than 2,048 elements, without the text
    below, and takes minutes for an element with 100,000 attributes.
    """
    text = text.replace("\0", "")
    # Browsers take the end of a line break for another one; the parser does not.
    for stray in ("</br>", "</BR>"):
        text = text.replace(stray, "<br>")
    if xhtml:
        text = _EMPTY_TAG.sub(r"<\1\2></\1>", _without_cdata(text))
    parser = etree.HTMLParser(
        target=reading,
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


def _without_cdata(text: str) -> str:
    """Write as text what stands literally in a page, for HTML takes it for a comment."""
    first, *others = text.split("<![CDATA[")
    parts = [first]
    for other in others:
        literal, closed, rest = other.partition("]]>")
        parts.append(escape(literal, quote=False) + rest if closed else other)
    return "".join(parts)
