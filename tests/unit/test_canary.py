"""The canary: a provider that changes the order of a batch is noticed."""

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.promises import proves
from tests.support.rows import each_row
from tests.support.worlds import WORDS, vector_of
from truespan.errors import ProviderBadReply
from truespan.ingest.embed import CANARY, Canary, canary_places, most_canaries
from truespan.types.vectors import Vector

Change = Callable[[list[Vector]], list[Vector]]


def batch_of(size: int, seed: int = 0) -> list[str]:
    return [f"text {seed} about word{number}" for number in range(size)]


def proved(texts: list[str], room: int, change: Change | None = None) -> list[Vector]:
    """Return a batch whose vectors were reordered by the provider."""

    def send(sent: list[str]) -> list[Vector]:
        vectors = [vector_of(text) for text in sent]
        return change(vectors) if change and len(sent) > 1 else vectors

    canary = Canary()
    canary.learn(WORDS.dimensions, send)
    return canary.embed_in_order(texts, room, send)


@given(st.integers(1, 200), st.integers(0, 50), st.integers(1, 300))
def test_canary_places_differ_when_the_batch_is_reversed(size: int, seed: int, room: int) -> None:
    texts = batch_of(size, seed)
    places = canary_places(texts, min(most_canaries(size + room), room))
    total = size + len(places)
    assert len(places) == (0 if size < 2 else 1 if size < 8 or room < 2 else 2)
    assert places == sorted(set(places))
    assert all(0 <= place < total for place in places)
    if places:
        assert {total - 1 - place for place in places} != set(places)
        for turn in range(1, total):
            assert {(place + turn) % total for place in places} != set(places)


def test_places_follow_from_the_texts_and_cover_every_corner() -> None:
    assert canary_places(batch_of(30), 2) == canary_places(batch_of(30), 2)
    seen = {place for seed in range(400) for place in canary_places(batch_of(10, seed), 2)}
    assert seen == set(range(12))


@proves("embedding.count-and-canary")
@each_row("size", [2, 3, 4, 7, 8, 9, 30, 98])
@each_row("change", [
    lambda vectors: vectors[::-1], lambda vectors: [*vectors[1:], vectors[0]],
    lambda vectors: [vectors[-1], *vectors[:-1]],
    lambda vectors: vectors[len(vectors) // 2 :] + vectors[: len(vectors) // 2],
    lambda vectors: [vectors[0]] * len(vectors), lambda vectors: [vectors[-1]] * len(vectors),
    lambda vectors: vectors[:-1], lambda vectors: [*vectors, vectors[0]],
    lambda vectors: [vector_of(CANARY)] * len(vectors),
])  # fmt: skip
def test_reversed_batch_is_detected(size: int, change: Change) -> None:
    for seed in range(20):
        with pytest.raises(ProviderBadReply):
            proved(batch_of(size, seed), 100, change)


@proves("embedding.count-and-canary")
def test_shuffled_batch_is_detected_within_a_few_batches() -> None:
    chance = random.Random(7)

    def shuffled(vectors: list[Vector]) -> list[Vector]:
        return chance.sample(vectors, len(vectors))

    def swapped(vectors: list[Vector]) -> list[Vector]:
        vectors[3], vectors[11] = vectors[11], vectors[3]
        return vectors

    assert sum(_passes(batch_of(30, seed), shuffled) for seed in range(300)) <= 3
    assert not all(_passes(batch_of(30, seed), swapped) for seed in range(40))


def _passes(texts: list[str], change: Change) -> bool:
    try:
        proved(texts, 32, change)
    except ProviderBadReply:
        return False
    return True


def test_canary_is_removed_from_the_vectors() -> None:
    for size in (1, 2, 7, 8, 30):
        texts = batch_of(size)
        assert proved(texts, 32) == [vector_of(text) for text in texts]
    assert proved([*batch_of(5), CANARY, CANARY.upper()], 32)[5] == vector_of(CANARY)


def test_small_change_is_accepted_and_a_larger_one_is_not() -> None:
    def nudged(by: float) -> Change:
        def change(vectors: list[Vector]) -> list[Vector]:
            return [_nudged(vector, by) for vector in vectors]

        return change

    assert proved(batch_of(5), 32, nudged(0.01))
    with pytest.raises(ProviderBadReply):
        proved(batch_of(5), 32, nudged(0.5))


def _nudged(vector: Vector, by: float) -> Vector:
    import numpy as np

    numbers = np.frombuffer(vector, dtype="<f4").copy()
    numbers[0] += by
    return Vector(numbers.tobytes())


@each_row("vectors", [[], [b"", b""], [b""], [bytes(256)]])
def test_canary_without_a_distinct_vector_proves_nothing(vectors: Sequence[bytes]) -> None:
    with pytest.raises(ProviderBadReply):
        Canary().learn(WORDS.dimensions, lambda sent: [Vector(vector) for vector in vectors])
