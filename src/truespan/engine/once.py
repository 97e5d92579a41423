"""Doing something once, however often a caller who lost the reply asks for it."""

from __future__ import annotations

from collections.abc import Callable

from truespan.engine.parts import Parts
from truespan.errors import InvalidSettings, KeyBusy, KeyReused
from truespan.model.replay import LONGEST_KEY, ReplayKey


def once(parts: Parts, key: ReplayKey, fingerprint: bytes, work: Callable[[], bytes]) -> bytes:
    """Do the work and return its reply; for a key that was used before, the reply it had then.

    `fingerprint` stands for all of the request. Work that raises has not been done, and may be
    tried again under the same key.

    Raises:
        KeyReused: the key came with another request.
        KeyBusy: the first request with it is still at work.
        InvalidSettings: it is no key.
    """
    _check(key.text)
    store, own, digest = parts.store, parts.processes.own(), key.digest()
    claim = store.claim_key(digest, fingerprint, own)
    if claim is not None:
        if claim.fingerprint != fingerprint:
            raise KeyReused
        if claim.reply is not None:
            return key.sealed(claim.reply)
        # Whoever was at work on it and is gone has told nobody how it ended.
        if parts.processes.is_alive(claim.process) or not store.take_over_key(
            digest, claim.process, own
        ):
            raise KeyBusy
    try:
        reply = work()
    except BaseException:
        store.release_key(digest, own)
        raise
    store.keep_reply(digest, own, key.sealed(reply))
    return reply


def _check(text: str) -> None:
    if not 1 <= len(text) <= LONGEST_KEY or not text.isascii() or not text.isprintable():
        raise InvalidSettings(
            f"An idempotency key has 1 to {LONGEST_KEY} ASCII characters that can be printed."
        )
