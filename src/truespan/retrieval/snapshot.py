"""The collaborators of a retrieval, and one state of the world for one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from truespan.errors import (
    DamageError,
    DomainNotFound,
    GenerationNotFound,
    NotFound,
    StoreBusy,
    StoreDamaged,
    TruespanError,
    WorldNotFound,
)
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedders, VectorIndex
from truespan.retrieval.background import CohortVectors
from truespan.retrieval.completeness import CompletenessCheck
from truespan.retrieval.model_check import ModelCheck, RecentQueries
from truespan.types.arguments import MAX_REQUESTED_TOKENS
from truespan.types.ids import TextHash
from truespan.types.profile import EmbeddingProfile
from truespan.types.request import FUSED_WEIGHT, RankPart
from truespan.types.scope import Authority, GenerationSelector, Scope, World
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.retrieval.rerank import RerankOptions
    from truespan.store import Store

MAX_ATTEMPTS = 40
"""Maximum number of attempts at a request while the world keeps changing."""

T = TypeVar("T")


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
    endpoints_of: Callable[[EmbeddingProfile], Sequence[str]] = lambda _: ()
    """The endpoints of the embedders that may have a profile, found without a request."""
    recent_queries: RecentQueries = field(default_factory=RecentQueries)
    completeness: CompletenessCheck = field(default_factory=CompletenessCheck)
    cohort: CohortVectors = field(default_factory=CohortVectors)
    word_states: bool = False
    """Whether states of words are used in worlds whose defaults include them."""


class Restart(Exception):
    """Something that a request needs is gone: the world changed meanwhile."""


def require_world(
    store: Store, authority: Authority, reference: str, generation: GenerationSelector = None
) -> World:
    """Return the world that a request names.

    Raises:
        WorldNotFound: it does not exist, or not for this authority. The two look the same.
        DomainNotFound, GenerationNotFound: the same for its generation.
    """
    world = store.find_world(authority, reference, generation)
    if world is not None:
        return world
    if generation is None:
        raise WorldNotFound(reference)
    if isinstance(generation, str):
        raise DomainNotFound(generation)
    raise GenerationNotFound(generation)


def with_stable_snapshot(
    store: Store,
    authority: Authority,
    world: World,
    attempt: Callable[[World], T],
    is_settled: Callable[[T, World], bool] = lambda _outcome, _world: False,
) -> T:
    """Return the outcome of `attempt` for a world that did not change meanwhile.

    Index and store are read separately. A document that is replaced in between would be half
    visible or invisible, and a deleted one would look damaged. The change count of the world shows
    that, and the attempt is repeated. `is_settled` tells whether the last read of an attempt showed
    that count already.

    Raises:
        StoreBusy: every attempt ended in `Restart`; trying again may help.
        StoreDamaged: an attempt ended in `Restart` although the world did not change.
    """
    outcomes: list[T] = []
    for _ in range(MAX_ATTEMPTS):
        try:
            outcomes = [attempt(world)]
        except Restart as error:
            latest = require_world(store, authority, world.id, world.selector)
            if latest.changes == world.changes:
                raise StoreDamaged(
                    "Rows of a document are missing.", advice="Run 'truespan doctor'."
                ) from error
            world = latest
            continue
        except Exception as error:
            expected = isinstance(error, TruespanError)
            if expected and not isinstance(error, DamageError | NotFound):
                raise
            # Anything may be missing from a world that changed; from one that did not, it is.
            latest = require_world(store, authority, world.id, world.selector)
            if latest.changes == world.changes:
                raise
            world = latest
            continue
        if is_settled(outcomes[0], world) or store.is_unchanged(world):
            break
        world = require_world(store, authority, world.id, world.selector)
    if not outcomes:
        raise StoreBusy
    # If the world never stops changing, the latest outcome counts: all of it was true when read.
    return outcomes[0]
