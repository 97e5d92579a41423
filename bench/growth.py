"""How cost grows with the number of chunks: from 10,000 to 100,000, or with `--full` to a million.

All of them in one world, and spread over 1,000 worlds, on a store in a file and on PostgreSQL
(there 1,000 worlds to 100,000 chunks only), and with the index on the Qdrant server that QDRANT_URL
names. In the largest library with one world and an embedded index, approximate search is measured
too (`bench.approximate`). Documents of about ten chunks are made up by seed, and so are the
vectors, by an embedder that asks no model (`bench.synthetic`); all else is the library's own way in
and out. A library grows from each size to the next and is measured at each, in a process of its
own. What is printed
is written to `bench/results/growth.json`, `.md` and `.svg` as well, beside what is there of
libraries that were not measured this time.

    python -m bench.growth                            a few minutes
    python -m bench.growth --full                     all of it
    python -m bench.growth --full sqlite-one          of that, one library: STORE-SHAPE
    python -m bench.growth --draw                     table and plot again
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import Any

from bench.growth_plot import plotted
from bench.measure import apart
from bench.report import RESULTS, Figure, Options, at_least, at_most, run, say, write

Row = dict[str, Any]

SIZES = {"sqlite-one": (10_000, 100_000), "sqlite-many": (10_000,), "postgres-one": (10_000,)}
FULL_SIZES = {
    "sqlite-one": (10_000, 100_000, 1_000_000),
    "sqlite-many": (10_000, 100_000, 1_000_000),
    "postgres-one": (10_000, 100_000, 1_000_000),
    "postgres-many": (10_000, 100_000),
}
if os.environ.get("QDRANT_URL"):
    SIZES["qdrant-one"] = (10_000,)
    FULL_SIZES["qdrant-one"] = (10_000, 100_000, 1_000_000)
SHAPES = {"one": "1 world", "many": "1,000 worlds"}
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "qdrant": "SQLite, Qdrant server"}
ORDER = ("sqlite-one", "sqlite-many", "postgres-one", "postgres-many", "qdrant-one")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table: its head, and how a row says it."""

    head: str
    digits: int
    names: tuple[str, ...]

    def cell(self, row: Row) -> str:
        """Return what a row has here."""
        return " / ".join(f"{_value(row, name):,.{self.digits}f}" for name in self.names)


def _times(way: str) -> Iterator[str]:
    return (f"{way}.{name}" for name in ("p50", "p95", "cpu"))


CHUNKS = Column("chunks", 0, ("chunks",))
TIMES = (
    CHUNKS,
    Column("ingest a chunk, CPU / clock, us", 0, ("ingest_cpu", "ingest_wall")),
    Column("one more document, CPU / clock, ms", 0, ("alone_cpu", "alone_wall")),
    Column("first answer, s", 1, ("opened",)),
    Column("retrieval p50 / p95, ms", 1, ("retrieval.p50", "retrieval.p95")),
    Column("engine alone p50 / p95, ms", 1, ("raw.p50", "raw.p95")),
    Column("reader p50 / p95, ms", 1, ("reading.p50", "reading.p95")),
    Column("20 chunks verified p50 / p95, ms", 2, ("verified.p50", "verified.p95")),
    Column("load", 1, ("load",)),
)
SPACES = (
    CHUNKS,
    Column("store, bytes a chunk", 0, ("store_bytes",)),
    Column("index, bytes a chunk", 0, ("index_bytes",)),
    Column("its log, bytes a chunk", 0, ("log_bytes",)),
    Column("memory of a reading process, MB", 0, ("memory",)),
    Column("of the index process, MB", 0, ("index_memory",)),
    Column("of the database, MB", 0, ("store_memory",)),
)
APPROXIMATE = (
    CHUNKS,
    Column("exact search of the index, p50 / p95 / CPU, ms", 1, tuple(_times("exact"))),
    Column("approximate search, p50 / p95 / CPU, ms", 1, tuple(_times("approximate"))),
    Column("approximate retrieval, p50 / p95, ms", 1, ("retrieval.p50", "retrieval.p95")),
    Column("recall@20, mean / least", 4, ("recall", "least_recall")),
    Column("index, bytes a chunk", 0, ("index_bytes",)),
    Column("memory of the index process, MB", 0, ("index_memory",)),
    Column("conversion, s", 0, ("converted_seconds",)),
    Column("load", 1, ("load",)),
)
MILLION, FAST, FOUND = 1_000_000, 40, 0.995
"""Targets of approximate retrieval: chunks of the world, time and recall."""


def _value(row: Row, name: str) -> float:
    outer, _, inner = name.partition(".")
    return row[outer][inner] if inner else row[outer]


def measure(options: Options, kinds: Sequence[str] = ()) -> list[Figure]:
    """Grow libraries, write table and plot after each, and return what the large ones cost."""
    sizes = FULL_SIZES if options.full else SIZES
    rows: list[Row] = []
    for kind in kinds or sizes:
        rows += grown(kind, FULL_SIZES[kind] if options.full else SIZES[kind])
        keep(rows)
    return figures(rows)


def grown(kind: str, sizes: Sequence[int]) -> list[Row]:
    """Grow one library in a separate process, and return a row for each size."""
    rows: list[Row] = []
    store, _, shape = kind.partition("-")
    began, date = time.monotonic(), f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    with TemporaryDirectory(prefix="truespan-bench-") as folder:
        command = [sys.executable, "-m", "bench.grown", shape, store, folder, *map(str, sizes)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            for line in process.stdout:
                row = {**json.loads(line), "began": date}
                say(f"{STORES[store]}, {SHAPES[shape]}: {', '.join(cells(row))}")
                rows.append(row)
        if process.returncode:
            raise SystemExit(f"bench.grown {shape} {store} failed")
        if kind == "sqlite-one":
            rows[-1]["approximate"] = apart("bench.approximate", folder)
    say(f"{STORES[store]}, {SHAPES[shape]}: {time.monotonic() - began:.0f} s in all")
    return rows


def cells(row: Row, columns: Sequence[Column] = (*TIMES, *SPACES[1:])) -> list[str]:
    """Return what a table says of a row."""
    return [column.cell(row) for column in columns]


def keep(rows: Sequence[Row]) -> list[Row]:
    """Write all that is known, the table and the plot; return the rows, earlier ones included."""
    path = RESULTS / "growth.json"
    earlier = json.loads(path.read_text())["rows"] if path.exists() else []
    now = {_kind(row) for row in rows}
    known = [*rows, *(row for row in earlier if _kind(row) not in now)]
    known.sort(key=lambda row: (ORDER.index(_kind(row)), row["chunks"]))
    write(path, {"rows": known})
    write(RESULTS / "growth.md", markdown(known))
    write(RESULTS / "growth.svg", plotted(known))
    return known


def _kind(row: Row) -> str:
    return f"{row['store']}-{row['shape']}"


def markdown(rows: Sequence[Row]) -> str:
    """Return the tables for pages of the documentation: what it takes in time, in space, and what
    approximate search does."""
    searched = [row | row["approximate"] for row in rows if "approximate" in row]
    tables = (rows, TIMES), (rows, SPACES), (searched, APPROXIMATE)
    return "\n\n".join(_table(*table) for table in tables)


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    head = ("store", "worlds", *(column.head for column in columns))
    lines = [head, ("---",) * len(head)]
    lines += [(STORES[row["store"]], SHAPES[row["shape"]], *cells(row, columns)) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figures(rows: Sequence[Row]) -> list[Figure]:
    """Return how the largest library of each kind compares with its smallest."""
    found: list[Figure] = []
    for kind in dict.fromkeys(map(_kind, rows)):
        of_kind = [row for row in rows if _kind(row) == kind]
        small, large = of_kind[0], of_kind[-1]
        name = f"{STORES[large['store']]}, {SHAPES[large['shape']]}, {large['chunks']:,} chunks"
        if small is not large:
            found += [
                grew(f"growth, {name}: {what}", small, large, cost, unit)
                for what, cost, unit in (
                    ("ingest, CPU a chunk", "ingest_cpu", "us"),
                    ("one more document, CPU", "alone_cpu", "ms"),
                    ("retrieval, p50", "retrieval.p50", "ms"),
                )
            ]
        if approximate := large.get("approximate"):
            counts = large["chunks"] >= MILLION
            found += [
                Figure(
                    f"growth, {name}: approximate retrieval, p50",
                    approximate["retrieval"]["p50"],
                    "ms",
                    "exact",
                    large["retrieval"]["p50"],
                    target=at_most(FAST) if counts else None,
                ),
                Figure(
                    f"growth, {name}: recall@20",
                    approximate["recall"],
                    "",
                    target=at_least(FOUND) if counts else None,
                ),
            ]
    return found


def grew(what: str, small: Row, large: Row, name: str, unit: str) -> Figure:
    """Return one cost beside the same in the smallest library."""
    before, now = _value(small, name), _value(large, name)
    return Figure(what, now, unit, f"{small['chunks']:,} chunks", before, now / before)


def main() -> None:
    """Measure, or draw what was measured before."""
    kinds = [word for word in sys.argv[1:] if word in FULL_SIZES]
    if "--draw" in sys.argv:
        print(markdown(keep(())))
        return
    sys.argv = [word for word in sys.argv if word not in FULL_SIZES]
    run("bench.growth", __doc__, lambda options: measure(options, kinds))


if __name__ == "__main__":
    main()
