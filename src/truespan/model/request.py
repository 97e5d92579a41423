"""What a caller asks for, checked before anything is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from truespan.errors import InvalidSettings

DEFAULT_TOP_K = 10
DEFAULT_FLOOR = 0.15


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A query, how many results it may give, and the least similarity they must have.

    Wrong types are refused rather than converted: `True` is an `int` in Python, and a caller who
    passes it has made a mistake.
    """

    query: str
    top_k: int = DEFAULT_TOP_K
    floor: float = DEFAULT_FLOOR

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InvalidSettings("The query must be a string.")
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int):
            raise InvalidSettings("top_k must be a whole number.")
        if self.top_k < 0:
            raise InvalidSettings("top_k must not be negative.")
        if isinstance(self.floor, bool) or not isinstance(self.floor, int | float):
            raise InvalidSettings("The floor must be a number.")
        if not math.isfinite(self.floor) or not 0.0 <= self.floor <= 1.0:
            raise InvalidSettings("The floor must lie between 0.0 and 1.0.")
