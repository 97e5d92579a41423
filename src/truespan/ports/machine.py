"""The machine: its time and its processes."""

from __future__ import annotations

from typing import Protocol

from truespan.model.health import Check


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Return seconds since the epoch. It may jump: callers must bear that."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow; for measuring how long something took."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Environment(Protocol):
    """What a library stands on: its files, settings and models. Looking changes nothing."""

    def checks(self) -> list[Check]:
        """Return each check with how it came out and, where it did not hold, what to do."""
        ...


class Processes(Protocol):
    """Which processes are alive."""

    def own(self) -> str:
        """Return a name of this process that no other has or will have on this machine."""
        ...

    def is_alive(self, name: str) -> bool:
        """Say whether a process is alive; also when that cannot be told, for lack of access."""
        ...
