"""The proposed weight of words in hybrid search: means, significance and words."""

from collections.abc import Mapping

import pytest

from truespan.errors import IndexUnavailable
from truespan.extensions.quality.calibrate import MIN_QUERIES, WeightReport, propose_weight
from truespan.extensions.quality.compare import largest_gain_test, randomisation_test
from truespan.extensions.quality.evaluate import Evaluation, Found, evaluate
from truespan.extensions.quality.golden import Expected, GoldenQuery

FAILS = 0


def evaluated(ranks: list[int], *, phrases: bool = False) -> Evaluation:
    """Return an evaluation in which each query finds what it expects at a rank."""
    documents, texts = ((), ("right",)) if phrases else ((Expected("right"),), ())
    golden = [GoldenQuery(str(n), f"question {n}", documents, texts) for n in range(len(ranks))]

    def search(query: GoldenQuery) -> list[Found]:
        rank = ranks[int(query.id)]
        if rank == FAILS:
            raise IndexUnavailable("The index did not answer.")
        wrong = [Found(f"wrong{place}", "w", 0.5, "wrong") for place in range(rank - 1)]
        return [*wrong, Found("right", "r", 0.5, "right")]

    return evaluate("e", golden, search)


def proposed(ranks: Mapping[float, list[int]], in_force: float = 0.5) -> WeightReport:
    evaluations = {weight: evaluated(found) for weight, found in ranks.items()}
    return propose_weight(evaluations, in_force)


def test_propose_weight_names_a_clearly_better_weight() -> None:
    report = proposed({0.3: [3] * 40, 0.5: [2] * 40, 0.7: [1] * 30 + [2] * 10})

    assert (report.proposed, report.best, report.queries) == (0.7, 0.7, 40)
    assert [point.weight for point in report.means] == [0.3, 0.5, 0.7]
    assert report.message == (
        "0.7 instead of 0.5: nDCG@10 0.908 instead of 0.631, p < 0.001, 40 queries."
    )


def test_propose_weight_keeps_the_weight_without_clear_difference() -> None:
    report = proposed({0.5: [1, 2] * 20, 0.7: [2, 1] * 19 + [1, 1]})
    assert (report.proposed, report.best) == (None, 0.7)
    assert report.p is not None
    assert report.p > 0.05
    assert report.message.startswith("Keep 0.5: no clear difference. The best is 0.7: nDCG@10 0.8")


def test_propose_weight_keeps_the_weight_among_equal_ones() -> None:
    report = proposed({0.3: [1] * 30, 0.5: [1] * 30, 0.7: [1] * 30})
    assert (report.proposed, report.best, report.p) == (None, 0.5, None)
    assert report.message == "Keep 0.5: no other weight is better (nDCG@10 1.000, 30 queries)."
    assert proposed({0.2: [2] * 30, 0.3: [1] * 30, 0.4: [1] * 30}, in_force=0.2).proposed == 0.3


def test_propose_weight_needs_enough_queries_that_did_not_fail() -> None:
    few = MIN_QUERIES - 1
    report = proposed({0.5: [2] * few + [2, FAILS], 0.7: [1] * few + [FAILS, 1]})
    assert (report.proposed, report.queries, report.p) == (None, few, None)
    assert report.message == "Keep 0.5: 19 judged queries are too few, at least 20 are needed."
    assert proposed({0.5: [2] * 20, 0.7: [1] * 20}).proposed == 0.7


def test_propose_weight_uses_reciprocal_ranks_of_phrases() -> None:
    evaluations = {0.5: evaluated([4] * 30, phrases=True), 0.7: evaluated([2] * 30, phrases=True)}
    report = propose_weight(evaluations, 0.5)
    assert report.message.startswith("0.7 instead of 0.5: MRR 0.500 instead of 0.250, p < 0.001")


def test_largest_gain_test_accounts_for_the_choice() -> None:
    gains = [1.0] * 16 + [-1.0] * 7
    mixed = [
        [gain if (n * (row + 2)) % 7 else -gain for n, gain in enumerate(gains)] for row in range(6)
    ]

    alone = largest_gain_test([gains], seed=1)

    # One alternative: half of the two-sided test.
    assert alone == pytest.approx(randomisation_test(gains, seed=1) / 2, abs=0.01)
    assert largest_gain_test([gains, gains], seed=1) == alone
    assert largest_gain_test([gains, *mixed], seed=1) > 1.5 * alone
    assert largest_gain_test([gains], seed=1) == alone
    assert largest_gain_test([[0.0, 0.0], [0.0, 0.0]], seed=1) == 1.0
