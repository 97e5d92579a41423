"""OpenDocument parser: texts (ODT) and presentations (ODP), packed or as one XML file.

Included: tracked insertions, text boxes and shapes, notes (after the paragraph that refers to
them), formulas, the values of charts, and the positions of pictures. Excluded: tracked deletions,
hidden text, comments, headers and footers, forms, embedded files.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceRefused
from truespan.extensions.formats.odf.lists import (
    CHART,
    DRAW,
    OFFICE,
    PRESENTATION,
    SVG,
    TABLE,
    TEXT,
    XLINK,
    Lists,
    Numbering,
    Styles,
)
from truespan.parsing.archive import Archive
from truespan.parsing.blocks import BlockWriter, Passage, PassageParts, TableLines, join
from truespan.parsing.formats.ooxml import Pictures, Relation, parse_count
from truespan.parsing.xml import local, parse_xhtml, parse_xml
from truespan.types.text import Loaded, Properties

_CONTENT, _STYLES, _META, _MANIFEST = (
    "content.xml",
    "styles.xml",
    "meta.xml",
    "META-INF/manifest.xml",
)


def load_odf(name: str, data: bytes, *, images: bool) -> Loaded:
    """Parse an OpenDocument file or raise `SourceRefused`; `images` includes bytes of pictures."""
    archive = Archive(name, data) if data.startswith(b"PK") else None
    if archive is None:
        content = parse_xml(name, data)
        roots, meta = [content], content
    else:
        manifest = archive.read(_MANIFEST)
        if manifest and b"encryption-data" in manifest:
            raise SourceRefused("source_encrypted", name)
        content, common, meta = (
            read_member(name, archive, member) for member in (_CONTENT, _STYLES, _META)
        )
        if content is None:
            raise SourceRefused("source_broken", name)
        roots = [content] if common is None else [content, common]
    styles, pictures = Styles(roots), Pictures(archive, images)
    # Without an outline style, headings have no numbers.
    outline = Numbering(styles.outline) if styles.outline is not None else None
    document = Document(
        name=name,
        archive=archive,
        styles=styles,
        lists=Lists(styles),
        outline=outline,
        pictures=pictures,
    )
    try:
        for body in content.iterchildren(f"{OFFICE}body"):
            for part in body:
                if part.tag == f"{OFFICE}text":
                    document.read(part)
                elif part.tag == f"{OFFICE}presentation":
                    document.read_slides(part)
                else:
                    raise SourceRefused("source_unsupported", name)
    except RecursionError as error:
        # The depth limit of the XML parser should prevent this.
        raise SourceRefused("source_unsafe", name) from error
    properties = read_properties(meta, document.styles.language)
    return Loaded(
        blocks=tuple(document.writer.blocks),
        title=document.writer.title or properties.title or document.first_title,
        properties=properties,
        images=tuple(document.pictures.images),
        pictures=document.pictures.counts(),
        warnings=tuple(document.pictures.warnings()),
    )


def read_member(name: str, archive: Archive, member: str) -> etree._Element | None:
    """Return the root of a member; None if it is missing, or damaged unless it is the content."""
    content = archive.read(member)
    try:
        return None if content is None else parse_xml(name, content)
    except SourceRefused as refused:
        if member == _CONTENT or refused.code != "source_broken":
            raise
        return None


def read_properties(meta: etree._Element | None, language: str | None = None) -> Properties:
    """Return the properties in the metadata of an OpenDocument file."""
    texts: dict[str, list[str]] = {}
    for element in () if meta is None else meta.iter(f"{OFFICE}meta"):
        for child in element:
            if text := " ".join("".join(child.itertext()).split()):
                texts.setdefault(local(child), []).append(text)
    first = {name: values[0] for name, values in texts.items()}
    author = first.get("initial-creator") or first.get("creator")
    keywords = (part.strip() for text in texts.get("keyword", ()) for part in text.split(","))
    return Properties(
        title=first.get("title"),
        authors=(author,) if author else (),
        language=first.get("language") or language,
        created=first.get("creation-date"),
        modified=first.get("date"),
        keywords=tuple(dict.fromkeys(part for part in keywords if part)),
        description=first.get("description"),
    )


_PARAGRAPH, _HEADING, _LIST, _TABLE = f"{TEXT}p", f"{TEXT}h", f"{TEXT}list", f"{TABLE}table"
_ITEM, _ITEM_HEADER, _NUMBERED = (
    f"{TEXT}list-item",
    f"{TEXT}list-header",
    f"{TEXT}numbered-paragraph",
)
_PARAGRAPHS = (_PARAGRAPH, _HEADING)
_FRAME, _GROUP, _TEXT_BOX = f"{DRAW}frame", f"{DRAW}g", f"{DRAW}text-box"
_IMAGE, _OBJECT = f"{DRAW}image", f"{DRAW}object"
_INDEXES = frozenset(
    f"{TEXT}{kind}"
    for kind in ("table-of-content", "illustration-index", "table-index", "object-index",
                 "user-index", "alphabetical-index")
)  # fmt: skip
_SKIPPED = frozenset(
    {f"{TEXT}{name}" for name in ("tracked-changes", "note-citation", "ruby-text", "script",
                                  "table-of-content-source", "illustration-index-source",
                                  "table-index-source", "object-index-source",
                                  "user-index-source", "alphabetical-index-source",
                                  "bibliography-source", "sequence-decls", "variable-decls",
                                  "user-field-decls")}
    | {f"{OFFICE}{name}" for name in ("annotation", "annotation-end", "forms", "binary-data",
                                      "event-listeners", "scripts")}
    | {f"{DRAW}{name}" for name in ("page-thumbnail", "control", "glue-point", "image-map",
                                    "enhanced-geometry", "applet", "plugin", "param")}
    | {f"{PRESENTATION}notes", f"{SVG}title", f"{SVG}desc"}
)  # fmt: skip
"""Elements whose text is not part of the document, or is read elsewhere."""
_REPEATED = frozenset({"header", "footer", "date-time", "page-number", "page", "handout"})
"""Classes of frames with the same content on each slide, or with an image of the slide."""
_WHITE = re.compile("[ \t\r\n]+")
_MAX_SPACES, _MAX_REPEATS = 200, 100


class _Found(NamedTuple):
    """A paragraph, a table or a shape, with its list marker."""

    element: etree._Element
    marker: str | None = None
    list_level: int = 0
    in_contents: bool = False
    list_style: str = ""


class _Line(PassageParts):
    """The content of a paragraph that is being read."""

    boxes: list[etree._Element] = field(default_factory=list)
    notes: list[etree._Element] = field(default_factory=list)
    hidden: bool = False


class Document(Struct):
    """Converts the content of a document to blocks, in reading order."""

    name: str
    archive: Archive | None
    styles: Styles
    lists: Lists
    outline: Numbering | None
    """Numbering of headings."""
    pictures: Pictures
    writer: BlockWriter = field(default_factory=BlockWriter)
    first_title: str | None = None
    _pending: deque[etree._Element] = field(default_factory=deque)

    # Texts

    def read(self, container: etree._Element, *, headings: bool = True) -> None:
        """Add the blocks of a container: the text, a text box, a shape or a note."""
        for found in self._walk(container):
            if found.element.tag in _PARAGRAPHS:
                self._add_paragraph(found, headings)
            elif found.element.tag == _TABLE:
                self._add_table(found)
            else:
                line = _Line()
                self._read_shape(found.element, line)
                self.writer.add(line.passage())
                self._add_attachments(line)

    def _walk(self, container: etree._Element, in_contents: bool = False) -> Iterator[_Found]:
        for child in container:
            tag = child.tag
            if tag in _PARAGRAPHS or tag == _TABLE:
                yield _Found(child, in_contents=in_contents)
            elif tag == _LIST:
                style = child.get(f"{TEXT}style-name", "") or _style_of_first(child, self.styles)
                numbering = self.lists.begin(child, style)
                yield from self._walk_list(child, numbering, 0, in_contents)
            elif tag == _NUMBERED:
                style = child.get(f"{TEXT}style-name", "")
                level = max((parse_count(child.get(f"{TEXT}level"), 1) or 1) - 1, 0)
                numbering = self.lists.begin(child, style)
                start = parse_count(child.get(f"{TEXT}start-value"))
                for found in self._walk(child, in_contents):
                    marker = numbering.next_marker(level, start)
                    yield found._replace(marker=marker, list_level=min(level, 9))
            elif tag in _SKIPPED or _is_hidden_section(child):
                continue
            elif tag.startswith(DRAW):
                yield _Found(child, in_contents=in_contents)
            else:
                yield from self._walk(child, in_contents or tag in _INDEXES)

    def _walk_list(
        self, element: etree._Element, numbering: Numbering, level: int, in_contents: bool
    ) -> Iterator[_Found]:
        for item in element:
            # The number of an item is requested at its first paragraph, because an item with only a
            # nested list has none.
            marker: str | None = "" if item.tag == _ITEM_HEADER else None
            if item.tag not in (_ITEM, _ITEM_HEADER):
                continue
            for child in item:
                if child.tag == _LIST:
                    style = child.get(f"{TEXT}style-name", "")
                    numbering.use(self.styles.list_styles.get(style))
                    yield from self._walk_list(child, numbering, level + 1, in_contents)
                elif child.tag in _PARAGRAPHS:
                    if marker is None:
                        start = parse_count(item.get(f"{TEXT}start-value"))
                        marker = numbering.next_marker(level, start)
                    yield _Found(child, marker, level, in_contents)
                    marker = ""
                elif child.tag == _TABLE:
                    yield _Found(child, in_contents=in_contents)
                elif child.tag not in _SKIPPED:
                    yield from self._walk(child, in_contents)

    def _add_paragraph(self, found: _Found, headings: bool) -> None:
        element = found.element
        style = self.styles.find("paragraph", element.get(f"{TEXT}style-name"))
        line = _Line(hidden=style.hidden)
        self._read_inline(element, line)
        level, marker = style.level, found.marker
        if element.tag == _HEADING:
            level = parse_count(element.get(f"{TEXT}outline-level"), 1) or 1
            listed = marker is not None or element.get(f"{TEXT}is-list-header") == "true"
            if self.outline and headings and not listed and not found.in_contents:
                marker = self.outline.next_marker(level - 1) or None
        passage = line.passage()
        self.writer.add(
            passage,
            kind=style.kind,
            level=level if headings else None,
            marker=marker,
            list_level=found.list_level,
            in_contents=found.in_contents,
            is_contents=style.is_contents,
        )
        self._add_attachments(line)

    def _add_attachments(self, line: _Line) -> None:
        """Add the notes and then the text boxes of a paragraph or table."""
        self._pending.extend(line.notes)
        if self._pending and not self.writer.in_note:
            # A queue instead of recursion, because notes may be nested.
            self.writer.in_note = True
            while self._pending:
                self.read(self._pending.popleft())
            self.writer.in_note = False
        for box in line.boxes:
            if box.tag == _TABLE:
                self._add_table(_Found(box))
            else:
                self.read(box)

    # The content of paragraphs

    def _read_inline(self, element: etree._Element, line: _Line) -> None:
        if element.text:
            self._add_text(element.text, line)
        for child in element:
            self._read_child(child, line)
            if child.tail:
                self._add_text(child.tail, line)

    def _read_child(self, child: etree._Element, line: _Line) -> None:
        tag = child.tag
        if tag in (f"{TEXT}span", f"{TEXT}a"):
            outer = line.hidden
            if tag == f"{TEXT}span":
                style = self.styles.find("text", child.get(f"{TEXT}style-name"))
                line.hidden = outer or style.hidden
            self._read_inline(child, line)
            line.hidden = outer
        elif tag == f"{TEXT}s":
            count = parse_count(child.get(f"{TEXT}c"), 1) or 1
            self._add(" " * min(count, _MAX_SPACES), line)
        elif tag == f"{TEXT}tab":
            self._add("\t", line)
        elif tag == f"{TEXT}line-break":
            self._add("\n", line)
        elif tag == f"{TEXT}note":
            if not line.hidden:
                line.notes += child.iterchildren(f"{TEXT}note-body")
        elif tag in (f"{TEXT}hidden-text", f"{TEXT}hidden-paragraph"):
            if child.get(f"{TEXT}is-hidden") != "true":
                self._read_inline(child, line)
            elif tag == f"{TEXT}hidden-paragraph":
                line.hidden = True
                line.parts.clear()
        elif tag in _SKIPPED or line.hidden:
            return
        elif tag.startswith(DRAW):
            self._read_shape(child, line)
        else:
            self._read_inline(child, line)

    def _add(self, text: str, line: _Line) -> None:
        if not line.hidden:
            line.parts.append(text)

    def _add_text(self, text: str, line: _Line) -> None:
        """Add text with white space collapsed, and removed at the start of a line."""
        if line.hidden:
            return
        text = _WHITE.sub(" ", text) if not text.isprintable() or "  " in text else text
        if text[:1] == " " and (not line.parts or line.parts[-1][-1:] in " \n\t"):
            text = text[1:]
        if text:
            line.parts.append(text)

    # Shapes

    def _read_shape(self, shape: etree._Element, line: _Line) -> None:
        """Read a frame, a group or a drawn shape; its text follows the paragraph."""
        if shape.tag in _SKIPPED:
            return
        if shape.tag in (_GROUP, f"{DRAW}a"):
            for child in shape:
                if child.tag.startswith(DRAW):
                    self._read_shape(child, line)
            return
        if shape.tag != _FRAME:
            if any(child.tag in (*_PARAGRAPHS, _LIST) for child in shape):
                line.boxes.append(shape)
            return
        tags = [child.tag for child in shape]
        boxes = [child for child in shape if child.tag in (_TEXT_BOX, _TABLE)]
        if boxes:
            line.boxes += boxes[:1]
        elif _OBJECT in tags and self._read_object(shape, line):
            return
        elif _IMAGE in tags:
            image = next(shape.iterchildren(_IMAGE))
            titles = (shape.find(f"{SVG}{name}") for name in ("desc", "title"))
            alts = (" ".join(title.itertext()).strip() for title in titles if title is not None)
            alt = next(filter(None, alts), "")
            href = image.get(f"{XLINK}href", "")
            external = ":" in href.partition("/")[0] or href.startswith(("/", "../"))
            relation = Relation("image", href.removeprefix("./"), external)
            figure = self.pictures.refer(relation, alt) if href else self.pictures.place(None, alt)
            line.figures.append((len(line.parts), figure))

    def _read_object(self, frame: etree._Element, line: _Line) -> bool:
        """Add a formula to the line, or a chart after it; return False for other objects."""
        element = next(frame.iterchildren(_OBJECT))
        root = element[0] if len(element) else None
        href = element.get(f"{XLINK}href", "").removeprefix("./").rstrip("/")
        if root is None and self.archive is not None and href:
            content = self.archive.read(f"{href}/{_CONTENT}")
            # Formulas of old programs have a harmless document type.
            root = parse_xhtml(self.name, content) if content else None
        if root is None:
            return False
        if local(root) == "math":
            self._add(_read_formula(root), line)
            return True
        charts = list(root.iter(f"{CHART}chart"))
        line.boxes += charts
        return bool(charts)

    # Tables

    def _add_table(self, found: _Found) -> None:
        rows = list(_rows(found.element))
        if len(rows) == 1 and len(cells := _cells(rows[0][0])) == 1:
            # A table with one cell is a frame; its headings begin no chapter.
            self.read(cells[0], headings=False)
            return
        attachments = _Line()
        lines = self._read_table(found.element, attachments)
        self.writer.add_table(lines.passage(), lines.header_rows, in_contents=found.in_contents)
        self._add_attachments(attachments)

    def _read_table(
        self, table: etree._Element, attachments: _Line, *, nested: bool = False
    ) -> TableLines:
        """Read a table; its notes and boxes are added to `attachments`."""
        lines = TableLines(nested=nested)
        for row, in_header in _rows(table):
            cells = [self._read_cell(cell, attachments) for cell in _cells(row)]
            repeats = parse_count(row.get(f"{TABLE}number-rows-repeated"), 1) or 1
            lines.add_row(cells, is_header=in_header, repeats=min(repeats, _MAX_REPEATS))
        return lines

    def _read_cell(self, cell: etree._Element, attachments: _Line) -> Passage:
        passages: list[Passage] = []
        for found in self._walk(cell):
            element = found.element
            if element.tag == _TABLE:
                passages.append(self._read_table(element, attachments, nested=True).passage())
                continue
            line = _Line()
            if element.tag in _PARAGRAPHS:
                style = self.styles.find("paragraph", element.get(f"{TEXT}style-name"))
                line.hidden = style.hidden
                self._read_inline(element, line)
            else:
                self._read_shape(element, line)
            attachments.notes += line.notes
            attachments.boxes += line.boxes
            passage = line.passage().strip()
            passages.append(passage.indent(f"{found.marker} ", "") if found.marker else passage)
        filled = [passage for passage in passages if not passage.blank]
        return join(filled, " ").on_one_line()

    # Slides

    def read_slides(self, presentation: etree._Element) -> None:
        """Add the slides of a presentation: title, shapes in the order of the file, and notes."""
        for number, page in enumerate(presentation.iterchildren(f"{DRAW}page"), 1):
            title = next(
                (frame for frame in page.iter(_FRAME) if _class_of(frame) == "title"), None
            )
            text = ""
            if title is not None:
                line = _Line()
                for box in title.iterchildren(_TEXT_BOX):
                    found = (found.element for found in self._walk(box))
                    for paragraph in (element for element in found if element.tag in _PARAGRAPHS):
                        self._read_inline(paragraph, line)
                        line.parts.append(" ")
                text = " ".join("".join(line.parts).split())
            self.first_title = self.first_title or text or None
            self.writer.begin_slide(number, text)
            self._read_page(page, title)
            for notes in page.iterchildren(f"{PRESENTATION}notes"):
                self.writer.begin_notes()
                self._read_page(notes, None)
                self.writer.end_notes()

    def _read_page(self, page: etree._Element, title: etree._Element | None) -> None:
        for shape in page:
            tag = shape.tag
            if shape is title or not tag.startswith(DRAW):
                continue
            empty = shape.get(f"{PRESENTATION}placeholder") == "true"
            if not empty and _class_of(shape) not in _REPEATED:
                line = _Line()
                self._read_shape(shape, line)
                self.writer.add(line.passage())
                for box in line.boxes:
                    if box.tag == _TABLE:
                        self._add_table(_Found(box))
                    else:
                        self.read(box, headings=False)
                line.boxes.clear()
                self._add_attachments(line)


def _class_of(frame: etree._Element) -> str:
    return frame.get(f"{PRESENTATION}class", "")


def _is_hidden_section(element: etree._Element) -> bool:
    return element.tag == f"{TEXT}section" and (
        element.get(f"{TEXT}display") == "none" or element.get(f"{TEXT}is-hidden") == "true"
    )


def _style_of_first(element: etree._Element, styles: Styles) -> str:
    paragraph = next(element.iter(*_PARAGRAPHS), None)
    name = None if paragraph is None else paragraph.get(f"{TEXT}style-name")
    return styles.find("paragraph", name).list_style


def _rows(table: etree._Element, in_header: bool = False) -> Iterator[tuple[etree._Element, bool]]:
    """Yield the rows of a table, and whether each is part of its header."""
    for child in table:
        if child.tag == f"{TABLE}table-row":
            if child.get(f"{TABLE}visibility") not in ("collapse", "filter"):
                yield child, in_header
        elif child.tag in (f"{TABLE}table-rows", f"{TABLE}table-row-group"):
            yield from _rows(child, in_header)
        elif child.tag == f"{TABLE}table-header-rows":
            yield from _rows(child, True)


def _cells(row: etree._Element) -> list[etree._Element]:
    """Return the cells of a row; a covered cell has no text."""
    cells: list[etree._Element] = []
    for child in row:
        if child.tag in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
            repeats = parse_count(child.get(f"{TABLE}number-columns-repeated"), 1) or 1
            cells += [child] * min(repeats, _MAX_REPEATS)
    return cells


def _read_formula(root: etree._Element) -> str:
    """Return a formula as text, with a slash in fractions and without its source."""
    parts: list[str] = []

    def collect(element: etree._Element) -> None:
        name = local(element)
        if name.startswith("annotation"):
            return
        if not len(element):
            parts.append("".join(element.itertext()).strip())
        for index, child in enumerate(element):
            if index and name == "mfrac":
                parts.append("/")
            collect(child)

    collect(root)
    return " ".join(filter(None, parts))
