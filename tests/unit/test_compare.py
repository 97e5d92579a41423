"""Comparing two evaluations, and the gate."""

import dataclasses
import json
import math
from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from truespan.errors import IndexUnavailable, InvalidArgument
from truespan.extensions.quality.compare import Comparison, compare, gate
from truespan.extensions.quality.evaluate import Evaluation, Found, evaluate
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.extensions.quality.tables import comparison_table
from truespan.types.request import Filters
from truespan.wire.serialize import to_json

FAILS = -1


def ranked(name: str, ranks: Mapping[str, int], **asked: object) -> Evaluation:
    """Return an evaluation in which each query finds its document at a rank; 0 for not found."""
    golden = [
        replace(GoldenQuery(id, f"what of {id}?", (Expected("right"),)), **asked) for id in ranks
    ]

    def search(query: GoldenQuery) -> list[Found]:
        rank = ranks[query.id]
        if rank == FAILS:
            raise IndexUnavailable("The index did not answer.")
        others = [Found(f"wrong{place}", "w", 1 - place / 100, "") for place in range(10)]
        right = [Found("right", "r", 1 - rank / 100, "")] if rank else []
        return others[: rank - 1] + right if rank else others

    return evaluate(name, golden, search)


def changed(old: Mapping[str, int], new: Mapping[str, int]) -> Comparison:
    return compare(ranked("old", old), ranked("new", new))


def test_each_query_and_metric_is_paired_with_itself() -> None:
    comparison = changed({"a": 1, "b": 1, "c": 3}, {"a": 1, "b": 0, "c": 1})
    assert {change.id: change.difference for change in comparison.changes} == {
        "a": 0.0, "b": -1.0, "c": pytest.approx(1 - 1 / math.log2(4)),
    }  # fmt: skip
    assert (comparison.better, comparison.worse, comparison.same) == (1, 1, 1)
    metrics = {one.name: one for one in changed({"a": 1, "b": 2}, {"a": 1, "b": 1}).metrics}
    assert (metrics["reciprocal_rank"].old, metrics["reciprocal_rank"].new) == (0.75, 1.0)
    assert metrics["reciprocal_rank"].difference == 0.25
    assert (metrics["hit"].better, metrics["hit"].worse, metrics["hit"].same) == (0, 0, 2)
    assert "phrase_hit" not in metrics


def test_query_with_phrases_counts_by_reciprocal_rank() -> None:
    def phrased(name: str, place: int) -> Evaluation:
        texts = ["nothing"] * (place - 1) + ["a bell"]
        query = GoldenQuery("q", "where?", phrases=("bell",))
        return evaluate(name, [query], lambda _: [Found("d", "d", 0.5, text) for text in texts])

    comparison = compare(phrased("old", 1), phrased("new", 4))

    assert [change.difference for change in comparison.changes] == [-0.75]
    assert [one.name for one in comparison.metrics] == ["hit", "reciprocal_rank", "phrase_hit"]


def test_queries_missing_on_one_side_are_named_and_not_compared() -> None:
    comparison = changed({"a": 1, "b": 1}, {"b": 1, "c": 1})
    assert [change.id for change in comparison.changes] == ["b"]
    assert (comparison.only_old, comparison.only_new) == (("a",), ("c",))


def test_query_that_lacked_its_document_is_newly_judged() -> None:
    old = ranked("old", {"a": 1, "b": 0, "c": 0})
    lacking = dataclasses.replace(old.results[1], absent=("right",))
    old = replace(old, results=(old.results[0], lacking, old.results[2]))
    found = ranked("new", {"a": 1, "b": 1, "c": 1})
    renamed = dataclasses.replace(
        found.results[1], expected=(Expected("the same, by another name"),)
    )
    new = replace(found, results=(found.results[0], renamed, found.results[2]))

    comparison = compare(old, new)

    # The third had its document and did not find it: that is an improvement.
    assert comparison.newly_judged == ("b",)
    assert (comparison.better, comparison.worse, comparison.same) == (1, 0, 1)
    assert comparison.changed_queries == ()
    assert gate(comparison).passed
    assert compare(old, old).newly_judged == ()


@pytest.mark.parametrize("asked", [
    {"query": "something else?"}, {"expected": (Expected("right"), Expected("more"))},
    {"expected": (Expected("right", 2),)}, {"phrases": ("one",)}, {"top_k": 3},
    {"filters": Filters(language="en")},
])  # fmt: skip
def test_query_with_another_question_is_not_compared(asked: dict[str, object]) -> None:
    comparison = compare(ranked("old", {"a": 1}), ranked("new", {"a": 1}, **asked))
    assert comparison.changed_queries == ("a",)
    assert comparison.changes == ()


def test_comparison_survives_json() -> None:
    comparison = changed({"a": 1, "b": 2, "x": 1}, {"a": 3, "b": FAILS})
    assert msgspec.convert(json.loads(to_json(comparison)), Comparison) == comparison


def test_gate_passes_only_drops_within_the_allowance() -> None:
    verdict = gate(changed({"a": 2, "b": 1}, {"a": 1, "b": 1}), 0.0)
    assert verdict.passed
    assert verdict.reasons == ()
    comparison = changed(dict.fromkeys("abcd", 1), {**dict.fromkeys("abc", 1), "d": 0})
    assert gate(comparison, 0.25).passed
    verdict = gate(comparison, 0.2499)
    assert not verdict.passed
    assert {reason.code for reason in verdict.reasons} == {"metric_dropped"}
    assert "hit rate falls from 1.0000 to 0.7500" in verdict.reasons[0].message


@pytest.mark.parametrize(("old", "new", "code"), [
    ({"a": 1}, {"b": 1}, "nothing_compared"), ({"a": 1, "b": 1}, {"a": 1}, "queries_differ"),
    ({"a": 1}, {"a": 1, "b": 1}, "queries_differ"), ({"a": 0}, {"a": FAILS}, "queries_failed"),
])  # fmt: skip
def test_gate_fails_if_queries_were_not_compared(
    old: dict[str, int], new: dict[str, int], code: str
) -> None:
    verdict = gate(changed(old, new), 1.0)
    assert not verdict.passed
    assert code in [reason.code for reason in verdict.reasons]


@pytest.mark.parametrize("allowed", [-0.1, 1.1, math.nan, math.inf])
def test_allowed_drop_out_of_range_is_refused(allowed: float) -> None:
    with pytest.raises(InvalidArgument):
        gate(changed({"a": 1}, {"a": 1}), allowed)


def test_table_shows_metrics_changed_queries_and_verdict() -> None:
    comparison = changed({"a": 1, "b": 1, "c": 2}, {"a": 1, "b": 0, "c": 1})
    lines = comparison_table(comparison, gate(comparison)).splitlines()
    assert lines[0] == "old -> new: 1 better, 1 worse, 1 same"
    assert lines[3].split()[:4] == ["hit", "rate", "1.0000", "0.6667"]
    movers = [line.split() for line in lines if line.startswith(("b what", "c what"))]
    assert [line[-1] for line in movers] == ["-1.0000", "+0.3691"]
    assert "The gate does not hold:" in lines
