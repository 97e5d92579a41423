"""Processes that start at once, as forks of one that has already imported the project.

To start Python, import all of the project and load its language detector takes one to two seconds,
which most commands of tests do not need. Run as `python -m tests.support.forked_process NUMBER` it
waits on the socket with that file number for programs to start, until the socket is closed.

A fork that comes to its end runs its exit handlers and ends at once. Taking all of the project down
again, object by object, would copy the memory that it shares with its parent and take longer than
most commands.

Tests about the start of a program (what it imports, prints or opens first) use `subprocess`.
"""

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

MODULES = (
    "tests.support.crash_process", "tests.support.crash_files", "tests.support.worker_process",
    "truespan.cli.app", "truespan.extensions.server.serve_command",
    "truespan.extensions.server.http.server", "truespan.extensions.server.mcp.stdio",
    "truespan.wiring",
)  # fmt: skip
_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")
_ASKING = Lock()
_CODES: list[int] = []
"""The exit code of this process, once it is a fork whose program has returned."""


class ForkedProcess(subprocess.Popen):  # type: ignore[type-arg]
    """Like `subprocess.Popen([sys.executable, ...])` for a module, a text after -c or a file."""

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        cwd, env, pipes = rest[4], rest[5], rest[9:15]
        own = enumerate((pipes[0], pipes[3], pipes[5]))
        files = [number if file == -1 else file for number, file in own]
        wanted = (args[1:], str(cwd or os.getcwd()), dict(os.environ if env is None else env))
        body = json.dumps(wanted).encode()
        self._status, theirs = socket.socketpair()
        with theirs, _ASKING:
            server = _server()
            socket.send_fds(server, [_LENGTH.pack(len(body))], [*files, theirs.fileno()])
            server.sendall(body)
        (self.pid,) = _STATUS.unpack(self._status.recv(_STATUS.size))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self._wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                self._status.settimeout(timeout)
                try:
                    answer = self._status.recv(_STATUS.size)
                except (TimeoutError, BlockingIOError):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
                self.returncode = _STATUS.unpack(answer)[0]
                self._status.close()
        return self.returncode


def forked(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module in a separate process, in this folder and environment."""
    command = [sys.executable, "-m", module, *arguments]
    with ForkedProcess(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked_process", str(theirs.fileno())],
            # A test may have changed the current folder.
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(_end, ours, process)
    return ours


def _end(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    ours.close()
    process.wait(timeout=30)


def main() -> None:
    """Wait for programs to start; each returned fork runs its own."""
    # Exit handlers run in reverse order, so this is the last one of a fork.
    atexit.register(_end_fork)
    for name in MODULES:
        import_module(name)
    from tests.support.loaded_models import keep_loaded_models, load_distributed_model
    from truespan.text.language import detect_language

    detect_language("The lamp of the harbour burned.")
    keep_loaded_models()
    load_distributed_model()
    # A garbage collector that goes through all of this would copy it into the memory of each fork.
    gc.collect()
    gc.freeze()
    if wanted := _wait_for_programs(socket.socket(fileno=int(sys.argv[1]))):
        try:
            _run(*wanted)
        except SystemExit as end:
            if not isinstance(end.code, int | None):
                raise
            _CODES.append(end.code or 0)
            raise
        _CODES.append(0)


def _run(command: list[str], folder: str, environment: dict[str, str]) -> None:
    first, *arguments = command
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if first not in ("-c", "-m"):
        sys.argv = [first, *arguments]
        runpy.run_path(first, run_name="__main__")
        return
    program = arguments[0]
    sys.argv = [first, *arguments[1:]]
    if first == "-c":
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    else:
        # What was imported before is run anew, as a module that starts is.
        sys.modules.pop(program, None)
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _end_fork() -> None:
    """End a fork whose program has returned; any other process ends as usual."""
    if _CODES:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_CODES[-1] & 0xFF)


def _wait_for_programs(control: socket.socket) -> tuple[list[str], str, dict[str, str]] | None:
    running: dict[int, socket.socket] = {}
    woken, waker = socket.socketpair()
    for one in (woken, waker):
        one.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as waiting:
        waiting.register(control, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in waiting.select()}
            if woken in ready:
                with suppress(BlockingIOError):
                    woken.recv(1024)
                _report_ended(running)
            if control not in ready:
                continue
            length, files, _, _ = socket.recv_fds(control, _LENGTH.size, 4)
            if not length:
                return None
            body = b""
            while len(body) < _LENGTH.unpack(length)[0]:
                body += control.recv(_LENGTH.unpack(length)[0] - len(body))
            told = socket.socket(fileno=files[3])
            if not (child := os.fork()):
                break
            told.send(_STATUS.pack(child))
            running[child] = told
            for number in files[:3]:
                os.close(number)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for one in (control, woken, waker, told, *running.values()):
        one.close()
    for number, (file, name) in enumerate(zip(files, ("stdin", "stdout", "stderr"), strict=False)):
        os.dup2(file, number)
        os.close(file)
        # As Python has them: standard error comes out line by line.
        lines, errors = (1, "backslashreplace") if name == "stderr" else (-1, "strict")
        mode = "w" if number else "r"
        stream = os.fdopen(number, mode, lines, encoding="utf-8", errors=errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return json.loads(body)


def _report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        with running.pop(child) as told, suppress(OSError):
            told.send(_STATUS.pack(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
