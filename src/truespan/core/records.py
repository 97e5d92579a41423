"""Records made from other records: members of the same name are carried over."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def copy_fields(kind: type[T], /, *records: Struct | tuple[Any, ...], **own: Any) -> T:
    """Return a record of a kind: its `own` members, and those of the first record that has them."""
    for name, place in _places_of(kind, tuple(map(type, records)), frozenset(own)):
        own[name] = getattr(records[place], name)
    return kind(**own)


# Shared by threads: an `lru_cache` of tuples, which locks.
@lru_cache(maxsize=256)
def _places_of(
    kind: type[Struct], records: tuple[type[Any], ...], own: frozenset[str]
) -> tuple[tuple[str, int], ...]:
    """Return the members to carry over, each with the number of the record that has it."""
    found: list[tuple[str, int]] = []
    for name in kind.__struct_fields__:
        holders = [place for place, each in enumerate(records) if name in _names_of(each)]
        if name not in own and holders:
            found.append((name, holders[0]))
    return tuple(found)


def _names_of(kind: type[Any]) -> tuple[str, ...]:
    return kind.__struct_fields__ if issubclass(kind, Struct) else kind._fields
