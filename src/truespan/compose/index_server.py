"""The index on a Qdrant server, as the settings describe it."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

from truespan.adapters.qdrant_server.index import QdrantServerIndex
from truespan.adapters.qdrant_server.options import ServerOptions, server_target
from truespan.errors import InvalidConfiguration
from truespan.model.ids import WorldId
from truespan.model.keys import Secret
from truespan.ports import Clock
from truespan.settings import Settings

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def server_index(folder: Path, settings: Settings, clock: Clock) -> QdrantServerIndex:
    """Return an index that has asked the server nothing yet.

    Raises:
        InvalidConfiguration: settings of the server contradict each other or make no sense.
    """
    return QdrantServerIndex(server_options(folder, settings), clock)


def server_options(folder: Path, settings: Settings) -> ServerOptions:
    """Return what the settings say about the server; raises as `server_index` does."""
    if not _PREFIX.fullmatch(settings.qdrant_prefix):
        raise InvalidConfiguration(
            "The setting qdrant_prefix must be letters, digits, _ or -, at most 64 of them."
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
        approximate=frozenset(map(_world, settings.approximate_worlds_listed)),
    )


def _key(settings: Settings) -> Secret:
    """Return the first key that is in use; a server may ask for none."""
    usable = (key.secret for key in settings.keys if key.provider == "qdrant" and key.enabled)
    return next(usable, Secret(""))


def _world(spelled: str) -> WorldId:
    try:
        return WorldId(str(UUID(spelled)))
    except ValueError:
        raise InvalidConfiguration(
            "The setting index_approximate_worlds must be ids of worlds.",
            advice="'truespan status --json' shows them.",
        ) from None
