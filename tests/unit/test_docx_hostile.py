"""DOCX files that are damaged or hostile: read or refused."""

import random
import socket
import struct
from collections.abc import Callable

import pytest

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.docx_maker import (
    PNG,
    abstract,
    docx,
    field,
    item,
    level,
    note,
    note_mark,
    num,
    p,
    packed,
    picture,
    r,
    rels,
    style,
    table,
    text_box,
    vml_picture,
)
from tests.support.failures import raises_code
from truespan.errors import SourceRefused
from truespan.parsing import load as load_any
from truespan.parsing.formats.docx import load_docx
from truespan.types.text import Loaded

EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "%s">]><x>&a;</x>'
REMOTE = '<!DOCTYPE x SYSTEM "%s"><x/>'
DOCTYPE = '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'

RICH = docx(
    p("Title", style="Title")
    + p(r("a") + note_mark(1) + picture("i1", alt="x"), style="Heading1")
    + item("one")
    + table(["a", p(vml_picture("i1"))], [table(["b"], ["c"]), "d"])
    + p(text_box(p("box")) + field(" TOC ", r("e"))),
    styles=style("Heading1", "heading 1") + style("Title"),
    numbering=abstract(level(0, "decimal", "%1.")) + num(1),
    footnotes=note(1, "note"),
    core="<core><title>T</title></core>",
    relations=[("i1", "image", "media/a.png")],
    media={"word/media/a.png": PNG},
)


def load(data: bytes, *, images: bool = True) -> Loaded:
    return load_docx("a.docx", data, images=images)


@pytest.mark.parametrize(("data", "refusal"), [
    (b"", "source_broken"), (b"PK\x03\x04 no archive", "source_broken"),
    (packed({"a": "b"}), "source_broken"),
    (packed({"_rels/.rels": rels([("r", "officeDocument", "gone.xml")])}), "source_broken"),
    (docx("<w:p>"), "source_broken"),
    (docx("", members={"_rels/.rels": "<broken"}), "source_broken"),
    (docx("", members={"word/document.xml": "<workbook/>"}), "source_unsupported"),
])  # fmt: skip
def test_docx_refuses_other_content_by_kind(data: bytes, refusal: str) -> None:
    with pytest.raises(SourceRefused) as refused:
        load(data)
    assert refused.value.code == refusal


@pytest.mark.parametrize(
    "member",
    ["_rels/.rels", "word/document.xml", "word/_rels/document.xml.rels", "word/styles.xml",
     "word/numbering.xml", "word/footnotes.xml", "docProps/core.xml"],
)  # fmt: skip
def test_entities_are_refused_in_every_part(member: str) -> None:
    data = docx(
        p(r("a") + note_mark(1)), styles=style("A"), numbering=num(1), footnotes=note(1, "n"),
        core="<core/>", members={member: DOCTYPE},
    )  # fmt: skip
    with raises_code("source_unsafe"):
        load(data)


def test_missing_parts_lose_no_text() -> None:
    kinds = ("styles", "numbering", "footnotes", "endnotes")
    relations = [(kind, kind, f"{kind}.xml") for kind in kinds]
    assert load(docx(p(r("a") + note_mark(1)), relations=relations)).blocks[0].text == "a"


@pytest.mark.parametrize("depth", [20, 60, 100_000])
@pytest.mark.parametrize(("before", "after"), [
    ("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"),
    ("<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"),
    ("<w:p><w:r><w:pict><w:txbxContent>", "</w:txbxContent></w:pict></w:r></w:p>"),
    ("<mc:AlternateContent><mc:Choice>", "</mc:Choice></mc:AlternateContent>"),
], ids=["tables", "controls", "boxes", "alternatives"])  # fmt: skip
def test_nesting_is_read_or_refused(before: str, after: str, depth: int) -> None:
    data = docx(before * depth + p("core") + after * depth)
    if depth > 60:
        with raises_code("source_unsafe"):
            load(data)
    else:
        assert [block.text for block in load(data).blocks] == ["core"]


def test_self_referencing_parts_are_read_once() -> None:
    diagram = r('<w:drawing><wp:inline><dgm:relIds r:dm="d"/></wp:inline></w:drawing>')
    relations = [("d", "diagramData", "document.xml")]
    blocks = load(docx(p("a") + p(diagram * 10), relations=relations)).blocks
    assert [block.text for block in blocks] == ["a"]
    blocks = load(
        docx(p(r("a") + note_mark(1)), footnotes=note(1, p(r("n") + note_mark(1))))
    ).blocks
    assert [block.text for block in blocks] == ["a", "n"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("body", [
    r('<w:fldChar w:fldCharType="begin"/>'), p(r('<w:fldChar w:fldCharType="begin"/>')),
    p(text_box(p("x"))), p(picture("i1")), table(["a", "b"]), item("x"), p("x", style="A" * 20),
], ids=["runs", "fields", "boxes", "pictures", "tables", "items", "styles"])  # fmt: skip
def test_repeated_elements_take_linear_time(body: str) -> None:
    many = body * (50_000 if len(body) < 80 else 10_000)
    whole = p(many) if body.startswith("<w:r>") else many
    assert load(docx(whole + p("end"))).blocks[-1].text.endswith("end")


def test_truncated_or_changed_file_is_read_or_refused() -> None:
    for seed in range(in_test_or_prove(100, 300)):
        chance = random.Random(seed)
        place = chance.randrange(len(RICH))
        end = place + chance.randrange(1, 5)
        _read_or_refused(RICH[:place])
        _read_or_refused(RICH[:place] + chance.randbytes(3) + RICH[end:])


def test_document_with_shuffled_tags_is_read_or_refused() -> None:
    tags = ["p", "r", "t", "tbl", "tr", "tc", "sdt", "sdtContent", "ins", "del", "drawing", "pict"]
    tags += ["txbxContent", "fldChar", "pPr", "numPr", "numId", "pStyle", "rt", "br", "altChunk"]

    def grown(chance: random.Random, depth: int) -> str:
        tag = chance.choice(tags)
        value = chance.choice(["", ' w:val="1"', ' w:val="-9"', ' w:fldCharType="begin"'])
        inner = (grown(chance, depth + 1) for _ in range(chance.choice((0, 1, 2, 2))))
        return f"<w:{tag}{value}>{''.join(inner) if depth < 12 else 'x'}</w:{tag}>"

    for seed in range(in_test_or_prove(70, 200)):
        chance = random.Random(seed)
        _read_or_refused(docx("".join(grown(chance, 0) for _ in range(4))))


def _declaring(size: int, data: bytes) -> bytes:
    """Return an archive whose members all state this size."""
    pieces = data.split(b"PK\x01\x02")
    named = [piece[:20] + struct.pack("<L", size) + piece[24:] for piece in pieces[1:]]
    return b"PK\x01\x02".join([pieces[0], *named])


@proves("loader.archive-limits")
@pytest.mark.parametrize(
    ("make", "refusal"),
    [
        (lambda _: docx(p("a"), members={f"m{n}": "" for n in range(10_001)}), "source_too_large"),
        (lambda _: _declaring(250 << 20, docx(p("a"))), "source_too_large"),
        (lambda _: docx(p("a"), members={"word/document.xml": bytes(9 << 20)}), "source_unsafe"),
        (lambda _: docx(p("a"), members={"word/document.xml": DOCTYPE}), "source_unsafe"),
        (lambda url: docx(p("a"), members={"_rels/.rels": EXTERNAL % url}), "source_unsafe"),
        (lambda url: docx(p("a"), members={"word/document.xml": REMOTE % url}), "source_unsafe"),
        (lambda _: docx(p("a"), members={"word/inner.docx": docx(p("inner"))}), None),
        (lambda url: docx(p("a"), relations=[("i", "image", url, "External")]), None),
    ],
    ids=["members", "total", "ratio", "entity", "external entity", "dtd", "nested", "link"],
)
def test_hostile_content_is_refused_and_nothing_is_fetched(
    make: Callable[[str], bytes], refusal: str | None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        data = make(f"http://127.0.0.1:{server.getsockname()[1]}/x")
        if refusal is None:
            assert [block.text for block in load_any("a.docx", data).blocks] == ["a"]
        else:
            with raises_code(refusal):
                load_any("a.docx", data)
        with pytest.raises(BlockingIOError):
            server.accept()


def _read_or_refused(data: bytes) -> None:
    """Load a file twice, and check the rules for any document."""
    try:
        found, without = load(data), load(data, images=False)
    except SourceRefused:
        return
    assert [block.text for block in found.blocks] == [block.text for block in without.blocks]
    assert found.pictures == without.pictures
    assert sum(len(block.figures) for block in found.blocks) == found.pictures.blips
    for block in found.blocks:
        offsets = [figure.offset for figure in block.figures]
        assert offsets == sorted(offsets)
        assert all(0 <= offset <= len(block.text) for offset in offsets)
