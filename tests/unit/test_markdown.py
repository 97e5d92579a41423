"""Markdown: visible text as blocks with chapters and sections."""

import pytest

from truespan.parsing import load
from truespan.parsing.formats.markdown import load_markdown
from truespan.types.text import Block, BlockKind, Loaded


def texts_of(text: str) -> list[str]:
    return [block.text for block in load_markdown(text).blocks]


def places_of(text: str) -> list[tuple[str | None, str | None]]:
    return [(block.chapter, block.section) for block in load_markdown(text).blocks]


def test_markdown_markup_is_removed_and_breaks_and_html_are_kept():
    text = 'A *b* **c** `d  e` [f](http://x.y "t") ![g *h*](i.png) <http://j.k> \\* &amp; &copy;'
    assert texts_of(text) == ["A b c d  e f g h http://j.k * & ©"]
    assert texts_of("soft\nhard  \nend\\\nlast") == ["soft\nhard\nend\nlast"]
    assert texts_of("<div>kept <b>all</b></div>\n\n<!-- even this -->") == [
        "<div>kept <b>all</b></div>",
        "<!-- even this -->",
    ]


def test_list_items_have_their_marks_and_are_indented_by_level():
    nested = "- one\n  goes on\n- two\n  1. first\n  2. second\n\n     below it\n- three"
    text = f"{nested}\n\n7. seven\n8. eight"
    blocks = load_markdown(text).blocks
    assert {block.kind for block in blocks} == {BlockKind.LIST}
    assert [block.text for block in blocks] == [
        "- one\n  goes on", "- two", "  1. first", "  2. second", "    below it", "- three",
        "7. seven", "8. eight",
    ]  # fmt: skip


def test_markdown_code_is_kept_and_tables_become_rows():
    blocks = load_markdown("```py\nif x:\n    *y* = `1`\n\n```\n\n    indented  text\n").blocks
    assert [block.kind for block in blocks] == [BlockKind.CODE] * 2
    assert [block.text for block in blocks] == ["if x:\n    *y* = `1`\n\n", "indented  text\n"]
    blocks = load_markdown("| name | *age* |\n|---|---|\n| Ada | 36 |\n| Bob | |").blocks
    assert blocks == (Block(BlockKind.TABLE, "name | age\nAda | 36\nBob | ", header_rows=1),)


def test_quotes_keep_their_text_and_make_no_chapters():
    text = "> # Not a heading\n>\n> said\n> she\n>\n> - item"
    assert [(block.kind, block.text, block.chapter) for block in load_markdown(text).blocks] == [
        (BlockKind.QUOTE, "Not a heading", None),
        (BlockKind.QUOTE, "said\nshe", None),
        (BlockKind.LIST, "- item", None),
    ]


def test_markdown_lone_first_heading_is_the_title():
    loaded = load_markdown("# The *Title*\n\nintro\n\n## A\n\n### B\n\ntext\n\nC\n-\n\nmore")
    assert loaded.title == "The Title"
    assert [block.text for block in loaded.blocks if block.kind is BlockKind.HEADING] == [
        "The Title", "A", "B", "C",
    ]  # fmt: skip
    assert [(block.chapter, block.section) for block in loaded.blocks] == [
        ("The Title", None), ("The Title", None), ("A", None), ("A", "B"), ("A", "B"), ("A", "B"),
        ("C", None),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "places"), [
    ("# A\n\n## B\n\nx\n\n# C", [("A", None), ("B", None), ("B", None), ("C", None)]),
    ("x\n\n# A\n\n## B", [(None, None), ("A", None), ("A", "B")]),
    ("## A\n\n#### B\n\n## C", [("A", None), ("A", "B"), ("C", None)]),
    ("## A\n\n# B\n\n## C", [("A", None), ("B", None), ("B", "C")]), ("just text", [(None, None)]),
])  # fmt: skip
def test_markdown_highest_level_makes_chapters(
    text: str, places: list[tuple[str | None, str | None]]
):
    assert places_of(text) == places
    assert load_markdown(text).title is None


@pytest.mark.parametrize(("line", "title"), [
    ("title: Plain words # a comment", "Plain words"),
    ('title: "Quoted: with # signs"', "Quoted: with # signs"), ("Title: 'single'", "single"),
    ("title: [a, list]", None), ("title: |", None), ("title:", None), ('title: "open', None),
    ("subtitle: other", None),
])  # fmt: skip
def test_front_matter_is_removed_and_its_title_used(line: str, title: str | None):
    loaded = load_markdown(f"---\n# note\nauthor: A\n{line}\ntags: [x]\n---\n\nBody.\n")
    assert loaded == Loaded((Block(BlockKind.PARAGRAPH, "Body."),), title)


@pytest.mark.parametrize(
    "text", ["---\n\nBody.\n\n---\n", "---\nBody text\n---\nMore", "x\n\n---\ntitle: y\n---"]
)
def test_thematic_breaks_are_not_front_matter(text: str):
    assert {"Body.", "Body text", "title: y"} & set(texts_of(text))


@pytest.mark.parametrize("text", [
    "> " * 60 + "the secret",
    "\n".join("  " * level + f"- level {level}" for level in range(40)) + " the secret",
    "![" * 500 + "the secret" + "](x)" * 500, "*" * 3000 + "the secret", "[" * 3000 + "the secret",
    "- " * 50 + "the secret",
])  # fmt: skip
def test_deeply_nested_text_is_kept(text: str):
    assert "the secret" in "\n".join(texts_of(text))


BEGINNINGS = (
    "It rained.\nAll day long.\n", "Rain\n", "# A\n\nRain\n", "Contents\n", "- one\n- two\n",
    "A [lamp] and a [light][lamp], [1][2] and ![a sea][s] in x[i][j].\n", "> said\n", "a | b\n",
    "# A\n\n## B\n\nRain.\n\n- [C](#c)\n- [A](#a)\n", "1. one\n",
)  # fmt: skip
ENDS = (
    "---\n", "===\n", "\n[lamp]: x\n\n[s]: y\n[2]: z\n", "\n# C\n\n## D\n",
    *("\n" + "".join("  " * i + f"- level {i}\n" for i in range(depth)) for depth in (10, 60)),
    "\n" + "> " * 30 + "deep\n", "\n" + "".join("> " * i + "deep\n" for i in range(60)),
    "\n```\nopen\n", "\n<div>\n", "\n" + "\t" * 70 + "- deep\n", "\n***\n", "\n[lamp]\n",
)  # fmt: skip


def test_markdown_block_does_not_depend_on_later_text():
    wrong: list[tuple[str, str]] = []
    for beginning in BEGINNINGS:
        alone = load_markdown(beginning).blocks
        for end in ENDS:
            if end == "===\n" and alone[-1].kind in (BlockKind.LIST, BlockKind.QUOTE):
                continue  # It continues the paragraph, as any other text.
            blocks = load_markdown(beginning + end).blocks[: len(alone)]
            # Whether it is a heading, which gives a place to the blocks after it, may differ.
            begun = [(b.text, b.chapter, b.section, b.is_contents) for b in alone]
            if [(b.text, b.chapter, b.section, b.is_contents) for b in blocks] != begun:
                wrong.append((beginning, end[:60]))

    assert wrong == []


def test_markdown_references_need_earlier_definitions():
    assert texts_of(
        "[lamp]: x\n\nA [lamp], a [light][9] and ![a sea][s]; [1][2], x[i][j], [b]."
    ) == ["A lamp, a light and a sea; [1][2], x[i][j], [b]."]


@pytest.mark.parametrize(("text", "contents"), [
    ("# Book\n\n## Contents\n\n- One\n- Two\n  - Three\n\n## One\n\nText.", 4),
    ("# Book\n\n**Contents**\n\n1. [One](#one)\n2. [Two](#two)\n\n## One\n\nText.", 3),
    ("Inhalt\n------\n\n- Eins\n- Zwei\n\nEins\n----\n\nText.", 3),
    ("# Book\n\n- Chapter 1: Rain\n- Chapter 2: Floods\n- Epilogue\n\nText of it.", 3),
    ("# Book\n\n- [Rain](#rain)\n- [Sun](#sun)\n- [Sea](#sea), with cats\n- [Book](#book)", 1),
    ("# Book\n\n| Chapter 1 | Rain |\n|---|---|\n| Chapter 2 | Floods |\n| Part 2 | Sun |", 1),
    ("# Book\n\nChapter 1 Rain\nChapter 2 Floods\nChapter 3 Sun\n\nText.", 1),
    ("# Book\n\n## Contents of the box\n\n- A lamp\n- A key", 0),
    ("# Book\n\n- [Rain](https://example.org/#rain)\n- milk", 0),
])  # fmt: skip
def test_lists_of_contents_are_recognised(text: str, contents: int):
    blocks = load_markdown(text).blocks
    assert sum(block.is_contents for block in blocks) == contents
    assert all(block.chapter != "Contents" for block in blocks if not block.is_contents)


def test_file_that_fails_in_the_parser_is_loaded_as_plain_text(monkeypatch: pytest.MonkeyPatch):
    def trip(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("markdown_it.MarkdownIt.parse", trip)

    loaded = load("a.md", b"---\ntitle: T\n---\n# Heading\n\n*text*")

    assert loaded.title == "T"
    assert [block.text for block in loaded.blocks] == ["# Heading", "*text*"]
