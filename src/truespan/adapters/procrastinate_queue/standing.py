"""How the queue stands: one look at orders and workers, by the server's clock."""

from __future__ import annotations

from truespan.adapters.procrastinate_queue.orders import Orders
from truespan.model.standing import QueueStanding

_STANDING = """
    WITH living AS (
      SELECT id FROM procrastinate_workers
      WHERE last_heartbeat >= now() - make_interval(secs => %(seconds)s)
    ), orders AS (
      SELECT status, worker_id, args->>'job' AS job FROM procrastinate_jobs
      WHERE status IN ('todo', 'doing')
    )
    SELECT count(*) FILTER (WHERE status = 'todo') AS waiting,
      count(*) FILTER (WHERE status = 'doing'
        AND (worker_id IS NULL OR worker_id NOT IN (SELECT id FROM living))) AS orphaned,
      (SELECT count(*) FROM living) AS workers,
      coalesce(array_agg(DISTINCT job) FILTER (WHERE job IS NOT NULL), '{}') AS ordered
    FROM orders
"""


def standing_of(orders: Orders) -> QueueStanding:
    """Return how the queue stands.

    Raises:
        StoreBusy, StoreOutdated, InvalidConfiguration: it cannot be looked at.
    """
    found = orders.ask(_STANDING, seconds=orders.limits.stalled_seconds)
    return QueueStanding(
        waiting=found["waiting"],
        most_waiting=orders.limits.waiting,
        orphaned=found["orphaned"],
        workers=found["workers"],
        ordered=frozenset(found["ordered"]),
    )
