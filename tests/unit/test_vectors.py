"""Validation of vectors."""

from array import array
from math import inf, nan

from truespan.types.vectors import are_sound, is_sound

ROWS = (
    (1.0, 0.0), (0.6, -0.8), (0.0, 0.0), (nan, 1.0), (inf, 1.0), (-inf, inf), (3e38, 3e38),
    (1e-38, 0.0), (9e-7, 0.0), (1.1e-6, 0.0),
)  # fmt: skip


def test_vectors_are_validated_together_like_individually() -> None:
    vectors = [array("f", row).tobytes() for row in ROWS]
    sound = [True, True, False, False, False, False, True, False, False, True]
    assert [is_sound(vector, 2) for vector in vectors] == sound
    assert are_sound(vectors, 2) == sound
    assert are_sound([], 2) == []
    vectors = [array("f", row).tobytes() for row in ((1.0, 0.0), (1.0,), (nan, 0.0))]
    assert are_sound([*vectors, b"12345678", b"123"], 2) == [True, False, False, True, False]
