"""What a library is composed of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from truespan.errors import InvalidSettings
from truespan.ingest.prepare import Preparation
from truespan.model.profile import EmbeddingProfile
from truespan.ports import (
    AssetStore,
    Clock,
    Embedder,
    EmbeddingLimits,
    Processes,
    SourceFinder,
    SourceParser,
    TokenCounter,
    TrustedStore,
    VectorIndex,
)


@dataclass(frozen=True, slots=True)
class OtherEmbedder:
    """An embedder that some generation may have been built with; made when it is needed."""

    provider: str
    model: str
    embedder: Callable[[], Embedder]

    def named_as(self, profile: EmbeddingProfile) -> bool:
        """Say whether its model has a profile's name; whether it is the same has to be asked."""
        return (self.provider, self.model) == (profile.provider, profile.model)


@dataclass(frozen=True, slots=True)
class Parts:
    """The store, the index, the provider and the rest, each behind its port."""

    store: TrustedStore
    index: VectorIndex
    embedder: Embedder
    counter: TokenCounter
    sources: SourceFinder
    parser: SourceParser
    assets: AssetStore
    processes: Processes
    clock: Clock
    limits: EmbeddingLimits = field(default_factory=EmbeddingLimits)
    preparation: Preparation = field(default_factory=Preparation)
    price: float | None = None
    """What the provider asks for a million tokens, where the operator says so."""
    others: Mapping[str, OtherEmbedder] = field(default_factory=dict)
    """Embedders beside the default one, by the names the operator gave them."""

    def embedder_for(self, profile: EmbeddingProfile) -> Embedder:
        """Return the embedder of a generation's profile; the default one when no other has it.

        None is asked anything unless its model has the profile's name.
        """
        for other in self.others.values():
            if other.named_as(profile) and other.embedder().profile.id == profile.id:
                return other.embedder()
        return self.embedder

    def embedder_named(self, name: str | None) -> Embedder:
        """Return the embedder of this name, or the default one.

        Raises:
            InvalidSettings: there is none of that name.
        """
        if name is None:
            return self.embedder
        if name not in self.others:
            known = ", ".join(self.others) or "none; add one as [embedding.NAME] to truespan.toml"
            raise InvalidSettings(
                f"There is no embedding profile {name!r}.", advice=f"Known are: {known}."
            )
        return self.others[name].embedder()
