"""What a migration moved, and how that was proved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MovedCount:
    """Rows of one table over all worlds, and their digest, which is the same on both sides."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """A library that was moved. Every row was read back and compared, and every point looked at."""

    path: str
    worlds: int
    tables: dict[str, MovedCount]
    files: int
    """Images and keys that the target has now and had not before."""
    points: int
    """Points of the target's index, each compared with the store."""
    pending: int
    """Chunks that no vector was kept of; `truespan repair` embeds them."""
    findings: dict[str, int]
    """What the doctor found in the target, by code; what was damaged before is so still."""

    @property
    def rows(self) -> int:
        """Return how many rows there are in all."""
        return sum(table.rows for table in self.tables.values())
