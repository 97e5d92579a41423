"""The key of the usage log, in a file of the library."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from pathlib import Path

from truespan.core.disk import create_once
from truespan.errors import InvalidConfiguration, resource_error

_MIN_BYTES = 32


# Shared by threads: two threads that read the key at once read the same file.
class UsageKey:
    """Hashes queries with a key in a file, which is created when first needed.

    Equal queries of a world have equal hashes, so that they can be counted. Without the key,
    queries cannot be guessed from the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""

    def mark(self, world: str, query: str) -> str:
        """Return the keyed hash of a query in a world."""
        self._key = self._key or self._load()
        message = f"{len(world)}:{world}{query}".encode(errors="replace")
        return f"hmac-sha256:{hmac.new(self._key, message, sha256).hexdigest()}"

    def _load(self) -> bytes:
        try:
            if not self._path.exists():
                create_once(self._path, secrets.token_hex(32).encode())
            key = self._path.read_bytes().strip()
        except OSError as error:
            refusal = InvalidConfiguration(f"The key file {self._path.name} cannot be read.")
            raise resource_error(error) or refusal from None
        if len(key) < _MIN_BYTES:
            raise InvalidConfiguration(
                f"The key file {self._path.name} contains no key.",
                advice="Remove it to create a new key; old and new hashes then differ.",
            )
        return key
