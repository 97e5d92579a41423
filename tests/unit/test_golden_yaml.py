"""Golden queries in YAML: entries, lines of faults, refused constructs."""

import time
from typing import Any

import pytest

from tests.support.rows import each_row
from truespan.extensions.quality.golden import Item, Refused, parse_yaml

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


def read_items(text: str) -> list[Item]:
    items = parse_yaml(text)
    assert not [item for item in items if isinstance(item, Refused)]
    return [item for item in items if isinstance(item, Item)]


def read(text: str) -> list[dict[str, Any]]:
    return [item.fields for item in read_items(text)]


def faults(text: str) -> list[tuple[int, str]]:
    try:
        items = parse_yaml(text)
    except Refused as refused:
        items = [refused]
    return [(item.args[0], item.args[1]) for item in items if isinstance(item, Refused)]


def fault(value: str) -> str:
    """Return the fault of an entry whose second line is `value`."""
    [(line, reason)] = faults(f"- query: one\n  {value}\n- query: two\n")
    assert line == 2
    return reason


def test_parse_yaml_reads_lists_mappings_quotes_and_numbers() -> None:
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


def test_parse_yaml_returns_entries_with_their_lines() -> None:
    first, second = read_items(WHOLE)
    assert (first.line, second.line) == (3, 17)
    assert first.lines == {"id": 3, "query": 4, "expected": 5, "relevance": 6, "filters": 10}
    assert second.lines == {"query": 17, "phrases": 18, "expected": 21}
    assert read(WHOLE.replace("\n", "\r\n")) == read(WHOLE)
    assert parse_yaml("# nothing\n") == []


@each_row(("value", "word"), [
    ("expected: &a [x]", "anchors and aliases"), ("expected: *a", "anchors and aliases"),
    ("expected: !t x", "put it in quotes"), ("expected: !!set {x}", "tags"),
    ("expected: !!python/object:os.system [x]", "tags"), ("phrases: @x", "not valid YAML"),
    ("phrases: 'open", "not valid YAML"), ('phrases: "a" b', "not valid YAML"),
    ("phrases: [a, b", "not valid YAML"), ("phrases: [a, [b]]", "nested too deep"),
    ("phrases: [a: b]", "nested too deep"), ("phrases: [a,, b]", "not valid YAML"),
    ("phrases: a: b", "not valid YAML"), ("phrases", "not valid YAML"), ("phrases:", "no value"),
    ("phrases: # nothing", "no value"), ("query: again", "'query' occurs twice"),
    ("filters: {a: {b: {c: 1}}}", "nested too deep"), ("phrases: a\x00b", "a control character"),
])  # fmt: skip
def test_parse_yaml_refuses_a_fault_with_its_line(value: str, word: str) -> None:
    assert word in fault(value)


@each_row("word", [
    *("yes", "No", "ON", "off", "true", "null", "~", "007", "1_000", "0x1f", "1.5", "+1"),
    *(".NaN", "1:30", "2024-01-31", "=", "<<"),
])  # fmt: skip
def test_unquoted_word_with_another_meaning_is_refused(word: str) -> None:
    assert "put it in quotes" in fault(f"version: {word}")
    assert "put it in quotes" in fault(f"tags: [x, {word}]")
    assert read(f"- version: '{word}'\n  tags: [\"{word}\"]\n") == [
        {"version": word, "tags": [word]}
    ]


@each_row("text", [
    "query: one\n", "- query: one\n---\n- query: two\n", "  - query: one\n", "- - query: one\n",
    "- one\n", "-\n", "[]\n", "- query: one\n expected: []\n", "- expected:\n    - a\n  - b\n",
    "- expected:\n    - a: 1\n",
    "- filters:\n    tags:\n      inner:\n        deep:\n          1: 2\n", "-\tquery: one\n",
    "- ? [a]\n  : b\n",
])  # fmt: skip
def test_anything_but_a_list_of_mappings_is_refused(text: str) -> None:
    assert faults(text)


def test_faults_of_several_entries_are_reported_together() -> None:
    text = "- query: !t x\n- query: good\n- query: !t y\n  top_k: yes\n- stray\n"
    assert [line for line, _ in faults(text)] == [1, 3, 5]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused(opening: str) -> None:
    [(line, reason)] = faults(f"- query: {'' if opening == '- ' else opening * 1500}\n")
    assert (line, bool(reason)) == (1, True)


def test_aliases_that_multiply_are_refused_at_once() -> None:
    levels = "\n".join(f"  l{n}: &l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, 60))
    start = time.monotonic()
    assert "anchors and aliases" in faults(f"- l0: &l0 [x]\n{levels}\n")[0][1]
    assert time.monotonic() - start < 5
