"""Commands write only to the library, and connect to nothing on a network."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interfaces.mcp_clients import BOOK
from tests.promises import proves

XDG = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
CALLS = "openat,mkdirat,connect,?open,?creat,?mkdir"
OPENED = re.compile(r"(?:open|openat|creat)\(.*\) = \d+<(.*)>$")
MADE = re.compile(r'(?:mkdir|mkdirat)\(.*"(.*)".*\) = 0$')
CONNECTED = re.compile(r"connect\(.*\{sa_family=(\w+)")
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|\bcreat\(")


def run_commands(place: Path, prefix: Sequence[str] = ()) -> Path:
    """Create a library, ingest a book and search it, with an empty home; return the library.

    The search is repeated with the folders of XDG named. Variables that could turn telemetry off
    are left out, and one that turns it on is set.
    """
    library = place / "library"
    for name in ("home", "cwd", "tmp", *XDG):
        (place / name).mkdir()
    (place / "lamp.md").write_text(BOOK, encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "ORT_DISABLE_TELEMETRY": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRUESPAN_INDEX_IDLE_SECONDS": "1",
    }
    xdg = {name: str(place / name) for name in XDG}
    where = ("-L", str(library), "-w", "w")
    search = ("search", *where, "--full", "--mode", "hybrid", "Who keeps the lamp?")
    for command, more in (
        (("init", *where), {}),
        (("ingest", *where, str(place / "lamp.md")), {}),
        (search, {}),
        (search, xdg),
    ):
        done = subprocess.run(
            [*prefix, sys.executable, "-P", "-m", "truespan", *command],
            cwd=place / "cwd",
            env=environment | more,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert command is not search or "Osric" in done.stdout
    return library


@dataclass(frozen=True)
class Ran:
    """The folders of the commands, and their system calls if they could be traced."""

    place: Path
    library: Path
    traces: Path | None


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    place, traces = tmp_path_factory.mktemp("place"), tmp_path_factory.mktemp("traces")
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", "/dev/null", "true"]).returncode:
        return Ran(place, run_commands(place), None)
    # One file for each process, so that calls are not interleaved.
    prefix = [strace, "-ff", "-qq", "-y", "-s", "4096", "-o", str(traces / "t"), "-e", CALLS]
    return Ran(place, run_commands(place, prefix), traces)


@proves("files.nothing-outside")
def test_nothing_is_written_to_the_home_or_current_folder(ran: Ran) -> None:
    # The index process may have created its private folder in the temporary folder.
    found = {path.relative_to(ran.place) for path in ran.place.rglob("*")}
    elsewhere = {str(path) for path in found if path.parts[0] not in (ran.library.name, "tmp")}
    assert elsewhere == {"home", "cwd", "lamp.md", *XDG}


@proves("files.nothing-outside")
@pytest.mark.skipif(sys.platform != "linux", reason="strace is for Linux")
def test_commands_write_nowhere_else_and_use_no_network(ran: Ran) -> None:
    if ran.traces is None:
        pytest.skip("NO STRACE: system calls were not looked at; install strace and allow ptrace")
    # The socket of the index process is in /tmp where the path of TMPDIR is too long for it.
    sockets = f"/tmp/truespan-{os.getuid()}"
    allowed = (str(ran.library), str(ran.place / "tmp"), sockets, "/dev/", "/proc/")
    lines = [line for path in ran.traces.iterdir() for line in path.read_text().splitlines()]
    assert [line for line in lines if not _is_allowed(line, allowed)] == []
    assert any(str(ran.library / "store.db") in line for line in lines)


def _is_allowed(line: str, allowed: tuple[str, ...]) -> bool:
    if connected := CONNECTED.search(line):
        return connected[1] == "AF_UNIX"
    if made := MADE.search(line):
        return made[1].startswith(allowed)
    opened = OPENED.search(line)
    return opened is None or not WRITING.search(line) or opened[1].startswith(allowed)
