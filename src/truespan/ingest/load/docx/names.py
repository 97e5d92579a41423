"""The names that WordprocessingML gives to its parts, and how its plainest values are read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import lxml.etree as etree

_FORMATS = "http://schemas.openxmlformats.org"
W = f"{{{_FORMATS}/wordprocessingml/2006/main}}"
R = f"{{{_FORMATS}/officeDocument/2006/relationships}}"
A = f"{{{_FORMATS}/drawingml/2006/main}}"
M = f"{{{_FORMATS}/officeDocument/2006/math}}"
WP = f"{{{_FORMATS}/drawingml/2006/wordprocessingDrawing}}"
PIC = f"{{{_FORMATS}/drawingml/2006/picture}}"
DIAGRAM = f"{{{_FORMATS}/drawingml/2006/diagram}}"
MC = f"{{{_FORMATS}/markup-compatibility/2006}}"
RELS = f"{{{_FORMATS}/package/2006/relationships}}"
V = "{urn:schemas-microsoft-com:vml}"
O = "{urn:schemas-microsoft-com:office:office}"  # noqa: E741 (the prefix that everybody uses)
SVG = "{http://schemas.microsoft.com/office/drawing/2016/SVG/main}"

VAL = f"{W}val"
P, PPR, R_RUN, RPR, T = f"{W}p", f"{W}pPr", f"{W}r", f"{W}rPr", f"{W}t"
TBL, TR, TC = f"{W}tbl", f"{W}tr", f"{W}tc"
SDT, SDT_PROPERTIES = f"{W}sdt", f"{W}sdtPr"
TEXT_BOX, ALTERNATIVES = f"{W}txbxContent", f"{MC}AlternateContent"
VANISH = f"{W}vanish"

DROPPED = frozenset({f"{W}{tag}" for tag in ("del", "moveFrom", "delText", "delInstrText")})
"""What an editor has deleted or moved away, while the change is still tracked."""
PROPERTIES = frozenset(
    {f"{W}{tag}" for tag in ("pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr", "sdtPr", "sdtEndPr")}
    | {f"{W}{tag}" for tag in ("tblGrid", "customXmlPr", "smartTagPr", "rubyPr")}
)
"""How something looks. Nothing in it is read."""

_WHOLE = re.compile(r"\s*([0-9]{1,9})\s*")
_OFF = frozenset({"0", "false", "off"})


_INTRICATE = (
    *(f"{W}{tag}" for tag in ("tab", "ptab", "br", "cr", "sym", "noBreakHyphen", "softHyphen")),
    *(f"{W}{tag}" for tag in ("fldChar", "instrText", "footnoteReference", "endnoteReference")),
    *(f"{W}{tag}" for tag in ("drawing", "pict", "object", "txbxContent", "rt", "vanish")),
    *(f"{W}{tag}" for tag in ("numPr", "outlineLvl")),
    *DROPPED,
    f"{M}oMath",
    ALTERNATIVES,
)


def intricate_paragraphs(root: etree._Element) -> frozenset[etree._Element]:
    """Return the paragraphs that hold more than text in a style.

    Most hold nothing else, and can be read several times faster when that is known. The parser
    knows which names occur in a document, so that to look for those that do not costs nothing.
    """
    return frozenset(
        paragraph for found in root.iter(*_INTRICATE) for paragraph in found.iterancestors(P)
    )


def only(element: etree._Element, tag: str) -> etree._Element | None:
    """Return the first child with this tag, or None."""
    return next(element.iterchildren(tag), None)


def value(element: etree._Element, tag: str) -> str | None:
    """Return the value of the first child with this tag; None without child or value."""
    child = only(element, tag)
    return None if child is None else child.get(VAL)


def whole(text: str | None, default: int | None = None) -> int | None:
    """Return a number that is not negative and of sensible length, else the default."""
    found = _WHOLE.fullmatch(text) if text else None
    return int(found[1]) if found else default


def switch(element: etree._Element, tag: str) -> bool | None:
    """Return whether a property is switched on; None where it is not named."""
    child = only(element, tag)
    return None if child is None else child.get(VAL) not in _OFF


def chosen(alternatives: etree._Element) -> Iterator[etree._Element]:
    """Give the one of several alternatives that is read, if there is one.

    It is the first choice that holds something to read: a program that writes a chart or a shape of
    a later kind adds a picture of it, or its text in an older form, as fallback.
    """
    choices = list(alternatives.iterchildren(f"{MC}Choice"))
    fallbacks = list(alternatives.iterchildren(f"{MC}Fallback"))
    for option in (*choices, *fallbacks):
        if next(option.iter(*_READABLE), None) is not None:
            yield option
            return


_READABLE = (
    f"{W}t",
    f"{A}blip",
    f"{A}t",
    f"{M}t",
    f"{V}imagedata",
    f"{DIAGRAM}relIds",
    *(f"{W}{tag}" for tag in ("tab", "br", "cr", "sym", "fldChar", "noBreakHyphen")),
    *(f"{W}{tag}" for tag in ("footnoteReference", "endnoteReference")),
)
