"""Small documents with much in them, for the fuzzer to change."""

from __future__ import annotations

import io
import zipfile

from tests.support import odf_maker, pptx_maker
from tests.support.hostile.docx import picture, png
from tests.support.hostile.parts import (
    DOCX,
    EPUB,
    body,
    docx_parts,
    epub_parts,
    paragraph,
    relations,
)
from tests.support.pdf_maker import Bookmark, Page, Words, column, make_pdf
from tests.support.sheet_maker import cell, ods, rows, sheet, xlsx

_PAGE = """<h1 id="a">One &amp; only</h1><p>Some <b>bold</b> and <a href="#n">linked</a>
text<br/>with a break.<sup><a href="#n" epub:type="noteref">1</a></sup></p>
<ul><li>first</li><li>second<ol start="3" type="i"><li value="7">inner</li></ol></li></ul>
<table><caption>Cap</caption><thead><tr><th colspan="2">Head</th></tr></thead>
<tr><td rowspan="2">a</td><td>b</td></tr><tr><td>c</td></tr></table>
<figure><img src="p.png" alt="A picture"/><figcaption>Below it</figcaption></figure>
<pre>code  here
 more</pre><blockquote><p>Quoted.</p></blockquote><hr/><h2>Two</h2><dl><dt>t</dt><dd>d</dd></dl>
<div style="display:none">hidden</div><svg><title>s</title><image href="p.png"/></svg>
<ruby>漢<rt>kan</rt></ruby><aside id="n" epub:type="footnote"><p>The note.</p></aside>
<script>var a = 1;</script>"""

_BODY = (
    paragraph("Title", '<w:pStyle w:val="Heading1"/>')
    + paragraph("Text &amp; more.", '<w:outlineLvl w:val="1"/>')
    + paragraph("Item", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>') * 3
    + "<w:p><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
    "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
    '<w:r><w:tab/><w:br/><w:noBreakHyphen/><w:sym w:font="Symbol" w:char="F0B7"/></w:r>'
    '<w:r><w:footnoteReference w:id="2"/></w:r><w:hyperlink r:id="rId9"><w:r><w:t>link</w:t></w:r>'
    '</w:hyperlink><w:fldSimple w:instr="PAGE"><w:r><w:t>3</w:t></w:r></w:fldSimple></w:p>'
    '<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>TOC</w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>shown</w:t></w:r><w:r>'
    '<w:fldChar w:fldCharType="end"/></w:r></w:p>'
    "<w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    '<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/><w:vMerge w:val="restart"/></w:tcPr>'
    "<w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr><w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>"
    "<w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    + picture("rId8")
    + "<w:p><w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wps:txbx>"
    "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent></wps:txbx></w:drawing></mc:Choice><mc:Fallback>"
    '<w:pict><v:shape><v:imagedata r:id="rId8"/><v:textbox><w:txbxContent><w:p/></w:txbxContent>'
    "</v:textbox></v:shape></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
    "<w:sectPr/>"
)

_MARKDOWN = """---
title: A title
---
# One

Some *text*, **bold**, `code`, [a link](b "title"), ![alt](p.png), <b>html</b> and a line  
break. [ref][r] &amp; more.

- first
  1. inner
- second

> quoted
> - list

| a | b |
|---|:-:|
| 1 | 2 |

```python
code
```

Two
---

    indented

[r]: http://example.org 'T'

***
"""  # noqa: W291

_TEXT = """THE BOOK

CONTENTS

CHAPTER I. The First
CHAPTER II. The Second

CHAPTER I

The First

It was a day. “Yes,” she said.

CHAPTER II

The Second

II

Another day – and more [FIGURE:x] of it.
"""


def docx_members() -> dict[str, bytes]:
    """Return the parts of a document that has one of everything."""
    return docx_parts(
        {
            "word/document.xml": body(_BODY),
            "word/_rels/document.xml.rels": DOCX["word/_rels/document.xml.rels"].replace(
                "</Relationships>",
                relations(
                    ("rId8", "image", "media/p.png", ""), ("rId9", "hyperlink", "u:", "External")
                ).partition('relationships">')[2],
            ),
            "word/media/p.png": png(2, 2, bytes(14)),
        }
    )


def pptx_members() -> dict[str, bytes]:
    """Return the parts of a presentation that has one of everything."""
    slide = (
        pptx_maker.title("Title", "ctrTitle")
        + pptx_maker.shape(
            pptx_maker.line("One", '<a:buAutoNum type="alphaLcParenR" startAt="2"/>')
            + pptx_maker.line("Two", level=1),
            kind="body",
            index=1,
        )
        + pptx_maker.group(pptx_maker.table(["a", "b"], ["c", "d"], properties=' firstRow="1"'))
        + pptx_maker.frame('<c:chart r:id="c1"/>')
        + pptx_maker.frame('<dgm:relIds r:dm="d1"/>')
        + pptx_maker.picture("i1", "A picture")
    )
    chart = (
        "<c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Chart</a:t></a:r></a:p></c:rich></c:tx>"
        '</c:title><c:ser><c:cat><c:strLit><c:pt idx="0"><c:v>x</c:v></c:pt></c:strLit></c:cat>'
        "<c:val><c:numLit><c:formatCode>m/d/yyyy</c:formatCode>"
        '<c:pt idx="0"><c:v>37261.5</c:v></c:pt></c:numLit></c:val></c:ser></c:chart>'
    )
    diagram = (
        '<dgm:pt modelId="1"><dgm:t><a:p><a:r><a:t>p</a:t></a:r></a:p></dgm:t></dgm:pt>'
        '<dgm:pt modelId="2"/><dgm:cxn srcId="2" destId="1" srcOrd="0"/>'
    )
    data = pptx_maker.pptx(
        slide,
        pptx_maker.title("Two"),
        order=[2, 1],
        notes={1: pptx_maker.shape("Note", kind="body")},
        sections={"First": [1], "Last": [2]},
        relations=[
            ("c1", "chart", "../charts/c.xml"),
            ("d1", "diagramData", "../diagrams/d.xml"),
            ("i1", "image", "../media/p.png"),
        ],
        members={
            "ppt/charts/c.xml": f"<c:chartSpace {pptx_maker.NAMES}>{chart}</c:chartSpace>",
            "ppt/diagrams/d.xml": f"<dgm:dataModel {pptx_maker.NAMES}>{diagram}</dgm:dataModel>",
            "ppt/media/p.png": png(2, 2, bytes(14)),
        },
    )
    return unpack(data)


def odt_members() -> dict[str, bytes]:
    """Return the parts of a text that has one of everything."""
    make = odf_maker
    repeated = make.cell("d", ' table:number-columns-repeated="3"')
    body = (
        make.p("Title", "Title")
        + make.h("One")
        + make.p(f"Text <text:s text:c='3'/><text:tab/>{make.note('A note.')}{make.box('boxed')}")
        + make.ul("one", make.p("two") + make.ul("deep"), style="L")
        + make.table(["a", "b"], ["c", repeated], header=1)
        + make.p(make.frame('<draw:image xlink:href="Pictures/p.png"/><svg:desc>A</svg:desc>'))
        + make.p(make.frame('<draw:object xlink:href="./Object 1"/>'))
    )
    styles = make.list_style("L", make.number(1, "1"), make.number(2, "一, 二, 三, ..."))
    formula = "<math><mfrac><mn>1</mn><mi>x</mi></mfrac></math>"
    members = {"Pictures/p.png": png(2, 2, bytes(14)), "Object 1/content.xml": formula}
    return unpack(make.odf(body, automatic=styles, meta="<dc:title>T</dc:title>", members=members))


def rtf_files() -> list[bytes]:
    """Return a text that has one of everything."""
    return [
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset128 B;}"
        rb"{\f2\fcharset2 Symbol;}}"
        rb"{\stylesheet{\s1\outlinelevel0 heading 1;}}{\info{\title T}{\author A}}"
        rb"\pard\s1 One\par\pard\plain a\'e9\u8364?{\b b}{\f1 \'83e\'83X}{\f2 a}\tab\line c\par"
        rb"{\listtext 1.\tab}\pard\ls1 item{\footnote note\par}\par"
        rb"{\field{\*\fldinst TOC}{\fldrslt in\tab 1\par}}"
        rb"\trowd\trhdr\intbl x\cell y\cell\row\trowd\intbl z\nestcell\nestrow\cell\row"
        rb"\pard\dropcapli2 D\par\pard rop{\*\shpinst{\shptxt box\par}}{\pict\bin3 {}}}\par}"
    ]


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def epub_members() -> dict[str, bytes]:
    """Return the parts of a book of two chapters."""
    page = EPUB["OEBPS/c1.xhtml"].replace("<p>An honest paragraph. @@</p>", _PAGE)
    page = page.replace("<html ", '<html xmlns:epub="http://www.idpf.org/2007/ops" ')
    package = EPUB["OEBPS/content.opf"].replace(
        "</manifest>",
        '<item id="c2" href="a%20b.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="p" href="p.png" media-type="image/png" properties="cover-image"/></manifest>',
    )
    return epub_parts(
        {
            "OEBPS/content.opf": package.replace("</spine>", '<itemref idref="c2"/></spine>'),
            "OEBPS/c1.xhtml": page,
            "OEBPS/a b.xhtml": EPUB["OEBPS/c1.xhtml"],
            "OEBPS/p.png": png(2, 2, bytes(14)),
        }
    )


def sheet_members(format: str) -> dict[str, bytes]:
    """Return the parts of a workbook with titles, tables, merged cells and formats."""
    table = [["Item", "2024", "2025"], ["Tea & milk", 3.5, True], ["Bread", None, -2]]
    if format == "ods":
        cells = "".join(f"<table:table-cell><text:p>{n}</text:p></table:table-cell>" for n in "abc")
        row = f'<table:table-row table:number-rows-repeated="2">{cells}</table:table-row>'
        data = ods(f'<table:table table:name="One"><table:table-column/>{row * 2}</table:table>')
    else:
        looks = cell("A8", 0.25, 1) + cell("B8", 43831.5, 2) + cell("C8", -1234.5, 3)
        lines = rows([["A title"]]) + rows(table, top=3) + f'<row r="8" hidden="0">{looks}</row>'
        strings = "<si><t>one</t></si><si><r><t>two</t></r></si>"
        shared = '<row r="9"><c r="A9" t="s"><v>0</v></c><c r="B9" t="s"><v>1</v></c></row>'
        merged = '<mergeCells><mergeCell ref="A3:B3"/></mergeCells><autoFilter ref="A3:C5"/>'
        columns = '<cols><col min="3" max="3" hidden="1"/></cols>'
        data = xlsx(
            {"One": sheet(lines + shared, before=columns, after=merged), "Two": sheet(lines)},
            formats=["0.0%", "d-mmm-yy h:mm", '#,##0.00" €";[Red](0);[>5]General'],
            strings=strings,
        )
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pdf_files() -> list[bytes]:
    """Return files with columns, pages, an outline and properties."""
    lines = [f"a line of words that num-ber {number} of many is" for number in range(12)]
    columns = [*column(lines), *column(lines, x=330)]
    pages = [
        Page([Words(72, 760, f"Head {n}"), *columns, Words(300, 30, str(n))], picture=n == 2)
        for n in range(1, 5)
    ]
    outline = [Bookmark("One", 0, 700), Bookmark("In one", 1, 500, 1), Bookmark("Two", 2)]
    properties = {"Title": "A title", "Author": "A B; C D", "CreationDate": "D:20240101000000Z"}
    return [
        make_pdf(pages, outline=outline, properties=properties, language="en"),
        make_pdf([Page(column(["One page."]), rotate=90)]),
        make_pdf([Page(column(["Locked."]))], password=""),
    ]


def html_files() -> list[bytes]:
    head = '<title>T</title><meta charset="utf-8"><meta name="author" content="A B">'
    page = (
        f"<!DOCTYPE html><html lang=en><head>{head}</head><body><nav>menu</nav><main>{_PAGE}</main>"
    )
    image = "data:image/png;base64,iVBORw0KGgo="
    return [page.encode(), page.replace("p.png", image).encode(), page.encode("utf-16")]


def markdown_files() -> list[bytes]:
    return [_MARKDOWN.encode(), _MARKDOWN.replace("\n", "\r\n").encode()]


def text_files() -> list[bytes]:
    return [_TEXT.encode(), _TEXT.encode("utf-16"), _TEXT.encode("cp1252"), _TEXT.encode("utf-32")]


def csv_files() -> list[bytes]:
    table = 'id,text,when\n1,"two\nlines",2026-05-01\n2,"a ""quote""",\n3,<p>page</p>,true\n'
    semicolons = table.replace(",", ";")
    return [table.encode(), semicolons.encode("utf-16"), table.replace(",", "\t").encode("cp1252")]


def json_files() -> list[bytes]:
    records = (
        '{"id": 1, "text": "a", "to": {"city": ["x", null, 1.50]}}\n{"id": 2, "text": "b\\u00e9"}'
    )
    listed = "[" + records.replace("\n", ",\n") + "]"
    config = '{"name": "x", "items": ' + listed + ', "on": true}'
    return [records.encode(), listed.encode(), config.encode("utf-16")]


def zip_members() -> dict[str, bytes]:
    return {"a.md": b"# A", "deep/b.txt": b"B", "c.csv": csv_files()[0], "d.jpg": b"\xff"}


def notebook_files() -> list[bytes]:
    outputs = (
        '{"output_type":"stream","text":["a\\n"]},{"output_type":"error","ename":"E","evalue":"v"},'
        '{"output_type":"display_data","data":{"text/html":"<table><tr><td>1</td><td>2</td></tr>'
        '</table>","text/plain":"<F>","image/png":"iVBORw0K"}}'
    )
    cells = (
        '{"cell_type":"markdown","source":["# One\\n","text"]},'
        f'{{"cell_type":"code","source":"x = 1","outputs":[{outputs}]}}'
    )
    metadata = '"metadata":{"title":"T","authors":[{"name":"A"}]}'
    old = cells.replace('"source":"x', '"input":"x').replace("markdown", "heading")
    return [
        f'{{"cells":[{cells}],{metadata}}}'.encode(),
        f'{{"worksheets":[{{"cells":[{old}]}}],{metadata}}}'.encode(),
    ]


def code_files() -> list[bytes]:
    python = '# a\n@b\nclass A(B):\n    """d"""\n    def f(x="{", y):\n        return x\n\nz = 1\n'
    script = (
        "/* { */ import a\nexport class A {\n  f({ x } = {}) { return `}${x}` }\n}\n"
        "const g = (x) => {\n  return /[{]/\n}\n"
    )
    return [python.encode(), script.encode()]


def mail_files() -> list[bytes]:
    message = (
        "From: =?utf-8?q?=C3=84?= <a@b.c>\nTo: d, e <f@g>\nSubject: S\nMessage-ID: <1@x>\n"
        "Date: Mon, 16 Nov 2026 09:30:00 +0100\nContent-Type: multipart/mixed; boundary=x\n\n"
        "--x\nContent-Type: multipart/alternative; boundary=y\n\n--y\nContent-Type: text/plain;"
        " format=flowed\n\nOne \ntwo.\n> Said\n--y\nContent-Type: text/html\n\n<p>Page</p>\n--y--\n"
        "--x\nContent-Type: message/rfc822\n\nSubject: Inner\n\nText\n"
        "--x\nContent-Disposition: attachment; filename*=utf-8''a%20b.txt\n"
        "Content-Transfer-Encoding: base64\n\nQUJD\n--x--\n"
    )
    separator = "From a Mon Nov 16 09:30:00 2026\n"
    return [message.encode(), f"{separator}{message}\n{separator}Subject: B\n\n>From c\n".encode()]
