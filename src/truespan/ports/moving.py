"""Stores as rows, so that everything in one can be moved into another kind of store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Cell: TypeAlias = int | float | str | bytes | None
NeutralRow: TypeAlias = tuple[Cell, ...]
"""One row in words that every store has: no key of one store's own, texts as their bytes."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column that holds another row's key in a store, and its names when it is moved."""

    column: str
    to: str


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table as it is moved: names of rows it refers to first, then columns as they are."""

    name: str
    columns: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    of_world: bool = True
    ordered_by: str = ""
    """A key that the store gives; rows are moved in its order, and get new ones."""
    texts: frozenset[str] = frozenset()
    """Columns of text of documents, which move as bytes so that damage moves along unchanged."""
    flags: frozenset[str] = frozenset()
    restated: tuple[tuple[str, str], ...] = ()
    """Columns that another library must not take over as they are, and what it gets instead."""
    unheld: frozenset[str] = frozenset()
    """Columns that are moved but need not stay the same."""


class MovableRows(Protocol):
    """A store that gives all it has as rows, and takes such rows."""

    @property
    def tables(self) -> Sequence[MovedTable]:
        """Return every table, those first that others refer to."""
        ...

    def identity(self) -> str:
        """Return what tells this store from every other one, however it is reached."""
        ...

    def still(self) -> AbstractContextManager[None]:
        """Hold one state of everything still, for whoever reads inside."""
        ...

    def world_ids(self) -> list[str]:
        """Return the ids of all worlds, in the order in which they were made."""
        ...

    def rows(self, table: MovedTable, world: str | None) -> Iterator[NeutralRow]:
        """Give the rows of a table, those of one world if it is a table of worlds."""
        ...

    def write(self, table: MovedTable, world: str | None, rows: Iterable[NeutralRow]) -> None:
        """Write all the rows or, if anything fails, none."""
        ...
