"""Build the store, queue and index of servers from settings."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

from truespan.errors import InvalidConfiguration
from truespan.index.server import ServerOptions, server_target
from truespan.index.server.index import QdrantServerIndex
from truespan.protocols import Clock
from truespan.settings import read_settings
from truespan.settings.catalogue import Settings
from truespan.store import Store
from truespan.types.ids import WorldId
from truespan.types.token import Secret

if TYPE_CHECKING:
    from truespan.jobs.queue import ProcrastinateQueue


_MAX_LENGTH = 4096
_SCHEMES = ("postgresql", "postgres")


def is_on_server(settings: Settings) -> bool:
    """Return whether the settings put the store on a server."""
    return bool(settings.store_url or settings.store_url_file)


def server_store(folder: Path, settings: Settings, clock: Clock) -> Store:
    """Return the store in PostgreSQL, after checking that its database separates worlds.

    Raises:
        InvalidConfiguration: the address is invalid, no server answers, or a package is missing.
        StoreUnsafe, StoreOutdated, LibraryTooNew: the database cannot be used as it is.
    """
    _require_installed()
    from truespan.store.postgres import Address, PostgresDatabase

    url = _address(folder, "store_url", settings.store_url, settings.store_url_file)
    address = Address(url, settings.store_pool_size, settings.store_timeout_seconds)
    return Store(PostgresDatabase(address), clock)


def server_queue(folder: Path, settings: Settings) -> ProcrastinateQueue:
    """Return the job queue in the same database; it connects when it is first used."""
    from truespan.jobs.queue import ProcrastinateQueue, QueueLimits

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
    """Create or update the tables of a library's store; return the schema before and after.

    Raises:
        InvalidConfiguration: the settings have no store_url, or no store_owner_url.
        StoreUnsafe, LibraryTooNew: the database cannot be used, or not by this version.
    """
    settings = read_settings(folder)
    if not is_on_server(settings):
        raise InvalidConfiguration(
            "The store of this library is a file, which needs no preparation.",
            advice="Set store_url for a store in a PostgreSQL database; see docs/postgres.md.",
        )
    _require_installed()
    from truespan.jobs.schema import prepare_queue
    from truespan.store.postgres_server import prepare_store, role_of

    owner = _address(
        folder, "store_owner_url", settings.store_owner_url, settings.store_owner_url_file
    )
    url = _address(folder, "store_url", settings.store_url, settings.store_url_file)
    prepared = prepare_store(owner, role_of(url), also=prepare_queue)
    return prepared.before, prepared.now


def _address(folder: Path, name: str, given: str, file: str) -> Secret:
    """Return an address, or that in a named file; no message ever contains any of it."""
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
            return file.read(_MAX_LENGTH).strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidConfiguration(f"The file named by {name} cannot be read.") from None


def _require_installed() -> None:
    if any(find_spec(name) is None for name in ("psycopg", "psycopg_pool", "procrastinate")):
        raise InvalidConfiguration(
            "A store in PostgreSQL needs packages that are not installed.",
            advice="Install truespan[server].",
        )


_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def server_index(folder: Path, settings: Settings, clock: Clock) -> QdrantServerIndex:
    """Return the index on a Qdrant server; it connects when it is first used.

    Raises:
        InvalidConfiguration: settings of the server are invalid or contradict each other.
    """
    return QdrantServerIndex(server_options(folder, settings), clock)


def server_options(folder: Path, settings: Settings) -> ServerOptions:
    """Return the options of the Qdrant server; raises as `server_index` does."""
    if not _PREFIX.fullmatch(settings.qdrant_prefix):
        raise InvalidConfiguration(
            "The setting qdrant_prefix must have 1 to 64 letters, digits, _ or -."
        )
    if settings.qdrant_write_factor > settings.qdrant_replicas:
        raise InvalidConfiguration(
            "The setting qdrant_write_factor is greater than qdrant_replicas: no write could end."
        )
    server_target(settings.index_url)
    return ServerOptions(
        url=settings.index_url,
        key=_key(settings),
        ca_file=folder / settings.qdrant_ca_file if settings.qdrant_ca_file else None,
        grpc=settings.qdrant_grpc,
        grpc_port=settings.qdrant_grpc_port,
        timeout_seconds=settings.qdrant_timeout_seconds,
        prefix=settings.qdrant_prefix,
        shards=settings.qdrant_shards,
        replicas=settings.qdrant_replicas,
        write_factor=settings.qdrant_write_factor,
        read_consistency=settings.qdrant_read_consistency,
        write_ordering=settings.qdrant_write_ordering,
        approximate=frozenset(map(_world_id, settings.approximate_worlds_listed)),
    )


def _key(settings: Settings) -> Secret:
    """Return the first enabled key; empty for a server that needs none."""
    usable = (key.secret for key in settings.keys if key.provider == "qdrant" and key.enabled)
    return next(usable, Secret(""))


def _world_id(text: str) -> WorldId:
    try:
        return WorldId(str(UUID(text)))
    except ValueError:
        raise InvalidConfiguration(
            "The setting index_approximate_worlds must be ids of worlds.",
            advice="'truespan status --json' shows them.",
        ) from None
