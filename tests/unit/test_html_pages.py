"""HTML pages: pictures, printed pages, encodings and XHTML."""

import base64
import codecs

import pytest

from tests.support.failures import raises_code
from truespan.parsing.formats.html import load_html
from truespan.types.text import (
    Block,
    BlockKind,
    Figure,
    Image,
    Loaded,
    PageStart,
    PictureCounts,
    PlacedFigure,
)

PNG = b"\x89PNG\r\n\x1a\n a very small picture"
PNG_ADDRESS = "data:image/png;base64," + base64.b64encode(PNG).decode()


def loaded(page: str | bytes, *, images: bool = False) -> Loaded:
    return load_html("page.html", page.encode() if isinstance(page, str) else page, images=images)


def texts(page: str | bytes) -> list[str]:
    return [block.text for block in loaded(page).blocks]


# Pictures


def test_html_pictures_stand_at_their_exact_place():
    page = "<p>one <img src=a.png alt=' A  b '> two<img src=b.png></p><p><img src=c.png></p>"
    first, second = loaded(page).blocks
    assert first.text == "one two"
    assert first.figures == (
        PlacedFigure(4, Figure("A b", "a.png")),
        PlacedFigure(7, Figure("", "b.png")),
    )
    assert second == Block(BlockKind.PARAGRAPH, "", figures=(PlacedFigure(0, Figure("", "c.png")),))

    page = (
        "<ul><li>x<ul><li>one<br>two<img src=a></ul></ul>"
        "<table><tr><td>a<td> b<img src=b> c</table><pre>\nx\n<img src=c>y</pre>"
    )
    placed = [(block.text, *block.figures) for block in loaded(page).blocks]
    assert [(text[: figure.offset], figure.figure.origin) for text, figure in placed[1:]] == [
        ("  - one\n    two", "a"), ("a | b", "b"), ("x\n", "c"),
    ]  # fmt: skip


@pytest.mark.parametrize("element", [
    f"<img src='{PNG_ADDRESS}'>",
    f"<picture><source srcset=x.webp><img src='{PNG_ADDRESS}'></picture>",
    f"<input type=image src='{PNG_ADDRESS}'>", f"<svg><image xlink:href='{PNG_ADDRESS}'/></svg>",
    f"<svg><image href='{PNG_ADDRESS}'/></svg>",
    f"<object type=image/png data='{PNG_ADDRESS}'>words</object>",
])  # fmt: skip
def test_embedded_image_bytes_are_read_on_demand(element: str):
    page = f"<p>before {element} after</p>"
    found = loaded(page, images=True)
    assert found.images == (Image("png", PNG),)
    assert found.pictures == PictureCounts(1, 1, 1, 0)
    assert [figure.figure for figure in found.blocks[0].figures] == [
        Figure("", "data:image/png", 0)
    ]
    assert loaded(page).images == ()
    assert texts(page) == ["before after"]


def test_equal_pictures_are_kept_once():
    found = loaded(f"<img src='{PNG_ADDRESS}'>" * 3, images=True)
    assert [figure.figure.image for figure in found.blocks[0].figures] == [0, 0, 0]
    assert len(found.images) == 1


@pytest.mark.parametrize(("source", "counts"), [
    ("http://127.0.0.1/x.png", PictureCounts(1, 1, 0, 0)),
    ("file:///etc/passwd", PictureCounts(1, 1, 0, 0)), ("../x.png", PictureCounts(1, 1, 0, 0)),
    ("", PictureCounts(1, 0, 0, 0)), ("data:image/png,plain", PictureCounts(1, 1, 1, 0)),
    ("data:image/png;base64,A", PictureCounts(1, 1, 1, 0)),
    ("data:text/html;base64,QUFB", PictureCounts(1, 1, 1, 0)),
    ("data:image/png;base64," + "A" * (45 << 20), PictureCounts(1, 1, 1, 0)),
])  # fmt: skip
def test_html_pictures_are_counted_and_not_fetched(source: str, counts: PictureCounts):
    found = loaded(f"<p>x<img src='{source}'></p>", images=True)
    assert (found.images, found.pictures) == ((), counts)
    figure = found.blocks[0].figures[0].figure
    assert figure.image is None
    assert len(figure.origin) < 201


@pytest.mark.parametrize(
    "attributes",
    ["width=1 height=1", "width=0 height=1px", "aria-hidden=true", "role=presentation"],
)
def test_pictures_that_show_nothing_are_skipped(attributes: str):
    assert loaded(f"<p>x<img src=a.png {attributes}></p>").pictures == PictureCounts()


def test_html_page_breaks_count_and_left_out_pictures_do_not():
    assert (
        loaded("<p>x</p><nav><img src=a></nav><noscript><img src=b></noscript>").pictures.blips == 0
    )
    page = (
        "<p>one <span role=doc-pagebreak aria-label='7'></span>two</p><p role=doc-pagebreak>xi</p>"
    )
    assert [block.pages for block in loaded(page).blocks] == [(PageStart(4, 7),)]


# Encodings


@pytest.mark.parametrize("page", [
    codecs.BOM_UTF8 + "<meta charset=latin1><p>é€“".encode(),
    codecs.BOM_UTF16_LE + "<p>é€“".encode("utf-16-le"),
    b"<meta charset='windows-1252'><p>\xe9\x80\x93",
    b"<META http-equiv=Content-Type content='text/html; charset=ISO-8859-1'><p>\xe9\x80\x93",
    b"<?xml version='1.0' encoding='cp1252'?><html><p>\xe9\x80\x93</html>",
    "<meta charset=utf-8><p>é€“".encode(), "<meta charset=nonsense><p>é€“".encode(),
    "<meta charset=rot13><p>é€“".encode(), "<p>é€“".encode(),
])  # fmt: skip
def test_html_encoding_is_found_by_mark_or_declaration(page: bytes):
    assert texts(page) == ["é€“"]


def test_html_is_decoded_as_browsers_do_or_refused():
    assert texts(b"<p>\x93\xe9\x80\x94") == ["“é€”"]
    assert texts("<meta charset=shift_jis><p>漢字①".encode("cp932")) == ["漢字①"]
    assert texts("<meta charset=gb2312><p>漢字镕".encode("gbk")) == ["漢字镕"]
    with raises_code("source_not_text"):
        loaded(b"<html>\x00\x01\x02\x03\xff\xfe\x00\x80")


# XHTML


XHTML = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head>{}</head>{}</html>'


@pytest.mark.parametrize("flaw", ["", "<p>not closed", "&undefined;", "<p a=b/>"])
@pytest.mark.parametrize("head", ["<title/>", '<script src="x"/>', "<style/>"])
def test_empty_element_of_xhtml_contains_nothing(head: str, flaw: str):
    body = f"<body><p>one<a id='x'/></p><p><![CDATA[a < b]]></p>{flaw}<p>two</p></body>"
    found = texts(XHTML.format(head, body))
    assert [found[0], found[1], found[-1]] == ["one", "a < b", "two"]
