"""Elements of WordprocessingML, paragraph styles, and the markers of lists."""

from __future__ import annotations

import re

import lxml.etree as etree
from msgspec import Struct, field

from truespan.parsing.blocks import TITLE_LEVEL, heading_level, is_contents_style, style_kind
from truespan.parsing.formats.ooxml import W, first_child, parse_count
from truespan.text.headings import format_number
from truespan.types.text import BlockKind

_MAX_CHAIN_LENGTH = 40
_BODY_LEVEL = 9
_FIRST_ROW = 0x20
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
    child = first_child(element, tag)
    return None if child is None else child.get(VAL)


def flag(element: etree._Element, tag: str) -> bool | None:
    """Return whether a property is on; None if it is not set."""
    child = first_child(element, tag)
    return None if child is None else child.get(VAL) not in _OFF


class Style(Struct, frozen=True):
    """A resolved style. `level` is the heading level, 0 for the title, None for other text."""

    level: int | None = None
    kind: BlockKind = BlockKind.PARAGRAPH
    hidden: bool = False
    list_id: int | None = None
    list_level: int | None = None
    is_contents: bool = False


class Styles:
    """The styles of a document by id; for an undefined style, the id serves as its name."""

    def __init__(self, root: etree._Element | None) -> None:
        self._elements: dict[str, etree._Element] = {}
        self._cache: dict[str, Style] = {}
        self.default_id: str | None = None
        self.language: str | None = None
        for element in root.iterchildren(f"{W}style") if root is not None else ():
            style_id = element.get(f"{W}styleId", "")
            self._elements.setdefault(style_id, element)
            default = element.get(f"{W}default") in ("1", "true", "on")
            if default and element.get(f"{W}type") == "paragraph":
                self.default_id = style_id
        for defaults in root.iterchildren(f"{W}docDefaults") if root is not None else ():
            for language in defaults.iter(f"{W}lang"):
                self.language = self.language or language.get(VAL)

    def find(self, style_id: str | None) -> Style:
        """Return a style; without an id, the default style."""
        wanted = style_id or self.default_id
        if wanted is None:
            return Style()
        if wanted not in self._cache:
            self._cache[wanted] = self._resolve(wanted)
        return self._cache[wanted]

    def formats_first_row(self, style_id: str | None) -> bool:
        """Return whether a table style, or a base style, formats the first row."""
        seen: set[str] = set()
        while style_id and style_id not in seen and len(seen) < _MAX_CHAIN_LENGTH:
            seen.add(style_id)
            element = self._elements.get(style_id)
            if element is None:
                return False
            parts = element.iterchildren(f"{W}tblStylePr")
            if any(part.get(f"{W}type") == "firstRow" for part in parts):
                return True
            style_id = child_value(element, f"{W}basedOn")
        return False

    def _resolve(self, style_id: str) -> Style:
        """Combine a style with those it is based on; the most specific value wins."""
        level, kind, hidden = None, BlockKind.PARAGRAPH, None
        has_level, list_id, list_level, is_contents = False, None, None, False
        next_id: str | None = style_id
        seen: set[str] = set()
        while next_id and next_id not in seen and len(seen) < _MAX_CHAIN_LENGTH:
            id, next_id, name, properties = next_id, None, "", None
            seen.add(id)
            element = self._elements.get(id)
            if element is not None:
                next_id = child_value(element, f"{W}basedOn")
                name = (child_value(element, f"{W}name") or "").strip()
                properties = first_child(element, Tag.PARAGRAPH_PROPERTIES)
                run_properties = first_child(element, Tag.RUN_PROPERTIES)
                if hidden is None and run_properties is not None:
                    hidden = flag(run_properties, Tag.HIDDEN)
            if not has_level:
                level, has_level = _read_level(id, name, properties)
            if properties is not None:
                found_id, found_level = read_list_position(properties)
                list_id = found_id if list_id is None else list_id
                list_level = found_level if list_level is None else list_level
            if kind is BlockKind.PARAGRAPH:
                kind = style_kind(name) or style_kind(id) or kind
            is_contents = is_contents or is_contents_style(name or id)
        return Style(
            level=level,
            kind=kind,
            hidden=bool(hidden),
            list_id=list_id,
            list_level=list_level,
            is_contents=is_contents,
        )


def has_header_row(look: etree._Element) -> bool:
    stated = look.get(f"{W}firstRow")
    if stated is not None:
        return stated in ("1", "true", "on")
    try:
        return bool(int(look.get(VAL, "0")[:4], 16) & _FIRST_ROW)
    except ValueError:
        return False


def read_outline_level(properties: etree._Element) -> tuple[int | None, bool]:
    """Return the heading level that properties set (None for body text), and whether they do."""
    level = parse_count(child_value(properties, f"{W}outlineLvl"))
    if level is None:
        return None, False
    return (level + 1 if level < _BODY_LEVEL else None), True


def read_list_position(properties: etree._Element) -> tuple[int | None, int | None]:
    position = first_child(properties, f"{W}numPr")
    if position is None:
        return None, None
    return (
        parse_count(child_value(position, f"{W}numId")),
        parse_count(child_value(position, f"{W}ilvl")),
    )


def _read_level(
    style_id: str, name: str, properties: etree._Element | None
) -> tuple[int | None, bool]:
    """Return the level of a style without its base styles, and whether it sets one."""
    if "title" in (style_id.lower(), name.lower()):
        return TITLE_LEVEL, True
    if properties is not None:
        level, has_level = read_outline_level(properties)
        if has_level:
            return level, True
    # The name comes first: it is English even if the id is localised.
    for text in (name, style_id):
        if level := heading_level(text):
            return level, True
    return None, False


_LEVELS = 9
_MAX_PATTERN_LENGTH = 40
_PLACEHOLDER = re.compile("%([1-9])")


class _Level(Struct, frozen=True):
    """Numbering of one list level."""

    form: str = "decimal"
    pattern: str = ""
    start: int = 1
    restart: int | None = None
    """Level below which an item restarts the count; 0 for never."""
    plain_numbers: bool = False
    style_id: str | None = None


class _Instance(Struct):
    """An instance of a list, with its own levels and possibly shared counters."""

    counts: list[int | None]
    levels: dict[int, _Level]
    restarts: dict[int, int] = field(default_factory=dict)


class Lists:
    """The lists of a document. Markers must be requested in reading order."""

    def __init__(self, root: etree._Element | None) -> None:
        self._instances: dict[int, _Instance] = {}
        if root is None:
            return
        lists: dict[str, _Instance] = {}
        links: dict[str, str] = {}
        owners: dict[str, str] = {}
        for element in root.iterchildren(f"{W}abstractNum"):
            key = element.get(f"{W}abstractNumId", "")
            lists[key] = _Instance([None] * _LEVELS, _read_levels(element))
            links[key] = child_value(element, f"{W}numStyleLink") or ""
            owners[child_value(element, f"{W}styleLink") or ""] = key
        for element in root.iterchildren(f"{W}num"):
            key = child_value(element, f"{W}abstractNumId") or ""
            # Some lists only refer to a style with the definition of another list.
            shared = lists.get(owners.get(links.get(key) or " ", key))
            number = parse_count(element.get(f"{W}numId"))
            if not shared or not number or number in self._instances:
                continue
            instance = self._instances[number] = _Instance(shared.counts, dict(shared.levels))
            for override in element.iterchildren(f"{W}lvlOverride"):
                instance.levels.update(_read_levels(override))
                start = parse_count(child_value(override, f"{W}startOverride"))
                if start is not None:
                    instance.restarts[parse_count(override.get(f"{W}ilvl"), 0) or 0] = start

    def level_of_style(self, list_id: int, style_id: str | None) -> int | None:
        instance = self._instances.get(list_id)
        if instance is None or style_id is None:
            return None
        levels = (index for index, level in instance.levels.items() if level.style_id == style_id)
        return next(levels, None)

    def next_marker(self, list_id: int | None, index: int) -> str | None:
        """Return the marker of the next item, "" for none; None if the list does not exist."""
        instance = self._instances.get(list_id or 0)
        if instance is None or not 0 <= index < _LEVELS:
            return None
        counts = instance.counts
        for deeper in range(index + 1, _LEVELS):
            restart = instance.levels.get(deeper, _Level()).restart
            if restart is None or index < restart:
                counts[deeper] = None
        level = instance.levels.get(index, _Level())
        # A restart applies once; later items continue from it.
        previous = counts[index]
        following = level.start if previous is None else previous + 1
        counts[index] = instance.restarts.pop(index, following)
        if level.form in ("bullet", "none"):
            return "-" if level.form == "bullet" else ""

        def format_level(found: re.Match[str]) -> str:
            number = int(found[1]) - 1
            outer = instance.levels.get(number, _Level())
            known = counts[number]
            form = "decimal" if level.plain_numbers else outer.form
            return format_number(outer.start if known is None else known, form)

        return _PLACEHOLDER.sub(format_level, level.pattern).strip()


def _read_levels(element: etree._Element) -> dict[int, _Level]:
    levels: dict[int, _Level] = {}
    for level in element.iterchildren(f"{W}lvl"):
        index = parse_count(level.get(f"{W}ilvl"))
        if index is None or index >= _LEVELS:
            continue
        form = first_child(level, f"{W}numFmt")
        levels[index] = _Level(
            form="decimal" if form is None else form.get(VAL, "decimal"),
            pattern=(child_value(level, f"{W}lvlText") or "")[:_MAX_PATTERN_LENGTH],
            # The default is 0 by the specification; programs always write a start.
            start=parse_count(child_value(level, f"{W}start"), 0) or 0,
            restart=parse_count(child_value(level, f"{W}lvlRestart")),
            plain_numbers=bool(flag(level, f"{W}isLgl")),
            style_id=child_value(level, f"{W}pStyle"),
        )
    return levels
