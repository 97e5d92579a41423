"""A store that is no file, as a backup holds it: its rows, written into one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from truespan.adapters.sqlite_store.snapshot import CACHES, UNRESTORED, Snapshot, fill_snapshot
from truespan.ports.moving import MovableRows

CopyRows = Callable[[MovableRows, MovableRows, Collection[str]], None]
"""Copies all rows of one store into an empty one, but for the named tables, and reads them back."""


@dataclass(frozen=True, slots=True)
class RowsSource:
    """A store on a server, to be backed up. `rows` gives it anew, so that backups share nothing."""

    rows: Callable[[], MovableRows]
    measure: Callable[[], int]
    copy: CopyRows
    reserve: int
    attempts: int = 2
    """A whole copy for the sake of an image that has just changed; what lies on another machine
    will not be there the next time either."""

    def size(self) -> int:
        """Return about how many bytes its rows take."""
        return self.measure()

    def take(self, target: Path, *, vectors: bool) -> Snapshot:
        """Write one state of it into a new file, a few rows at a time."""
        leave = UNRESTORED if vectors else (*UNRESTORED, *CACHES)
        return fill_snapshot(
            target, lambda taken: self.copy(self.rows(), taken, leave), reserve=self.reserve
        )
