"""The documents of a world as filters see them: many, with few different labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from truespan.model.document import ShelfEntry
from truespan.model.scope import Unlimited

Documents = frozenset[int] | Unlimited


@dataclass(frozen=True, slots=True)
class Alike:
    """Documents with the same labels; one of them stands for all."""

    one: ShelfEntry
    numbers: frozenset[int]


class Shelf:
    """Every document in force, by number.

    It is kept for as long as the world does not change, and a request asks it several times. So
    that a request costs the same in a world of a thousand documents and of a million, what can be
    counted once is.
    """

    def __init__(self, entries: Iterable[ShelfEntry]) -> None:
        self._entries = {entry.number: entry for entry in entries}

    def __iter__(self) -> Iterator[ShelfEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def embedded(self, among: Documents) -> int:
        """Return how many chunks of these documents are embedded."""
        if isinstance(among, Unlimited):
            return self._totals[0]
        return sum(entry.embedded for entry in self._of(among))

    def pending(self, among: Documents) -> int:
        """Return how many chunks of these documents wait to be embedded."""
        if isinstance(among, Unlimited):
            return self._totals[1]
        return sum(entry.pending for entry in self._of(among))

    def labelled(self, suits: Callable[[ShelfEntry], bool]) -> frozenset[int] | None:
        """Return the numbers of documents whose labels suit; None when those of all do.

        Only language, version and tags may be looked at: one document is asked for all that have
        the same.
        """
        suitable = [group.numbers for group in self._groups if suits(group.one)]
        return None if len(suitable) == len(self._groups) else frozenset().union(*suitable)

    def named(self, names: Iterable[str]) -> frozenset[int]:
        """Return the numbers of documents that have one of these names, ids or numbers."""
        return frozenset().union(*(self._names.get(name, ()) for name in names))

    def _of(self, numbers: frozenset[int]) -> Iterator[ShelfEntry]:
        return (self._entries[number] for number in numbers if number in self._entries)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        return sum(entry.embedded for entry in self), sum(entry.pending for entry in self)

    @cached_property
    def _groups(self) -> list[Alike]:
        found: dict[tuple[object, ...], list[ShelfEntry]] = {}
        for entry in self:
            found.setdefault((entry.language, entry.version, entry.tags), []).append(entry)
        return [Alike(one[0], frozenset(entry.number for entry in one)) for one in found.values()]

    @cached_property
    def _names(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for entry in self:
            for name in (str(entry.number), entry.doc_id, entry.name):
                found.setdefault(name, set()).add(entry.number)
        return found
