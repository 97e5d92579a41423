"""Worlds, domains, the caller's permissions, and the state of the server."""

from __future__ import annotations

from typing import Any

from truespan import __version__
from truespan.errors import (
    IndexUnavailable,
    InvalidSettings,
    NotAllowed,
    StoreBusy,
    StoreDamaged,
    WorldBusy,
    WorldExists,
    WorldNotFound,
)
from truespan.http import schemas
from truespan.http.operation import CallContext, Reply, Routes
from truespan.types.scope import Unlimited

METRICS = "text/plain; version=0.0.4; charset=utf-8"
_CREATED = {"world": "$response.body#/id"}

worlds = Routes("Worlds", "Worlds keep documents apart. Domains are named aliases of generations.")
server = Routes("Server", "Health, readiness, metrics, and this document.")


@worlds.get("/v1/me")
def me(context: CallContext) -> Reply[schemas.Permissions]:
    """Get the caller's permissions.

    Returns the id of the token and the worlds, verbs and readers it allows. Without a token on
    loopback, everything is allowed.
    """
    authority = context.principal.authority

    def names(allowed: frozenset[Any] | Unlimited) -> list[str] | str:
        return allowed.value if isinstance(allowed, Unlimited) else sorted(allowed)

    return Reply(
        schemas.Permissions(
            token=context.principal.token,
            worlds=names(authority.worlds),
            verbs=sorted(authority.verbs),
            readers=names(authority.readers),
        )
    )


@worlds.get("/v1/worlds")
def list_worlds(context: CallContext) -> Reply[schemas.WorldList]:
    """List worlds.

    Returns the worlds that the caller may see, ordered by name.
    """
    found = context.library.worlds()
    return Reply(schemas.WorldList(worlds=[schemas.world_entry(world) for world in found]))


@worlds.post(
    "/v1/worlds",
    status=201,
    writes=True,
    errors=(WorldExists, InvalidSettings, WorldNotFound),
    example={"name": "mysteries"},
    links={"showWorld": _CREATED, "listDocuments": _CREATED, "deleteWorld": _CREATED},
)
def create_world(context: CallContext, body: schemas.NewWorld) -> Reply[schemas.WorldEntry]:
    """Create an empty world.

    The name must not be in use. A caller who may not create worlds gets `world_not_found`.
    """
    world = context.library.create_world(body.name)
    entry = schemas.WorldEntry(id=world.id, name=world.name, generation=None)
    return Reply(entry, 201, (("location", f"/v1/worlds/{world.id}"),))


@worlds.get("/v1/worlds/{world}", errors=(WorldNotFound,))
def show_world(context: CallContext) -> Reply[schemas.WorldDetail]:
    """Get a world and its statistics.

    The statistics are null for a caller who may only read as a reader.
    """
    world = context.world()
    record = next(entry for entry in context.library.worlds() if entry.id == world.id)
    try:
        status = world.status()
    except NotAllowed:
        status = None
    entry = schemas.world_entry(record)
    return Reply(
        schemas.WorldDetail(
            id=entry.id, name=entry.name, generation=entry.generation, status=status
        )
    )


@worlds.delete("/v1/worlds/{world}", errors=(WorldNotFound, WorldBusy))
def delete_world(context: CallContext, query: schemas.EraseQuery) -> Reply[schemas.DeletionReceipt]:
    """Delete a world and everything in it.

    Removes the world with its documents, positions and vectors. Returns a receipt that says what
    was removed and whether any of it can still be found in the library's files. With erase=false
    the files are not rewritten.
    """
    receipt = context.library.delete_world(context.path["world"], erase=query.erase)
    return Reply(schemas.DeletionReceipt(**receipt.to_json()))


@worlds.get("/v1/domains")
def list_domains(context: CallContext) -> Reply[schemas.DomainList]:
    """List domains.

    Returns the domains of the worlds that the caller may see, each with its generation.
    """
    return Reply(schemas.DomainList(domains=context.library.domains()))


@server.get("/health", public=True, inline=True)
def health(_: CallContext) -> Reply[schemas.Health]:
    """Check that the server runs.

    Answers as long as the server runs, without using the library.
    """
    return Reply(schemas.Health(status="alive", version=__version__))


@server.get("/ready", public=True, errors=(IndexUnavailable, StoreBusy, StoreDamaged))
def ready(context: CallContext) -> Reply[schemas.Health]:
    """Check that store and index answer.

    Use it as the readiness check of a load balancer.
    """
    context.library.ready()
    return Reply(schemas.Health(status="ready", version=__version__))


@server.get("/metrics", errors=(NotAllowed,), media_type=METRICS)
def metrics(context: CallContext) -> Reply[bytes]:
    """Get metrics for Prometheus.

    Returns the metrics since the server started, in the Prometheus text format. Only the owner
    may read them.
    """
    return Reply(context.library.metrics(), media_type=METRICS)
