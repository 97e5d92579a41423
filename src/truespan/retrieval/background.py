"""Background: how similar a query is to texts that do not answer it.

A model gives some queries high similarities to anything: those of a kind of text that it knows
well, or in a language that it does not know. Only a higher similarity of a passage is evidence. The
background is the mean of the highest similarities of the query to

- the cohort: some hundred texts of many kinds, which are the same for every library;
- chunks in scope that are close to the query, but not among the closest, which may answer it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.errors import StorageFull, StoreBusy
from truespan.types.ids import TextHash, hash_text
from truespan.types.profile import EmbeddingProfile
from truespan.types.scope import Scope
from truespan.types.vectors import Vector, similarities_of

if TYPE_CHECKING:
    from truespan.store import Store

FIRST_RANK, LAST_RANK = 11, 30
"""Ranks by similarity of the chunks in scope that count."""
HIGHEST = 20
"""Number of similarities that the background is the mean of."""
DECIMALS = 6


def background_of(cohort: Sequence[float], closest: Sequence[float], floor: float) -> float | None:
    """Return the background; None without any text.

    `cohort` are the similarities to the cohort, `closest` those to the closest chunks in scope,
    falling; those below the floor do not count.
    """
    own = [score for score in closest[FIRST_RANK - 1 : LAST_RANK] if score >= floor]
    highest = sorted([*cohort, *own], reverse=True)[:HIGHEST]
    return round(sum(highest) / len(highest), DECIMALS) if highest else None


class Cohort(Struct, frozen=True):
    """Texts of many kinds, read when they are needed, and their vectors under some models."""

    digest: str = ""
    """Digest of the texts, which changes whenever a background could."""
    texts: Callable[[], tuple[str, ...]] = tuple
    shipped: Callable[[EmbeddingProfile], Sequence[Vector] | None] = lambda _: None
    """Returns the vectors that come with a model; None if they have to be embedded."""


_NO_TEXTS = Cohort()


# Shared by threads: its table is changed under a lock; two threads may embed the texts at once, and
# keep the same vectors.
class CohortVectors:
    """Vectors of the cohort under each embedding profile. Threads may share it.

    Those that do not come with a model are embedded once, and kept in the store.
    """

    def __init__(self, cohort: Cohort = _NO_TEXTS) -> None:
        self._cohort = cohort
        self._lock = Lock()
        self._known: dict[str, Sequence[Vector]] = {}

    @property
    def digest(self) -> str:
        """Return the digest of the texts."""
        return self._cohort.digest

    def similarities(
        self,
        vector: Vector,
        scope: Scope,
        store: Store,
        embed: Callable[[Scope, Mapping[TextHash, str]], Mapping[TextHash, Vector]],
    ) -> list[float]:
        """Return the similarity of a query's vector to each text of the cohort."""
        with self._lock:
            known = self._known.get(scope.profile.id)
        if known is None:
            known = self._cohort.shipped(scope.profile) or self._load(scope, store, embed)
            with self._lock:
                self._known[scope.profile.id] = known
        return similarities_of(vector, known, scope.profile.distance)

    def _load(
        self,
        scope: Scope,
        store: Store,
        embed: Callable[[Scope, Mapping[TextHash, str]], Mapping[TextHash, Vector]],
    ) -> Sequence[Vector]:
        """Return the vectors of the store; if it has none, embed the texts and keep them there."""
        texts, size = self._cohort.texts(), 4 * scope.profile.dimensions
        kept = store.records.kept_cohort(scope, self.digest) if texts else b""
        if kept is None or len(kept) != size * len(texts):
            vectors = embed(scope, {hash_text(text): text for text in texts})
            kept = b"".join(vectors[hash_text(text)] for text in texts)
            # Without room to keep them, the vectors still serve this process.
            with suppress(StorageFull, StoreBusy):
                store.records.keep_cohort(scope, self.digest, kept)
        return [Vector(kept[start : start + size]) for start in range(0, len(kept), size)]
