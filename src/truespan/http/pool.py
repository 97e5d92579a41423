"""A thread pool for the library's blocking calls.

It exists because every request pays for the hand-over: the pools of the standard library use three
futures, a condition and two callbacks to return one result.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from truespan.errors import DeadlineExceeded, Overloaded

Value = TypeVar("Value")
_Job: TypeAlias = "tuple[Callable[[], Any], asyncio.Future[Any]]"
_Inbox: TypeAlias = "SimpleQueue[_Job | None]"
"""Where an idle thread receives its next job; None ends it."""


class Pool:
    """Runs calls on a bounded number of threads with a bounded queue."""

    def __init__(self, threads: int, *, waiting: int, name: str) -> None:
        self._threads = threads
        self._most = threads + waiting
        self._name = name
        self._busy = 0
        self._started = 0
        self._closed = False
        self._idle: list[_Inbox] = []
        self._waiting: deque[_Job] = deque()
        self._lock = threading.Lock()
        """Protects the queue and the idle threads; not held while a job runs."""

    async def run(
        self,
        work: Callable[[], Value],
        *,
        seconds: float | None = None,
        cancel: Callable[[], None] | None = None,
    ) -> Value:
        """Run `work` on a thread and return its result.

        Raises:
            Overloaded: the queue is full, or the pool is closed.
            DeadlineExceeded: it took too long. It is not started any more; if it runs, `cancel` is
                called, which must not block, and its result is dropped.
        """
        if self._closed or self._busy >= self._most:
            raise Overloaded
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()
        self._submit((work, future))
        self._busy += 1
        if seconds is None:
            return await future

        def time_out() -> None:
            if not future.done():
                future.set_exception(DeadlineExceeded(seconds))
                if cancel is not None:
                    cancel()

        timer = loop.call_later(seconds, time_out)
        try:
            return await future
        finally:
            timer.cancel()

    @property
    def idle(self) -> bool:
        """Whether no job is running or queued."""
        return self._busy == 0

    def close(self) -> None:
        """Refuse further work and drop queued jobs; running jobs end by themselves."""
        self._closed = True
        with self._lock:
            dropped, idle = list(self._waiting), self._idle
            self._waiting.clear()
            self._idle = []
        for inbox in idle:
            inbox.put(None)
        for _, future in dropped:
            self._busy -= 1
            future.cancel()

    def _submit(self, job: _Job) -> None:
        """Give a job to the thread that worked last, whose caches are warm; or queue it."""
        with self._lock:
            if self._idle:
                self._idle.pop().put(job)
                return
            if self._started == self._threads:
                self._waiting.append(job)
                return
            self._started += 1
        # Daemon threads end with the process; `Application.is_idle` says whether any still works.
        name = f"{self._name}-{self._started}"
        threading.Thread(target=self._serve, args=(job,), name=name, daemon=True).start()

    def _serve(self, first: _Job) -> None:
        inbox: _Inbox = SimpleQueue()
        job: _Job | None = first
        while job is not None:
            work, future = job
            value: Any = None
            error: BaseException | None = None
            try:
                # The time of a request may be over before its turn comes.
                value = None if future.done() else work()
            except StopIteration as stop:
                # A future refuses StopIteration, and its request would wait forever.
                error = RuntimeError("an iterator ended early")
                error.__cause__ = stop
            except BaseException as failure:
                error = failure
            # This thread is idle before the result is delivered, so the next request finds it.
            job = self._next(inbox)
            # The loop is closed if the server has ended.
            with suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(self._deliver, future, value, error)
            del work, future, value, error
            if job is None:
                job = inbox.get()

    def _next(self, inbox: _Inbox) -> _Job | None:
        """Return the oldest queued job; if there is none, become idle and return None."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._closed:
                inbox.put(None)
            else:
                self._idle.append(inbox)
        return None

    def _deliver(
        self, future: asyncio.Future[Any], value: Any, error: BaseException | None
    ) -> None:
        self._busy -= 1
        # The waiting request may be cancelled or timed out.
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
