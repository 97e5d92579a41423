"""What every retrieval needs, as one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.protocols import Clock, Embedders, VectorIndex
from truespan.types.scope import Scope
from truespan.types.words import FUSED_WEIGHT

if TYPE_CHECKING:
    from truespan.store import Store


@dataclass(frozen=True, slots=True)
class RetrievalDeps:
    """The collaborators of a retrieval.

    `start_repair` is called with the scope in which something was recorded for repair.
    """

    store: Store
    index: VectorIndex
    embedder_for: Embedders
    clock: Clock
    start_repair: Callable[[Scope], None]
    fused_weight: float = FUSED_WEIGHT
    trace: RequestTrace = NULL_OBSERVER
