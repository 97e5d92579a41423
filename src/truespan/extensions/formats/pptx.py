"""PPTX parser: the slides in order, each with its title, text and notes.

Included: groups, tables, lists, diagrams, the titles of charts, the positions of pictures, and
hidden slides. Excluded: dates, footers and slide numbers, content of layouts and masters, hidden
shapes, comments, embedded files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceRefused
from truespan.extensions.formats.shapes import Line, read_lines
from truespan.parsing.archive import Archive
from truespan.parsing.blocks import BlockWriter, Passage
from truespan.parsing.formats.drawing import CHART, C, read_text, write_chart
from truespan.parsing.formats.ooxml import (
    ALTERNATIVES,
    DIAGRAM,
    A,
    OfficePackage,
    Part,
    Pictures,
    R,
    alt_text,
    first_child,
    image_references,
    parse_count,
    read_properties,
    select_alternative,
)
from truespan.types.text import BlockKind, Figure, Loaded, PlacedFigure

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
P14 = "{http://schemas.microsoft.com/office/powerpoint/2010/main}"

_MEANINGLESS = frozenset({"powerpoint presentation", "powerpoint-präsentation", "slide 1"})
"""Default titles that programs write into the properties."""


def load_pptx(name: str, data: bytes, *, images: bool) -> Loaded:
    """Parse a PPTX file or raise `SourceRefused`; `images` includes the bytes of pictures."""
    try:
        package = OfficePackage(name, Archive(name, data))
        main = package.read_main("ppt/presentation.xml", f"{P}presentation")
        slides = Slides(package, Pictures(package.archive, images))
        for number, (reference, chapter) in enumerate(_list_slides(main.root), 1):
            target = main.target_of(reference)
            part = package.read_new_part(target) if target else None
            if part is None:
                slides.missing += 1
            else:
                slides.add_slide(part, number, chapter)
        properties = read_properties(package, language=None)
    except RecursionError as error:
        # The depth limit of the XML parser should prevent this; a crash would be worse.
        raise SourceRefused("source_unsafe", name) from error
    warnings = slides.pictures.warnings()
    if slides.missing:
        warnings.append(f"Slides that are damaged or missing: {slides.missing}.")
    if slides.left_out:
        warnings.append(f"Diagrams, charts or notes that are damaged: {slides.left_out}.")
    stated = properties.title
    if stated and stated.strip().lower() in _MEANINGLESS:
        stated = None
    return Loaded(
        blocks=tuple(slides.writer.blocks),
        title=slides.title or stated or slides.first_title,
        properties=properties,
        images=tuple(slides.pictures.images),
        pictures=slides.pictures.counts(),
        warnings=tuple(warnings),
    )


def _list_slides(root: etree._Element) -> Iterator[tuple[str, str | None]]:
    """Yield the reference and the section of each slide, in the order of the presentation."""
    sections: dict[str, str] = {}
    for section in root.iter(f"{P14}section"):
        for slide in section.iter(f"{P14}sldId"):
            sections.setdefault(slide.get("id", ""), section.get("name", "").strip())
    for slides in root.iterchildren(f"{P}sldIdLst"):
        for slide in slides.iterchildren(f"{P}sldId"):
            yield slide.get(f"{R}id", ""), sections.get(slide.get("id", "")) or None


_TITLES = ("title", "ctrTitle")
_REPEATED = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})
"""Placeholders with the same content on each slide, or with an image of the slide."""
_SHAPE, _PICTURE, _BODY = f"{P}sp", f"{P}pic", f"{P}txBody"
_DRAWN = (f"{A}tbl", CHART, f"{DIAGRAM}relIds", _PICTURE)


class _Layout(Struct):
    """List styles of a layout: of its placeholders, by index and type, and of its master."""

    by_index: dict[str, list[etree._Element]] = field(default_factory=dict)
    by_type: dict[str, list[etree._Element]] = field(default_factory=dict)
    master: _Layout | None = None
    titles: list[etree._Element] = field(default_factory=list)
    bodies: list[etree._Element] = field(default_factory=list)

    def styles(self, kind: str, index: str) -> list[etree._Element]:
        """Return the styles of a placeholder, the most specific first."""
        found = self.by_type.get(kind) if kind in _TITLES else self.by_index.get(index)
        chain = list(found or self.by_type.get(kind, ()))
        if self.master is not None:
            is_title = kind in _TITLES
            chain += self.master.by_type.get("title" if is_title else "body", ())
            chain += self.master.titles if is_title else self.master.bodies
        return chain


class Slides(Struct):
    """Converts slides to blocks. The place of a block depends only on the text before it."""

    package: OfficePackage
    pictures: Pictures
    writer: BlockWriter = field(default_factory=BlockWriter)
    title: str | None = None
    """Title of the first slide, if it is the title of the presentation."""
    first_title: str | None = None
    missing: int = 0
    left_out: int = 0
    _layouts: dict[str, _Layout] = field(default_factory=dict)

    def add_slide(self, part: Part, number: int, chapter: str | None) -> None:
        """Add the title of a slide, its shapes in the order of the file, and its notes."""
        self.pictures.count_relations(part)
        trees = list(part.root.iterfind(f"{P}cSld/{P}spTree"))
        title = next(
            (
                shape
                for tree in trees
                for placeholder in tree.iter(f"{P}ph")
                if placeholder.get("type") in _TITLES
                for shape in placeholder.iterancestors(_SHAPE)
                if not _is_hidden(shape)
            ),
            None,
        )
        text = "" if title is None else _title_text(title)
        self.writer.begin_slide(number, text, chapter)
        self.first_title = self.first_title or text or None
        if title is not None and number == 1 and _placeholder(title)[0] == "ctrTitle":
            self.title = text
        layout = self._find_layout(part)
        for tree in trees:
            self._read_shapes(tree, part, layout, skipped=title)
        notes = self._read_linked(part, part.find_related("notesSlide"))
        if notes is not None:
            self.writer.begin_notes()
            self.pictures.count_relations(notes)
            for tree in notes.root.iterfind(f"{P}cSld/{P}spTree"):
                self._read_shapes(tree, notes, _Layout())
            self.writer.end_notes()

    def _read_shapes(
        self,
        group: etree._Element,
        part: Part,
        layout: _Layout,
        skipped: etree._Element | None = None,
    ) -> None:
        for shape in group:
            tag = shape.tag
            if tag == ALTERNATIVES:
                for option in select_alternative(shape, CHART):
                    self._read_shapes(option, part, layout, skipped)
            elif _is_hidden(shape) or shape is skipped:
                continue
            elif tag == f"{P}grpSp":
                self._read_shapes(shape, part, layout, skipped)
            elif tag == f"{P}graphicFrame":
                self._read_frame(shape, part)
            elif tag == _PICTURE:
                self._add_picture(shape, part, shape)
            elif tag == _SHAPE:
                kind, index = _placeholder(shape)
                if kind in _REPEATED:
                    continue
                self._add_picture(shape, part, first_child(shape, f"{P}spPr"))
                styles = layout.styles(kind, index) if kind else ()
                for body in shape.iterchildren(_BODY):
                    self._add_lines(read_lines(body, styles))

    def _add_lines(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._add(BlockKind.LIST if line.is_item else BlockKind.PARAGRAPH, line.text)

    def _read_frame(self, frame: etree._Element, part: Part) -> None:
        """Read a table, a chart, a diagram, or the picture of an embedded object."""
        for graphic in frame.iterfind(f"{A}graphic/{A}graphicData"):
            holders = (
                holder
                for child in graphic
                for holder in (select_alternative(child) if child.tag == ALTERNATIVES else (child,))
            )
            for element in (found for holder in holders for found in holder.iter(*_DRAWN)):
                if element.tag == f"{A}tbl":
                    self._add_table(element)
                elif element.tag == _PICTURE:
                    self._add_picture(element, part, element, _alt(frame))
                elif element.tag == f"{DIAGRAM}relIds":
                    diagram = self._read_linked(part, part.target_of(element.get(f"{R}dm", "")))
                    if diagram is not None:
                        self._add_lines(_read_diagram(diagram.root))
                else:
                    chart = self._read_linked(part, part.target_of(element.get(f"{R}id", "")))
                    if chart is not None:
                        self._add_chart(chart)

    def _add_table(self, table: etree._Element) -> None:
        rows: list[str] = []
        cells: list[etree._Element] = []
        for row in table.iterchildren(f"{A}tr"):
            texts: list[str] = []
            for cell in row.iterchildren(f"{A}tc"):
                cells.append(cell)
                # A cell covered by a merged cell may have invisible text.
                covered = "1" in (cell.get("hMerge"), cell.get("vMerge"))
                bodies = () if covered else cell.iterchildren(f"{A}txBody")
                lines = (line.text for body in bodies for line in read_lines(body))
                texts.append(" ".join(" ".join(lines).split()))
            while texts and not texts[-1]:
                texts.pop()
            if texts:
                rows.append(" | ".join(texts))
        if len(cells) == 1:
            # A table with one cell is a frame.
            for body in cells[0].iterchildren(f"{A}txBody"):
                self._add_lines(read_lines(body))
            return
        properties = first_child(table, f"{A}tblPr")
        first_row = properties is not None and properties.get("firstRow") in ("1", "true")
        self.writer.add_table(Passage("\n".join(rows)), int(first_row and len(rows) > 1))

    def _add_chart(self, part: Part) -> None:
        write_chart(part.root, self.writer)
        for shapes in part.root.iterchildren(f"{C}userShapes"):
            drawing = self._read_linked(part, part.target_of(shapes.get(f"{R}id", "")))
            for paragraph in drawing.root.iter(f"{A}p") if drawing else ():
                self._add(BlockKind.PARAGRAPH, read_text(paragraph).strip())

    def _add_picture(
        self, shape: etree._Element, part: Part, holder: etree._Element | None, alt: str = ""
    ) -> None:
        """Add a picture, or the fill picture of a shape, by its best image first."""
        blip = None if holder is None else next(holder.iter(f"{A}blip"), None)
        if blip is None:
            return
        figure = self.pictures.figure(part, image_references(blip), _alt(shape) or alt)
        self._add(BlockKind.PARAGRAPH, "", figure)

    def _add(self, kind: BlockKind, text: str, figure: Figure | None = None) -> None:
        figures = () if figure is None else (PlacedFigure(0, figure),)
        self.writer.add(Passage(text, figures), kind=kind)

    def _read_linked(self, part: Part, member: str | None) -> Part | None:
        """Read a part once; None if it is missing, damaged or was read before."""
        if not member or member == part.member:
            return None
        before = self.package.left_out
        found = self.package.read_new_part(member)
        self.left_out += self.package.left_out - before
        return found

    def _find_layout(self, slide: Part) -> _Layout:
        """Return the layout of a slide; an empty layout if it is missing or damaged."""
        member = slide.find_related("slideLayout") or ""
        if member not in self._layouts:
            layout = self._read_layout(member)
            if layout is None:
                self._layouts[member] = _Layout()
                return self._layouts[member]
            found = self._layouts[member] = _collect_styles(layout)
            above = layout.find_related("slideMaster") or ""
            if above not in self._layouts:
                master = self._read_layout(above)
                self._layouts[above] = _Layout() if master is None else _collect_styles(master)
            found.master = self._layouts[above]
        return self._layouts[member]

    def _read_layout(self, member: str) -> Part | None:
        try:
            return self.package.read_part(member)
        except SourceRefused as refused:
            refused.raise_unless("source_broken")
            return None


def _collect_styles(part: Part) -> _Layout:
    layout = _Layout()
    for shape in part.root.iter(_SHAPE):
        kind, index = _placeholder(shape)
        if not kind:
            continue
        styles = list(shape.iterfind(f"{_BODY}/{A}lstStyle"))
        layout.by_index.setdefault(index, styles)
        layout.by_type.setdefault(kind, styles)
    for styles in part.root.iterchildren(f"{P}txStyles"):
        layout.titles += styles.iterchildren(f"{P}titleStyle")
        layout.bodies += styles.iterchildren(f"{P}bodyStyle")
    return layout


def _properties(shape: etree._Element) -> etree._Element | None:
    """Return the element with the name, visibility and description of a shape."""
    described = shape[0] if len(shape) else None
    return first_child(described, f"{P}cNvPr") if described is not None else None


def _is_hidden(shape: etree._Element) -> bool:
    properties = _properties(shape)
    return properties is not None and properties.get("hidden") in ("1", "true")


def _alt(shape: etree._Element) -> str:
    properties = _properties(shape)
    return "" if properties is None else alt_text(properties)


def _placeholder(shape: etree._Element) -> tuple[str, str]:
    """Return the type and index of a placeholder; the type is "" for another shape."""
    described = shape[0] if len(shape) else ()
    for properties in described[-1:]:
        for placeholder in properties.iterchildren(f"{P}ph"):
            return placeholder.get("type", "obj"), placeholder.get("idx", "0")
    return "", ""


def _title_text(shape: etree._Element) -> str:
    bodies = shape.iterchildren(_BODY)
    lines = (read_text(paragraph) for body in bodies for paragraph in body.iterchildren(f"{A}p"))
    return " ".join(" ".join(lines).split())


def _read_diagram(root: etree._Element) -> Iterator[Line]:
    """Yield the texts of a diagram as a list, in the order of its outline."""
    texts: dict[str, list[str]] = {}
    for point in root.iter(f"{DIAGRAM}pt"):
        lines = [
            " ".join(read_text(paragraph).split())
            for body in point.iterchildren(f"{DIAGRAM}t")
            for paragraph in body.iterchildren(f"{A}p")
        ]
        texts.setdefault(point.get("modelId", ""), [line for line in lines if line])
    children: dict[str, list[tuple[int, str]]] = {}
    for link in root.iter(f"{DIAGRAM}cxn"):
        if link.get("type", "parOf") == "parOf":
            order = parse_count(link.get("srcOrd"), 0) or 0
            children.setdefault(link.get("srcId", ""), []).append((order, link.get("destId", "")))
    below = {child for found in children.values() for _, child in found}
    pending: list[tuple[int, str]] = [(0, name) for name in reversed(texts) if name not in below]
    # Texts reached only through a cycle come last, and each text once.
    pending = [(0, name) for name in reversed(texts)] + pending
    while pending:
        level, name = pending.pop()
        lines = texts.pop(name, None)
        if lines is None:
            continue
        for line in lines:
            yield Line(f"{'  ' * min(level, 8)}- {line}", is_item=True)
        deeper = level + 1 if lines else level
        ordered: Sequence[tuple[int, str]] = sorted(children.get(name, ()), reverse=True)
        pending += [(deeper, child) for _, child in ordered]
