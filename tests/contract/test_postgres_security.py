"""Isolation of worlds by PostgreSQL, for every statement and every role."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.postgres import (
    APPLICATION,
    OWNER_ROLE,
    Database,
    database_of,
    fresh_database,
    server,
)
from tests.support.sample_texts import story
from tests.support.state_embedder import StateEmbedder
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidConfiguration, StoreBusy
from truespan.extensions.cluster import postgres_server
from truespan.extensions.cluster.postgres import Address, PostgresDatabase
from truespan.extensions.cluster.postgres_server import (
    prepare_store,
    require_known_version,
    role_of,
)
from truespan.store import migrations
from truespan.store.engines.session import SHARED_TABLES
from truespan.store.migrations import OLDEST_VERSION, newest_version
from truespan.types.document import RevisionRef
from truespan.types.scope import Scope
from truespan.types.token import Secret

QUEUE_TABLES = {
    *("queue_steps", "procrastinate_jobs", "procrastinate_events", "procrastinate_workers"),
    "procrastinate_periodic_defers",
}
"""Tables of the queue. They contain ids of worlds and jobs, and no text."""


@pytest.fixture
def database() -> Database:
    return fresh_database()


@pytest.fixture
def filled(tmp_path: Path) -> LibraryFixture:
    """Two worlds with rows in almost every table."""
    lib = make_library(tmp_path, store="postgres", embedder=StateEmbedder())
    for name in ("one", "two"):
        world = lib.world(name, a__txt=story(40), b__md=f"# Garden\n\n{story(20, 'garden')}")
        world.reader("ann").set_position("a.txt", sentence=7)
        world.reader("ann").notes.add("Remember the night.")
        world.reader("ann").retrieve("the night")
        world.reader("ann").conversation().ask("Who saw the night?")
        world.search("the night", floor=0.0, mode="hybrid")
        lib.store.limits.cool_down("provider", name, 1.0)
    return lib


def tables_of(database: Database) -> dict[tuple[str, str], tuple[bool, bool]]:
    with database.admin() as admin:
        rows = admin.execute(
            """SELECT n.nspname, c.relname, c.relrowsecurity, c.relforcerowsecurity
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
                 AND n.nspname NOT IN ('pg_catalog', 'information_schema')
                 AND n.nspname NOT LIKE 'pg!_%' ESCAPE '!'"""
        ).fetchall()
    return {(schema, name): (enabled, forced) for schema, name, enabled, forced in rows}


@proves("store.postgres-row-security", "store.space-isolation")
def test_every_table_has_a_forced_policy_or_is_shared(database: Database) -> None:
    tables = tables_of(database)

    assert {name for schema, name in tables if schema == "truespan_shared"} == SHARED_TABLES
    assert {name for schema, name in tables if schema == "truespan_queue"} == QUEUE_TABLES
    assert {schema for schema, _ in tables} == {"truespan", "truespan_shared", "truespan_queue"}
    of_worlds = {name: how for (schema, name), how in tables.items() if schema == "truespan"}
    assert len(of_worlds) >= 29
    assert set(of_worlds.values()) == {(True, True)}
    with database.admin() as admin:
        columns = admin.execute(
            """SELECT table_name, is_nullable, data_type FROM information_schema.columns
               WHERE table_schema = 'truespan' AND column_name = 'world_id'"""
        ).fetchall()
        policies = admin.execute(
            """SELECT DISTINCT permissive, roles::text, cmd, qual = with_check, qual
               FROM pg_policies WHERE schemaname = 'truespan' AND policyname = 'own_world'"""
        ).fetchall()
        others = admin.execute(
            """SELECT tablename, permissive, roles::text, cmd FROM pg_policies
               WHERE schemaname = 'truespan' AND policyname <> 'own_world'"""
        ).fetchall()
    assert {name for name, *_ in columns} == set(of_worlds)
    assert {tuple(kind) for _, *kind in columns} == {("NO", "uuid")}
    [(permissive, roles, command, same, condition)] = policies
    assert (permissive, roles, command, same) == ("PERMISSIVE", "{public}", "ALL", True)
    assert "world_id" in condition
    assert "truespan.world" in condition
    assert others == [("revisions", "RESTRICTIVE", "{public}", "ALL")]


@proves("store.postgres-row-security", "audience.enforced")
def test_audience_sees_only_its_revisions_in_any_statement(filled: LibraryFixture) -> None:
    world = filled.library.world("one")
    world.documents.update("a.txt", audience=["group:legal"])
    store = PostgresDatabase(Address(database_of(filled.folder).url))
    every: LiteralString = "SELECT audience FROM revisions WHERE state = 'active' ORDER BY 1"

    def seen(labels: list[str]) -> list[str]:
        scope = filled.scope(world.for_audience(labels))
        with store.write(scope) as session:
            assert session.execute("UPDATE revisions SET tags = tags WHERE audience = ''") == 0
            return [audience for (audience,) in session.all(every)]

    try:
        assert seen([]) == ["everyone"]
        assert seen(["group:legal"]) == ["everyone", "group:legal"]
        assert seen(["group:leg", "*", "legal"]) == ["everyone"]
        scope = filled.scope(world.for_audience(["group:legal"]))
        with pytest.raises(psycopg.errors.InsufficientPrivilege), store.write(scope) as session:
            session.execute("UPDATE revisions SET audience = 'everyone'")
    finally:
        store.close()


@proves("store.postgres-row-security")
def test_no_row_is_visible_without_a_world(filled: LibraryFixture) -> None:
    database = database_of(filled.folder)
    tables = sorted(name for schema, name in tables_of(database) if schema == "truespan")
    with database.admin() as admin:
        held = {name: _count(admin, name) for name in tables}
    with psycopg.connect(database.url.reveal(), autocommit=True) as application:
        unset = {name: _count(application, name) for name in tables}
        application.execute("SELECT set_config('truespan.world', '', false)")
        blank = {name: _count(application, name) for name in tables}

    assert set(unset.values()) == set(blank.values()) == {0}
    empty = {name for name, count in held.items() if not count}
    assert empty <= {
        "alias_moves", "audits", "calibrations", "cohorts", "figures", "job_lines", "pages",
        "probes", "repairs", "usage",
    }  # fmt: skip


@proves("store.postgres-row-security", "store.space-isolation")
def test_world_sees_only_its_own_rows_in_each_table(filled: LibraryFixture) -> None:
    database = database_of(filled.folder)
    tables = sorted(name for schema, name in tables_of(database) if schema == "truespan")
    one, two = (filled.library.world(name).id for name in ("one", "two"))
    with database.admin() as admin:
        held = {name: _count(admin, name, one) for name in tables}
        theirs = {name: _count(admin, name, two) for name in tables}
    store = PostgresDatabase(Address(database.url))
    try:
        with store.write(one) as session:
            own = session.connection
            assert {name: _count(own, name) for name in tables} == held
            assert {name: _count(own, name, two) for name in tables} == dict.fromkeys(tables, 0)
            for name in tables:
                table = sql.Identifier("truespan", name)
                own.execute(sql.SQL("DELETE FROM {} WHERE world_id = %s").format(table), (two,))
                own.execute(
                    sql.SQL("UPDATE {} SET world_id = world_id WHERE world_id = %s").format(table),
                    (two,),
                )
        for name in tables:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), store.write(one) as s:
                _moved(s.connection, name, two)
    finally:
        store.close()
    with database.admin() as admin:
        assert {name: _count(admin, name, two) for name in tables} == theirs


def _moved(session: psycopg.Connection, name: str, world: str) -> None:
    """Try to move a row to another world, or to insert one there."""
    table = sql.Identifier("truespan", name)
    cursor = session.execute(sql.SQL("UPDATE {} SET world_id = %s").format(table), (world,))
    if not cursor.rowcount:
        # The policy is checked before other constraints.
        session.execute(sql.SQL("INSERT INTO {} (world_id) VALUES (%s)").format(table), (world,))


def _count(connection: psycopg.Connection, table: str, world: str | None = None) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE world_id = coalesce(%s::uuid, world_id)")
    rows = connection.execute(query.format(sql.Identifier("truespan", table)), (world,)).fetchall()
    return rows[0][0]


@proves("store.postgres-row-security")
def test_world_setting_always_ends_with_its_transaction(filled: LibraryFixture) -> None:
    database = database_of(filled.folder)
    one = filled.library.world("one").id
    store = PostgresDatabase(Address(database.url, pool_size=1))
    left = []

    def look() -> None:
        with store._pool.connection() as session:
            rows = session.execute("SELECT count(*), current_user FROM truespan.states")
            left.append(rows.fetchall())

    try:
        with store.write(one) as session:
            assert session.value("SELECT count(*) > 0 FROM states")
        look()
        with pytest.raises(RuntimeError), store.write(one):
            raise RuntimeError("given up")
        look()
        with pytest.raises(StoreBusy), store.write(one) as session:
            _wait_too_long(session.connection)
        look()
        with pytest.raises(psycopg.Error), store.write(one) as session:
            session.execute("SELECT 1 / 0")
        look()
    finally:
        store.close()

    assert left == [[(0, APPLICATION)]] * 4


def _wait_too_long(session: psycopg.Connection) -> None:
    session.execute("SET LOCAL statement_timeout = 1")
    session.execute("SELECT pg_sleep(5)")


def test_role_of_worlds_sees_no_shared_table(filled: LibraryFixture) -> None:
    database = database_of(filled.folder)
    one = filled.library.world("one").id
    store = PostgresDatabase(Address(database.url))
    try:
        for table in sorted(SHARED_TABLES):
            query = sql.SQL("SELECT * FROM {}").format(sql.Identifier("truespan_shared", table))
            with pytest.raises(psycopg.errors.InsufficientPrivilege), store.write(one) as session:
                session.connection.execute(query)
        with pytest.raises(psycopg.errors.InsufficientPrivilege), store.write_shared() as session:
            session.execute("SELECT * FROM truespan.worlds")
    finally:
        store.close()


@contextmanager
def without_row_security(database: Database) -> Iterator[list[str]]:
    """Yield the tables of worlds while no policy applies to them."""
    tables = sorted(name for schema, name in tables_of(database) if schema == "truespan")

    def set_all(how: LiteralString) -> None:
        with database.admin() as admin:
            for name in tables:
                statement = sql.SQL("ALTER TABLE {} " + how + " ROW LEVEL SECURITY")
                admin.execute(statement.format(sql.Identifier("truespan", name)))

    set_all("DISABLE")
    try:
        yield tables
    finally:
        set_all("ENABLE")


@proves("store.space-isolation")
def test_statements_are_limited_to_their_world_without_row_security(filled: LibraryFixture) -> None:
    """Row security is the second lock: every statement names its world."""
    database = database_of(filled.folder)
    one, two = (filled.library.world(name) for name in ("one", "two"))

    with without_row_security(database) as of_worlds, database.admin() as admin:
        before = {name: _rows(admin, name, two.id) for name in of_worlds}
        shown = _look_at(two)

        one.ingest(
            [filled.write("one/a.txt", story(50, "harbour")), filled.write("one/c.txt", "C.")]
        )
        one.generations.reindex(chunking="tokens")
        one.generations.promote(2)
        one.reader("ann").set_position("a.txt", sentence=9)
        one.reader("ann").retrieve("the night")
        assert {found.source for found in one.search("the night", floor=0.0).passages} <= {
            "a.txt", "b.md", "c.txt",
        }  # fmt: skip
        one.search("the night", floor=0.0, mode="hybrid")
        one.generations.remove(1)
        one.documents.delete("b.md")
        filled.store.chunks.mark_pending(
            filled.scope(one), filled.store.documents.chunk_ids(*_first(filled, one))
        )
        one.repair()
        assert filled.library.doctor().healthy

        assert {name: _rows(admin, name, two.id) for name in of_worlds} == before
        assert _look_at(two) == shown
        filled.library.delete_world("one")
        assert {name: _rows(admin, name, two.id) for name in of_worlds} == before
        assert {name: _count(admin, name, one.id) for name in of_worlds} == dict.fromkeys(
            of_worlds, 0
        )


def _first(lib: LibraryFixture, world: World) -> tuple[Scope, RevisionRef]:
    document = world.documents.list()[0]
    assert document.active is not None
    return lib.scope(world), RevisionRef(document.number, document.active)


def _look_at(world: World) -> list[object]:
    """Return the documents, search results and reading of a world."""
    return [
        [
            (document.doc_id, world.documents.text(document.doc_id))
            for document in world.documents.list()
        ],
        [found.chunk_id for found in world.search("the night", floor=0.0, mode="hybrid").passages],
        world.reader("ann").retrieve("the night").context,
        [job.id for job in world.jobs.list()],
        world.status(),
    ]


def _rows(connection: psycopg.Connection, table: str, world: str) -> list[str]:
    """Return the rows of a world, without cached queries."""
    if table == "query_cache":
        return []
    query = sql.SQL("SELECT t::text FROM {} t WHERE world_id = %s ORDER BY 1")
    named = query.format(sql.Identifier("truespan", table))
    return [row[0] for row in connection.execute(named, (world,))]


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role with the rights of the application, to add further rights to."""
    name = f"other_{database.name}"
    with database.admin() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        postgres_server.admit_only(admin, name)
        admin.execute(
            sql.SQL("GRANT truespan_worlds, truespan_shared TO {}").format(sql.Identifier(name))
        )
    yield name
    with database.admin() as admin:
        admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


TOO_MUCH: dict[str, tuple[LiteralString, str]] = {
    "superuser": ("ALTER ROLE {role} SUPERUSER", "superuser"),
    "bypassing": ("ALTER ROLE {role} BYPASSRLS", "BYPASSRLS"),
    "member of a superuser": ("GRANT postgres TO {role}", "member of a role"),
    "member of the owner": ("GRANT {owner} TO {role}", "owns tables"),
    "owner of one table": ("ALTER TABLE truespan.repairs OWNER TO {role}", "owns tables"),
    "maker of schemas": ("GRANT CREATE ON DATABASE {database} TO {role}", "may create"),
    "maker of tables": ("GRANT CREATE ON SCHEMA truespan TO {role}", "may create"),
    "maker of roles": ("ALTER ROLE {role} CREATEROLE", "may create"),
}


@proves("store.postgres-row-security")
def test_application_of_another_library_is_refused(database: Database) -> None:
    """Roles belong to the server, so the role of one library could act as another's."""
    other = f"stranger_{database.name}"
    with database.admin() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(other)))
        admin.execute(sql.SQL("GRANT truespan_worlds TO {}").format(sql.Identifier(other)))
    try:
        with pytest.raises(InvalidConfiguration, match="role may not connect"):
            PostgresDatabase(Address(server().url(database.name, other)))
    finally:
        with database.admin() as admin:
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(other)))


def test_locked_tables_are_awaited_until_the_timeout(database: Database) -> None:
    with database.admin() as admin, admin.transaction():
        admin.execute("LOCK TABLE truespan.jobs IN ACCESS EXCLUSIVE MODE")

        with pytest.raises(StoreBusy):
            PostgresDatabase(Address(database.url, timeout_seconds=0.2))


def test_addresses_in_driver_logs_are_not_printed() -> None:
    """The driver logs lost connections with the host."""
    program = (
        "import logging, truespan.extensions.cluster.postgres;"
        "logging.getLogger('psycopg.pool').warning('error connecting to db.example')"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    assert (told.stdout, told.stderr) == (b"", b"")


@proves("store.postgres-row-security")
def test_database_open_to_everybody_is_refused_until_prepared(database: Database) -> None:
    with database.admin() as admin:
        admin.execute(
            sql.SQL("GRANT CONNECT ON DATABASE {} TO PUBLIC").format(sql.Identifier(database.name))
        )

    with raises_code("store_unsafe", match="Every role") as refusal:
        PostgresDatabase(Address(database.url))

    assert "prepare-store" in (refusal.value.advice or "")
    prepare_store(database.owner_url, APPLICATION)
    PostgresDatabase(Address(database.url)).close()


@proves("store.postgres-row-security")
@pytest.mark.parametrize("what", TOO_MUCH)
def test_role_that_can_bypass_policies_is_refused(database: Database, role: str, what: str) -> None:
    statement, words = TOO_MUCH[what]
    url = server().url(database.name, role)
    PostgresDatabase(Address(url)).close()
    with database.admin() as admin:
        admin.execute(
            sql.SQL(statement).format(
                role=sql.Identifier(role),
                owner=sql.Identifier(OWNER_ROLE),
                database=sql.Identifier(database.name),
            )
        )

    with raises_code("store_unsafe") as refusal:
        PostgresDatabase(Address(url))

    assert words in refusal.value.message
    assert refusal.value.advice


CHANGED: dict[str, LiteralString] = {
    "off": "ALTER TABLE truespan.chunks DISABLE ROW LEVEL SECURITY",
    "not forced": "ALTER TABLE truespan.chunks NO FORCE ROW LEVEL SECURITY",
    "gone": "DROP POLICY own_world ON truespan.chunks",
    "another condition": "ALTER POLICY own_world ON truespan.chunks USING (true)",
    "another check": "ALTER POLICY own_world ON truespan.chunks WITH CHECK (true)",
    "a wider condition": "ALTER POLICY own_world ON truespan.chunks USING (world_id IS NOT NULL)",
    "another beside it": "CREATE POLICY more ON truespan.chunks USING (true)",
    "no audience": "DROP POLICY own_audience ON truespan.revisions",
    "any audience": "ALTER POLICY own_audience ON truespan.revisions USING (true)",
    "a table without": "CREATE TABLE truespan.chunks_2 (world_id uuid)",
    "a view beside them": "CREATE VIEW truespan.chunks_seen AS SELECT * FROM truespan.chunks",
}


@pytest.mark.parametrize("how", CHANGED)
def test_database_with_changed_policies_is_refused(database: Database, how: str) -> None:
    with database.admin() as admin:
        admin.execute(CHANGED[how])

    with raises_code("store_unsafe") as refusal:
        PostgresDatabase(Address(database.url))

    assert ("revisions" if "audience" in how else "chunks") in refusal.value.message


@pytest.mark.parametrize(
    "version", [90_624, 120_022, 130_021, 140_018, 150_013, 160_009, 170_000, 170_005]
)
def test_versions_with_a_known_leak_are_refused(version: int) -> None:
    with raises_code("store_unsafe") as refusal:
        require_known_version(version)

    assert "later" in refusal.value.advice


@pytest.mark.parametrize("version", [130_022, 140_019, 160_010, 170_006, 180_000, 190_001])
def test_versions_without_a_known_leak_are_accepted(version: int) -> None:
    require_known_version(version)


@proves("store.schema-versions")
def test_tables_of_another_version_are_refused_with_advice(database: Database) -> None:
    for version, error in (
        (newest_version("postgres") + 1, "library_too_new"),
        (18, "library_too_old"),
    ):
        with database.admin() as admin:
            admin.execute("UPDATE truespan_shared.schema_steps SET number = %s", (version,))
        with raises_code(error):
            PostgresDatabase(Address(database.url))
        with raises_code(error):
            prepare_store(database.owner_url, APPLICATION)
    with database.admin() as admin:
        admin.execute("DELETE FROM truespan_shared.schema_steps")
        with raises_code("store_outdated") as outdated:
            PostgresDatabase(Address(database.url))
    unprepared = fresh_database(prepared=False)
    with raises_code("store_outdated"):
        PostgresDatabase(Address(unprepared.url))

    assert "prepare-store" in outdated.value.advice


def test_repeated_or_concurrent_preparation_is_harmless() -> None:
    from concurrent.futures import ThreadPoolExecutor

    database = fresh_database(prepared=False)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: prepare_store(database.owner_url, APPLICATION), range(4)))

    assert sorted(one.before for one in made) == [0, *[newest_version("postgres")] * 3]
    assert prepare_store(database.owner_url, APPLICATION).before == newest_version("postgres")
    PostgresDatabase(Address(database.url)).close()


def add_migration(patch: pytest.MonkeyPatch, path: Path, script: str) -> None:
    """Add a migration to version 9999 to those of PostgreSQL."""
    path = path / "9999_next.sql"
    path.write_text(script)
    scripts = [*migrations._list_scripts("postgres"), path]
    patch.setattr(migrations, "_list_scripts", lambda _engine: scripts)


@proves("store.schema-versions")
def test_tables_of_a_migration_are_put_under_the_policy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = fresh_database()
    add_migration(monkeypatch, tmp_path, "CREATE TABLE extra (world_id uuid PRIMARY KEY);")
    with raises_code("store_outdated"):
        PostgresDatabase(Address(database.url))

    assert prepare_store(database.owner_url, APPLICATION) == (OLDEST_VERSION, 9999)

    PostgresDatabase(Address(database.url)).close()
    tables = tables_of(database)
    assert tables["truespan", "extra"] == (True, True)
    assert {how for (name, _), how in tables.items() if name == "truespan"} == {(True, True)}


@proves("store.schema-versions")
def test_migration_that_fails_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = fresh_database(prepared=False)
    add_migration(monkeypatch, tmp_path, "CREATE TABLE extra (a int); SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        prepare_store(database.owner_url, APPLICATION)

    assert tables_of(database) == {}


def test_owner_of_the_tables_cannot_be_the_application(database: Database) -> None:
    for application in (OWNER_ROLE, "postgres"):
        with raises_code("store_unsafe"):
            prepare_store(database.owner_url, application)
    with pytest.raises(InvalidConfiguration):
        prepare_store(database.owner_url, "nobody-of-that-name")
    with raises_code("store_unsafe"):
        PostgresDatabase(Address(database.owner_url))


WRONG = {
    "password": ("guarded", "wrong-password", "password was refused"),
    "no password": ("guarded", "", "needs a password"),
    "role": ("no_such_role", "some-password", "no such database or role"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_address_is_an_error_without_the_password(database: Database, what: str) -> None:
    role, password, words = WRONG[what]

    with pytest.raises(InvalidConfiguration) as refusal:
        PostgresDatabase(Address(server().url(database.name, role, password)))

    assert words in str(refusal.value)
    told = f"{refusal.value!r} {refusal.value} {refusal.value.__cause__} {refusal.value.advice}"
    assert "some-password" not in told
    assert "wrong-password" not in told
    assert refusal.value.__suppress_context__


def test_unreachable_server_is_an_outage_wrong_address_is_not() -> None:
    outage, wrong = "store_unavailable", "invalid_configuration"
    for url, kind in (
        ("postgresql://app:pass-word@127.0.0.1:1/library", outage),
        ("postgresql://app:pass-word@[/library", wrong),
    ):
        with raises_code(kind) as refusal:
            PostgresDatabase(Address(Secret(url)))
        assert refusal.value.retryable is (kind is outage)
        assert "pass-word" not in str(refusal.value)


def test_role_is_read_from_the_address() -> None:
    assert role_of(Secret("postgresql://app:pw@host/library")) == "app"
    for url in ("postgresql://host/library", "postgresql://[", "nonsense"):
        with pytest.raises(InvalidConfiguration):
            role_of(Secret(url))
