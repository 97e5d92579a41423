"""Doing something once, however often a caller who lost the reply asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from truespan.engine.parts import Components
from truespan.errors import InvalidSettings, KeyBusy, KeyReused, TruespanError
from truespan.types.token import LONGEST_KEY, ReplayKey

MOST_UNWRITTEN = 1000
"""How many ends of requests are remembered while the store takes none; older ones stay busy."""


class IdempotencyStore:
    """The keyed requests of this process. Threads may share it."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._unwritten: dict[bytes, bytes | None] = {}
        """Sealed replies that could not be kept; None for a request that failed."""

    def run(self, key: ReplayKey, fingerprint: bytes, work: Callable[[], bytes]) -> bytes:
        """Do the work and return its reply; for a key that was used before, the reply it had then.

        `fingerprint` stands for all of the request. Work that raises has not been done, and may be
        tried again under the same key. A reply that cannot be kept just now is given all the same,
        and kept before the next request with a key.

        Raises:
            KeyReused: the key came with another request.
            KeyBusy: the first request with it is still at work.
            InvalidSettings: it is no key.
        """
        _check(key.text)
        self._catch_up()
        kept = self._claimed(key, fingerprint)
        if kept is not None:
            return kept
        try:
            reply = work()
        except BaseException:
            self._end(key.digest(), None)
            raise
        self._end(key.digest(), key.sealed(reply))
        return reply

    def _claimed(self, key: ReplayKey, fingerprint: bytes) -> bytes | None:
        """Claim a key for this process; return the reply if the request was answered before."""
        store, processes, digest = self._parts.store, self._parts.processes, key.digest()
        claim = store.claim_key(digest, fingerprint, processes.own())
        if claim is None:
            return None
        if claim.fingerprint != fingerprint:
            raise KeyReused
        if claim.reply is not None:
            return key.sealed(claim.reply)
        # Whoever was at work on it and is gone has told nobody how it ended.
        if processes.is_alive(claim.process) or not store.take_over_key(
            digest, claim.process, processes.own()
        ):
            raise KeyBusy
        return None

    def _end(self, digest: bytes, reply: bytes | None) -> None:
        """Write down how a request ended, or remember it: the work is done whatever the store says.

        A failure of its own must not stand in for what the work raised, either.
        """
        try:
            self._write(digest, reply)
        except TruespanError:
            with self._lock:
                self._unwritten[digest] = reply
                if len(self._unwritten) > MOST_UNWRITTEN:
                    self._unwritten.pop(next(iter(self._unwritten)))

    def _catch_up(self) -> None:
        """Write down what the store would not take before."""
        with self._lock:
            for digest, reply in list(self._unwritten.items()):
                try:
                    self._write(digest, reply)
                except TruespanError:
                    return
                del self._unwritten[digest]

    def _write(self, digest: bytes, reply: bytes | None) -> None:
        store, own = self._parts.store, self._parts.processes.own()
        if reply is None:
            store.release_key(digest, own)
        else:
            store.keep_reply(digest, own, reply)


def _check(text: str) -> None:
    if not 1 <= len(text) <= LONGEST_KEY or not text.isascii() or not text.isprintable():
        raise InvalidSettings(
            f"An idempotency key has 1 to {LONGEST_KEY} ASCII characters that can be printed."
        )
