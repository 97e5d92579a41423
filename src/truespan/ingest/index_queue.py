"""Groups of documents that are indexed while the next ones are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MAX_RUNNING = 3
"""Maximum number of groups that are indexed at once: embedded, written to the index, flushed."""


class IndexQueue(Generic[T, R]):
    """Calls `index` for each added group on a thread, and `finish` in order on the caller's.

    An error of `index` is raised by the next call. If the block is left by an error, `stop` is
    called, and running groups are waited for.
    """

    def __init__(
        self,
        index: Callable[[T], R],
        finish: Callable[[T, R], None],
        stop: Callable[[], None],
    ) -> None:
        self._index = index
        self._finish = finish
        self._stop = stop
        self._running: deque[tuple[T, Future[R]]] = deque()
        self._pool = ThreadPoolExecutor(MAX_RUNNING, thread_name_prefix="index")

    def __enter__(self) -> IndexQueue[T, R]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                while self._running:
                    self._finish_first()
        except BaseException:
            self._stop()
            raise
        finally:
            if error is not None:
                self._stop()
            self._pool.shutdown(cancel_futures=True)

    def add(self, group: T) -> None:
        """Index a group; wait for an earlier one if too many are running."""
        while len(self._running) >= MAX_RUNNING:
            self._finish_first()
        future = self._pool.submit(copy_context().run, self._index, group)
        self._running.append((group, future))

    def _finish_first(self) -> None:
        group, future = self._running.popleft()
        self._finish(group, future.result())
