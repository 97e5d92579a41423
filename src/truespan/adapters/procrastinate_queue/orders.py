"""Orders: given once however often, counted, and kept until somebody carries them out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from procrastinate import App, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException

from truespan.adapters.postgres_store.connection import as_role, connected, mapped_errors
from truespan.adapters.procrastinate_queue.schema import QUEUE_ROLE, QUEUE_SCHEMA, require_steps
from truespan.errors import Overloaded
from truespan.model.job import JobOrder
from truespan.model.keys import Secret

QUEUE = "jobs"
TASK = "truespan.job"
CONNECTIONS = 4

# Who wants its lines asks for them; without a handler Python would print errors by itself.
logging.getLogger("procrastinate").addHandler(logging.NullHandler())

_WAITING = """
    SELECT count(*) AS waiting FROM (
      SELECT 1 FROM procrastinate_jobs WHERE status = 'todo' LIMIT %(most)s
    ) AS counted
"""
_ORDERED = """
    SELECT count(*) AS orders FROM procrastinate_jobs
    WHERE status = 'todo' AND queueing_lock = %(job)s
"""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much may wait, how often something is tried, and when a worker is taken to be gone."""

    waiting: int = 10_000
    tries: int = 8
    stalled_seconds: float = 60.0
    timeout_seconds: float = 30.0


class Orders:
    """The side of the queue that gives orders."""

    def __init__(self, url: Secret, limits: QueueLimits | None = None) -> None:
        self._url = url
        self.limits = limits or QueueLimits()
        self._opened: App | None = None
        self._lock = threading.Lock()

    def require_room(self) -> None:
        """Refuse another job while as many wait as may.

        Those who ask at the same moment may all be let in: the limit is one on growth.
        """
        most = self.limits.waiting
        if self.ask(_WAITING, most=most)["waiting"] >= most:
            raise Overloaded("As many jobs wait for workers as may.", retry_after=30.0)

    def submit(self, order: JobOrder, *, delay: int = 0) -> None:
        """Give the order for a job, to be begun with so many seconds later.

        One that waits already is enough.
        """
        with mapped(), self._app() as app:
            try:
                app.configure_task(
                    TASK,
                    queue=QUEUE,
                    lock=order.job,
                    queueing_lock=order.job,
                    priority=int(order.urgency),
                    schedule_in={"seconds": delay} if delay else None,
                ).defer(world=order.world, job=order.job)
            except AlreadyEnqueued:
                return

    def is_ordered(self, job: str) -> bool:
        """Say whether another order for a job waits."""
        return self.ask(_ORDERED, job=job)["orders"] > 0

    def pool(self, most: int) -> dict[str, Any]:
        """Return how a pool of connections for the queue is made."""
        return {
            "conninfo": as_role(self._url, QUEUE_ROLE, QUEUE_SCHEMA),
            "kwargs": {"application_name": "truespan-queue"},
            "min_size": 0,
            "max_size": most,
            "timeout": self.limits.timeout_seconds,
        }

    def close(self) -> None:
        """Close every connection; orders stay where they are."""
        with self._lock:
            app, self._opened = self._opened, None
        if app is not None:
            app.close()

    def require_tables(self) -> None:
        """Refuse tables that are not there, or of another version."""
        with self._app():
            return

    @contextmanager
    def _app(self) -> Iterator[App]:
        """Give what orders are given with; its tables are looked at when it is first needed."""
        with self._lock:
            if self._opened is None:
                with connected(self._url, "store_url") as session:
                    require_steps(session)
                app = App(connector=SyncPsycopgConnector(**self.pool(CONNECTIONS)))
                app.open()
                self._opened = app
            opened = self._opened
        yield opened

    def ask(self, query: str, **bindings: Any) -> dict[str, Any]:
        """Return the one row of a question about the queue."""
        with mapped(), self._app() as app:
            found = app.connector.get_sync_connector()
            return found.execute_query_one(query=query, **bindings)  # type: ignore[arg-type]


@contextmanager
def mapped() -> Iterator[None]:
    """Turn errors of the queue into ours, as the store's own are."""
    try:
        yield
    except ConnectorException as error:
        with mapped_errors():
            raise error.__cause__ or error from None
