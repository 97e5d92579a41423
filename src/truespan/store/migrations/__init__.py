"""The schema of the store: a script that creates it, and migrations that change it.

Owns: the SQL scripts of each engine. The number in a script's name is the version of the schema
after that script. A released script is never changed.
Does not own: applying scripts and recording the version; `sqlite.py` and `postgres_server.py` do.
Must hold: every schema from `OLDEST_VERSION` on can be migrated to the newest one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, LiteralString, NamedTuple, cast

from truespan.errors import SchemaUnknown

OLDEST_VERSION: Final = 100
"""Version of the first released schema. Lower versions were used before the first release."""


class Migration(NamedTuple):
    """A script that changes the schema from the previous version to `version`."""

    version: int
    name: str
    script: LiteralString


def newest_version(engine: str) -> int:
    """Return the version of an engine's schema after all migrations."""
    return _version_of(_list_scripts(engine)[-1])


def load_migrations(engine: str) -> list[Migration]:
    """Return all scripts of an engine, in order."""
    return [
        # The scripts are part of the package, so they are as safe as literals.
        Migration(
            _version_of(path), path.name, cast("LiteralString", path.read_text(encoding="utf-8"))
        )
        for path in _list_scripts(engine)
    ]


def pending_migrations(engine: str, found: int) -> list[Migration]:
    """Return the migrations that a store lacks; `found` is its version, 0 for an empty store."""
    newest = newest_version(engine)
    if found > newest:
        raise SchemaUnknown("library_too_new", found, newest)
    if 0 < found < OLDEST_VERSION:
        raise SchemaUnknown("library_too_old", found, OLDEST_VERSION)
    if found == newest:
        return []
    return [migration for migration in load_migrations(engine) if migration.version > found]


def _list_scripts(engine: str) -> list[Path]:
    return sorted(Path(__file__).with_name(engine).glob("*.sql"))


def _version_of(script: Path) -> int:
    return int(script.name.partition("_")[0])
