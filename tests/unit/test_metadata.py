"""Declared metadata: validation, types and conditions."""

import json
from datetime import UTC, date, datetime, time
from typing import Any

import pytest

from truespan.core.fields import FieldError
from truespan.types.metadata import (
    MAX_CONDITIONS,
    MAX_VALUES,
    Condition,
    ValueKind,
    check_metadata,
    parse_assignments,
    parse_comparisons,
    parse_value,
    read_conditions,
    read_metadata,
    show_value,
    type_value,
    type_values,
)

ACCENTED = "Cafe\u0301"
COMPOSED = "Caf\u00e9"


def test_equal_metadata_has_equal_text() -> None:
    first = check_metadata({"b": 1, "a": {"y": [1.5, None], "x": "ü"}, COMPOSED: True})
    second = check_metadata({ACCENTED: True, "a": {"x": "ü", "y": (1.5, None)}, "b": 1})
    assert first == second == '{"Caf\u00e9":true,"a":{"x":"ü","y":[1.5,null]},"b":1}'
    assert read_metadata(first)["b"] == 1
    assert read_metadata(None) == {}


def test_dates_of_python_and_toml_become_text() -> None:
    stored = check_metadata(
        {
            "day": date(2026, 11, 16), "at": datetime(2026, 11, 16, 9, 30, tzinfo=UTC),
            "clock": time(9, 30), "list": [date(2026, 1, 2)],
        }
    )  # fmt: skip
    assert json.loads(stored) == {
        "at": "2026-11-16T09:30:00+00:00", "clock": "09:30:00", "day": "2026-11-16",
        "list": ["2026-01-02"],
    }  # fmt: skip


@pytest.mark.parametrize(("value", "reason"), [
    ([], "must be an object"), ("a=b", "must be an object"),
    ({1: "x"}, "a key that must be a string"), ({" ": "x"}, "a key that is blank"),
    ({"a\nb": "x"}, "a key that contains a control character"),
    ({"k" * 201: "x"}, "a key that is longer than 200 characters"),
    ({COMPOSED: 1, ACCENTED: 2}, "twice"),
    ({"x": float("nan")}, "has nan under 'x', which is not a JSON number"),
    ({"x": [float("inf")]}, "not a JSON number"), ({"x": 1 << 63}, "too large"),
    ({"x": "\ud800"}, "half a character"), ({"\ud800": 1}, "half a character"),
    ({"x": {"\ud800": 1}}, "half a character"), ({"x": {1: 2}}, "key that is not a string"),
    ({"x": {1, 2}}, "the type set under 'x'; use text"),
    ({"x": b"bytes"}, "the type bytes under 'x'"), ({"x": "y" * 16_384}, "more than 16384 bytes"),
])  # fmt: skip
def test_metadata_refuses_other_values_with_their_key(value: Any, reason: str) -> None:
    with pytest.raises(FieldError, match=r"^(?:must|has|is)") as refused:
        check_metadata(value)
    assert reason in str(refused.value)


def test_self_containing_value_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(FieldError, match="nested"):
        check_metadata({"x": endless})


def test_value_types_follow_their_form() -> None:
    kinds = {
        ValueKind.TEXT: [
            *("", "a", "2024", "true", "2024-02-30", "2024-13-01", "20240501", "2024-5-1"),
            *("2024-05-01T25:00", "2024-05-01T10", "2024-05-01T10:00:60", " 2024-05-01"),
            *("2024-05-01T10:00+24:00", "0001-01-01T00:00+01:00", "9999-12-31T23:00-02:00"),
            "\u0662\u0660\u0662\u0664-05-01",
        ],
        ValueKind.NUMBER: [0, -3, 2.5, 1 << 62],
        ValueKind.BOOLEAN: [True, False],
        ValueKind.DATE: [
            *("2024-05-01", "2024-02-29", "0001-01-01", "9999-12-31", "2024-05-01T10:00"),
            *("2024-05-01 10:00:00", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00.123456789Z"),
            "2024-05-01T10:00:00.5+02:00",
        ],
    }
    for kind, values in kinds.items():
        for value in values:
            typed = type_value(value)
            assert typed is not None, value
            assert typed.kind is kind, value
    for value in (None, {}, {"a": 1}, [1]):
        assert type_value(value) is None


def test_equal_values_in_other_spellings_are_the_same() -> None:
    for first, second in (
        (1, 1.0), (COMPOSED, ACCENTED), ("2024-05-01T10:00", "2024-05-01T10:00:00.000Z"),
        ("2024-05-01T10:00Z", "2024-05-01T12:00+02:00"),
    ):  # fmt: skip
        assert type_value(first) == type_value(second)
    for first, second in ((1, True), (0, False), ("1", 1), ("a", "A"), ("true", True)):
        assert type_value(first) != type_value(second)


def test_values_are_typed_once_and_shown_as_written() -> None:
    found = type_values(["a", "a", 1, 1.0, None, ["b"], {"c": 1}])
    assert [value.key for value in found] == ["a", 1]
    assert type_values({"a": 1}) == type_values(None) == type_values([]) == ()
    for value in ("a", 5, 2.5, True, "2024-05-01", "0001-01-01", "2024-05-01T10:00:00Z"):
        typed = type_value(value)
        assert typed is not None
        assert show_value(typed) == value
    moved = type_value("2024-05-01T12:00:00.25+02:00")
    assert moved is not None
    assert show_value(moved) == "2024-05-01T10:00:00.250000Z"


DOCUMENT = {
    "team": "a", "year": 2021, "open": True, "due": "2024-05-01", "seen": "2024-05-01T10:00:00Z",
    "topics": ["lamps", "oil"], "scores": [1, 10], "nested": {"team": "b"}, "nothing": None,
    COMPOSED: ACCENTED,
}  # fmt: skip


def test_conditions_match_documents() -> None:
    wanted: list[tuple[bool, dict[str, Any]]] = [
        (True, {}), (True, {"team": "a"}), (True, {"team": "a", "year": 2021}),
        (False, {"team": "a", "year": 2022}), (False, {"team": "A"}),
        (True, {"team": {"any_of": ["b", "a"]}}), (False, {"team": {"any_of": []}}),
        (True, {"year": {"gte": 2021, "lt": 2022}}), (False, {"year": {"gt": 2021}}),
        (True, {"year": {"lte": 2021.0}}), (False, {"year": {"lt": 2021}}),
        (False, {"year": "2021"}), (False, {"year": True}), (False, {"year": {"gte": "2020"}}),
        (True, {"open": True}), (False, {"open": 1}), (False, {"open": False}),
        (True, {"team": {"gte": "a", "lt": "b"}}),
        # A day covers every time on it.
        (True, {"due": "2024-05-01"}), (True, {"seen": "2024-05-01"}),
        (False, {"seen": "2024-05-02"}), (False, {"seen": "2024-04-30"}),
        (True, {"seen": {"lte": "2024-05-01"}}), (False, {"seen": {"gt": "2024-05-01"}}),
        (True, {"seen": {"gt": "2024-04-30", "lt": "2024-05-02"}}),
        (True, {"seen": "2024-05-01T12:00:00+02:00"}),
        (False, {"seen": {"lt": "2024-05-01T10:00:00Z"}}),
        (True, {"due": {"gte": "2024-05-01T00:00:00Z"}}), (False, {"due": "2024-05-01T10:00:00Z"}),
        # Any one value of a list.
        (True, {"topics": "oil"}), (False, {"topics": "wick"}), (True, {"scores": {"gte": 10}}),
        (False, {"scores": {"gt": 1, "lt": 10}}),
        # Nested objects and null have no value; only an object is there.
        (True, {"nested": {"exists": True}}), (False, {"nested": "b"}),
        (False, {"nothing": {"exists": True}}), (True, {"nothing": {"exists": False}}),
        (True, {"owner": {"exists": False}}), (False, {"team": {"exists": False}}),
        (True, {ACCENTED: COMPOSED}),
    ]  # fmt: skip
    stored = read_metadata(check_metadata(DOCUMENT))
    wrong = [
        (expected, filters)
        for expected, filters in wanted
        if all(part.matches(stored) for part in read_conditions(filters)) is not expected
    ]
    assert wrong == []


def test_conditions_survive_writing_and_reading() -> None:
    wanted = {
        "status": {"any_of": ["open", "new"]}, "year": {"gte": 2020, "lt": 2024},
        "owner": {"exists": False}, "team": "a", "topic": {"exists": True},
    }  # fmt: skip
    conditions = read_conditions(wanted)
    assert [condition.key for condition in conditions] == sorted(wanted)
    written = {condition.key: condition.to_json() for condition in conditions}
    assert written == {**wanted, "team": {"any_of": ["a"]}}
    assert read_conditions(written) == conditions


def test_invalid_conditions_are_explained() -> None:
    day = {"gte": 2020, "lt": "2024-01-01"}
    for wanted, reason in (
        (["team"], "must be an object"), ({"": 1}, "a key that is blank"),
        ({"a": None}, "a value that cannot be compared"),
        ({"a": []}, "a value that cannot be compared"), ({"a": {}}, "no operator"),
        ({"a": {"near": 1}}, "the unknown operator 'near'"),
        ({"a": {"exists": 1}}, "exists that is not true or false"),
        ({"a": {"exists": False, "gt": 1}}, "no value matches both"),
        ({"a": {"any_of": "x"}}, "any_of that is not a list"),
        ({"a": {"any_of": [{}]}}, "cannot be compared"),
        ({"a": {"any_of": [1] * (MAX_VALUES + 1)}}, "more than 1000 values"),
        ({"a": {"gt": True}}, "have no order"), ({"a": day}, "not mixed"),
        ({"a": {"gt": float("nan")}}, "not a JSON number"), ({"a": "\ud800"}, "half a character"),
        ({COMPOSED: 1, ACCENTED: 2}, "twice"),
        ({str(key): 1 for key in range(MAX_CONDITIONS + 1)}, "more than 20 keys"),
    ):  # fmt: skip
        with pytest.raises(FieldError) as refused:
            read_conditions(wanted)
        assert reason in str(refused.value), wanted


def test_command_line_value_is_a_boolean_a_number_or_text() -> None:
    for text, value in (
        ("true", True), ("false", False), ("True", "True"), ("5", 5), (" -5 ", -5), ("2.50", 2.5),
        ("1e3", 1000.0), ("007", "007"), ("1_000", "1_000"), ("nan", "nan"),
        ("9223372036854775808", "9223372036854775808"), ("2024-05-01", "2024-05-01"), ('"5"', "5"),
        ('""', ""), ('"', '"'), (r'"a\"b"', 'a"b'), (r'"C:\quit"', r"C:\quit"),
        ('"a" or "b"', 'a" or "b'), ("a=b", "a=b"),
    ):  # fmt: skip
        found = parse_value(text)
        assert (type(found), found) == (type(value), value), text


def test_assignments_make_metadata() -> None:
    texts = ["team=a", "year=2021", 'code="007"', "topic=oil", "topic = lamps", "sum=1=1"]
    assert parse_assignments(texts) == {
        "team": "a", "year": 2021, "code": "007", "topic": ["oil", "lamps"], "sum": "1=1",
    }  # fmt: skip
    for text, reason in (("team", "is not key=value"), ("=a", "key=value"), ("a=", "no value")):
        with pytest.raises(FieldError, match=reason):
            parse_assignments([text])


def test_comparisons_make_conditions() -> None:
    texts = [
        *("team=a", "year>=2020", "year<2024", "status=open", "status==new", "owner", "!draft"),
        "at > 2024-05-01",
    ]
    found = parse_comparisons(texts)
    assert found == {
        "team": {"any_of": ["a"]}, "year": {"gte": 2020, "lt": 2024},
        "status": {"any_of": ["open", "new"]}, "owner": {"exists": True},
        "draft": {"exists": False}, "at": {"gt": "2024-05-01"},
    }  # fmt: skip
    assert len(read_conditions(found)) == len(found)
    assert Condition.from_json("team", "a") == read_conditions(found)[-2]
    for text, reason in (
        ("", "is not key=value"), ("!", "is not key=value"), ("=a", "is not key=value"),
        ("!a=b", "is not key=value"), ("a!=b", "is not key=value"), ("a>", "has no value"),
    ):  # fmt: skip
        with pytest.raises(FieldError) as refused:
            parse_comparisons([text])
        assert reason in str(refused.value), text
    with pytest.raises(FieldError, match="repeats > for one key"):
        parse_comparisons(["a>1", "a>2"])
