"""Generations: built beside each other, put into use, taken back, removed."""

from __future__ import annotations

import msgspec

from truespan.errors import (
    DomainNotFound,
    GenerationIncomplete,
    GenerationInUse,
    GenerationNotFound,
    InvalidSettings,
    NotAllowed,
    ProfileMismatch,
    PromotionRefused,
    WorldNotFound,
)
from truespan.generations import Promotion
from truespan.http import schemas as shapes
from truespan.http.call import Call, CallContext, Reply
from truespan.http.routes.jobs import accepted

_ERRORS = (WorldNotFound, NotAllowed, InvalidSettings)
_MOVING = (
    *_ERRORS,
    GenerationNotFound,
    GenerationIncomplete,
    PromotionRefused,
    DomainNotFound,
    ProfileMismatch,
)


def _list(asked: CallContext) -> Reply:
    return Reply(shapes.GenerationList(generations=asked.world().generations.list()))


def _reindex(asked: CallContext) -> Reply:
    world = asked.world()
    wanted = msgspec.structs.asdict(asked.body)
    return accepted(world, world.generations.submit_reindex(**wanted))


def _promote(asked: CallContext) -> Reply:
    number = _number(asked.path["generation"])
    return Reply(asked.world().generations.promote(number, domain=asked.body.domain))


def _rollback(asked: CallContext) -> Reply:
    return Reply(asked.world().generations.rollback(domain=asked.body.domain))


def _remove(asked: CallContext) -> Reply:
    number = _number(asked.path["generation"])
    asked.world().generations.remove(number)
    return Reply(shapes.Removed(removed=number))


def _number(spelled: str) -> int:
    if not (spelled.isascii() and spelled.isdecimal() and len(spelled) < 10):
        raise InvalidSettings("A generation is named by its number.")
    return int(spelled)


_GENERATIONS = "/v1/worlds/{world}/generations"

CALLS = (
    Call(
        "GET",
        _GENERATIONS,
        "listGenerations",
        "The generations of a world",
        _list,
        shapes.GenerationList,
        errors=_ERRORS,
        description="Gives the generations of a world, how complete each is, and which names lead "
        "to it.",
    ),
    Call(
        "POST",
        _GENERATIONS,
        "reindex",
        "Build a generation beside the others; a job does",
        _reindex,
        shapes.OneJob,
        takes=shapes.NewGeneration,
        status=202,
        errors=_ERRORS,
        writes=True,
        example={},
        description="Starts a job that builds a generation of all documents, with another model "
        "or chunking if one is named. Nobody is sent to it before it is promoted.",
    ),
    Call(
        "POST",
        _GENERATIONS + "/rollback",
        "rollback",
        "Go back to the generation before",
        _rollback,
        Promotion,
        takes=shapes.AliasMove,
        errors=_MOVING,
        writes=True,
        example={},
        description="Moves the world's alias, or that of a domain, to the generation it named "
        "before.",
    ),
    Call(
        "POST",
        _GENERATIONS + "/{generation}/promote",
        "promote",
        "Put a generation into use",
        _promote,
        Promotion,
        takes=shapes.AliasMove,
        errors=_MOVING,
        writes=True,
        example={},
        description="Moves the world's alias, or that of a domain, to a generation, if that is "
        "complete and verified.",
    ),
    Call(
        "DELETE",
        _GENERATIONS + "/{generation}",
        "removeGeneration",
        "Remove a generation that nothing names",
        _remove,
        shapes.Removed,
        errors=(*_ERRORS, GenerationNotFound, GenerationInUse),
        writes=True,
        description="Removes a generation with its vectors. One that an alias names stays.",
    ),
)
