"""Notes of a page: their marks and backlinks."""

import pytest

from truespan.parsing.formats.html import load_html
from truespan.types.text import BlockKind


def kinds(page: str) -> list[tuple[BlockKind, str]]:
    blocks = load_html("page.html", page.encode(), images=False).blocks
    return [(block.kind, block.text) for block in blocks]


def text(page: str) -> str:
    """Return the text of the only block."""
    ((_, found),) = kinds(page)
    return found


@pytest.mark.parametrize(("mark", "shown"), [
    ("<a href='#n'><sup>i</sup></a>", "[i]"), ("<sup><a href='#n'>12</a></sup>", "[12]"),
    ("<sup><a href='notes.html#n'>a</a></sup>", "[a]"), ("<a href='#n'><sup>[3]</sup></a>", "[3]"),
    ("<a href='#n'><sup>(3)</sup></a>", "[3]"), ("<sup>[<a href='#n'>3</a>]</sup>", "[3]"),
    ("<sup><a href='#n'><span>[</span>3<span>]</span></a></sup>", "[3]"),
    ("<a href='#n'>²</a>", "[2]"), ("<a href='#n'><sup>†</sup></a>", "[†]"),
    ("<a role=doc-noteref href='#n'>*</a>", "[*]"), ("<a epub:type=noteref href='#n'>1</a>", "[1]"),
    ("<a class='x footnote-ref' href='#n'>1</a>", "[1]"),
    ("<sup><a href='#n'>1</a>,<a href='#m'>2</a></sup>", "[1],[2]"),
    ("<a href='#n'> <sup>1</sup> </a>", " [1]"),
])  # fmt: skip
def test_note_mark_is_separated_from_its_word(mark: str, shown: str):
    assert text(f"<p>word{mark} goes") == f"word{shown} goes"


@pytest.mark.parametrize(("markup", "shown"), [
    ("mc<sup>2</sup>", "mc2"), ("1<sup>st</sup>", "1st"), ("Figure <a href='#f'>1</a>", "Figure 1"),
    ("10<sup><a href='https://example.org/#n'>6</a></sup>", "106"),
    ("<a href='#n'><sup>word</sup></a>", "word"),
    ("<a role=doc-noteref href='#n'>see the note</a>", "see the note"),
    ("<a role=doc-noteref href='#n'>1<br>2</a>", "1\n2"), ("<a href='/up'>^</a>", "^"),
    ("<pre>x<a href='#n'><sup>1</sup></a></pre>", "x1"),
])  # fmt: skip
def test_html_other_links_are_unchanged(markup: str, shown: str):
    assert text(f"<div>{markup}</div>") == shown


@pytest.mark.parametrize("sign", ["↩", "↩︎", "↩️", "↑", "^", " ↩ ", "↩<sup>2</sup>"])
def test_backlink_of_a_note_is_omitted(sign: str):
    assert text(f"<p>The note. <a href='#r'>{sign}</a></p>") == "The note."


@pytest.mark.parametrize("says", ["role=doc-backlink", "epub:type=backlink"])
def test_back_link_is_left_out_unless_too_long(says: str):
    assert text(f"<p>The note. <a {says} href='#r'>Return</a></p>") == "The note."
    assert text(f"<p>Look. <a {says} href='#r'>{'much ' * 10}</a></p>").endswith("much much")


@pytest.mark.parametrize("mark", [
    "<a class=sdfootnotesym href='#r'>1</a>", "<a class=sdendnotesym href='#r'>1</a>",
    "<sup><a href='#r'>1</a></sup>", "<a href='#r'><sup>1</sup></a> ",
    "<a role=doc-backlink href='#r'>1</a>",
])  # fmt: skip
def test_html_note_mark_is_separated_from_its_text(mark: str):
    assert text(f"<p> <span>{mark}Volumes") == "[1] Volumes"


def test_link_at_the_beginning_of_a_note_is_its_mark():
    page = "<aside role=doc-footnote><a href='#r'>1</a>Volumes <a href='#s'>2</a></aside>"
    assert text(page) == "[1] Volumes 2"


@pytest.mark.parametrize("page", [
    "<div id=sdfootnote12><p>note</p></div>", "<div id=sdendnote1><p>note</p></div>",
    "<div class='footnotes footnotes-end-of-block'><hr><p>note</p></div>",
    "<section class=footnotes><p>note</p></section>",
])  # fmt: skip
def test_html_notes_of_common_programs_are_found(page: str):
    found = kinds(f"<p>before</p>{page}<p>after</p>")
    assert found == [
        (BlockKind.PARAGRAPH, "before"),
        (BlockKind.FOOTNOTE, "note"),
        (BlockKind.PARAGRAPH, "after"),
    ]


@pytest.mark.parametrize(
    "page", ["<div class=footnotes><ol>{}</ol></div>", "<ol class=footnotes>{}</ol>"]
)
def test_notes_in_a_list_keep_their_numbers(page: str):
    items = "<li>one <a href='#r'>↩</a></li><li>two</li>"
    assert kinds(page.format(items) + "<ul><li>item</ul>") == [
        (BlockKind.FOOTNOTE, "1. one"), (BlockKind.FOOTNOTE, "2. two"), (BlockKind.LIST, "- item"),
    ]  # fmt: skip


def test_html_note_marks_are_separated_and_keep_blocks():
    page = "<p>a<a role=doc-noteref href='#n'>1<img src=i.png></a>b</p>"
    (block,) = load_html("page.html", page.encode(), images=False).blocks
    assert (block.text, [found.offset for found in block.figures]) == ("a1b", [2])
    assert [shown for _, shown in kinds("a<a role=doc-noteref href='#n'>1<p>2</p>3</a>b")] == [
        "a1", "2", "3b",
    ]  # fmt: skip
    mark = "<sup><a href='#n'>1</a></sup>"
    assert text(f"<p>a{mark * 20_000}") == "a" + "[1]" * 20_000
