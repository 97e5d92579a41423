"""The machine: its time, which processes are alive on it, and the end of this one."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

from truespan.errors import resource_error


def end_process(code: int) -> NoReturn:
    """End the process with an exit code, also while threads run that cannot be interrupted.

    A thread whose native code returns while the interpreter is finalised aborts the process, with
    an exit code of its own: a step of a job that embeds texts, say. So nothing is finalised then.
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
"""Where the start time stands among the fields after the name of the program."""


class SystemProcesses:
    """Names processes by machine, number and start time: numbers are given out again."""

    def own(self) -> str:
        return _own_name(os.getpid())

    def is_alive(self, name: str) -> bool:
        """Say whether a process is alive; one on another machine is taken to be."""
        machine, _, rest = name.rpartition("/")
        digits, _, _ = rest.partition(":")
        if machine != socket.gethostname() or not digits.isdigit():
            return True
        number = int(digits)
        if os.name == "nt":
            # A signal would end the process there, so only this one is known to exist.
            return number == os.getpid() and _name(number) == name
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
            # Else this process would take a living one for dead, and its work from it.
            raise known from None
        started = "-"
    return f"{socket.gethostname()}/{number}:{started}"
