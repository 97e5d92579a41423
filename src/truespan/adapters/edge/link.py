"""A client's way to the index process: starts it when there is none, and exchanges messages.

Connections are kept and lent to one thread at a time, so threads search at once without waiting for
each other. A request that could not be sent whole was never read, so it is sent again to the next
process; once it was sent, nobody knows what became of it, and the caller is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

import msgspec

from truespan.adapters.edge import channel
from truespan.adapters.edge.wire import (
    VERSION,
    Hello,
    Refused,
    Reply,
    Request,
    Retiring,
    Welcome,
    as_error,
    decode_reply,
    encode,
)
from truespan.errors import IndexRefused, IndexUnavailable

_ATTEMPTS = 3
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05
_LARGEST_LOG = 1 << 20

if sys.platform == "win32":
    _DETACHED = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _DETACHED = 0


class EdgeLink:
    """Asks the index process of one folder; safe to use from several threads."""

    def __init__(
        self, folder: Path, *, idle_seconds: float, start_timeout: float, request_timeout: float
    ) -> None:
        self._folder = folder
        self._idle_seconds = idle_seconds
        self._start_timeout = start_timeout
        self._request_timeout = request_timeout
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._free: list[Connection] = []
        self._owner = os.getpid()
        self.server = 0
        """The process that the latest connection leads to; another number is another process."""

    def ask(self, request: Request) -> Reply:
        """Return the reply to a request, from a process that is started if need be.

        Raises:
            IndexUnavailable: there is no reply; whether the request was carried out is unknown.
        """
        message = encode(request)
        for _ in range(_ATTEMPTS):
            connection = self._borrow()
            reply = self._exchange(connection, message)
            if reply is not None and not isinstance(reply, Retiring):
                self._give_back(connection)
                return reply
            connection.close()
            self.close()
        raise IndexUnavailable("The index process ended each time it was asked.")

    def has_process(self) -> bool:
        """Say whether a process has published its address, and not taken it back."""
        return channel.published(self._folder) is not None

    def close(self) -> None:
        """Close the connections that nobody uses; the process goes on for others."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _exchange(self, connection: Connection, message: bytes) -> Reply | None:
        """Return the reply; None when the process had gone before it could read the message."""
        try:
            if not _sent(connection, message):
                return None
            return decode_reply(channel.receive(connection, self._request_timeout))
        except BaseException as error:
            # A reply that nobody waited for would be taken for that of the next request.
            connection.close()
            if isinstance(error, BlockingIOError | TimeoutError):
                raise IndexUnavailable("The index process did not answer in time.") from error
            if isinstance(error, OSError | EOFError | msgspec.DecodeError):
                raise IndexUnavailable("The index process went away during a request.") from error
            raise

    def _borrow(self) -> Connection:
        with self._lock:
            if self._owner != os.getpid():
                # After a fork the connections are the parent's: two users would mix up replies.
                self._free, self._owner = [], os.getpid()
            if self._free:
                return self._free.pop()
        return self._open()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            self._free.append(connection)

    def _open(self) -> Connection:
        """Return a new connection, to a process that is started if none answers."""
        deadline = time.monotonic() + self._start_timeout
        process: subprocess.Popen[bytes] | None = None
        pause = _FIRST_PAUSE
        with self._starting:
            while True:
                connection, strange = self._connect()
                if connection is not None:
                    return connection
                if process is None or process.poll() is not None:
                    _judge_end(process, strange)
                    process = self._start()
                if time.monotonic() > deadline:
                    raise IndexUnavailable("The index process did not start in time.")
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _connect(self) -> tuple[Connection | None, bool]:
        """Return a connection if a process answers, and whether one does that has another key."""
        address = channel.published(self._folder)
        if address is None:
            return None, False
        try:
            key = channel.key_of(self._folder)
            connection = channel.connect(address, key, self._start_timeout)
        except channel.Refusal:
            return None, True
        except (OSError, EOFError):
            return None, False
        return self._greeted(connection), False

    def _greeted(self, connection: Connection) -> Connection | None:
        """Return the connection if the process at its end serves our folder and will go on."""
        try:
            connection.send_bytes(encode(Hello(VERSION, channel.identity(self._folder))))
            reply = decode_reply(channel.receive(connection, self._start_timeout))
            if isinstance(reply, Welcome):
                channel.limit_waiting(connection, self._request_timeout)
                self.server = reply.pid
                return connection
        except (OSError, EOFError, msgspec.DecodeError):
            reply = None
        connection.close()
        if isinstance(reply, Refused):
            raise as_error(reply)
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _opened_log(self._folder) as log:
                process = _spawn(self._folder.resolve(), self._idle_seconds, log)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise IndexUnavailable(f"The index process cannot be started: {reason}.") from error
        # Somebody has to take note of its end, or it would stay in the process table.
        threading.Thread(target=process.wait, daemon=True).start()
        return process


def _sent(connection: Connection, message: bytes) -> bool:
    """Send a message whole; False when the process has closed the connection."""
    try:
        connection.send_bytes(message)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _judge_end(process: subprocess.Popen[bytes] | None, strange: bool) -> None:
    """Raise if the end of a process that we started shows that starting it again is no use."""
    if process is None:
        return
    if process.returncode != 0:
        raise IndexUnavailable(
            f"The index process ended with status {process.returncode} when it was started.",
            advice=f"The reason is in '{channel.LOG}' in the index folder.",
        )
    if strange:
        raise IndexRefused(
            "The index process of this folder was started with another key.",
            advice="It ends by itself when it is idle.",
        )


def _spawn(folder: Path, idle_seconds: float, log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start the process on its own: it outlives us, and a Ctrl-C here does not reach it."""
    module = "truespan.adapters.edge.process"
    return subprocess.Popen(
        # -P keeps the current directory off the import path, where anybody may have put modules.
        [sys.executable, "-P", "-m", module, str(folder), str(idle_seconds)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=folder,
        env=os.environ | {"RUST_BACKTRACE": "0"},
        start_new_session=not channel.WINDOWS,
        creationflags=_DETACHED,
    )


def _opened_log(folder: Path) -> BinaryIO:
    path = folder / channel.LOG
    if path.exists() and path.stat().st_size > _LARGEST_LOG:
        os.truncate(path, 0)
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
