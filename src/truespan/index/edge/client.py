"""The embedded index: Qdrant Edge, in a separate process that all programs share."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import msgspec

from truespan import errors
from truespan.core.cancel import check_cancelled
from truespan.core.disk import require_space
from truespan.index.base import IndexCalls, QdrantIndex, collection_of
from truespan.index.edge import channel
from truespan.index.edge.channel import (
    CALLS,
    RETIRE,
    VERSION,
    Hello,
    Refused,
    Reply,
    Result,
    Retiring,
    Welcome,
    decode_reply,
    encode,
    error_from,
    result_decoder,
)
from truespan.index.filters import hits_of
from truespan.types.ids import WorldId
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.types.vectors import Vector

_ATTEMPTS = 3
_FIRST_PAUSE = 0.002
_MAX_PAUSE = 0.05
_MAX_LOG_SIZE = 1 << 20
_MIN_FREE = 1 << 20
"""If less space is free, a process that ended silently had too little."""


# Shared by threads: a connection is taken under a lock and serves one thread until it is returned;
# a second lock starts the process once.
class EdgeLink:
    """Calls the index process of a folder, and starts it if necessary. Threads may share it."""

    def __init__(
        self,
        folder: Path,
        *,
        idle_seconds: float = 300,
        start_timeout: float = 30,
        request_timeout: float = 60,
    ) -> None:
        self._folder = folder
        self._idle_seconds = idle_seconds
        self._start_timeout = start_timeout
        self._request_timeout = request_timeout
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        """The started process, until there is a connection to it."""
        self._free: list[Connection] = []
        self._owner = os.getpid()
        self.server = 0
        """The id of the process at the end of the latest connection."""

    def call(self, name: str, *arguments: Any, sent: Connection | None = None) -> Any:
        """Return the result of a call; `sent` is the connection if it was sent already.

        Raises:
            IndexUnavailable: there is no reply; whether the call was executed is unknown.
            TruespanError: the process refused the call, or failed.
        """
        for _ in range(_ATTEMPTS):
            connection = sent or self._take_free() or self._open()
            # A `Call`, whose arguments are encoded with it.
            message = None if sent else encode((name, arguments))
            reply = self._exchange(connection, message)
            sent = None
            if reply is None or isinstance(reply, Retiring):
                connection.close()
                self.close()
                continue
            with self._lock:
                self._free.append(connection)
            if isinstance(reply, Result):
                return result_decoder(name).decode(reply.value)
            raise error_from(reply)
        raise errors.IndexUnavailable("The index process ended during each of several attempts.")

    def start(self, name: str, *arguments: Any) -> Callable[[], Any]:
        """Send a call and return a function that waits for its result.

        Without a free connection, the call is sent by that function, because a process may have to
        be started. If the function is never called, the connection is closed with the reply unread.
        """
        connection = self._take_free()
        if connection is not None:
            try:
                connection.send_bytes(encode((name, arguments)))
            except OSError:
                connection.close()
                connection = None
        return functools.partial(self.call, name, *arguments, sent=connection)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a call of the index as a method, so that the link implements `IndexCalls`."""
        if name not in CALLS:
            raise AttributeError(name)
        return functools.partial(self.call, name)

    def close(self) -> None:
        """Close the unused connections; the process continues for other clients."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _exchange(self, connection: Connection, message: bytes | None) -> Reply | None:
        """Return the reply; None if the process ended before it could read the message.

        Without a message, return the reply to the one that was sent last.
        """
        try:
            try:
                if message is not None:
                    connection.send_bytes(message)
            except BlockingIOError:
                raise
            except OSError:
                return None
            return decode_reply(channel.receive(connection))
        except BaseException as error:
            # A late reply would be read as the reply to the next request.
            connection.close()
            if isinstance(error, BlockingIOError | TimeoutError):
                raise errors.IndexUnavailable(
                    "The index process did not answer in time."
                ) from error
            if isinstance(error, OSError | EOFError | msgspec.DecodeError):
                # Writing to a memory-mapped file on a full disk kills the process.
                self._require_room()
                raise errors.IndexUnavailable(
                    "The index process ended during a request."
                ) from error
            raise

    def _require_room(self) -> None:
        try:
            require_space(self._folder, _MIN_FREE)
        except errors.StorageFull:
            raise errors.StorageFull from None

    def _take_free(self) -> Connection | None:
        with self._lock:
            if self._owner != os.getpid():
                # After a fork, the connections belong to the parent.
                self._free, self._owner = [], os.getpid()
            return self._free.pop() if self._free else None

    def _open(self) -> Connection:
        with self._starting:
            if self._process is not None and self._process.poll() is not None:
                self._process = None
            waiting, pause = StartWait(self._start_timeout), _FIRST_PAUSE
            while True:
                connection, other_key = self._connect()
                if connection is not None:
                    self._process = None
                    return connection
                # A previous call may have started the process without waiting for it.
                self._process = self._process or self._start()
                if self._process.poll() is not None:
                    code, self._process = self._process.returncode, None
                    _require_good_end(code, other_key=other_key)
                elif failure := waiting.check(self._process.pid):
                    self._require_room()
                    raise failure
                check_cancelled()
                time.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    def _connect(self) -> tuple[Connection | None, bool]:
        """Return a connection to a process that serves our folder and is not ending, if any.

        The second value is whether there is a process with another key.
        """
        address = channel.published(self._folder)
        if address is None:
            return None, False
        try:
            key = channel.key_of(self._folder)
            connection = channel.connect(address, key, self._start_timeout)
        except channel.Refusal:
            return None, True
        except (OSError, EOFError) as error:
            if known := errors.resource_error(error):
                raise known from error
            return None, False
        try:
            connection.send_bytes(encode(Hello(VERSION, channel.identity(self._folder))))
            reply = decode_reply(channel.receive(connection))
            if isinstance(reply, Welcome):
                channel.limit_waiting(connection, self._request_timeout)
                self.server = reply.pid
                return connection, False
        except (OSError, EOFError, msgspec.DecodeError):
            reply = None
        connection.close()
        if isinstance(reply, Refused):
            raise error_from(reply)
        return None, False

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process detached: it outlives us, and a Ctrl-C here does not reach it."""
        module = "truespan.index.edge.process"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = self._folder.resolve()
            path = folder / channel.LOG
            if path.exists() and path.stat().st_size > _MAX_LOG_SIZE:
                os.truncate(path, 0)
            with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as log:
                process = subprocess.Popen(
                    # -P keeps the current directory, with the modules of anyone, off the path.
                    [sys.executable, "-P", "-m", module, str(folder), str(self._idle_seconds)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    env=os.environ | {"RUST_BACKTRACE": "0"},
                    start_new_session=True,
                )
        except OSError as error:
            if known := errors.resource_error(error):
                raise known from error
            reason = error.strerror or type(error).__name__
            raise errors.IndexUnavailable(f"Cannot start the index process: {reason}.") from error
        # Waiting removes it from the process table after its end.
        threading.Thread(target=process.wait, daemon=True).start()
        return process


def _require_good_end(code: int, *, other_key: bool) -> None:
    """Raise an error unless a process ended at its start because another one serves the folder."""
    if code == channel.EXIT_FULL:
        raise errors.StorageFull
    if code == channel.EXIT_DESCRIPTORS:
        raise errors.TooManyOpenFiles
    if code != 0:
        raise errors.IndexUnavailable(
            f"The index process ended at its start with status {code}.",
            advice=f"The reason is in '{channel.LOG}' in the index folder.",
        )
    if other_key:
        raise errors.IndexRefused(
            "The index process of this folder was started with another key.",
            advice="Wait until it is idle and ends, then try again.",
        )


# Shared by threads: collections are only added to the set of prepared ones; preparing one twice
# changes nothing.
class EdgeIndex(QdrantIndex):
    """The index in a folder, reached through the index process that all programs share.

    Nothing is opened or started before the first call. `seconds` are the limits of `EdgeLink`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        reserve: int,
        approximate: frozenset[WorldId] = frozenset(),
        **seconds: float,
    ) -> None:
        super().__init__(approximate)
        self._folder = folder
        self._reserve = reserve
        self._link = EdgeLink(folder, **seconds)

    def _calls(self) -> AbstractContextManager[IndexCalls]:
        return nullcontext(cast("IndexCalls", self._link))

    def _process_id(self) -> int:
        return self._link.server

    def start_search(
        self, scope: Scope, vector: Vector, *, limit: int, floor: float | None
    ) -> Callable[[], list[Hit]]:
        collection = collection_of(scope.profile)
        search = self._search_request(scope, vector, limit, floor)
        if search is None:
            return list
        wait = self._link.start("search", collection, search)
        return lambda: hits_of(wait()[0], collection.distance, floor)

    def retire(self) -> None:
        """End the shared process cleanly if it runs; the next client starts another."""
        if channel.published(self._folder) is not None:
            self._link.call(RETIRE)
        self.close()

    def close(self) -> None:
        """Close the connections; the process ends when it has had no requests for a while."""
        self._link.close()


MAX_FACTOR = 10
"""Multiple of the patience after which a start has failed, even if the process still runs."""
_BUSY = ("R", "D")
"""States of a process that waits for a processor or a disk: a busy machine keeps it waiting."""
_FAULTS, _TICKS = (7, 9), (11, 12)
"""Places of page faults and of processor time among the fields after the name of the program."""


class StartWait:
    """Decides whether a process that was started is still worth waiting for.

    Importing its modules takes half a second on an idle machine, and minutes on a loaded one. It
    ends after `patience` seconds without activity, or after `MAX_FACTOR` times as many in all.
    Where the system does not show what a process does, only the latter counts.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._began = self._active_at = time.monotonic()
        self._seen: tuple[int, ...] = ()

    def check(self, pid: int) -> errors.IndexUnavailable | None:
        """Return the error with which to abandon a process; None while waiting continues."""
        now = time.monotonic()
        found = _activity_of(pid)
        if found is None or found != self._seen or not found:
            self._seen, self._active_at = found or (), now
        if now - self._active_at > self._patience:
            doing = f"did nothing for {now - self._active_at:.0f} s"
        elif now - self._began > MAX_FACTOR * self._patience:
            doing = f"was still starting after {now - self._began:.0f} s"
        else:
            return None
        return errors.IndexUnavailable(
            f"The index process ({pid}) {doing}.",
            advice="The machine may be overloaded. The process is still starting; try again.",
        )


def _activity_of(pid: int) -> tuple[int, ...] | None:
    """Return counters that change while a process does something.

    They are empty while it waits for the machine, and None where they are not known.
    """
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        fields = text.rpartition(")")[2].split()
        if fields[0] in _BUSY:
            return ()
        return tuple(int(fields[place]) for place in (*_FAULTS, *_TICKS))
    return None
