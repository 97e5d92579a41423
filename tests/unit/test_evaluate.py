"""Evaluations: golden queries, judged by the results of a search."""

import json
from collections.abc import Sequence
from itertools import count

import msgspec
import pytest
from msgspec.structs import replace

from truespan.errors import IndexUnavailable, Interrupted, InvalidArgument
from truespan.extensions.quality.evaluate import (
    Evaluation,
    Found,
    QueryMetrics,
    QueryResult,
    ScoredHit,
    State,
    evaluate,
    scored_hits,
)
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.extensions.quality.tables import evaluation_table
from truespan.wire.serialize import to_json

SECRET = "the body of a document"


def found(*passages: str, text: str = SECRET) -> list[Found]:
    """Return passages such as `a=0.9`."""
    pairs = [passage.split("=") for passage in passages]
    return [Found(name, f"{name}.md", float(score), text) for name, score in pairs]


def asked(*expected: str, phrases: Sequence[str] = (), top_k: int = 10) -> GoldenQuery:
    return GoldenQuery("q", "who?", tuple(map(Expected, expected)), tuple(phrases), top_k)


def judged(query: GoldenQuery, passages: Sequence[Found]) -> QueryResult:
    [result] = evaluate("one", [query], lambda _: passages).results
    return result


def test_documents_count_once_by_grade_within_top_k() -> None:
    result = judged(asked("b"), found("a=0.9", "a=0.8", "b=0.7", "a=0.6", "b=0.5"))
    assert [(one.document, one.score, one.grade) for one in result.documents] == [
        ("a", 0.9, None),
        ("b", 0.7, 1),
    ]
    assert result.metrics.reciprocal_rank == 0.5
    assert result.hits == (ScoredHit(0.9, False), ScoredHit(0.7, True))
    assert (result.best_relevant, result.best_irrelevant) == (0.7, 0.9)

    query = replace(asked("b"), expected=(Expected("a", 0), Expected("b", 1)))
    result = judged(query, found("a=0.9", "b=0.7"))
    assert [one.grade for one in result.documents] == [0, 1]
    assert result.hits == (ScoredHit(0.9, False), ScoredHit(0.7, True))
    result = judged(asked("c", top_k=2), found("a=0.9", "b=0.8", "c=0.7"))
    assert result.metrics.hit == 0.0
    assert result.metrics.ndcg == 0.5


def test_phrases_judge_passages_alone_and_with_documents() -> None:
    passages = [*found("a=0.9"), *found("a=0.8", text="Where the\nBell hangs")]
    result = judged(asked(phrases=["bell hangs"]), passages)
    assert result.phrase_rank == 2
    assert result.metrics == QueryMetrics(hit=1.0, reciprocal_rank=0.5, phrase_hit=1.0)
    assert result.hits == (ScoredHit(0.9, False), ScoredHit(0.8, True))

    passages = [*found("a=0.9"), *found("a=0.8", text="bell")]
    assert judged(asked(phrases=["bell"], top_k=1), passages).phrase_rank is None

    result = judged(asked("b", phrases=["nowhere"]), found("b=0.9"))
    assert result.metrics.hit == 1.0
    assert result.metrics.phrase_hit == 0.0
    assert result.hits == (ScoredHit(0.9, False),)


def test_query_without_results_is_empty() -> None:
    evaluation = evaluate("one", [asked("a")], lambda _: [])
    assert evaluation.results[0].state is State.EMPTY
    assert evaluation.totals.empty == 1
    assert evaluation.totals.metrics.recall == 0.0


def test_failed_search_counts_as_nothing_found() -> None:
    def search(query: GoldenQuery) -> list[Found]:
        if query.id == "bad":
            raise IndexUnavailable("The index did not answer.")
        return found("a=0.9")

    evaluation = evaluate("one", [replace(asked("a"), id="bad"), asked("a")], search)

    failed, fine = evaluation.results
    assert (failed.state, failed.error, failed.metrics.hit) == (
        State.FAILED, "index_unavailable", 0.0,
    )  # fmt: skip
    assert fine.state is State.ANSWERED
    assert (evaluation.totals.failed, evaluation.totals.empty) == (1, 0)
    assert evaluation.totals.metrics.hit == 0.5


def test_interrupted_evaluation_stops() -> None:
    def search(_: GoldenQuery) -> list[Found]:
        raise Interrupted

    with pytest.raises(Interrupted):
        evaluate("one", [asked("a")], search)


def test_unjudged_query_affects_neither_means_nor_calibration() -> None:
    unjudged = [GoldenQuery("none", "x"), GoldenQuery("zero", "y", (Expected("a", 0),))]
    totals = evaluate("one", [asked("a"), *unjudged], lambda _: found("a=0.9")).totals
    assert (totals.queries, totals.judged, totals.unjudged) == (3, 1, 2)
    assert totals.metrics.hit == 1.0
    evaluation = evaluate("one", [GoldenQuery("none", "x")], lambda _: found("a=0.9"))
    assert scored_hits(evaluation) == []


def test_expected_documents_count_once_and_are_missed_if_absent() -> None:
    keys = {"3": "ferry", "ferry.epub": "ferry"}
    query = GoldenQuery("q", "x", (Expected("3", 2), Expected("ferry.epub", 1)))
    evaluation = evaluate("one", [query], lambda _: found("ferry=0.9"), identify=keys.get)
    assert evaluation.results[0].expected == (Expected("ferry", 2),)
    assert evaluation.results[0].metrics.recall == 1.0

    query = asked("here", "gone")
    evaluation = evaluate(
        "one", [query], lambda _: found("here=0.9"), identify={"here": "here"}.get
    )
    assert evaluation.results[0].absent == ("gone",)
    assert evaluation.totals.absent_documents == 1
    assert evaluation.results[0].metrics.recall == 0.5


def test_search_time_does_not_count_for_equality() -> None:
    ticks = count()
    slow = evaluate("one", [asked("a")], lambda _: [], clock=lambda: float(next(ticks)))
    assert slow.results[0].seconds == 1.0
    assert slow.totals.seconds == 1.0
    assert slow == evaluate("one", [asked("a")], lambda _: [])


@pytest.mark.parametrize("golden", [[], [asked("a"), asked("b")]])
def test_missing_queries_and_repeated_ids_are_refused(golden: list[GoldenQuery]) -> None:
    with pytest.raises(InvalidArgument):
        evaluate("one", golden, lambda _: [])


def whole() -> Evaluation:
    """Return an evaluation with a query of every kind."""
    golden = [
        GoldenQuery("one", "first\nquestion", (Expected("b", 2), Expected("z", 0))),
        GoldenQuery("two", "second", phrases=(SECRET,)),
        GoldenQuery("three", "third"),
        GoldenQuery("four", "fourth", (Expected("a"),)),
    ]

    def search(query: GoldenQuery) -> list[Found]:
        if query.id == "four":
            raise InvalidArgument(code="blank_query")
        return found("a=0.9", "c=0.9", "b=0.9", "d d=0.95")

    return evaluate("generation 1", golden, search)


def test_evaluation_survives_json_without_document_text() -> None:
    evaluation = whole()
    assert msgspec.convert(json.loads(to_json(evaluation)), Evaluation) == evaluation
    evaluation = whole()
    assert evaluation.results[1].metrics.phrase_hit == 1.0
    forms = [to_json(evaluation), evaluation_table(evaluation)]
    assert not [form for form in forms if SECRET in form]


def test_table_has_a_line_for_each_query_in_plain_characters() -> None:
    lines = evaluation_table(whole()).splitlines()
    assert lines[0] == "generation 1: 4 queries, 3 judged, 1 unjudged, 1 failed"
    assert lines[3].startswith("one first question")
    assert "unjudged" in lines[5]
    assert "blank_query" in lines[6]
    assert lines[7].split()[:3] == ["mean", "0.6667", "0.4444"]
    query = replace(asked("a"), query="x\x1b[31m\u202ereversed\ttab\n" + "long " * 50)
    table = evaluation_table(evaluate("one", [query], lambda _: []))
    assert not set("\x1b\u202e\t") & set(table)
    assert len(table.splitlines()) == 5
