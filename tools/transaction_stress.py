"""Many worlds on few connections, with transactions that end in every way there is.

`python -m tools.transaction_stress --transactions 100000` is what `make prove` runs.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import LiteralString, cast
from uuid import uuid4

import psycopg
from tests.support.postgres import Database, fresh_database

from truespan.errors import TruespanError
from truespan.extensions.cluster.postgres import Address, PostgresDatabase
from truespan.extensions.cluster.postgres_server import Connection

WAYS = ("commit", "abort", "error", "cancel", "time-out", "cut", "unset", "query")
_WEIGHTS = (40, 15, 10, 4, 2, 1, 8, 20)


@dataclass
class Weather:
    """What was seen: how many transactions ended how, and every row that was another's."""

    ended: Counter[str] = field(default_factory=Counter)
    foreign: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, way: str, seen: set[str], expected: set[str]) -> None:
        with self.lock:
            self.ended[way] += 1
            if not seen <= expected:
                self.foreign.append(way)


class _Given(Exception):
    """Somebody gave up."""


def plant(database: Database, worlds: int) -> list[str]:
    """Make worlds with a row each in some tables, past everybody."""
    ids = [str(uuid4()) for _ in range(worlds)]
    with database.admin() as admin:
        for number, world in enumerate(ids):
            admin.execute(
                "INSERT INTO truespan_shared.directory VALUES (%s, %s, 0, 'contract', NULL, '')",
                (world, f"w{number}"),
            )
            admin.execute("SELECT set_config('truespan.world', %s, false)", (world,))
            admin.execute("INSERT INTO truespan.worlds DEFAULT VALUES")
            admin.execute(
                "INSERT INTO truespan.query_cache (key, vector, created_at) VALUES (%s, '', 0)",
                (world,),
            )
    return ids


def storm(
    database: Database, worlds: list[str], transactions: int, *, seed: int, minutes: float = 60
) -> Weather:
    """Run transactions of random worlds from many threads over a small pool."""
    store = PostgresDatabase(Address(database.url, pool_size=6, timeout_seconds=30))
    weather = Weather()
    deadline = time.monotonic() + minutes * 60
    threads = 12

    def work(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        for _ in range(transactions // threads + 1):
            if time.monotonic() > deadline:
                return
            way = rng.choices(WAYS, _WEIGHTS)[0]
            _one(store, database, rng.choice(worlds), way, weather)

    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    finally:
        store.close()
    return weather


def _one(
    store: PostgresDatabase, database: Database, world: str, way: str, weather: Weather
) -> None:
    if way == "query":
        rows = store.at(world).all("SELECT CAST(world_id AS text) FROM query_cache")
        weather.note(way, {row[0] for row in rows}, {world})
        return
    if way == "unset":
        # A connection as it lies in the pool, after whoever had it last.
        with store._pool.connection() as session:
            rows = session.execute("SELECT world_id::text FROM truespan.query_cache").fetchall()
        weather.note(way, {row[0] for row in rows}, set())
        return
    seen: set[str] = set()
    try:
        with store.write(world, lock=False) as session:
            connection: Connection = session.connection
            _touch(connection, world, seen)
            _end(connection, database, way)
            _touch(connection, world, seen)
    except (TruespanError, _Given, psycopg.Error):
        pass
    weather.note(way, seen, {world})


def _touch(session: Connection, world: str, seen: set[str]) -> None:
    """Read and change everything in the world, which no other client uses."""
    for statement in (
        "SELECT world_id::text FROM query_cache",
        "UPDATE worlds SET changes = changes + 1 RETURNING world_id::text",
    ):
        seen.update(row[0] for row in session.execute(cast("LiteralString", statement)))
    if session.execute("UPDATE query_cache SET created_at = created_at + 1").rowcount != 1:
        seen.add(f"not one row in {world}")


def _end(session: Connection, database: Database, way: str) -> None:
    match way:
        case "abort":
            raise _Given
        case "error":
            session.execute("SELECT 1 / 0")
        case "time-out":
            session.execute("SET LOCAL statement_timeout = 1")
            session.execute("SELECT pg_sleep(1)")
        case "cancel":
            timer = threading.Timer(0.002, session.cancel_safe)
            timer.start()
            try:
                session.execute("SELECT pg_sleep(1)")
            finally:
                timer.join()
        case "cut":
            with database.admin() as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", (session.info.backend_pid,))
            session.execute("SELECT 1")
        case _:
            pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    database = fresh_database()
    began = time.monotonic()
    weather = storm(
        database,
        plant(database, given.worlds),
        given.transactions,
        seed=given.seed,
        minutes=given.minutes,
    )
    done = weather.ended.total()
    ways = ", ".join(f"{count} {way}" for way, count in sorted(weather.ended.items()))
    print(
        f"{done} transactions of {given.worlds} worlds in {time.monotonic() - began:.0f} s "
        f"({ways}): {len(weather.foreign)} saw rows of another world."
    )
    return 1 if weather.foreign or done < given.transactions else 0


if __name__ == "__main__":
    sys.exit(main())
