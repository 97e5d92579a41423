"""How much a law is tried: some in `make test`, 25 times as many examples in `make prove`."""

from __future__ import annotations

from hypothesis import settings

_USUAL = settings().max_examples
settings.register_profile("prove", max_examples=25 * _USUAL)


def examples(number: int) -> settings:
    """Try a law on 0.4 times so many examples, or on ten times as many in `make prove`."""
    tried = number * settings().max_examples * 2 // (_USUAL * 5)
    return settings(max_examples=max(tried, 1), deadline=None)


def in_test_or_prove(usual: int, proving: int) -> int:
    """Return the first number in `make test`, and the second in `make prove`."""
    return usual if settings().max_examples == _USUAL else proving
