"""The collaborators of a retrieval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedder, Embedders, VectorIndex
from truespan.retrieval.background import CohortVectors
from truespan.retrieval.checks import CompletenessCheck, ModelCheck, RecentQueries
from truespan.types.arguments import MAX_REQUESTED_TOKENS
from truespan.types.ids import TextHash
from truespan.types.profile import EmbeddingProfile
from truespan.types.request import FUSED_WEIGHT, RankPart
from truespan.types.scope import Scope
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.retrieval.rerank import RerankOptions
    from truespan.store import Store


class RetrievalDeps(Struct, frozen=True):
    """The collaborators of a retrieval.

    `start_repair` is called with the scope in which something was recorded for repair.
    """

    store: Store
    index: VectorIndex
    embedder_for: Embedders
    clock: Clock
    start_repair: Callable[[Scope], None]
    split: Callable[[str, int], list[str]]
    """Cuts a long text at sentence ends into parts that a model with such a token limit reads."""
    embed: Callable[[Scope, Mapping[TextHash, str]], dict[TextHash, Vector]]
    """Embeds texts that are shown to the caller, by the hash of each; nothing is stored."""
    count_tokens: Callable[[str], int] = len
    """Counts the tokens of a part of a sentence, the only text that has no stored count."""
    fused_weight: float = FUSED_WEIGHT
    without: frozenset[RankPart] = frozenset()
    """Parts of the ranking that an evaluation leaves out."""
    max_tokens: int = MAX_REQUESTED_TOKENS
    """Maximum token budget of a request."""
    trace: RequestTrace = NULL_OBSERVER
    rerank: RerankOptions | None = None
    model_check: ModelCheck = field(default_factory=ModelCheck)
    embedders_of: Callable[[EmbeddingProfile], Iterable[Embedder]] = lambda _: ()
    """The embedders that may have a profile, found without a request."""
    recent_queries: RecentQueries = field(default_factory=RecentQueries)
    completeness: CompletenessCheck = field(default_factory=CompletenessCheck)
    cohort: CohortVectors = field(default_factory=CohortVectors)
    word_states: bool = False
    """Whether states of words are used in worlds whose defaults include them."""


class Restart(Exception):
    """Something that a request needs is gone: the world changed meanwhile."""
