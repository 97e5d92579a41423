"""Moving everything that one store holds into another, and proving that it arrived.

Each table of each world is one commit, so a run that was stopped goes on after the last of them.
The source is only read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from truespan.errors import MigrationRefused
from truespan.protocols import MovableRows, MovedTable, NeutralRow

_MODULUS = 1 << 256


@dataclass(slots=True)
class TransferTotals:
    """How many rows there were, and a digest of them that does not depend on their order."""

    rows: int = 0
    total: int = field(default=0, repr=False)

    def add(self, row: NeutralRow) -> None:
        """Count one row in."""
        # The form in which Python writes a cell tells numbers, texts and bytes apart.
        digest = sha256(repr(row).encode("utf-8", "surrogatepass")).digest()
        self.total = (self.total + int.from_bytes(digest, "big")) % _MODULUS
        self.rows += 1

    @property
    def digest(self) -> str:
        """Return the digest, in hexadecimal."""
        return f"{self.total:064x}"


OnMoved = Callable[[str, int], None]
"""Told of each table that has arrived, with the number of its rows."""


@dataclass(frozen=True, slots=True)
class MovedRows:
    """What was moved, table by table over all worlds."""

    worlds: int
    tables: dict[str, TransferTotals]

    @property
    def rows(self) -> int:
        """Return how many rows there are in all."""
        return sum(tally.rows for tally in self.tables.values())


def move(
    source: MovableRows,
    target: MovableRows,
    on_moved: OnMoved | None = None,
    *,
    leave: Collection[str] = (),
) -> MovedRows:
    """Copy every row that is not in the target yet; then read all of it back and compare.

    Tables that are named in `leave` are neither read nor written.

    Raises:
        MigrationRefused: the target holds something else, or what arrived is not what was sent.
    """
    with source.still():
        worlds = source.world_ids()
        _require_own(worlds, target)
        sent = {
            (table.name, world): _carried(source, target, table, world, on_moved)
            for table, world in _units(source, worlds)
            if table.name not in leave
        }
    _compare(target, worlds, sent)
    tables: dict[str, TransferTotals] = {}
    for (name, _), tally in sent.items():
        whole = tables.setdefault(name, TransferTotals())
        whole.rows += tally.rows
        whole.total = (whole.total + tally.total) % _MODULUS
    return MovedRows(len(worlds), tables)


def _units(rows: MovableRows, worlds: list[str]) -> Iterator[tuple[MovedTable, str | None]]:
    for world in worlds:
        yield from ((table, world) for table in rows.tables if table.of_world)
    yield from ((table, None) for table in rows.tables if not table.of_world)


def _require_own(worlds: list[str], target: MovableRows) -> None:
    with target.still():
        strangers = set(target.world_ids()) - set(worlds)
    if strangers:
        raise MigrationRefused(
            "The target holds worlds that this library does not have.",
            advice="Give an empty one, or the one that an earlier run began to fill.",
        )


def _carried(
    source: MovableRows,
    target: MovableRows,
    table: MovedTable,
    world: str | None,
    on_moved: OnMoved | None,
) -> TransferTotals:
    """Copy one table of one world, or see that it is there already."""
    there = tally_of(target, table, world)
    sent = TransferTotals()
    rows = _counted(source, table, world, sent)
    if there.rows:
        for _ in rows:
            pass
        if there.digest != sent.digest:
            raise _differs(table)
        return sent
    try:
        target.write(table, world, rows)
    finally:
        # Whatever became of it, nothing reads on in a transaction that is over.
        rows.close()
    if on_moved is not None and sent.rows:
        on_moved(table.name, sent.rows)
    return sent


def _counted(
    source: MovableRows, table: MovedTable, world: str | None, tally: TransferTotals
) -> Generator[NeutralRow, None, None]:
    for row in source.rows(table, world):
        tally.add(_held(table, row))
        yield row


def tally_of(rows: MovableRows, table: MovedTable, world: str | None) -> TransferTotals:
    """Return how many rows a table has, and their digest."""
    tally = TransferTotals()
    for row in rows.rows(table, world):
        tally.add(_held(table, row))
    return tally


def _held(table: MovedTable, row: NeutralRow) -> NeutralRow:
    """Return what has to stay the same of a row."""
    if not table.unheld:
        return row
    names = (*("" for _ in range(len(row) - len(table.columns))), *table.columns)
    return tuple(cell for name, cell in zip(names, row, strict=True) if name not in table.unheld)


def _compare(
    target: MovableRows, worlds: list[str], sent: dict[tuple[str, str | None], TransferTotals]
) -> None:
    with target.still():
        for table, world in _units(target, worlds):
            expected = sent.get((table.name, world))
            if expected is not None and tally_of(target, table, world) != expected:
                raise _differs(table)


def _differs(table: MovedTable) -> MigrationRefused:
    return MigrationRefused(
        f"The table {table.name} of the target is not as it is in this library.",
        advice="Something was changed in one of them meanwhile. Begin again with an empty target, "
        "while nothing writes to this library.",
    )
