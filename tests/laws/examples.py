"""How many examples a law is tried on: some in `make test`, ten times as many in `make prove`."""

from __future__ import annotations

from hypothesis import settings

_USUAL = 100
settings.register_profile("prove", max_examples=10 * _USUAL)


def examples(number: int) -> settings:
    """Try a law on so many examples, or ten times as many with `--hypothesis-profile prove`."""
    return settings(max_examples=number * settings().max_examples // _USUAL, deadline=None)
