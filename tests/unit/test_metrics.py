"""Metrics of rankings, against a slow calculation of their own and, where installed, trec_eval."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import pytest

from truespan.extensions.quality.evaluate import (
    LABELS,
    NAMES,
    QueryMetrics,
    averages,
    document_metrics,
    ndcg,
    phrase_matcher,
    phrase_metrics,
)

Run = tuple[list[str], dict[str, int], int]


def runs(count: int) -> list[Run]:
    """Return random rankings with judgements; at least one document of each is relevant."""
    chance = random.Random(20260)
    found = []
    for _ in range(count):
        pool = [f"d{number}" for number in range(chance.randint(1, 30))]
        grades = {one: chance.choice((0, 0, 1, 1, 2, 3)) for one in pool if chance.random() < 0.4}
        grades[f"far{chance.randint(0, 3)}" if chance.random() < 0.3 else pool[0]] = 2
        ranking = chance.sample(pool, chance.randint(0, len(pool)))
        found.append((ranking, grades, chance.choice((1, 3, 5, 10, 20))))
    return found


def slowly(ranking: Sequence[str], grades: Mapping[str, int], top_k: int) -> dict[str, float]:
    """Return the same figures rank by rank, with the best order found by search."""
    found, first, gained, reachable = 0, 0.0, 0.0, 0.0
    for place in range(1, top_k + 1):
        if place <= len(ranking) and grades.get(ranking[place - 1], 0) > 0:
            found += 1
            first = first or 1 / place
    remaining = list(grades.values())
    for place in range(1, 11):
        discount = math.log(place + 1) / math.log(2)
        if place <= len(ranking):
            gained += grades.get(ranking[place - 1], 0) / discount
        if remaining:
            best = max(remaining)
            remaining.remove(best)
            reachable += best / discount
    return {
        "hit": 1.0 if found else 0.0, "reciprocal_rank": first,
        "recall": found / sum(grade > 0 for grade in grades.values()), "precision": found / top_k,
        "ndcg": gained / reachable,
    }  # fmt: skip


def test_figures_equal_slow_calculation_and_recorded_trec_eval() -> None:
    for run in runs(500):
        metrics = document_metrics(*run)
        for name, value in slowly(*run).items():
            assert getattr(metrics, name) == pytest.approx(value, abs=1e-12), (name, run)
        assert metrics.phrase_hit is None

    recorded = Path(__file__).parents[1] / "fixtures" / "trec_eval.jsonl"
    cases = [json.loads(line) for line in recorded.read_text().splitlines()]
    for case in cases:
        ours = document_metrics(case["ranking"], case["grades"], case["top_k"])
        for name in ("hit", "reciprocal_rank", "recall", "precision", "ndcg"):
            assert getattr(ours, name) == pytest.approx(case[name], abs=1e-9), (name, case)
    assert len(cases) == 80


def test_figures_equal_those_of_trec_eval() -> None:
    trec = pytest.importorskip(
        "pytrec_eval", reason="pytrec-eval-terrier is not installed: figures are not compared"
    )
    cases = {str(number): run for number, run in enumerate(runs(300))}
    qrels = {id: grades for id, (_, grades, _) in cases.items()}
    scores = {
        id: {document: 1.0 - place / 100 for place, document in enumerate(ranking[:top_k])}
        for id, (ranking, _, top_k) in cases.items()
    }
    cuts = "1,3,5,10,20"
    wanted = {f"recall.{cuts}", f"P.{cuts}", f"success.{cuts}", "recip_rank", "ndcg_cut.10"}
    judged = trec.RelevanceEvaluator(qrels, wanted).evaluate(scores)

    compared = 0
    for id, theirs in judged.items():
        ranking, grades, top_k = cases[id]
        ours = document_metrics(ranking[:top_k], grades, top_k)
        assert ours.hit == theirs[f"success_{top_k}"]
        assert ours.reciprocal_rank == pytest.approx(theirs["recip_rank"], abs=1e-9)
        assert ours.recall == pytest.approx(theirs[f"recall_{top_k}"], abs=1e-9)
        assert ours.precision == pytest.approx(theirs[f"P_{top_k}"], abs=1e-9)
        assert ours.ndcg == pytest.approx(theirs["ndcg_cut_10"], abs=1e-9)
        compared += 1
    assert compared > 250


def test_document_metrics_have_expected_values() -> None:
    grades = {"a": 3, "b": 2, "c": 0, "d": 1}
    values = {order: ndcg(order, grades) for order in permutations(grades)}
    assert values["a", "b", "d", "c"] == 1.0
    assert max(values.values()) == 1.0
    assert values["c", "d", "b", "a"] == min(values.values())

    ranking = ["x", "y", "a"]
    assert document_metrics(ranking, {"a": 1}, 2) == QueryMetrics(0.0, 0.0, 0.0, 0.0, 0.5)
    assert document_metrics(ranking, {"a": 1}, 3).reciprocal_rank == pytest.approx(1 / 3)
    assert ndcg([*"abcdefghij", "k"], {"k": 1}) == 0.0

    assert document_metrics(["a"], {"a": 1}, 10).precision == 0.1

    assert document_metrics(["a"], {}, 10) == QueryMetrics()
    assert document_metrics(["a"], {"a": 0}, 10) == QueryMetrics()


def test_phrase_hit_has_the_rank_of_its_first_passage() -> None:
    assert phrase_metrics(4) == QueryMetrics(hit=1.0, reciprocal_rank=0.25, phrase_hit=1.0)
    assert phrase_metrics(None) == QueryMetrics(hit=0.0, reciprocal_rank=0.0, phrase_hit=0.0)


@pytest.mark.parametrize(
    "passage", ["THE\nlight  keeper", "at the light keeper's", "The Light Keeper"]
)
def test_phrase_matches_in_any_case_and_line_breaks(passage: str) -> None:
    assert phrase_matcher(["no such thing", "the light\tkeeper"])(passage)


def test_phrase_with_a_missing_word_does_not_match() -> None:
    assert not phrase_matcher(["the light keeper"])("the keeper of the light")
    assert not phrase_matcher([])("anything")


def test_means_cover_queries_with_the_figure() -> None:
    mixed = [
        QueryMetrics(hit=1.0, reciprocal_rank=1.0, ndcg=0.5),
        QueryMetrics(hit=0.0, reciprocal_rank=0.0, phrase_hit=0.0),
        QueryMetrics(),
    ]
    assert averages(mixed) == QueryMetrics(0.5, 0.5, None, None, 0.5, 0.0)
    assert averages([]) == QueryMetrics()
    assert tuple(LABELS) == NAMES
