"""The YAML of golden queries: what is read is read as everywhere, and all else is refused."""

from __future__ import annotations

from typing import Any

from tests.support.rows import each_row
from truespan.evaluation.golden import _read_items
from truespan.evaluation.golden_yaml import Item

WHOLE = """\
# Two questions about boats.
---
- id: keeper  # short
  query: "who keeps the light: and why?"
  expected: [ferry.epub, 'it''s here', 3, "a, #b" ]   # four
  relevance:
    ferry.epub: 2
    "a, #b": 1
    3: 0
  filters:
    tags:
    - old
    - 'new # not'
    language: "no"

-
    query: plain words, with a comma; and http://example.org/x#y
    phrases:
      - "tab\\tand \\u00e9"
      - second phrase
    expected: []
"""


def read_items(text: str) -> tuple[list[Item], list[tuple[int, str]]]:
    return _read_items("golden.yaml", text)


def read(text: str) -> list[dict[str, Any]]:
    items, faults = read_items(text)
    assert faults == []
    return [item.fields for item in items]


def faults(text: str) -> list[tuple[int, str]]:
    return read_items(text)[1]


def fault(value: str) -> str:
    """Return what is wrong with an entry whose second line is `value`."""
    items, [(line, reason)] = read_items(f"- query: one\n  {value}\n- query: two\n")
    assert line == 2
    assert [item.fields for item in items] == [{"query": "two"}]
    return reason


def test_lists_mappings_quotes_numbers_and_comments_are_read() -> None:
    assert read(WHOLE) == [
        {
            "id": "keeper",
            "query": "who keeps the light: and why?",
            "expected": ["ferry.epub", "it's here", 3, "a, #b"],
            "relevance": {"ferry.epub": 2, "a, #b": 1, "3": 0},
            "filters": {"tags": ["old", "new # not"], "language": "no"},
        },
        {
            "query": "plain words, with a comma; and http://example.org/x#y",
            "phrases": ["tab\tand é", "second phrase"],
            "expected": [],
        },
    ]


def test_each_entry_and_each_field_knows_its_line() -> None:
    first, second = read_items(WHOLE)[0]

    assert (first.line, second.line) == (3, 16)
    assert first.lines == {"id": 3, "query": 4, "expected": 5, "relevance": 6, "filters": 10}
    assert second.lines == {"query": 17, "phrases": 18, "expected": 21}


def test_line_ends_of_windows_are_line_ends() -> None:
    assert read(WHOLE.replace("\n", "\r\n")) == read(WHOLE)


@each_row(
    ("value", "word"),
    [
        ("expected: &a [x]", "an anchor"),
        ("expected: *a", "an alias"),
        ("expected: !!str x", "a tag"),
        ("phrases: |", "a block of text"),
        ("phrases: >-", "a block of text"),
        ("relevance: {a: 1}", "a mapping"),
        ("phrases: @x", "not valid YAML"),
        ("phrases: 'open", "not valid YAML"),
        ('phrases: "a" b', "not valid YAML"),
        ("phrases: [a, b", "not valid YAML"),
        ("phrases: [a, [b]]", "put it in quotes"),
        ("phrases: [a,, b]", "not valid YAML"),
        ("phrases: [a, b,]", "ends with a comma"),
        ("phrases: [a,\n  b]", "does not end on its line"),
        ("phrases: 'a\n  b'", "does not end on its line"),
        ("phrases: [what?]", "not valid YAML"),
        ("phrases: [a] b", "not valid YAML"),
        ("phrases: [a: b]", "put it in quotes"),
        ('phrases: "\\x41"', "an escape"),
        ("phrases: a: b", "not valid YAML"),
        ("phrases: - a", "not valid YAML"),
        ("phrases: a:", "not valid YAML"),
        ("phrases:: a", "put it in quotes"),
        ('phrases: "a"# b', "without a space"),
        ("phrases: [a]# b", "without a space"),
        ("? phrases", "neither a field"),
        ("phrases", "not valid YAML"),
        ("phrases:", "no value"),
        ("phrases: # nothing", "no value"),
        ("query: again", "'query' occurs twice"),
        ("top_k:\t5", "a tab"),
        ("top_k: 5 # \t", "a tab"),
        ("phrases: a\x85b", "a control character"),
        ("phrases: a\u2028b", "a control character"),
        ("phrases: a\x00b", "a control character"),
        ("# comment \x85 with a line break", "a control character"),
        ("  phrases: a", "neither a field"),
    ],
)
def test_unsupported_syntax_is_refused_with_its_line(value: str, word: str) -> None:
    assert word in fault(value)


@each_row(
    "word",
    [
        "yes",
        "No",
        "ON",
        "off",
        "true",
        "False",
        "null",
        "~",
        "y",
        "N",
        "007",
        "1_000",
        "0x1f",
        "0o7",
        "1e3",
        "1.5",
        ".5",
        "+1",
        "-.inf",
        ".NaN",
        "1:30",
        "2024-01-31",
        "2024-01-31T10:00",
        "=",
        "<<",
    ],
)
def test_a_word_that_some_readers_take_for_something_else_must_be_quoted(word: str) -> None:
    assert "put it in quotes" in fault(f"version: {word}")
    assert "put it in quotes" in fault(f"tags: [x, {word}]")
    [(line, reason)] = faults(f"- query: one\n  tags:\n  - {word}\n")
    assert line == 3
    assert "put it in quotes" in reason
    assert read(f"- version: '{word}'\n  tags: [\"{word}\"]\n") == [
        {"version": word, "tags": [word]}
    ]


@each_row(
    "text",
    [
        "query: one\n",
        "- query: one\n---\n- query: two\n",
        "- query: one\n...\n",
        "%YAML 1.2\n---\n- query: one\n",
        "  - query: one\n",
        "- - query: one\n",
        "- one\n",
        "-\n",
        "[]\n",
        "- query: one\n expected: []\n",
        "- expected:\n  - a\n   - b\n",
        "- expected:\n    - a\n  - b\n",
        "- expected:\n    - a: 1\n",
        "- filters:\n    tags:\n      inner:\n        deep: 1\n",
        "-\tquery: one\n",
    ],
)
def test_another_shape_than_one_list_of_mappings_is_refused(text: str) -> None:
    assert faults(text)


def test_a_text_below_its_key_or_its_dash_is_refused_where_it_stands() -> None:
    assert [line for line, _ in faults("- query:\n    one\n")] == [2]
    assert [line for line, _ in faults("- tags:\n  -\n    one\n")] == [3]


def test_all_faults_are_told_at_once() -> None:
    text = "- query: &a x\n- query: good\n- query: !t y\n  top_k: *a\nstray: 1\n"

    assert [line for line, _ in faults(text)] == [1, 3, 5]
