"""Text of shapes and charts of Office files (DrawingML)."""

from __future__ import annotations

import re

import lxml.etree as etree

from truespan.parsing.blocks import BlockWriter, Passage
from truespan.parsing.formats.ooxml import ALTERNATIVES, A, M, select_alternative

_TEXT, _BREAK = f"{A}t", f"{A}br"
_PROPERTIES = f"{A}pPr"
_SKIPPED = frozenset({_PROPERTIES, f"{A}rPr", f"{A}endParaRPr", f"{M}ctrlPr"})
_LAYOUT_BREAK = re.compile(r"(?<![ \t])[ \t]*+[\r\n]\s*+")
_ESCAPE = re.compile("_x00([01][0-9A-Fa-f])_")
_ESCAPED = {0x09: "\t", 0x0A: "\n", 0x0B: "\n", 0x0D: "\n"}
C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
CHART = f"{C}chart"


def read_text(element: etree._Element) -> str:
    """Return the text of a paragraph with its line breaks."""
    parts: list[str] = []
    _collect(element, parts)
    return "".join(map(_clean, parts))


def _collect(element: etree._Element, parts: list[str]) -> None:
    for child in element:
        tag = child.tag
        if tag == _BREAK:
            parts.append("\n")
        elif tag in (_TEXT, f"{M}t"):
            parts.append(child.text or "")
        elif tag == ALTERNATIVES:
            for option in select_alternative(child):
                _collect(option, parts)
        elif tag not in _SKIPPED:
            if tag == f"{M}den":
                # One half must not read 12.
                parts.append("/")
            _collect(child, parts)


def _clean(text: str) -> str:
    if text == "\n":
        return text
    if "_x00" in text:
        return _ESCAPE.sub(lambda found: _ESCAPED.get(int(found[1], 16), ""), text)
    # Line breaks of the XML file, not of the slide.
    return _LAYOUT_BREAK.sub(" ", text) if "\n" in text else text


def is_chart(root: etree._Element) -> bool:
    return root.tag == f"{C}chartSpace"


def write_chart(root: etree._Element, writer: BlockWriter) -> None:
    """Add the titles of a chart and its axes, and manual labels."""
    for rich in root.iter(f"{C}rich"):
        lines = (read_text(paragraph) for paragraph in rich.iterchildren(f"{A}p"))
        if text := " ".join(" ".join(lines).split()):
            writer.add(Passage(text))
