"""Reader of paragraphs: text, figures at their positions, text boxes and notes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import lxml.etree as etree
from msgspec import Struct, field

from truespan.parsing.blocks import PassageParts
from truespan.parsing.formats.docx.styles import (
    DROPPED,
    PROPERTIES,
    VAL,
    WP,
    O,
    Styles,
    Tag,
    child_value,
    flag,
)
from truespan.parsing.formats.drawing import CHART
from truespan.parsing.formats.ooxml import (
    ALTERNATIVES,
    DIAGRAM,
    PIC,
    A,
    M,
    OfficePackage,
    Part,
    Pictures,
    R,
    V,
    W,
    alt_text,
    first_child,
    image_references,
    parse_count,
    select_alternative,
)

_PRIVATE, _SURROGATES = 0xF000, range(0xD800, 0xE000)
_GREEK = dict(zip(range(0x41, 0x5B), "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True))
_GREEK |= dict(zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True))
_MATHS = {
    **dict(zip((0x22, 0x24, 0x27, 0x2A, 0x2D, 0x40, 0x5C, 0x5E, 0x7E), "∀∃∋∗−≅∴⊥∼", strict=True)),
    **dict(zip(range(0xA1, 0xBD), "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…", strict=True)),
    **dict(zip(range(0xC0, 0xE6), "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑", strict=True)),
    **dict(zip((0xF1, 0xF2), "〉∫", strict=True)),
}
_SYMBOL = {code: chr(code) for code in range(0x20, 0x7F)} | _GREEK | _MATHS
_WINGDINGS = {
    **dict(zip((0x20, 0x22, 0x28, 0x2A, 0x4A, 0x4C, 0x58, 0x9F), " ✂☎✉☺☹✠•", strict=True)),
    **dict(zip(range(0x45, 0x49), "☜☞☝☟", strict=True)),
    **dict(zip(range(0x6C, 0x7A), "●❍■□◻❑❒⬧⧫◆❖⬥⌧⍓", strict=True)),
    **dict(zip(range(0x80, 0x96), "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿", strict=True)),
    **dict(zip((0xA7, 0xA8, 0xAB, 0xD8, 0xE8, 0xF0), "▪◻★➢➔⇨", strict=True)),
    **dict(zip(range(0xDF, 0xE3), "←→↑↓", strict=True)),
    **dict(zip(range(0xFB, 0xFF), "✗✓☒☑", strict=True)),
}
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}


def read_symbol(font: str, code: str) -> str:
    """Return the character of a symbol; "" if invalid, a private one if the font is unknown."""
    try:
        number = int(code, 16)
    except ValueError:
        return ""
    known = _FONTS.get(font.strip().lower(), {})
    index = number - _PRIVATE if number >= _PRIVATE else number
    if index in known:
        return known[index]
    valid = 0x20 <= number <= sys.maxunicode and number not in _SURROGATES
    return chr(number) if valid else ""


_MAX_OPEN = 60


def is_contents_field(instruction: str) -> bool:
    """Return whether a field is a table of contents, of authorities, or an index."""
    return instruction[:_MAX_OPEN].upper().split()[:1] in (["TOC"], ["TOA"], ["INDEX"])


class _Field(Struct):
    instruction: str = ""
    in_result: bool = False
    is_contents: bool = False


class Fields(Struct):
    """The fields that are open at a position. They nest and may span paragraphs."""

    open: list[_Field] = field(default_factory=list)

    @property
    def muted(self) -> bool:
        """Whether the current text belongs to a field instruction."""
        return not all(open_field.in_result for open_field in self.open)

    @property
    def in_contents(self) -> bool:
        return any(open_field.is_contents for open_field in self.open)

    def end_contents(self) -> None:
        for open_field in self.open:
            open_field.is_contents = False

    def change(self, kind: str | None) -> None:
        """Process a field character: "begin", "separate" (the result follows) or "end"."""
        if kind == "begin":
            # Limited, so that unclosed fields do not slow down the rest.
            if len(self.open) < _MAX_OPEN:
                self.open.append(_Field())
        elif self.open and kind == "separate":
            self.open[-1].in_result = True
            self.open[-1].is_contents = is_contents_field(self.open[-1].instruction)
        elif self.open and kind == "end":
            self.open.pop()

    def add_instruction(self, text: str) -> None:
        """Add text to the instruction of the innermost field."""
        innermost = self.open[-1] if self.open else None
        if innermost and not innermost.in_result and len(innermost.instruction) < _MAX_OPEN:
            innermost.instruction += text[:_MAX_OPEN]

    def end_paragraph(self) -> None:
        """End all instructions, so that an unclosed field hides only the rest of its paragraph."""
        for open_field in self.open:
            open_field.in_result = True


_SPACE_ATTRIBUTE = "{http://www.w3.org/XML/1998/namespace}space"
_SPECIAL_CHARACTERS = {
    f"{W}tab": "\t",
    f"{W}ptab": "\t",
    f"{W}br": "\n",
    f"{W}cr": "\n",
    f"{A}br": "\n",
    f"{W}noBreakHyphen": "\u2011",
    f"{W}softHyphen": "\u00ad",
}
_BROKEN_LINE = re.compile(r"(?<![ \t])[ \t]*+[\r\n]\s*+")


def _read_choice(data: etree._Element) -> str:
    """Return the chosen entry of a list, or the state of a box; "" for another form field."""
    for choice in data.iterchildren(f"{W}ddList"):
        entries = [entry.get(VAL, "") for entry in choice.iterchildren(f"{W}listEntry")]
        values = (parse_count(child_value(choice, f"{W}{name}")) for name in ("result", "default"))
        index = next((value for value in values if value is not None), 0)
        return entries[index] if index < len(entries) else ""
    for box in data.iterchildren(f"{W}checkBox"):
        states = (flag(box, f"{W}{name}") for name in ("checked", "default"))
        return "☒" if next((state for state in states if state is not None), False) else "☐"
    return ""


Box = tuple[etree._Element, Part]
"""The content of a text box or note, and the part that resolves its references."""

NoteRef = tuple[str, str]
"""A reference to a note: "footnote" or "endnote", and its id."""


class Line(PassageParts):
    """The content of a paragraph while it is read."""

    boxes: list[Box] = field(default_factory=list)
    notes: list[NoteRef] = field(default_factory=list)
    hidden: bool = False


class Inline:
    """Reads the paragraphs of one container: the body of a document, a box or a note."""

    def __init__(
        self, part: Part, package: OfficePackage, styles: Styles, pictures: Pictures
    ) -> None:
        self.part, self.package, self.styles, self.pictures = part, package, styles, pictures
        self.fields = Fields()
        self._alt = ""

    def read(self, paragraph: etree._Element, line: Line) -> None:
        self._read_children(paragraph, line)
        self.fields.end_paragraph()

    def _read_children(self, element: etree._Element, line: Line) -> None:
        for child in element:
            handler = _HANDLERS.get(child.tag)
            if handler:
                handler(self, child, line)
            else:
                self._read_children(child, line)

    def _read_run(self, run: etree._Element, line: Line) -> None:
        if self._is_hidden(run, line):
            # Fields are tracked in hidden text too, since they may end after it.
            for child in run:
                if child.tag == f"{W}fldChar":
                    self.fields.change(child.get(f"{W}fldCharType"))
                elif child.tag == f"{W}instrText":
                    self.fields.add_instruction(child.text or "")
        else:
            self._read_children(run, line)

    def _is_hidden(self, run: etree._Element, line: Line) -> bool:
        properties = first_child(run, Tag.RUN_PROPERTIES)
        if properties is None:
            return line.hidden
        direct = flag(properties, Tag.HIDDEN)
        if direct is not None:
            return direct
        style_id = child_value(properties, f"{W}rStyle")
        return line.hidden or (style_id is not None and self.styles.find(style_id).hidden)

    def _add_text(self, element: etree._Element, line: Line) -> None:
        text = element.text
        if text and not self.fields.muted:
            if "\n" in text or "\r" in text:
                # Line breaks of the XML file, not of the document.
                if element.get(_SPACE_ATTRIBUTE) != "preserve":
                    text = text.strip()
                text = _BROKEN_LINE.sub(" ", text)
            line.parts.append(text)

    def _add(self, text: str, line: Line) -> None:
        if not self.fields.muted:
            line.parts.append(text)

    def _add_denominator(self, element: etree._Element, line: Line) -> None:
        """Write a slash before a denominator, so that one half does not read 12."""
        self._add("/", line)
        self._read_children(element, line)

    def _change_field(self, element: etree._Element, line: Line) -> None:
        for data in element.iterchildren(f"{W}ffData"):
            self._add(_read_choice(data), line)
        self.fields.change(element.get(f"{W}fldCharType"))

    def _add_note(self, element: etree._Element, line: Line) -> None:
        kind = element.tag.removeprefix(W).removesuffix("Reference")
        line.notes.append((kind, element.get(f"{W}id", "")))

    def _read_alternatives(self, element: etree._Element, line: Line) -> None:
        for option in select_alternative(element, CHART):
            self._read_children(option, line)

    def _add_part(self, element: etree._Element, line: Line) -> None:
        """Add the text of a diagram or chart, which is a separate part."""
        reference = element.get(f"{R}id" if element.tag == CHART else f"{R}dm", "")
        target = self.part.target_of(reference)
        part = self.package.read_new_part(target) if target else None
        if part is not None:
            line.boxes.append((part.root, part))

    def _read_frame(self, element: etree._Element, line: Line) -> None:
        """Read a drawing; its properties have the alternative text."""
        properties = first_child(element, f"{WP}docPr")
        outer = self._alt
        self._alt = "" if properties is None else alt_text(properties)
        self._read_children(element, line)
        self._alt = outer

    def _read_picture(self, element: etree._Element, line: Line) -> None:
        """Read a picture; in a group, its own alternative text comes first."""
        outer = self._alt
        own = next(map(alt_text, element.iter(f"{PIC}cNvPr")), "")
        parent = element.getparent()
        alone = parent is not None and parent.tag == f"{A}graphicData"
        self._alt = (outer or own) if alone else (own or outer)
        self._read_children(element, line)
        self._alt = outer

    def _add_blip(self, element: etree._Element, line: Line) -> None:
        self._add_figure(image_references(element), self._alt, line)

    def _add_vml_image(self, element: etree._Element, line: Line) -> None:
        shape = element.getparent()
        alt = "" if shape is None else shape.get("alt", "").strip()
        names = (f"{R}id", f"{O}relid", f"{R}href")
        self._add_figure([ref for name in names if (ref := element.get(name))], alt, line)

    def _add_figure(self, references: list[str], alt: str, line: Line) -> None:
        figure = self.pictures.figure(self.part, references, alt)
        line.figures.append((len(line.parts), figure))


_HANDLERS: dict[str, Callable[[Inline, etree._Element, Line], None]] = {
    **dict.fromkeys((*DROPPED, *PROPERTIES, f"{W}rt"), lambda *_: None),
    Tag.RUN: Inline._read_run,
    **dict.fromkeys((Tag.TEXT, f"{M}t", f"{A}t"), Inline._add_text),
    **dict.fromkeys(
        _SPECIAL_CHARACTERS, lambda inline, e, line: inline._add(_SPECIAL_CHARACTERS[e.tag], line)
    ),
    f"{W}sym": lambda inline, e, line: inline._add(
        read_symbol(e.get(f"{W}font", ""), e.get(f"{W}char", "")), line
    ),
    f"{M}den": Inline._add_denominator,
    f"{W}fldChar": Inline._change_field,
    f"{W}instrText": lambda inline, e, _: inline.fields.add_instruction(e.text or ""),
    **dict.fromkeys((f"{W}footnoteReference", f"{W}endnoteReference"), Inline._add_note),
    ALTERNATIVES: Inline._read_alternatives,
    **dict.fromkeys(
        (Tag.TEXT_BOX, f"{A}txBody"), lambda inline, e, line: line.boxes.append((e, inline.part))
    ),
    **dict.fromkeys((f"{DIAGRAM}relIds", CHART), Inline._add_part),
    **dict.fromkeys((f"{WP}inline", f"{WP}anchor"), Inline._read_frame),
    f"{PIC}pic": Inline._read_picture,
    f"{A}blip": Inline._add_blip,
    f"{V}imagedata": Inline._add_vml_image,
    f"{V}textpath": lambda inline, e, line: inline._add(e.get("string", ""), line),
}
