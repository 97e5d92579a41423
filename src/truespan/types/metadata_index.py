"""Index of metadata by key and value, so that a filter does not scan all documents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from truespan.types.metadata import Condition, Value, ValueKind, type_value, type_values


class MetadataIndex:
    """Metadata of all documents in one state of a world; each key is indexed on first use.

    A document in `damaged` meets no condition, not even that a key is absent: its metadata cannot
    be trusted.
    """

    def __init__(
        self, metadata: Iterable[tuple[int, Mapping[str, Any]]], damaged: Iterable[int] = ()
    ) -> None:
        self.damaged = frozenset(damaged)
        self._stored: dict[str, dict[int, Any]] = {}
        self._keys: dict[str, _KeyIndex] = {}
        numbers = []
        for number, members in metadata:
            numbers.append(number)
            for key, value in members.items():
                if value is not None:
                    self._stored.setdefault(key, {})[number] = value
        self._documents = frozenset(numbers)

    def __iter__(self) -> Iterator[str]:
        """Yield every key that a document has."""
        return iter(self._stored)

    def stored(self, key: str) -> Mapping[int, Any]:
        """Return the values under a key by document number."""
        return self._stored.get(key, {})

    def matching(self, conditions: Iterable[Condition]) -> frozenset[int]:
        """Return the documents that meet all conditions."""
        found = self._documents
        for condition in conditions:
            stored = self.stored(condition.key)
            if condition.compares:
                index = self._keys.get(condition.key)
                if index is None:
                    index = self._keys[condition.key] = _KeyIndex(stored)
                found &= index.matching(condition)
            else:
                found = found.intersection(stored) if condition.exists else found.difference(stored)
        return found


class _KeyIndex:
    """Sorted values of one key, each with its document."""

    def __init__(self, stored: Mapping[int, Any]) -> None:
        pairs: dict[ValueKind, list[tuple[Any, int]]] = {}
        known: dict[tuple[type, Any], tuple[Value, ...]] = {}
        for number, value in stored.items():
            # Many documents share a few values, and typing a value dominates the time.
            key = type(value), str(value) if isinstance(value, list | dict) else value
            values = known.get(key)
            if values is None:
                values = known[key] = type_values(value)
            for typed in values:
                pairs.setdefault(typed.kind, []).append((typed.key, number))
        self._values: dict[ValueKind, tuple[list[Any], list[int]]] = {}
        for kind, found in pairs.items():
            found.sort()
            self._values[kind] = [pair[0] for pair in found], [pair[1] for pair in found]

    def matching(self, condition: Condition) -> frozenset[int]:
        """Return the documents that have a value accepted by the condition."""
        bounds = {
            name: bound
            for name in ("gt", "gte", "lt", "lte")
            if (bound := type_value(getattr(condition, name))) is not None
        }
        wanted = [value for part in condition.any_of or () if (value := type_value(part))]
        kinds = {value.kind for value in (*bounds.values(), *wanted)}
        found: set[int] = set()
        for kind in kinds & self._values.keys():
            if any(bound.kind is not kind for bound in bounds.values()):
                continue
            keys, numbers = self._values[kind]
            start, end = _within(keys, bounds)
            same = [value for value in wanted if value.kind is kind]
            parts = [_equal(keys, value) for value in same]
            for first, last in parts if condition.any_of is not None else [(start, end)]:
                found.update(numbers[max(first, start) : min(last, end)])
        return frozenset(found)


def _within(keys: list[Any], bounds: Mapping[str, Value]) -> tuple[int, int]:
    """Return the range of sorted keys within bounds; a date as a bound covers the whole day."""
    start, end = 0, len(keys)
    for name, bound in bounds.items():
        first: Any = bound.key
        past = bisect_left(keys, first + bound.length) if bound.length else None
        match name:
            case "gte":
                start = max(start, bisect_left(keys, first))
            case "gt":
                start = max(start, bisect_right(keys, first) if past is None else past)
            case "lt":
                end = min(end, bisect_left(keys, first))
            case _:
                end = min(end, bisect_right(keys, first) if past is None else past)
    return start, end


def _equal(keys: list[Any], wanted: Value) -> tuple[int, int]:
    """Return the range of sorted keys that equal a value, or lie within a date."""
    first: Any = wanted.key
    if wanted.length:
        return bisect_left(keys, first), bisect_left(keys, first + wanted.length)
    return bisect_left(keys, first), bisect_right(keys, first)
