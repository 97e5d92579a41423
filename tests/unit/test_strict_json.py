"""Strict JSON and numbers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rows import each_row
from truespan.core.strict_json import (
    DuplicateKey,
    JsonError,
    parse_json,
    parse_json_object,
    parse_number,
    parse_whole_number,
    require_unique_keys,
)

REFUSED = {
    '{"a": 1, "a": 1}': "'a' occurs twice", '{"a": 1, "\\u0061": 1}': "'a' occurs twice",
    '[{"x": {"b": 1, "b": 2}}]': "'b' occurs twice", "NaN": "NaN is not a JSON number",
    '{"a": -Infinity}': "-Infinity is not a JSON number", "1e999": "too large",
    "9223372036854775808": "too large", "9" * 100_000: "too large",
    "[" * 40 + "]" * 40: "nested more than 32 levels deep",
    "[" * 100_000: "nested more than 32 levels deep", '"\\ud800"': "half a character",
    "": "not JSON", "{'a': 1}": "not JSON", "01": "not JSON", "1_000": "not JSON",
    '{"a": 1}}': "not JSON",
}  # fmt: skip


@each_row("text", REFUSED)
def test_strict_json_refuses_ambiguous_input(text: str) -> None:
    with pytest.raises(JsonError) as caught:
        parse_json(text)
    assert REFUSED[text] in str(caught.value)


def test_strict_json_refuses_other_bytes_and_values() -> None:
    with pytest.raises(JsonError, match="not UTF-8"):
        parse_json(b"\xff")
    with pytest.raises(JsonError, match="not a JSON object"):
        parse_json_object("[]")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_other_json_is_read_as_usual(value: object) -> None:
    text = json.dumps(value)
    assert parse_json(text) == parse_json(text.encode()) == json.loads(text)
    require_unique_keys(text)


@given(json_values, st.text(), st.booleans())
def test_repeated_key_is_found_at_any_depth(value: object, key: str, deep: bool) -> None:
    name, inner = json.dumps(key), json.dumps(value)
    text = f"{{{name}: {inner}, {name}: {inner}}}"
    text = f'[1, {{"other": [{text}]}}]' if deep else text
    for read in (parse_json, require_unique_keys):
        with pytest.raises(DuplicateKey):
            read(text)


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_read_back(number: int) -> None:
    assert parse_whole_number(str(number)) == number
    assert parse_number(str(number)) == float(number)


def test_numbers_are_spelled_as_in_json() -> None:
    odd = (
        "", " 5", "5 ", "+5", "1_000", "05", "-", "0x1", "\u0663", "\uff15", "\u00b2", "nan",
        "inf",
    )  # fmt: skip
    assert [text for text in odd if parse_whole_number(text) is not None] == []
    assert [text for text in odd if parse_number(text) is not None] == []
    assert [parse_whole_number(text) for text in ("1e3", "5.0", "9" * 30)] == [None, None, None]
    assert [parse_number(text) for text in ("1e3", "0.5", "-2.5E-1", "1e999")] == [
        1000.0, 0.5, -0.25, None,
    ]  # fmt: skip
