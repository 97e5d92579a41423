"""Paragraphs of shapes of Office files (DrawingML), with their list markers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import lxml.etree as etree

from truespan.parsing.formats.drawing import read_text
from truespan.parsing.formats.ooxml import A, first_child, parse_count
from truespan.text.headings import format_number

_PROPERTIES = f"{A}pPr"
_BULLETS = frozenset({f"{A}buNone", f"{A}buChar", f"{A}buAutoNum", f"{A}buBlip"})
_LEVELS = 9
_INDENT = "  "


class Line(NamedTuple):
    """A paragraph of a shape; `is_item` if it has a list marker."""

    text: str
    is_item: bool = False


def read_lines(body: etree._Element, styles: Sequence[etree._Element] = ()) -> Iterator[Line]:
    """Yield the paragraphs with text of a text body."""
    # `styles` are the list styles that apply to it besides its own, the most specific first.
    own = first_child(body, f"{A}lstStyle")
    chain = ([] if own is None else [own]) + [*styles]
    known: dict[int, etree._Element | None] = {}
    counts: list[int] = []
    schemes: list[str] = []
    for paragraph in body.iterchildren(f"{A}p"):
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
