"""Whether the library's database file is whole: what SQLite itself says of it."""

from __future__ import annotations

from pathlib import Path

import apsw

from truespan.adapters.sqlite_store.connection import Connections
from truespan.errors import TruespanError
from truespan.types.maintenance import Check, Verdict

LARGE_LOG = 256 << 20
_RESTORE = "Restore a backup, or ingest the sources into a new library."


class SqliteSoundness:
    """The part of the store that asks SQLite about its file."""

    _connections: Connections

    def soundness(self) -> list[Check]:
        """Return the checks of the database file; it is read once from end to end."""
        try:
            return [self._pages(), self._references(), self._log()]
        except TruespanError as error:
            return [Check("database", Verdict.PROBLEM, error.message, _RESTORE)]

    def _pages(self) -> Check:
        rows = self._connections.query("PRAGMA quick_check(3)")
        if rows == [("ok",)]:
            return Check("database", Verdict.OK, f"whole, SQLite {apsw.sqlite_lib_version()}")
        return Check("database", Verdict.PROBLEM, "its pages do not fit together", _RESTORE)

    def _references(self) -> Check:
        rows = self._connections.query("SELECT count(*) FROM pragma_foreign_key_check")
        if rows == [(0,)]:
            return Check("references", Verdict.OK, "every row has what it refers to")
        says = f"{rows[0][0]} rows refer to what is not there"
        return Check("references", Verdict.PROBLEM, says, _RESTORE)

    def _log(self) -> Check:
        path = Path(f"{self._connections.path}-wal")
        size = path.stat().st_size if path.exists() else 0
        says = f"{size / (1 << 20):.1f} MiB"
        if size < LARGE_LOG:
            return Check("write-ahead log", Verdict.OK, says)
        remedy = "End programs that have had the library open for long."
        return Check("write-ahead log", Verdict.WARNING, says, remedy)
