"""Break guards on purpose, one at a time, and see that tests fail.

Run as `python -m tools.guards` (`make guards`). A guard is one check in the source that a promise
depends on; `guards.toml` lists guards with the edit that breaks each and the tests that must catch
it. The edits are made in a copy of the project with an environment of its own, so that parsers,
index processes and commands that the tests start import the copy too. All tests of the table run
unbroken first. The exit code is 1 unless every guard is caught.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".toml")
NOT_COPIED = (".git", ".venv*", ".hypothesis", ".*_cache", "node_modules")
CAUGHT = "caught"
RESULTS = {0: "SURVIVED", 1: CAUGHT, None: "TIMED OUT"}
"""Result by exit code of pytest; any other code means that the tests could not run."""


@dataclass(frozen=True)
class Guard:
    """A check in a file of the source, the edit that breaks it, and the tests that notice."""

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def break_in(self, text: str) -> str | None:
        """Return the text of the file without the guard; None if its text is not there once."""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


def load_guards() -> list[Guard]:
    rows = tomllib.loads(TABLE.read_text("utf-8"))["guard"]
    return [Guard(**row | {"tests": tuple(row["tests"])}) for row in rows]


class Copy:
    """A copy of the project in a folder, with its own interpreter that imports the copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve() / "project"
        self.log = self.folder.with_name("pytest.log")
        ignore = shutil.ignore_patterns(*NOT_COPIED)
        shutil.copytree(ROOT, self.folder, symlinks=True, ignore=ignore)
        home, packages = self.folder / ".venv", Path(sysconfig.get_path("purelib"))
        venv.create(home, symlinks=True)
        self.python = home / "bin" / "python"
        # The packages of this environment, without its link to the source.
        own = home / packages.relative_to(sys.prefix) / "copy.pth"
        own.write_text(f"{self.folder / 'src'}\n{packages}\n")
        command = [self.python, "-P", "-c", "import truespan; print(truespan.__file__)"]
        imported = subprocess.check_output(command, text=True, cwd=folder)
        assert Path(imported).is_relative_to(self.folder), f"imported {imported}"

    @contextmanager
    def edited(self, file: str, text: str) -> Iterator[None]:
        """Give a file another text for a while."""
        path = self.folder / file
        before, times = path.read_text("utf-8"), path.stat()
        path.write_text(text, "utf-8")
        try:
            yield
        finally:
            path.write_text(before, "utf-8")
            # With its old time, so that its bytecode is still valid.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def test(self, tests: Sequence[str], seconds: float, *, keep_bytecode: bool) -> int | None:
        """Return the exit code of pytest, which stops at the first failure; None after a timeout.

        Bytecode of a broken file must not outlive it.
        """
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "" if keep_bytecode else "1"}
        command = [self.python, "-m", "pytest", "-n", "0", "-x", *dict.fromkeys(tests)]
        with open(self.log, "w") as log:
            pytest = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log
            )
            try:
                return pytest.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                self._end_processes()
                pytest.wait()

    def _end_processes(self) -> None:
        """End whatever still runs with the interpreter of the copy, which nobody else uses."""
        own = os.fsencode(self.python)
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "cmdline").read_bytes().split(b"\0")[0] == own:
                    os.kill(int(entry.name), signal.SIGKILL)


def try_guard(copy: Copy, guard: Guard, seconds: float) -> str:
    """Break a guard, run its tests, and return what came of it."""
    broken = guard.break_in((copy.folder / guard.file).read_text("utf-8"))
    if broken is None:
        return "MOVED"
    with copy.edited(guard.file, broken):
        code = copy.test(guard.tests, seconds, keep_bytecode=False)
    return RESULTS.get(code, "NOT RUN")


def main() -> int:
    """Print the result of every guard and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.guards", description=main.__doc__)
    known = {guard.name: guard for guard in load_guards()}
    parser.add_argument("--only", action="append", choices=known, metavar="NAME", help="repeatable")
    parser.add_argument("--seconds", type=float, default=300.0, help="the longest for one guard")
    chosen = parser.parse_args()
    guards = [known[name] for name in chosen.only or known]
    # An interrupt ends the processes of the copy and removes it, as an error does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="truespan-guards-") as folder:
        copy, began = Copy(Path(folder)), time.monotonic()
        tests = [test for guard in guards for test in guard.tests]
        if copy.test(tests, chosen.seconds * 4, keep_bytecode=True) != 0:
            print(copy.log.read_text("utf-8", "replace"))
            print("The tests fail with all guards in place.")
            return 1
        print(f"All tests pass unbroken ({time.monotonic() - began:.0f} s).", flush=True)
        results: list[str] = []
        for guard in guards:
            started = time.monotonic()
            results.append(try_guard(copy, guard, chosen.seconds))
            spent = time.monotonic() - started
            print(f"{results[-1]:<9} {spent:5.1f} s  {guard.name} ({guard.promise})", flush=True)
    caught = results.count(CAUGHT)
    print(f"{caught} of {len(guards)} guards are caught ({time.monotonic() - began:.0f} s).")
    return 0 if caught == len(guards) else 1


if __name__ == "__main__":
    sys.exit(main())
