"""What stands in a paragraph: text, figures at their places, boxes and notes that hang on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import lxml.etree as etree

from truespan.parsing.docx.package import (
    ALTERNATIVES,
    BLIP,
    DIAGRAM,
    DROPPED,
    PIC,
    PROPERTIES,
    R_RUN,
    RPR,
    TEXT_BOX,
    VANISH,
    WP,
    A,
    M,
    P,
    Package,
    Part,
    Pictures,
    R,
    T,
    V,
    W,
    chosen,
    only,
    references_of_blip,
    references_of_vml,
    switch,
    text_of_shape,
    value,
)
from truespan.parsing.docx.styles import Styles
from truespan.types.text import Figure, PlacedFigure

_SPACE = re.compile(r"\s+")


class Passage(NamedTuple):
    """A text and the figures in it, by ascending offset."""

    text: str
    figures: tuple[PlacedFigure, ...] = ()

    @property
    def blank(self) -> bool:
        """Say whether there is neither a word nor a figure."""
        return not self.figures and not self.text.strip()

    def stripped(self) -> Passage:
        """Return the passage without white space at both ends."""
        text = self.text.strip()
        if len(text) == len(self.text) or not self.figures:
            return Passage(text, self.figures)
        before = len(self.text) - len(self.text.lstrip())
        moved = (max(0, min(place - before, len(text))) for place, _ in self.figures)
        placed = zip(moved, self.figures, strict=True)
        return Passage(text, tuple(PlacedFigure(place, found.figure) for place, found in placed))

    def trimmed(self) -> Passage:
        """Return the passage without blank lines at both ends.

        The white space before its first word stays, because the margin of code is nothing else; not
        so where a figure stands before that word.
        """
        margin = len(self.text) - len(self.text.lstrip())
        if not margin or (self.figures and self.figures[0].offset <= margin):
            return self.stripped()
        begin = self.text.rfind("\n", 0, margin) + 1
        text = self.text[begin:].rstrip()
        placed = ((min(place - begin, len(text)), figure) for place, figure in self.figures)
        return Passage(text, tuple(PlacedFigure(*found) for found in placed))

    def on_one_line(self) -> Passage:
        """Return the passage with one space wherever it has white space."""
        if not self.figures:
            return Passage(" ".join(self.text.split()))
        parts, figures, start, length = [], [], 0, 0
        for place, figure in self.figures:
            parts.append(_SPACE.sub(" ", self.text[start:place]))
            length += len(parts[-1])
            figures.append(PlacedFigure(length, figure))
            start = place
        parts.append(_SPACE.sub(" ", self.text[start:]))
        return Passage("".join(parts), tuple(figures)).stripped()

    def indented(self, first: str, rest: str) -> Passage:
        """Return the passage with `first` before it, and `rest` before each further line."""
        text = first + self.text.replace("\n", f"\n{rest}")
        moved: list[PlacedFigure] = []
        start, added = 0, len(first)
        for place, figure in self.figures:
            added += len(rest) * self.text.count("\n", start, place)
            start = place
            moved.append(PlacedFigure(place + added, figure))
        return Passage(text, tuple(moved))


def joined(passages: Iterable[Passage], between: str) -> Passage:
    """Return several passages as one."""
    texts: list[str] = []
    figures: list[PlacedFigure] = []
    start = 0
    for passage in passages:
        texts.append(passage.text)
        figures += (PlacedFigure(start + place, figure) for place, figure in passage.figures)
        start += len(passage.text) + len(between)
    return Passage(between.join(texts), tuple(figures))


def gathered(parts: list[str], figures: list[tuple[int, Figure]]) -> Passage:
    """Return parts as one passage; each figure stands before the part of its number."""
    if not figures:
        return Passage("".join(parts))
    placed: list[PlacedFigure] = []
    length, done = 0, 0
    for before, figure in figures:
        length += sum(map(len, parts[done:before]))
        done = before
        placed.append(PlacedFigure(length, figure))
    return Passage("".join(parts), tuple(placed))


_PRIVATE = 0xF000
_LARGEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

_GREEK = dict(
    zip(
        range(0x41, 0x5B),
        "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ",
        strict=True,
    )
) | dict(zip(range(0x61, 0x7B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True))
_MATHS = {
    **dict(zip((0x22, 0x24, 0x27, 0x2A, 0x2D, 0x40, 0x5C, 0x5E, 0x7E), "∀∃∋∗−≅∴⊥∼", strict=True)),
    **dict(zip(range(0xA1, 0xBD), "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…", strict=True)),
    **dict(zip(range(0xC0, 0xE6), "ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑", strict=True)),
    0xF1: "〉",
    0xF2: "∫",
}
_SYMBOL = {code: chr(code) for code in range(0x20, 0x7F)} | _GREEK | _MATHS
_WINGDINGS = {
    0x20: " ",
    0x22: "✂",
    0x28: "☎",
    0x2A: "✉",
    0x4A: "☺",
    0x4C: "☹",
    0x58: "✠",
    0x9F: "•",
    **dict(zip(range(0x45, 0x49), "☜☞☝☟", strict=True)),
    **dict(zip(range(0x6C, 0x7A), "●❍■□◻❑❒⬧⧫◆❖⬥⌧⍓", strict=True)),
    **dict(zip(range(0x80, 0x96), "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿", strict=True)),
    0xA7: "▪",
    0xA8: "◻",
    0xAB: "★",
    0xD8: "➢",
    0xE8: "➔",
    0xF0: "⇨",
    **dict(zip(range(0xDF, 0xE3), "←→↑↓", strict=True)),
    **dict(zip(range(0xFB, 0xFF), "✗✓☒☑", strict=True)),
}
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS}


def symbol(font: str, code: str) -> str:
    """Return the character that a symbol stands for.

    One of a font that is not known here keeps its number, which fonts for symbols have in the
    private area of Unicode: it is better than nothing in its place.
    """
    try:
        number = int(code, 16)
    except ValueError:
        return ""
    known = _FONTS.get(font.strip().lower(), {})
    place = number - _PRIVATE if number >= _PRIVATE else number
    if place in known:
        return known[place]
    plain = 0x20 <= number <= _LARGEST and number not in _SURROGATES
    return chr(number) if plain else ""


_MOST_OPEN = 60


@dataclass(slots=True)
class _Field:
    instruction: str = ""
    in_result: bool = False
    lists_contents: bool = False


@dataclass(slots=True)
class Fields:
    """The fields that are open at some place of a story. They nest, and run across paragraphs."""

    open: list[_Field] = field(default_factory=list)
    muted: bool = False
    """Whether the text at this place belongs to an instruction."""

    @property
    def in_contents(self) -> bool:
        """Say whether the text at this place belongs to a table of contents."""
        return any(found.lists_contents for found in self.open)

    def mark(self, kind: str | None) -> None:
        """Take the mark that begins a field, divides it from its result, or ends it."""
        if kind == "begin":
            # A document that opens fields and never closes them must not cost more and more.
            if len(self.open) < _MOST_OPEN:
                self.open.append(_Field())
        elif self.open and kind == "separate":
            self.open[-1].in_result = True
            self.open[-1].lists_contents = self.open[-1].instruction.split()[:1] == ["TOC"]
        elif self.open and kind == "end":
            self.open.pop()
        self._settle()

    def instruct(self, text: str) -> None:
        """Take a piece of an instruction."""
        if (
            self.open
            and not self.open[-1].in_result
            and len(self.open[-1].instruction) < _MOST_OPEN
        ):
            self.open[-1].instruction += text[:_MOST_OPEN]

    def end_paragraph(self) -> None:
        """Take the end of a paragraph. No instruction runs across it.

        So a field that nobody divided or closed hides the rest of its paragraph, and no more.
        """
        for found in self.open:
            found.in_result = True
        self._settle()

    def _settle(self) -> None:
        self.muted = not all(found.in_result for found in self.open)


_SPACE_ATTRIBUTE = "{http://www.w3.org/XML/1998/namespace}space"
_SIGNS = {
    f"{W}tab": "\t",
    f"{W}ptab": "\t",
    f"{W}br": "\n",
    f"{W}cr": "\n",
    f"{A}br": "\n",
    f"{W}noBreakHyphen": "\u2011",
    f"{W}softHyphen": "\u00ad",
}
_BROKEN_LINE = re.compile(r"[ \t]*[\r\n]\s*")


class Box(NamedTuple):
    """A text of its own that hangs on a paragraph, and the part it refers to things by."""

    content: etree._Element
    part: Part


class NoteMark(NamedTuple):
    """A reference to a note: 'footnote' or 'endnote', and its id."""

    kind: str
    note_id: str


@dataclass(slots=True)
class Line:
    """A paragraph while it is read."""

    parts: list[str] = field(default_factory=list)
    figures: list[tuple[int, Figure]] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    notes: list[NoteMark] = field(default_factory=list)
    hidden: bool = False

    def passage(self) -> Passage:
        """Return what was read so far."""
        return gathered(self.parts, self.figures).trimmed()


class Inline:
    """Reads the paragraphs of one story: the body of a document, a box or a note."""

    def __init__(self, part: Part, package: Package, styles: Styles, pictures: Pictures) -> None:
        self.part, self.package, self.styles, self.pictures = part, package, styles, pictures
        self.fields = Fields()
        self._alt = ""
        self._hides = styles.hides or part.hides

    def plain_text(self, paragraph: etree._Element) -> str | None:
        """Return the text of a paragraph that holds nothing else; None if it is to be read."""
        if self.fields.open or self.styles.hides or paragraph.tag != P:
            return None
        if paragraph in self.part.intricate:
            return None
        text = "".join([found.text or "" for found in paragraph.iter(T)])
        return None if "\n" in text or "\r" in text else text

    def read(self, paragraph: etree._Element, line: Line) -> None:
        """Add what a paragraph holds to a line."""
        self._descend(paragraph, line)
        if self.fields.muted:
            self.fields.end_paragraph()

    def _descend(self, element: etree._Element, line: Line) -> None:
        for child in element:
            act = _ACTS.get(child.tag)
            if act:
                act(self, child, line)
            else:
                self._descend(child, line)

    def _run(self, run: etree._Element, line: Line) -> None:
        if self._hides and self._is_hidden(run, line):
            self._keep_fields(run, line)
            return
        for child in run:
            tag = child.tag
            if tag == T:
                self._text(child, line)
            elif tag != RPR:
                act = _ACTS.get(tag)
                if act:
                    act(self, child, line)
                else:
                    self._descend(child, line)

    def _is_hidden(self, run: etree._Element, line: Line) -> bool:
        properties = only(run, RPR)
        if properties is None:
            return line.hidden
        direct = switch(properties, VANISH)
        if direct is not None:
            return direct
        style_id = value(properties, f"{W}rStyle")
        return line.hidden or (style_id is not None and self.styles.style(style_id).hidden)

    def _keep_fields(self, run: etree._Element, line: Line) -> None:
        for child in run:
            if child.tag in (f"{W}fldChar", f"{W}instrText"):
                _ACTS[child.tag](self, child, line)

    def _text(self, element: etree._Element, line: Line) -> None:
        text = element.text
        if text and not self.fields.muted:
            if "\n" in text or "\r" in text:
                text = _unbroken(text, element)
            line.parts.append(text)

    def _skip(self, element: etree._Element, line: Line) -> None:
        """Leave out an element and all that is in it."""

    def _sign(self, element: etree._Element, line: Line) -> None:
        self._add(_SIGNS[element.tag], line)

    def _symbol(self, element: etree._Element, line: Line) -> None:
        self._add(symbol(element.get(f"{W}font", ""), element.get(f"{W}char", "")), line)

    def _below(self, element: etree._Element, line: Line) -> None:
        """Write what stands below the line of a fraction after a stroke: one half is not 12."""
        self._add("/", line)
        self._descend(element, line)

    def _add(self, text: str, line: Line) -> None:
        if not self.fields.muted:
            line.parts.append(text)

    def _field(self, element: etree._Element, _line: Line) -> None:
        self.fields.mark(element.get(f"{W}fldCharType"))

    def _instruction(self, element: etree._Element, _line: Line) -> None:
        self.fields.instruct(element.text or "")

    def _footnote(self, element: etree._Element, line: Line) -> None:
        line.notes.append(NoteMark("footnote", element.get(f"{W}id", "")))

    def _endnote(self, element: etree._Element, line: Line) -> None:
        line.notes.append(NoteMark("endnote", element.get(f"{W}id", "")))

    def _alternatives(self, element: etree._Element, line: Line) -> None:
        for option in chosen(element):
            self._descend(option, line)

    def _box(self, element: etree._Element, line: Line) -> None:
        line.boxes.append(Box(element, self.part))

    def _diagram(self, element: etree._Element, line: Line) -> None:
        """Take the words of a diagram, which has them in a part of its own."""
        relation = self.part.relations.get(element.get(f"{R}dm", ""))
        if relation is None or relation.external:
            return
        part = self.package.unread_part(relation.target)
        if part is not None:
            line.boxes.append(Box(part.root, part))

    def _frame(self, element: etree._Element, line: Line) -> None:
        """Enter what a drawing stands in, whose properties describe it in words."""
        properties = only(element, f"{WP}docPr")
        outer = self._alt
        self._alt = "" if properties is None else text_of_shape(properties)
        self._descend(element, line)
        self._alt = outer

    def _picture(self, element: etree._Element, line: Line) -> None:
        """Enter a picture; one of a group has words of its own."""
        outer = self._alt
        own = next(map(text_of_shape, element.iter(f"{PIC}cNvPr")), "")
        parent = element.getparent()
        alone = parent is not None and parent.tag == f"{A}graphicData"
        self._alt = (outer or own) if alone else (own or outer)
        self._descend(element, line)
        self._alt = outer

    def _blip(self, element: etree._Element, line: Line) -> None:
        self._figure(references_of_blip(element), self._alt, line)

    def _vml_image(self, element: etree._Element, line: Line) -> None:
        shape = element.getparent()
        alt = "" if shape is None else shape.get("alt", "").strip()
        self._figure(references_of_vml(element), alt, line)

    def _figure(self, references: list[str], alt: str, line: Line) -> None:
        figure = self.pictures.figure(self.part, references, alt)
        line.figures.append((len(line.parts), figure))

    def _word_art(self, element: etree._Element, line: Line) -> None:
        self._add(element.get("string", ""), line)


def _unbroken(text: str, element: etree._Element) -> str:
    """Return text whose lines the file is laid out in, not the document, as one line."""
    if element.get(_SPACE_ATTRIBUTE) != "preserve":
        text = text.strip()
    return _BROKEN_LINE.sub(" ", text)


_Act = Callable[[Inline, etree._Element, Line], None]
_ACTS: dict[str, _Act] = {
    **dict.fromkeys((*DROPPED, *PROPERTIES, f"{W}rt"), Inline._skip),
    R_RUN: Inline._run,
    T: Inline._text,
    f"{M}t": Inline._text,
    f"{A}t": Inline._text,
    **dict.fromkeys(_SIGNS, Inline._sign),
    f"{W}sym": Inline._symbol,
    f"{M}den": Inline._below,
    f"{W}fldChar": Inline._field,
    f"{W}instrText": Inline._instruction,
    f"{W}footnoteReference": Inline._footnote,
    f"{W}endnoteReference": Inline._endnote,
    ALTERNATIVES: Inline._alternatives,
    TEXT_BOX: Inline._box,
    f"{A}txBody": Inline._box,
    f"{DIAGRAM}relIds": Inline._diagram,
    f"{WP}inline": Inline._frame,
    f"{WP}anchor": Inline._frame,
    f"{PIC}pic": Inline._picture,
    BLIP: Inline._blip,
    f"{V}imagedata": Inline._vml_image,
    f"{V}textpath": Inline._word_art,
}
"""What to do at which element. Where nothing is said, what is inside is read."""
