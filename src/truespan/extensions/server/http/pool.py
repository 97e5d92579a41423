"""A thread pool for the library's blocking calls, in which callers take turns.

Neither anyio nor the standard library has turns: there, a caller that sends many calls delays all
others. A call and its deadline take 59 us here and 111 us with `anyio.to_thread`.

Few calls run at once. Threads that compete for the interpreter make every call slower, and each
thread has a connection to the store with its own cache. A call that takes long waits for a
provider, a disk or another process rather than for the interpreter, so further calls are started
beside it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from truespan.errors import DeadlineExceeded, Overloaded

Value = TypeVar("Value")
_Job: TypeAlias = "tuple[Callable[[], Any], asyncio.Future[Any], Hashable]"
"""The work, its result, and the caller it is for."""
_Inbox: TypeAlias = "SimpleQueue[_Job | None]"
"""The queue from which an idle thread takes its next job; None ends the thread."""
PATIENCE = 0.02
"""Seconds after which a call no longer counts as one that needs the interpreter."""
MAX_SHARE = 3
"""Threads of one caller for each thread that is free. So a caller alone gets three quarters of all
threads, and calls that take long leave some to others."""


# Shared by threads: the queue and the states of the threads are changed under a lock, the counts
# only by the event loop.
class Pool:
    """Runs calls on a bounded number of threads with a bounded queue.

    At most `at_once` of the running jobs started within the last `patience` seconds. Of the queued
    calls, the oldest of each caller is started in turn.
    """

    def __init__(
        self,
        threads: int,
        *,
        waiting: int,
        name: str,
        at_once: int | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._threads = threads
        self._most = threads + waiting
        self._at_once = at_once or threads
        self._patience = patience
        self._name = name
        self._busy = 0
        self._closed = False
        self._idle: list[_Inbox] = []
        self._begun: dict[_Inbox, float] = {}
        """The start times of the running jobs, by thread."""
        self._running: Counter[Hashable] = Counter()
        """The number of running jobs of each caller that has any."""
        self._waiting: dict[Hashable, deque[_Job]] = {}
        """The queued jobs of each caller that has any, in the order of their turns."""
        self._lock = threading.Lock()
        """Protects the queue and the threads' states; not held while a job runs."""
        self._next_look: asyncio.TimerHandle | None = None

    async def run(
        self,
        work: Callable[[], Value],
        *,
        caller: Hashable = None,
        seconds: float | None = None,
        cancel: Callable[[], None] | None = None,
    ) -> Value:
        """Run `work` for a caller on a thread and return its result.

        Raises:
            Overloaded: the pool is closed, or the queue is full and no other caller has more calls
                in it. If one has, its latest call is refused instead.
            DeadlineExceeded: it took too long. It is not started any more; if it runs, `cancel` is
                called, which must not block, and its result is dropped.
        """
        if self._closed or (self._busy >= self._most and not self._drop_for(caller)):
            raise Overloaded
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Value] = loop.create_future()
        with self._lock:
            self._waiting.setdefault(caller, deque()).append((work, future, caller))
            self._start_waiting()
            must_look = bool(self._waiting) and self._next_look is None
        self._busy += 1
        if must_look:
            self._next_look = loop.call_later(self._patience, self._look, loop)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await future
        except TimeoutError:
            # The work itself may raise the same exception.
            if seconds is None or not limit.expired():
                raise
            if cancel is not None:
                cancel()
            raise DeadlineExceeded(seconds) from None

    @property
    def idle(self) -> bool:
        """Whether no job is running or queued."""
        return self._busy == 0

    def close(self) -> None:
        """Refuse further work and drop queued jobs; running jobs end by themselves."""
        self._closed = True
        with self._lock:
            dropped = [job for jobs in self._waiting.values() for job in jobs]
            idle = self._idle
            self._waiting.clear()
            self._idle = []
        for inbox in idle:
            inbox.put(None)
        for _, future, _ in dropped:
            self._busy -= 1
            future.cancel()

    def _drop_for(self, caller: Hashable) -> bool:
        """Refuse a queued job of the caller with the most, if it has more than this one will."""
        with self._lock:
            own = len(self._waiting.get(caller, ()))
            longest = max(self._waiting, key=lambda one: len(self._waiting[one]), default=caller)
            if len(self._waiting.get(longest, ())) <= own + 1:
                return False
            _, future, _ = self._waiting[longest].pop()
        self._busy -= 1
        if not future.done():
            future.set_exception(Overloaded())
        return True

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start waiting jobs, if the running ones have taken long."""
        with self._lock:
            self._start_waiting()
            waits = bool(self._waiting)
        self._next_look = loop.call_later(self._patience, self._look, loop) if waits else None

    def _start_waiting(self) -> None:
        """Start as many queued jobs as may run. The lock is held.

        A job is given to the thread that worked last, whose caches are warm.
        """
        while self._waiting and self._may_start():
            following = self._next_caller()
            if following is None:
                return
            (caller,) = following
            if self._idle:
                inbox = self._idle.pop()
            else:
                inbox = SimpleQueue[Any]()
                # Daemon threads end with the process, also while they work; see `end_process`.
                name = f"{self._name}-{len(self._begun) + 1}"
                thread = threading.Thread(target=self._serve, args=(inbox,), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # The system has no thread to give. One of ours takes the job later.
                    if self._begun:
                        return
                    self._take(caller)
                    raise
            inbox.put(self._begin(inbox, caller))

    def _next_caller(self) -> tuple[Hashable] | None:
        """Return the next caller in turn who may have another thread. The lock is held."""
        limit = MAX_SHARE * (self._threads - len(self._begun))
        return next(((one,) for one in self._waiting if self._running[one] < limit), None)

    def _take(self, caller: Hashable) -> _Job:
        """Take the oldest job of a caller, who then moves to the end of the queue."""
        jobs = self._waiting.pop(caller)
        job = jobs.popleft()
        if jobs:
            self._waiting[caller] = jobs
        return job

    def _begin(self, inbox: _Inbox, caller: Hashable) -> _Job:
        """Note that a thread begins the oldest job of a caller, and return it."""
        self._begun[inbox] = time.monotonic()
        self._running[caller] += 1
        return self._take(caller)

    def _may_start(self) -> bool:
        running = len(self._begun)
        if running < self._at_once or running >= self._threads:
            return running < self._threads
        recently = time.monotonic() - self._patience
        return sum(begun > recently for begun in self._begun.values()) < self._at_once

    def _serve(self, inbox: _Inbox) -> None:
        job = inbox.get()
        while job is not None:
            work, future, caller = job
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
            job = self._next(inbox, caller)
            # The loop is closed if the server has ended.
            with suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(self._deliver, future, value, error)
            del work, future, caller, value, error
            if job is None:
                job = inbox.get()

    def _next(self, inbox: _Inbox, ended: Hashable) -> _Job | None:
        """Return the next job if one may run now; if not, become idle and return None."""
        with self._lock:
            del self._begun[inbox]
            self._running[ended] -= 1
            if not self._running[ended]:
                del self._running[ended]
            if self._waiting and self._may_start():
                following = self._next_caller()
                if following is not None:
                    return self._begin(inbox, *following)
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
