"""The process of an index folder: tests find it, freeze it, end it and wait for it."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.contract.index_contract import leaning, new_scope, point
from truespan.core.disk import FileLock
from truespan.index.edge import channel
from truespan.index.edge.client import EdgeIndex

SCOPE = new_scope()


def end_process(folder: Path) -> None:
    if (address := channel.published(folder)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(address.pid, signal.SIGCONT)
            os.kill(address.pid, signal.SIGTERM)
    if folder.exists():
        wait_for_end(folder)


def wait_for_end(folder: Path) -> None:
    """Return once the process has released the folder."""
    with FileLock(folder / channel.LOCK):
        pass


def kill(pid: int) -> None:
    """Kill a process that this one started, and return once it has ended."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not exists(pid))


def freeze(pid: int) -> None:
    """Stop a process that this one started, and return once it is stopped."""
    os.kill(pid, signal.SIGSTOP)
    _, status = os.waitpid(pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds; fail after a timeout."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        threading.Event().wait(0.005)


def process_of(folder: Path) -> int:
    address = channel.published(folder)
    assert address is not None
    return address.pid


def opened(folder: Path, *, points: int = 0, **options: float) -> EdgeIndex:
    index = EdgeIndex(folder, reserve=0, **{"idle_seconds": 60, **options})
    index.prepare(SCOPE)
    if points:
        index.upsert(SCOPE, [point(SCOPE, n, leaning(n / points)) for n in range(points)])
        index.flush(SCOPE)
    return index
