"""EPUB 2 and 3: pages in reading order, with chapters from the contents."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.promises import proves
from tests.support.epub_maker import Book, Line, nav_page, page
from tests.support.failures import raises_code
from truespan.errors import SourceRefused
from truespan.parsing import load
from truespan.parsing.formats.epub import load_epub
from truespan.types.text import (
    BlockKind,
    Figure,
    Image,
    Loaded,
    PageStart,
    PictureCounts,
    PlacedFigure,
    Properties,
)

PNG = b"\x89PNG\r\n\x1a\n a very small picture"
ONE = page("<h1>One</h1><p>First.</p>")
TWO = page("<h1>Two</h1><p>Second.</p>")


def loaded(book: Book, *, images: bool = False) -> Loaded:
    return load_epub("book.epub", book.data(), images=images)


def texts(book: Book) -> list[str]:
    return [block.text for block in loaded(book).blocks]


def places(book: Book) -> list[tuple[str, str | None, str | None]]:
    return [(block.text, block.chapter, block.section) for block in loaded(book).blocks]


# The order of reading


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("folder", "package"),
    [("OEBPS/", "content.opf"), ("", "book.opf"), ("a/b c/ä/", "the package.opf")],
)
def test_pages_come_in_the_order_of_the_spine(version: int, folder: str, package: str):
    book = Book(
        {"two.xhtml": TWO, "one.xhtml": ONE}, version=version, folder=folder, package=package,
        spine=["one.xhtml", "two.xhtml"],
    )  # fmt: skip
    assert texts(book) == ["One", "First.", "Two", "Second."]
    assert load("a.epub", book.data()).blocks == loaded(book).blocks


def test_auxiliary_pages_keep_their_place():
    book = Book(
        {"note.xhtml": page("<p>note</p>"), "one.xhtml": ONE}, itemref={"note.xhtml": 'linear="no"'}
    )
    assert texts(book) == ["note", "One", "First."]


@pytest.mark.parametrize(("href", "member"), [
    ("chapter%20one.xhtml", "OEBPS/chapter one.xhtml"),
    ("chapter one.xhtml", "OEBPS/chapter one.xhtml"), ("100%25.xhtml", "OEBPS/100%.xhtml"),
    ("100%25.xhtml", "OEBPS/100%25.xhtml"), ("caf%C3%A9.xhtml", "OEBPS/café.xhtml"),
    ("café.xhtml", "OEBPS/cafe\u0301.xhtml"), ("cafe%CC%81.xhtml", "OEBPS/café.xhtml"),
    ("../Text/one.xhtml", "Text/one.xhtml"), ("../../../Text/one.xhtml", "Text/one.xhtml"),
    ("./x/../one.xhtml", "OEBPS/one.xhtml"), ("/Text/one.xhtml", "Text/one.xhtml"),
    ("ONE.xhtml", "OEBPS/one.XHTML"), ("a#b.xhtml", "OEBPS/a#b.xhtml"),
    ("Text\\one.xhtml", "OEBPS/Text/one.xhtml"),
])  # fmt: skip
def test_page_is_found_under_every_spelling_of_its_address(href: str, member: str):
    media = 'media-type="application/xhtml+xml"'
    book = Book(item={href: media}, spine=[href], members={member: ONE})
    assert texts(book) == ["One", "First."]


def test_missing_and_unreadable_pages_are_reported():
    book = Book(
        {"gone.xhtml": ONE, "two.xhtml": TWO},
        spine=["gone.xhtml", "unknown", "two.xhtml"],
        without=["OEBPS/gone.xhtml"],
    )
    assert texts(book) == ["Two", "Second."]
    assert loaded(book).warnings == ("2 pages are listed in the book and missing.",)
    book = Book({"bad.xhtml": b"\x00\x01\x02\x03" * 9, "two.xhtml": TWO})
    assert texts(book) == ["Two", "Second."]
    assert loaded(book).warnings == ("1 page is unreadable and left out.",)


@pytest.mark.parametrize("book", [
    Book({}), Book({"a.xhtml": ONE}, spine=[]), Book({"a.xhtml": ONE}, without=["OEBPS/a.xhtml"]),
    Book({"a.xhtml": ONE}, without=["META-INF/container.xml", "OEBPS/content.opf"]),
    Book({"a.xhtml": ONE}, members={"OEBPS/content.opf": "no package"}),
    Book({"a.bin": b""}, item={"a.bin": 'media-type="application/octet-stream"'}),
], ids=["empty", "no spine", "no page", "no package", "not a package", "no text"])  # fmt: skip
def test_book_without_a_readable_page_is_broken(book: Book):
    with raises_code("source_broken"):
        loaded(book)


def test_book_is_read_without_a_container_or_by_its_fallback():
    assert texts(Book({"a.xhtml": ONE}, without=["META-INF/container.xml"])) == ["One", "First."]
    book = Book(
        {"a.pdf": b"%PDF", "b.xhtml": ONE},
        item={"a.pdf": 'media-type="application/pdf" fallback="i1"'},
        spine=["a.pdf"],
    )
    assert texts(book) == ["One", "First."]


@pytest.mark.parametrize("content", [
    page("<p>One<p>First. &nbsp;", head="<title/>"), "<html><body><p>One<br>First.",
    page("<p>One</p><p>First.</p>").replace('encoding="utf-8"', ""),
    page("<p>One</p>" + "<div>" * 400 + "First." + "</div>" * 400),
])  # fmt: skip
def test_malformed_pages_are_read(content: str):
    assert " ".join(texts(Book({"a.xhtml": content}))).split() == ["One", "First."]


def test_pages_of_html_and_named_characters_are_read():
    body = "<p>caf&eacute;&mdash;bar&hellip;"
    assert texts(Book({"a.html": body, "b.xhtml": page(f"{body}</p>")})) == ["café—bar…"] * 2


# Places


CHAPTERS = {
    "c1.xhtml": page("<h1>One</h1><p>a</p><h2 id='s'>Inner</h2><p>b</p>"),
    "c2.xhtml": page("<h1>Two</h1><p>c</p>"),
}
CONTENTS: list[Line] = [
    (1, "Chapter One", "c1.xhtml"), (2, "First part", "c1.xhtml#s"), (1, "Chapter Two", "c2.xhtml"),
]  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
def test_contents_name_chapters_and_sections(version: int):
    pages = {
        "c1.xhtml": page("<h1>Chapter One: The Rain</h1><p>a</p><p id='s'>b</p><p>c</p>"),
        "c2.xhtml": page("<p>Chapter two, in which it ends</p><h2 id='t'>d</h2>"),
    }
    contents = [
        (1, "The rain", "c1.xhtml"), (2, "B", "c1.xhtml#s"), (1, "CHAPTER TWO", "c2.xhtml"),
        (2, "Nowhere", "c2.xhtml#t"),
    ]  # fmt: skip

    assert places(Book(pages, contents, version=version)) == [
        ("Chapter One: The Rain", "The rain", None), ("a", "The rain", None),
        ("b", "The rain", "B"), ("c", "The rain", "B"),
        ("Chapter two, in which it ends", "CHAPTER TWO", None), ("d", "CHAPTER TWO", "d"),
    ]  # fmt: skip


@proves("reading.every-surface")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("body", "label", "name"), [
    ("<h1>Chapter 1</h1><p>a</p>", "Chapter 1: The Butler Did It", "Chapter 1"),
    ("<h1>1</h1><p>a</p><p>The butler did it.</p>", "The Butler Did It", "1"),
    ("<p>It rained all day, and the butler sat in the house. a</p>", "The Butler", None),
    ("<p>Rain. a</p>", "Chapter 1", "Rain"), ("<p>A butler did it</p>", "I", "A butler did it"),
    ("<h1><img alt='Chapter 1' src='x.png'/></h1><p>a</p>", "Chapter 1", "Chapter 1"),
])  # fmt: skip
def test_name_of_a_chapter_occurs_in_the_read_text(
    version: int, body: str, label: str, name: str | None
):
    found = places(Book({"c1.xhtml": page(body)}, [(1, label, "c1.xhtml")], version=version))
    expected = name or "It rained all day, and the butler sat"
    assert {chapter for text, chapter, _ in found if text} == {expected}


@proves("reading.every-surface")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kept", range(len(CONTENTS)))
def test_epub_label_does_not_depend_on_later_entries(version: int, kept: int):
    reached = [0, 2, 4][kept]
    whole, cut = (
        places(Book(CHAPTERS, toc, version=version)) for toc in (CONTENTS, CONTENTS[:kept])
    )
    assert whole[:reached] == cut[:reached]


@proves("reading.every-surface")
@pytest.mark.parametrize(("body", "labelled"), [
    ("<p>a</p><p id='x'>b</p><p>c</p>", ["b", "c"]),
    ("<p>a</p><a id='x'></a><p>b</p><p>c</p>", ["b", "c"]),
    ("<p>a</p><p><a name='x'/>b</p><p>c</p>", ["b", "c"]),
    ("<p>a</p><p>be<a id='x'/>fore</p><p>c</p>", ["c"]),
    ("<p>a</p><p>b<a id='x'/></p><p>c</p>", ["c"]),
    ("<p>a</p><h2>b<a id='x'/></h2><p>c</p>", ["b", "c"]),
    ("<p>a</p><div hidden='' id='x'>-</div><p>c</p>", ["c"]),
    ("<p>a</p><section id='x'><p>b</p></section><p>c</p>", ["b", "c"]),
    ("<p>a</p><ul><li id='x'>b</li></ul><p>c</p>", ["- b", "c"]), ("<p>a</p><p>c</p>", []),
])  # fmt: skip
def test_label_applies_from_its_place_and_never_before(body: str, labelled: list[str]):
    found = places(Book({"a.xhtml": page(body)}, [(1, "Later", "a.xhtml#x")]))
    names = {labelled[0].removeprefix("- ")} if labelled else set()
    assert {chapter for _, chapter, _ in found if chapter} == names
    assert [text for text, chapter, _ in found if chapter] == labelled


def test_place_at_the_end_of_a_page_labels_the_next_page():
    pages = {"a.xhtml": page("<p>a</p><p id='x'/>"), "b.xhtml": page("<p>b</p>")}
    assert places(Book(pages, [(1, "Next", "a.xhtml#x")])) == [("a", None, None), ("b", "b", None)]


def test_epub_entries_without_target_use_the_next_or_nothing():
    contents = [(1, "Part I", ""), (2, "One", "c1.xhtml"), (2, "Two", "c2.xhtml")]
    pages = {**CHAPTERS, "c1.xhtml": page("<h1>Part I: One</h1>")}
    assert places(Book(pages, contents)) == [
        ("Part I: One", "Part I", "One"), ("Two", "Part I", "Two"), ("c", "Part I", "Two"),
    ]  # fmt: skip
    contents = [(1, "Part I", ""), (2, "One", "c1.xhtml"), (2, "Two", "c2.xhtml")]
    found = places(Book(CHAPTERS, contents))
    assert found[0] == ("One", "One", None)
    assert found[2] == ("Inner", "One", "Inner")
    assert found[-1] == ("c", "Two", None)


def test_pages_outside_contents_are_placed_by_headings():
    pages = {
        "front.xhtml": page("<p>zero</p>"),
        "c1.xhtml": page("<h2>One</h2><p>a</p>"),
        "c1b.xhtml": page("<p>b</p><h3>Inner</h3><p>c</p>"),
        "c2.xhtml": page("<h2>Two</h2><p>d</p>"),
    }

    assert places(Book(pages, [(1, "Listed", "c1.xhtml")])) == [
        ("zero", None, None), ("One", "One", None), ("a", "One", None), ("b", "One", None),
        ("Inner", "One", "Inner"), ("c", "One", "Inner"), ("Two", "Two", None),
        ("d", "Two", None),
    ]  # fmt: skip


def test_epub_headings_below_the_listed_one_are_sections():
    body = "<h1>1. The start</h1><p>a</p><h2>Inner</h2><p>b</p><h3>The start</h3>"
    book = Book({"a.xhtml": page(body)}, [(1, "1. The start", "a.xhtml")])
    assert [(text, section) for text, _, section in places(book)] == [
        ("1. The start", None), ("a", None), ("Inner", "Inner"), ("b", "Inner"),
        ("The start", "Inner"),
    ]  # fmt: skip

    body = "<h1>1</h1><h2>The start</h2><p>a</p>"
    book = Book({"a.xhtml": page(body)}, [(1, "1. The start", "a.xhtml")])
    assert places(book) == [
        ("1", "1", None), ("The start", "1", "The start"), ("a", "1", "The start"),
    ]  # fmt: skip


def test_epub_navigation_page_is_kept_without_lists():
    nav = nav_page([(1, "The end", "c2.xhtml")], before="<p>before</p>", after="<p>after</p>")
    book = Book({"nav.xhtml": nav, **CHAPTERS}, item={"nav.xhtml": 'properties="nav"'})
    assert texts(book)[:3] == ["before", "after", "One"]
    assert places(book)[-1] == ("c", "Two", None)


def test_lists_of_contents_on_pages_are_marked():
    lists = {
        "type": "<section epub:type='toc'><h1>Contents</h1><p>One</p><p>Two</p></section>",
        "links": "<p><a href='c1.xhtml'>One</a></p><p>2. <a href='c2.xhtml#x'>Two</a></p>",
        "heading": "<h2>Inhalt</h2><p>One</p><p>Two</p>",
        "table": "<table><tr><td>1</td><td><a href='c1.xhtml'>One</a></td></tr>"
        "<tr><td>2</td><td><a href='c2.xhtml'>Two</a></td></tr></table>",
        "class": "<div class='x toc'><p>One</p><ul><li>Two</li></ul></div>",
        "role": "<div role='doc-index'><p>Two</p></div>",
    }
    toc = [(1, "Contents", "toc.xhtml"), *CONTENTS]
    for name, body in lists.items():
        pages = {"toc.xhtml": page(body), "mid.xhtml": page("<p>Front.</p>"), **CHAPTERS}
        found = loaded(Book(pages, toc)).blocks

        count = next(place for place, block in enumerate(found) if block.text == "Front.")
        marks = [block.is_contents for block in found]
        assert marks == [True] * count + [False] * (len(found) - count), name
        assert found[count].chapter is None, name


def test_heading_that_links_back_to_the_contents_is_text():
    back = page(
        "<p><a href='toc.xhtml#c1'>Chapter One</a></p><p id='n'>a</p><p><a href='#n'>b c</a></p>"
    )
    listed = page("<p id='c1'><a href='c1.xhtml'>Chapter One</a></p>")
    found = loaded(Book({"toc.xhtml": listed, "c1.xhtml": back})).blocks
    assert [block.is_contents for block in found] == [True, False, False, False]


# What else a page holds


@proves("figures.diagnostic-counts")
def test_epub_missing_pictures_are_counted():
    body = (
        "<p>a <img src='../i/p%20q.png' alt='A'/>b<img src='../i/gone.png'/></p>"
        "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink'>"
        "<text>drawn</text><image xlink:href='../i/p q.png'/></svg><p><img src='http://x.y/z'/></p>"
    )
    book = Book({"t/a.xhtml": page(body)}, members={"OEBPS/i/p q.png": PNG})

    found = loaded(book, images=True)

    assert found.images == (Image("png", PNG),)
    assert found.pictures == PictureCounts(blips=4, rels_total=4, rels_mapped=3, zip_member_miss=1)
    assert found.blocks[0].text == "a b"
    assert found.blocks[0].figures == (
        PlacedFigure(2, Figure("A", "OEBPS/i/p q.png", 0)),
        PlacedFigure(3, Figure("", "OEBPS/i/gone.png")),
    )
    assert [block.figures[0].figure.image for block in found.blocks[1:]] == [0, None]
    assert loaded(book).images == ()
    assert loaded(book).pictures == found.pictures


def test_epub_picture_type_comes_from_the_package():
    media = 'media-type="image/jpeg"'
    book = Book(
        {"a.xhtml": page("<img src='p.bin'/>")},
        item={"p.bin": media},
        members={"OEBPS/p.bin": b"jpeg"},
    )
    assert loaded(book, images=True).images == (Image("jpg", b"jpeg"),)


@pytest.mark.parametrize("body", ["<p>a</p>", "<img src='cover.png'/><p>a</p>"])
def test_cover_is_kept_once_even_on_no_page(body: str):
    book = Book(
        {"a.xhtml": page(body)},
        item={"cover.png": 'properties="cover-image"'},
        members={"OEBPS/cover.png": PNG},
    )
    found = loaded(book, images=True)
    assert (found.pictures.blips, found.images) == (1, (Image("png", PNG),))


def test_drawings_and_pictures_as_pages_are_counted():
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'><text>drawn</text></svg>"
    book = Book({"a.svg": drawing, "b.png": PNG, "c.xhtml": ONE})
    found = loaded(book, images=True)
    assert [block.text for block in found.blocks] == ["", "", "One", "First."]
    assert [image.extension for image in found.images] == ["svg", "png"]


def test_printed_pages_begin_at_their_exact_place():
    body = (
        "<p>one <span epub:type='pagebreak' title='7'/>two</p>"
        "<div role='doc-pagebreak' aria-label='Page 8.'/><p>three</p>"
        "<p>four<a epub:type='pagebreak'>9</a></p><span epub:type='pagebreak' title='xi'/>"
    )
    book = Book({"a.xhtml": page(body + "<hr epub:type='pagebreak' title='10'/>"), "b.xhtml": ONE})
    assert [(block.text, block.pages) for block in loaded(book).blocks] == [
        ("one two", (PageStart(4, 7),)), ("three", (PageStart(0, 8),)),
        ("four", (PageStart(4, 9),)), ("One", (PageStart(0, 10),)), ("First.", ()),
    ]  # fmt: skip


@pytest.mark.parametrize(("alt", "kept"), [
    ("OEBPS/i/a.png", ""), ("../i/a.png", ""), ("i/A.PNG", ""), ("a.png", ""), ("a", "a"),
    ("b.png", "b.png"), ("a.png of it", "a.png of it"),
])  # fmt: skip
def test_file_name_is_not_the_description_of_a_picture(alt: str, kept: str):
    body = page(f"<p>word <img src='../i/a.png' alt='{alt}'/></p>")
    book = Book({"t/a.xhtml": body}, members={"OEBPS/i/a.png": PNG})
    (block,) = loaded(book).blocks
    assert [placed.figure.alt for placed in block.figures] == [kept]


def test_epub_hidden_footnotes_stay_in_place():
    body = (
        "<p>a<a href='#n'>1</a></p><aside epub:type='footnote' id='n' hidden=''><p>note</p></aside>"
        "<ol><li role='doc-endnote'>end</li></ol><p>b</p>"
    )
    assert [(block.kind, block.text) for block in loaded(Book({"a.xhtml": page(body)})).blocks] == [
        (BlockKind.PARAGRAPH, "a1"), (BlockKind.FOOTNOTE, "note"), (BlockKind.FOOTNOTE, "1. end"),
        (BlockKind.PARAGRAPH, "b"),
    ]  # fmt: skip


def test_properties_come_from_the_package():
    metadata = (
        "<dc:title> The\n book </dc:title><dc:title>Other</dc:title><dc:creator>B</dc:creator>"
        "<dc:creator>A</dc:creator><dc:language>fr</dc:language><dc:subject>s</dc:subject>"
        "<dc:date opf:event='modification'>2001</dc:date><dc:date>1999</dc:date>"
        "<dc:description>&lt;p&gt;about&lt;/p&gt;</dc:description><dc:publisher>P</dc:publisher>"
        "<meta property='dcterms:modified'>2020</meta>"
    )

    found = loaded(Book({"a.xhtml": ONE}, metadata=metadata))

    assert found.title == "The book"
    assert found.properties == Properties(
        title="The book", authors=("B", "A"), language="fr", created="1999", modified="2001",
        keywords=("s",), description="about", publisher="P",
    )  # fmt: skip


# Protection and harm


def encryption(algorithm: str, member: str) -> dict[str, str]:
    """Return the file that names the encrypted members and their methods."""
    return {
        "META-INF/encryption.xml": (
            "<encryption xmlns:enc='http://www.w3.org/2001/04/xmlenc#'><enc:EncryptedData>"
            f"<enc:EncryptionMethod Algorithm='{algorithm}'/><enc:CipherData>"
            f"<enc:CipherReference URI='{member}'/></enc:CipherData></enc:EncryptedData>"
            "</encryption>"
        )
    }


def test_book_with_encrypted_pages_is_refused():
    with raises_code("source_encrypted"):
        loaded(
            Book(
                {"a b.xhtml": ONE},
                members=encryption(
                    "http://www.w3.org/2001/04/xmlenc#aes256-cbc", "OEBPS/a%20b.xhtml"
                ),
            )
        )


@pytest.mark.parametrize(("algorithm", "member"), [
    ("http://www.idpf.org/2008/embedding", "OEBPS/a.xhtml"),
    ("http://ns.adobe.com/pdf/enc#RC", "OEBPS/font.otf"),
    ("http://www.w3.org/2001/04/xmlenc#aes256-cbc", "OEBPS/font.otf"),
])  # fmt: skip
def test_font_obfuscation_hides_no_word(algorithm: str, member: str):
    book = Book({"a.xhtml": ONE}, members=encryption(algorithm, member))
    assert texts(book) == ["One", "First."]


@proves("loader.archive-limits")
@pytest.mark.parametrize("member", ["OEBPS/a.xhtml", "OEBPS/content.opf", "META-INF/container.xml"])
def test_custom_entities_make_a_book_unsafe(member: str):
    trap = "<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><x xmlns='y'>&b;</x>"
    with raises_code("source_unsafe"):
        loaded(Book({"a.xhtml": ONE}, members={member: trap}))


@examples(150)
@given(st.data())
def test_damaged_book_becomes_blocks_or_a_refusal(data: st.DataObject):
    files = {"a.xhtml": ONE, "b.xhtml": nav_page(CONTENTS)}
    member = data.draw(
        st.sampled_from(["OEBPS/content.opf", "OEBPS/nav.xhtml", "OEBPS/a.xhtml", "OEBPS/b.xhtml"])
    )
    book = Book(files, CONTENTS, members={member: data.draw(st.binary(max_size=80))})
    content = bytearray(book.data())
    for place, value in data.draw(
        st.dictionaries(st.integers(0, 4000), st.integers(0, 255))
    ).items():
        content[place % len(content)] = value

    with contextlib.suppress(SourceRefused):
        load_epub("book.epub", bytes(content), images=True)


def test_page_under_many_ids_is_read_once():
    # The same address, written in ways that differ.
    same = [f"{'./' * number}a.xhtml" for number in range(1, 40)]
    media = dict.fromkeys(same, 'media-type="application/xhtml+xml"')
    book = Book({"a.xhtml": ONE, "b.xhtml": TWO}, item=media, spine=["a.xhtml", *same, "b.xhtml"])
    assert texts(book) == ["One", "First.", "Two", "Second."]
