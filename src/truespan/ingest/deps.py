"""The dependencies of ingestion, as one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from truespan.ingest.draft import Preparation
from truespan.ingest.embed import Canary
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import (
    AssetStore,
    Clock,
    Embedder,
    EmbeddingLimits,
    SourceFinder,
    SourceParser,
    TokenCounter,
    UploadStore,
    VectorIndex,
)
from truespan.types.scope import Scope
from truespan.types.source import Source

if TYPE_CHECKING:
    from truespan.store import Store


@dataclass(frozen=True, slots=True)
class OtherGeneration:
    """Another generation that new documents enter; `named` if an alias points to it."""

    scope: Scope
    embedder: Embedder
    named: bool


@dataclass(slots=True)
class ProviderCheck:
    """The checks that a provider has passed, so that a job does not repeat them."""

    canary: Canary = field(default_factory=Canary)
    probed: bool = False


@dataclass(frozen=True, slots=True)
class IngestDeps:
    """The store, the index, the provider and the rest that ingestion uses, each as a port."""

    store: Store
    index: VectorIndex
    embedder: Embedder
    sources: SourceFinder
    parser: SourceParser
    counter: TokenCounter
    assets: AssetStore
    clock: Clock
    limits: EmbeddingLimits
    preparation: Preparation
    uploads: UploadStore | None = None
    other_generations: Callable[[Scope], Sequence[OtherGeneration]] = lambda _scope: ()
    """Return the other generations of the scope's world that documents enter as well."""
    trace: RequestTrace = NULL_OBSERVER
    checks: dict[int, ProviderCheck] = field(default_factory=dict)
    """Checks of the provider of each generation; runs of the same job share them."""

    def read(self, source: Source) -> bytes:
        """Return the bytes of a file or of an upload; raises SourceRefused."""
        if source.upload and self.uploads is not None:
            return self.uploads.read(source)
        return self.sources.read(source)
