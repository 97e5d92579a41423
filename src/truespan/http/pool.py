"""Threads for the engine, which waits where the server must not.

They are plain threads because a crossing is paid with every request: the pools of the standard
library take three futures, a condition and two callbacks to bring one answer back.
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

Answer = TypeVar("Answer")
_Job: TypeAlias = "tuple[Callable[[], Any], asyncio.Future[Any]]"
_Inbox: TypeAlias = "SimpleQueue[_Job | None]"
"""Where one idle thread is given its next work; None sends it away."""


class Pool:
    """Runs calls in a bounded number of threads, and refuses more than may wait for one."""

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
        """Held for whoever hands work over or looks for some; never while any is done."""

    async def run(self, work: Callable[[], Answer], *, seconds: float | None = None) -> Answer:
        """Return what `work` makes.

        Raises:
            Overloaded: too many wait already, or the server is about to end.
            DeadlineExceeded: it was not done in time; it runs to its end, and nobody hears of it.
        """
        if self._closed or self._busy >= self._most:
            raise Overloaded
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._hand_over((work, answer))
        self._busy += 1
        if seconds is None:
            return await answer
        late = loop.call_later(seconds, _give_up, answer, seconds)
        try:
            return await answer
        finally:
            late.cancel()

    @property
    def idle(self) -> bool:
        """Say whether nothing is at work."""
        return self._busy == 0

    def close(self) -> None:
        """Take no more work; what runs ends by itself, and what has not begun never does."""
        self._closed = True
        with self._lock:
            dropped, idle = list(self._waiting), self._idle
            self._waiting.clear()
            self._idle = []
        for inbox in idle:
            inbox.put(None)
        for _, answer in dropped:
            self._busy -= 1
            answer.cancel()

    def _hand_over(self, job: _Job) -> None:
        """Give work to the thread that was at work last: what it needs is still at hand there."""
        with self._lock:
            if self._idle:
                self._idle.pop().put(job)
                return
            if self._started == self._threads:
                self._waiting.append(job)
                return
            self._started += 1
        # They end with the process, like those of anybody who left it: `Application.is_idle` tells
        # its owner whether something is still at work then.
        name = f"{self._name}-{self._started}"
        threading.Thread(target=self._serve, args=(job,), name=name, daemon=True).start()

    def _serve(self, first: _Job) -> None:
        """Do one piece of work after another, until sent away."""
        inbox: _Inbox = SimpleQueue()
        job: _Job | None = first
        while job is not None:
            answer = job[1]
            made, error = _done(job[0])
            # Ready for more before anybody hears of it, so that the next request finds this thread.
            following = job = self._next(inbox)
            # Without a loop nobody waits any more.
            with suppress(RuntimeError):
                answer.get_loop().call_soon_threadsafe(self._tell, answer, made, error)
            del answer, made, error
            if following is None:
                job = inbox.get()

    def _next(self, inbox: _Inbox) -> _Job | None:
        """Return what waits longest; where nothing does, be idle."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._closed:
                inbox.put(None)
            else:
                self._idle.append(inbox)
        return None

    def _tell(self, answer: asyncio.Future[Any], made: Any, error: BaseException | None) -> None:
        """Bring what was made to whoever waits for it, in the thread of the loop."""
        self._busy -= 1
        # Whoever waited may have gone, or was told that it took too long.
        if answer.done():
            return
        if error is None:
            answer.set_result(made)
        else:
            answer.set_exception(error)


def _done(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return what the work made, or how it ended."""
    try:
        return work(), None
    except StopIteration as error:
        # No future can hold this one: whoever waits would for ever.
        ended = RuntimeError("something ended before its time")
        ended.__cause__ = error
        return None, ended
    except BaseException as error:
        return None, error


def _give_up(answer: asyncio.Future[Any], seconds: float) -> None:
    if not answer.done():
        answer.set_exception(DeadlineExceeded(seconds))
