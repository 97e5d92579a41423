"""OpenDocument texts and presentations in reading order without duplicates."""

import random

from tests.promises import proves
from tests.support.docx_maker import PNG
from tests.support.failures import raises_code
from tests.support.odf_maker import (
    NAMES,
    box,
    bullet,
    cell,
    flat,
    frame,
    h,
    hidden_style,
    list_style,
    note,
    number,
    odf,
    p,
    table,
    ul,
)
from truespan.errors import SourceRefused
from truespan.extensions.formats.odf import load_odf
from truespan.parsing import load
from truespan.types.text import BlockKind, Loaded, PageStart


def loaded(body: str, *, images: bool = False, **parts) -> Loaded:
    return load_odf("a.odt", odf(body, **parts), images=images)


def texts(body: str, **parts) -> list[str]:
    return [block.text for block in loaded(body, **parts).blocks]


# Texts


def test_odf_white_space_is_collapsed() -> None:
    for inner, text in (
        ("One  <text:span>two</text:span>\n   three", "One two three"),
        (" a<text:s text:c='3'/>b<text:tab/>c<text:line-break/> d", "a   b\tc\nd"),
        ("x <text:span> y</text:span>", "x y"),
        ("<text:a>link</text:a> on <text:date>Friday</text:date>", "link on Friday"),
        (
            "<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>kan</text:ruby-text>"
            "</text:ruby>",
            "漢",
        ),
        ("a<office:annotation><text:p>no</text:p></office:annotation>b", "ab"),
        ("a<text:bookmark text:name='x'/>b<text:soft-page-break/>c", "abc"),
    ):  # fmt: skip
        assert texts(p(inner)) == [text], inner


def test_odf_deleted_and_hidden_text_is_left_out() -> None:
    deleted = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>old</text:p>"
        "</text:deletion></text:changed-region></text:tracked-changes>"
    )
    body = (
        deleted
        + p("New<text:change/> <text:change-start/>text.<text:change-end/>")
        + p("unseen", "H")
        + p("a<text:span text:style-name='T'>unseen</text:span>b")
        + p("<text:hidden-text text:is-hidden='true'>unseen</text:hidden-text>c")
        + p("d<text:hidden-paragraph text:is-hidden='true'/>e")
        + f'<text:section text:display="none">{p("unseen")}</text:section>'
        + f"<text:section>{p('shown')}</text:section>"
    )
    styles = hidden_style("H", "paragraph") + hidden_style("T", "text")

    assert texts(body, automatic=styles) == ["New text.", "ab", "c", "shown"]


def test_odf_headings_make_numbered_chapters() -> None:
    outline = "".join(
        f'<text:outline-level-style text:level="{level}" style:num-format="{form}" '
        f'text:display-levels="{level}"/>'
        for level, form in ((1, "1"), (2, "a"), (3, ""))
    )
    body = p("A Guide", "Title") + h("One") + p("x") + h("Part", 2) + h("Two") + h("Deep", 3)
    styles = f"<text:outline-style>{outline}</text:outline-style>"
    found = loaded(body, styles=styles)

    assert found.title == "A Guide"
    assert [(block.text, block.chapter, block.section) for block in found.blocks] == [
        ("A Guide", "A Guide", None), ("1 One", "1 One", None), ("x", "1 One", None),
        ("1.a Part", "1 One", "1.a Part"), ("2 Two", "2 Two", None), ("Deep", "2 Two", "Deep"),
    ]  # fmt: skip
    assert texts(h("Plain") + p("x")) == ["Plain", "x"]


@proves("reading.every-surface")
def test_places_do_not_depend_on_later_text() -> None:
    pieces = [h("A", 2), p("a"), h("B", 1), p("b"), h("C", 2), ul("c")]
    whole = loaded("".join(pieces)).blocks
    for count in range(1, len(pieces)):
        assert loaded("".join(pieces[:count])).blocks == whole[:count]


def test_styles_identify_quotations_code_and_captions() -> None:
    derived = '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="{}"/>'
    for name, kind in (
        ("Quotations", BlockKind.QUOTE), ("Preformatted_20_Text", BlockKind.CODE),
        ("Illustration", BlockKind.CAPTION), ("Caption", BlockKind.CAPTION),
        ("P1", BlockKind.PARAGRAPH),
    ):  # fmt: skip
        for style in (name, "P1"):
            [block] = loaded(p("x", style), automatic=derived.format(name)).blocks
            assert block.kind is kind, (name, style)


def test_items_have_the_numbers_of_their_list() -> None:
    style = list_style(
        "L",
        number(1, "1"),
        number(2, "a", 'style:num-suffix=")" style:num-prefix="("'),
        number(3, "i", 'text:display-levels="3" style:num-suffix="."'),
    )
    body = (
        ul("one", p("two") + p("more") + ul("a", p("b") + ul("x")), style="L")
        + p("Between.")
        + ul("three", style="L", attributes=' text:continue-numbering="true"')
        + ul(f"<text:list-item>{ul('only deep')}</text:list-item>", style="L")
        + ul("<text:list-header><text:p>head</text:p></text:list-header>", "first", style="L")
        + ul(
            '<text:list-item text:start-value="7"><text:p>seven</text:p></text:list-item>',
            style="L",
        )
    )

    assert texts(body, automatic=style) == [
        *("1. one", "2. two", "  more", "  (a) a", "  (b) b", "    2.b.i. x", "Between."),
        *("3. three", "  (a) only deep", "  head", "1. first", "7. seven"),
    ]
    for form, marker in (("一, 二, 三, ...", "一."), ("A", "A."), ("", ""), ("ア, イ, ...", "ア.")):
        attributes = 'style:num-suffix="."' if form else ""
        levels = list_style("L", number(1, form, attributes))
        assert texts(ul("x", style="L"), automatic=levels) == [f"{marker or ' '} x"], form
    assert texts(ul("x", style="L"), automatic=list_style("L", bullet(1))) == ["- x"]
    assert texts(ul("x")) == ["- x"]


def test_tables_have_a_header_and_each_cell_once() -> None:
    covered = "<table:covered-table-cell/>"
    wide = cell("wide", ' table:number-columns-spanned="2"')
    body = table(
        ["Item", "Price"], [p("Lamp") + p("brass"), ul("one", "two")], [wide, covered],
        ["inner", p("") + table(["a", "b"], ["c", "d"])], header=1,
    )  # fmt: skip
    [block] = loaded(body).blocks

    assert block.kind is BlockKind.TABLE
    assert block.header_rows == 1
    assert block.text == ("Item | Price\nLamp brass | - one - two\nwide\ninner | a, b; c, d")
    assert texts(table([h("Frame") + p("text")])) == ["Frame", "text"]
    assert loaded(table([h("Frame")])).blocks[0].kind is BlockKind.PARAGRAPH
    hostile = cell("x", ' table:number-columns-repeated="999999999"')
    assert len(texts(table([hostile, "y"]))[0]) < 1000


def test_notes_and_boxes_follow_their_paragraph() -> None:
    shape = f"<draw:custom-shape>{p('shaped')}</draw:custom-shape>"
    body = (
        p(f"One{note('noted')} more.{box(p('boxed'))}<draw:g>{shape}</draw:g>")
        + table(["a", p("b" + note("in a cell"))])
        + frame("<draw:text-box><text:p>on the page</text:p></draw:text-box>")
    )
    found = loaded(body)

    assert [(str(block.kind), block.text) for block in found.blocks] == [
        ("paragraph", "One more."), ("footnote", "noted"), ("paragraph", "boxed"),
        ("paragraph", "shaped"), ("table", "a | b"), ("footnote", "in a cell"),
        ("paragraph", "on the page"),
    ]  # fmt: skip


def test_contents_and_indexes_are_marked() -> None:
    contents = (
        "<text:table-of-content><text:table-of-content-source><text:index-title-template>gone"
        "</text:index-title-template></text:table-of-content-source><text:index-body>"
        f"<text:index-title>{p('Contents')}</text:index-title>{p('One<text:tab/>1')}"
        "</text:index-body></text:table-of-content>"
    )
    found = loaded(contents + h("One") + p("Text."))
    assert [block.text for block in found.blocks if block.is_contents] == ["Contents", "One\t1"]
    assert [block.text for block in found.blocks if not block.is_contents] == ["One", "Text."]


def test_formulas_charts_and_pictures_keep_their_place() -> None:
    image = '<draw:image xlink:href="Pictures/a.png"/><svg:desc>A lamp</svg:desc>'
    formula = '<draw:object xlink:href="./Object 1"/><draw:image xlink:href="./r"/>'
    chart = '<draw:object xlink:href="./Object 2"/>'
    cells = table(["", "North"], ["Spring", "4"], header=1)
    members = {
        "Pictures/a.png": PNG,
        "Object 1/content.xml": '<!DOCTYPE math:math PUBLIC "-//x" "math.dtd">'
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><mfrac><mn>1</mn><mi>x</mi></mfrac>'
        "<annotation>1 over x</annotation></math>",
        "Object 2/content.xml": odf_chart(cells),
    }
    for images in (False, True):
        found = loaded(
            p("See " + frame(image) + " and " + frame(formula) + frame(chart)),
            members=members,
            images=images,
        )
        first, title, values = found.blocks
        assert first.text == "See and 1 / x"
        assert [(placed.offset, placed.figure.alt) for placed in first.figures] == [(4, "A lamp")]
        assert (title.text, values.text, values.header_rows) == ("Sales", " | North\nSpring | 4", 1)
        assert [picture.data for picture in found.images] == [PNG] * images
        assert found.pictures.blips == found.pictures.rels_mapped == 1


def odf_chart(cells: str) -> str:
    return (
        f"<office:document-content {NAMES}><office:body><office:chart><chart:chart><chart:title>"
        f"{p('Sales')}</chart:title>{cells}</chart:chart></office:chart></office:body>"
        "</office:document-content>"
    )


def test_odf_properties_are_read() -> None:
    meta = (
        "<dc:title>Lamps</dc:title><meta:initial-creator>Ida</meta:initial-creator>"
        "<dc:creator>Bo</dc:creator><meta:keyword>sea, ships</meta:keyword>"
        "<meta:keyword>lamps</meta:keyword><dc:language>en-GB</dc:language>"
        "<meta:creation-date>2024-01-02</meta:creation-date>"
    )
    for found in (loaded(p("x"), meta=meta), load("a.fodt", flat(p("x"), meta))):
        assert (found.title, found.properties.authors) == ("Lamps", ("Ida",))
        assert found.properties.keywords == ("sea", "ships", "lamps")
        assert (found.properties.language, found.properties.created) == ("en-GB", "2024-01-02")


# Slides


def test_slides_have_titles_text_tables_and_notes() -> None:
    notes = (
        f"<presentation:notes>{box('Say it.', 'notes')}<draw:page-thumbnail/></presentation:notes>"
    )
    empty = box("gone", "subtitle", ' presentation:placeholder="true"')
    pages = (
        f"<draw:page>{box(ul('Point'), 'outline')}{box('One', 'title')}"
        f"{box('gone', 'footer')}{empty}"
        f"{frame(table(['a', 'b'], ['c', 'd'], header=1))}{notes}</draw:page>"
        f"<draw:page>{box('No title.')}</draw:page>"
    )
    found = load("a.odp", odf(pages, kind="presentation"))

    assert [(str(b.kind), b.text, b.section, b.pages) for b in found.blocks] == [
        ("heading", "One", "One", (PageStart(0, 1, "slide"),)), ("list", "- Point", "One", ()),
        ("table", "a | b\nc | d", "One", ()), ("footnote", "Notes: Say it.", "One", ()),
        ("paragraph", "No title.", "Slide 2", (PageStart(0, 2, "slide"),)),
    ]  # fmt: skip
    assert found.title == "One"


# Damage and harm


def test_odf_unreadable_files_are_refused_by_kind() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'
    locked = "<manifest><encryption-data/></manifest>"
    for data, refusal in (
        (odf(p("")), "source_empty"),
        (odf(p("x"), members={"content.xml": bomb}), "source_unsafe"),
        (odf(p("x"), members={"content.xml": "<broken"}), "source_broken"),
        (odf(p("x"), members={"META-INF/manifest.xml": locked}), "source_encrypted"),
        (odf("<text:span>" * 400 + "</text:span>" * 400), "source_unsafe"),
        (odf("x", kind="drawing"), "source_unsupported"),
        (b"neither packed nor XML", "source_broken"),
    ):
        with raises_code(refusal):
            load("a.odt", data)
    damaged = odf(p("x"), members={"styles.xml": "<broken", "meta.xml": "<broken"})
    assert [block.text for block in load("a.odt", damaged).blocks] == ["x"]


def test_damaged_file_is_read_or_refused() -> None:
    chance = random.Random(7)
    whole = flat(h("One") + p("x" + note("n")) + ul("a", ul("b")) + table(["a", "b"]))
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(data))
            data[start : start + chance.choice((0, 1, 9))] = data[: chance.choice((0, 1, 30))]
        try:
            load("a.fodt", bytes(data))
        except SourceRefused:
            continue
