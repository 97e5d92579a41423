"""Large documents with known words, for measuring loaders: every word is hardly ever the same.

They are written by hand and not by one of the programs that read them back. What word processors
do to a text is done here too: several runs to a paragraph, properties on each, ids of revisions.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage

from msgspec.json import encode
from tests.support import odf_maker, pptx_maker
from tests.support.pdf_maker import Bookmark, Page, column, make_pdf
from tests.support.sheet_maker import cell, rows, sheet, xlsx
from tests.support.word_diff import words_of

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_WPS = 'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
_MORE = (
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)
_TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml"


@dataclass(frozen=True, slots=True)
class Sample:
    """A document and the words that it says; `gone` are words that an editor struck out."""

    label: str
    name: str
    data: bytes
    words: list[str]
    gone: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Told:
    """Sentences of words without a meaning, and which of them a document should say."""

    seed: int
    said: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def say(self, words: int) -> str:
        """Return a sentence that belongs to the text."""
        sentence = self._sentence(words)
        self.said.append(sentence)
        return sentence

    def strike(self, words: int) -> str:
        """Return a sentence that somebody has deleted."""
        sentence = self._sentence(words)
        self.struck.append(sentence)
        return sentence

    def sample(self, label: str, name: str, data: bytes) -> Sample:
        """Return the finished document."""
        words = [word for sentence in self.said for word in words_of(sentence)]
        gone = frozenset(word for sentence in self.struck for word in words_of(sentence))
        return Sample(label, name, data, words, gone - {*words})

    def _sentence(self, words: int) -> str:
        return " ".join(self._word() for _ in range(words)).capitalize() + "."

    def _word(self) -> str:
        return "".join(self._chance.choices(_LETTERS, k=self._chance.randint(5, 9)))


def plain_docx(paragraphs: int = 5000) -> Sample:
    """Return a DOCX of headings and paragraphs."""
    told = _Told(1)
    body = [
        _heading(told) if number % 50 == 0 else _paragraph(_runs(told, 4))
        for number in range(paragraphs)
    ]
    label = f"DOCX, {paragraphs:,} paragraphs"
    return told.sample(label, "plain.docx", _docx("".join(body), ""))


def rich_docx(paragraphs: int = 5000) -> Sample:
    """Return a DOCX in which every tenth paragraph is followed by something that is easily lost."""
    told = _Told(2)
    notes: list[str] = []
    body: list[str] = []
    for number in range(paragraphs):
        body.append(_heading(told) if number % 50 == 0 else _paragraph(_runs(told, 4)))
        if number % 10 == 5:
            body.append(_extra(told, number // 10 % 5, notes))
    label = "DOCX, tables, boxes, notes, changes"
    return told.sample(label, "rich.docx", _docx("".join(body), "".join(notes)))


def pptx(slides: int = 400) -> Sample:
    """Return a presentation of titles, lists, tables, groups and notes."""
    told = _Told(6)
    pages: list[str] = []
    notes: dict[int, str] = {}
    for number in range(1, slides + 1):
        shapes = pptx_maker.title(told.say(5))
        lines = (pptx_maker.line(told.say(9), level=place % 3) for place in range(6))
        shapes += pptx_maker.shape("".join(lines), kind="body", index=1)
        if number % 4 == 0:
            rows = ([told.say(2) for _ in range(4)] for _ in range(6))
            shapes += pptx_maker.table(*rows, properties=' firstRow="1"')
        if number % 4 == 1:
            shapes += pptx_maker.group(pptx_maker.shape(told.say(8)), pptx_maker.shape(told.say(8)))
        pages.append(shapes)
        if number % 2:
            notes[number] = pptx_maker.shape(told.say(30), kind="body", index=1)
    data = pptx_maker.pptx(*pages, notes=notes)
    return told.sample(f"PPTX, {slides} slides", "slides.pptx", data)


def odt(paragraphs: int = 5000) -> Sample:
    """Return an ODT of headings, paragraphs, lists, tables, boxes and notes."""
    told = _Told(7)
    body: list[str] = []
    for number in range(paragraphs):
        body.append(odf_maker.h(told.say(5)) if number % 50 == 0 else odf_maker.p(told.say(12)))
        if number % 10 == 5:
            extra = number // 10 % 4
            if extra == 0:
                rows = ([told.say(2) for _ in range(3)] for _ in range(4))
                body.append(odf_maker.table(*rows, header=1))
            elif extra == 1:
                body.append(odf_maker.ul(*(told.say(6) for _ in range(3))))
            else:
                line, aside = told.say(8), told.say(8)
                made = odf_maker.note(aside) if extra == 2 else odf_maker.box(aside)
                body.append(odf_maker.p(f"{line} {made}"))
    label = f"ODT, {paragraphs:,} paragraphs"
    return told.sample(label, "text.odt", odf_maker.odf("".join(body)))


def rtf(paragraphs: int = 5000) -> Sample:
    """Return an RTF of headings, paragraphs, tables and notes."""
    told = _Told(8)
    head = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}}{\stylesheet{\s1 heading 1;}}"
    body = [head]
    for number in range(paragraphs):
        style = r"\s1 " if number % 50 == 0 else r"\plain\f0\fs24 "
        body.append(rf"\pard{style}{told.say(6)} {{\b {told.say(6)}}}")
        if number % 20 == 5:
            body.append(rf"{{\footnote\pard {told.say(8)}\par}}")
        body.append("\\par\n")
        if number % 20 == 15:
            cells = "".join(rf"{told.say(2)}\cell " for _ in range(3))
            body.append(rf"\trowd\pard\intbl {cells}\row" + "\n")
    return told.sample(
        f"RTF, {paragraphs:,} paragraphs", "text.rtf", "".join([*body, "}"]).encode()
    )


def epub(chapters: int = 60, paragraphs: int = 80) -> Sample:
    """Return an EPUB 3 with a page for each chapter."""
    told = _Told(3)
    pages = {
        f"c{chapter:03}.xhtml": _page(f"<h1>{told.say(3)}</h1>" + _prose(told, paragraphs))
        for chapter in range(chapters)
    }
    return told.sample(f"EPUB, {chapters} chapters", "book.epub", _book(pages))


def html(megabytes: float = 5.0) -> Sample:
    """Return a web page with a menu, a script, headings, prose, lists and tables."""
    told = _Told(4)
    parts: list[str] = []
    size = 0
    while size < megabytes * 1e6:
        parts.append(_section(told))
        size += len(parts[-1])
    head = "<title>A long page</title><script>var hidden = 'nothing of this';</script>"
    menu = "<nav><ul><li><a href='#a'>Here</a></li><li><a href='#b'>There</a></li></ul></nav>"
    page = (
        f"<!DOCTYPE html><html lang=en><head><meta charset=utf-8>{head}</head><body>{menu}"
        f"<main>{''.join(parts)}</main></body></html>"
    )
    return told.sample(f"HTML, {megabytes:g} MB", "page.html", page.encode())


def csv(rows: int = 20_000) -> Sample:
    """Return a table with a header, numbers, and cells in quotes."""
    told = _Told(6)
    lines = ["number,name,note\n"]
    told.said += ["number", "name", "note"]
    for number in range(rows):
        told.said.append(str(number))
        lines.append(f'{number},{told.say(8)},"{told.say(8)}"\n')
    return told.sample(f"CSV, {rows} rows", "table.csv", "".join(lines).encode())


def json(records: int = 20_000) -> Sample:
    """Return a list of objects with two fields."""
    told = _Told(7)
    lines: list[str] = []
    for number in range(records):
        told.said += ["number", str(number), "note"]
        lines.append(f'{{"number": {number}, "note": "{told.say(8)}"}}')
    data = f"[{','.join(lines)}]".encode()
    return told.sample(f"JSON, {records} records", "records.json", data)


def mail(paragraphs: int = 4000) -> Sample:
    """Return a message whose text is there twice, as mail programs write it: plain and as HTML."""
    told = _Told(8)
    message = EmailMessage()
    message["From"], message["To"] = "Ann <ann@quay.example>", "Bo <bo@quay.example>"
    message["Subject"] = told.say(5)
    texts = [told.say(24) for _ in range(paragraphs)]
    message.set_content("\n\n".join(texts))
    message.add_alternative("".join(f"<p>{text}</p>\n" for text in texts), subtype="html")
    return told.sample(f"EML, {paragraphs} paragraphs", "message.eml", bytes(message))


def notebook(cells: int = 1500) -> Sample:
    """Return a notebook of alternating Markdown, code and printed output."""
    told = _Told(9)
    made: list[dict[str, object]] = []
    for number in range(cells):
        if number % 2:
            output = {"output_type": "stream", "name": "stdout", "text": [told.say(20)]}
            code = f'print("{told.say(12)}")'
            told.said.append("print")
            made.append({"cell_type": "code", "source": [code], "outputs": [output]})
        else:
            texts = [f"## {told.say(4)}\n", "\n", told.say(24), "\n", "\n", told.say(24)]
            made.append({"cell_type": "markdown", "source": texts})
        made[-1] |= {"metadata": {}, "id": str(number)}
    data = encode({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    return told.sample(f"notebook, {cells} cells", "cells.ipynb", data)


def pdf(pages: int = 300, lines: int = 46) -> Sample:
    """Return a PDF of paragraphs of prose, with an outline."""
    told = _Told(5)
    made = [Page(column(list(_lines(told, lines)))) for _ in range(pages)]
    outline = [Bookmark(f"Part {page // 20 + 1}", page) for page in range(0, pages, 20)]
    return told.sample(f"PDF, {pages} pages", "pages.pdf", make_pdf(made, outline=outline))


def workbook(lines: int = 10_000) -> Sample:
    """Return an XLSX of a long table: words, numbers, and a date in each row."""
    told = _Told(6)
    told.said.append("Words Amount Day More Number")
    head = rows([["Words", "Amount", "Day", "More", "Number"]])
    body: list[str] = []
    for number in range(2, lines + 2):
        told_first, told_last = told.say(3), told.say(4)
        told.said.append(f"{number * 7:,}.00 2020-01-01 {number}")
        body.append(
            f'<row r="{number}">{cell(f"A{number}", told_first)}{cell(f"B{number}", number * 7, 1)}'
            f"{cell(f'C{number}', 43831, 2)}{cell(f'D{number}', told_last)}"
            f"{cell(f'E{number}', number)}</row>"
        )
    data = xlsx({"Sheet1": sheet(head + "".join(body))}, formats=["#,##0.00", "yyyy-mm-dd"])
    return told.sample(f"XLSX, {lines:,} rows", "book.xlsx", data)


def docx_of(paragraphs: Sequence[str]) -> bytes:
    """Return paragraphs as a DOCX file."""
    return _docx("".join(_paragraph(_run(text)) for text in paragraphs), "")


def book_of(paragraphs: Sequence[str], a_chapter: int) -> bytes:
    """Return paragraphs as an EPUB with a fixed number of them in each chapter."""
    starts = range(0, len(paragraphs), a_chapter)
    return _book({f"c{n}.xhtml": _page(_paragraphs(paragraphs[n : n + a_chapter])) for n in starts})


def page_of(paragraphs: Sequence[str]) -> str:
    """Return paragraphs as a page."""
    return _page(_paragraphs(paragraphs))


def _paragraphs(paragraphs: Sequence[str]) -> str:
    return "".join(f"<p>{text}</p>\n" for text in paragraphs)


def _heading(told: _Told) -> str:
    return _paragraph(_run(told.say(5)), '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>')


def _paragraph(content: str, properties: str = "") -> str:
    return f'<w:p w:rsidR="00A77B3E" w:rsidRDefault="00A77B3E">{properties}{content}</w:p>'


def _runs(told: _Told, sentences: int) -> str:
    return "".join(_run(told.say(12) + " ", slanted=number % 2 == 1) for number in range(sentences))


def _run(text: str, *, slanted: bool = False, tag: str = "t") -> str:
    look = "<w:rPr><w:i/><w:iCs/></w:rPr>" if slanted else '<w:rPr><w:lang w:val="en-GB"/></w:rPr>'
    return f'<w:r w:rsidRPr="00C8">{look}<w:{tag} xml:space="preserve">{text}</w:{tag}></w:r>'


def _extra(told: _Told, kind: int, notes: list[str]) -> str:
    return (_table, _box, _noted, _changed, _controlled)[kind](told, notes)


def _table(told: _Told, _notes: list[str]) -> str:
    rows = (
        "<w:tr>"
        + "".join(f"<w:tc><w:tcPr/>{_paragraph(_run(told.say(3)))}</w:tc>" for _ in range(4))
        + "</w:tr>"
        for _ in range(5)
    )
    return f"<w:tbl><w:tblPr/>{''.join(rows)}</w:tbl>"


def _box(told: _Told, _notes: list[str]) -> str:
    """A box as Word writes it: the shape, and the same again for programs that know no shapes."""
    before = _run(told.say(6))
    text = f"<w:txbxContent>{_paragraph(_run(told.say(8)))}</w:txbxContent>"
    shape = f"<wps:wsp><wps:txbx>{text}</wps:txbx></wps:wsp>"
    drawing = f"<w:drawing><wp:inline><a:graphic><a:graphicData>{shape}"
    drawing += "</a:graphicData></a:graphic></wp:inline></w:drawing>"
    old = f'<w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox>{text}'
    old += "</v:textbox></v:shape></w:pict>"
    choice = f'<mc:Choice Requires="wps">{drawing}</mc:Choice><mc:Fallback>{old}</mc:Fallback>'
    return _paragraph(f"{before}<w:r><mc:AlternateContent>{choice}</mc:AlternateContent></w:r>")


def _noted(told: _Told, notes: list[str]) -> str:
    number = len(notes) + 1
    body = _run(told.say(10))
    note = _paragraph(f"<w:r><w:footnoteRef/></w:r>{_run(told.say(9))}")
    notes.append(f'<w:footnote w:id="{number}">{note}</w:footnote>')
    return _paragraph(f'{body}<w:r><w:footnoteReference w:id="{number}"/></w:r>')


def _changed(told: _Told, _notes: list[str]) -> str:
    who = 'w:id="7" w:author="A" w:date="2024-03-01T08:00:00Z"'
    put_in = f"<w:ins {who}>{_run(told.say(6))}</w:ins>"
    out = f"<w:del {who}>{_run(told.strike(6), tag='delText')}</w:del>"
    return _paragraph(f"{put_in}{_run(' ')}{out}{_run(told.say(4))}")


def _controlled(told: _Told, _notes: list[str]) -> str:
    content = _paragraph(_run(told.say(10)))
    return f"<w:sdt><w:sdtPr/><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def _docx(body: str, notes: str) -> bytes:
    style = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/>'
    style += '<w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
    members = {
        "[Content_Types].xml": _content_types(),
        "_rels/.rels": _relations(("officeDocument", "word/document.xml")),
        "word/_rels/document.xml.rels": _relations(
            ("styles", "styles.xml"), ("footnotes", "footnotes.xml")
        ),
        "word/styles.xml": f"{_XML}<w:styles {_W}>{style}</w:styles>",
        "word/footnotes.xml": f"{_XML}<w:footnotes {_W}>{notes}</w:footnotes>",
        "word/document.xml": (
            f"{_XML}<w:document {_W} {_WPS} {_MORE}><w:body>{body}</w:body></w:document>"
        ),
    }
    return _zipped(members)


def _content_types() -> str:
    kinds = (("document", "document.main"), ("styles", "styles"), ("footnotes", "footnotes"))
    parts = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_MAIN}.{kind}+xml"/>'
        for name, kind in kinds
    )
    relations = "application/vnd.openxmlformats-package.relationships+xml"
    return (
        f'{_XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        f'<Default Extension="rels" ContentType="{relations}"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{parts}</Types>'
    )


def _relations(*targets: tuple[str, str]) -> str:
    entries = "".join(
        f'<Relationship Id="rId{number}" Type="{_TYPES}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'{_XML}<Relationships xmlns="{package}">{entries}</Relationships>'


def _zipped(members: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            plain = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, text, compress_type=plain)
    return buffer.getvalue()


def _page(body: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Page</title></head>'
        f"<body>{body}</body></html>"
    )


def _book(pages: Mapping[str, str]) -> bytes:
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in pages
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in pages)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A long book</dc:title>'
        '<dc:identifier id="id">urn:bench</dc:identifier><dc:language>en</dc:language></metadata>'
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
        '<rootfiles><rootfile full-path="OEBPS/book.opf"'
        ' media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    return _zipped(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": container}
        | {"OEBPS/book.opf": package}
        | {f"OEBPS/{name}": page for name, page in pages.items()}
    )


def _prose(told: _Told, paragraphs: int) -> str:
    return "".join(
        f"<p>{told.say(14)} <em>{told.say(12)}</em> {told.say(14)} {told.say(12)}</p>"
        for _ in range(paragraphs)
    )


def _section(told: _Told) -> str:
    """Return a heading, prose with links, a list and a table, in the order of their words."""
    parts = [f"<section><h2>{told.say(4)}</h2>", _prose(told, 3)]
    parts.append(
        f'<p class="x" id="p">{told.say(9)} <a href="/x?y=1&amp;z=2">{told.say(3)}</a></p>'
    )
    parts += ["<ul>", *(f"<li>{told.say(8)}</li>" for _ in range(4)), "</ul><table>"]
    for _ in range(3):
        parts += ["<tr>", *(f"<td>{told.say(3)}</td>" for _ in range(4)), "</tr>"]
    return "".join((*parts, "</table></section>"))


def _lines(told: _Told, lines: int) -> Iterator[str]:
    for number in range(lines):
        yield "" if number % 8 == 7 else told.say(9)
