"""The schema of the store: numbered steps for each engine, which are never changed once released.

Owns: the SQL scripts, in the order of their names.
Does not own: how a step is applied and recorded; that is in `sqlite.py` and `postgres_server.py`.
Must hold: every library written by an earlier version can be brought up to date.
"""

from __future__ import annotations

from importlib.resources import files
from typing import LiteralString, cast


def load_migrations(engine: str) -> list[tuple[str, LiteralString]]:
    """Return the name and the script of every step of an engine, in order."""
    folder = files("truespan.store.migrations").joinpath(engine)
    scripts = {entry.name: entry for entry in folder.iterdir() if entry.name.endswith(".sql")}
    # The scripts are part of the package, as literal as if they stood in this file.
    return [
        (name, cast("LiteralString", script.read_text(encoding="utf-8")))
        for name, script in sorted(scripts.items())
    ]
