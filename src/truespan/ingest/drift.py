"""Whether a provider's model is still the one a world was built with.

A name stands for whatever the provider puts behind it. Three texts are embedded when a world's
vectors begin, and again later: they must come out as they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from truespan.errors import ModelDrifted, ProviderBadReply
from truespan.ingest.embed import check_count, cosine, is_sound, retried
from truespan.protocols import Clock, Embedder
from truespan.types.chunk import Vector

PROBES: Mapping[str, str] = MappingProxyType(
    {
        "prose-1": "The ferry left the harbour at dusk, and nobody on the pier waved.",
        "law-1": "The tenant shall give notice in writing no later than thirty days before the"
        " end of the term.",
        "code-1": "def area(width: float, height: float) -> float: return width * height",
    }
)
"""Texts that are never changed: what they say is of no importance, only that they differ. A new
text gets a new name, so that it is never compared with the vector of another."""
LEAST_SIMILARITY = 0.999
"""Rounding and the machine it runs on move a vector less than this, another model far more."""


class DriftProbe:
    """Embeds the probes and compares them with what they were.

    Each goes alone: some providers' vectors depend a little on what else is in the request.
    """

    def __init__(self, embedder: Embedder, clock: Clock) -> None:
        self._embedder = embedder
        self._clock = clock

    def check(self, earlier: Mapping[str, Vector] | None = None) -> dict[str, Vector]:
        """Return the vectors to keep, those that were kept before unchanged among them.

        They are not replaced by the new ones, or a model that changes a little each time would
        end up anywhere unnoticed.

        Raises:
            ModelDrifted: a text no longer comes out as it did.
            ProviderBadReply: what came back is no vector.
            ProviderUnavailable, ProviderRefused: as the embedder says.
        """
        kept = dict(earlier or {})
        for name, text in PROBES.items():
            vector = self._embedded(text)
            if cosine(kept.setdefault(name, vector), vector) < LEAST_SIMILARITY:
                raise ModelDrifted(str(self._embedder.profile))
        return kept

    def _embedded(self, text: str) -> Vector:
        vectors = retried(lambda: self._embedder.embed_documents([text]), self._clock, spread=0)
        check_count(vectors, [text])
        if not is_sound(vectors[0], self._embedder.profile.dimensions):
            raise ProviderBadReply("The embedding provider did not return one sound vector.")
        return vectors[0]
