"""Which processes are alive on this machine."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path


class SystemClock:
    """Tells the machine's time."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


_START_FIELD = 19
"""Where the start time stands among the fields after the name of the program."""


class SystemProcesses:
    """Names processes by machine, number and start time: numbers are given out again."""

    def own(self) -> str:
        """Return the name of this process."""
        return _name(os.getpid())

    def is_alive(self, name: str) -> bool:
        """Say whether a process is alive; one on another machine is taken to be."""
        machine, _, rest = name.rpartition("/")
        number, _, _ = rest.partition(":")
        if machine != socket.gethostname() or not number.isdigit():
            return True
        if not _exists(int(number)):
            return False
        return _name(int(number)) == name


def _exists(number: int) -> bool:
    if os.name == "nt":
        # A signal would end the process there, so only this one is known to exist.
        return number == os.getpid()
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _name(number: int) -> str:
    return f"{socket.gethostname()}/{number}:{_started(number)}"


def _started(number: int) -> str:
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
        return fields.rpartition(")")[2].split()[_START_FIELD]
    except (OSError, IndexError):
        return "-"
