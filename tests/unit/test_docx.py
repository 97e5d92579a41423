"""DOCX: text in reading order without duplicates."""

import pytest

from tests.support.docx_maker import abstract, docx, field, item, level, num, p, r, style
from tests.support.rows import each_row
from truespan.parsing import load
from truespan.parsing.formats.docx import load_docx
from truespan.types.text import BlockKind, Loaded


def loaded(body: str, **parts) -> Loaded:
    return load_docx("a.docx", docx(body, **parts), images=False)


def texts(body: str, **parts) -> list[str]:
    return [block.text for block in loaded(body, **parts).blocks]


def kinds(body: str, **parts) -> list[tuple[BlockKind, str]]:
    return [(block.kind, block.text) for block in loaded(body, **parts).blocks]


def places(body: str, **parts) -> list[tuple[str, str | None, str | None]]:
    blocks = loaded(body, **parts).blocks
    return [(block.text, block.chapter, block.section) for block in blocks]


HEADINGS = style("Heading1", "heading 1") + style("Heading2", "heading 2")


# Text


DELETED = "<w:rPr><w:del w:id='1'/></w:rPr>"
STOPS = '<w:tabs><w:tab w:val="left" w:pos="720"/></w:tabs>'
RUBY = f"<w:ruby><w:rubyPr/><w:rt>{r('かん')}</w:rt><w:rubyBase>{r('漢')}</w:rubyBase></w:ruby>"
HALF = "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
FORMULA = f"<m:oMathPara><m:oMath><m:r><m:t>x=</m:t></m:r>{HALF}</m:oMath></m:oMathPara>"
BEGIN, SEPARATE, END = (
    f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "separate", "end")
)
SEX = field(" MERGEFIELD sex ", r("NO"))
IF = r(BEGIN) + r("<w:instrText> IF </w:instrText>") + SEX + r(SEPARATE) + r("Madam") + r(END)
REF = r(BEGIN) + r("<w:instrText> REF </w:instrText>") + r(SEPARATE, "<w:vanish/>")


@each_row(("body", "expected"), [
    (p("One.") + p("") + p("  ") + p("Two."), ["One.", "Two."]),
    (p(r("inter") + r("nation") + r("al")), ["international"]),
    # Space at the edge of a run divides words; at the start of a line of code it is a margin.
    (p(r('<w:t xml:space="preserve">one </w:t>') + r("<w:t>two </w:t>") + r("three")),
     ["one two three"]),
    (p("def f():") + p(r("    ") + r("pass") + r("<w:tab/>"))
     + p(r("<w:br/>") + r("  x") + r("<w:br/>")), ["def f():", "    pass", "  x"]),
    # Lines that lay out the file are no lines, and tab stops are no tabs.
    ("\n <w:p>\n  <w:r>\n   <w:t>\n    one\n    two\n   </w:t>\n  </w:r>\n </w:p>\n",
     ["one two"]),
    (p("a", properties=STOPS) + p("a", properties=DELETED) + p("b", properties=STOPS),
     ["a", "ab"]),
    (p("a") + p("b", properties=DELETED), ["a", "b"]),
    (p(r(RUBY) + r("字")), ["漢字"]),
    (p(r("So ") + FORMULA), ["So x=1/2"]),
    # A field shows its result; one that nobody closes hides no other paragraph.
    (p(r("See ") + field(" REF x \\h ", r("page 5")) + r(".")), ["See page 5."]),
    (p(r("Dear ") + IF + r(",")), ["Dear Madam,"]),
    (p(r("a") + r(BEGIN) + r("b")) + p("c"), ["a", "c"]),
    (p(REF + r("shown") + r(END)), ["shown"]),
])  # fmt: skip
def test_docx_text_is_read(body: str, expected: list[str]) -> None:
    assert texts(body) == expected


def test_packaged_loader_reads_a_file_by_its_content() -> None:
    assert load("letter.bin", docx(p("Dear reader."))).blocks[0].text == "Dear reader."


@pytest.mark.parametrize(("inner", "text"), [
    ("<w:t>a</w:t><w:tab/><w:t>b</w:t>", "a\tb"), ("<w:t>a</w:t><w:ptab/><w:t>b</w:t>", "a\tb"),
    ("<w:t>a</w:t><w:br/><w:t>b</w:t><w:cr/><w:t>c</w:t>", "a\nb\nc"),
    ("<w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t>", "e\u2011mail"),
    ("<w:t>hy</w:t><w:softHyphen/><w:t>phen</w:t>", "hy\u00adphen"),
    ('<w:t>2 </w:t><w:sym w:font="Symbol" w:char="F0B4"/><w:t> 3</w:t>', "2 × 3"),
    ('<w:sym w:font="Symbol" w:char="F061"/>', "α"),
    ('<w:sym w:font="Wingdings" w:char="F0FC"/>', "✓"),
    ('<w:sym w:font="Arial" w:char="00B5"/>', "µ"),
    ('<w:sym w:font="Odd Font" w:char="F041"/>', "\uf041"),
    ('<w:t>a</w:t><w:sym w:font="Symbol" w:char="zz"/><w:t>b</w:t>', "ab"),
    ('<w:t>a</w:t><w:sym w:font="Odd Font" w:char="D800"/><w:t>b</w:t>', "ab"),
    ("<w:t>a</w:t><w:lastRenderedPageBreak/><w:t>b</w:t>", "ab"),
])  # fmt: skip
def test_docx_special_characters_are_kept(inner: str, text: str) -> None:
    assert texts(p(r(inner))) == [text]


def test_space_before_a_heading_an_item_or_a_note_is_not_indentation() -> None:
    bullets = abstract(level(0, "bullet", "o")) + num(1)
    note = p(r("<w:footnoteRef/>") + r(" Note."))
    body = p("  Title", style="Heading1") + item("  item")
    body += p(r("word") + r('<w:footnoteReference w:id="2"/>'))
    notes = f'<w:footnote w:id="2">{note}</w:footnote>'
    found = texts(body, styles=HEADINGS, numbering=bullets, footnotes=notes)
    assert found == ["Title", "- item", "word", "Note."]


@pytest.mark.parametrize("wrapped", [
    "<w:hyperlink>{}</w:hyperlink>", "<w:smartTag w:element='City'>{}</w:smartTag>",
    "<w:smartTag><w:smartTagPr><w:attr/></w:smartTagPr>{}</w:smartTag>",
    "<w:customXml w:element='x'><w:customXmlPr/>{}</w:customXml>",
    "<w:sdt><w:sdtPr><w:alias w:val='x'/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>",
    "<w:fldSimple w:instr=' AUTHOR '>{}</w:fldSimple>", "<w:ins w:id='1' w:author='x'>{}</w:ins>",
    "<w:moveTo w:id='1' w:author='x'>{}</w:moveTo>", "<w:bdo w:val='rtl'>{}</w:bdo>",
    "<w:dir w:val='rtl'>{}</w:dir>",
    "<w:hyperlink><w:ins><w:smartTag>{}</w:smartTag></w:ins></w:hyperlink>",
])  # fmt: skip
def test_docx_wrapped_runs_are_read_once(wrapped: str) -> None:
    assert texts(p(r("a ") + wrapped.format(r("b")) + r(" c"))) == ["a b c"]


@pytest.mark.parametrize("wrapped", [
    "<w:sdt><w:sdtPr/><w:sdtContent>{}</w:sdtContent></w:sdt>",
    "<w:customXml w:element='x'>{}</w:customXml>", "<w:ins w:id='1'>{}</w:ins>",
    "<mc:AlternateContent><mc:Choice Requires='x'>{}</mc:Choice></mc:AlternateContent>",
])  # fmt: skip
def test_docx_wrapped_paragraphs_are_read_once(wrapped: str) -> None:
    assert texts(p("a") + wrapped.format(p("b") + p("c")) + p("d")) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("gone", [
    "<w:del w:id='1'><w:r><w:delText>no</w:delText></w:r></w:del>",
    "<w:del w:id='1'><w:r><w:t>no</w:t></w:r></w:del>",
    "<w:moveFrom w:id='1'><w:r><w:t>no</w:t></w:r></w:moveFrom>",
    "<w:r><w:delText>no</w:delText></w:r>", "<w:r><w:delInstrText>no</w:delInstrText></w:r>",
    "<w:r><w:commentReference w:id='0'/></w:r>",
])  # fmt: skip
def test_docx_deleted_and_moved_text_is_left_out(gone: str) -> None:
    assert texts(p(r("a") + gone + r("b"))) == ["ab"]


@pytest.mark.parametrize("mark", ["del", "moveFrom"])
def test_paragraph_with_a_deleted_end_continues_in_the_next(mark: str) -> None:
    deleted = f"<w:rPr><w:{mark} w:id='1'/></w:rPr>"
    body = p("one ", properties=deleted) + p("two", style="Heading1") + p("three")
    assert kinds(body) == [(BlockKind.HEADING, "one two"), (BlockKind.PARAGRAPH, "three")]


def test_drop_cap_begins_the_next_paragraph() -> None:
    cap = '<w:framePr w:dropCap="{}" w:lines="3" w:wrap="around"/>'
    for kind, expected in (
        ("drop", ["Drop cap.", "Next."]),
        ("margin", ["Drop cap.", "Next."]),
        ("none", ["D", "rop cap.", "Next."]),
    ):
        body = p("D", properties=cap.format(kind)) + p("rop cap.") + p("Next.")
        assert texts(body) == expected, kind
    heading = p("C", properties=cap.format("drop")) + p("hapter", style="Heading1")
    assert kinds(heading, styles=HEADINGS) == [(BlockKind.HEADING, "Chapter")]


@pytest.mark.parametrize(("properties", "shown"), [
    ("<w:vanish/>", "ab"), ('<w:vanish w:val="1"/>', "ab"), ('<w:vanish w:val="0"/>', "axb"),
    ('<w:vanish w:val="false"/>', "axb"), ('<w:rStyle w:val="Secret"/>', "ab"),
    ('<w:rStyle w:val="Secret"/><w:vanish w:val="0"/>', "axb"), ("<w:webHidden/>", "axb"),
])  # fmt: skip
def test_hidden_text_is_left_out(properties: str, shown: str) -> None:
    secret = style("Secret", inner="<w:rPr><w:vanish/></w:rPr>", kind="character")
    assert texts(p(r("a") + r("x", properties) + r("b")), styles=secret) == [shown]


def test_paragraph_with_a_hidden_style_is_omitted() -> None:
    secret = style("Secret", inner="<w:rPr><w:vanish/></w:rPr>")
    derived = style("More", based_on="Secret")
    assert texts(p("a", style="More") + p("b"), styles=secret + derived) == ["b"]


# Fields


def test_legacy_form_field_shows_its_choice() -> None:
    entries = '<w:listEntry w:val="red"/><w:listEntry w:val="green"/>'

    def form(inner: str, hidden: str = "") -> list[str]:
        begin = f'<w:fldChar w:fldCharType="begin"><w:ffData>{inner}</w:ffData></w:fldChar>'
        instruction = r("<w:instrText>FORMDROPDOWN</w:instrText>")
        end = r('<w:fldChar w:fldCharType="end"/>')
        return texts(p(r("It is ") + r(begin, hidden) + instruction + end + r(".")))

    for inner, shown in (
        (f'<w:ddList><w:result w:val="1"/>{entries}</w:ddList>', "green"),
        (f'<w:ddList><w:default w:val="1"/>{entries}</w:ddList>', "green"),
        (f"<w:ddList>{entries}</w:ddList>", "red"),
        (f'<w:ddList><w:result w:val="7"/>{entries}</w:ddList>', ""),
        ('<w:checkBox><w:default w:val="1"/></w:checkBox>', "☒"),
        ('<w:checkBox><w:default w:val="1"/><w:checked w:val="0"/></w:checkBox>', "☐"),
        ("<w:textInput/>", ""),
    ):
        assert form(inner) == [f"It is {shown}."], inner
    assert form(f"<w:ddList>{entries}</w:ddList>", "<w:vanish/>") == ["It is ."]


CONTENTS = "".join(p(entry, style="Heading1") for entry in ("Contents", "One 1", "Two 2"))


@pytest.mark.parametrize("contents", [
    "<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val='Table of Contents'/>"
    f"</w:docPartObj></w:sdtPr><w:sdtContent>{CONTENTS}</w:sdtContent></w:sdt>",
    p(
        r('<w:fldChar w:fldCharType="begin"/>')
        + r("<w:instrText> TOC \\o </w:instrText>")
        + r('<w:fldChar w:fldCharType="separate"/>')
        + r("Contents"),
        style="Heading1",
    )
    + p("One 1", style="Heading1")
    + p(r("Two 2") + r('<w:fldChar w:fldCharType="end"/>'), style="Heading1"),
], ids=["control", "field"])  # fmt: skip
def test_table_of_contents_is_text_and_not_a_heading(contents: str) -> None:
    body = contents + p("One", style="Heading1") + p("Text.")
    assert places(body, styles=HEADINGS) == [
        ("Contents", None, None), ("One 1", None, None), ("Two 2", None, None),
        ("One", "One", None), ("Text.", "One", None),
    ]  # fmt: skip


# Headings, chapters and sections


@pytest.mark.parametrize(("paragraph", "styles"), [
    (p("H", style="Heading1"), ""), (p("H", style="Heading1"), style("Heading1", "heading 1")),
    (p("H", style="berschrift1"), style("berschrift1", "heading 1")),
    (p("H", style="berschrift1"), ""), (p("H", style="Titre1"), ""),
    (p("H", style="a1"), style("a1", "Heading 1")),
    (p("H", style="My"), style("My", based_on="Heading1") + HEADINGS),
    (p("H", style="O"), style("O", inner='<w:pPr><w:outlineLvl w:val="0"/></w:pPr>')),
    (p("H", properties='<w:outlineLvl w:val="0"/>'), ""),
])  # fmt: skip
def test_heading_is_detected_by_style_or_outline_level(paragraph: str, styles: str) -> None:
    block = loaded(paragraph, styles=styles).blocks[0]
    assert (block.kind, block.chapter) == (BlockKind.HEADING, "H")


@pytest.mark.parametrize(("paragraph", "styles"), [
    (p("T", style="Heading1", properties='<w:outlineLvl w:val="9"/>'), HEADINGS),
    (
        p("T", style="TOCHeading"),
        HEADINGS
        + style(
            "TOCHeading",
            "TOC Heading",
            based_on="Heading1",
            inner='<w:pPr><w:outlineLvl w:val="9"/></w:pPr>',
        ),
    ),
    (p("T", style="Heading10"), ""),
    (p("T", style="Subtitle"), style("Subtitle")),
])  # fmt: skip
def test_text_that_resembles_a_heading_is_not_one(paragraph: str, styles: str) -> None:
    assert kinds(paragraph, styles=styles) == [(BlockKind.PARAGRAPH, "T")]


def test_circular_styles_are_accepted() -> None:
    circle = style("A", based_on="B") + style("B", based_on="A")
    assert kinds(p("T", style="A"), styles=circle) == [(BlockKind.PARAGRAPH, "T")]


def test_docx_highest_heading_level_makes_chapters() -> None:
    body = (
        p("before")
        + p("II", style="Heading2")
        + p("a")
        + p("I", style="Heading1")
        + p("b")
        + p("III", style="Heading2")
        + p("c")
    )

    assert places(body, styles=HEADINGS) == [
        ("before", None, None), ("II", "II", None), ("a", "II", None), ("I", "I", None),
        ("b", "I", None), ("III", "I", "III"), ("c", "I", "III"),
    ]  # fmt: skip


def test_places_do_not_depend_on_later_text() -> None:
    parts = [p(f"H{n}", style=f"Heading{n}") + p(f"t{n}") for n in (3, 2, 1, 2, 3)]
    parts.insert(0, p("T", style="Title"))
    whole = places("".join(parts), styles=HEADINGS)
    for count in range(len(parts)):
        part = places("".join(parts[:count]), styles=HEADINGS)
        assert part == whole[: len(part)]


def test_docx_titles_name_document_and_chapters_in_one_line() -> None:
    body = p("The Book", style="Title") + p("By me.") + p("One", style="Heading1") + p("Text.")
    found = loaded(body, styles=style("Title") + HEADINGS)
    assert found.title == "The Book"
    assert [block.chapter for block in found.blocks] == ["The Book", "The Book", "One", "One"]

    body = p("The Book", style="Title") + p("Part", style="Title") + p("One", style="Heading1")
    found = loaded(body)
    assert found.title == "The Book"
    assert [(block.chapter, block.section) for block in found.blocks] == [
        ("The Book", None), ("Part", None), ("Part", "One"),
    ]  # fmt: skip

    body = p(r("<w:t>Part</w:t><w:br/><w:t>One</w:t>"), style="Heading1")
    assert places(body) == [("Part One", "Part One", None)]


@pytest.mark.parametrize(("style_id", "styles"), [
    ("Caption", ""), ("Beschriftung", style("Beschriftung", "caption")),
    ("ImageCaption", style("ImageCaption", based_on="Caption") + style("Caption", "caption")),
])  # fmt: skip
def test_caption_is_detected_by_its_style(style_id: str, styles: str) -> None:
    assert kinds(p("Fig. 1", style=style_id), styles=styles) == [(BlockKind.CAPTION, "Fig. 1")]


@pytest.mark.parametrize(("name", "kind"), [
    ("Quote", BlockKind.QUOTE), ("Intense Quote", BlockKind.QUOTE), ("Block Text", BlockKind.QUOTE),
    ("Quotations", BlockKind.QUOTE), ("Source Code", BlockKind.CODE),
    ("Preformatted Text", BlockKind.CODE), ("HTML Preformatted", BlockKind.CODE),
    ("Code", BlockKind.CODE), ("Quoted", BlockKind.PARAGRAPH),
])  # fmt: skip
def test_style_identifies_quotations_and_code(name: str, kind: BlockKind) -> None:
    named = style("S1", name) + style("S2", "Mine", based_on="S1")
    assert kinds(p("a", style="S1") + p("b", style="S2"), styles=named) == [
        (kind, "a"),
        (kind, "b"),
    ]
    assert kinds(p("a", style=name.replace(" ", ""))) == [(kind, "a")]
