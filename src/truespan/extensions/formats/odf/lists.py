"""Styles of OpenDocument: kinds of paragraphs, hidden text, and the numbering of lists."""

from __future__ import annotations

import re
from collections.abc import Iterable

import lxml.etree as etree
from msgspec import Struct, field

from truespan.parsing.blocks import TITLE_LEVEL, is_contents_style, style_kind
from truespan.parsing.formats.ooxml import parse_count
from truespan.text.headings import format_number
from truespan.types.text import BlockKind

_SPACE = "urn:oasis:names:tc:opendocument:xmlns:"
OFFICE, STYLE, TEXT, TABLE, DRAW, PRESENTATION, CHART = (
    f"{{{_SPACE}{name}:1.0}}"
    for name in ("office", "style", "text", "table", "drawing", "presentation", "chart")
)
FO, SVG = f"{{{_SPACE}xsl-fo-compatible:1.0}}", f"{{{_SPACE}svg-compatible:1.0}}"
XLINK = "{http://www.w3.org/1999/xlink}"
XML_ID = "{http://www.w3.org/XML/1998/namespace}id"

_LEVELS = 10
_MAX_CHAIN_LENGTH = 40
_MAX_AFFIX_LENGTH = 40
_ESCAPE = re.compile("_([0-9a-f]{2})_")
_CAPTIONS = frozenset({"illustration", "table", "drawing", "figure"})
"""Further caption styles of LibreOffice."""


class ParagraphStyle(Struct, frozen=True):
    """A resolved style of paragraphs or of parts of them."""

    kind: BlockKind = BlockKind.PARAGRAPH
    level: int | None = None
    """Level of a title; headings have their level in the text."""
    hidden: bool = False
    is_contents: bool = False
    list_style: str = ""


class Styles:
    """The styles of a document by family and name."""

    def __init__(self, roots: Iterable[etree._Element]) -> None:
        self._elements: dict[tuple[str, str], etree._Element] = {}
        self._cache: dict[tuple[str, str], ParagraphStyle] = {}
        self.list_styles: dict[str, etree._Element] = {}
        self.outline: etree._Element | None = None
        self.language: str | None = None
        for root in roots:
            for element in root.iter(f"{STYLE}style"):
                key = element.get(f"{STYLE}family", ""), element.get(f"{STYLE}name", "")
                self._elements.setdefault(key, element)
            for element in root.iter(f"{TEXT}list-style"):
                self.list_styles.setdefault(element.get(f"{STYLE}name", ""), element)
            for element in root.iter(f"{TEXT}outline-style"):
                self.outline = element if self.outline is None else self.outline
            for default in root.iter(f"{STYLE}default-style"):
                if default.get(f"{STYLE}family") == "paragraph" and not self.language:
                    self.language = _read_language(default)

    def find(self, family: str, name: str | None) -> ParagraphStyle:
        key = family, name or ""
        if key not in self._cache:
            self._cache[key] = self._resolve(*key)
        return self._cache[key]

    def _resolve(self, family: str, name: str) -> ParagraphStyle:
        """Combine a style with those it is based on; the most specific value wins."""
        kind, level, hidden, is_contents, list_style = None, None, None, False, None
        seen: set[str] = set()
        while name and name not in seen and len(seen) < _MAX_CHAIN_LENGTH:
            seen.add(name)
            element = self._elements.get((family, name))
            shown = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)
            if element is not None:
                shown = element.get(f"{STYLE}display-name", shown)
            captions = BlockKind.CAPTION if shown.lower() in _CAPTIONS else None
            kind = kind or style_kind(shown) or captions
            if shown.lower() == "title":
                level = TITLE_LEVEL
            is_contents = is_contents or is_contents_style(shown)
            if element is None:
                break
            for properties in element.iterchildren(f"{STYLE}text-properties"):
                display = properties.get(f"{TEXT}display")
                hidden = display == "none" if hidden is None and display else hidden
            if list_style is None:
                list_style = element.get(f"{STYLE}list-style-name")
            name = element.get(f"{STYLE}parent-style-name", "")
        return ParagraphStyle(
            kind or BlockKind.PARAGRAPH, level, bool(hidden), is_contents, list_style or ""
        )


def _read_language(style: etree._Element) -> str | None:
    for properties in style.iterchildren(f"{STYLE}text-properties"):
        language, country = properties.get(f"{FO}language"), properties.get(f"{FO}country")
        if language and language not in ("none", "zxx"):
            return f"{language}-{country}" if country and country != "none" else language
    return None


_FORMS = {
    "1": "decimal",
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
    "一": "chineseCountingThousand",
    "①": "decimalEnclosedCircle",
    "１": "decimalFullWidth",
    "ア": "aiueoFullWidth",
    "가": "ganada",
    "일": "koreanCounting",
    "А": "russianUpper",
    "а": "russianLower",
    "α": "lowerGreek",
    "א": "hebrew2",
    "أ": "arabicAlpha",
    "ก": "thaiLetters",
    "๑": "thaiNumbers",
    "१": "hindiNumbers",
    "١": "arabicNumbers",
    "۱": "persianNumbers",
}
"""Number formats by the first character of their example."""
_PLACEHOLDER = re.compile("%([1-9]|10)%")


class _Level(Struct, frozen=True):
    form: str = "bullet"
    prefix: str = ""
    suffix: str = ""
    start: int = 1
    shown: int = 1
    """Number of levels shown in the number, counted upwards from this level."""
    pattern: str = ""


class Numbering:
    """Numbers the items of a list or, with an outline style, the headings of a document."""

    def __init__(self, style: etree._Element | None) -> None:
        self.counts: list[int | None] = [None] * _LEVELS
        self._levels = read_levels(style)
        self._no_style = style is None

    def use(self, style: etree._Element | None) -> None:
        """Number the following items in another style without restarting."""
        if style is not None:
            self._levels, self._no_style = read_levels(style), False

    def next_marker(self, index: int, start: int | None = None) -> str:
        """Return the marker of the next item at a level, from 0; "" if it has none."""
        index = min(index, _LEVELS - 1)
        level = self._levels.get(index, _Level())
        before = self.counts[index]
        following = level.start if before is None else before + 1
        self.counts[index] = following if start is None else start
        self.counts[index + 1 :] = [None] * (_LEVELS - index - 1)
        if level.form == "bullet":
            return "-"
        if level.form == "none":
            return ""
        if level.pattern:
            return _PLACEHOLDER.sub(
                lambda found: self._format(int(found[1]) - 1), level.pattern
            ).strip()
        numbers = (
            self._format(place) for place in range(max(0, index - level.shown + 1), index + 1)
        )
        return f"{level.prefix}{'.'.join(filter(None, numbers))}{level.suffix}".strip()

    def _format(self, index: int) -> str:
        level = self._levels.get(index, _Level())
        count = self.counts[index] if index < _LEVELS else None
        return format_number(level.start if count is None else count, level.form)


def read_levels(style: etree._Element | None) -> dict[int, _Level]:
    levels: dict[int, _Level] = {}
    for element in () if style is None else style:
        index = (parse_count(element.get(f"{TEXT}level"), 0) or 0) - 1
        if not 0 <= index < _LEVELS or not isinstance(element.tag, str):
            continue
        kind = element.tag.removeprefix(TEXT)
        if kind not in ("list-level-style-number", "outline-level-style"):
            levels[index] = _Level()
            continue
        example = element.get(f"{STYLE}num-format", "")
        form = _FORMS.get(example[:1], "decimal") if example else "none"
        pattern = ""
        for name, value in element.attrib.items():
            if str(name).endswith("}num-list-format"):
                pattern = str(value)[:_MAX_AFFIX_LENGTH]
        levels[index] = _Level(
            form=form,
            prefix=element.get(f"{STYLE}num-prefix", "")[:_MAX_AFFIX_LENGTH],
            suffix=element.get(f"{STYLE}num-suffix", "")[:_MAX_AFFIX_LENGTH],
            start=1 if (start := parse_count(element.get(f"{TEXT}start-value"))) is None else start,
            shown=max(parse_count(element.get(f"{TEXT}display-levels"), 1) or 1, 1),
            pattern=pattern,
        )
    return levels


class Lists(Struct):
    """The lists of a document so far, which later lists may continue."""

    styles: Styles
    _by_id: dict[str, Numbering] = field(default_factory=dict)
    _by_style: dict[str, Numbering] = field(default_factory=dict)

    def begin(self, element: etree._Element, style: str) -> Numbering:
        """Return the numbering of a top-level list."""
        found = self._by_id.get(element.get(f"{TEXT}continue-list", ""))
        if found is None and element.get(f"{TEXT}continue-numbering") == "true":
            found = self._by_style.get(style)
        numbering = found or Numbering(self.styles.list_styles.get(style))
        self._by_style[style] = numbering
        if id := element.get(XML_ID):
            self._by_id[id] = numbering
        return numbering
