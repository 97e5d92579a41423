"""The reranking stage: its order, and its handling of failures."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.promises import proves
from tests.support.worlds import ManualClock
from tests.unit.sources import source
from truespan.errors import Interrupted, ModelUnavailable, ProviderBadReply, ProviderUnavailable
from truespan.observer import NULL_OBSERVER, NullObserver
from truespan.retrieval.pack import Packer, pack_reranked, require_candidates
from truespan.retrieval.pipeline import Attempt
from truespan.retrieval.rerank import RerankOptions, RerankStage, check_scores, reorder
from truespan.types.ids import ChunkId, WorldId
from truespan.types.request import Mode
from truespan.types.scope import World
from truespan.types.telemetry import CounterName, known_code
from truespan.types.trust import Visible


def chunk(number: int, *, tokens: int = 1, score: float = 0.5) -> Visible:
    place = {"index": number, "first_sid": number, "last_sid": number, "start": number * 100}
    own = {"chunk_id": ChunkId(f"chunk-{number}"), "tokens": tokens, "score": score}
    return source(f"text {number}", **place, **own)


@dataclass
class Scripted:
    """A reranker that replies as configured, and records its requests."""

    answer: Callable[[Sequence[str]], Any]
    name: str = "test/scripted"
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked.append((query, tuple(texts)))
        return self.answer(texts)


class Counting(NullObserver):
    """An observer that records counts."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: list[tuple[str, int, str]] = []

    def count(self, counter: CounterName, amount: int = 1, code: str = "", /) -> None:
        self.counts.append((counter.value, amount, known_code(counter, code)))


def stage_of(reranker: Scripted, **options: Any) -> RerankStage:
    clock = options.pop("clock", None) or ManualClock()
    trace = options.pop("trace", NULL_OBSERVER)
    return RerankStage(RerankOptions(reranker, **options), "query", clock, trace)


@proves("rerank.order")
@given(
    scores=st.lists(st.sampled_from([-1e9, -1.0, 0.0, -0.0, 0.5, 7]), max_size=8),
    more=st.integers(0, 3),
)
def test_order_is_by_score_then_earlier_rank_and_the_rest_follows(
    scores: list[float], more: int
) -> None:
    ranked = [chunk(number) for number in range(len(scores) + more)]

    ordered = reorder(ranked, scores, "test")

    first, rest = ordered[: len(scores)], ordered[len(scores) :]
    assert rest == ranked[len(scores) :]
    keys = [(-scores[part.index], part.index) for part in first]
    assert keys == sorted(keys)
    assert sorted(part.index for part in first) == list(range(len(scores)))
    for after, part in enumerate(first, 1):
        assert part.rerank is not None
        assert (part.rerank.before, part.rerank.after) == (part.index + 1, after)
        assert (part.rerank.model, part.rerank.score) == ("test", scores[part.index])
    assert all(part.score == 0.5 for part in ordered)


NONSENSE: list[tuple[str, Any]] = [
    ("nothing", None), ("text", "123"), ("bytes", b"123"), ("a number", 7.0),
    ("a mapping", {0: 1.0, 1: 0.5, 2: 0.1}), ("fewer", [1.0, 0.5]), ("more", [1.0, 0.5, 0.1, 0.0]),
    ("none", []), ("text for a score", [1.0, 0.5, "0.1"]), ("null for a score", [1.0, 0.5, None]),
    ("true for a score", [1.0, 0.5, True]), ("a list for a score", [1.0, 0.5, [0.1]]),
    ("a complex number", [1.0, 0.5, 1j]), ("NaN", [1.0, 0.5, math.nan]),
    ("infinity", [1.0, 0.5, math.inf]), ("minus infinity", [1.0, 0.5, -math.inf]),
    ("an endless number", [1.0, 0.5, 10**400]), ("NaN of numpy", [1.0, 0.5, numpy.float32("nan")]),
]  # fmt: skip


@proves("rerank.failure")
def test_invalid_scores_are_refused() -> None:
    for name, scores in NONSENSE:
        with pytest.raises(ProviderBadReply):
            print(name, check_scores(scores, 3))
    assert check_scores([1, numpy.float32(0.5), numpy.float64(-2)], 3) == [1.0, 0.5, -2.0]
    assert check_scores((1.0,), 1) == [1.0]


def fail(error: BaseException) -> Callable[[Sequence[str]], Any]:
    def answer(_: Sequence[str]) -> Any:
        raise error

    return answer


@proves("rerank.failure")
def test_any_failure_keeps_the_order_and_hides_its_message() -> None:
    rows: list[tuple[Callable[[Sequence[str]], Any], str]] = [
        (fail(ProviderUnavailable("secret.host did not answer.")), "provider_unavailable"),
        (fail(ModelUnavailable("secret.host")), "model_unavailable"),
        (fail(ValueError("secret.host")), "internal_error"),
        (fail(MemoryError("secret.host")), "internal_error"),
        (fail(OSError(28, "secret.host")), "storage_full"),
        (fail(RecursionError("secret.host")), "internal_error"),
        *((lambda _, value=value: value, "provider_bad_reply") for _, value in NONSENSE),
    ]
    ranked = [chunk(number) for number in range(3)]
    for answer, code in rows:
        stage = stage_of(Scripted(answer))

        ordered, report, [warning] = stage.order(ranked)

        assert ordered == ranked, code
        assert (report.candidates, report.moved, report.failure) == (3, 0, code)
        assert warning.code == "rerank_failed"
        assert code in warning.message
        assert "secret" not in warning.message


@proves("rerank.failure")
def test_cancellation_is_not_a_failure_of_the_reranker() -> None:
    for error in (Interrupted(), KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(error)):
            stage_of(Scripted(fail(error))).order([chunk(0)])


def test_only_the_first_candidates_are_sent() -> None:
    reranker = Scripted(lambda texts: list(range(len(texts))))
    stage = stage_of(reranker, candidates=2)
    ordered, report, warnings = stage.order([chunk(number) for number in range(4)])
    nothing, empty, _ = stage.order([])
    assert [part.index for part in ordered] == [1, 0, 2, 3]
    assert (report.candidates, report.moved, report.failure, warnings) == (2, 2, None, [])
    assert reranker.asked == [("query", ("text 0", "text 1"))]
    assert (nothing, empty.candidates) == ([], 0)


def test_equal_texts_are_sent_once_in_a_request() -> None:
    reranker = Scripted(lambda texts: list(range(len(texts))))
    stage, ranked = stage_of(reranker), [chunk(number) for number in range(3)]
    assert stage.order(ranked) == stage.order(ranked)
    stage.order(ranked[::-1])
    assert len(reranker.asked) == 2


@proves("rerank.failure")
def test_failed_or_slow_reranker_is_not_called_again() -> None:
    failing = Scripted(fail(ProviderUnavailable("no")))
    stage = stage_of(failing)
    for number in range(3):
        assert stage.order([chunk(number)])[1].failure == "provider_unavailable"
    assert len(failing.asked) == 1

    clock = ManualClock()

    def take_long(texts: Sequence[str]) -> list[float]:
        clock.time += 4
        return [0.0 for _ in texts]

    slow = Scripted(take_long)
    stage = stage_of(slow, clock=clock, seconds=10.0)
    failures = [stage.order([chunk(number)])[1].failure for number in range(5)]
    assert failures == [None, None, None, "provider_unavailable", "provider_unavailable"]
    assert len(slow.asked) == 3


def test_every_call_is_counted_by_its_outcome() -> None:
    trace = Counting()
    for answer in (lambda texts: [0.0] * len(texts), fail(ProviderUnavailable("no"))):
        stage = stage_of(Scripted(answer), trace=trace)
        for _ in range(2):
            stage.order([chunk(0)])
    assert trace.counts == [("reranks", 1, "reranked"), ("reranks", 1, "provider_unavailable")]


# Packing


def test_candidates_are_requested_until_there_are_enough() -> None:
    ranked = [chunk(number, score=1 - number / 10) for number in range(4)]
    packed = Packer(k=2, budget=100).pack(ranked)
    assert require_candidates(packed, ranked, 0) is packed
    assert require_candidates(packed, ranked, 6).missing == 2
    assert require_candidates(packed, ranked, 6).last is None
    assert require_candidates(packed, ranked, 4).last == ranked[3].score
    assert require_candidates(packed, ranked, 1).last == ranked[1].score
    assert require_candidates(Packer(k=9, budget=100).pack(ranked), ranked, 2).missing == 5


def attempt_in_no_world() -> Attempt:
    return Attempt(World(WorldId("w"), "w", None, 0), Mode.VECTOR, "q")


@proves("rerank.order")
def test_packing_follows_the_reranked_order() -> None:
    ranked = [chunk(number, score=1 - number / 10, tokens=5) for number in range(6)]
    ranked[1] = chunk(1, score=0.9, tokens=50)
    attempt = attempt_in_no_world()
    backwards = stage_of(Scripted(lambda texts: list(range(len(texts)))), candidates=3)
    limits = Packer(k=2, budget=10), NULL_OBSERVER

    packed = pack_reranked(attempt, backwards, ranked, *limits)

    assert [part.index for part in packed.chosen] == [2, 0]
    assert packed.last == ranked[2].score
    assert attempt.rerank is not None
    assert attempt.rerank.moved == 2
    assert pack_reranked(attempt, None, ranked, *limits) == Packer(k=2, budget=10).pack(ranked)
    # Chunks that were only fetched because others had to be skipped are out of reach.
    few = stage_of(Scripted(lambda texts: [0.0] * len(texts)), candidates=1)
    assert pack_reranked(attempt, few, ranked, *limits).seen <= 3
