"""Truespan: retrieval that can be trusted.

    import truespan

    with truespan.open("library", create=True) as library:
        world = library.create_world("mysteries")
        world.ingest("examples/the-glass-ferry.md", kind="book")
        for passage in world.search("Who held the spare key?", top_k=3).results:
            print(passage.score, passage.chapter, passage.text)

Every passage shown was read from the trusted store and checked, in that very read, against the hash
it was embedded with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truespan.errors import TruespanError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from truespan.engine.library import Library
    from truespan.engine.world import World
    from truespan.observer import Observer, StageListener
    from truespan.protocols import ChatModels, Embedder, TokenCounter
    from truespan.types.maintenance import Manifest, MigrationReport, RestoreReport
    from truespan.types.scope import Authority

__version__ = "0.1.0"
__all__ = [
    "Library",
    "Observer",
    "StageListener",
    "TruespanError",
    "World",
    "__version__",
    "migrate",
    "open",
    "prepare_store",
    "restore",
    "verify_backup",
]


def open(
    path: str | Path,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
    counter: TokenCounter | None = None,
    chat: ChatModels | None = None,
    others: Mapping[str, Embedder] | None = None,
    authority: Authority | None = None,
    watch: Observer | None = None,
    metrics: bool | None = None,
    logs: bool = False,
) -> Library:
    """Open the library in a folder; with `create`, make it if it is not there.

    With an `authority`, what is opened can do what that allows, and no more; without, everything.
    A `watch` hears of requests and their stages. `metrics` says, instead of the setting, whether
    they are counted; with `logs`, this process writes its log to standard error.

    Raises:
        LibraryNotFound: there is none, and it was not to be made.
        InvalidConfiguration: a setting is wrong.
    """
    from truespan.types.scope import OWNER
    from truespan.wiring import open_library

    return open_library(
        path,
        create=create,
        embedder=embedder,
        counter=counter,
        chat=chat,
        others=others,
        authority=OWNER if authority is None else authority,
        watch=watch,
        metrics=metrics,
        logs=logs,
    )


def prepare_store(path: str | Path) -> tuple[int, int]:
    """Make or update the tables of a library's PostgreSQL store, as the role that owns them.

    The settings of the library's folder and the environment say where it is. Returns the schema
    before and after; both are the same where nothing was to be done.

    Raises:
        InvalidConfiguration: they do not, or the role may not do it.
        LibraryTooNew: the tables are those of a newer version.
        StoreUnsafe: worlds would not be kept apart in that database.
    """
    from pathlib import Path

    from truespan.wiring.servers import prepare_tables

    return prepare_tables(Path(path))


def migrate(source: str | Path, path: str | Path) -> MigrationReport:
    """Move the library of one folder into that of another: from one machine to many, or back.

    The folder of the source alone says where its store is; for the other one the environment counts
    as well, as it does for every command. The source is only read. Every row is read back and
    compared, and every point. A call that was stopped goes on when it is made again.

    Raises:
        LibraryNotFound: there is nothing to be moved.
        InvalidSettings: both are one library.
        MigrationRefused: the target holds something else, or what arrived is not what was sent.
    """
    from pathlib import Path

    from truespan.wiring.migrate import migrate_library

    return migrate_library(Path(source), Path(path))


def restore(backup: str | Path, path: str | Path) -> RestoreReport:
    """Make a library of a backup, in a folder that is new or empty, and fill its index.

    Where the settings of the folder or the environment name a store on a server, it goes there: the
    store has to be prepared and without worlds. All of it is put in place, or nothing. What the
    backup has vectors of is written to the index; the rest waits for `World.repair`, which embeds
    it.

    Raises:
        BackupInvalid: it is not a backup, or not as it was written; then nothing was done.
        InvalidSettings: the folder or the store holds something.
        StoreOutdated: the store on the server is not prepared.
    """
    from pathlib import Path

    from truespan.types.maintenance import RestoreReport
    from truespan.wiring import open_library
    from truespan.wiring.backup import laid_aside, restore_library

    manifest = restore_library(Path(backup), Path(path))
    with open_library(path) as library:
        written = library.refill() if manifest.vectors else 0
        pending = library.pending()
    aside = laid_aside(Path(path)) if manifest.has("settings") else None
    return RestoreReport(str(path), manifest, written, pending, str(aside) if aside else None)


def verify_backup(backup: str | Path) -> Manifest:
    """Read a whole backup and return what it says of itself, if all of it is as it was written.

    Raises:
        BackupInvalid: it is not.
    """
    from pathlib import Path

    from truespan.wiring.backup import verified_backup

    return verified_backup(Path(backup))


def __getattr__(name: str) -> object:
    """Import the engine only when somebody needs it: start-up time counts."""
    if name in ("Library", "World"):
        from truespan.engine import library

        return getattr(library, name)
    if name in ("StageListener", "Observer"):
        from truespan import protocols as ports

        return getattr(ports, name)
    raise AttributeError(f"module 'truespan' has no attribute {name!r}")
