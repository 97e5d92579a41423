"""What requests with an idempotency key were answered."""

from __future__ import annotations

from typing import Protocol

from truespan.model.replay import Claim


class ReplayStore(Protocol):
    """Claims by the digests of their keys. Old ones are forgotten."""

    def claim_key(self, digest: bytes, fingerprint: bytes, process: str) -> Claim | None:
        """Note that a process is at work on a request; None if nobody has claimed the key."""
        ...

    def take_over_key(self, digest: bytes, gone: str, process: str) -> bool:
        """Go on with the claim of a process that is gone; False if somebody else has."""
        ...

    def keep_reply(self, digest: bytes, process: str, reply: bytes) -> None:
        """Keep what a claimed request was answered, sealed."""
        ...

    def release_key(self, digest: bytes, process: str) -> None:
        """Forget a claim of a request that failed: the same may be tried again."""
        ...
