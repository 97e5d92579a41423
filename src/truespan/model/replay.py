"""Requests that are safe to repeat: what is known of one by its idempotency key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

KEPT_SECONDS = 24 * 3600
"""How long a reply is given again to whoever repeats the request."""
LONGEST_KEY = 255


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that came with a key. Without a reply it is at work, in `process`."""

    fingerprint: bytes
    process: str
    reply: bytes | None


@dataclass(frozen=True, slots=True)
class ReplayKey:
    """An idempotency key of one caller. Two callers who chose the same word have two keys."""

    caller: str
    text: str

    def digest(self) -> bytes:
        """Return what the request is found by again; it does not tell the key."""
        return self._derived("find", 32)

    def sealed(self, reply: bytes) -> bytes:
        """Return a reply so that only whoever has the key can read it; twice is undone.

        A reply may name what is deleted later. Each key seals one reply and no more.
        """
        stream = self._derived("seal", len(reply))
        return bytes(one ^ other for one, other in zip(reply, stream, strict=True))

    def _derived(self, purpose: str, length: int) -> bytes:
        parts = (purpose.encode(), self.caller.encode(), self.text.encode())
        spelled = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hashlib.shake_256(spelled).digest(length)
