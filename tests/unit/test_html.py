"""HTML: the visible main text as blocks with chapters and sections."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.support.rows import each_row
from truespan.errors import SourceRefused
from truespan.parsing import load
from truespan.parsing.formats.html import load_html
from truespan.types.text import Block, BlockKind, Loaded, Properties


def loaded(page: str | bytes, *, images: bool = False) -> Loaded:
    return load_html("page.html", page.encode() if isinstance(page, str) else page, images=images)


def texts(page: str | bytes) -> list[str]:
    return [block.text for block in loaded(page).blocks]


def kinds(page: str) -> list[tuple[BlockKind, str]]:
    return [(block.kind, block.text) for block in loaded(page).blocks]


def places(page: str) -> list[tuple[str, str | None, str | None]]:
    return [(block.text, block.chapter, block.section) for block in loaded(page).blocks]


# White space


@pytest.mark.parametrize(("page", "text"), [
    ("<p>one\n\t two   three </p>", "one two three"),
    ("<p>a<b>b</b><i> c</i> <u> d</u></p>", "ab c d"), ("<p> <b> a</b> </p>", "a"),
    ("<p>a&nbsp; b</p>", "a\xa0 b"), ("<p>a<br>b <br/> c</br>d</p>", "a\nb\nc\nd"),
    ("<p><br>a<br><br><br>b<br></p>", "a\n\nb"), ("<p>a<wbr>b<!-- c -->d</p>", "abd"),
    ("<p>x<sup>2</sup> H<sub>2</sub>O</p>", "x2 H2O"),
    ("<p>&lt;b&gt; &amp;amp; &eacute;&#8212;&#x80;</p>", "<b> &amp; é—€"),
    ("<p>name: <input> <label>age</label><input>years</p>", "name: age years"),
    ("<p>she said <q>no</q></p>", "she said “no”"),
])  # fmt: skip
def test_html_white_space_matches_a_browser(page: str, text: str):
    assert texts(page) == [text]


@each_row(("page", "expected"), [
    ("zero<div>one<div>two</div>three <span style='display: block'>four</span></div><hr>five",
     ["zero", "one", "two", "three", "four", "five"]),
    ("<dl><dt>term<dd>one<dd>two<dt>other</dl>", ["term", "  one", "  two", "other"]),
    ("<div>a <svg><g><div>drawn</div></g></svg> b</div>", ["a b"]),
    ("<table>a<tr>b<td>c<td>d</td>e<td>f<tr>g<td>h</table>", ["a\nb\nc | d\ne\nf\ng\nh"]),
    ("<ruby>漢<rt>kan</rt>字<rt>ji</rt></ruby>", ["漢(kan)字(ji)"]),
    ("<ruby>漢<rp>（</rp><rt>kan</rt><rp>）</rp></ruby>", ["漢（kan）"]),
    # The main part is chosen, with the title before it and all articles.
    ("<h1>Title</h1><p>other</p><main>text text</main>", ["Title", "text text"]),
    ("<p>zero</p><article>one</article><article>two</article>", ["zero", "one", "two"]),
    ("<header><h1>Title</h1><p>by her</p><nav>menu</nav></header><p>text</p>",
     ["Title", "by her", "text"]),
])  # fmt: skip
def test_html_text_is_read(page: str, expected: list[str]):
    assert texts(page) == expected


def test_code_is_kept_unchanged():
    page = "<pre>\n  if <b>x</b>:\n\n\ty<br>z</pre>a<pre><div>one</div><div> two</div></pre>"
    assert kinds(page) == [
        (BlockKind.CODE, "  if x:\n\n\ty\nz"),
        (BlockKind.PARAGRAPH, "a"),
        (BlockKind.CODE, "one\n two\n"),
    ]


# Kinds


def test_each_block_has_its_kind():
    page = (
        "<h2>head</h2><p>text</p><blockquote><p>quote<h3>no heading</h3></blockquote>"
        "<figure><figcaption>caption</figcaption></figure><div role=heading aria-level=3>role</div>"
        "<aside role=doc-footnote>note</aside><details><summary>more</summary>inside</details>"
    )

    assert kinds(page) == [
        (BlockKind.HEADING, "head"), (BlockKind.PARAGRAPH, "text"), (BlockKind.QUOTE, "quote"),
        (BlockKind.QUOTE, "no heading"), (BlockKind.CAPTION, "caption"),
        (BlockKind.HEADING, "role"), (BlockKind.FOOTNOTE, "note"), (BlockKind.PARAGRAPH, "more"),
        (BlockKind.PARAGRAPH, "inside"),
    ]  # fmt: skip


def test_list_items_have_their_marks_and_are_indented_by_level():
    page = "<ul><li>one<br>on<li>two<ol><li>first<p>below</ol><li><p>three</ul>"
    assert {kind for kind, _ in kinds(page)} == {BlockKind.LIST}
    assert texts(page) == ["- one\n  on", "- two", "  1. first", "    below", "- three"]


@pytest.mark.parametrize(("page", "marks"), [
    ("<ol start=7><li>x<li>x</ol>", "7. 8."), ("<ol><li>x<li value=5>x<li>x</ol>", "1. 5. 6."),
    ("<ol reversed><li>x<li>x<li>x</ol>", "- - -"),
    ("<ol reversed start=3><li>x<li>x<li>x</ol>", "3. 2. 1."),
    ("<ol reversed start=3><li>x<li value=9>x<li>x</ol>", "3. 9. 8."),
    ("<ol type=a start=26><li>x<li>x</ol>", "z. aa."), ("<ol type=A><li>x</ol>", "A."),
    ("<ol type=i start=4><li>x</ol>", "iv."), ("<ol type=I start=1994><li>x</ol>", "MCMXCIV."),
    ("<ol type=i start=0><li>x</ol>", "0."), ("<ol start=99999999999999999999999><li>x</ol>", "1."),
    ("<div role=list><div role=listitem>x</div></div>", "-"), ("<li>x", "-"),
])  # fmt: skip
def test_ordered_lists_use_the_numbers_of_the_page(page: str, marks: str):
    assert texts(page) == [f"{mark} x" for mark in marks.split()]


def test_tables_become_rows_after_their_caption():
    page = (
        "<table><caption>Ages</caption><thead><tr><th>name<th>age</thead>"
        "<tr><td rowspan=2>Ada<td><p>36</p><p>then</p><tr><td colspan=2>Bob<td></table>"
    )
    assert kinds(page) == [
        (BlockKind.CAPTION, "Ages"),
        (BlockKind.TABLE, "name | age\nAda | 36 then\nBob |"),
    ]


@pytest.mark.parametrize("page", [
    "<table role=presentation><tr><td>one<td>two</table>", "<table><tr><td>one<tr><td>two</table>",
])  # fmt: skip
def test_layout_table_is_not_read_as_a_table(page: str):
    assert kinds(page) == [(BlockKind.PARAGRAPH, "one"), (BlockKind.PARAGRAPH, "two")]


@pytest.mark.parametrize(
    "content", ["<h1>Title</h1>", "<p>text</p>" * 600, "<pre>code</pre>"], ids=["h1", "long", "pre"]
)
def test_html_layout_table_is_not_a_table(content: str):
    found = [kind for kind, _ in kinds(f"<table><tr><td>menu<td>{content}</table>")]
    assert BlockKind.TABLE not in found


def test_table_within_a_table_remains_readable():
    inner = "<table><tr><td>a<td>b<tr><td>c<td>d</table>"
    assert kinds(f"<table><tr><td>one<td>{inner}</table>") == [
        (BlockKind.PARAGRAPH, "one"),
        (BlockKind.TABLE, "a | b\nc | d"),
    ]


# What is not shown


@pytest.mark.parametrize("element", [
    "<script>secret</script>", "<style>secret</style>", "<template><p>secret</p></template>",
    "<noscript>secret</noscript>", "<iframe>secret</iframe>", "<object>secret</object>",
    "<svg><text>secret</text><style>secret</style><foreignObject><p>secret</p></svg>",
    "<button>secret</button>", "<select><option>secret</select>", "<dialog>secret</dialog>",
    "<p hidden>secret</p>", "<p hidden='hidden'>secret<b>secret</b></p>",
    "<p aria-hidden=true>secret</p>", "<p style='color:red;DISPLAY : none !important'>secret</p>",
    "<p style='visibility:hidden'>secret</p>", "<input type=hidden value=secret>",
    "<!-- secret -->", "<nav>secret</nav>", "<div role=navigation>secret</div>",
    "<ul role=menu><li>secret</ul>", "<math><annotation>secret</annotation></math>",
])  # fmt: skip
def test_html_hidden_text_is_left_out(element: str):
    page = f"<head><title>secret</title></head><p>before</p>{element}<p>after</p>"
    assert texts(page) == ["before", "after"]


@pytest.mark.parametrize("element", [
    "<details>kept</details>", "<p hidden=until-found>kept</p>",
    "<p style='background:url(display.none)'>kept</p>", "<p aria-hidden=false>kept</p>",
    "<dialog open>kept</dialog>", "<header>kept</header>", "<footer>kept</footer>",
    "<aside>kept <a href=x>link</a> and more text</aside>", "<del>kept</del>",
    "<my-element>kept</my-element>", "<math><mi>kept</mi></math>",
    "<fieldset><legend>kept</legend></fieldset>",
])  # fmt: skip
def test_html_visible_text_is_kept(element: str):
    assert "kept" in " ".join(texts(f"<p>before</p>{element}<p>after</p>"))


@pytest.mark.parametrize(
    "page",
    ["<noscript>kept</noscript>", "<nav>kept</nav>", "<body style='display:none'>kept</body>"],
)
def test_html_lone_boilerplate_is_kept(page: str):
    assert texts(page) == ["kept"]


# The main text


@pytest.mark.parametrize(
    "main", ["<main>{}</main>", "<div role=main>{}</div>", "<article>{}</article>"]
)
def test_the_main_part_is_preferred(main: str):
    text = "<header><h2>Byline</h2></header>" + "<p>A sentence of the text.</p>" * 9
    page = f"<div>site name</div>{main.format(text)}<div>seen by others</div>"
    assert texts(page) == ["Byline", *["A sentence of the text."] * 9]


@pytest.mark.parametrize("part", ["<main>{}</main>", "<article>{}</article>"])
def test_nearly_empty_main_part_is_ignored(part: str):
    page = f"<p>{'The text of the page. ' * 20}</p>{part.format('little')}"
    assert len(texts(page)) == 2


@pytest.mark.parametrize("part", [
    "<header><a href=x>Name</a><nav>menu</nav></header>",
    "<footer><a href=x>Imprint</a> <a href=y>Privacy</a></footer>",
    "<footer>© 2024 somebody</footer>",
    "<aside><h3>See also</h3><a href=x>one thing</a> <a href=y>another thing</a></aside>",
])  # fmt: skip
def test_html_boilerplate_of_the_page_is_left_out(part: str):
    words = re.sub("<nav>.*</nav>|<[^>]*>", " ", part).split()
    assert texts(f"<p>text</p>{part}") == ["text"]
    assert " ".join(texts(f"<section><p>text</p>{part}</section>")).split() == ["text", *words]


# Places and properties


def test_html_headings_make_chapters_and_sections():
    assert places("<h1>T</h1>a<h2>A</h2>b<h3>B</h3>c<h2>C</h2>d") == [
        ("T", "T", None), ("a", "T", None), ("A", "A", None), ("b", "A", None), ("B", "A", "B"),
        ("c", "A", "B"), ("C", "C", None), ("d", "C", None),
    ]  # fmt: skip


@pytest.mark.parametrize("later", ["", "<h1>X</h1>", "<h2>X</h2><p>y</p>", "<h3>X</h3>"])
def test_html_places_do_not_depend_on_later_text(later: str):
    page = "<p>zero</p><h2>A</h2><p>one</p><h3>B</h3><p>two</p>"
    assert places(page + later)[:5] == places(page)


@pytest.mark.parametrize(("page", "title"), [
    ("<title>Declared</title><h1>Only\n<br>heading</h1>text", "Only heading"),
    ("<title> Declared\n title </title><h1>One</h1><h1>Two</h1>", "Declared title"),
    ("<title>Declared</title>text<h1>Late</h1>", "Declared"),
    ("<meta property=og:title content=Shared>text", "Shared"),
    ("<svg><title>drawn</title></svg>text", None), ("text", None),
])  # fmt: skip
def test_html_title_is_the_only_first_heading(page: str, title: str | None):
    assert loaded(page).title == title


def test_properties_come_from_the_head():
    head = (
        "<html lang=de-AT><title>T</title><meta name=Author content='A. One'>"
        "<meta name=dc.creator content=Two><meta property=article:author content=https://x.y/z>"
        "<meta name=description content=' about\n it '><meta name=keywords content='a, b,,a'>"
        "<meta property=article:published_time content=2020-01-02>"
        "<meta name=dcterms.modified content=2021><meta name=dc.publisher content=P><p>text"
    )

    assert loaded(head).properties == Properties(
        title="T", authors=("A. One", "Two"), language="de-AT", created="2020-01-02",
        modified="2021", keywords=("a", "b"), description="about it", publisher="P",
    )  # fmt: skip


# Laws and limits


WORD = re.compile("w[0-9]+")
SHOWN = ("p", "div", "span", "b", "a", "li", "ul", "ol", "td", "tr", "table", "h2", "blockquote")
MORE = ("pre", "dl", "dt", "dd", "section", "figure", "figcaption", "article", "main", "sup", "em")
UNSEEN = ("<script>{}</script>", "<p hidden>{}</p>", "<nav>{}</nav>", "<template>{}</template>")

elements = st.recursive(
    st.sampled_from(["w", " w ", "\n", "<br>", "<img src=x>", "&nbsp;", "w<wbr>", "w<hr>"]),
    lambda inner: st.one_of(
        st.builds(
            lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
            st.sampled_from(SHOWN + MORE),
            st.lists(inner, max_size=4),
        ),
        st.sampled_from(UNSEEN).map(lambda form: form.format("unseen")),
    ),
    max_leaves=25,
)


def numbered(page: str) -> str:
    """Give each word of a page its own number, so that none can stand for another."""
    numbers = iter(range(10_000))
    return re.sub(r"w(?=[\s<&]|$)", lambda _: f" w{next(numbers)} ", page)


@examples(300)
@given(st.lists(elements, max_size=6).map("".join))
def test_words_of_the_body_are_kept_once_in_order(body: str):
    page = numbered(re.sub("</?(?:main|article)>", "", body))
    expected = WORD.findall(re.sub("<[^>]*>", " ", page))
    text = "\n".join(texts(f"<body>{page}</body>"))
    assert WORD.findall(text) == expected
    assert ("unseen" in text) <= (not expected)


@examples(100)
@given(st.lists(elements, max_size=6).map("".join))
def test_offsets_are_ascending_within_their_text(body: str):
    for block in loaded(f"<body>{body}</body>").blocks:
        offsets = [figure.offset for figure in block.figures]
        assert offsets == sorted(offsets)
        assert all(0 <= offset <= len(block.text) for offset in offsets)
        assert block.text or block.figures


@examples(200)
@given(st.binary(max_size=200).map(lambda tail: b"<html><p>x" + tail) | st.binary(max_size=200))
def test_any_bytes_become_blocks_or_a_refusal(content: bytes):
    with contextlib.suppress(SourceRefused):
        loaded(content, images=True)


@pytest.mark.parametrize(
    "page",
    [
        b"<div>" * 5000 + b"the secret" + b"</div>" * 5000, b"<b>" * 50_000 + b"the secret",
        b"<table><tr><td>" * 1000 + b"the secret", b"<ul><li>" * 1000 + b"the secret",
        b"<p>" + b"<span>a</span>" * 50_000 + b"the secret",
        b"<p>" + b" " * 20_000_000 + b"the secret",
        b"<p " + b" ".join(b"a%d=1" % number for number in range(50_000)) + b">the secret",
        b"<html xmlns='x'>" + b"<![CDATA[" * 50_000 + b"]]>the secret",
    ],
    ids=["divs", "unclosed", "tables", "lists", "spans", "spaces", "attributes", "literals"],
)  # fmt: skip
def test_deep_or_wide_page_loses_nothing(page: bytes):
    assert texts(page)[-1].endswith("the secret")


def test_loader_is_found_by_name_and_by_content():
    assert load("a.htm", b"<p>text").blocks == (Block(BlockKind.PARAGRAPH, "text"),)
    assert load("a.txt", b"<!doctype html><p>text").blocks[0].text == "text"
