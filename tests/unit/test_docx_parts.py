"""Text boxes, notes, tables and the parts of a DOCX file."""

import pytest

from tests.support.docx_maker import (
    NAMES,
    docx,
    note,
    note_mark,
    p,
    r,
    shape,
    table,
    text_box,
    vml_box,
)
from tests.support.rows import each_row
from tests.unit.test_docx import HEADINGS, kinds, loaded, places, texts
from truespan.types.text import Block, BlockKind

# Text boxes and notes


@pytest.mark.parametrize(
    "box",
    [text_box(p("box")), r(shape(p("box"))), r(vml_box(p("box")))],
    ids=["both", "drawing", "vml"],
)
def test_text_box_is_read_once_after_its_paragraph(box: str) -> None:
    assert texts(p(r("be") + box + r("fore")) + p("after")) == ["before", "box", "after"]


FALLBACK = (
    "<mc:AlternateContent><mc:Choice Requires='future'><w:drawing/></mc:Choice>"
    f"<mc:Fallback>{vml_box(p('old'))}</mc:Fallback></mc:AlternateContent>"
)
WIDE = '<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>' + p("wide") + "</w:tc>"
LOW = "<w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc><w:tc><w:tcPr/>" + p("x") + "</w:tc>"
A, B, C = (f"<w:tc>{p(text)}</w:tc>" for text in "abc")
GONE = [f"<w:tr><w:trPr><w:{mark}/></w:trPr>{C}</w:tr>" for mark in ("del", "hidden")]


def control(inner: str) -> str:
    return f"<w:sdt><w:sdtPr/><w:sdtContent>{inner}</w:sdtContent></w:sdt>"


ROW = f"<w:tr>{control(A)}<w:tc>{control(p('b'))}</w:tc></w:tr>"


@each_row(("body", "expected"), [
    (p(r("a") + text_box(p(r("outer") + text_box(p("inner"))))) + p("z"),
     ["a", "outer", "inner", "z"]),
    (p(r(FALLBACK)), ["old"]),
    # A note stands once, and without a note nothing does; those of a table stand after it.
    (p(r("a") + note_mark(1) + note_mark(7)) + p(r("b") + note_mark(1)), ["a", "one", "b"]),
    (table(["a", p(r("b") + note_mark(1))])
     + p(r("c") + text_box(p(r("d") + note_mark(2)))), ["a | b", "one", "c", "d", "two"]),
    # A cell is one line, also with a table in it, or with controls around it.
    (table([p("a") + p("b"), p(r("<w:t>c</w:t><w:br/><w:t>d</w:t>"))]), ["a b | c d"]),
    (table(["a", p("b") + table(["1", "2"], ["3", "4"]) + p("c")]), ["a | b 1, 2; 3, 4 c"]),
    (f"<w:tbl><w:tr>{WIDE}</w:tr><w:tr>{LOW}</w:tr></w:tbl>", ["wide\n | x"]),
    (f"<w:tbl>{control(ROW)}<w:tr>{C}</w:tr></w:tbl>", ["a | b\nc"]),
    *((f"<w:tbl>{gone}<w:tr>{A}{B}</w:tr></w:tbl>", ["a | b"]) for gone in GONE),
])  # fmt: skip
def test_docx_boxes_notes_and_tables_are_read(body: str, expected: list[str]) -> None:
    assert texts(body, footnotes=note(1, "one") + note(2, "two")) == expected


def test_text_of_a_diagram_is_read() -> None:
    body = p(r("a") + r('<w:drawing><wp:inline><dgm:relIds r:dm="d1"/></wp:inline></w:drawing>'))
    words = "".join(
        f"<dgm:pt><dgm:t><a:p><a:r><a:t>{word}</a:t></a:r></a:p></dgm:t></dgm:pt>"
        for word in ("plan", "do")
    )
    model = f"<dgm:dataModel {NAMES}><dgm:ptLst>{words}</dgm:ptLst></dgm:dataModel>"
    members = {"word/diagrams/data1.xml": model}
    relations = [("d1", "diagramData", "diagrams/data1.xml")]
    assert texts(body, members=members, relations=relations) == ["a", "plan", "do"]


CHART = """<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" {names}>
<c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:rich></c:tx></c:title>
<c:plotArea><c:barChart><c:ser><c:tx><c:v>North</c:v></c:tx><c:cat><c:strLit><c:pt idx="0">
<c:v>Spring</c:v></c:pt></c:strLit></c:cat><c:val><c:numLit><c:pt idx="0"><c:v>7</c:v></c:pt>
</c:numLit></c:val></c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>"""


def test_chart_titles_are_read_after_the_paragraph() -> None:
    chart = "<c:chart xmlns:c='http://schemas.openxmlformats.org/drawingml/2006/chart' r:id='c1'/>"
    extended = f"<mc:Choice Requires='cx1'>{chart.replace('c1', 'c2')}</mc:Choice>"
    drawn = (
        f"<w:drawing><wp:inline><a:graphic><a:graphicData>{part}</a:graphicData></a:graphic>"
        "</wp:inline></w:drawing>"
        for part in (chart, f"<mc:AlternateContent>{extended}</mc:AlternateContent>", chart)
    )
    body = p(r("a") + "".join(map(r, drawn)) + r("b")) + p("c")
    second = CHART.replace("Sales", "Costs").replace("North", "South")
    members = {
        "word/charts/chart1.xml": CHART.format(names=NAMES),
        "word/charts/chart2.xml": second.format(names=NAMES),
    }
    relations = [("c1", "chart", "charts/chart1.xml"), ("c2", "chart", "charts/chart2.xml")]

    found = loaded(body, members=members, relations=relations).blocks

    assert [(block.text, str(block.kind), block.header_rows) for block in found] == [
        ("ab", "paragraph", 0), ("Sales", "paragraph", 0), ("Costs", "paragraph", 0),
        ("c", "paragraph", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["footnote", "endnote"])
def test_note_follows_the_paragraph_that_refers_to_it(kind: str) -> None:
    notes = note(-1, "line", kind, "separator") + note(2, p("Note.") + p("More."), kind)
    body = p(r("Te") + note_mark(2, kind) + r("xt.") + note_mark(-1, kind)) + p("Next.")
    found = kinds(body, footnotes=notes) if kind == "footnote" else kinds(body, endnotes=notes)
    assert found == [
        (BlockKind.PARAGRAPH, "Text."), (BlockKind.FOOTNOTE, "Note."),
        (BlockKind.FOOTNOTE, "More."), (BlockKind.PARAGRAPH, "Next."),
    ]  # fmt: skip


def test_notes_that_refer_to_notes_follow_each_other() -> None:
    count = 3000
    notes = "".join(note(n, p(r(f"n{n}") + note_mark(n + 1))) for n in range(count))
    assert texts(p(r("a") + note_mark(0)), footnotes=notes) == [
        "a",
        *(f"n{n}" for n in range(count)),
    ]


# Tables


def test_docx_tables_are_rows_and_begin_no_chapter() -> None:
    body = table(["Name", "Age"], ["Ann", "7"], ["", ""], ["Bob", ""], ["", "9"])
    assert kinds(body) == [(BlockKind.TABLE, "Name | Age\nAnn | 7\nBob\n | 9")]
    body = table([p("Note", style="Heading1") + p("a") + p("b")]) + p("c")
    assert kinds(body) == [(BlockKind.PARAGRAPH, text) for text in ("Note", "a", "b", "c")]
    assert not any(block.chapter for block in loaded(body).blocks)
    body = table([p("H", style="Heading1"), "x"]) + p("after")
    assert places(body) == [("H | x", None, None), ("after", None, None)]


# The file


def test_parts_are_found_by_relationship_and_margins_left_out() -> None:
    assert texts(p("a"), main="other/place/text.xml") == ["a"]
    members = {
        name: docx(p("no"))
        for name in ("word/header1.xml", "word/footer1.xml", "word/comments.xml")
    }
    relations = [(name, name, f"{name}.xml") for name in ("header1", "footer1", "comments")]
    assert texts(p("a") + "<w:sectPr/>", members=members, relations=relations) == ["a"]


def test_strict_and_transitional_forms_read_alike() -> None:
    body = (
        p("H", style="Heading1")
        + p(r("a") + note_mark(1))
        + table(["b", "c"])
        + p(r(shape(p("box"))))
    )
    parts = {"styles": HEADINGS, "footnotes": note(1, "n")}
    assert loaded(body, strict=True, **parts) == loaded(body, **parts)


def test_odf_properties_are_read() -> None:
    core = (
        '<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t"><dc:title>T</dc:title>'
        "<dc:creator>Ann; Bob;Ann</dc:creator><cp:keywords>x, y; z</cp:keywords>"
        "<dc:description>About.</dc:description><dcterms:created>2001-02-03</dcterms:created>"
        "<dcterms:modified>2002-02-03</dcterms:modified><dc:language>de-AT</dc:language>"
        "</cp:coreProperties>"
    )
    found = loaded(p("a"), core=core)

    assert found.title == "T"
    said = found.properties
    assert (said.title, said.authors, said.keywords) == ("T", ("Ann", "Bob"), ("x", "y", "z"))
    assert (said.created, said.modified) == ("2001-02-03", "2002-02-03")
    assert (said.description, said.language) == ("About.", "de-AT")


def test_default_language_of_the_styles_applies_if_no_other_is_named() -> None:
    language = '<w:rPrDefault><w:rPr><w:lang w:val="fr-FR"/></w:rPr></w:rPrDefault>'
    styles = f"<w:docDefaults>{language}</w:docDefaults>"
    assert loaded(p("a"), styles=styles).properties.language == "fr-FR"


def test_damaged_or_foreign_parts_lose_no_text() -> None:
    assert loaded(p("a"), core="<broken").blocks == (Block(BlockKind.PARAGRAPH, "a"),)
    found = loaded(p("a") + '<w:altChunk r:id="x"/>')
    assert found.warnings == ("Parts that are damaged or in another format: 1.",)
