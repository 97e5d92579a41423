"""Numbered and bulleted lists: the mark that stands before a paragraph."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import lxml.etree as etree

from truespan.parsing.docx.package import PPR, RPR, VAL, VANISH, W, only, switch, value, whole
from truespan.types.text import BlockKind

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


_LEVELS = 9
_LONGEST_PATTERN = 40
_MOST_REPEATS = 20
_LARGEST_ROMAN = 3999
_PLACEHOLDER = re.compile("%([1-9])")
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


@dataclass(frozen=True, slots=True)
class _Level:
    """How the items of one level are marked."""

    form: str = "decimal"
    pattern: str = ""
    start: int = 1
    restart: int | None = None
    """The level from which on a higher item makes this one begin again; 0 for never."""
    plain_numbers: bool = False
    style_id: str | None = None


@dataclass(slots=True)
class _List:
    """A list with its counters. Several ids may share it, and go on counting for each other."""

    levels: dict[int, _Level]
    counts: list[int | None] = field(default_factory=lambda: [None] * _LEVELS)


@dataclass(slots=True)
class _Instance:
    """One use of a list, which may begin again or mark some levels in another way."""

    shared: _List
    levels: dict[int, _Level]
    restarts: dict[int, int]


class Lists:
    """The lists of a document. It is asked for one mark after the other, in reading order."""

    def __init__(self, root: etree._Element | None) -> None:
        self._instances: dict[int, _Instance] = {}
        if root is not None:
            self._read(root)

    def level_of_style(self, list_id: int, style_id: str | None) -> int | None:
        """Return the level that a list keeps for paragraphs of a style."""
        instance = self._instances.get(list_id)
        if instance is None or style_id is None:
            return None
        fits = (place for place, level in instance.levels.items() if level.style_id == style_id)
        return next(fits, None)

    def mark(self, list_id: int | None, level: int) -> str | None:
        """Return the mark of the next item, '' if it has none; None when there is no such list."""
        instance = self._instances.get(list_id or 0)
        if instance is None or not 0 <= level < _LEVELS:
            return None
        count = self._count(instance, level)
        shape = instance.levels.get(level, _Level())
        if shape.form == "bullet":
            return "-"
        return "" if shape.form == "none" else self._written(instance, shape, level, count)

    def _count(self, instance: _Instance, level: int) -> int:
        counts = instance.shared.counts
        for deeper in range(level + 1, _LEVELS):
            restart = instance.levels.get(deeper, _Level()).restart
            if restart is None or level < restart:
                counts[deeper] = None
        start = instance.levels.get(level, _Level()).start
        before = counts[level]
        # A restart is taken once: the items that follow go on from it.
        again = instance.restarts.pop(level, None)
        count = again if again is not None else start if before is None else before + 1
        counts[level] = count
        return count

    def _written(self, instance: _Instance, shape: _Level, level: int, count: int) -> str:
        def number(found: re.Match[str]) -> str:
            place = int(found[1]) - 1
            outer = instance.levels.get(place, _Level())
            known = count if place == level else instance.shared.counts[place]
            form = "decimal" if shape.plain_numbers else outer.form
            return _number(outer.start if known is None else known, form)

        return _PLACEHOLDER.sub(number, shape.pattern).strip()

    def _read(self, root: etree._Element) -> None:
        lists: dict[str, _List] = {}
        links: dict[str, str] = {}
        owners: dict[str, str] = {}
        for element in root.iterchildren(f"{W}abstractNum"):
            key = element.get(f"{W}abstractNumId", "")
            lists[key] = _List(_levels(element))
            links[key] = value(element, f"{W}numStyleLink") or ""
            owners[value(element, f"{W}styleLink") or ""] = key
        for element in root.iterchildren(f"{W}num"):
            key = value(element, f"{W}abstractNumId") or ""
            # Some lists only name the style in which another list is kept.
            shared = lists.get(owners.get(links.get(key) or " ", key))
            number = whole(element.get(f"{W}numId"))
            if shared and number:
                self._instances.setdefault(number, _instance(shared, element))


def _instance(shared: _List, element: etree._Element) -> _Instance:
    levels, restarts = dict(shared.levels), {}
    for override in element.iterchildren(f"{W}lvlOverride"):
        place = whole(override.get(f"{W}ilvl"), 0) or 0
        levels.update(_levels(override))
        start = whole(value(override, f"{W}startOverride"))
        if start is not None:
            restarts[place] = start
    return _Instance(shared, levels, restarts)


def _levels(element: etree._Element) -> dict[int, _Level]:
    return {
        place: _lists_level(level)
        for level in element.iterchildren(f"{W}lvl")
        if (place := whole(level.get(f"{W}ilvl"))) is not None and place < _LEVELS
    }


def _lists_level(element: etree._Element) -> _Level:
    start = whole(value(element, f"{W}start"))
    return _Level(
        form=_form(element),
        pattern=(value(element, f"{W}lvlText") or "")[:_LONGEST_PATTERN],
        # Counting begins at 0 where nothing is said; what programs write always says it.
        start=0 if start is None else start,
        restart=whole(value(element, f"{W}lvlRestart")),
        plain_numbers=bool(switch(element, f"{W}isLgl")),
        style_id=value(element, f"{W}pStyle"),
    )


def _form(element: etree._Element) -> str:
    found = only(element, f"{W}numFmt")
    return "decimal" if found is None else found.get(VAL, "decimal")


def _number(count: int, form: str) -> str:
    """Write a number in letters or digits; in digits where letters would become absurd."""
    match form:
        case "lowerLetter" | "upperLetter":
            text = _letters(count)
        case "lowerRoman" | "upperRoman":
            text = _roman(count)
        case "decimalZero":
            text = f"{count:02}"
        case "ordinal":
            text = f"{count}{_ordinal_ending(count)}"
        case "none" | "bullet":
            text = ""
        case _:
            text = str(count)
    return text.upper() if form.startswith("upper") else text


def _letters(count: int) -> str:
    repeats, place = divmod(count - 1, 26)
    if count < 1 or repeats >= _MOST_REPEATS:
        return str(count)
    return chr(ord("a") + place) * (repeats + 1)


def _roman(count: int) -> str:
    if not 1 <= count <= _LARGEST_ROMAN:
        return str(count)
    text = ""
    for amount, letters in _ROMAN:
        repeats, count = divmod(count, amount)
        text += letters * repeats
    return text


def _ordinal_ending(count: int) -> str:
    if count % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
