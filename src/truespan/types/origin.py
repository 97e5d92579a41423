"""The origin of a result: claims of a signed receipt besides the result itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from truespan.types.scope import Scope, World
    from truespan.types.trust import Visible


class Operation(StrEnum):
    """Operation whose result a receipt is about."""

    SEARCH = "search"
    RETRIEVE = "retrieve"
    ANSWER = "answer"


class Asked(Struct, frozen=True):
    """A request: its operation, its question, and the other arguments as they were given."""

    operation: Operation
    question: str | None
    arguments: Mapping[str, Any]


class Origin(Struct):
    """The state of the world that a result comes from, its scope, and the request."""

    world: World
    scope: Scope | None
    sources: Sequence[Visible] = ()
    """The passages that an answer was made from."""
    asked: Asked | None = None


class Result(Struct, frozen=True, dict=True):
    """A result that can be signed. A changed copy has no origin, so it cannot be signed."""

    @property
    def origin(self) -> Origin | None:
        """The origin, which is no member of the result in JSON."""
        return vars(self).get("_origin")


ResultT = TypeVar("ResultT", bound=Result)


def set_origin(
    result: ResultT, world: World, scope: Scope | None, sources: Sequence[Visible] = ()
) -> ResultT:
    """Record the state of the world and the scope that a result comes from."""
    vars(result)["_origin"] = Origin(world, scope, sources)
    return result


def set_request(
    result: ResultT, operation: Operation, question: str | None, arguments: Mapping[str, Any]
) -> ResultT:
    """Record the request that a result answers."""
    if result.origin is not None:
        result.origin.asked = Asked(operation, question, arguments)
    return result


def copy_origin(result: Result, changed: ResultT) -> ResultT:
    """Give a result that was completed the origin of the result before."""
    vars(changed)["_origin"] = result.origin
    return changed
