"""How the queue of jobs stands, as the doctor is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """Orders and workers at one moment. It names jobs by their ids, and holds nothing of them."""

    waiting: int
    """Orders that nobody has begun with."""
    most_waiting: int
    """So many may wait."""
    orphaned: int
    """Orders that a worker has begun with which is gone."""
    workers: int
    """Workers that gave a sign of life of late."""
    ordered: frozenset[str]
    """The jobs that there is an order for, carried out or not."""
