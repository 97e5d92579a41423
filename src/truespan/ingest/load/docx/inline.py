"""What stands in a paragraph: text, figures at their places, boxes and notes that hang on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import lxml.etree as etree

from truespan.ingest.load.docx.fields import Fields
from truespan.ingest.load.docx.names import (
    ALTERNATIVES,
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
    R,
    T,
    V,
    W,
    chosen,
    only,
    switch,
    value,
)
from truespan.ingest.load.docx.package import Package, Part
from truespan.ingest.load.docx.passage import Passage, gathered
from truespan.ingest.load.docx.pictures import (
    BLIP,
    Pictures,
    references_of_blip,
    references_of_vml,
    text_of_shape,
)
from truespan.ingest.load.docx.styles import Styles
from truespan.ingest.load.docx.symbols import symbol
from truespan.model.text import Figure

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
