"""Styles: what a paragraph is by the style it has, through the styles that one is based on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import lxml.etree as etree

from truespan.ingest.load.docx.names import PPR, RPR, VAL, VANISH, W, only, switch, value, whole
from truespan.model.text import BlockKind

TITLE_LEVEL = 0
"""The level of a title, above that of the highest heading."""

_LONGEST_CHAIN = 40
_BODY_LEVEL = 9
_HEADING = re.compile(
    "(?:heading|[uü]?berschrift|titre|t[ií]?tulo|titolo|kop|rubrik|overskrift|otsikko|nadpis"
    "|nag[lł]?[oó]?wek|заголовок|标题|標題|見出し|제목)[ _-]?([1-9])",
    re.IGNORECASE,
)
_TITLES = frozenset({"title"})
_KINDS = {
    "caption": BlockKind.CAPTION,
    **dict.fromkeys(("quote", "intense quote", "block text", "quotations"), BlockKind.QUOTE),
    **dict.fromkeys(
        ("code", "source code", "preformatted text", "html preformatted"), BlockKind.CODE
    ),
}
_KINDS |= {name.replace(" ", ""): kind for name, kind in _KINDS.items()}
"""What paragraphs are by the name of their style, and by its id, which has no spaces."""


@dataclass(frozen=True, slots=True)
class Style:
    """What a style says. `level` is that of a heading, 0 that of the title, None of neither."""

    level: int | None = None
    kind: BlockKind = BlockKind.PARAGRAPH
    hidden: bool = False
    list_id: int | None = None
    list_level: int | None = None


_PLAIN = Style()


class Styles:
    """The styles of a document by their ids; one that is not defined still has its name."""

    def __init__(self, root: etree._Element | None) -> None:
        self._elements: dict[str, etree._Element] = {}
        self._known: dict[str, Style] = {}
        self.default_id: str | None = None
        self.language: str | None = None
        self.hides = False
        if root is not None:
            self._read(root)
            self.hides = next(root.iter(VANISH), None) is not None

    def style(self, style_id: str | None) -> Style:
        """Return what a style says; without an id that of the default style."""
        wanted = style_id or self.default_id
        if wanted is None:
            return _PLAIN
        if wanted not in self._known:
            self._known[wanted] = self._resolved(wanted)
        return self._known[wanted]

    def _read(self, root: etree._Element) -> None:
        for element in root.iterchildren(f"{W}style"):
            style_id = element.get(f"{W}styleId", "")
            self._elements.setdefault(style_id, element)
            default = element.get(f"{W}default") in ("1", "true", "on")
            if default and element.get(f"{W}type") == "paragraph":
                self.default_id = style_id
        for defaults in root.iterchildren(f"{W}docDefaults"):
            for language in defaults.iter(f"{W}lang"):
                self.language = self.language or language.get(VAL)

    def _resolved(self, style_id: str) -> Style:
        """Join a style with those it is based on; what is nearer to the paragraph wins."""
        style, decided = _PLAIN, False
        hidden: bool | None = None
        for found, element in self._chain(style_id):
            level, says = _level(found, element)
            if says and not decided:
                style, decided = replace(style, level=level), True
            style = _with_list(style, element)
            if style.kind is BlockKind.PARAGRAPH:
                style = replace(style, kind=_kind(found, element))
            properties = None if element is None else only(element, RPR)
            if hidden is None and properties is not None:
                hidden = switch(properties, VANISH)
        return replace(style, hidden=bool(hidden))

    def _chain(self, style_id: str | None) -> list[tuple[str, etree._Element | None]]:
        chain: list[tuple[str, etree._Element | None]] = []
        seen: set[str] = set()
        while style_id and style_id not in seen and len(seen) < _LONGEST_CHAIN:
            seen.add(style_id)
            element = self._elements.get(style_id)
            chain.append((style_id, element))
            style_id = None if element is None else value(element, f"{W}basedOn")
        return chain


def outline_level(properties: etree._Element) -> tuple[int | None, bool]:
    """Return the level that properties name, and whether they name one, if only that of text."""
    found = whole(value(properties, f"{W}outlineLvl"))
    if found is None:
        return None, False
    return (found + 1 if found < _BODY_LEVEL else None), True


def list_place(properties: etree._Element) -> tuple[int | None, int | None]:
    """Return the list and the level in it that properties name."""
    place = only(properties, f"{W}numPr")
    if place is None:
        return None, None
    return whole(value(place, f"{W}numId")), whole(value(place, f"{W}ilvl"))


def _level(style_id: str, element: etree._Element | None) -> tuple[int | None, bool]:
    """Return the level of one style by itself, and whether it says anything about it."""
    if _is_called(style_id, element, _TITLES):
        return TITLE_LEVEL, True
    properties = None if element is None else only(element, PPR)
    if properties is not None:
        level, says = outline_level(properties)
        if says:
            return level, True
    # Where there is a definition its name counts: it is in English whatever the program speaks.
    for name in (_name(element), style_id):
        if found := _HEADING.fullmatch(name):
            return int(found[1]), True
    return None, False


def _name(element: etree._Element | None) -> str:
    return "" if element is None else (value(element, f"{W}name") or "").strip()


def _is_called(style_id: str, element: etree._Element | None, names: frozenset[str]) -> bool:
    return style_id.lower() in names or _name(element).lower() in names


def _kind(style_id: str, element: etree._Element | None) -> BlockKind:
    by_id = _KINDS.get(style_id.lower(), BlockKind.PARAGRAPH)
    return _KINDS.get(_name(element).lower(), by_id)


def _with_list(style: Style, element: etree._Element | None) -> Style:
    properties = None if element is None else only(element, PPR)
    if properties is None:
        return style
    list_id, level = list_place(properties)
    return replace(
        style,
        list_id=list_id if style.list_id is None else style.list_id,
        list_level=level if style.list_level is None else style.list_level,
    )
