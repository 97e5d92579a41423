"""Header rows of tables in each format."""

from tests.support.docx_maker import cell, docx, p, style
from tests.support.rows import each_row
from truespan.parsing import load
from truespan.types.text import Block, BlockKind


def table_of(name: str, data: bytes) -> Block:
    return next(block for block in load(name, data).blocks if block.kind is BlockKind.TABLE)


@each_row("text, count", [
    ("| a | b |\n|---|---|\n| 1 | 2 |", 1), ("| | |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", 0),
    ("| a | b |\n|---|---|", 0),
])  # fmt: skip
def test_markdown_table_has_a_header_row(text: str, count: int):
    assert table_of("a.md", text.encode()).header_rows == count


HEAD, VALUE, OTHER = "<tr><th>a<th>b", "<tr><td>1<td>2", "<tr><td>3<td>4"


@each_row("inner, count", [
    (f"<thead>{HEAD}</thead>{VALUE}", 1), (f"<thead><tr><td>a<td>b</thead><tbody>{VALUE}", 1),
    (f"<thead><tr><th colspan=2>Ages{HEAD}</thead>{VALUE}", 2),
    (f"<thead><tr><th>a<img src=x><th>b</thead>{VALUE}", 1), (f"{HEAD}{VALUE}{OTHER}", 1),
    (f"<tr><th colspan=2>Ages{HEAD}{VALUE}", 2), (f"<tr><td><th>a<th>b{VALUE}", 1),
    (f"<tr>{HEAD}{VALUE}", 1),
    # Headings of groups of rows.
    (f"{HEAD}<tr><th colspan=2>Europe{VALUE}<tr><th colspan=2>Asia{OTHER}", 1),
    (f"<thead>{HEAD}</thead><tr><th colspan=2>Europe{VALUE}", 1),
    # Headings of rows.
    (f"<tr><th>a<td>1<tr><th>b<td>2{VALUE}", 0), (f"{VALUE}{HEAD}", 0), (f"{HEAD}{HEAD}", 0),
    (f"<thead>{HEAD}</thead>", 0), (f"{VALUE}{OTHER}", 0), (f"loose words{HEAD}{VALUE}", 0),
])  # fmt: skip
def test_html_header_rows_are_those_of_thead_or_of_heading_cells(inner: str, count: int):
    found = table_of("a.html", f"<p>x</p><table>{inner}</table>".encode())
    assert found.header_rows == count, found.text


def word_row(*texts: str, properties: str = "") -> str:
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cell(p(text)) for text in texts)}</w:tr>"


def word_table(*rows: str, properties: str = "") -> str:
    return f"<w:tbl><w:tblPr>{properties}</w:tblPr>{''.join(rows)}</w:tbl>"


REPEATED = '<w:tblHeader w:val="1"/>'
NAMES, VALUES = word_row("Name", "Age"), word_row("Ada", "36")
MARKED = word_row("Name", "Age", properties=REPEATED)
PLAIN, STYLED = '<w:tblStyle w:val="Grid"/>', '<w:tblStyle w:val="Derived"/>'
LOOK, NO_LOOK = '<w:tblLook w:val="04A0"/>', '<w:tblLook w:val="0480"/>'


@each_row("body, count", [
    (word_table(MARKED, VALUES), 1),
    (word_table(MARKED, word_row("of all", "in years", properties=REPEATED), VALUES), 2),
    (word_table(VALUES, MARKED), 0),
    (word_table(word_row("", "", properties=REPEATED), MARKED, VALUES), 1),
    (word_table(MARKED, MARKED), 0),
    (word_table(word_row("a", "b", properties='<w:tblHeader w:val="0"/>'), VALUES), 0),
    (word_table(NAMES, VALUES), 0),
    (word_table(NAMES, VALUES, properties=STYLED + LOOK), 1),
    (word_table(VALUES, VALUES, properties=STYLED + LOOK), 1),
    (word_table(VALUES, VALUES, properties=f'{STYLED}<w:tblLook w:firstRow="1"/>'), 1),
    (word_table(NAMES, VALUES, properties=STYLED + NO_LOOK), 0),
    # Word sets the look of every new table, so it has to be a row of labels too.
    (word_table(NAMES, VALUES, properties=PLAIN + LOOK), 1),
    (word_table(VALUES, VALUES, properties=PLAIN + LOOK), 0),
    (word_table(NAMES, VALUES, properties='<w:tblLook w:val="?"/>'), 0),
])  # fmt: skip
def test_docx_header_rows_are_repeated_or_formatted(body: str, count: int):
    styles = (
        style("Base", kind="table", inner='<w:tblStylePr w:type="firstRow"/>')
        + style("Derived", kind="table", based_on="Base")
        + style("Grid", "Table Grid", kind="table")
    )
    found = table_of("a.docx", docx(body, styles=styles))
    assert found.header_rows == count, found.text
