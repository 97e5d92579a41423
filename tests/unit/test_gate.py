"""The gate before a promotion, with and without an earlier generation."""

from collections.abc import Collection

import pytest

from truespan.errors import IndexUnavailable, InvalidArgument
from truespan.extensions.quality.compare import gate_generation
from truespan.extensions.quality.evaluate import Evaluation, Found, evaluate
from truespan.extensions.quality.golden import Expected, GoldenQuery

GOLDEN = [GoldenQuery(str(number), f"query {number}", (Expected("a"),)) for number in range(10)]


def generation(misses: Collection[int] = (), failing: Collection[int] = ()) -> Evaluation:
    def search(query: GoldenQuery) -> list[Found]:
        if int(query.id) in failing:
            raise IndexUnavailable("gone")
        return [Found("b" if int(query.id) in misses else "a", "", 0.5, "")]

    return evaluate("new", GOLDEN, search)


def codes(*args: object, **options: float) -> list[str]:
    verdict = gate_generation(*args, **options)  # type: ignore[arg-type]
    assert verdict.passed is not bool(verdict.reasons)
    return [reason.code for reason in verdict.reasons]


def test_first_generation_passes_if_all_queries_ran_and_one_hit() -> None:
    assert codes(None, generation(misses=range(9))) == []
    assert codes(None, generation(misses=range(10))) == ["nothing_hit"]
    assert codes(generation(misses=range(10)), generation(misses=range(10))) == ["nothing_hit"]
    assert codes(None, generation(failing=[3])) == ["queries_failed"]
    unjudged = evaluate("new", [GoldenQuery("1", "?")], lambda _: [])
    assert codes(None, unjudged) == ["nothing_judged"]


def test_worse_generation_passes_within_the_allowed_drop() -> None:
    assert codes(generation(misses=[1]), generation(misses=[1])) == []
    assert codes(generation(misses=[1]), generation(misses=[])) == []
    assert set(codes(generation(), generation(misses=[1]))) == {"metric_dropped"}
    assert codes(generation(), generation(misses=[1]), 0.1) == []
    assert set(codes(generation(), generation(misses=[1, 2]), 0.1)) == {"metric_dropped"}


@pytest.mark.parametrize("old", [None, generation(misses=[0, 1, 2, 3])])
def test_min_hit_rate_applies_with_and_without_a_baseline(old: Evaluation | None) -> None:
    assert codes(old, generation(misses=[0, 1, 2, 3]), min_hit_rate=0.6) == []
    assert codes(old, generation(misses=[0, 1, 2, 3]), min_hit_rate=0.7) == ["hit_rate_too_low"]


def test_hit_rate_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        gate_generation(None, generation(), min_hit_rate=1.5)
