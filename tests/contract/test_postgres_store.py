"""The store on PostgreSQL: the contract of every store, and tests of the server."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tools.transaction_stress import WAYS, plant, storm

from tests.contract.drafts import draft
from tests.contract.integrity_contract import IntegrityContract
from tests.contract.records_contract import RecordsContract
from tests.contract.store_contract import StoreContract, built, shown
from tests.contract.word_states_contract import WordStatesContract
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.postgres import database_of, fresh_database
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import InvalidArgument, StorageFull, StoreBusy, StoreDamaged, TruespanError
from truespan.extensions.cluster.postgres import _translate
from truespan.extensions.cluster.postgres_server import map_errors
from truespan.store.engines.session import retry_on_conflict
from truespan.store.tables.chunks import _select_chunks
from truespan.types.scope import OWNER


class TestContract(StoreContract):
    """Part 1 of the contract, on PostgreSQL."""

    kind = "postgres"


class TestRecords(RecordsContract):
    """Part 2 of the contract, on PostgreSQL."""

    kind = "postgres"


class TestIntegrity(IntegrityContract):
    """Part 4 of the contract, on PostgreSQL."""

    kind = "postgres"


class TestWordStates(WordStatesContract):
    """Part 5 of the contract, on PostgreSQL."""

    kind = "postgres"


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return make_library(tmp_path, store="postgres")


@proves("store.postgres-row-security", "store.space-isolation")
def test_transactions_of_many_worlds_see_only_their_own_rows() -> None:
    database = fresh_database()

    count = in_test_or_prove(1200, 3000)
    weather = storm(database, plant(database, 200), count, seed=7, minutes=4)

    assert weather.foreign == []
    assert set(weather.ended) == set(WAYS)
    assert weather.ended.total() >= count


def test_writers_wait_only_for_writers_of_the_same_world(lib: LibraryFixture) -> None:
    one, two = built(lib, "one"), built(lib, "two")
    with lib.store._db.write(one.world):
        done = []
        waiting = threading.Thread(
            target=lambda: done.append(lib.store.documents.stage(one, [draft("Text.")]))
        )
        waiting.start()
        with database_of(lib.folder).admin() as admin:
            _await_lock(admin)
        shown(lib, two, "The garden wall.")
        assert lib.store.documents.all(one) == []
        assert done == []
    waiting.join(30)

    assert len(done) == 1


def test_concurrent_worlds_cannot_take_the_same_domain(lib: LibraryFixture) -> None:
    one, two = built(lib, "one"), built(lib, "two")
    refused: list[TruespanError] = []

    def take() -> None:
        try:
            lib.store.generations.move_alias(one, "key")
        except TruespanError as error:
            refused.append(error)

    taking = threading.Thread(target=take)
    with database_of(lib.folder).admin() as admin, admin.transaction():
        admin.execute("INSERT INTO truespan_shared.aliases VALUES ('key', %s, 1, 0)", (two.world,))
        taking.start()
        _await_lock(admin)
    taking.join(30)

    assert [error.code for error in refused] == ["domain_not_found"]
    found = lib.store.worlds.find_domain(OWNER, "key")
    assert found is not None
    assert found.id == two.world


def _await_lock(admin: psycopg.Connection) -> None:
    """Return once another transaction waits for a lock of this one, or after a timeout."""
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()"
    for _ in range(2000):
        if admin.execute(waiting).fetchall():
            return
    raise AssertionError("no transaction waits for the lock")


def test_lock_timeout_is_a_retryable_error(lib: LibraryFixture) -> None:
    scope = built(lib)
    with database_of(lib.folder).admin() as admin, admin.transaction():
        admin.execute("SELECT 1 FROM truespan.worlds FOR UPDATE")
        with lib.store._db.write(scope.world, lock=False) as session:
            session.execute("SET lock_timeout = '5ms'")
        with pytest.raises(StoreBusy) as refusal:
            lib.store.documents.stage(scope, [draft("Text.")])

    assert refusal.value.retryable


def test_closed_connections_are_replaced(lib: LibraryFixture) -> None:
    scope = built(lib)
    shown(lib, scope, "The harbour light.")
    with ExitStack() as several:
        for _ in range(3):
            several.enter_context(lib.store._db.read(scope.world))
    with database_of(lib.folder).admin() as admin:
        admin.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        )

    assert lib.store.documents.canonical_text(scope, 1) == "The harbour light."


def test_lost_connection_in_a_write_is_retryable_and_clean(lib: LibraryFixture) -> None:
    scope = built(lib)

    with pytest.raises(StoreBusy) as refusal, lib.store._db.write(scope.world) as one:
        _cut_while_writing(lib, one.connection)  # type: ignore[attr-defined]

    assert refusal.value.retryable
    assert "lost" in refusal.value.message
    assert lib.sql("SELECT count(*) FROM probes") == [(0,)]


def _cut_while_writing(lib: LibraryFixture, session: psycopg.Connection) -> None:
    session.execute(
        "INSERT INTO probes (generation, probe, vector, checksum) VALUES (1, 'p', '', '')"
    )
    with database_of(lib.folder).admin() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (session.info.backend_pid,))
    session.execute("SELECT 1")


MAPPED: dict[type[BaseException], type[TruespanError]] = {
    psycopg.errors.SerializationFailure: StoreBusy,
    psycopg.errors.DeadlockDetected: StoreBusy,
    psycopg.errors.LockNotAvailable: StoreBusy,
    psycopg.errors.QueryCanceled: StoreBusy,
    psycopg.errors.AdminShutdown: StoreBusy,
    psycopg.errors.CannotConnectNow: StoreBusy,
    psycopg.errors.TooManyConnections: StoreBusy,
    psycopg.errors.ReadOnlySqlTransaction: StoreBusy,
    psycopg.OperationalError: StoreBusy,
    psycopg.InterfaceError: StoreBusy,
    psycopg.errors.DiskFull: StorageFull,
    psycopg.errors.DataCorrupted: StoreDamaged,
    psycopg.errors.NumericValueOutOfRange: InvalidArgument,
    psycopg.errors.ProgramLimitExceeded: InvalidArgument,
}


@pytest.mark.parametrize("error", MAPPED, ids=lambda kind: kind.__name__)
def test_engine_errors_are_mapped_without_their_text(error: type[BaseException]) -> None:
    with pytest.raises(MAPPED[error]) as refusal, map_errors():
        raise error("a value: 'secret text'")

    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("reference", ["a \0 in it", "\ud800"])
def test_unstorable_text_is_a_request_error(lib: LibraryFixture, reference: str) -> None:
    scope = built(lib)
    for call in (
        lambda: lib.store.worlds.find(OWNER, reference),
        lambda: lib.store.readers.in_force(scope, reference),
        lambda: lib.store.worlds.create(OWNER, reference),
        lambda: lib.store.readers.positions(scope, reference),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_parts_of_a_text_are_correct_for_any_bytes(lib: LibraryFixture) -> None:
    scope = built(lib)
    text = "é \0 and 🛶 more"
    ref = shown(lib, scope, text)

    for start, end in ((0, 1), (2, 3), (3, 99), (8, 10), (5, 2)):
        assert lib.store.readers.text_between(scope, ref, start, end) == text[start:end]
    lib.sql("UPDATE texts SET text = x'ff4142'")
    assert lib.store.readers.text_between(scope, ref, 1, 3) == "AB"


def test_numbers_out_of_range_are_unknown_or_refused(lib: LibraryFixture) -> None:
    scope = built(lib)
    shown(lib, scope, "The harbour light.")
    huge = 1 << 80

    assert lib.store.readers.in_force(scope, huge) is None
    assert lib.store.documents.sentences_across(scope, huge, 0, 5) == (-1, -1)
    assert lib.store.worlds.find(OWNER, scope.world, huge) is None
    with pytest.raises(InvalidArgument):
        lib.store.records.usage(OWNER, scope.world, limit=huge)


def test_chunks_are_looked_up_by_id_without_statistics() -> None:
    database = fresh_database()
    with psycopg.connect(database.url.reveal(), autocommit=True) as session:
        world = str(uuid4())
        session.execute("SET search_path = truespan, truespan_shared")
        session.execute("SELECT set_config('truespan.world', %s, false)", (world,))
        session.execute("SET ROLE truespan_shared")
        session.execute(
            """INSERT INTO directory (world_id, name, created_at, defaults, checksum)
               VALUES (%s, 'w', 0, 'contract', '')""",
            (world,),
        )
        session.execute("SET ROLE truespan_worlds")
        session.execute("INSERT INTO worlds (world_id) VALUES (%s)", (world,))
        # As many rows as a book has, before the server has statistics.
        session.execute(
            """INSERT INTO states (revision, generation, position, chunk_id, kind, context_start,
                 start, finish, first_sid, last_sid, reach, tokens, text_hash, state, checksum)
               SELECT 1, 1, n, n::text, 'text', 0, 0, 0, 0, 0, 0, 0, n::text, 'pending', ''
               FROM generate_series(1, 1000) n"""
        )
        values = {"ids": ["one"], "generation": 1, "world": world, "profile": "p"}
        for word_states in (False, True):
            statement = f"EXPLAIN {_translate(_select_chunks(False, word_states))}"
            plan = "\n".join(row[0] for row in session.execute(statement, values))
            assert "Scan on states_world_id_chunk_id_key" in plan.replace("using", "on"), plan


def test_tables_are_analysed_after_they_have_grown(lib: LibraryFixture) -> None:
    scope = built(lib)
    drafts = [draft(f"The text of number {number}.", f"doc-{number}") for number in range(450)]
    known = "SELECT relpages FROM pg_class WHERE oid = 'truespan.states'::regclass"

    with database_of(lib.folder).admin() as admin:
        admin.execute("VACUUM (FULL, ANALYZE) truespan.states, truespan.vectors")
        lib.store.documents.stage(scope, drafts[:2])
        assert admin.execute(known).fetchall() == [(0,)]

        lib.store.documents.stage(scope, drafts[2:])

        assert admin.execute(known).fetchall() > [(10,)]


def counted(fails: int, error: type[BaseException]) -> tuple[Callable[[], str], list[int]]:
    """Return a method that is rolled back `fails` times, and the list of its calls."""
    calls: list[int] = []

    @retry_on_conflict
    def method() -> str:
        calls.append(1)
        with map_errors():
            if len(calls) <= fails:
                raise error("rolled back")
        return "done"

    return method, calls


@pytest.mark.parametrize(
    "error", [psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected]
)
def test_transaction_rolled_back_by_conflict_is_repeated(error: type[BaseException]) -> None:
    method, calls = counted(5, error)
    assert method() == "done"
    assert len(calls) == 6
    method, calls = counted(6, error)
    with pytest.raises(StoreBusy):
        method()
    assert len(calls) == 6


def test_other_errors_are_not_repeated() -> None:
    method, calls = counted(1, psycopg.errors.LockNotAvailable)
    with pytest.raises(StoreBusy):
        method()
    assert len(calls) == 1
