"""Documents for word processors whose parts contradict, repeat or point at each other."""

import struct
import zlib

from tests.support.hostile.parts import DOCX, HEAD, NAMESPACES, body, docx, paragraph, relations
from tests.support.hostile.registry import Trap, add, hostile, hostile_files
from tests.support.hostile.xml_attacks import ALL, FEW

Made = tuple[str, bytes]


def with_body(content: str, **parts: str) -> Made:
    return "a.docx", docx({"word/document.xml": body(content), **parts})


def with_relations(content: str, *entries: tuple[str, str, str, str]) -> Made:
    return "a.docx", docx(
        {"word/document.xml": body(content), "word/_rels/document.xml.rels": relations(*entries)}
    )


def picture(relation: str) -> str:
    return (
        '<w:p><w:r><w:drawing><wp:inline><wp:docPr id="1" descr="A picture"/><a:graphic>'
        f'<a:graphicData><pic:pic><pic:blipFill><a:blip r:embed="{relation}" r:link="{relation}"/>'
        "</pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
    )


def png(width: int, height: int, content: bytes) -> bytes:
    """Return a picture with a size that may differ from its content."""

    def chunk(kind: bytes, inner: bytes) -> bytes:
        crc = zlib.crc32(kind + inner)
        return struct.pack(">L", len(inner)) + kind + inner + struct.pack(">L", crc)

    head = struct.pack(">LLBBBBB", width, height, 8, 2, 0, 0, 0)
    ends = chunk(b"IDAT", zlib.compress(content, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + ends


def styles(content: str) -> str:
    return f"{HEAD}<w:styles {NAMESPACES}>{content}</w:styles>"


def style(name: str, based_on: str) -> str:
    return (
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/>'
        f'<w:basedOn w:val="{based_on}"/></w:style>'
    )


def styled(content: str, name: str = "A") -> Made:
    text = paragraph("Some text.", f'<w:pStyle w:val="{name}"/>')
    return with_body(text, **{"word/styles.xml": styles(content)})


@hostile
def numbering_in_a_circle(trap: Trap) -> Made:
    link = (
        '<w:abstractNum w:abstractNumId="{0}"><w:numStyleLink w:val="S{1}"/></w:abstractNum>'
        '<w:num w:numId="{0}"><w:abstractNumId w:val="{0}"/></w:num>'
    )
    linked = (
        '<w:style w:type="numbering" w:styleId="S{0}"><w:pPr><w:numPr><w:numId w:val="{0}"/>'
        "</w:numPr></w:pPr></w:style>"
    )
    text = paragraph("Item", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
    numbering = f"{HEAD}<w:numbering {NAMESPACES}>{link.format(1, 2)}{link.format(2, 1)}"
    parts = {
        "word/numbering.xml": f"{numbering}</w:numbering>",
        "word/styles.xml": styles(linked.format(1) + linked.format(2)),
    }
    return with_body(text, **parts)


@hostile
def numbers_that_are_none(trap: Trap) -> Made:
    kinds = ("-1", "99999999999999999999", "NaN", "", "1e9", "٣")
    return with_body(
        "".join(
            paragraph(
                "Item",
                f'<w:numPr><w:ilvl w:val="{kind}"/><w:numId w:val="{kind}"/></w:numPr>'
                f'<w:outlineLvl w:val="{kind}"/>',
            )
            for kind in kinds
        )
    )


@hostile
def a_list_that_counts_very_far(trap: Trap) -> Made:
    numbering = (
        f'{HEAD}<w:numbering {NAMESPACES}><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0">'
        '<w:start w:val="2147483647"/><w:numFmt w:val="{}"/><w:lvlText w:val="%1%2%9%"/></w:lvl>'
        '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
    )
    item = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
    roman = numbering.format("upperRoman")
    return with_body(paragraph("Item", item) * 50, **{"word/numbering.xml": roman})


@hostile
def a_list_that_counts_in_letters(trap: Trap) -> Made:
    numbering = DOCX["word/numbering.xml"].replace("decimal", "lowerLetter")
    far = numbering.replace('w:start w:val="1"', 'w:start w:val="999999999"')
    item = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
    return with_body(paragraph("Item", item) * 50, **{"word/numbering.xml": far})


@hostile
def relations_that_lead_out(trap: Trap) -> Made:
    targets = [
        trap.secret, f"file://{trap.secret}", f"../../../../..{trap.secret}",
        f"..\\..\\..{trap.secret}", f"C:{trap.secret}", f"%2e%2e/%2e%2e{trap.secret}", "", "\t",
    ]  # fmt: skip
    entries = [(f"rId{n}", "image", target, "") for n, target in enumerate(targets)]
    return with_relations("".join(picture(entry[0]) for entry in entries), *entries)


@hostile
def template_and_parts_from_elsewhere(trap: Trap) -> Made:
    kinds = (
        "attachedTemplate", "aFChunk", "oleObject", "styles", "footnotes", "numbering", "frame",
    )  # fmt: skip
    return with_relations(
        paragraph("Text.") + '<w:altChunk r:id="rId1"/>',
        *((f"rId{n}", kind, trap.url, "External") for n, kind in enumerate(kinds)),
    )


@hostile
def foreign_chunk(trap: Trap) -> Made:
    page = f'<html><body><img src="{trap.url}"/><iframe src="{trap.url}"></iframe></body></html>'
    return "a.docx", docx(
        {
            "word/document.xml": body(paragraph("Text.") + '<w:altChunk r:id="rId1"/>'),
            "word/_rels/document.xml.rels": relations(("rId1", "aFChunk", "chunk.html", "")),
            "word/chunk.html": page,
        }
    )


@hostile
def fields_that_run(trap: Trap) -> Made:
    codes = (f'INCLUDETEXT "{trap.secret}"', f'INCLUDEPICTURE "{trap.url}"', "DDEAUTO c:\\a.exe")
    return with_body(
        "".join(
            f'<w:p><w:fldSimple w:instr="{code.replace(chr(34), "&quot;")}"><w:r><w:t>x</w:t></w:r>'
            '</w:fldSimple><w:r><w:fldChar w:fldCharType="begin"/></w:r></w:p>'
            for code in codes
        )
    )


@hostile
def picture_that_explodes(trap: Trap) -> Made:
    made = docx(
        {
            "word/document.xml": body(picture("rId1") + paragraph("Text.")),
            "word/_rels/document.xml.rels": relations(("rId1", "image", "media/image1.png", "")),
            "word/media/image1.png": png(65_535, 65_535, bytes(20_000_000)),
        }
    )
    return "a.docx", made


@hostile
def picture_that_is_a_program(trap: Trap) -> Made:
    svg = f'<!DOCTYPE svg [<!ENTITY x SYSTEM "{trap.url}">]><svg><script>1</script>&x;</svg>'
    return "a.docx", docx(
        {
            "word/document.xml": body(picture("rId1") + picture("rId2") + paragraph("Text.")),
            "word/_rels/document.xml.rels": relations(
                ("rId1", "image", "media/a.svg", ""), ("rId2", "image", "media/../media/a.exe", "")
            ),
            "word/media/a.svg": svg,
            "word/media/a.exe": b"MZ" + bytes(100),
        }
    )


def nested(before: str, after: str, depth: int) -> Made:
    return with_body(paragraph("Before.") + before * depth + paragraph("Deep.") + after * depth)


@hostile
def boxes_in_boxes(trap: Trap) -> Made:
    box = "<w:p><w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:txbx><w:txbxContent>"
    end = "</w:txbxContent></wps:txbx></w:drawing></mc:Choice></mc:AlternateContent></w:r></w:p>"
    return nested(box, end, 30)


@hostile
def alternatives_within_alternatives(trap: Trap) -> Made:
    """Each level has its content twice: reading both doubles it every time."""
    content = "<w:r><w:t>deep</w:t></w:r>"
    for _ in range(14):
        content = (
            f"<mc:AlternateContent><mc:Choice Requires='wps'>{content}</mc:Choice>"
            f"<mc:Fallback>{content}</mc:Fallback></mc:AlternateContent>"
        )
    return with_body(f"<w:p>{content}</w:p>")


@hostile
def cells_that_span_the_world(trap: Trap) -> Made:
    cell = '<w:tc><w:tcPr><w:gridSpan w:val="2147483647"/></w:tcPr><w:p/></w:tc>'
    merged = '<w:tc><w:tcPr><w:vMerge w:val="continue"/></w:tcPr><w:p/></w:tc>'
    return with_body(f"<w:tbl><w:tr>{cell * 3}{merged}</w:tr></w:tbl>{paragraph('Text.')}")


@hostile
def a_note_that_notes_itself(trap: Trap) -> Made:
    note = (
        f'{HEAD}<w:footnotes {NAMESPACES}><w:footnote w:id="2"><w:p><w:r><w:t>See</w:t></w:r><w:r>'
        '<w:footnoteReference w:id="2"/></w:r></w:p></w:footnote></w:footnotes>'
    )
    return "a.docx", docx({"word/footnotes.xml": note})


@hostile
def one_note_very_often(trap: Trap) -> Made:
    note = DOCX["word/footnotes.xml"].replace("A note.", "A note. " * 2000)
    reference = '<w:p><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    return with_body(paragraph("Text.") + reference * 20_000, **{"word/footnotes.xml": note})


@hostile
def deleted_and_hidden_only(trap: Trap) -> Made:
    hidden = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
    return with_body(f"<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del>{hidden}</w:p>")


hostile_files(
    "docx",
    style_based_on_itself=lambda trap: styled(style("A", "A")),
    styles_in_a_circle=lambda trap: styled(style("A", "B") + style("B", "C") + style("C", "A")),
    styles_in_a_long_chain=lambda trap: styled(
        "".join(style(f"A{n}", f"A{n + 1}") for n in range(20_000)), "A0"
    ),
    relations_that_point_at_themselves=lambda trap: with_relations(
        picture("rId1"),
        ("rId1", "image", "document.xml", ""),
        ("rId2", "footnotes", "document.xml", ""),
        ("rId3", "styles", "_rels/document.xml.rels", ""),
    ),
    relations_of_one_name=lambda trap: with_relations(
        picture("rId1"), *(("rId1", "image", f"media/{n}.png", "") for n in range(5000))
    ),
    pictures_from_elsewhere=lambda trap: with_relations(
        picture("rId1")
        + '<w:p><w:r><w:pict><v:shape><v:imagedata r:id="rId1"/></v:shape></w:pict></w:r></w:p>',
        ("rId1", "image", trap.url, "External"),
    ),
    one_picture_very_often=lambda trap: (
        "a.docx",
        docx(
            {
                "word/document.xml": body(paragraph("Text.") + picture("rId1") * 5_000),
                "word/_rels/document.xml.rels": relations(
                    ("rId1", "image", "media/image1.png", "")
                ),
                "word/media/image1.png": png(10, 10, bytes(300)) + bytes(100_000),
            }
        ),
    ),
    tables_in_tables=lambda trap: nested("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>", 80),
    tables_in_very_many_tables=lambda trap: nested(
        "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>", 5000
    ),
    content_controls_in_controls=lambda trap: nested(
        "<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>", 120
    ),
    a_table_without_end=lambda trap: with_body(
        f"<w:tbl>{'<w:tr><w:tc><w:p/></w:tc></w:tr>' * 15_000}</w:tbl>"
    ),
    tabs_and_breaks_without_end=lambda trap: with_body(
        f"<w:p><w:r><w:t>Text.</w:t>{'<w:tab/><w:br/><w:cr/>' * 100_000}</w:r></w:p>"
    ),
    a_run_for_each_letter=lambda trap: with_body(
        f"<w:p>{'<w:r><w:t>a</w:t></w:r>' * 50_000}</w:p>"
    ),
    no_namespace=lambda trap: (
        "a.docx",
        docx({"word/document.xml": "<document><body><p>Text</p></body></document>"}),
    ),
    main_part_elsewhere=lambda trap: (
        "a.docx",
        docx(
            {"_rels/.rels": relations(("rId1", "officeDocument", "../../../etc/document.xml", ""))}
        ),
    ),
    main_part_on_the_network=lambda trap: (
        "a.docx",
        docx({"_rels/.rels": relations(("rId1", "officeDocument", trap.url, "External"))}),
    ),
    with_macros=lambda trap: (
        "a.docm",
        docx({"word/vbaProject.bin": b"\xd0\xcf\x11\xe0" + bytes(2000)}),
    ),
    a_book_inside=lambda trap: ("a.docx", docx({"META-INF/container.xml": "<container/>"})),
)


def _add_attack(part: str, name: str) -> None:
    short = part.rpartition("/")[2].partition(".")[0] or "rels"
    short = "rels" if part.endswith(".rels") else short.strip("[]").lower()
    where = "package-" if part.startswith("_rels") else ""
    source = DOCX[part] if "@@" in DOCX[part] else DOCX[part].replace("<Rel", "@@<Rel", 2)
    if part.endswith(".rels"):
        source = DOCX[part].replace("</Relationships>", "@@</Relationships>")
    if part == "[Content_Types].xml":
        source = DOCX[part].replace("</Types>", "@@</Types>")
    attack = ALL[name]
    add(f"docx-{where}{short}-{name}", lambda trap: ("a.docx", docx({part: attack(source, trap)})))


for _attack in ALL:
    _add_attack("word/document.xml", _attack)
for _part in (
    *("word/styles.xml", "word/numbering.xml", "word/footnotes.xml"),
    *("word/_rels/document.xml.rels", "_rels/.rels", "docProps/core.xml", "[Content_Types].xml"),
):
    for _attack in FEW:
        _add_attack(_part, _attack)
