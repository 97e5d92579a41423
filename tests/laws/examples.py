"""Numbers of examples for laws: few in `make test`, 50 times as many in `make prove`.

`make prove` runs every test file that imports Hypothesis or this module.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

from hypothesis import HealthCheck, settings

_IN_TEST, _IN_PROVE = 40, 2000
T = TypeVar("T")
# A busy machine must not fail a test, so no time is limited.
_UNTIMED: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", _UNTIMED, max_examples=_IN_TEST)
settings.register_profile("prove", _UNTIMED, max_examples=_IN_PROVE)
settings.load_profile("test")


def in_test_or_prove(usual: T, proving: T) -> T:
    """Return the first value in `make test`, and the second in `make prove`."""
    return proving if settings().max_examples == _IN_PROVE else usual


def examples(number: int, suppressed: Collection[HealthCheck] = ()) -> settings:
    """Try a law on a fifth of `number` examples, or on ten times as many in `make prove`."""
    tried = in_test_or_prove(max(number // 5, 1), number * 10)
    checks = (HealthCheck.too_slow, *suppressed)
    return settings(max_examples=tried, deadline=None, suppress_health_check=checks)
