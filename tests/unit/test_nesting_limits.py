"""Nesting limits of parsers: deeper content becomes text or is refused.

The files are just past their limit and small, so that a missing limit shows at once, and not only
as a hostile file that takes long.
"""

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.hostile.docx import nested
from truespan.parsing import load
from truespan.parsing.formats.html.inline import Inline

pytestmark = pytest.mark.needs_extension


def lines_of(name: str, content: str) -> list[str]:
    blocks = load(name, content.encode()).blocks
    return [line for block in blocks for line in block.text.split("\n")]


def test_deep_markdown_is_text_and_loses_no_item():
    assert lines_of("a.md", "> " * 300 + "deep") == ["> " * 299 + "> deep"]
    lines = lines_of("a.md", "\n".join("  " * depth + f"- item {depth}" for depth in range(60)))
    assert [line.strip() for line in lines] == [f"- item {depth}" for depth in range(60)]
    within, deep = ("![" * depth + "words" + "](b)" * depth for depth in (5, 300))
    assert lines_of("a.md", within) == ["words"]
    [line] = lines_of("a.md", deep)
    assert line.startswith("![" * 200)


def test_deep_lists_and_tables_of_pages_are_flattened():
    lines = lines_of("a.html", "<ul><li>item" * 60 + "</li></ul>" * 60)
    assert len(lines) == 60
    assert max(len(line) - len(line.lstrip()) for line in lines) == 38
    row = "<table><tr><th>h<th>i</tr><tr><td>a<td>"
    assert lines_of("a.html", row * 8 + "deep")[-1] == "a | deep"
    assert lines_of("a.html", row * 12 + "deep")[-1] == "a | " + "h i a " * 4 + "deep"


def test_text_of_deeply_nested_links_is_collected_once():
    line = Inline()
    start = line.position()
    for _ in range(16):
        line.add("a")
    assert line.text_since(start) == "a" * 16
    line.add("a")
    assert line.text_since(start) is None


@pytest.mark.parametrize(
    ("name", "before", "after", "allowed"), [("a.json", "[", "]", 90), ("a.rtf", "{", "}", 9_000)]
)
def test_nested_groups_are_refused(name: str, before: str, after: str, allowed: int):
    def made(depth: int) -> bytes:
        inner = before * depth + '"deep"' + after * depth
        return (f"{{\\rtf1 {inner}}}" if name == "a.rtf" else inner).encode()

    assert "deep" in load(name, made(allowed)).blocks[0].text
    with raises_code("source_unsafe"):
        load(name, made(allowed * 2))


@proves("loader.archive-limits")
def test_xml_over_the_parser_depth_is_refused():
    control = ("<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>")
    assert load(*nested(*control, 110)).blocks[-1].text == "Deep."
    with raises_code("source_unsafe"):
        load(*nested(*control, 130))
