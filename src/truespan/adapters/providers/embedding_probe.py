"""How many dimensions a model's vectors have, learnt from the vector of one known text."""

from __future__ import annotations

import math

from truespan.adapters.vector_bytes import LEAST_LENGTH, numbers_of
from truespan.errors import InvalidConfiguration, ProviderBadReply
from truespan.model.chunk import Vector

PROBE = "A short text from which the number of dimensions is learnt."


def learnt_dimensions(
    vector: Vector, wanted: int | None, *, who: str, model: str, setting: str
) -> int:
    """Return the dimensions of a probe's vector.

    Raises:
        ProviderBadReply: it is no vector.
        InvalidConfiguration: it has not the dimensions that were asked for.
    """
    numbers = numbers_of(vector)
    if not LEAST_LENGTH < math.hypot(*numbers) < math.inf:
        raise ProviderBadReply(f"{who} did not return one sound vector.")
    if wanted not in (None, len(numbers)):
        raise InvalidConfiguration(
            f"The model {model!r} gives {len(numbers)} dimensions, not the {wanted} of {setting}.",
            advice=f"Set {setting} to 0, or choose a model that can be shortened.",
        )
    return len(numbers)
