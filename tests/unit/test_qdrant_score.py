"""A floor means the same to the index and to the engine, down to the last bit."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.promises import proves
from truespan.index.filters import hits_of, threshold
from truespan.types.profile import float32

FLOATS = st.floats(min_value=-1, max_value=1, width=32)
FLOORS = st.floats(min_value=0, max_value=1)


def similarity(raw: float, distance: str) -> float:
    return hits_of([("id", raw, "hash")], distance, None)[0].score


def neighbours(number: float) -> list[float]:
    """Return the float32 numbers up to two steps from `number`, in order."""
    (bits,) = struct.unpack("<i", struct.pack("<f", number))
    # Negative floats count downwards, so they are mirrored to make the steps uniform.
    place = bits if bits >= 0 else -(bits & 0x7FFFFFFF)
    places = range(place - 2, place + 3)
    return [
        struct.unpack("<f", struct.pack("<I", p if p >= 0 else 1 << 31 | -p))[0] for p in places
    ]


@proves("search.floor-inclusive", "decision.normalised-similarity")
@pytest.mark.parametrize("distance", ["cosine", "dot"])
@given(floor=FLOORS)
def test_strict_threshold_and_check_equal_the_floor(distance, floor):
    edge = float32(floor) if distance == "cosine" else float32(2 * float32(floor) - 1)
    for raw in neighbours(edge):
        passes = raw > threshold(floor, distance)
        reaches = similarity(raw, distance) >= float32(floor)
        assert passes or not reaches, "the index would hide a hit that reaches the floor"


@proves("search.floor-in-request")
@pytest.mark.parametrize("distance", ["cosine", "dot"])
@given(floor=FLOORS)
def test_threshold_accepts_almost_nothing_below_the_floor(distance, floor):
    least = float32(floor)
    assert similarity(threshold(floor, distance), distance) <= least
    assert similarity(threshold(floor, distance), distance) > least - 1e-6


@given(raw=FLOATS)
def test_better_raw_score_is_never_a_worse_similarity(raw):
    worse = math.nextafter(raw, -2)
    assert similarity(raw, "cosine") == raw
    assert similarity(raw, "dot") >= similarity(worse, "dot")


def test_vectors_span_the_scale_of_a_dot_product():
    assert [similarity(raw, "dot") for raw in (-1.0, 0.0, 1.0)] == [0.0, 0.5, 1.0]
