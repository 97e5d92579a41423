"""Processes that are there at once: each is the fork of one that has imported the project already.

To start Python and import all of it takes far longer than a command that is killed at some step.
Run as `python -m tests.support.forked_process` it waits for such commands, until its input ends.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from tempfile import TemporaryFile
from threading import Lock

MODULES = ("tests.support.crash_process", "tests.support.crash_files", "truespan.wiring")
_ASKING = Lock()


def forked(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module's `main` in a process of its own, here and with this environment."""
    wanted = (module, arguments, os.getcwd(), dict(os.environ))
    with _ASKING:
        server = _server()
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(wanted) + "\n")
        server.stdin.flush()
        code, out, err = json.loads(server.stdout.readline())
    return subprocess.CompletedProcess([module, *arguments], code, out, err)


@cache
def _server() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.forked_process"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=30)


def main() -> None:
    """Wait for commands; whoever comes back from waiting is a fork, and runs its own."""
    for name in MODULES:
        import_module(name)
    if wanted := _forked_for():
        module, arguments, folder, environment = wanted
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        import_module(module).main(list(arguments))


def _forked_for() -> tuple[str, list[str], str, dict[str, str]] | None:
    while line := sys.stdin.readline():
        with TemporaryFile() as out, TemporaryFile() as err, open(os.devnull) as nothing:
            child = os.fork()
            if not child:
                for number, file in enumerate((nothing, out, err)):
                    os.dup2(file.fileno(), number)
                return json.loads(line)
            _, status = os.waitpid(child, 0)
            told = [_content(file.fileno()) for file in (out, err)]
        print(json.dumps([os.waitstatus_to_exitcode(status), *told]), flush=True)
    return None


def _content(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode()


if __name__ == "__main__":
    main()
