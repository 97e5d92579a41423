"""The machine's clock."""

from __future__ import annotations

import time


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
