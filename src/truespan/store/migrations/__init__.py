"""The schema of the store: numbered steps for each engine, which are never changed once released.

Owns: the SQL scripts, in the order of their names.
Does not own: how a step is applied and recorded; that is in `sqlite.py` and `postgres_server.py`.
Must hold: every library written by an earlier version can be brought up to date.
"""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString, cast


def load_migrations(engine: str) -> list[tuple[str, LiteralString]]:
    """Return the name and the script of every step of an engine, in order."""
    # The scripts are part of the package, as literal as if they stood in this file.
    return [
        (script.name, cast("LiteralString", script.read_text(encoding="utf-8")))
        for script in _scripts(engine)
    ]


def count_migrations(engine: str) -> int:
    """Return the number of steps of an engine: the version of its schema."""
    return len(_scripts(engine))


def _scripts(engine: str) -> list[Path]:
    return sorted(Path(__file__).with_name(engine).glob("*.sql"))
