"""The process that owns the embedded index of one folder and serves every client on the machine.

    python -m truespan.index.edge.process <index folder> [idle seconds]

Edge lets one process open a shard and holds the interpreter during each call, so the shards live
here and nowhere else. The process is started by whichever client comes first, holds the folder's
lock for its lifetime, and ends by itself when nobody has asked for anything for a while. Its log
says when it started and stopped and what failed, never what it was asked.
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

import msgspec

from truespan.errors import TruespanError
from truespan.files.disk import FileLock
from truespan.index.edge import channel
from truespan.index.edge.messages import (
    VERSION,
    Done,
    Hello,
    Refused,
    Reply,
    Request,
    Retire,
    Retiring,
    Welcome,
    decode_request,
    encode,
    problem,
)
from truespan.index.edge.shard import Collections, EnginePanicked

_IDLE_SECONDS = 300.0
_FIRST_CLIENT_SECONDS = 10.0
_HANDSHAKE_SECONDS = 5.0
_FAREWELL_SECONDS = 5.0
_TAKEOVER_SECONDS = 20.0
_LONGEST_WAIT = 3600.0
_PAUSE = 0.01
_ERRORS_LOGGED = 1000
_RETIRED = b"\0"


class Activity:
    """Knows when the last request was, and decides once and for all when there will be no more."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._running = 0
        # Whoever started the process is on its way, however short the idle time is.
        self._last = time.monotonic() + max(0.0, _FIRST_CLIENT_SECONDS - idle_seconds)
        self._ending = False
        self._bell, self._ear = socket.socketpair()

    def obey_signals(self) -> None:
        """Let `wait` return when the system asks the process to end.

        The signal only rings the bell. A handler that raised could do so inside a lock's own code
        and leave the lock taken.
        """
        self._bell.setblocking(False)
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def close(self) -> None:
        """Put the bell away."""
        self._bell.close()
        self._ear.close()

    @contextmanager
    def request(self) -> Iterator[bool]:
        """Count a request while it runs; gives False when it must not be begun any more."""
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
        """Begin no further request, and let `wait` return."""
        with self._lock:
            self._ending = True
        # A full buffer means that the bell has been rung.
        with suppress(BlockingIOError):
            self._bell.send(_RETIRED)

    def wait(self) -> str:
        """Return, with the reason, once there is nothing more to do."""
        while (left := self._left()) > 0:
            # Looked at again after each idle time, since the first request brings the end nearer.
            self._ear.settimeout(min(left, max(self._idle_seconds, _PAUSE), _LONGEST_WAIT))
            with suppress(TimeoutError):
                return "retired" if self._ear.recv(1) == _RETIRED else "signal"
        return "idle"

    def _left(self) -> float:
        with self._lock:
            if self._running:
                return max(self._idle_seconds, _PAUSE)
            left = self._last + self._idle_seconds - time.monotonic()
            # Decided under the lock, so that no request begins between the look and the decision.
            self._ending = self._ending or left <= 0
            return left


class EdgeProcess:
    """Listens, gives each connection a thread, and answers."""

    def __init__(self, folder: Path, activity: Activity) -> None:
        self._folder = folder
        self._identity = channel.identity(folder)
        self._key = channel.key_of(folder)
        self._collections = Collections(folder)
        self._activity = activity
        self._errors = 0
        self._threads: dict[Connection, threading.Thread] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Serve until idle or told to end, then leave everything flushed and closed."""
        self._activity.obey_signals()
        listener, address = channel.listen(self._folder)
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()
        channel.publish(self._folder, address)
        log("start")
        reason = self._activity.wait()
        self._leave(listener)
        log(f"stop: {reason}")

    def _leave(self, listener: Listener) -> None:
        self._activity.end()
        # The address goes first: clients that come now start the next process, which waits for
        # this one's lock.
        channel.withdraw(self._folder)
        listener.close()
        self._finish_conversations()
        try:
            self._collections.close()
        except TruespanError as error:
            log(f"close failed: {error.message}")

    def _finish_conversations(self) -> None:
        """Let requests under way end; what has arrived after them is answered with "retiring"."""
        with self._lock:
            threads = list(self._threads.values())
            for connection in self._threads:
                channel.refuse_more(connection)
        deadline = time.monotonic() + _FAREWELL_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self, listener: Listener) -> None:
        while True:
            try:
                connection = listener.accept()
            except OSError:
                # Either the listener was closed, and the process is about to end, or there is no
                # descriptor left for one more client, and one may come free.
                time.sleep(_PAUSE)
                continue
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        # The proof of identity is here and not in the accepting thread, which a client that says
        # nothing would hold up for everybody.
        try:
            channel.admit(connection, self._key, _HANDSHAKE_SECONDS)
            with self._registered(connection):
                self._converse(connection)
        except (OSError, EOFError, channel.Refusal):
            pass  # It went away, or was not let in: either way there is nobody left to tell.
        finally:
            connection.close()

    @contextmanager
    def _registered(self, connection: Connection) -> Iterator[None]:
        with self._lock:
            self._threads[connection] = threading.current_thread()
        try:
            yield
        finally:
            with self._lock:
                del self._threads[connection]

    def _converse(self, connection: Connection) -> None:
        reply = self._greet(channel.receive(connection))
        connection.send_bytes(encode(reply))
        while isinstance(reply, Welcome):
            connection.send_bytes(encode(self.answer(channel.receive(connection))))

    def _greet(self, message: bytes) -> Reply:
        with self._activity.request() as admitted:
            hello = _decoded(message)
        if not isinstance(hello, Hello):
            return Refused("The index process expects to be greeted first.")
        if not admitted or hello.folder != self._identity:
            # The client of a copied folder found the address of the original: not for us.
            return Retiring()
        if hello.version != VERSION:
            return Refused(
                f"The running index process speaks version {VERSION}, not {hello.version}.",
                advice="It ends when all programs of the other version have.",
            )
        return Welcome(os.getpid())

    def answer(self, message: bytes) -> Reply:
        """Return the reply to a request; once the process is ending, nothing is begun any more."""
        with self._activity.request() as admitted:
            if not admitted:
                return Retiring()
            try:
                return self._do(_decoded(message))
            except TruespanError as error:
                self._note(error)
                return problem(error)
            except Exception as error:
                log(f"bug: {type(error).__name__}")
                return Refused(f"An unexpected {type(error).__name__} in the index process.")

    def _do(self, request: Request | None) -> Reply:
        match request:
            case None:
                return Refused("The index process cannot read this request.")
            case Retire():
                self._activity.end()
                return Done()
            case _:
                return self._collections.answer(request)

    def _note(self, error: TruespanError) -> None:
        self._errors += 1
        if self._errors <= _ERRORS_LOGGED:  # a client that tries for ever must not fill the disk
            log(f"{error.code}: {error.message}")
        if isinstance(error, EnginePanicked):
            # A fresh process reads from disk what this one can no longer vouch for.
            self._activity.end()


def main(arguments: Sequence[str]) -> int:
    """Serve the folder unless another process does; the status is 0 in both cases."""
    folder = Path(arguments[0])
    idle_seconds = float(arguments[1]) if len(arguments) > 1 else _IDLE_SECONDS
    os.umask(0o077)
    lock = FileLock(folder / channel.LOCK)
    try:
        if _taken_over(lock, folder):
            channel.withdraw(folder)
            EdgeProcess(folder, Activity(idle_seconds)).run()
    except OSError as error:
        log(f"cannot serve: {type(error).__name__}: {error.strerror}")
        return 1
    return 0


def _taken_over(lock: FileLock, folder: Path) -> bool:
    """Take the lock; give up as soon as the process that holds it is ready for clients.

    A holder that has published no address is about to start or about to end: that one is waited
    for, so that its clients are not left with nobody.
    """
    deadline = time.monotonic() + _TAKEOVER_SECONDS
    while not lock.acquire():
        if channel.published(folder) is not None or time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def _decoded(message: bytes) -> Request | None:
    try:
        return decode_request(message)
    except msgspec.DecodeError:
        return None


def log(event: str) -> None:
    """Write one line to the log, which is where the streams of the process lead."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{moment} {os.getpid()} {event}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
