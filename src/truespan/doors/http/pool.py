"""Threads for the engine, which waits where the server must not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from truespan.errors import DeadlineExceeded, Overloaded

Answer = TypeVar("Answer")


class Pool:
    """Runs calls in a bounded number of threads, and refuses more than may wait for one."""

    def __init__(self, threads: int, *, waiting: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + waiting
        self._busy = 0

    async def run(self, work: Callable[[], Answer], *, seconds: float | None = None) -> Answer:
        """Return what `work` makes.

        Raises:
            Overloaded: too many wait already.
            DeadlineExceeded: it was not done in time; it runs to its end, and nobody hears of it.
        """
        if self._busy >= self._most:
            raise Overloaded
        self._busy += 1
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, _ending(work))
        except RuntimeError:
            # The pool is closed: the server is about to end.
            self._busy -= 1
            raise Overloaded from None
        running.add_done_callback(self._done)
        if seconds is None:
            return await running
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await asyncio.shield(running)
        except TimeoutError:
            # The work may have raised one of its own, which says nothing of this limit.
            if not limit.expired():
                raise
            raise DeadlineExceeded(seconds) from None

    @property
    def idle(self) -> bool:
        """Say whether nothing is at work."""
        return self._busy == 0

    def close(self) -> None:
        """Take no more work; what runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, running: asyncio.Future[Answer]) -> None:
        self._busy -= 1
        # Whoever waited may have gone; then nobody else will ask how it ended.
        if not running.cancelled():
            running.exception()


def _ending(work: Callable[[], Answer]) -> Callable[[], Answer]:
    """Return work that does not raise what a future cannot hold: whoever waits would for ever."""

    def done() -> Answer:
        try:
            return work()
        except StopIteration as error:
            raise RuntimeError("something ended before its time") from error

    return done
