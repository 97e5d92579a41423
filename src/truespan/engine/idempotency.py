"""Idempotency keys: run a request once, however often a caller repeats it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from truespan.engine.components import Components
from truespan.errors import InvalidArgument, KeyBusy, KeyReused, TruespanError
from truespan.types.token import MAX_KEY_LENGTH, ReplayKey

MAX_UNWRITTEN = 1000
"""Maximum number of results in memory while the store fails; keys of older results stay busy."""


# Shared by threads: replies that could not be stored are changed under a lock, which is held while
# they are stored.
class IdempotencyStore:
    """Requests of this process with an idempotency key. Threads may share the object."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._lock = threading.Lock()
        self._unwritten: dict[bytes, bytes | None] = {}
        """Sealed replies that could not be stored; None for a request that failed."""

    def run(self, key: ReplayKey, fingerprint: bytes, work: Callable[[], bytes]) -> bytes:
        """Run `work` once for a key and return its reply; see `LibraryServer.run_idempotent`.

        `fingerprint` identifies the whole request. Work that raises may be tried again with the
        same key. A reply that cannot be stored now is still returned, and stored before the next
        request with a key.
        """
        text = key.text
        if not 1 <= len(text) <= MAX_KEY_LENGTH or not text.isascii() or not text.isprintable():
            raise InvalidArgument(
                f"An idempotency key has 1 to {MAX_KEY_LENGTH} printable ASCII characters."
            )
        self._write_remembered()
        stored = self._claim(key, fingerprint)
        if stored is not None:
            return stored
        try:
            reply = work()
        except BaseException:
            self._end(key.digest(), None)
            raise
        self._end(key.digest(), key.sealed(reply))
        return reply

    def _claim(self, key: ReplayKey, fingerprint: bytes) -> bytes | None:
        """Claim a key for this process; return the stored reply if there is one."""
        store, processes, digest = self._components.store, self._components.processes, key.digest()
        claim = store.claim_key(digest, fingerprint, processes.own())
        if claim is None:
            return None
        if claim.fingerprint != fingerprint:
            raise KeyReused
        if claim.reply is not None:
            return key.sealed(claim.reply)
        # A process that died before it stored its reply has not sent it either.
        if processes.is_alive(claim.process) or not store.take_over_key(
            digest, claim.process, processes.own()
        ):
            raise KeyBusy
        return None

    def _end(self, digest: bytes, reply: bytes | None) -> None:
        """Store the outcome of a request; if the store fails, keep it in memory.

        The work is done, and an error of the store must not replace what the work raised.
        """
        try:
            self._write(digest, reply)
        except TruespanError:
            with self._lock:
                self._unwritten[digest] = reply
                if len(self._unwritten) > MAX_UNWRITTEN:
                    self._unwritten.pop(next(iter(self._unwritten)))

    def _write_remembered(self) -> None:
        with self._lock:
            for digest, reply in list(self._unwritten.items()):
                try:
                    self._write(digest, reply)
                except TruespanError:
                    return
                del self._unwritten[digest]

    def _write(self, digest: bytes, reply: bytes | None) -> None:
        store, own = self._components.store, self._components.processes.own()
        if reply is None:
            store.release_key(digest, own)
        else:
            store.keep_reply(digest, own, reply)
