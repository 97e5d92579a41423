"""PPTX: text slide by slide."""

import random

from tests.promises import proves
from tests.support.docx_maker import PNG
from tests.support.failures import raises_code
from tests.support.pptx_maker import (
    NAMES,
    frame,
    group,
    line,
    picture,
    pptx,
    run,
    shape,
    table,
    title,
)
from truespan.errors import SourceRefused
from truespan.extensions.formats.pptx import load_pptx
from truespan.extensions.formats.shapes import format_scheme
from truespan.ingest.canonical import assemble
from truespan.parsing import load
from truespan.types.text import BlockKind, Loaded, PageStart

BULLET, NONE = '<a:buChar char="•"/>', "<a:buNone/>"
NUMBER = '<a:buAutoNum type="arabicPeriod"/>'


def loaded(*slides: str, images: bool = False, **parts) -> Loaded:
    return load_pptx("a.pptx", pptx(*slides, **parts), images=images)


def texts(*slides: str, **parts) -> list[str]:
    return [block.text for block in loaded(*slides, **parts).blocks]


# Slides


def test_pptx_slides_keep_the_presentation_order() -> None:
    found = loaded(title("Second"), title("First"), title("Third"), order=[2, 1, 3])
    assert [(block.text, block.pages) for block in found.blocks] == [
        ("First", (PageStart(0, 1, "slide"),)),
        ("Second", (PageStart(0, 2, "slide"),)),
        ("Third", (PageStart(0, 3, "slide"),)),
    ]


def test_slide_title_is_section_and_presentation_section_chapter() -> None:
    found = loaded(
        shape("Before the title.") + title("Costs") + shape("Text."),
        shape("No title here."),
        title("  "),
        title("Sales\n2024") + shape("More."),
        sections={"Money": [1, 2], "": [3], "People": [4]},
    )

    assert [(block.kind, block.text, block.chapter, block.section) for block in found.blocks] == [
        (BlockKind.HEADING, "Costs", "Money", "Costs"),
        (BlockKind.PARAGRAPH, "Before the title.", "Money", "Costs"),
        (BlockKind.PARAGRAPH, "Text.", "Money", "Costs"),
        (BlockKind.PARAGRAPH, "No title here.", "Money", "Slide 2"),
        (BlockKind.HEADING, "Sales 2024", "People", "Sales 2024"),
        (BlockKind.PARAGRAPH, "More.", "People", "Sales 2024"),
    ]


def test_a_passage_is_on_its_slide() -> None:
    found = loaded(title("One") + shape("First."), title(""), shape("Third.") + shape("Also."))
    canonical = assemble(found.blocks)
    for words, slides in (("First.", "slide 1"), ("Also.", "slide 3")):
        start = canonical.text.index(words)
        assert canonical.location(start, start + len(words)) == slides
    assert canonical.location(0, len(canonical.text)) == "slides 1-3"
    assert canonical.page_at(0) is None


def test_presentation_title_is_on_first_slide_or_in_properties() -> None:
    core = '<c xmlns:d="x"><d:title>{}</d:title><d:creator>Ida; Bo</d:creator></c>'
    for slides, stated, expected in (
        ([title("Shown", "ctrTitle")], "Stated", "Shown"), ([title("Shown")], "Stated", "Stated"),
        ([title("Shown")], "PowerPoint Presentation", "Shown"),
        ([title("Shown")], "Slide 1", "Shown"), ([shape("Text")], "slide 1", None),
        ([shape("Text"), title("Later", "ctrTitle")], "Stated", "Stated"),
        ([shape("Text")], "", None),
    ):  # fmt: skip
        found = loaded(*slides, core=core.format(stated))
        assert found.title == expected, slides
        assert found.properties.authors == ("Ida", "Bo")


def test_pptx_repeated_and_hidden_text_is_left_out() -> None:
    repeated = "".join(shape("gone", kind=kind) for kind in ("dt", "ftr", "sldNum", "hdr"))
    slide = title("Kept") + repeated + shape("gone", hidden=True) + shape("", kind="body", index=1)
    prompts = shape("Click to add text", kind="body", index=1) + shape("gone")
    assert texts(slide, layout=prompts, notes={1: repeated + shape("", kind="body")}) == ["Kept"]


def test_notes_follow_their_slide_and_are_marked() -> None:
    found = loaded(
        title("One") + shape("Text."),
        title("Two"),
        notes={
            1: shape("x", kind="sldImg")
            + shape(line("Say this.") + line("Then that."), kind="body")
        },
    )

    assert [(block.kind, block.text, block.section) for block in found.blocks[2:]] == [
        (BlockKind.FOOTNOTE, "Notes: Say this.", "One"),
        (BlockKind.FOOTNOTE, "Then that.", "One"),
        (BlockKind.HEADING, "Two", "Two"),
    ]


def test_pptx_contents_list_is_marked() -> None:
    slides = [
        title("Contents") + shape(line("Costs", BULLET) + line("Sales", BULLET)),
        title("Costs") + shape("They rise and nobody knows the reason."),
    ]
    marked = [block.text for block in loaded(*slides).blocks if block.is_contents]
    assert marked == ["Contents", "- Costs", "- Sales"]


@proves("reading.every-surface")
def test_no_label_depends_on_a_later_slide() -> None:
    slides = [title("One") + shape("a"), shape("b"), title("Three") + shape("c")]
    whole = loaded(*slides, sections={"S": [1, 2], "T": [3]}).blocks
    for count in (1, 2):
        part = loaded(*slides[:count], sections={"S": range(1, count + 1)}).blocks
        assert part == whole[: len(part)]


# Text


def test_runs_breaks_fields_and_formulas_are_text() -> None:
    for inner, text in (
        (run("inter") + run("national"), "international"),
        (run("a") + "<a:br/>" + run("b"), "a\nb"),
        (run("on ") + '<a:fld type="datetime1"><a:rPr/><a:t>Friday</a:t></a:fld>', "on Friday"),
        (run("a_x000B_b_x000D_c_x0001_"), "a\nb\nc"),
        (run("snake_x_y"), "snake_x_y"),
        ("<a:r><a:t>one\n  two</a:t></a:r>", "one two"),
        (
            "<mc:AlternateContent><mc:Choice><m:oMath><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num>"
            "<m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath></mc:Choice><mc:Fallback>"
            f"{run('picture')}</mc:Fallback></mc:AlternateContent>",
            "1/2",
        ),
    ):
        assert texts(shape(line(inner))) == [text], inner


def test_groups_are_read_in_order_and_alternatives_once() -> None:
    either = (
        f"<mc:AlternateContent><mc:Choice>{shape('new')}</mc:Choice>"
        f"<mc:Fallback>{shape('old')}</mc:Fallback></mc:AlternateContent>"
    )
    assert texts(group(shape("a"), group(shape("b")), either) + shape("c")) == [
        *("a", "b", "new", "c")
    ]


def test_items_have_the_marks_of_their_list() -> None:
    body = (
        line("one", BULLET)
        + line(run("deep") + "<a:br/>" + run("line"), BULLET, 1)
        + line("first", NUMBER)
        + line("x", NUMBER, 1)
        + line("")
        + line("second", NUMBER)
        + line("y", NUMBER, 1)
        + line("plain")
        + line("again", NUMBER)
        + line("start", '<a:buAutoNum type="alphaLcParenR" startAt="3"/>')
    )

    assert texts(shape(body)) == [
        *("- one", "  - deep\n    line", "1. first", "  1. x", "2. second", "  1. y"),
        *("plain", "1. again", "c) start"),
    ]


def test_bullets_are_inherited_from_the_layout_and_the_master() -> None:
    def style(mark: str) -> str:
        return f"<a:lstStyle><a:lvl1pPr>{mark}</a:lvl1pPr></a:lstStyle>"

    master = f"<p:txStyles><p:bodyStyle><a:lvl1pPr>{BULLET}</a:lvl1pPr></p:bodyStyle></p:txStyles>"
    layout = shape(style(NONE) + line("prompt"), kind="subTitle", index=1)
    for given, text in (
        (shape("x", kind="body", index=7), "- x"), (shape("x", index=7), "- x"),
        (shape("x", kind="subTitle", index=1), "x"),
        (shape(style(NUMBER) + line("x"), index=1), "1. x"), (shape(line("x", NONE), index=7), "x"),
        (shape("x"), "x"),
    ):  # fmt: skip
        assert texts(given, layout=layout, master=master) == [text], given


def test_number_schemes_are_written_as_in_powerpoint() -> None:
    for scheme, count, marker in (
        ("arabicParenBoth", 2, "(2)"), ("alphaUcPeriod", 2, "B."), ("romanLcParenR", 4, "iv)"),
        ("romanUcPeriod", 9, "IX."), ("arabicPlain", 3, "3"), ("circleNumDbPlain", 3, "③"),
        ("circleNumWdBlackPlain", 3, "③"), ("ea1ChsPeriod", 11, "十一."),
        ("ea1JpnKorPlain", 20, "二十"), ("arabicDbPeriod", 1, "１."), ("thaiNumParenR", 1, "๑)"),
        ("unknown", 5, "5."),
    ):  # fmt: skip
        assert format_scheme(count, scheme) == marker, scheme


# Tables, charts and diagrams


def test_table_has_rows_of_cells_and_a_header() -> None:
    merged = '<a:tc hMerge="1"><a:txBody><a:p><a:r><a:t>unseen</a:t></a:r></a:p></a:txBody></a:tc>'
    rows = (["Item", "Price"], ["Lamp¶brass", "4"], ["Both", merged], ["", ""])
    for properties, header in ((' firstRow="1"', 1), (' firstRow="0"', 0), ("", 0)):
        [block] = loaded(table(*rows, properties=properties)).blocks
        assert block.kind is BlockKind.TABLE
        assert block.text == "Item | Price\nLamp brass | 4\nBoth"
        assert block.header_rows == header
    assert texts(table(["One¶Two"])) == ["One", "Two"]


CHART = f"""<c:chartSpace {NAMES}><c:chart><c:title><c:tx><c:rich>{line("Sales")}</c:rich></c:tx>
</c:title><c:plotArea><c:barChart>
<c:ser><c:tx><c:strRef><c:strCache><c:pt idx="0"><c:v>North</c:v></c:pt></c:strCache></c:strRef>
</c:tx><c:cat><c:strRef><c:strCache><c:pt idx="0"><c:v>Spring</c:v></c:pt>
<c:pt idx="1"><c:v>Autumn</c:v></c:pt></c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache>
<c:formatCode>General</c:formatCode><c:pt idx="0"><c:v>0.30000000000000004</c:v></c:pt>
<c:pt idx="1"><c:v>7</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>
<c:ser><c:tx><c:v>South</c:v></c:tx><c:val><c:numLit><c:pt idx="1"><c:v>9</c:v></c:pt></c:numLit>
</c:val></c:ser></c:barChart><c:valAx><c:title><c:tx><c:rich>{line("Boats")}</c:rich></c:tx>
</c:title></c:valAx></c:plotArea></c:chart></c:chartSpace>"""


def test_chart_keeps_its_titles_and_omits_values() -> None:
    found = loaded(
        frame('<c:chart r:id="c1"/>'),
        relations=[("c1", "chart", "../charts/chart1.xml")],
        members={"ppt/charts/chart1.xml": CHART},
    )
    assert [block.text for block in found.blocks] == ["Sales", "Boats"]


def test_diagram_is_an_outline() -> None:
    def point(id: str, text: str = "") -> str:
        return f'<dgm:pt modelId="{id}"><dgm:t>{line(text) if text else ""}</dgm:t></dgm:pt>'

    def link(source: str, target: str, order: int) -> str:
        return f'<dgm:cxn srcId="{source}" destId="{target}" srcOrd="{order}"/>'

    points = point("r") + point("b", "Second") + point("c", "Below") + point("a", "First")
    circle = point("x", "Round") + point("y", "About")
    links = link("r", "b", 1) + link("r", "a", 0) + link("b", "c", 0)
    links += link("x", "y", 0) + link("y", "x", 0)
    data = f"<dgm:dataModel {NAMES}>{points}{circle}{links}</dgm:dataModel>"
    found = texts(
        frame('<dgm:relIds r:dm="d1"/>') * 2,
        relations=[("d1", "diagramData", "../diagrams/data1.xml")],
        members={"ppt/diagrams/data1.xml": data},
    )

    assert found == ["- First", "- Second", "  - Below", "- Round", "  - About"]


# Pictures


def test_pictures_keep_their_place_and_words() -> None:
    fill = '<a:blipFill><a:blip r:embed="i1"/></a:blipFill>'
    ole = (
        "<mc:AlternateContent><mc:Choice/><mc:Fallback><p:oleObj>"
        f"{picture('i1')}</p:oleObj></mc:Fallback></mc:AlternateContent>"
    )
    slide = shape("Before.") + picture("i1", "A lamp") + shape("Text.", fill=fill)
    relations = [("i1", "image", "../media/a.png")]
    media = {"ppt/media/a.png": PNG}
    for images in (False, True):
        found = loaded(
            slide + frame(ole, "A sheet"), relations=relations, members=media, images=images
        )
        shown = [(b.text, [placed.figure.alt for placed in b.figures]) for b in found.blocks]
        assert shown == [
            ("Before.", []), ("", ["A lamp"]), ("", [""]), ("Text.", []), ("", ["A sheet"]),
        ]  # fmt: skip
        assert [image.data for image in found.images] == [PNG] * images
        assert found.pictures.blips == found.pictures.rels_mapped == 3


# Damage and harm


def test_damaged_part_loses_no_other_slide_and_is_reported() -> None:
    slides = [title("One"), title("Two"), title("Three")]
    found = loaded(
        *slides,
        order=[1, 2, 3, 1, 9],
        members={"ppt/slides/slide2.xml": "<broken", "ppt/slideLayouts/layout.xml": "<broken"},
    )
    assert [block.text for block in found.blocks] == ["One", "Three"]
    assert found.warnings == ("Slides that are damaged or missing: 3.",)


def test_files_that_are_not_presentations_are_refused() -> None:
    bomb = f'<!DOCTYPE x [<!ENTITY a "b">]><p:sld {NAMES}>&a;</p:sld>'
    for data, refusal in (
        (pptx(""), "source_empty"),
        (pptx(title("x"), members={"ppt/slides/slide1.xml": bomb}), "source_unsafe"),
        (pptx("<p:grpSp>" * 400 + "</p:grpSp>" * 400), "source_unsafe"),
        (pptx(title("x"), members={"ppt/presentation.xml": "<p"}), "source_broken"),
    ):
        with raises_code(refusal):
            load("a.pptx", data)


def test_damaged_file_is_read_or_refused() -> None:
    chance = random.Random(7)
    whole = pptx(title("One") + table(["a", "b"]), notes={1: shape("n", kind="body")})
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            load("a.pptx", bytes(data))
        except SourceRefused:
            continue
