"""The elements of WordprocessingML, and their values."""

from __future__ import annotations

import lxml.etree as etree

from truespan.parsing.formats.ooxml import W, first_child

WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
O = "{urn:schemas-microsoft-com:office:office}"  # noqa: E741 (the usual prefix)

VAL = f"{W}val"


class Tag:
    """Tags that are used in several modules."""

    PARAGRAPH, PARAGRAPH_PROPERTIES, TEXT = f"{W}p", f"{W}pPr", f"{W}t"
    RUN, RUN_PROPERTIES, HIDDEN = f"{W}r", f"{W}rPr", f"{W}vanish"
    TABLE, ROW, CELL = f"{W}tbl", f"{W}tr", f"{W}tc"
    CONTROL, TEXT_BOX = f"{W}sdt", f"{W}txbxContent"


DROPPED = frozenset({f"{W}{tag}" for tag in ("del", "moveFrom", "delText", "delInstrText")})
"""Text deleted or moved away by a tracked change."""
PROPERTIES = frozenset(
    {f"{W}{tag}" for tag in ("pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr", "sdtPr", "sdtEndPr")}
    | {f"{W}{tag}" for tag in ("tblGrid", "customXmlPr", "smartTagPr", "rubyPr")}
)
"""Formatting, which is not read as content."""

_OFF = frozenset({"0", "false", "off"})


def child_value(element: etree._Element, tag: str) -> str | None:
    """Return the value of the first child with this tag; None without child or value."""
    child = first_child(element, tag)
    return None if child is None else child.get(VAL)


def flag(element: etree._Element, tag: str) -> bool | None:
    """Return whether a property is on; None if it is not set."""
    child = first_child(element, tag)
    return None if child is None else child.get(VAL) not in _OFF
