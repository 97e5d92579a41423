"""A known text among those of a batch: if its vector stands elsewhere, the batch is mixed up.

A provider that swaps two texts makes two chunks lie, and no look at the vectors alone tells. The
canary stands at places that follow from the batch's own texts, so that a fault that always hits
the same places hits it sooner or later. Two swapped texts between which no canary stands can still
pass; a shuffled, turned or shifted batch of any size does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from truespan.errors import ProviderBadReply
from truespan.ingest.embed.vectors import cosine, is_sound
from truespan.model.chunk import Vector
from truespan.ports import Embedder

CANARY = "The canary in every batch proves that vectors come back in order."
CANARY_SIMILARITY = 0.98
"""A provider's own batching may change a vector a little, never this much."""
_ENOUGH_FOR_TWO = 8
"""From this many texts on two canaries cost little, and see far more than one."""

Send = Callable[[list[str]], list[Vector]]


class Canary:
    """Knows the vector of the canary, which was embedded alone and so cannot be another's."""

    def __init__(self) -> None:
        self._vector: Vector | None = None

    def learn(self, embedder: Embedder, send: Send) -> None:
        """Embed the canary alone, unless that was done before.

        Raises:
            ProviderBadReply: there is no sound vector to compare with.
        """
        if self._vector is not None:
            return
        vectors = send([CANARY])
        if len(vectors) != 1 or not is_sound(vectors[0], embedder.profile.dimensions):
            raise ProviderBadReply("The embedding provider did not return one sound vector.")
        self._vector = vectors[0]

    def prove(self, texts: Sequence[str], room: int, send: Send) -> list[Vector]:
        """Return the vectors of a batch that came back in order.

        Raises:
            ProviderBadReply: their number or their order is wrong.
        """
        places = places_for(texts, min(room - len(texts), most_canaries(room)))
        sent = _with_canaries(texts, places)
        vectors = send(sent)
        check_count(vectors, sent)
        # A place counts the canaries before it, so the last one is taken out first.
        found = [vectors.pop(place) for place in reversed(places)]
        if not all(self._is_canary(vector) for vector in found) or _stray(vectors, texts, found):
            raise ProviderBadReply(
                "The embedding provider mixed up the vectors of a batch.",
                advice="Lower the batch size or change the provider; nothing of it was kept.",
            )
        return vectors

    def _is_canary(self, vector: Vector) -> bool:
        return self._vector is not None and cosine(vector, self._vector) >= CANARY_SIMILARITY


def check_count(vectors: Sequence[Vector], sent: Sequence[str]) -> None:
    """Refuse a reply that does not hold one vector for each text.

    Raises:
        ProviderBadReply: there are fewer or more.
    """
    if len(vectors) != len(sent):
        raise ProviderBadReply(
            f"The embedding provider returned {len(vectors)} vectors for {len(sent)} texts."
        )


def most_canaries(items: int) -> int:
    """Return how many canaries a request of so many texts may hold."""
    if items >= _ENOUGH_FOR_TWO + 2:
        return 2
    return 1 if items > 1 else 0


def places_for(texts: Sequence[str], room: int) -> list[int]:
    """Return where the canaries stand among the texts, ascending; nowhere in a batch of one.

    No place is the mirror image of itself or of the other, and the two are not half a turn apart:
    there a batch that comes back turned round would look right.
    """
    count = min(room, 2 if len(texts) >= _ENOUGH_FOR_TWO else 1)
    if len(texts) < 2 or count < 1:
        return []
    total = len(texts) + count
    seed = int.from_bytes(sha256("\0".join(texts).encode(errors="replace")).digest()[:8], "big")
    first = seed % (total // 2)
    if count == 1:
        # Either end will do as well as the other, so that the last place is tried too.
        return [first if seed >> 63 else total - 1 - first]
    half = total - total // 2
    second = total // 2 + (seed >> 32) % half
    while first + second == total - 1 or 2 * (second - first) == total or _middle(second, total):
        second = total // 2 + (second + 1 - total // 2) % half
    return [first, second]


def _middle(place: int, total: int) -> bool:
    return 2 * place == total - 1


def _with_canaries(texts: Sequence[str], places: Sequence[int]) -> list[str]:
    sent = list(texts)
    for place in places:
        sent.insert(place, CANARY)
    return sent


def _stray(vectors: Sequence[Vector], texts: Sequence[str], found: Sequence[Vector]) -> bool:
    """Say whether the canary's very vector stands for another text as well."""
    known = CANARY.casefold().split()
    return any(
        vector in found and text.casefold().split() != known
        for vector, text in zip(vectors, texts, strict=True)
    )
