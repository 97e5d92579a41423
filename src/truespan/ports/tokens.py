"""Access tokens as they are kept, and where their secrets come from."""

from __future__ import annotations

from typing import Protocol

from truespan.model.scope import Authority
from truespan.model.token import TokenRecord


class Randomness(Protocol):
    """What nobody can foresee."""

    def fresh_bytes(self, count: int) -> bytes:
        """Return bytes that are fit to be a secret."""
        ...


class TokenStore(Protocol):
    """Tokens and the digests of their secrets; a secret itself never comes here.

    Whoever does not own the whole library is refused with `NotAllowed`.
    """

    def create_token(self, authority: Authority, record: TokenRecord, digest: bytes) -> None:
        """Keep a new token.

        Raises:
            WorldNotFound: one of its worlds is gone; then nothing is kept.
        """
        ...

    def tokens(self, authority: Authority) -> list[TokenRecord]:
        """Return every token, revoked and expired ones too, the oldest first."""
        ...

    def revoke_token(self, authority: Authority, token: str, *, now: float) -> bool:
        """Make a token invalid from now on; False if there is none. The first time stays."""
        ...

    def find_token(self, token: str) -> tuple[TokenRecord, bytes] | None:
        """Return a token with the digest of its secret, for whoever is about to be known by it.

        It is read anew each time: a token that another process has revoked is seen as revoked.
        """
        ...
