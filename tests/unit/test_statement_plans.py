"""The cost of ingestion and requests does not grow with the number of chunks in a world."""

import re
from pathlib import Path
from typing import LiteralString

import apsw
import pytest

from tests.support.worlds import make_library
from truespan.store.engines import sqlite

WHOLE_WORLD = "states_by_text (world_id=?)"
"""In a plan: the states of all chunks of a world are read to find a few."""


def test_no_statement_reads_the_states_of_a_whole_world(plans: dict[str, list[str]]) -> None:
    # A lost index concerns them all.
    of_states = {s: plan for s, plan in plans.items() if "states" in s and "index_lost" not in s}
    assert len(of_states) > 10
    reading_all = [s for s, plan in of_states.items() if any(WHOLE_WORLD in line for line in plan)]
    assert reading_all == [], "\n\n".join(reading_all)


def test_owners_of_a_few_paths_are_found_by_path(plans: dict[str, list[str]]) -> None:
    (plan,) = [plan for statement, plan in plans.items() if "r.shown_path IN" in statement]
    assert any("revisions_by_shown_path (shown_path=?)" in line for line in plan), plan


def test_counted_words_are_looked_up_for_single_documents(plans: dict[str, list[str]]):
    found = {sql: plan for sql, plan in plans.items() if "r.language, w.recipe" in sql}
    # The other one looks at all: after a document was replaced that shared rows with others.
    assert len(found) == 2
    (plan,) = [plan for sql, plan in found.items() if "d.doc_id IN" in sql]
    documents = [line for line in plan if re.match(r"(SCAN|SEARCH) d\b", line)]
    assert len(documents) == 1, plan
    assert "(world_id=? AND doc_id=?)" in documents[0], plan


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The plans of all statements that a small library uses."""
    statements: set[str] = set()
    translate = sqlite._translate

    def collect(sql: LiteralString, *, single: bool = False) -> str:
        statements.add(translated := translate(sql, single=single))
        return translated

    monkeypatch.setattr(sqlite, "_translate", collect)
    lib = make_library(tmp_path)
    world = lib.world()
    pages = [lib.write(f"{name}.md", f"# {name}\n\nThe lamp burned.") for name in "abc"]
    world.ingest(pages)
    world.ingest([lib.write("a.md", "# a\n\nThe lamp went out.")])
    world.search("lamp", chapter="a")
    world.search("lamp", mode="hybrid")
    world.documents.delete("b.md")
    monkeypatch.undo()

    # The connection of this thread has the functions that statements call.
    connection = lib.store._db.connection  # type: ignore[attr-defined]
    return {sql: _plan_of(connection, sql) for sql in statements if _is_query(sql)}


def _is_query(sql: str) -> bool:
    return sql.lstrip().startswith(("SELECT", "WITH", "UPDATE", "DELETE", "INSERT"))


def _plan_of(connection: apsw.Connection, sql: str) -> list[str]:
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
