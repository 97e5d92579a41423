"""Workbooks: displayed cell values, headers, titles and places."""

from pathlib import Path

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.rows import each_row
from tests.support.sheet_maker import cell, ods, relations, rows, sheet, xlsb, xlsx, zipped
from tests.support.worlds import WordCounter
from truespan.extensions.formats.sheets.number_format import compile_format, show_plain
from truespan.ingest.canonical import assemble
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.ingest.draft import make_chunks
from truespan.parsing import load
from truespan.text.sentences import split_sentences
from truespan.types.profile import SENTENCES, TOKENS, WINDOW, ChunkingProfile
from truespan.types.source import ParseOptions
from truespan.types.text import Block, BlockKind, Loaded, PageStart

SALES = [["City", "Sold", "Share"], ["Bergen", 12, 0.25], ["Oslo", 36, 0.75]]


def read(data: bytes, name: str = "book.xlsx", *, hidden: bool = False) -> Loaded:
    return load(name, data, ParseOptions(hidden_sheets=hidden))


def outline(loaded: Loaded) -> list[tuple[str, str, int]]:
    return [(str(block.kind), block.text, block.header_rows) for block in loaded.blocks]


def only(loaded: Loaded) -> Block:
    (block,) = loaded.blocks
    return block


@each_row("code, value, expected", [
    ("0", 2.5, "3"), ("0.00", 2.675, "2.68"), ("#,##0.00", -1234.5, "-1,234.50"),
    ("#,##0.00;[Red](#,##0.00)", -3, "(3.00)"), ("0.0%", 0.12345, "12.3%"),
    ('_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', 1234.5, "1,234.50 €"),
    ('_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', 0, "- €"),
    ("[$€-407]#,##0.00", 5, "€5.00"), ("00000", 42, "00042"), ("0.##", 5.256, "5.26"),
    ("#.##", 0.5, ".5"), ('0.0,,"M"', 12345678, "12.3M"), ('General" kg"', 5.5, "5.5 kg"),
    ('"yes";"no";"zero"', -1, "no"), (";;;", 5, ""), ("{0}", 3, "{3}"),
    ("yyyy-mm-dd", 43831, "2020-01-01"), ("d-mmm-yy", 43831, "2020-01-01"),
    ('yyyy"年"m"月"d"日"', 43831, "2020-01-01"), ("m/d/yy h:mm", 43831.5, "2020-01-01 12:00"),
    ("h:mm AM/PM", 0.75, "18:00"), ("[h]:mm:ss", 1.5, "36:00:00"),
    ("mm:ss.0", 1.23456 / 86400, "00:00:01"), ("hh:mm:ss", 1.9999999999, "00:00:00"),
    ("mmm yyyy", 60, "February 1900"), ("yyyy-mm-dd", 1, "1900-01-01"), ("yyyy", -5, "-5"),
    ("yyyy", 1e300, "1E+300"),
])  # fmt: skip
def test_numbers_are_shown_in_their_formats(code: str, value: float, expected: str) -> None:
    show = compile_format(code)
    assert show is not None
    assert show(value) == expected


def test_numbers_without_a_format_are_short() -> None:
    epoch = compile_format("yyyy-mm-dd", from_1904=True)
    assert epoch is not None
    assert epoch(0) == "1904-01-01"
    for code in ("General", "@", '"Dr. "@', "0.00E+00", "# ?/?", "(000) 000-0000", "[>9]0.0;0"):
        assert compile_format(code) is None, code
    plain = {
        "0.30000000000000004": "0.3", "123456789012": "123456789012", "1.5E+20": "1.5E+20",
        "1.0": "1",
    }  # fmt: skip
    assert {value: show_plain(value) for value in plain} == plain


@proves("loader.sheets")
def test_sheet_is_a_chapter_and_its_rows_have_places() -> None:
    title = [["Sales of the year"]]
    data = xlsx({"North": sheet(rows(title) + rows(SALES, top=3))})

    name, heading, table = read(data).blocks

    assert (name.kind, name.text, name.chapter) == (BlockKind.HEADING, "North", "North")
    assert (heading.kind, heading.text) == (BlockKind.HEADING, "Sales of the year")
    assert name.pages == (PageStart(0, 0, "row A:A"),)
    assert (heading.section, heading.pages) == (None, (PageStart(0, 1, "row A:A"),))
    assert table.kind is BlockKind.TABLE
    assert (table.chapter, table.section) == ("North", "Sales of the year")
    assert table.text == "City | Sold | Share\nBergen | 12 | 0.25\nOslo | 36 | 0.75"
    assert table.header_rows == 1
    assert table.pages == tuple(
        PageStart(offset, row, "row A:C") for offset, row in ((0, 3), (20, 4), (39, 5))
    )


def test_number_formats_match_spreadsheet_programs() -> None:
    formats = ["0%", "14", "#,##0.00", '"about "@', "[h]:mm"]
    strings = (
        "<si><t>plain &amp; short</t></si><si><r><rPr><b/></rPr><t>two </t></r><r><t>runs</t></r>"
        "<rPh><t>spoken</t></rPh></si><si><t>line_x000D_\nbreak</t></si>"
    )
    cells = (
        cell("A1", 0.5, 1)
        + cell("B1", 43831, 2)
        + cell("C1", 1234.5, 3)
        + cell("D1", True)
        + '<c r="E1" t="e"><v>#N/A</v></c><c r="F1" t="str"><f>A1&amp;B1</f><v>a &lt; b</v></c>'
        + '<c r="G1" t="s"><v>0</v></c><c r="H1" t="s"><v>1</v></c><c r="I1" t="s"><v>2</v></c>'
        + '<c r="J1" t="s" s="9"><v>99</v></c><c r="K1" s="4" t="s"><v>0</v></c>'
        + cell("L1", 1.5, 5)
        + '<c r="M1" t="d"><v>2020-02-03T00:00:00</v></c><c r="N1"><f>1+1</f><v></v></c>'
    )
    expected = (
        "50% | 2020-01-01 | 1,234.50 | TRUE | #N/A | a < b | plain & short | two runs | line break"
        " | plain & short | 36:00 | 2020-02-03"
    )
    data = sheet(f'<row r="1">{cells}</row>')
    for text in (data, data.replace("<sheetData>", "<!-- odd --><sheetData>")):
        loaded = read(xlsx({"Sheet1": text}, formats=formats, strings=strings))
        assert only(loaded).text == expected
    assert "Formulas without a stored result: 1." in loaded.warnings or text is not data
    mac = read(xlsx({"Sheet1": data}, formats=formats, settings='<workbookPr date1904="1"/>'))
    assert "2024-01-02" in only(mac).text


BESIDE = [
    ["City", "Sold", None, "Boat", "Crew"],
    ["Bergen", 12, None, "Gull", 4],
    ["Oslo", 36, None, "Tern", 6],
]
SPACED = [["Item", None, "2019", None, "2020"], ["Fuel", None, 3, None, 4]]
GROUPS = [[None, "Spring", None, "Autumn", None], ["City", "In", "Out", "In", "Out"]]
AMOUNTS = ["Bergen", 1, 2, 3, 4]
MERGED = '<mergeCells><mergeCell ref="B1:C1"/><mergeCell ref="D1:E1"/></mergeCells>'
FROZEN = '<sheetViews><sheetView><pane ySplit="2" state="frozen"/></sheetView></sheetViews>'
LISTED = '<autoFilter ref="A2:B3"/>'


@each_row("text, expected", [
    (
        sheet(rows(BESIDE)),
        [
            ("table", "City | Sold\nBergen | 12\nOslo | 36", 1),
            ("table", "Boat | Crew\nGull | 4\nTern | 6", 1),
        ],
    ),
    (sheet(rows(SPACED)), [("table", "Item | 2019 | 2020\nFuel | 3 | 4", 1)]),
    (
        sheet(rows([*GROUPS, AMOUNTS, AMOUNTS]), after=MERGED),
        [
            (
                "table",
                " | Spring |  | Autumn\nCity | In | Out | In | Out"
                + "\nBergen | 1 | 2 | 3 | 4" * 2,
                2,
            )
        ],
    ),
    (sheet(rows([[1, 2], [3, 4], [5, 6]]), before=FROZEN), [("table", "1 | 2\n3 | 4\n5 | 6", 2)]),
    (
        sheet(rows([["a", 1], ["Name", "Age"], ["Ada", 36]]), after=LISTED),
        [("table", "a | 1", 0), ("table", "Name | Age\nAda | 36", 1)],
    ),
    (
        sheet(rows([["Ada", "b"], ["x", 1], ["Figures are those of the last day of the year."]])),
        [
            ("table", "Ada | b\nx | 1", 1),
            ("paragraph", "Figures are those of the last day of the year.", 0),
        ],
    ),
    (sheet(rows([["Red"], ["Green"], ["Blue"]])), [("table", "Red\nGreen\nBlue", 0)]),
    (
        sheet(rows([["Read this"], ["It is a text."], ["It has three lines."]])),
        [
            ("heading", "Read this", 0),
            ("paragraph", "It is a text.", 0),
            ("paragraph", "It has three lines.", 0),
        ],
    ),
])  # fmt: skip
def test_sheet_tables_are_divided_sensibly(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert outline(read(xlsx({"Sheet1": text}))) == expected


def test_label_does_not_reveal_the_width_of_later_rows() -> None:
    table = only(read(xlsx({"Sheet1": sheet(rows([["a", "b"], ["c", "d", "e"]]))})))
    assert [start.unit for start in table.pages] == ["row A:B", "row A:C"]


@proves("loader.sheets")
def test_hidden_sheets_rows_and_columns_are_read_on_request() -> None:
    columns = '<cols><col min="2" max="2" hidden="1"/></cols>'
    lines = rows(SALES).replace('<row r="2">', '<row r="2" hidden="1">')
    data = xlsx(
        {"Open": sheet(lines, before=columns), "Closed": sheet(rows([["secret", "x"]]))},
        states={"Closed": "hidden"},
    )

    shown, everything = read(data), read(data, hidden=True)

    assert outline(shown)[1:] == [("table", "City | Share\nOslo | 0.75", 1)]
    assert shown.warnings == ("Hidden sheets left out: 1.", "Hidden rows and columns left out: 2.")
    assert [block.text for block in everything.blocks][1:] == [
        "City | Sold | Share\nBergen | 12 | 0.25\nOslo | 36 | 0.75", "Closed", "secret | x",
    ]  # fmt: skip


def test_binary_workbooks_have_their_stored_values() -> None:
    ferries = "Quay | Leaves | Full | Passengers\nNorth | 2026-11-16 | 0.25 | 1234.5"
    by_name = {
        "a.xls": (Path(__file__).parents[1] / "fixtures/libreoffice.xls").read_bytes(),
        "a.xlsb": xlsb(
            {
                "Ferries": [
                    ["Quay", "Leaves", "Full", "Passengers"],
                    ["North", "2026-11-16", 0.25, 1234.5],
                    ["South", "2026-11-17", 0.5, 12.0],
                ],
                "Wages": [["Keeper", "Wage"], ["Ida", 900.0]],
            },
            hidden=["Wages"],
        ),
    }
    for name, data in by_name.items():
        shown, everything = read(data, name), read(data, name, hidden=True)

        [heading, table] = shown.blocks
        assert (heading.text, heading.chapter) == ("Ferries", "Ferries")
        assert table.text == f"{ferries}\nSouth | 2026-11-17 | 0.5 | 12"
        assert [start.unit for start in table.pages] == ["row A:D"] * 3
        assert shown.warnings == ("Hidden sheets left out: 1.",)
        assert [block.text for block in everything.blocks][2:] == [
            "Wages",
            "Keeper | Wage\nIda | 900",
        ]


def test_comments_boxes_and_chart_titles_are_kept() -> None:
    drawing = (
        '<d xmlns:x="x" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
        ' xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
        ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><x:anchor>'
        "<x:from><x:col>4</x:col><x:row>9</x:row></x:from><a:p><a:r><a:t>In a box</a:t></a:r></a:p>"
        '<c:chart r:id="c"/></x:anchor></d>'
    )
    chart = (
        '<c xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
        ' xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"><c:title><a:p><a:r>'
        "<a:t>Sold by city</a:t></a:r></a:p></c:title></c>"
    )
    runs = "<r><t>Counted </t></r><r><t>twice</t></r>"
    comments = f'<comments><comment ref="B2"><text>{runs}</text></comment></comments>'
    extra = {
        "xl/worksheets/_rels/sheet1.xml.rels": relations(
            ("x", "comments", "../comments1.xml"), ("y", "drawing", "../drawings/d.xml")
        ),
        "xl/comments1.xml": comments,
        "xl/drawings/d.xml": drawing,
        "xl/drawings/_rels/d.xml.rels": relations(("c", "chart", "../charts/c.xml")),
        "xl/charts/c.xml": chart,
    }
    loaded = read(xlsx({"Sheet1": sheet(rows(SALES))}, extra=extra))

    assert outline(loaded)[1:] == [
        ("footnote", "B2: Counted twice", 0), ("paragraph", "In a box\nSold by city", 0),
    ]  # fmt: skip
    assert loaded.blocks[1].pages == (PageStart(0, 2, "row B:B"),)


def test_ods_workbook_is_read_as_displayed() -> None:
    off = '<style:table-properties table:display="false"/>'
    styles = f'<style:style style:name="off">{off}</style:style>'
    tables = (
        '<table:table table:name="Prices"><table:table-column table:number-columns-repeated="3"/>'
        '<table:table-column table:visibility="collapse"/>'
        "<table:table-header-rows><table:table-row>"
        "<table:table-cell><text:p>Item</text:p></table:table-cell><table:table-cell "
        'table:number-columns-spanned="2"><text:p>Price</text:p></table:table-cell>'
        "<table:covered-table-cell/></table:table-row></table:table-header-rows>"
        '<table:table-row table:number-rows-repeated="2"><table:table-cell><office:annotation>'
        "<text:p>A note</text:p></office:annotation><text:p>Tea<text:s text:c='2'/>leaves</text:p>"
        '</table:table-cell><table:table-cell office:value-type="currency" office:value="3.5">'
        "<text:p>3,50 €</text:p></table:table-cell><table:table-cell office:value='7'/>"
        "<table:table-cell><text:p>unseen</text:p></table:table-cell></table:table-row>"
        '<table:table-row table:number-rows-repeated="1048573"><table:table-cell '
        'table:number-columns-repeated="16384"/></table:table-row></table:table>'
        '<table:table table:name="Off" table:style-name="off"><table:table-row><table:table-cell>'
        "<text:p>gone</text:p></table:table-cell></table:table-row></table:table>"
    )
    data = ods(tables, styles)

    loaded = read(data, "book.ods")

    assert outline(loaded) == [
        ("heading", "Prices", 0),
        ("table", "Item | Price\n" + "\n".join(["Tea  leaves | 3,50 € | 7"] * 2), 1),
        ("footnote", "A2: A note", 0),
    ]
    assert loaded.warnings == ("Hidden sheets left out: 1.", "Hidden rows and columns left out: 1.")
    assert "gone" in read(data, "book.ods", hidden=True).blocks[-1].text


def test_empty_sheet_with_a_huge_range_is_cheap() -> None:
    corners = rows([["first"]]) + '<row r="1048576">' + cell("XFD1048576", "last") + "</row>"
    data = sheet(corners, before='<dimension ref="A1:XFD1048576"/>')

    loaded = read(xlsx({"Sheet1": data}))

    assert [block.text for block in loaded.blocks] == ["first", "last"]
    assert loaded.blocks[-1].pages == (PageStart(0, 1048576, "row XFD:XFD"),)
    # A diagonal has as many blank cells as the square of its length.
    steps = "".join(
        f'<row r="{n}">{cell(f"XF{chr(64 + n % 4 + 1)}{n}", "x")}{cell(f"XFD{n}", "y")}</row>'
        for n in range(1, 50)
    )
    assert len(only(read(xlsx({"Sheet1": sheet(steps)}))).text) < 2000


GOOD = sheet(rows(SALES))
BOMB = '<!DOCTYPE x [<!ENTITY a "b">]>' + GOOD
REPEATED = (
    '<table:table table:name="x"><table:table-row table:number-rows-repeated="1048576">'
    '<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p>'
    "</table:table-cell></table:table-row></table:table>"
)
LOCKED = zipped(
    {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": b"\x8f\x01 not XML",
        "META-INF/manifest.xml": "<m><encryption-data/></m>",
    }
)


@each_row("name, data, expected", [
    ("a.xlsx", xlsx({"Sheet1": BOMB}), "source_unsafe"),
    ("a.xlsx", xlsx({"Sheet1": GOOD[:-40]}), "source_broken"),
    ("a.xlsx", xlsx({"Sheet1": GOOD.replace("<is>", "<is><b>")}), "source_broken"),
    ("a.xlsx", xlsx({"Sheet1": GOOD}, strings="<si>" * 300), "source_unsafe"),
    ("a.xlsx", xlsx({"Sheet1": sheet("")}), "source_empty"),
    ("a.ods", ods(REPEATED), "source_unsafe"),
    ("a.ods", LOCKED, "source_encrypted"),
    ("a.xls", b"no workbook", "source_broken"),
    ("a.xlsb", zipped({"xl/workbook.bin": b"\xff" * 40}), "source_broken"),
])  # fmt: skip
def test_faulty_workbooks_are_refused_with_a_reason(name: str, data: bytes, expected: str) -> None:
    with raises_code(expected):
        load(name, data)


MONTHS = ("January", "February", "March", "April", "May")


@proves("loader.sheets")
@each_row("profile", [WINDOW, TOKENS, SENTENCES])
def test_chunk_names_the_sheet_and_cells_of_its_text(profile: ChunkingProfile) -> None:
    tables = {
        month: sheet(rows([["City", "Sold", "Share"], [f"Bergen in {month}", 12 + number, 0.25]]))
        for number, month in enumerate(MONTHS)
    }
    canonical = assemble(read(xlsx(tables)).blocks, divide_tables=True)
    sentences, tokens = split_sentences(canonical), WordCounter().measure(canonical.text)
    measured = MeasuredText(canonical, sentences, tokens)

    chunks = make_chunks(measured, chunk_spans(measured, profile, 400))

    assert [(chunk.chapter, chunk.location) for chunk in chunks] == [
        (month, "A1:C2") for month in MONTHS
    ]
    for chunk in chunks:
        assert [month for month in MONTHS if month in chunk.text] == [chunk.chapter]
    found = [canonical.location(item.start, item.end) for item in sentences]
    assert found == [None, "A1:C1", "A2:C2"] * len(MONTHS)
