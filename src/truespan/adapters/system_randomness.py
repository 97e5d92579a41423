"""The machine's source of secrets."""

from __future__ import annotations

import secrets


class SystemRandomness:
    """Bytes of the operating system's generator."""

    def fresh_bytes(self, count: int) -> bytes:
        """Return bytes that are fit to be a secret."""
        return secrets.token_bytes(count)
