"""The components of a library that a retrieval uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedder, TokenCounter, VectorIndex
from truespan.retrieval.background import CohortVectors
from truespan.retrieval.checks import CompletenessCheck, ModelCheck, RecentQueries
from truespan.types.arguments import MAX_REQUESTED_TOKENS
from truespan.types.profile import EmbeddingLimits
from truespan.types.request import FUSED_WEIGHT, RankPart
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.ingest.draft import Preparation
    from truespan.retrieval.rerank import RerankOptions
    from truespan.store import Store


class OtherEmbedder(Struct, frozen=True):
    """An embedder that a generation may have been built with, created when first needed."""

    provider: str
    embedder: Callable[[], Embedder]


def _standard_preparation() -> Preparation:
    from truespan.ingest.draft import Preparation

    return Preparation()


class RetrievalDeps(Struct, frozen=True, kw_only=True):
    """The components of a library that a retrieval uses, by role."""

    store: Store
    index: VectorIndex
    embedder: Embedder
    counter: TokenCounter
    clock: Clock
    limits: EmbeddingLimits = field(default_factory=EmbeddingLimits)
    preparation: Preparation = field(default_factory=_standard_preparation)
    others: Mapping[str, OtherEmbedder] = field(default_factory=dict)
    """Further configured embedders, by name."""
    rerank: RerankOptions | None = None
    """The reranker of results; none unless configured."""
    model_check: ModelCheck = field(default_factory=ModelCheck)
    """Check that providers still have the models that worlds were embedded with."""
    recent_queries: RecentQueries = field(default_factory=RecentQueries)
    """Vectors of queries that the store does not have yet."""
    completeness: CompletenessCheck = field(default_factory=CompletenessCheck)
    """Finder of points that the index has lost."""
    cohort: CohortVectors = field(default_factory=CohortVectors)
    """Vectors of texts of many kinds, which answers are compared with."""
    fused_weight: float = FUSED_WEIGHT
    """The weight of words in a fused ranking."""
    without: frozenset[RankPart] = frozenset()
    """Parts of the ranking that a setting or an evaluation leaves out."""
    max_tokens: int = MAX_REQUESTED_TOKENS
    """Maximum token budget of a request."""
    word_states: bool = True
    """Whether states of words are stored and used in worlds whose defaults include them."""
    start_repair: Callable[[Scope], None] = lambda _scope: None
    """Called with the scope of a search that found damaged or stale points."""
    trace: RequestTrace = NULL_OBSERVER
    """Receives the stages and counts of one request."""


class Restart(Exception):
    """Data that a request needs was removed: the world changed meanwhile."""
