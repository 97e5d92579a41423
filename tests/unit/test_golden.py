"""Golden queries as files: allowed content, and faults with their lines."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.promises import proves
from tests.support.failures import raises_code
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.core.fields import FieldError
from truespan.errors import Interrupted, InvalidArgument
from truespan.extensions.quality.calibrate import largest_gain_test
from truespan.extensions.quality.golden import (
    MAX_GRADE,
    MAX_LINE_LENGTH,
    MAX_LIST,
    MAX_QUERIES,
    MAX_TOP_K,
    Expected,
    GoldenQuery,
    golden_line,
    parse_golden,
    question_digest,
)
from truespan.types.metadata import Condition, read_conditions
from truespan.types.request import Filters


def parse(*lines: str | dict[str, Any]) -> tuple[GoldenQuery, ...]:
    spelled = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
    return parse_golden("golden.jsonl", "\n".join(spelled).encode("utf-8", "surrogatepass"))


def faults(*lines: str | dict[str, Any]) -> list[tuple[int, str]]:
    with raises_code("golden_invalid") as caught:
        parse(*lines)
    assert caught.value.code == "golden_invalid"
    return caught.value.lines


def fault(**fields: Any) -> str:
    """Return the only fault of a query with these fields, among valid ones."""
    [(number, reason)] = faults({"query": "who?", "expected": ["a"], **fields})
    assert number == 1
    return reason


def test_line_with_all_fields_is_parsed() -> None:
    fields = {
        "id": "keeper",
        "query": "who keeps the light?",
        "expected": ["ferry.epub", 3],
        "relevance": {"ferry.epub": 2, "other.md": 0},
        "phrases": ["the keeper's name"],
        "top_k": 5,
        "filters": {
            "language": "en", "version": "2.0", "tags": ["boats"], "documents": [3],
            "chapter": "One", "section": "Two", "kinds": ["book"], "source": "ferries/*",
            "where": ["team=a", "team=b", "year>=2020", "!owner"],
        },
    }  # fmt: skip
    conditions = read_conditions(
        {"team": {"any_of": ["a", "b"]}, "year": {"gte": 2020}, "owner": {"exists": False}}
    )

    assert parse(fields) == (
        GoldenQuery(
            id="keeper",
            query="who keeps the light?",
            expected=(Expected("ferry.epub", 2), Expected("3", 1), Expected("other.md", 0)),
            phrases=("the keeper's name",),
            top_k=5,
            filters=Filters(
                "One", "Two", "en", "2.0", ("3",), ("boats",), ("book",), "ferries/*", conditions
            ),
        ),
    )


def test_yaml_and_json_lines_give_equal_queries() -> None:
    yaml = b"""\
- query: who?
  expected: [ferry.epub, 3]
- query: where?
  id: 7
  phrases:
  - on the island
  relevance:
    "ferry.epub": 3
"""

    assert parse_golden("golden.YAML", yaml) == parse(
        {"query": "who?", "expected": ["ferry.epub", 3]},
        {"query": "where?", "id": 7, "phrases": ["on the island"], "relevance": {"ferry.epub": 3}},
    )


def test_ids_and_questions_are_unique_by_question() -> None:
    one, other = {"query": "one", "expected": ["a"]}, {"query": "other", "expected": ["a"]}
    [first, second] = parse(one, other)
    [moved, _] = parse(other, {**one, "expected": ["b"]})
    assert first.id != second.id
    assert moved.id == second.id
    assert parse({**one, "top_k": 3})[0].id != first.id
    line = {"query": "one", "expected": ["a"]}
    [(number, reason)] = faults(line, "", {"query": "x", "expected": ["a"]}, line)
    assert number == 4
    assert "line 1" in reason


def test_expectations_may_be_empty_but_not_absent() -> None:
    [query] = parse({"query": "who?", "expected": []})
    assert query.expected == ()
    assert query.phrases == ()
    [(_, reason)] = faults({"query": "who?", "top_k": 3})
    assert "neither expected documents nor phrases" in reason


@pytest.mark.parametrize(("fields", "word"), [
    ({"query": " "}, "query is blank"), ({"query": 3}, "must be a string; put it in quotes"),
    ({"query": "x" * 10_001}, "longer than 10000"), ({"query": "a\x00b"}, "control character"),
    ({"query": "a\ud800"}, "half a character"), ({"expected": "a"}, "must be a list"),
    ({"expected": ["a", "a"]}, "names 'a' twice"), ({"expected": [3, "3"]}, "names '3' twice"),
    ({"expected": [True]}, "number 1, that must be a string"),
    ({"expected": [-1]}, "number 1, that must be from 0 to"),
    ({"expected": ["a", ""]}, "number 2, that is blank"), ({"phrases": [" "]}, "is blank"),
    ({"phrases": [7]}, "put it in quotes"),
    ({"relevance": {"a": 0}}, "which is expected, is irrelevant"),
    ({"relevance": {"a": -1}}, f"from 0 to {MAX_GRADE}"),
    ({"relevance": {"a": 1.5}}, "must be a whole number"),
    ({"relevance": {"a": True}}, "must be a whole number"),
    ({"relevance": ["a"]}, "must be a mapping"), ({"top_k": 0}, f"from 1 to {MAX_TOP_K}"),
    ({"top_k": MAX_TOP_K + 1}, f"from 1 to {MAX_TOP_K}"),
    ({"top_k": "5"}, "must be a whole number"), ({"top_k": True}, "must be a whole number"),
    ({"id": "two words"}, "letters, digits"), ({"id": True}, "must be a string"),
    ({"filters": {"place": "x"}}, "unknown field 'place'"),
    ({"filters": {"kinds": ["novel"]}}, "must be one of document, book"),
    ({"filters": {"where": "team=a"}}, "must be a list"),
    ({"filters": {"where": ["team!=a"]}}, "is not key=value"),
    ({"filters": {"version": 1.0}}, "put it in quotes"),
    ({"filters": {"tags": "x"}}, "must be a list"), ({"expects": ["a"]}, "did you mean expected?"),
    ({"zzz": 1}, "unknown field 'zzz'"),
])  # fmt: skip
def test_invalid_field_is_refused_with_a_reason(fields: dict[str, Any], word: str) -> None:
    assert word in fault(**fields)


def test_all_faults_are_reported_in_line_order() -> None:
    told = faults(
        {"expected": ["a"]}, "{", {"query": "good", "expected": ["a"]}, "[]",
        '{"query": "x", "query": "y", "expected": []}',
        {"query": "", "top_k": 0, "expected": ["a"]}, "[" * 10_000,
    )  # fmt: skip
    assert [number for number, _ in told] == [1, 2, 4, 5, 6, 6, 7]


def test_yaml_fault_has_the_line_of_its_field() -> None:
    yaml = b"- query: who?\n  expected: [a]\n  top_k: 0\n- query: yes\n- query: z\n"
    with raises_code("golden_invalid") as caught:
        parse_golden("golden.yml", yaml)
    assert [number for number, _ in caught.value.lines] == [3, 4, 5]
    assert "golden.yml: line 3: top_k must be from 1" in str(caught.value)


@pytest.mark.parametrize(("name", "content", "line"), [
    ("g.jsonl", b"", 1), ("g.yaml", b"# nothing\n", 1), ("g.jsonl", b'{"query": "a"}\n\xff', 2),
    ("g.yaml", b"- query: a\n  phrases: ['" + b"x" * MAX_LINE_LENGTH + b"']\n", 2),
])  # fmt: skip
def test_empty_binary_or_wide_file_is_refused(name: str, content: bytes, line: int) -> None:
    with raises_code("golden_invalid") as caught:
        parse_golden(name, content)
    assert [number for number, _ in caught.value.lines] == [line]


def test_golden_file_is_detected_by_its_ending_and_may_have_a_mark() -> None:
    with pytest.raises(InvalidArgument, match=r"\.yaml, \.yml, \.jsonl"):
        parse_golden("golden.csv", b"query\n")
    assert parse_golden("g.yaml", b"\xef\xbb\xbf- query: a\n  expected: [b]\n")[0].query == "a"


def test_question_digest_ignores_expected_documents() -> None:
    query = GoldenQuery("a", "who?", (Expected("x"),), ("one",))
    assert question_digest(query) != question_digest(GoldenQuery("a", "who?", (), ("two",)))
    assert question_digest(query) == question_digest(GoldenQuery("b", "who?", (), ("one",)))


words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20).filter(
    str.strip
)
references = st.lists(words, max_size=4, unique=True)


def conditions_of(wanted: dict[str, Any]) -> tuple[Condition, ...]:
    """Return conditions without those whose number is too large for metadata."""
    try:
        return read_conditions(wanted)
    except FieldError:
        return ()


queries = st.builds(
    GoldenQuery,
    id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,10}", fullmatch=True),
    query=st.builds("{}\n\t{}".format, words, words),
    expected=st.lists(
        st.builds(Expected, words, st.integers(0, 3)),
        max_size=4,
        unique_by=lambda one: one.document,
    ).map(tuple),
    phrases=references.map(tuple),
    top_k=st.integers(1, MAX_TOP_K),
    filters=st.builds(
        Filters,
        language=st.none() | words,
        version=st.none() | words,
        tags=references.map(tuple),
        documents=st.none() | references.map(tuple),
        chapter=st.none() | words,
        section=st.none() | words,
        kinds=st.sampled_from([(), ("book",), ("book", "document")]),
        source=st.none() | words,
        metadata=st.dictionaries(
            st.sampled_from(["team", "due date", "ä.b"]),
            st.one_of(words, st.booleans(), st.integers(-9, 9), st.floats(-9, 9))
            | st.fixed_dictionaries({"gte": st.integers(), "lt": st.integers()})
            | st.fixed_dictionaries({"any_of": st.lists(words, min_size=1, unique=True)})
            | st.sampled_from([{"exists": True}, {"exists": False}]),
        ).map(lambda wanted: conditions_of(wanted)),
    ),
)


@given(queries)
@example(GoldenQuery("a", "x\u2028\ufeff\uffff", (Expected("a\u2029b", 2),)))
def test_written_query_reads_back_unchanged(query: GoldenQuery) -> None:
    assert parse_golden("g.jsonl", golden_line(query).encode()) == (query,)


@proves("tenants.no-stall")
def test_golden_parsing_is_limited_and_can_be_cancelled() -> None:
    with raises_code("golden_invalid") as caught:
        parse_golden("golden.yaml", b"- [not, a, query]\n" * (MAX_QUERIES + 1))
    [(line, reason)] = caught.value.lines
    assert (line, "10001 queries; at most 10000" in reason) == (MAX_QUERIES + 1, True)
    assert "at most 1000" in fault(phrases=[f"{number}" for number in range(MAX_LIST + 1)])
    assert "at most 1000" in fault(relevance={f"{number}": 1 for number in range(MAX_LIST + 1)})

    token = CancelToken()
    token.cancel()
    for name, text in (("a.yaml", b"- query: one\n"), ("a.jsonl", b'{"query": "one"}\n')):
        with use_cancel_token(token), pytest.raises(Interrupted):
            parse_golden(name, text)
    with use_cancel_token(token), pytest.raises(Interrupted):
        largest_gain_test([[0.1, -0.2] * 50], seed=1)


def test_query_is_marked_as_absent() -> None:
    [found] = parse({"query": "who?", "answer": "absent"})
    assert (found.absent, found.expected, found.phrases) == (True, (), ())
    assert faults({"query": "who?", "answer": "none"}) == [(1, "answer must be 'absent'")]
    message = "has an expected answer, and says that the answer is absent"
    assert faults({"query": "who?", "answer": "absent", "phrases": ["x"]}) == [(1, message)]
