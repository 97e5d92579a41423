"""What an ingestion and a request cost does not grow with the number of chunks in a world."""

from __future__ import annotations

import re
from pathlib import Path
from typing import LiteralString

import apsw
import pytest

from tests.support.worlds import place
from truespan.store import sqlite

WHOLE_WORLD = "states_by_text (world_id=?)"
"""In a plan: the states of all chunks of a world are read to find a few."""


def test_no_statement_reads_the_states_of_a_whole_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: set[str] = set()
    translate = sqlite._translate

    def collect(sql: LiteralString, *, single: bool = False) -> str:
        statements.add(translated := translate(sql, single=single))
        return translated

    monkeypatch.setattr(sqlite, "_translate", collect)
    here = place(tmp_path)
    world = here.world()
    pages = [here.write(f"{name}.md", f"# {name}\n\nThe lamp burned.") for name in "abc"]
    world.ingest(pages)
    world.ingest([here.write("a.md", "# a\n\nThe lamp went out.")])
    world.search("lamp", chapter_filter="a")
    world.search("lamp", mode="auto")
    world.documents.delete("b.md")
    monkeypatch.undo()

    connection = apsw.Connection(str(here.store._db.path))  # type: ignore[attr-defined]
    plans = {
        sql: [
            row[3]
            for row in connection.execute(
                f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(re.findall(r":(\w+)", sql))
            )
        ]
        for sql in statements
        # A lost index concerns them all.
        if "states" in sql and "index_lost" not in sql
    }
    connection.close()
    assert len(plans) > 10
    reading_all = [sql for sql, plan in plans.items() if any(WHOLE_WORLD in line for line in plan)]
    assert reading_all == [], "\n\n".join(reading_all)
