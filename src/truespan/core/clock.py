"""The machine: its clock, its processes, and the exit of this process; times in ISO 8601."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, NoReturn

from msgspec import Meta

from truespan.errors import resource_error


def end_process(code: int) -> NoReturn:
    """Exit the process with a code, even while threads run that cannot be interrupted.

    A thread that returns from native code during finalization, such as from an inference call,
    aborts the process with another exit code. So finalization is skipped if threads run.
    """
    if threading.active_count() == 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # The reader of the pipe may be gone.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


class SystemClock:
    """The clock of the machine."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


_START_FIELD = 19
"""Index of the start time among the fields after the program name in `/proc/<pid>/stat`."""


class SystemProcesses:
    """Names processes by machine, number and start time: numbers are given out again."""

    def own(self) -> str:
        return _own_name(os.getpid())

    def is_alive(self, name: str) -> bool:
        """Return whether a process is alive; a process on another machine counts as alive."""
        machine, _, rest = name.rpartition("/")
        digits, _, _ = rest.partition(":")
        if machine != socket.gethostname() or not digits.isdigit():
            return True
        number = int(digits)
        with suppress(PermissionError):
            try:
                os.kill(number, 0)
            except ProcessLookupError:
                return False
        return _name(number) == name


# Shared by threads: caches of texts.
@cache
def _own_name(number: int) -> str:
    """Return the name of this process, which never changes; a child has another number."""
    return _name(number)


def _name(number: int) -> str:
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
        started = fields.rpartition(")")[2].split()[_START_FIELD]
    except (OSError, IndexError) as error:
        if known := resource_error(error):
            # Otherwise a living process would count as dead and lose its work.
            raise known from None
        started = "-"
    return f"{socket.gethostname()}/{number}:{started}"


IsoTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in ISO 8601, in UTC and with milliseconds: 2026-01-31T09:30:00.250Z."""


def format_time(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601, such as 2026-01-31T09:30:00.250Z."""
    shown = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return shown.removesuffix("+00:00") + "Z"
