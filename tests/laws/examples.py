"""How much a law is tried: some in `make test`, 50 times as many examples in `make prove`.

`make prove` runs every test file that imports Hypothesis or this module.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from hypothesis import HealthCheck, settings

_IN_TEST, _IN_PROVE = 40, 2000
T = TypeVar("T")
settings.register_profile("test", max_examples=_IN_TEST)
settings.register_profile("prove", max_examples=_IN_PROVE)
settings.load_profile("test")


def in_test_or_prove(usual: T, proving: T) -> T:
    """Return the first value in `make test`, and the second in `make prove`."""
    return proving if settings().max_examples == _IN_PROVE else usual


def examples(number: int, suppressed: Collection[HealthCheck] = ()) -> settings:
    """Try a law on a fifth of so many examples, or on ten times as many in `make prove`."""
    tried = in_test_or_prove(max(number // 5, 1), number * 10)
    return settings(max_examples=tried, deadline=None, suppress_health_check=suppressed)
