"""Operations of a library for the processes that serve it, among them idempotent requests."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.engine.components import Components
from truespan.errors import (
    Conflict,
    InvalidArgument,
    NotAllowed,
    TruespanError,
)
from truespan.retrieval.query import embed_shown
from truespan.types.ids import hash_text
from truespan.types.job import Job
from truespan.types.scope import OWNER, Verb
from truespan.types.telemetry import CounterName, Request
from truespan.types.token import Principal
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.engine.library import Library
    from truespan.engine.world import World
    from truespan.extensions.proof.types import SignedReceipt
    from truespan.extensions.server.identities import SignIn
    from truespan.types.origin import Result


class LibraryServer:
    """Operations of a library that servers need and users of the library do not."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._components = library._components
        self._authority = library._authority

    def admit(self, secret: str) -> Principal:
        """Return id and authority of a token, of the library or of the identity provider."""
        from truespan.engine.tokens import authenticate

        return authenticate(self._components, self._authority, secret)

    def metrics(self) -> bytes:
        """Return the metrics in the text format of Prometheus; empty if none are collected."""
        if not self._authority.may_observe():
            raise NotAllowed("read the metrics")
        collected = self._components.metrics
        return b"" if collected is None else collected()

    @property
    def sign_in(self) -> SignIn | None:
        """Options with which the page signs people in; None without an identity provider."""
        identities = self._components.identities
        return None if identities is None else identities.sign_in

    def refer_to(self, reference: str) -> World:
        """Return the world with this id or name without looking it up; each of its methods does."""
        return self._library._open(reference)

    def require_key(self) -> None:
        """Raise InvalidConfiguration unless the library can sign."""
        from truespan.extensions.proof.signing import Signer

        Signer(self._components).require_key()

    def sign(self, result: Result) -> SignedReceipt:
        """Return the signed receipt of a result that was just returned, of any world."""
        from truespan.extensions.proof.signing import Signer

        return Signer(self._components).sign(result)

    def count_request(self, token: str, per_minute: int) -> float:
        """Count a request of a token for all processes; return 0 or the seconds to wait."""
        return self._components.store.requests.count_request(token, per_minute)

    def idempotency(self) -> IdempotencyStore:
        """Return a new object that runs requests with an idempotency key, for one process."""
        return IdempotencyStore(self._components)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text by the tokenizer of the library."""
        return self._components.counter.count(text)

    def embed(self, world: World, texts: Sequence[str]) -> list[Vector]:
        """Return vectors of texts as documents of a world get them."""
        scope = world.access.planned_scope()
        if not self._authority.may(Verb.READ, scope.world):
            raise NotAllowed("embed texts")
        hashes = [hash_text(text) for text in texts]
        vectors = embed_shown(self._components, scope, dict(zip(hashes, texts, strict=True)))
        return [vectors[known] for known in hashes]

    def count_bug(self) -> None:
        """Count an unexpected exception that reached an interface."""
        with self._components.observer.request(Request.DOOR) as trace:
            trace.count(CounterName.BUGS)

    def check_ready(self) -> None:
        """Return once store and index have answered."""
        self._components.store.worlds.all(OWNER.narrow(worlds=(), verbs=()))
        self._components.index.collections()

    def resume_waiting(self) -> list[Job]:
        """Resume background jobs whose process is gone, and return them; for a server that starts.

        If several processes do this at once, each job is resumed once. Jobs that were cancelled,
        and jobs whose process crashed too often, are left alone.
        """
        from truespan.engine.worker import resume_waiting

        if self._authority != OWNER:
            raise NotAllowed("resume jobs")
        return resume_waiting(self._components, self._library._scopes())


MAX_UNWRITTEN = 1000
"""Maximum number of results in memory while the store fails; keys of older results stay busy."""


MAX_KEY_LENGTH = 255


class ReplayKey(Struct, frozen=True):
    """An idempotency key of a caller; the same text from two callers is two keys."""

    caller: str
    text: str

    def digest(self) -> bytes:
        """Return the digest under which the request is stored; it does not reveal the key."""
        return self._derived("find", 32)

    def sealed(self, reply: bytes) -> bytes:
        """Encrypt or decrypt a reply, so that only the holder of the key can read it.

        A reply may name something that is deleted later. Each key encrypts a single reply.
        """
        stream = self._derived("seal", len(reply))
        return bytes(byte ^ mask for byte, mask in zip(reply, stream, strict=True))

    def _derived(self, purpose: str, length: int) -> bytes:
        parts = (purpose.encode(), self.caller.encode(), self.text.encode())
        spelled = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hashlib.shake_256(spelled).digest(length)


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
        """Run `work` and return its reply; if the key was used before, return the stored reply.

        `fingerprint` identifies the whole request. Work that raises may be tried again with the
        same key. A reply that cannot be stored now is still returned, and stored before the next
        request with a key.

        Raises:
            Conflict, Conflict: The key belongs to another request, or its request still runs.
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
        claim = store.requests.claim_key(digest, fingerprint, processes.own())
        if claim is None:
            return None
        if claim.fingerprint != fingerprint:
            raise Conflict(code="idempotency_key_reused")
        if claim.reply is not None:
            return key.sealed(claim.reply)
        # A process that died before it stored its reply has not sent it either.
        if processes.is_alive(claim.process) or not store.requests.take_over_key(
            digest, claim.process, processes.own()
        ):
            raise Conflict(code="idempotency_key_busy", retry_after=1.0)
        return None

    def _end(self, digest: bytes, reply: bytes | None) -> None:
        """Store the outcome of a request; if the store fails, keep it in memory.

        The work is done, and an error of the store must not replace an error of the work.
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
            store.requests.release_key(digest, own)
        else:
            store.requests.keep_reply(digest, own, reply)
