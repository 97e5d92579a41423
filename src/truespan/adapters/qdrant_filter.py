"""Filters for Qdrant, embedded or served, built from typed values only and nowhere else.

A condition is a small value that can be compared, sent and shown in a test. `build` turns
conditions into the classes of one Qdrant module; the embedded engine and the client library of the
server have classes of equal names that are not the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from truespan.model.scope import Scope

_EXACT = 2**53
"""Ranges are compared as float64, which has gaps beyond this."""


class Field(StrEnum):
    """The payload fields of a point. There is no field for text."""

    TENANT = "tenant"
    DOCUMENT = "document"
    TEXT_HASH = "text_hash"
    POS_START = "pos_start"
    POS_END = "pos_end"
    POS_REACH = "pos_reach"
    CHAPTER = "chapter"
    SECTION = "section"
    KIND = "kind"


class Equals(Struct, frozen=True, tag="equals", array_like=True):
    """The field has exactly this value."""

    field: Field
    value: str | int

    def __post_init__(self) -> None:
        _check_values([self.value])


class AnyOf(Struct, frozen=True, tag="any_of", array_like=True):
    """The field has one of these values; none to choose from is refused, not taken for all."""

    field: Field
    values: tuple[str | int, ...]

    def __post_init__(self) -> None:
        _check_values(self.values)


class AtMost(Struct, frozen=True, tag="at_most", array_like=True):
    """The field is a number not above this value."""

    field: Field
    value: int

    def __post_init__(self) -> None:
        if type(self.value) is not int or abs(self.value) > _EXACT:
            raise TypeError("A bound must be a whole number that float64 can hold.")


class HasId(Struct, frozen=True, tag="has_id", array_like=True):
    """The point is one of these."""

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_values(self.ids)
        if type(self.ids[0]) is not str:
            raise TypeError("A point id must be a string.")


Condition: TypeAlias = Equals | AnyOf | AtMost | HasId


def tenant(scope: Scope) -> Equals:
    """Return the condition that no request to the index may lack: its world and generation."""
    return Equals(Field.TENANT, scope.tenant)


def conditions(scope: Scope) -> tuple[Condition, ...]:
    """Return all that a scope demands of a point, world and generation first.

    A scope without any document has no conditions that express it; callers must not ask for it.
    """
    # Imported here because the index process builds filters and never sees a scope.
    from truespan.model.scope import UNLIMITED

    demanded: list[Condition] = [tenant(scope)]
    if scope.documents is not UNLIMITED:
        demanded.append(AnyOf(Field.DOCUMENT, tuple(sorted(scope.documents))))
    if scope.chapter is not None:
        demanded.append(Equals(Field.CHAPTER, scope.chapter))
    if scope.section is not None:
        demanded.append(Equals(Field.SECTION, scope.section))
    if scope.position is not None:
        # The first is what the reader has begun; the second, stricter, what nothing unread decided.
        demanded.append(AtMost(Field.POS_START, scope.position))
        demanded.append(AtMost(Field.POS_REACH, scope.position))
    return tuple(demanded)


def names_tenant(where: Iterable[Condition]) -> bool:
    """Say whether conditions are bound to one world and generation."""
    return any(
        isinstance(condition, Equals)
        and condition.field is Field.TENANT
        and isinstance(condition.value, str)
        and condition.value != ""
        for condition in where
    )


def build(where: Sequence[Condition], models: ModuleType | Any) -> Any:
    """Return the filter, in the classes of `models`, that demands every condition.

    Raises:
        ValueError: the conditions are not bound to one world and generation.
    """
    if not names_tenant(where):
        raise ValueError("A filter without world and generation would reach every world.")
    return models.Filter(must=[_translate(condition, models) for condition in where])


def _translate(condition: Condition, models: Any) -> Any:
    match condition:
        case Equals(field, value):
            return models.FieldCondition(key=field.value, match=models.MatchValue(value=value))
        case AnyOf(field, values):
            return models.FieldCondition(key=field.value, match=models.MatchAny(any=list(values)))
        case AtMost(field, value):
            return models.FieldCondition(key=field.value, range=_upper_bound(value, models))
        case HasId(ids):
            return _one_of(ids, models)


def _upper_bound(value: int, models: Any) -> Any:
    return models.RangeFloat(lte=value) if _embedded(models) else models.Range(lte=value)


def _one_of(ids: tuple[str, ...], models: Any) -> Any:
    if _embedded(models):
        return models.HasIdCondition(set(ids))
    return models.HasIdCondition(has_id=list(ids))


def _embedded(models: Any) -> bool:
    return hasattr(models, "EdgeShard")


def _check_values(values: Sequence[str | int]) -> None:
    # A bool is an int to Python and another value to Qdrant; a mixed list matches only a part.
    kinds = {type(value) for value in values}
    if kinds != {str} and kinds != {int}:
        raise TypeError("A filter compares with strings or with whole numbers, at least one.")
