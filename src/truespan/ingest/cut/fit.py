"""How much of a text fits a number of tokens, where no word boundary settles it."""

from __future__ import annotations

from collections.abc import Callable

_SLACK = 64
"""What is given away, as a share of the width, to need fewer counts."""


def widest(count: Callable[[int], int], width: int, limit: int) -> int:
    """Return a width of which `count` is at most `limit`, where `width` itself counts more.

    It is within a small share of the widest, and never under 1, whatever that counts. Counts are
    asked for widths up to `width` only, so nothing beyond can have a say.
    """
    fits, over = 1, width
    probe = width * limit // max(count(width), 1)
    while over - fits > max(1, width // _SLACK):
        if not fits < probe < over:
            probe = (fits + over) // 2
        if count(probe) <= limit:
            fits = probe
        else:
            over = probe
        probe = (fits + over) // 2
    return fits
