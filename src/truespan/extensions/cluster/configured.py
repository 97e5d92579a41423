"""The parts of libraries on servers, from their settings."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import asdict, replace

from truespan.errors import InvalidConfiguration, resource_error
from truespan.extensions.cluster.qdrant import SUPPORTED, ServerOptions, server_target
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.protocols import Clock, VectorIndex
from truespan.settings import read_settings
from truespan.settings.catalogue import Settings
from truespan.types.maintenance import Check, Verdict
from truespan.types.token import Secret
from truespan.wiring.storage import approximate_worlds, is_on_server

if TYPE_CHECKING:
    from truespan.extensions.cluster.postgres import PostgresDatabase
    from truespan.extensions.cluster.queue import ProcrastinateQueue
    from truespan.store import Store

_MAX_LENGTH = 4096
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def open_database(folder: Path, settings: Settings) -> PostgresDatabase:
    """Return the database of the store, which is checked to separate worlds."""
    url = _server_url(folder, settings, "store_url")
    from truespan.extensions.cluster.postgres import Address, PostgresDatabase

    return PostgresDatabase(Address(url))


def make_queue(folder: Path, settings: Settings) -> ProcrastinateQueue:
    """Return the job queue in the database of the store; it connects when it is first used."""
    url = _server_url(folder, settings, "store_url")
    from truespan.extensions.cluster.queue import ProcrastinateQueue

    return ProcrastinateQueue(url)


def prepare_tables(folder: Path) -> tuple[int, int]:
    """Create or update the tables of a library's store; return the schema before and after."""
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


def make_index(folder: Path, settings: Settings, clock: Clock, store: Store) -> QdrantServerIndex:
    """Return the index on the configured server; it connects when it is first used."""
    options = server_options(folder, settings)
    return QdrantServerIndex(options, clock, library_id=store.worlds.library_id)


def check_server(index: VectorIndex, found: Check) -> Check:
    """Return a check of the index with the version and the failures of its server."""
    if found.verdict is not Verdict.OK or not isinstance(index, QdrantServerIndex):
        return found
    says = f"Qdrant {index.version()} {found.says}"
    if failed := index.failed_collections():
        says += f"; it failed to carry out a write in {', '.join(failed)} (status red)"
        remedy = "Check the log and the disk of the server; then run 'truespan doctor' again."
        return replace(found, verdict=Verdict.PROBLEM, says=says, remedy=remedy)
    if index.is_supported():
        return replace(found, says=says)
    remedy = f"Truespan is tested with Qdrant {SUPPORTED}; use one of these versions."
    return replace(found, verdict=Verdict.WARNING, says=says, remedy=remedy)


def server_options(folder: Path, settings: Settings) -> ServerOptions:
    """Return the options of the Qdrant server; raise if settings contradict each other."""
    if not _PREFIX.fullmatch(settings.qdrant.prefix):
        raise InvalidConfiguration(
            "The setting qdrant_prefix must have 1 to 64 letters, digits, _ or -."
        )
    server_target(settings.index.url)
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
