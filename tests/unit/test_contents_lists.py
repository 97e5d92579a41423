"""Contents lists, recognised by their form and their headings."""

import re
from collections.abc import Callable, Sequence
from random import Random

import pytest

from tests.support import docx_maker
from tests.support.epub_maker import Book, nav_page
from truespan.ingest.canonical import assemble
from truespan.parsing import load
from truespan.types.text import Block, BlockKind, PageStart, contents_start

PROSE = (
    "It had rained since the morning, and nobody in the house could remember when it had\n"
    "last been dry; the river stood in the garden, and the cat sat on the stairs and would\n"
    "not be talked to."
)


def lists_in(name: str, text: str | bytes) -> list[str]:
    """Return the text of the blocks that were detected as parts of a list."""
    data = text.encode() if isinstance(text, str) else text
    return [block.text for block in load(name, data).blocks if block.is_contents]


CHAPTERS = ["Chapter 1 THE RIVER", "Chapter 2 THE HILL", "Chapter 3 THE SEA"]
TEXTS: dict[str, tuple[list[str], int]] = {
    "announced": (["PETER PAN", "Contents:", *CHAPTERS, CHAPTERS[0], PROSE], 4),
    "in one paragraph": (["THE BOOK", "CONTENTS\n" + "\n".join(CHAPTERS), CHAPTERS[0], PROSE], 1),
    "below its title": (["THE BOOK", "CONTENTS", "\n".join(CHAPTERS), CHAPTERS[0], PROSE], 2),
    "titles only": (
        ["CONTENTS", "The River\nThe Hill\nThe Open Sea\nA Death", "THE RIVER", PROSE],
        2,
    ),
    "titles of one line": (["CONTENTS", "The River", "The Hill", "THE RIVER", PROSE], 3),
    "not announced": (["THE BOOK", *CHAPTERS, CHAPTERS[0], PROSE], 2),
    "lines, not announced": (["THE BOOK", "\n".join(CHAPTERS), CHAPTERS[0], PROSE], 1),
    "dots": (["The River ..... 1\nThe Hill . . . . . 7\nThe Sea ______ xii", PROSE], 1),
    "dots, a line each": (["The River ..... 1", "The Hill . . . . 7", "The Sea … … … 9", PROSE], 2),
    "a chapter with dots": (["THE BOOK", "Chapter 1 The River ........ 3", PROSE], 1),
    "plates": (["LIST OF PLATES", "He falls from the ship. 112", "She dies. 200", PROSE], 3),
    "sentences": (["ILLUSTRATIONS", "He falls from the ship.", "She dies of it.", PROSE], 3),
    "spaced letters": (["C O N T E N T S", "The River", PROSE], 2),
    "decorated": (["_Contents._", "The River", PROSE], 2),
    "German": (["Inhaltsverzeichnis", "Der Fluss", "Die Flut", PROSE], 3),
    "French": (["TABLE DES MATIÈRES", "Le Fleuve", "La Crue", PROSE], 3),
    "Russian": (["ОГЛАВЛЕНИЕ", "Глава 1", "Глава 2", PROSE], 3),
    "Japanese": (["目次", "一　川", "二　丘", PROSE], 3),
    "of a volume": (["CONTENTS OF THE SECOND VOLUME", "The River", PROSE], 2),
    "a name twice": (["CONTENTS", "The River", "Interlude", "The Hill", "Interlude", PROSE], 5),
    "old titles": (
        ["CONTENTS", "How he came to town\nWhat the cat said\nOf the great flood", PROSE],
        2,
    ),
    "pages": (["CONTENTS", "Of the flood\n  and the cat 12\nof ships 14\nof men 20", PROSE], 2),
    "prose below the word": ([f"Contents\n{PROSE}", PROSE], 0),
    "no list": (["THE BOOK", CHAPTERS[0], PROSE, CHAPTERS[1], PROSE], 0),
    "speech after it": (["CONTENTS", "The River", "The Hill", "“Who is it?” she asked.", PROSE], 3),
    "prose after it": (["CONTENTS", "The River", "The Hill", "He said nothing to her.", PROSE], 3),
    "a dedication": (["CONTENTS", "The River", "The Hill\n\n\n", "To Ann", PROSE], 3),
    "the word in prose": (["He described the contents.", PROSE, "Contents may vary.", PROSE], 0),
    "a recipe": (["1. Mix the flour\n2. Add the eggs\n3. Bake", PROSE], 0),
    "verse": (["All the world’s a stage,\nAnd all the men\nAnd women merely players", PROSE], 0),
}


def test_lists_in_plain_text_are_recognised():
    wrong = {
        name: found
        for name, (paragraphs, count) in TEXTS.items()
        if len(found := lists_in("book.txt", "\n\n".join(paragraphs))) != count
    }
    assert wrong == {}


def test_contents_line_does_not_depend_on_later_text():
    for name, (paragraphs, _) in TEXTS.items():
        whole = load("book.txt", "\n\n".join(paragraphs).encode()).blocks
        for count in range(1, len(paragraphs)):
            begun = load("book.txt", "\n\n".join(paragraphs[:count]).encode()).blocks
            same = [b.is_contents for b in begun] == [b.is_contents for b in whole[: len(begun)]]
            assert same, (name, count)


ROW = "<tr><td>{}</td><td>{}</td></tr>"
PAGES: dict[str, tuple[str, int]] = {
    "class": ("<div class='x toc'><p>One</p><ul><li>Two</li></ul></div>", 2),
    "id": ("<ul id='toc'><li>One</li><li>Two</li></ul>", 2),
    "role": ("<section role='doc-index'><p>Two</p></section>", 1),
    "type": ("<section epub:type='loi'><h2>Plates</h2><p>One</p></section>", 2),
    "blurb": ("<div class='blurb'><p>In the end she dies.</p></div>", 1),
    "heading": ("<h2>Contents</h2><p>One</p><ul><li>Two</li></ul><h2>One</h2>", 3),
    "headings": ("<h2>Contents</h2><h3>Chapter 1</h3><h3>Chapter 2</h3><h2>Chapter 1</h2>", 3),
    "headings again": ("<h2>Contents</h2><h3>One</h3><h3>Two</h3><h3>One</h3><p>Text</p>", 3),
    "lines": ("<h2>Inhalt</h2><p>One<br>Two<br>Three<br>Four</p>", 2),
    "links": ("<p><a href='#a'>One</a></p><p>2. <a href='#b'>Two</a></p>", 1),
    "linked headings": ("<h3><a href='#a'>One</a></h3><h3><a href='#b'>Two</a></h3>", 1),
    "table": (f"<table>{ROW.format('Chapter 1', 'One') * 3}</table>", 1),
    "linked table": (f"<table>{ROW.format('1', '<a href=#a>One</a>')}</table>", 1),
    "summary": ("<details><summary>Contents</summary><ul><li>One</li></ul></details>", 2),
    "a link to itself": (
        "<h2 id='a'><a href='#a'>One</a></h2><h2 id='b'><a href='#b'>Two</a></h2>",
        0,
    ),
    "links back": ("<p id='a'>One</p><p><a href='#a'>One</a></p><p><a href='#a'>One</a></p>", 0),
    "links elsewhere": (
        "<ul><li><a href='x.html'>One</a></li><li><a href='/y#a'>Two</a></li></ul>",
        0,
    ),
    "links in prose": (
        "<p>He <a href='#a'>died</a> of it.</p><p>She <a href='#b'>too</a> died.</p>",
        0,
    ),
    "a heading of that class": ("<h2 class='toc'>One</h2><p>Text.</p>", 0),
}


def test_lists_in_pages_are_recognised():
    wrong = {
        name: found
        for name, (body, count) in PAGES.items()
        if len(found := lists_in("book.html", f"<html><body><h1>Book</h1>{body}<p>{PROSE}"))
        != count
    }
    assert wrong == {}


FIELD = docx_maker.r('<w:fldChar w:fldCharType="begin"/>') + docx_maker.r(
    "<w:instrText>TOC</w:instrText>"
)
FIELD += docx_maker.r('<w:fldChar w:fldCharType="separate"/>')
DOCUMENTS: dict[str, tuple[str, int]] = {
    "styles": (docx_maker.p("Contents", style="TOCHeading") + docx_maker.p("One", style="TOC1"), 2),
    "localised styles": (
        docx_maker.p("One", style="Verzeichnis1") + docx_maker.p("Two", style="Verzeichnis1"),
        2,
    ),
    "index": (docx_maker.p("Ann, 12", style="Index1"), 1),
    "heading": (
        docx_maker.p("Contents", style="Heading1") + docx_maker.p("One") + docx_maker.p("Two"),
        3,
    ),
    "an open field": (
        docx_maker.p(FIELD + docx_maker.r("One")) + docx_maker.p("Two") + docx_maker.p(PROSE),
        2,
    ),
    "simple field": (
        docx_maker.p('<w:fldSimple w:instr=" TOC ">' + docx_maker.r("One") + "</w:fldSimple>"),
        1,
    ),
    "links": (
        docx_maker.p('<w:hyperlink w:anchor="_Toc1">' + docx_maker.r("One") + "</w:hyperlink>"),
        1,
    ),
    "other links": (
        docx_maker.p('<w:hyperlink w:anchor="_Ref1">' + docx_maker.r("One") + "</w:hyperlink>"),
        0,
    ),
}


def test_lists_in_docx_files_are_recognised():
    styles = docx_maker.style("Verzeichnis1", "toc 1") + docx_maker.style("Heading1", "heading 1")
    wrong = {}
    for name, (body, count) in DOCUMENTS.items():
        file = docx_maker.docx(
            body + docx_maker.p("One", style="Heading1") + docx_maker.p(PROSE), styles=styles
        )
        if len(found := lists_in("book.docx", file)) != count:
            wrong[name] = found
    assert wrong == {}


def paragraph(
    text: str, *pages: int, is_contents: bool = False, chapter: str | None = None
) -> Block:
    starts = tuple(PageStart(0, page) for page in pages)
    return Block(BlockKind.PARAGRAPH, text, chapter, pages=starts, is_contents=is_contents)


def test_contents_lists_move_to_the_end_and_keep_their_pages():
    canonical = assemble(
        [
            paragraph("Title.", 1), paragraph("One. Two.", 2, is_contents=True),
            paragraph("Three.", is_contents=True), paragraph("Dedication."),
            paragraph("Plates.", 3, is_contents=True), paragraph("Once.", 4, chapter="One"),
        ]
    )  # fmt: skip

    assert canonical.text == "Title.\n\nDedication.\n\nOnce.\n\nOne. Two.\n\nThree.\n\nPlates."
    found = {word: canonical.page_at(canonical.text.index(word)) for word in canonical.text.split()}
    assert found == {
        "Title.": 1, "Dedication.": 2, "Once.": 4, "One.": 2, "Two.": 2, "Three.": 2, "Plates.": 3
    }  # fmt: skip
    start = contents_start(list(zip(canonical.starts, canonical.places, strict=True)))
    assert start == canonical.text.index("One. Two.")


def test_label_without_visible_characters_begins_no_list():
    canonical = assemble(
        [paragraph("One.", chapter="A"), paragraph("Two.", chapter="\u200b"), paragraph("Three.")]
    )
    assert contents_start(list(zip(canonical.starts, canonical.places, strict=True))) is None
    assert canonical.place_at(len(canonical.text) - 1).chapter == "A"


@pytest.mark.parametrize("is_contents", [False, True])
def test_contents_finder_keeps_uniform_text(is_contents: bool):
    blocks = [paragraph(text, is_contents=is_contents) for text in ("One.", "Two.", "Three.")]
    canonical = assemble(blocks)
    assert canonical == assemble([paragraph(text) for text in ("One.", "Two.", "Three.")])


FRAGMENTS: Sequence[str] = (
    "<h2>Contents</h2>", "<h3>Chapter 1</h3>", "<h3>Chapter 2: The Sea</h3>", "<h2 id='b'>One</h2>",
    "<p>Chapter 1</p>", "<p>Chapter 2</p>", "<p>The Sea ..... 7</p>", "<p>The Hill ..... 9</p>",
    "<p><a href='#b'>One</a></p>", "<p><a href='#c'>Two</a></p>", "<ul><li>Chapter 3</li></ul>",
    "<p>One</p>", "<p>He said so.</p>", "<p>Inhalt</p>", f"<p>{PROSE}</p>",
    "<div class='toc'>x</div>", "<p><a href='p7.html'>Later</a></p>",
    "<p>Chapter 1<br>Chapter 2<br>Chapter 3</p>", "<table><tr><td>Part 1<td>Rain</table>",
)  # fmt: skip


def as_html(parts: list[str]) -> tuple[str, bytes]:
    return "book.html", f"<html><body>{''.join(parts)}</body></html>".encode()


def as_epub(parts: list[str]) -> tuple[str, bytes]:
    pages = {f"p{number}.html": part for number, part in enumerate(parts)}
    # The contents name all pages, also those that follow.
    toc = [(1 + n % 2, "The Sea" if n % 3 else "Nowhere", f"p{n}.html") for n in range(12)]
    return "book.epub", Book({**pages, "nav.xhtml": nav_page(toc)}, spine=[*pages]).data()


def as_docx(parts: list[str]) -> tuple[str, bytes]:
    body = "".join(
        docx_maker.p(re.sub("<[^>]*>", " ", part).strip(), style="Heading1" * part.startswith("<h"))
        for part in parts
    )
    return "book.docx", docx_maker.docx(body, styles=docx_maker.style("Heading1", "heading 1"))


@pytest.mark.parametrize("make", [as_html, as_epub, as_docx])
def test_page_blocks_do_not_depend_on_later_text(make: Callable[[list[str]], tuple[str, bytes]]):
    def blocks(parts: list[str]) -> list[tuple[str, str | None, str | None, bool]]:
        found = load(*make(parts)).blocks
        return [(b.text, b.chapter, b.section, b.is_contents) for b in found]

    random = Random(7)
    for _ in range(25):
        parts = [random.choice(FRAGMENTS) for _ in range(9)]
        whole = blocks(parts)
        for count in range(1, len(parts)):
            begun = blocks(parts[:count])
            assert whole[: len(begun)] == begun, parts
