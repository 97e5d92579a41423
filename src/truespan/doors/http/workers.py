"""Several processes on one socket: begun, begun again when one ends by itself, ended together."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import truespan
from truespan.errors import InternalError, TruespanError

if TYPE_CHECKING:
    from truespan.doors.http.process import Service

MOST_RESTARTS = 10
"""How often processes that end by themselves are begun again before something must be wrong."""
STARTING_SECONDS = 60.0
_SPAWN = multiprocessing.get_context("spawn")


def supervise(service: Service, listener: socket.socket, on_ready: Callable[[], None]) -> int:
    """Serve with several processes until a signal comes, and return the exit code.

    Raises:
        InternalError: they do not start, or end by themselves again and again.
    """
    return _Crew(service, listener).run(on_ready)


class _Crew:
    def __init__(self, service: Service, listener: socket.socket) -> None:
        self._service = service
        self._listener = listener
        self._started = _SPAWN.Semaphore(0)
        self._leaving = threading.Event()
        self._bell, self._ring = _SPAWN.Pipe(duplex=False)
        self._workers: list[BaseProcess] = []

    def run(self, on_ready: Callable[[], None]) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._leave)
        try:
            self._workers = [self._begun() for _ in range(self._service.workers)]
            self._await_start()
            if not self._leaving.is_set():
                on_ready()
            self._keep()
        finally:
            self._end()
        return 0

    def _leave(self, *_: Any) -> None:
        if not self._leaving.is_set():
            self._leaving.set()
            self._ring.send_bytes(b".")

    def _begun(self) -> BaseProcess:
        worker = _SPAWN.Process(
            target=_work, args=(self._service, self._listener, self._started), daemon=False
        )
        worker.start()
        return worker

    def _await_start(self) -> None:
        for _ in self._workers:
            while not self._started.acquire(timeout=0.2):
                if self._leaving.is_set():
                    return
                if any(worker.exitcode is not None for worker in self._workers):
                    raise InternalError("end of a worker that was starting")

    def _keep(self) -> None:
        """Begin again what ends by itself, until it is time to leave."""
        restarts = 0
        while not self._leaving.is_set():
            wait([self._bell, *(worker.sentinel for worker in self._workers)])
            for place, worker in enumerate(self._workers):
                if worker.exitcode is None or self._leaving.is_set():
                    continue
                restarts += 1
                if restarts > MOST_RESTARTS:
                    raise InternalError("end of worker after worker")
                self._workers[place] = self._begun()

    def _end(self) -> None:
        for worker in self._workers:
            if worker.exitcode is None:
                worker.terminate()
        for worker in self._workers:
            worker.join()


def _work(service: Service, listener: socket.socket, started: Any) -> None:
    """Serve in a process of its own, for as long as the one that began it is there."""
    from truespan.doors.http.process import work

    try:
        with truespan.open(service.folder, metrics=True, logs=True) as library:
            threading.Thread(target=_end_with_parent, daemon=True).start()
            work(service, listener, library, lambda: started.release())
    except TruespanError as error:
        raise SystemExit(f"truespan: {error}") from None
    except KeyboardInterrupt:
        return


def _end_with_parent() -> None:
    """Leave in order when the parent is gone: nobody else would end this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        signal.raise_signal(signal.SIGTERM)
