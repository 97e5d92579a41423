"""Shapes and charts of Office files (DrawingML): paragraphs with list markers, titles of charts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import lxml.etree as etree

from truespan.parsing.blocks import BlockWriter, Passage
from truespan.parsing.formats.ooxml import (
    ALTERNATIVES,
    A,
    M,
    first_child,
    parse_count,
    select_alternative,
)
from truespan.text.headings import format_number

_PARAGRAPH, _TEXT, _BREAK = f"{A}p", f"{A}t", f"{A}br"
_PROPERTIES = f"{A}pPr"
_SKIPPED = frozenset({_PROPERTIES, f"{A}rPr", f"{A}endParaRPr", f"{M}ctrlPr"})
_BULLETS = frozenset({f"{A}buNone", f"{A}buChar", f"{A}buAutoNum", f"{A}buBlip"})
_LEVELS = 9
_INDENT = "  "
_LAYOUT_BREAK = re.compile(r"(?<![ \t])[ \t]*+[\r\n]\s*+")
_ESCAPE = re.compile("_x00([01][0-9A-Fa-f])_")
_ESCAPED = {0x09: "\t", 0x0A: "\n", 0x0B: "\n", 0x0D: "\n"}
C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
CHART = f"{C}chart"
"""The element of a chart, which is a separate part."""


class Line(NamedTuple):
    """A paragraph of a shape; `is_item` if it has a list marker."""

    text: str
    is_item: bool = False


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


def read_lines(body: etree._Element, styles: Sequence[etree._Element] = ()) -> Iterator[Line]:
    """Yield the paragraphs with text of a text body."""
    # `styles` are the list styles that apply to it besides its own, the most specific first.
    own = first_child(body, f"{A}lstStyle")
    chain = ([] if own is None else [own]) + [*styles]
    known: dict[int, etree._Element | None] = {}
    counts: list[int] = []
    schemes: list[str] = []
    for paragraph in body.iterchildren(_PARAGRAPH):
        text, properties = read_text(paragraph).strip(), first_child(paragraph, _PROPERTIES)
        if not text:
            continue
        level, bullet = 0, None
        if properties is not None:
            if stated := properties.get("lvl"):
                level = min(parse_count(stated, 0) or 0, _LEVELS - 1)
            if len(properties):
                bullet = _find_bullet(properties)
        if bullet is None:
            if level not in known:
                known[level] = _find_inherited(chain, level)
            bullet = known[level]
        kind = None if bullet is None else bullet.tag
        if counts:
            # A deeper level restarts after an item of a higher level, and after other text.
            numbered = kind == f"{A}buAutoNum"
            del counts[level + numbered :], schemes[level + numbered :]
        if bullet is None or kind == f"{A}buNone":
            yield Line(text)
            continue
        marker = "-"
        if kind == f"{A}buAutoNum":
            scheme = f"{bullet.get('type')} {bullet.get('startAt')}"
            counts += [0] * (level + 1 - len(counts))
            schemes += [""] * (level + 1 - len(schemes))
            if schemes[level] != scheme:
                start = parse_count(bullet.get("startAt"), 1)
                schemes[level], counts[level] = scheme, (1 if start is None else start) - 1
            counts[level] += 1
            marker = format_scheme(counts[level], bullet.get("type", ""))
        margin = _INDENT * level
        yield Line(f"{margin}{marker} " + text.replace("\n", f"\n{margin}{_INDENT}"), True)


def _find_bullet(properties: etree._Element) -> etree._Element | None:
    return next((child for child in properties if child.tag in _BULLETS), None)


def _find_inherited(chain: Sequence[etree._Element], level: int) -> etree._Element | None:
    for style in chain:
        for properties in style.iterchildren(f"{A}lvl{level + 1}pPr"):
            if (bullet := _find_bullet(properties)) is not None:
                return bullet
    return None


_SCHEME = re.compile(
    "(?P<form>alphaLc|alphaUc|romanLc|romanUc|arabicDb|arabic|circleNum|ea1Chs|ea1Cht|ea1Jpn"
    "|hebrew2|thaiAlpha|thaiNum|hindiNum|hindiAlpha)"
    "[A-Za-z]*?(?P<end>ParenBoth|ParenR|Period|Minus|Plain)"
)
_FORMS = {
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
    "arabicDb": "decimalFullWidth",
    "circleNum": "decimalEnclosedCircle",
    "ea1Chs": "chineseCountingThousand",
    "ea1Cht": "chineseCountingThousand",
    "ea1Jpn": "japaneseCounting",
    "hebrew2": "hebrew2",
    "thaiAlpha": "thaiLetters",
    "thaiNum": "thaiNumbers",
    "hindiNum": "hindiNumbers",
}


def format_scheme(count: int, scheme: str) -> str:
    """Return the marker of an item in a numbering scheme such as `alphaLcParenR`."""
    found = _SCHEME.fullmatch(scheme)
    if not found:
        return f"{count}."
    number = format_number(count, _FORMS.get(found["form"], "decimal"))
    match found["end"]:
        case "ParenBoth":
            return f"({number})"
        case "ParenR":
            return f"{number})"
        case "Period":
            return f"{number}."
        case "Minus":
            return f"{number}-"
    return number


def is_chart(root: etree._Element) -> bool:
    return root.tag == f"{C}chartSpace"


def write_chart(root: etree._Element, writer: BlockWriter) -> None:
    """Add the titles of a chart and its axes, and manual labels."""
    for rich in root.iter(f"{C}rich"):
        lines = (read_text(paragraph) for paragraph in rich.iterchildren(f"{A}p"))
        if text := " ".join(" ".join(lines).split()):
            writer.add(Passage(text))
