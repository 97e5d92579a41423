"""Waiting for the index process to start: as long as it makes progress."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from truespan.errors import IndexUnavailable

MAX_FACTOR = 10
"""Multiple of the patience after which a start has failed, whatever the process does."""
_BUSY = ("R", "D")
"""States of a process that waits for a processor or a disk: a busy machine keeps it waiting."""
_FAULTS, _TICKS = (7, 9), (11, 12)
"""Places of page faults and of processor time among the fields after the name of the program."""


class StartWait:
    """Decides whether a process that was started is still worth waiting for.

    Importing its modules takes half a second on an idle machine, and minutes on a loaded one. It is
    given up after `patience` seconds in which it did nothing, or `MAX_FACTOR` times as many in all.
    Where the system does not show what a process does, only the latter counts.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._began = self._active_at = time.monotonic()
        self._seen: tuple[int, ...] = ()

    def check(self, pid: int) -> IndexUnavailable | None:
        """Return the error with which to give up a process; None as long as it is waited for."""
        now = time.monotonic()
        found = _activity_of(pid)
        if found is None or found != self._seen or not found:
            self._seen, self._active_at = found or (), now
        if now - self._active_at > self._patience:
            doing = f"did nothing for {now - self._active_at:.0f} s"
        elif now - self._began > MAX_FACTOR * self._patience:
            doing = f"was still starting after {now - self._began:.0f} s"
        else:
            return None
        return IndexUnavailable(
            f"The index process ({pid}) {doing}.",
            advice="The machine may be overloaded. It goes on starting; try again.",
        )


def _activity_of(pid: int) -> tuple[int, ...] | None:
    """Return counters that change while a process does something.

    They are empty while it waits for the machine, and None where they are not known.
    """
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        fields = text.rpartition(")")[2].split()
        if fields[0] in _BUSY:
            return ()
        return tuple(int(fields[place]) for place in (*_FAULTS, *_TICKS))
    return None
