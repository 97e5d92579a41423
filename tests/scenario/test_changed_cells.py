"""Every cell of every table is changed, one at a time, and every row deleted or doubled.

The tables and columns are read from the schema, so that a new one is covered from its first day.
Replies must stay the same, or omit and name the changed data. The doctor must find the change,
unless the column is listed here with a reason.
"""

import copy
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from msgspec import to_builtins

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.answer_worlds import Scripted, Study, study
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.postgres import database_of
from tests.support.state_embedder import StateEmbedder
from truespan.errors import TruespanError
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
from truespan.extensions.cluster import postgres
from truespan.ingest.draft import Preparation
from truespan.retrieval.passages import DAMAGED
from truespan.types.bundle import Notice
from truespan.types.chunk import FigureFlags
from truespan.types.conversation import ConversationInfo
from truespan.types.document import Document
from truespan.types.scope import Scope

QUERY = "Who lit the lamp in the harbour hut?"
CHAPTERS = {
    "One": "The lamp stood in the harbour hut. Nobody knew who lit it. Ask ann@example.com.",
    "Two": "A keeper lit the lamp at night. The harbour was dark. The hut was cold.",
    "Three": "The smuggler was the keeper. He lit the lamp for the boats in the harbour.",
}
FREE = {
    "jobs": "the log of what was done; nothing of it is shown as text of a document",
    "job_documents": "the log of what was done",
    "job_lines": "the log of what was done",
    "usage": "the log of what was asked; it holds no text of documents",
    "repairs": "work that is queued; each item is checked again before it is done",
    "alias_moves": "what an alias named before; a wrong one rolls back to another true generation",
    "aliases": "which generation of the same world a domain names; the text of each is checked",
    "tokens": "rights, not text; whoever can change them can read the database as well",
    "token_worlds": "rights, not text",
    "replays": "sealed with the caller's key",
    "cooldowns": "times of provider keys",
    "identity": "which collections on a server are used; another id is refused there",
    "paces": "times of requests",
    "erasures": "files to be rewritten",
    "tallies": "counts that are compared with the states; the checksum is checked as a whole",
    "schema_steps": "the version of the schema",
    "query_cache": "a damaged vector of a query is computed again",
    "tails": "made again from the sentences when damaged",
    "tail_marks": "made again from the sentences when damaged",
    "probes": "a damaged probe is made again",
    "cohorts": "damaged vectors are made again",
    "calibrations": "named where it is used: the floor of answers",
}
"""Tables whose damage the doctor need not find, with the reason."""
UNSEEN = {
    ("worlds", "changes"): "counts changes, to notice them",
    ("worlds", "next_document"): "the next number to give",
    ("worlds", "next_generation"): "the next number to give",
    ("worlds", "generation"): "which generation is the default; the text of each is checked",
    ("worlds", "created_at"): "named whenever the world is opened",
    ("worlds", "defaults"): "named whenever the world is opened",
    ("worlds", "name"): "named whenever the world is opened",
    ("worlds", "id"): "names the world; rows of another do not match their checksums",
    ("worlds", "world_id"): "the key of the world; its rows are reached by it alone",
    ("worlds", "checksum"): "named whenever the world is opened",
    ("generations", "*"): "named whenever the world is opened",
    ("documents", "next_revision"): "the next number to give",
    ("documents", "created_at"): "shown nowhere",
    ("documents", "erase"): "how thoroughly a deletion goes on; read after deleted_at alone",
    ("documents", "key"): "a key; rows that refer to it are reached by it alone",
    ("documents", "world_id"): "the document is then in another world, where its checksums fail",
    ("documents", "deleted_at"): "a deletion that was not asked for is not told from one that was",
    ("revisions", "key"): "a key; rows that refer to it are reached by it alone",
    ("revisions", "document"): "a key of another document, where its checksum fails",
    ("readers", "*"): "names and the current book; positions have checksums of their own",
    ("positions", "*"): "named when it is read; only its reader can set it again",
    ("states", "warning"): "why a state is what it is; nothing depends on it",
    ("states", "state"): "compared with the index",
    ("states", "world_id"): "the chunk is then in another world, where its checksum fails",
    ("chunks", "revision"): "a search cuts the chunk again; no state leads to the changed row",
    ("vectors", "world_id"): "the vector is then in another world, where its checksum fails",
    ("vectors", "profile_id"): "a vector that is missed is made again",
    ("vectors", "text_hash"): "a vector that is missed is made again",
    ("word_states", "world_id"): "the states are then in another world, where their checksum fails",
    ("word_states", "profile_id"): "states that are missed are computed again by a repair",
    ("word_states", "text_hash"): "states that are missed are computed again by a repair",
    ("conversations", "*"): "named when it is read; nothing of a document depends on it",
    ("turns", "*"): "named when it is read; nothing of a document depends on it",
    ("notes", "*"): "named when it is read; nothing of a document depends on it",
    ("words", "*"): "the order of results alone depends on it; found once words are counted",
    ("word_counts", "*"): "the order of results alone depends on it",
}
"""Columns of the other tables whose change the doctor need not find; None for all of a table."""
GONE = {
    ("documents", "key"): "rows that refer to it are found by the check of references",
    ("documents", "world_id"): "the document is in another world, where its checksums fail",
    ("documents", "row"): "rows that refer to it are found by the check of references",
    ("documents", "deleted_at"): "a deletion that was not asked for looks like one that was",
    ("generations", "*"): "a world without its generation is empty, and is not taken for whole",
    ("positions", "*"): "a reader without a position has read nothing",
    ("readers", "*"): "a reader without a position has read nothing",
    ("revisions", "key"): "rows that refer to it are found by the check of references",
    ("revisions", "document"): "a document without a revision is not shown",
    ("chunks", "row"): "a row that no state leads to is never read",
    ("texts", "row"): "a row that no revision leads to is never read",
    ("word_states", "row"): "a text without states is ranked without them",
    ("worlds", "*"): "a world whose row is wrong is another world, or is empty",
    ("revisions", "row"): "rows that refer to it are found by the check of references",
    ("conversations", "*"): "a conversation that is another's is not found",
    ("notes", "row"): "a note that is gone looks like one that was deleted",
    ("notes", "world_id"): "the note is in another world, where its checksum fails",
    ("notes", "reader"): "the note is of another reader, for whom its checksum fails",
    ("notes", "document"): "a note about another book is hidden",
    ("notes", "revision"): "a note of another revision is hidden",
    ("notes", "sid"): "a note at a later position is hidden",
    ("turns", "row"): "a turn that is gone looks like one that was deleted by its age",
    ("turns", "world_id"): "the turn is in another world, where its checksum fails",
    ("turns", "conversation"): "the turn is in another conversation, where its checksum fails",
    ("turns", "document"): "a turn about another book is hidden",
    ("turns", "revision"): "a turn of another revision is hidden",
    ("turns", "sid"): "a turn at a later position is hidden",
    ("turns", "asked_at"): "a turn that is too old is hidden",
}
"""Rows that are missing or unreachable cannot be told from rows that never existed."""
ORPHANED = {
    ("states", column)
    for column in ("world_id", "revision", "generation", "position", "chunk_id", "row")
}
"""Without its state, a chunk's point is an orphan: it is named once, and deleted. The doctor finds
that the chunk is missing, and cuts it again."""
UNREAD = {("states", "reach")}
"""A chunk that seems to reach past the position is unread, and nothing is said about it."""
ORDER_ONLY = {"words", "word_counts", "tallies", "query_cache"}
"""Tables that affect the order and counts of results, but not their text."""


@dataclass
class Change:
    """One change of the store: table, column and statement."""

    table: str
    column: str
    kind: str
    make: Callable[[apsw.Connection], None]

    def __str__(self) -> str:
        return f"{self.kind} {self.table}.{self.column}"


def build(folder: Path, store: str = "sqlite") -> Study:
    """Create a queried world with a book, a paper with pages and a note, and another world."""
    figures = FigureFlags(chunks=True, placeholders=True)
    made = study(
        folder,
        primary=Scripted("The keeper lit the lamp [1]."),
        embedder=StateEmbedder(),
        store=store,
        preparation=Preparation(figures=figures, sanitizer=Sanitizer(Mode.SHADOW)),
    )
    lib = made.lib
    body = "".join(
        f"<h1>{name}</h1><p>{text}</p><img src='{name}.png' alt='A picture of {name}'>"
        for name, text in CHAPTERS.items()
    )
    book = lib.write("book.html", f"<html><body>{body}</body></html>")
    note = lib.write("note.txt", "The harbour hut had a lamp. Write to ann@example.com about it.")
    paper = lib.folder / "files" / "paper.pdf"
    paper.write_bytes(
        make_pdf(
            [Page(column(["The lamp burned."])), Page(column(["The hut was in the harbour."]))]
        )
    )
    for world in (made.world, made.library.create_world("other")):
        world.ingest([book], kind="book", title="The Lamp", tags=["sea"])
        world.ingest([note, str(paper)])
        reader = world.reader("ann")
        reader.set_position("book.html", through_chapter="Two")
        reader.notes.add("Who lit it?", first=1)
        for asker in (world, reader):
            talk = asker.conversation()
            talk.ask(QUERY)
            talk.ask("And who lit it?")
    return made


def outputs(made: Study) -> dict[str, Callable[[], Any]]:
    library = made.library

    def world() -> Any:
        return library.world("world")

    def reader() -> Any:
        return world().reader("ann")

    talks = [asker.conversations()[0].id for asker in (world(), reader())]
    return {
        "search": lambda: world().search(QUERY, top_k=20, floor=0.0, mode="hybrid"),
        "retrieve": lambda: world().retrieve(QUERY, top_k=20, mode="vector"),
        "reading": lambda: reader().retrieve(QUERY, top_k=20, mode="hybrid"),
        "pages": lambda: [world().documents.sentences(number) for number in (1, 2, 3)],
        "read pages": lambda: reader().sentences("book.html"),
        "where": lambda: reader().books(),
        "text": lambda: [world().documents.text(number) for number in (1, 2, 3)],
        "outline": lambda: [world().documents.outline(number) for number in (1, 2, 3)],
        "documents": lambda: [label(document) for document in world().documents.list()],
        "audit": lambda: [world().documents.audit(number) for number in (1, 2, 3)],
        "conversations": lambda: [*map(listing, world().conversations())],
        "turns": lambda: world().conversation(talks[0]).turns(),
        "reader's conversations": lambda: [*map(listing, reader().conversations())],
        "reader's notes": lambda: reader().notes.list(),
        "reader's turns": lambda: reader().conversation(talks[1]).turns(),
        "answer": lambda: world().answer(QUERY),
        "reader's answer": lambda: reader().answer(QUERY),
    }


def find_tables(shown: dict[str, Callable[[], Any]], said: list[str]) -> dict[str, set[str]]:
    """Return the words in the statements of each output; `said` gets each statement.

    An output whose statements do not name a table cannot depend on it, so it is not asked after
    a change of that table.
    """
    found: dict[str, set[str]] = {}
    for name, ask in shown.items():
        said.clear()
        ask()
        found[name] = {word for statement in said for word in re.findall(r"\w+", statement)}
    return found


def label(document: Document) -> dict[str, Any]:
    """Return the entry of a document in a list, without counts."""
    names = "number", "doc_id", "name", "path", "kind", "title", "language", "tags", "damaged"
    return {name: getattr(document, name) for name in names}


def listing(info: ConversationInfo) -> dict[str, Any]:
    """Return the entry of a conversation in a list, without what a missing turn changes."""
    return {name: getattr(info, name) for name in ("id", "reader", "book", "damaged")}


VOLATILE = {
    "processing_time_ms", "record", "score", "similarity", "fused", "bm25", "funnel", "current",
}  # fmt: skip
"""Fields that depend on the time or on other results."""
CHUNKS = ("passages", "retrieved_chunks", "retrieved_chunks_metadata")


def content(shown: Any) -> tuple[bool, Any]:
    """Return whether an output is a list of chunks, and its plain content."""
    for name in CHUNKS:
        found = getattr(shown, name, None)
        if found is not None:
            return True, [plain(to_builtins(part)) for part in found]
    return False, plain(to_builtins(shown))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if key not in VOLATILE}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def without_sentence(part: dict[str, Any]) -> dict[str, Any]:
    return part | {"best_sentence": None} if "best_sentence" in part else part


def named(shown: Any) -> bool:
    """Return whether an output reports that something was left out."""
    metadata = getattr(shown, "metadata", None)
    skipped = getattr(shown, "skipped", None) or getattr(metadata, "skipped", None)
    return bool(skipped or warnings_of(shown) or getattr(shown, "error", None))


def warnings_of(shown: Any) -> tuple[Notice, ...]:
    metadata = getattr(shown, "metadata", None)
    return getattr(shown, "warnings", None) or getattr(metadata, "warnings", None) or ()


def difference(before: tuple[bool, Any], shown: Any, *, quiet: bool) -> str | None:
    """Return the fault of an output after a change; None without a fault."""
    chunks, old = before
    also_chunks, new = content(shown)
    if chunks and also_chunks:
        # A damaged place of the best sentence is left out, with a warning.
        known = [*old, *map(without_sentence, old)] if DAMAGED in warnings_of(shown) else old
        altered = [part for part in new if part not in known]
        if altered:
            return f"shows what was never written: {altered[0]}"
        if len(new) < len(old) and not named(shown) and not quiet:
            return f"leaves out {len(old) - len(new)} passages and does not say so"
        return None
    if old == new:
        return None
    if isinstance(new, list) and all(
        part in old or (isinstance(part, dict) and part.get("damaged")) for part in new
    ):
        complete = quiet or len(new) == len(old)
        return None if complete else "leaves out entries and does not say so"
    return f"shows {new!r}"


def tables(connection: apsw.Connection, hidden: str = "sqlite!_%") -> list[str]:
    found = connection.execute(
        """SELECT name FROM main.sqlite_schema WHERE type = 'table'
           AND name NOT LIKE ? ESCAPE '!' ORDER BY name""",
        (hidden,),
    )
    return [row[0] for row in found]


def changes(connection: apsw.Connection) -> Iterator[Change]:
    """Yield all changes: of each column of each table, and of whole rows."""
    for table in tables(connection):
        columns = [
            (row[0], row[1])
            for row in connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')")
        ]
        for number, (name, kind) in enumerate(columns):
            own = [
                Change(table, name, label, setting(table, name, value))
                for label, value in islice(VALUES[kind].items(), in_test_or_prove(1, None))
            ]
            swap = Change(table, name, "swap", swapping(table, name))
            yield from in_test_or_prove([own[0], swap][number % 2 :][:1], [*own, swap])
        yield Change(table, "row", "delete", deleting(table))
        for both in TOGETHER.get(table, ()):
            yield Change(table, both[0], f"with {both[1]}", setting_both(table, both))
        yield Change(table, "row", "double", doubling(table, [name for name, _ in columns]))


VALUES = {
    "INTEGER": {"more": "{0} + 1", "less": "{0} - 1", "null": "NULL"},
    "REAL": {"more": "{0} + 1.5", "null": "NULL"},
    "TEXT": {"altered": "'zq' || {0}", "garbage": "'{{\"zq'", "null": "NULL"},
    "BLOB": {"altered": "CAST(x'7a71' || {0} AS BLOB)", "empty": "x''", "null": "NULL"},
}


TOGETHER = {
    "chunks": [("text", "text_hash"), ("chapter", "section")],
    "places": [("chapter", "section")],
    "states": [("first_sid", "last_sid"), ("start", "finish"), ("reach", "last_sid")],
    "sentences": [("start", "finish"), ("sid", "start")],
    "tails": [("first_sid", "last_sid"), ("text", "text_hash")],
    "vectors": [("text_hash", "vector")],
    "positions": [("revision", "sid")],
    "turns": [("content", "content_hash"), ("revision", "sid")],
    "notes": [("content", "content_hash"), ("revision", "sid")],
}
"""Cells that belong together and are changed together."""


def setting_both(table: str, columns: tuple[str, str]) -> Callable[[apsw.Connection], None]:
    def make(connection: apsw.Connection) -> None:
        kinds = dict(connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')"))
        values = [next(iter(VALUES[str(kinds[name])].values())).format(name) for name in columns]
        cells = ", ".join(f"{name} = {value}" for name, value in zip(columns, values, strict=True))
        connection.execute(f"UPDATE {table} SET {cells} WHERE {chosen(connection, table)}")

    return make


def setting(table: str, column: str, value: str) -> Callable[[apsw.Connection], None]:
    made = value.format(column)
    return lambda connection: void(
        connection.execute(
            f"UPDATE {table} SET {column} = {made} WHERE {chosen(connection, table)}"
        )
    )


def chosen(connection: apsw.Connection, table: str) -> str:
    """Return a condition for one row in the middle of the first world."""
    names = ", ".join(keys(connection, table))
    return f"""({names}) = (SELECT {names} FROM {table} ORDER BY {names}
        LIMIT 1 OFFSET (SELECT count(*) / 4 FROM {table}))"""


def keys(connection: apsw.Connection, table: str) -> list[str]:
    statement = f"SELECT name FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk"
    return [row[0] for row in connection.execute(statement)]


def swapping(table: str, column: str) -> Callable[[apsw.Connection], None]:
    """Replace the value of every row with that of the next one, over all worlds."""

    def make(connection: apsw.Connection) -> None:
        key = keys(connection, table)
        names = ", ".join(key)
        where = " AND ".join(f"swapped.{name} = {table}.{name}" for name in key)
        connection.execute(
            f"""UPDATE {table} SET {column} = other FROM (
                  SELECT {names}, coalesce(lead({column}) OVER (ORDER BY {names}),
                    first_value({column}) OVER (ORDER BY {names})) AS other FROM {table}
                ) AS swapped WHERE {where}"""
        )

    return make


def deleting(table: str) -> Callable[[apsw.Connection], None]:
    return lambda connection: void(
        connection.execute(f"DELETE FROM {table} WHERE {chosen(connection, table)}")
    )


def doubling(table: str, columns: list[str]) -> Callable[[apsw.Connection], None]:
    def make(connection: apsw.Connection) -> None:
        last = keys(connection, table)[-1]
        cells = ", ".join(f"{name} + 1000" if name == last else name for name in columns)
        row = chosen(connection, table)
        connection.execute(f"INSERT INTO {table} SELECT {cells} FROM {table} WHERE {row}")

    return make


def same(connection: apsw.Connection, table: str) -> bool:
    """Return whether a table is unchanged since `keep` was called."""
    now, before = f"SELECT * FROM main.{table}", f"SELECT * FROM whole.kept_{table}"
    counted = [connection.execute(f"SELECT count(*) FROM ({part})").get for part in (now, before)]
    missing = connection.execute(f"SELECT 1 FROM ({before} EXCEPT {now})").fetchall()
    return counted[0] == counted[1] and not missing


def void(_: object) -> None:
    return


@pytest.mark.timeout(1200)  # It walks all columns; a busy machine takes its time.
@proves("verify.every-point", "bundle.content-unaltered")
def test_changed_cell_is_never_shown_as_verified(tmp_path: Path) -> None:
    made = build(tmp_path)
    shown = outputs(made)
    said: list[str] = []
    for own in made.lib.store._db._open:  # type: ignore[attr-defined]
        own.exec_trace = lambda _, statement, __: not said.append(statement)
    read = find_tables(shown, said)
    for own in made.lib.store._db._open:  # type: ignore[attr-defined]
        own.exec_trace = None
    before = {name: content(ask()) for name, ask in shown.items()}
    assert made.library.doctor().healthy
    # Foreign keys are off in this connection, and changes here let the connection of the library
    # keep its compiled statements.
    connection = apsw.Connection(str(made.lib.store._db.path))  # type: ignore[attr-defined]
    connection.pragma("ignore_check_constraints", True)
    keep(connection)
    points = copy.deepcopy(made.lib.index.__dict__)
    wrong: list[str] = []
    tried = 0
    for number, change in enumerate(changes(connection), 1):
        try:
            change.make(connection)
        except (apsw.ConstraintError, apsw.MismatchError, apsw.SQLError):
            continue
        if not same(connection, change.table):
            asked = {name: ask for name, ask in shown.items() if change.table in read[name]}
            tried += len(asked)
            found = examine(made, connection, change, shown, asked, before)
            wrong += [f"{change}: {text}" for text in found]
        made.library._repairs.close()
        restore(connection, 1000 * number)
        made.lib.index.__dict__.update(copy.deepcopy(points))
    connection.close()
    assert tried > in_test_or_prove(1000, 2000)
    assert wrong == [], "\n".join(wrong)


def examine(
    made: Study,
    connection: apsw.Connection,
    change: Change,
    shown: dict[str, Callable[[], Any]],
    asked: dict[str, Callable[[], Any]],
    before: dict[str, tuple[bool, Any]],
) -> Iterator[str]:
    """Yield the faults of outputs and doctor after a change, and after a repair."""
    place = change.table, change.column
    quiet = (
        change.table in ORDER_ONLY
        or place in {*GONE, *ORPHANED, *UNREAD}
        or (change.table, "*") in GONE
    )
    yield from (f"{name} {found}" for name, found in ask_all(made, asked, before, quiet=quiet))
    if change.table in FREE:
        return
    made.library._repairs.close()
    mended = same(connection, change.table)
    healthy = False
    try:
        plan = made.library.doctor()
        healthy = plan.healthy
        made.library.maintenance.apply_plan(plan)
    except TruespanError:
        pass
    except Exception as error:
        yield f"the doctor raises {type(error).__name__}: {error}"
    excused = (
        place in UNSEEN
        or (change.table, "*") in UNSEEN
        or place in GONE
        or (change.table, "*") in GONE
        or mended
    )
    if healthy and not excused:
        yield "the doctor finds nothing"
    made.library._repairs.close()
    again = {name: shown[name] for name in ("search", "reading", "pages", "read pages")}
    found = ask_all(made, again, before, quiet=True)
    yield from (f"after repair, {name} {text}" for name, text in found)


@contextmanager
def held_repairs(made: Study) -> Iterator[None]:
    """Delay the repairs that a request starts, because they affect the next request."""
    repairs, may_run = made.library._repairs, threading.Event()
    repair = repairs._repair

    def repair_later(scope: Scope) -> None:
        may_run.wait(60)
        repair(scope)

    repairs._repair = repair_later
    try:
        yield
    finally:
        may_run.set()
        repairs._repair = repair


def ask_all(
    made: Study,
    shown: dict[str, Callable[[], Any]],
    before: dict[str, tuple[bool, Any]],
    *,
    quiet: bool,
) -> list[tuple[str, str]]:
    """Return the faults of each output before any repair."""
    with held_repairs(made):
        return list(ask_each(shown, before, quiet=quiet))


def ask_each(
    shown: dict[str, Callable[[], Any]], before: dict[str, tuple[bool, Any]], *, quiet: bool
) -> Iterator[tuple[str, str]]:
    for name, ask in shown.items():
        try:
            now = ask()
        except TruespanError:
            # An error shows nothing.
            continue
        except Exception as error:
            yield name, f"raises {type(error).__name__}: {error}"
            continue
        if found := difference(before[name], now, quiet=quiet):
            yield name, found


def keep(connection: apsw.Connection) -> None:
    """Copy all tables to an attached database. Copying that database back as a whole would have
    every statement compiled again, which takes longer than to run it."""
    connection.execute("ATTACH ':memory:' AS whole")
    for table in tables(connection, hidden="-"):
        connection.execute(f"CREATE TABLE whole.kept_{table} AS SELECT * FROM main.{table}")


def restore(connection: apsw.Connection, changes: int) -> None:
    """Copy all tables back, with a count of changes that the library has not seen."""
    with connection:
        connection.execute("UPDATE whole.kept_worlds SET changes = ?", (changes,))
        for table in tables(connection, hidden="-"):
            connection.execute(f"DELETE FROM main.{table}")
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM whole.kept_{table}")


CONTENT = (
    *("revisions", "texts", "places", "pages", "sentences", "figures", "audits", "chunks"),
    *("states", "tallies", "vectors", "positions", "tails", "tail_marks", "repairs"),
    *("conversations", "turns", "notes"),
)
WRITTEN = (
    *("states", "tallies", "vectors", "positions", "tails", "tail_marks", "repairs"),
    *("conversations", "turns", "notes"),
)
"""Tables that requests and repairs write."""
OTHER_VALUES = {
    "text": "'zq' || {0}",
    "bytea": "'zq'::bytea || {0}",
    "integer": "{0} + 1",
    "boolean": "NOT {0}",
    "double precision": "{0} + 1.5",
}


@pytest.mark.timeout(1200)  # It walks all columns; a busy machine takes its time.
@proves("verify.every-point", "store.space-isolation")
def test_changed_cell_of_a_server_is_never_shown_as_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = build(tmp_path, "postgres")
    shown = outputs(made)
    said: list[str] = []
    translate = postgres._translate
    monkeypatch.setattr(postgres, "_translate", lambda sql: said.append(sql) or translate(sql))
    read = find_tables(shown, said)
    monkeypatch.undo()
    before = {name: content(ask()) for name, ask in shown.items()}
    points = copy.deepcopy(made.lib.index.__dict__)
    wrong: list[str] = []
    tried = 0
    with database_of(made.lib.folder).admin() as admin:
        admin.execute("SET search_path = truespan")
        admin.execute("SET session_replication_role = replica")
        for table in CONTENT:
            admin.execute(f"CREATE TEMP TABLE whole_{table} AS TABLE truespan.{table}")  # type: ignore[arg-type]
        columns = admin.execute(
            """SELECT table_name, column_name, data_type FROM information_schema.columns
               WHERE table_schema = 'truespan' AND data_type = ANY(%s) AND table_name = ANY(%s)
               ORDER BY 1, ordinal_position""",
            ([*OTHER_VALUES], [*CONTENT]),
        ).fetchall()
        # The other engine must read each changed column alike.
        for table, name, kind in columns[:: in_test_or_prove(2, 1)]:
            value = OTHER_VALUES[kind].format(name)
            row = f"""ctid = (SELECT ctid FROM {table} WHERE {name} IS NOT NULL ORDER BY ctid
                LIMIT 1 OFFSET (SELECT count(*) / 4 FROM {table} WHERE {name} IS NOT NULL))"""
            try:
                admin.execute(f"UPDATE {table} SET {name} = {value} WHERE {row}")  # type: ignore[arg-type]
            except psycopg.errors.IntegrityError:
                continue
            tried += 1
            gone = (table, name) in {*GONE, *ORPHANED} or (table, "*") in GONE
            quiet = table in ORDER_ONLY or gone
            asked = {output: ask for output, ask in shown.items() if table in read[output]}
            found = ask_all(made, asked, before, quiet=quiet)
            wrong += [f"{table}.{name}: {output} {text}" for output, text in found]
            made.library._repairs.close()
            made.lib.index.__dict__.update(copy.deepcopy(points))
            for other in {table, *WRITTEN}:
                admin.execute(f"DELETE FROM truespan.{other}")  # type: ignore[arg-type]
                admin.execute(
                    f"INSERT INTO truespan.{other} OVERRIDING SYSTEM VALUE TABLE whole_{other}"  # type: ignore[arg-type]
                )
    assert tried > in_test_or_prove(40, 80)
    assert wrong == [], "\n".join(wrong)
