"""The elements of WordprocessingML, and what is known of a part before it is read."""

from __future__ import annotations

import lxml.etree as etree
from msgspec import Struct

from truespan.parsing.archive import Archive
from truespan.parsing.formats.ooxml import ALTERNATIVES, M, OfficePackage, Part, W, first_child

WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
O = "{urn:schemas-microsoft-com:office:office}"  # noqa: E741 (the usual prefix)

VAL = f"{W}val"


class Tag:
    """The names of the elements that are read in several places."""

    PARAGRAPH, PARAGRAPH_PROPERTIES, TEXT = f"{W}p", f"{W}pPr", f"{W}t"
    RUN, RUN_PROPERTIES, HIDDEN = f"{W}r", f"{W}rPr", f"{W}vanish"
    TABLE, ROW, CELL = f"{W}tbl", f"{W}tr", f"{W}tc"
    CONTROL, TEXT_BOX = f"{W}sdt", f"{W}txbxContent"


DROPPED = frozenset({f"{W}{tag}" for tag in ("del", "moveFrom", "delText", "delInstrText")})
"""Text that a tracked change has deleted or moved away."""
PROPERTIES = frozenset(
    {f"{W}{tag}" for tag in ("pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr", "sdtPr", "sdtEndPr")}
    | {f"{W}{tag}" for tag in ("tblGrid", "customXmlPr", "smartTagPr", "rubyPr")}
)
"""Formatting. Nothing in it is read."""

_OFF = frozenset({"0", "false", "off"})
_COMPLEX = (
    *(f"{W}{tag}" for tag in ("tab", "ptab", "br", "cr", "sym", "noBreakHyphen", "softHyphen")),
    *(f"{W}{tag}" for tag in ("fldChar", "instrText", "footnoteReference", "endnoteReference")),
    *(f"{W}{tag}" for tag in ("drawing", "pict", "object", "txbxContent", "rt", "vanish")),
    *(f"{W}{tag}" for tag in ("numPr", "outlineLvl", "framePr")),
    *DROPPED,
    f"{M}oMath",
    ALTERNATIVES,
)


def child_value(element: etree._Element, tag: str) -> str | None:
    """Return the value of the first child with this tag; None without child or value."""
    child = first_child(element, tag)
    return None if child is None else child.get(VAL)


def flag(element: etree._Element, tag: str) -> bool | None:
    """Return whether a property is on; None if it is not set."""
    child = first_child(element, tag)
    return None if child is None else child.get(VAL) not in _OFF


class Traits(Struct, frozen=True, eq=False):
    """What a part contains.

    Paragraphs that hold nothing but text in a style are not complex, and are read much faster.
    """

    may_hide: bool
    complex_paragraphs: frozenset[etree._Element]


class Package(OfficePackage):
    """The parts of a document."""

    def __init__(self, name: str, archive: Archive) -> None:
        super().__init__(name, archive)
        self._traits: dict[etree._Element, Traits] = {}

    def open_main(self) -> Part:
        return self.read_main("word/document.xml", f"{W}document")

    def inspect(self, part: Part) -> Traits:
        """Return what a part contains; it is examined once."""
        root = part.root
        if root not in self._traits:
            # The search costs little, because the parser skips names that are not in a document.
            self._traits[root] = Traits(
                next(root.iter(Tag.HIDDEN), None) is not None,
                frozenset(
                    paragraph
                    for element in root.iter(*_COMPLEX)
                    for paragraph in element.iterancestors(Tag.PARAGRAPH)
                ),
            )
        return self._traits[root]
