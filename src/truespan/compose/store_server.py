"""The store in a PostgreSQL database, as the settings describe it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from truespan.errors import InvalidConfiguration
from truespan.model.keys import Secret
from truespan.ports import Clock
from truespan.settings import Settings, read_settings

if TYPE_CHECKING:
    from truespan.adapters.postgres_store import PostgresStore
    from truespan.adapters.procrastinate_queue import ProcrastinateQueue

_LONGEST = 4096
_SCHEMES = ("postgresql", "postgres")


def is_on_server(settings: Settings) -> bool:
    """Say whether the settings put the store on a server."""
    return bool(settings.store_url or settings.store_url_file)


def server_store(folder: Path, settings: Settings, clock: Clock) -> PostgresStore:
    """Return a store that has looked whether its database keeps worlds apart.

    Raises:
        InvalidConfiguration: the address is none, nobody answers there, or what is needed for it
            is not installed.
        StoreUnsafe, StoreOutdated, LibraryTooNew: it may not be used as it is.
    """
    _require_installed()
    from truespan.adapters.postgres_store import PostgresStore
    from truespan.adapters.postgres_store.connection import Address

    url = _address(folder, "store_url", settings.store_url, settings.store_url_file)
    return PostgresStore(
        Address(url, settings.store_pool_size, settings.store_timeout_seconds), clock
    )


def server_queue(folder: Path, settings: Settings) -> ProcrastinateQueue:
    """Return the queue in the same database; it is asked nothing yet."""
    from truespan.adapters.procrastinate_queue import ProcrastinateQueue, QueueLimits

    url = _address(folder, "store_url", settings.store_url, settings.store_url_file)
    return ProcrastinateQueue(
        url,
        QueueLimits(
            waiting=settings.queue_most_waiting,
            tries=settings.worker_tries,
            stalled_seconds=settings.worker_stalled_seconds,
            timeout_seconds=settings.store_timeout_seconds,
        ),
    )


def prepare_tables(folder: Path) -> tuple[int, int]:
    """Make or update the tables of a library's store; return the schema before and after.

    Raises:
        InvalidConfiguration: the settings name no store on a server, or no owner of its tables.
        StoreUnsafe, LibraryTooNew: it may not be used, or not by this version.
    """
    settings = read_settings(folder)
    if not is_on_server(settings):
        raise InvalidConfiguration(
            "The store of this library is a file, which needs no preparing.",
            advice="Set store_url for a store in a PostgreSQL database; see docs/postgres.md.",
        )
    _require_installed()
    from truespan.adapters.postgres_store.schema import prepare_store, role_of
    from truespan.adapters.procrastinate_queue.schema import prepare_queue

    owner = _address(
        folder, "store_owner_url", settings.store_owner_url, settings.store_owner_url_file
    )
    url = _address(folder, "store_url", settings.store_url, settings.store_url_file)
    prepared = prepare_store(owner, role_of(url), also=prepare_queue)
    return prepared.before, prepared.now


def _address(folder: Path, name: str, given: str, file: str) -> Secret:
    """Return an address, from a file if one is named; no message ever repeats any of it."""
    if bool(given) == bool(file):
        raise InvalidConfiguration(f"Set either {name} or {name}_file.")
    url = given or _read(folder / file, f"{name}_file")
    if _scheme(url) not in _SCHEMES:
        raise InvalidConfiguration(
            f"The setting {name} must be a postgresql:// address with host, database and role."
        )
    return Secret(url)


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def _read(path: Path, name: str) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidConfiguration(f"The file of {name} cannot be read.") from None


def _require_installed() -> None:
    if any(find_spec(name) is None for name in ("psycopg", "psycopg_pool", "procrastinate")):
        raise InvalidConfiguration(
            "A store in PostgreSQL needs packages that are not installed.",
            advice="Install truespan[server].",
        )
