"""The process that owns the embedded index of one folder and serves every client on the machine.

    python -m truespan.index.edge.process <index folder> [idle seconds]

Edge lets only one process open a shard and holds the interpreter lock during each call, so only
this process opens the shards. The first client starts the process. It holds the folder's
lock for its lifetime and ends after a time without requests. Its log records starts, stops and
failures, never the content of requests.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from truespan import errors
from truespan.core.disk import FileLock
from truespan.index.edge import channel
from truespan.index.edge.channel import (
    RETIRE,
    VERSION,
    Refused,
    Reply,
    Result,
    Retiring,
    Welcome,
    decode_arguments,
    decode_call,
    decode_hello,
    encode,
    receive,
    reply_for,
)
from truespan.index.edge.shard import Collections, EnginePanicked

_IDLE_SECONDS = 300.0
_FIRST_CLIENT_SECONDS = 10.0
_HANDSHAKE_SECONDS = 30.0
_FAREWELL_SECONDS = 5.0
_TAKEOVER_SECONDS = 20.0
_MAX_WAIT = 3600.0
_PAUSE = 0.01
_ERRORS_LOGGED = 1000
_RETIRED = b"\0"


class Activity:
    """Tracks requests and decides, irrevocably, when the process accepts no more."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._running = 0
        # The client that started the process gets time to connect, however short the idle time.
        self._last = time.monotonic() + max(0.0, _FIRST_CLIENT_SECONDS - idle_seconds)
        self._ending = False
        self._wake, self._wakeup = socket.socketpair()

    def handle_signals(self) -> None:
        """Let `wait` return when the system asks the process to end.

        The signal only wakes `wait` up. A handler that raised could do so inside a lock's own code
        and leave the lock taken.
        """
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def close(self) -> None:
        """Close the sockets that wake `wait` up."""
        self._wake.close()
        self._wakeup.close()

    @contextmanager
    def request(self) -> Iterator[bool]:
        """Count a request while it runs; yields False if it must not be started any more."""
        with self._lock:
            admitted = not self._ending
            self._running += 1
        try:
            yield admitted
        finally:
            with self._lock:
                self._running -= 1
                self._last = time.monotonic()

    def end(self) -> None:
        """Accept no further request, and let `wait` return."""
        with self._lock:
            self._ending = True
        # A full buffer means that it was woken up already.
        with suppress(BlockingIOError):
            self._wake.send(_RETIRED)

    def wait(self) -> str:
        """Return the reason to end, once there is one."""
        while (left := self._seconds_left()) > 0:
            # Checked again after each idle time, since the first request brings the end nearer.
            self._wakeup.settimeout(min(left, max(self._idle_seconds, _PAUSE), _MAX_WAIT))
            with suppress(TimeoutError):
                return "retired" if self._wakeup.recv(1) == _RETIRED else "signal"
        return "idle"

    def _seconds_left(self) -> float:
        with self._lock:
            if self._running:
                return max(self._idle_seconds, _PAUSE)
            left = self._last + self._idle_seconds - time.monotonic()
            # Decided under the lock, so that no request starts between the check and the decision.
            self._ending = self._ending or left <= 0
            return left


class EdgeProcess:
    """Listens, serves each connection in a thread, and answers."""

    def __init__(self, folder: Path, activity: Activity) -> None:
        self._folder = folder
        self._identity = channel.identity(folder)
        self._key = channel.key_of(folder)
        self._collections = Collections(folder)
        self._activity = activity
        self._engine = threading.Lock()
        self._errors = 0
        self._threads: dict[Connection, threading.Thread] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Serve until idle or asked to end, then flush and close everything."""
        self._activity.handle_signals()
        listener, address = channel.listen(self._folder)
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()
        channel.publish(self._folder, address)
        log("start")
        reason = self._activity.wait()
        self._activity.end()
        # The address goes first: new clients then start the next process, which waits for this
        # one's lock.
        channel.withdraw(self._folder)
        listener.close()
        # Running requests finish; requests that arrived after them get `Retiring`.
        with self._lock:
            threads = list(self._threads.values())
            for connection in self._threads:
                channel.refuse_more(connection)
        deadline = time.monotonic() + _FAREWELL_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        try:
            with self._engine:
                self._collections.close()
        except errors.TruespanError as error:
            log(f"close failed: {error.message}")
        log(f"stop: {reason}")

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                connection = listener.accept()
            except OSError:
                # Either the listener was closed because the process ends, or there are no file
                # descriptors left and some may become free.
                time.sleep(_PAUSE)
                continue
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        # Clients are authenticated here and not in the accepting thread, which a silent client
        # would block for all others.
        try:
            channel.admit(connection, self._key, _HANDSHAKE_SECONDS)
            with self._lock:
                self._threads[connection] = threading.current_thread()
            try:
                reply = self._greet(receive(connection))
                connection.send_bytes(encode(reply))
                while isinstance(reply, Welcome):
                    connection.send_bytes(encode(self.answer(receive(connection))))
            finally:
                with self._lock:
                    del self._threads[connection]
        except (OSError, EOFError, channel.Refusal):
            pass  # The client closed the connection or failed to authenticate: no reply is due.
        finally:
            connection.close()

    def _greet(self, message: bytes) -> Reply:
        with self._activity.request() as admitted:
            try:
                hello = decode_hello(message)
            except msgspec.DecodeError:
                return Refused("The index process expects a greeting first.")
        if not admitted or hello.folder != self._identity:
            # The client of a copied folder found the address of the original folder's process.
            return Retiring()
        if hello.version != VERSION:
            return Refused(
                f"The running index process has protocol version {VERSION}, not {hello.version}.",
                advice="It ends when all programs of the other version have ended.",
            )
        return Welcome(os.getpid())

    def answer(self, message: bytes) -> Reply:
        """Return the reply to a call; once the process is ending, no call is started."""
        with self._activity.request() as admitted:
            if not admitted:
                return Retiring()
            try:
                return Result(Raw(encode(self._call(message))))
            except errors.TruespanError as error:
                self._errors += 1
                if self._errors <= _ERRORS_LOGGED:  # A client that retries must not fill the disk.
                    log(f"{error.code}: {error.message}")
                if isinstance(error, EnginePanicked):
                    # A new process reads from disk what this one can no longer trust.
                    self._activity.end()
                    return reply_for(error.reason or error)
                return reply_for(error)
            except Exception as error:
                if known := errors.resource_error(error):
                    return reply_for(known)
                log(f"bug: {type(error).__name__}")
                return Refused(f"An unexpected {type(error).__name__} in the index process.")

    def _call(self, message: bytes) -> Any:
        try:
            call = decode_call(message)
        except msgspec.DecodeError:
            raise errors.IndexRefused("The index process cannot read this request.") from None
        if call.name == RETIRE:
            # Before the reply, so that a copy of the folder made next meets no file that vanishes.
            channel.withdraw(self._folder)
            return self._activity.end()
        arguments = decode_arguments(call)
        with self._engine:
            if call.name in vars(Collections):
                return getattr(self._collections, call.name)(*arguments)
            collection, *others = arguments
            return getattr(self._collections.shard(collection), call.name)(*others)


def main(arguments: Sequence[str]) -> int:
    """Serve the folder unless another process does; return 0 in both cases."""
    folder = Path(arguments[0])
    idle_seconds = float(arguments[1]) if len(arguments) > 1 else _IDLE_SECONDS
    os.umask(0o077)
    lock = FileLock(folder / channel.LOCK)
    try:
        # A holder of the lock without a published address is starting or ending. It is waited for,
        # because its clients need one process or the other.
        deadline = time.monotonic() + _TAKEOVER_SECONDS
        while not lock.acquire():
            if channel.published(folder) is not None or time.monotonic() > deadline:
                return 0
            time.sleep(_PAUSE)
        channel.withdraw(folder)
        EdgeProcess(folder, Activity(idle_seconds)).run()
    except OSError as error:
        log(f"cannot serve: {type(error).__name__}: {error.strerror}")
        match errors.resource_error(error):
            case errors.StorageFull():
                return channel.EXIT_FULL
            case errors.TooManyOpenFiles():
                return channel.EXIT_DESCRIPTORS
            case _:
                return 1
    return 0


def log(event: str) -> None:
    """Write one line to the log, to which the streams of the process are redirected."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    # A full disk takes no log, and must not end the request that is logged.
    with suppress(OSError):
        sys.stderr.write(f"{moment} {os.getpid()} {event}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
