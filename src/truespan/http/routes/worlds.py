"""Worlds, domains, and what the caller may do."""

from __future__ import annotations

from typing import Any

from truespan.errors import InvalidSettings, NotAllowed, WorldBusy, WorldExists, WorldNotFound
from truespan.http import schemas as shapes
from truespan.http.call import Call, CallContext, Reply
from truespan.types.scope import Unlimited


def _me(asked: CallContext) -> Reply:
    authority = asked.principal.authority
    return Reply(
        shapes.Permissions(
            token=asked.principal.token,
            worlds=_listed(authority.worlds),
            verbs=sorted(authority.verbs),
            readers=_listed(authority.readers),
        )
    )


def _listed(allowed: frozenset[Any] | Unlimited) -> list[str] | str:
    return allowed.value if isinstance(allowed, Unlimited) else sorted(allowed)


def _list(asked: CallContext) -> Reply:
    return Reply(shapes.WorldList(worlds=[*map(shapes.world_entry, asked.library.worlds())]))


def _create(asked: CallContext) -> Reply:
    made = asked.library.create_world(asked.body.name)
    entry = shapes.WorldEntry(id=made.id, name=made.name, generation=None)
    return Reply(entry, 201, (("location", f"/v1/worlds/{made.id}"),))


def _show(asked: CallContext) -> Reply:
    world = asked.world()
    entry = next(one for one in asked.library.worlds() if one.id == world.id)
    try:
        status = world.status()
    except NotAllowed:
        # Whoever follows a reader sees that the world is there, and no numbers of it.
        status = None
    told = shapes.world_entry(entry)
    return Reply(
        shapes.WorldDetail(id=told.id, name=told.name, generation=told.generation, status=status)
    )


def _delete(asked: CallContext) -> Reply:
    receipt = asked.library.delete_world(asked.path["world"], erase=asked.query.erase)
    return Reply(receipt.to_json())


def _domains(asked: CallContext) -> Reply:
    return Reply(shapes.DomainList(domains=asked.library.domains()))


CALLS = (
    Call(
        "GET",
        "/v1/me",
        "me",
        "What this caller may do",
        _me,
        shapes.Permissions,
        description="Tells whose token came with the request, and which worlds, verbs and readers "
        "it allows. Without a token on loopback that is everything.",
    ),
    Call(
        "GET",
        "/v1/worlds",
        "listWorlds",
        "The worlds of the library",
        _list,
        shapes.WorldList,
        description="Gives the worlds that the caller may know of, by name.",
    ),
    Call(
        "POST",
        "/v1/worlds",
        "createWorld",
        "Make an empty world",
        _create,
        shapes.WorldEntry,
        takes=shapes.NewWorld,
        status=201,
        errors=(WorldExists, InvalidSettings, WorldNotFound),
        writes=True,
        example={"name": "mysteries"},
        description="Makes a world that holds nothing yet. Its name must not be taken. Whoever "
        "may not make worlds is told that there is none of that name.",
    ),
    Call(
        "GET",
        "/v1/worlds/{world}",
        "showWorld",
        "A world in numbers",
        _show,
        shapes.WorldDetail,
        errors=(WorldNotFound,),
        description="Gives a world, and in numbers what it holds. The numbers are null for a "
        "caller who follows a reader.",
    ),
    Call(
        "DELETE",
        "/v1/worlds/{world}",
        "deleteWorld",
        "Remove a world with all that is in it",
        _delete,
        shapes.DeletionReceipt,
        asks=shapes.EraseQuery,
        errors=(WorldNotFound, WorldBusy),
        writes=True,
        description="Removes a world with its documents, positions and vectors, and gives a "
        "receipt that says what went and whether anything of it can still be found in "
        "the library's files. With erase=false the files are not written anew.",
    ),
    Call(
        "GET",
        "/v1/domains",
        "listDomains",
        "Domains to ask",
        _domains,
        shapes.DomainList,
        description="Gives the domains of the worlds that the caller may know of, with the "
        "generation that each names.",
    ),
)
