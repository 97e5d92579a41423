"""List markers of DOCX files."""

import pytest

from tests.support.docx_maker import abstract, cell, item, level, num, p, r, style
from tests.support.rows import each_row
from tests.unit.test_docx import kinds, places, texts
from truespan.types.text import BlockKind

NUMBERS = abstract(
    level(0, "decimal", "%1."), level(1, "lowerLetter", "%2)"), level(2, "lowerRoman", "%1.%2.%3")
)


def test_docx_items_are_numbered_and_indented_by_level() -> None:
    body = item("a") + item("b", 1) + item("c", 1) + item("d", 2) + item("e") + item("f", 1)
    assert kinds(body, numbering=NUMBERS + num(1)) == [
        (BlockKind.LIST, text)
        for text in ("1. a", "  a) b", "  b) c", "    1.b.i d", "2. e", "  a) f")
    ]


@pytest.mark.parametrize(("form", "start", "marks"), [
    ("decimal", 9, ["9.", "10."]), ("decimalZero", 9, ["09.", "10."]),
    ("upperRoman", 4, ["IV.", "V."]), ("lowerRoman", 3999, ["mmmcmxcix.", "4000."]),
    ("upperLetter", 26, ["Z.", "AA."]), ("lowerLetter", 27, ["aa.", "bb."]),
    ("lowerLetter", 999_999_999, ["999999999.", "1000000000."]),
    ("ordinal", 11, ["11th.", "12th."]), ("ordinal", 21, ["21st.", "22nd."]),
    ("chineseCounting", 99, ["九十九.", "一○○."]),
    ("chineseCountingThousand", 110, ["一百一十.", "一百一十一."]),
    ("chineseCountingThousand", 2005, ["二千零五.", "二千零六."]),
    ("japaneseCounting", 119, ["百十九.", "百二十."]), ("ideographDigital", 9, ["九.", "一〇."]),
    ("koreanCounting", 10, ["십.", "십일."]), ("ganada", 14, ["하.", "가가."]),
    ("aiueoFullWidth", 1, ["ア.", "イ."]), ("decimalEnclosedCircle", 50, ["㊿.", "51."]),
    ("decimalFullWidth", 9, ["９.", "１０."]), ("russianUpper", 9, ["И.", "К."]),
    ("cardinalText", 1, ["1.", "2."]),
])  # fmt: skip
def test_numbers_are_written_in_the_form_of_the_list(form: str, start: int, marks: list[str]):
    numbering = abstract(level(0, form, "%1.", start=start)) + num(1)
    assert texts(item("x") * 2, numbering=numbering) == [f"{mark} x" for mark in marks]


AGAIN = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride>'
ROMAN = f'<w:lvlOverride w:ilvl="0">{level(0, "upperRoman", "%1:")}</w:lvlOverride>'
FIRST = level(0, "decimal", "%1.")
GOES_ON = level(1, "decimal", "%2.", inner='<w:lvlRestart w:val="0"/>')
LEGAL = level(1, "decimal", "%1.%2", inner="<w:isLgl/>")
LINKED = abstract(id=1, inner='<w:numStyleLink w:val="S"/>')
OWNER = abstract(level(0, "upperLetter", "%1."), id=2, inner='<w:styleLink w:val="S"/>')


@each_row(("body", "numbering", "expected"), [
    (item("a") + item("b", 1),
     abstract(level(0, "bullet", "\uf0b7"), level(1, "bullet", "o")) + num(1),
     ["- a", "  - b"]),
    (item(r("<w:t>a</w:t><w:br/><w:t>b</w:t>"), 1), NUMBERS + num(1), ["  a) a\n    b"]),
    # Instances of a list share their count, unless one begins again or overrides a level.
    (item("a") + item("b", list_id=2) + item("c", list_id=3) + item("d", list_id=3),
     NUMBERS + num(1) + num(2) + num(3, inner=AGAIN), ["1. a", "2. b", "1. c", "2. d"]),
    (item("a"), NUMBERS + num(1, inner=ROMAN), ["I: a"]),
    (item("a") + item("b", 1) + item("c") + item("d", 1), abstract(FIRST, GOES_ON) + num(1),
     ["1. a", "  1. b", "2. c", "  2. d"]),
    (item("a") + item("b", 1), abstract(level(0, "upperRoman", "%1."), LEGAL) + num(1),
     ["I. a", "  1.1 b"]),
    (item("a"), LINKED + OWNER + num(1, 1), ["A. a"]),
    (f"<w:tbl><w:tr>{cell(item('a') + item('b'))}{cell('c')}</w:tr></w:tbl>",
     NUMBERS + num(1), ["1. a 2. b | c"]),
])  # fmt: skip
def test_docx_items_have_the_marks_of_their_lists(body: str, numbering: str, expected: list[str]):
    assert texts(body, numbering=numbering) == expected


def test_docx_list_comes_from_the_style() -> None:
    place = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
    styles = style("L", inner=place) + style("M", based_on="L")
    out = p("c", style="L", properties='<w:numPr><w:numId w:val="0"/></w:numPr>')
    body = p("a", style="L") + p("b", style="M") + out
    assert kinds(body, styles=styles, numbering=NUMBERS + num(1)) == [
        (BlockKind.LIST, "1. a"), (BlockKind.LIST, "2. b"), (BlockKind.PARAGRAPH, "c"),
    ]  # fmt: skip


def test_numbered_headings_carry_their_numbers() -> None:
    first = level(0, "decimal", "%1", inner='<w:pStyle w:val="H0"/>')
    second = level(1, "decimal", "%1.%2", inner='<w:pStyle w:val="H1"/>')
    place = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
    styles = style("H0", "heading 1", inner=place) + style("H1", "heading 2", inner=place)
    body = p("A", style="H0") + p("B", style="H1") + p("C", style="H1") + p("D", style="H0")
    assert places(body, styles=styles, numbering=abstract(first, second) + num(1)) == [
        ("1 A", "1 A", None), ("1.1 B", "1 A", "1.1 B"), ("1.2 C", "1 A", "1.2 C"),
        ("2 D", "2 D", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("list_id", "place"), [(1, 0), (7, 0), (1, 44)], ids=["no part", "no list", "no level"]
)
def test_item_without_a_list_is_a_paragraph(list_id: int, place: int) -> None:
    numbering = "" if (list_id, place) == (1, 0) else NUMBERS + num(1)
    assert kinds(item("a", place, list_id), numbering=numbering) == [(BlockKind.PARAGRAPH, "a")]


def test_endless_number_pattern_is_cut() -> None:
    numbering = abstract(level(0, "decimal", "%1" * 1000)) + num(1)
    assert len(texts(item("a"), numbering=numbering)[0]) < 100
