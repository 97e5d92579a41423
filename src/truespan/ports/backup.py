"""Backups of a library."""

from __future__ import annotations

from typing import Protocol

from truespan.model.backup import BackupReport


class Backups(Protocol):
    """Writes all that a library holds into one file."""

    def write(
        self, path: str, *, vectors: bool, settings: bool, keys: bool, replace: bool
    ) -> BackupReport:
        """Write a backup and read it back; the file is whole or not there.

        Raises:
            InvalidSettings: there is a file already, and it was not to be replaced.
            StorageFull: there is no room.
        """
        ...
