"""The storage of a library, in its folder or on servers: store, index, jobs, files, backups."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

from msgspec.structs import asdict

from truespan.core.clock import SystemClock
from truespan.errors import InvalidConfiguration, resource_error
from truespan.protocols import Clock
from truespan.settings import FILE_NAME, STORE_FILE, names_server, read_settings
from truespan.settings.catalogue import Settings, split_list
from truespan.store import Store
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.types.ids import WorldId
from truespan.types.maintenance import Manifest
from truespan.types.token import Secret

if TYPE_CHECKING:
    from truespan.extensions.cluster.qdrant import ServerOptions
    from truespan.extensions.cluster.queue import ProcrastinateQueue
    from truespan.files.assets import AssetFolder, PictureFolder
    from truespan.files.backup import BackupWriter

__all__ = ["STORE_FILE"]

ASSETS_FOLDER = "data/rag-assets"
PICTURES_FOLDER = "data/page-pictures"
KEY_FILE = "pseudonyms.key"
USAGE_KEY_FILE = "usage.key"
SIGNING_KEYS_FILE = "signing.key"
KEY_FILES = (KEY_FILE, USAGE_KEY_FILE, SIGNING_KEYS_FILE)
_MAX_LENGTH = 4096
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def is_on_server(settings: Settings) -> bool:
    """Return whether the settings put the store on a server."""
    return bool(settings.store.url or settings.store.url_file)


def assets_folder(folder: Path, settings: Settings) -> Path:
    """Return the folder of images; a relative path is relative to the library."""
    return folder / (settings.rag_assets_dir or ASSETS_FOLDER)


def open_store(folder: Path, settings: Settings, clock: Clock) -> Store:
    """Return the store: a file, or a PostgreSQL database that is checked to separate worlds.

    Raises:
        InvalidConfiguration: the address is invalid, no server answers, or a package is missing.
        StoreUnsafe, StoreOutdated, LibraryTooNew, LibraryTooOld: the database cannot be used.
    """
    if not is_on_server(settings):
        return Store(SqliteDatabase(folder / STORE_FILE, reserve=settings.disk_reserve), clock)
    url = _server_url(folder, settings, "store_url")
    from truespan.extensions.cluster.postgres import Address, PostgresDatabase

    address = Address(url, timeout_seconds=settings.store.timeout_seconds)
    return Store(PostgresDatabase(address), clock)


def server_queue(folder: Path, settings: Settings) -> ProcrastinateQueue:
    """Return the job queue in the database of the store; it connects when it is first used."""
    url = _server_url(folder, settings, "store_url")
    from truespan.extensions.cluster.queue import ProcrastinateQueue, QueueLimits

    return ProcrastinateQueue(url, QueueLimits(timeout_seconds=settings.store.timeout_seconds))


def prepare_tables(folder: Path) -> tuple[int, int]:
    """Create or update the tables of a library's store; return the schema before and after.

    Raises:
        InvalidConfiguration: the settings have no store_url, or no store_owner_url.
        StoreUnsafe, LibraryTooNew, LibraryTooOld: the database cannot be used.
    """
    settings = read_settings(folder)
    if not is_on_server(settings):
        raise InvalidConfiguration(
            "The store of this library is a file, which needs no preparation.",
            advice="Set store_url for a store in PostgreSQL; see docs/deployment.md.",
        )
    owner = _server_url(folder, settings, "store_owner_url")
    url = _server_url(folder, settings, "store_url")
    from truespan.extensions.cluster.postgres_server import prepare_store, role_of
    from truespan.extensions.cluster.queue import prepare_queue

    prepared = prepare_store(owner, role_of(url), also=prepare_queue)
    return prepared.before, prepared.now


def _server_url(folder: Path, settings: Settings, name: str) -> Secret:
    """Return a URL from a setting, or from the file it names. No message contains the URL."""
    if any(find_spec(package) is None for package in ("psycopg", "psycopg_pool", "procrastinate")):
        raise InvalidConfiguration(
            "A store in PostgreSQL needs packages that are not installed.",
            advice="Install Truespan with the extra 'server'.",
        )
    url, file = settings.value_of(name), settings.value_of(f"{name}_file")
    if bool(url) == bool(file):
        raise InvalidConfiguration(f"Set either {name} or {name}_file.")
    if file:
        try:
            with (folder / file).open(encoding="utf-8") as content:
                url = content.read(_MAX_LENGTH).strip()
        except (OSError, UnicodeDecodeError) as error:
            refusal = InvalidConfiguration(f"The file named by {name}_file cannot be read.")
            raise resource_error(error) or refusal from None
    try:
        is_valid = urlsplit(url).scheme in ("postgresql", "postgres")
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidConfiguration(
            f"The setting {name} must be a postgresql:// address with host, database and role."
        )
    return Secret(url)


def server_options(folder: Path, settings: Settings) -> ServerOptions:
    """Return the options of the Qdrant server; raise if settings contradict each other."""
    from truespan.extensions.cluster.qdrant import ServerOptions, server_targets

    if not _PREFIX.fullmatch(settings.qdrant.prefix):
        raise InvalidConfiguration(
            "The setting qdrant_prefix must have 1 to 64 letters, digits, _ or -."
        )
    if settings.qdrant.write_factor > settings.qdrant.replicas:
        raise InvalidConfiguration(
            "The setting qdrant_write_factor is greater than qdrant_replicas: no write could end."
        )
    server_targets(settings.index.url)
    usable = (key.secret for key in settings.keys if key.provider == "qdrant" and key.enabled)
    given = asdict(settings.qdrant)
    if settings.qdrant.ca_file:
        given["ca_file"] = str(folder / settings.qdrant.ca_file)
    return ServerOptions(
        **given,
        url=settings.index.url,
        key=next(usable, Secret("")),
        approximate=approximate_worlds(settings),
    )


def approximate_worlds(settings: Settings) -> frozenset[WorldId]:
    """Return the worlds that are searched approximately; raise unless all are ids."""
    worlds = split_list(settings.index.approximate_worlds)
    try:
        return frozenset(WorldId(str(UUID(world))) for world in worlds)
    except ValueError:
        raise InvalidConfiguration(
            "The setting index_approximate_worlds must be ids of worlds.",
            advice="'truespan status --json' shows them.",
        ) from None


def backup_writer(
    folder: Path,
    assets: AssetFolder,
    pictures: PictureFolder | None,
    settings: Settings,
    clock: Clock,
    store: Store,
) -> BackupWriter:
    from truespan.files.backup import BackupWriter
    from truespan.store.transfer.snapshot import FileSnapshots, ServerSnapshots

    def version() -> str:
        from importlib import metadata

        return metadata.version("truespan")

    return BackupWriter(
        folder=folder,
        store=ServerSnapshots(store.as_rows, settings.disk_reserve)
        if is_on_server(settings)
        else FileSnapshots(folder / STORE_FILE),
        assets=assets,
        pictures=pictures,
        settings={f"settings/{FILE_NAME}": folder / FILE_NAME},
        keys={f"keys/{name}": folder / name for name in KEY_FILES},
        version=version,
        clock=clock,
        reserve=settings.disk_reserve,
    )


def restore_library(path: Path, folder: Path) -> Manifest:
    """Create a library from a backup, completely or not at all, without its index.

    The folder must be new, unless its settings or the environment name a store on a server.
    """
    from truespan.files.backup import restore_to_folder, restore_to_server

    settings = read_settings(folder)
    if not is_on_server(settings):
        return restore_to_folder(
            path, folder, assets=ASSETS_FOLDER, pictures=PICTURES_FOLDER, names_server=names_server
        )
    store = open_store(folder, settings, SystemClock())
    try:
        return restore_to_server(
            path,
            folder,
            assets=assets_folder(folder, settings),
            pictures=folder / PICTURES_FOLDER,
            target=store.as_rows(),
            names_server=names_server,
        )
    finally:
        store.close()


def find_settings_aside(folder: Path) -> Path | None:
    """Return the settings of a restored backup that did not take effect; None if there are none."""
    from truespan.files.backup import RESTORED_SETTINGS

    return folder / RESTORED_SETTINGS if (folder / RESTORED_SETTINGS).exists() else None
