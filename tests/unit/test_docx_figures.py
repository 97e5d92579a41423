"""Pictures of DOCX files: offsets, alternative texts, bytes and counts."""

from typing import Any

import pytest

from tests.support.docx_maker import (
    PNG,
    abstract,
    cell,
    docx,
    drawing,
    item,
    level,
    note,
    note_mark,
    num,
    p,
    pic,
    picture,
    r,
    rels,
    row,
    table,
    text_box,
    vml_picture,
)
from tests.support.rows import each_row
from truespan.parsing.formats.docx import load_docx
from truespan.types.text import Block, BlockKind, Figure, Image, Loaded, PictureCounts, PlacedFigure

IMAGES = [("i1", "image", "media/one.png"), ("i2", "image", "media/two.JPG")]
MEDIA = {"word/media/one.png": PNG, "word/media/two.JPG": b"\xff\xd8\xff two"}


def loaded(body: str, *, images: bool = False, **parts) -> Loaded:
    parts = {"relations": IMAGES, "media": MEDIA, **parts}
    return load_docx("a.docx", docx(body, **parts), images=images)


def placed(body: str, **parts) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return each text with the offsets and the words of its figures."""
    blocks = loaded(body, **parts).blocks
    return [(block.text, [(at, figure.alt) for at, figure in block.figures]) for block in blocks]


@pytest.mark.parametrize("make", [picture, vml_picture], ids=["drawing", "vml"])
def test_picture_keeps_its_place_in_the_text(make) -> None:
    body = p(r("Look: ") + make("i1", alt="cat") + r(" and ") + make("i2", alt="dog") + r("."))
    assert placed(body) == [("Look:  and .", [(6, "cat"), (11, "dog")])]


def test_docx_picture_alone_is_a_block_without_text_or_chapter() -> None:
    figure = PlacedFigure(0, Figure("cat", "word/media/one.png"))
    assert loaded(p(picture("i1", alt="cat"))).blocks == (
        Block(BlockKind.PARAGRAPH, "", figures=(figure,)),
    )
    blocks = loaded(p(picture("i1"), style="Heading1") + p("a")).blocks
    assert [(block.kind, block.chapter) for block in blocks] == [(BlockKind.PARAGRAPH, None)] * 2


X, Y, Z = (picture(f"i{n}", alt=alt) for n, alt in ((1, "x"), (2, "y"), (1, "z")))
LEVELS = abstract(level(0, "decimal", "%1."), level(1, "decimal", "%2.")) + num(1)
GROUP = f"<wpg:wgp>{pic('i1', 'left')}<wpg:grpSp>{pic('i2')}</wpg:grpSp></wpg:wgp>"


@each_row(("body", "expected"), [
    # Trimming, the mark of an item and joined lines move the offset of a picture.
    (p(r("   ") + X + r("  word  ") + Y), [("word", [(0, "x"), (4, "y")])]),
    (item(r("<w:t>a</w:t><w:br/><w:t>b</w:t>") + X + r("c"), 1),
     [("  1. a\n    bc", [(12, "x")])]),
    (p(r("One  ") + X + r("two"), style="Heading1"), [("One two", [(4, "x")])]),
    # A picture in a cell stands in its row; a row of pictures alone moves them to the next.
    (f"<w:tbl>{row(['1', '2'])}<w:tr>{cell('a')}{cell(p(r('b  ') + X + r('c')) + p('d'))}"
     "</w:tr></w:tbl>", [("1 | 2\na | b c d", [(12, "x")])]),
    (table([p(X), p(Y)], ["a", "b"], [p(Z), ""]),
     [("a | b", [(0, "x"), (0, "y"), (5, "z")])]),
    (table([p(X), p(Y)]), [("", [(0, "x"), (0, "y")])]),
    (p(r("a") + text_box(p(r("box ") + X))), [("a", []), ("box", [(3, "x")])]),
    # The words of the drawing come before those of its pictures; a title stands for none.
    (p(drawing(GROUP, alt="both")), [("", [(0, "left"), (0, "both")])]),
    (p(picture("i1", alt="said", own_alt="C:\\x.png")), [("", [(0, "said")])]),
    (p(picture("i1", own_alt="own")), [("", [(0, "own")])]),
    (p(picture("i1").replace('descr=""', 'title="named"', 1)), [("", [(0, "named")])]),
])  # fmt: skip
def test_docx_pictures_keep_their_places_and_words(body: str, expected: list[Any]) -> None:
    assert placed(body, numbering=LEVELS) == expected


def test_pictures_change_no_text() -> None:
    def bodies(shown: str) -> list[str]:
        own = p(shown)
        return [
            table(["Name", "Look"], ["Lamp", own]),
            table(["Name", "Look"], [own, "Lamp"], [own, own]),
            table(["Lamp", own, own], ["Key", own, "old"]),
            table(["Lamp", p("new") + own], [table(["a", own]), "b"]),
            item("one") + p(r("Lamp ") + shown) + own + item("two"),
        ]

    pairs = zip(bodies(picture("i1", alt="x")), bodies(r(" ")), strict=True)
    for with_picture, without in pairs:
        texts = [[text for text, _ in placed(body) if text] for body in (with_picture, without)]
        assert texts[0] == texts[1]
    assert placed(table(["Lamp", p(picture("i1", alt="x"))])) == [("Lamp", [(4, "x")])]


def test_pictures_count_once_and_not_when_deleted() -> None:
    both = (
        f"<mc:AlternateContent><mc:Choice Requires='wps'>{picture('i1', alt='new')}</mc:Choice>"
        f"<mc:Fallback>{vml_picture('i1', alt='old')}</mc:Fallback></mc:AlternateContent>"
    )
    found = loaded(p(r("a") + r(both)))
    assert [figure.figure.alt for figure in found.blocks[0].figures] == ["new"]
    assert found.pictures.blips == 1
    found = loaded(p(r("a") + f"<w:del w:id='1'>{picture('i1')}</w:del>"))
    assert (found.blocks[0].figures, found.pictures.blips) == ((), 0)


def test_note_finds_its_pictures_by_its_own_relationships() -> None:
    members = {"word/_rels/footnotes.xml.rels": rels([("i1", "image", "media/two.JPG")])}
    body = p(r("a") + note_mark(1) + picture("i1"))
    found = loaded(body, footnotes=note(1, p(picture("i1"))), members=members)
    assert [figure.figure.origin for block in found.blocks for figure in block.figures] == [
        "word/media/one.png",
        "word/media/two.JPG",
    ]


# Bytes


def test_bytes_are_read_on_demand_and_text_stays_the_same() -> None:
    body = p(r("a") + picture("i1") + r("b")) + p(vml_picture("i2")) + p(picture("i1"))
    without, found = loaded(body), loaded(body, images=True)
    assert without.images == ()
    assert found.images == (Image("png", PNG), Image("jpg", b"\xff\xd8\xff two"))
    assert [f.figure.image for block in found.blocks for f in block.figures] == [0, 1, 0]
    assert [block.text for block in found.blocks] == [block.text for block in without.blocks]
    assert found.pictures == without.pictures


@pytest.mark.parametrize(("member", "content", "ending"), [
    ("media/a.PNG", b"x", "png"), ("media/a.p/ng", PNG, "png"), ("media/a", b"GIF89a", "gif"),
    ("media/a.verylong", b"\xff\xd8\xff", "jpeg"), ("media/a.b c", b"?", "bin"),
    ("media/.x.é", b"?", "bin"),
])  # fmt: skip
def test_picture_ending_is_a_safe_file_name(member: str, content: bytes, ending: str) -> None:
    found = loaded(
        p(picture("i1")),
        relations=[("i1", "image", member)],
        media={f"word/{member}": content},
        images=True,
    )
    assert found.images == (Image(ending, content),)


@pytest.mark.parametrize(
    "target",
    ["media/one.png", "/word/media/one.png", "../word/media/one.png", "MEDIA/One.PNG",
     "./media//one.png", "media/%6Fne.png"],
)  # fmt: skip
def test_picture_is_found_under_every_spelling_of_its_target(target: str) -> None:
    found = loaded(p(picture("i1")), relations=[("i1", "image", target)])
    assert found.blocks[0].figures[0].figure.origin == "word/media/one.png"
    assert found.pictures == PictureCounts(1, 1, 1, 0)


@pytest.mark.parametrize("images", [True, False])
def test_external_picture_is_counted_and_never_fetched(images: bool) -> None:
    relations = [("i1", "image", "http://127.0.0.1:9/x.png", "External")]
    found = loaded(p(picture("i1", attribute="link")), relations=relations, images=images)
    assert found.blocks[0].figures[0].figure == Figure("", "http://127.0.0.1:9/x.png")
    assert found.warnings == ("Pictures linked from outside the file and not fetched: 1.",)
    assert found.pictures == PictureCounts(1, 1, 1, 0)


def test_damaged_and_vector_pictures_lose_no_text() -> None:
    whole = docx(p(r("a") + picture("i1")), relations=IMAGES, media=MEDIA)
    place = whole.index(b"word/media/two.JPG") - 30
    broken = whole[: place - 4] + b"\xff\xff\xff\xff" + whole[place:]
    found = load_docx("a.docx", broken, images=True)
    assert (found.blocks[0].text, found.images) == ("a", ())
    assert found.warnings == ("Pictures damaged and left out: 1.",)
    blip = '<a:blip><a:extLst><a:ext><asvg:svgBlip r:embed="i1"/></a:ext></a:extLst></a:blip>'
    assert loaded(p(drawing(blip))).pictures == PictureCounts(1, 2, 1, 0)


# Counts


@pytest.mark.parametrize("images", [True, False])
def test_docx_picture_counts_are_reported(images: bool) -> None:
    relations = [*IMAGES, ("i3", "image", "media/gone.png"), ("s", "settings", "settings.xml")]
    body = p(picture("i1") + picture("i1") + vml_picture("i3") + picture("nowhere"))
    found = loaded(body, relations=relations, images=images)
    assert found.pictures == PictureCounts(blips=4, rels_total=3, rels_mapped=3, zip_member_miss=1)
    assert [f.figure.image is None for f in found.blocks[0].figures] == (
        [False, False, True, True] if images else [True] * 4
    )


def test_docx_picture_counts_report_nothing_missing() -> None:
    assert loaded(p(picture("i1") + picture("i2"))).pictures == PictureCounts(2, 2, 2, 0)
