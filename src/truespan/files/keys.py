"""Keys in files of a library: signing keys, or the configured one, and the key of the usage log."""

from __future__ import annotations

import hmac
import os
import secrets
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from truespan.core.disk import FileLock, create_once, replace_file
from truespan.errors import InvalidConfiguration, resource_error
from truespan.extensions.proof.statement import SEED_BYTES, KeyRing, SigningKey
from truespan.types.receipt import PublicKey
from truespan.types.token import Secret

_OTHERS = 0o077
"""Permissions of the group and of others."""


# Shared by threads: the keys are replaced by one assignment, when the file has changed.
class SigningKeyFile:
    """The signing keys in a file that only its owner can read.

    A configured key signs instead of the key in the file; its public key is listed last.
    """

    def __init__(self, path: Path, configured: Secret | None = None) -> None:
        self._path = path
        self._configured = SigningKey.from_seed(configured) if configured is not None else None
        self._known: tuple[tuple[int, int], KeyRing, SigningKey | None] | None = None

    def signing_key(self) -> SigningKey | None:
        """Return the key that signs; None if there is none."""
        return self._configured or self._read()[1]

    def public_keys(self) -> tuple[PublicKey, ...]:
        """Return all public keys, the oldest first."""
        public = self._read()[0].public
        if self._configured is None:
            return public
        own = self._configured.public
        return (*(key for key in public if key.key_id != own.key_id), own)

    def rotate(self, now: str) -> None:
        """Create a key that signs from now on. The private key before it is dropped."""
        if self._configured is not None:
            raise InvalidConfiguration(
                "The signing key is configured, so it is not kept in the library.",
                advice="Replace TRUESPAN_RECEIPT_SIGNING_KEY, or the entry of [[keys]].",
            )
        seed = Secret(b64encode(secrets.token_bytes(SEED_BYTES)).decode())
        try:
            with FileLock(self._path.with_name(f"{self._path.name}.lock")):
                replace_file(self._path, self._read()[0].rotate(seed, now).to_json())
        except OSError as error:
            refusal = InvalidConfiguration(f"The key file {self._path.name} cannot be written.")
            raise resource_error(error) or refusal from None

    def _read(self) -> tuple[KeyRing, SigningKey | None]:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return KeyRing(), None
        state = found.st_mtime_ns, found.st_ino
        if self._known is not None and self._known[0] == state:
            return self._known[1:]
        if found.st_mode & _OTHERS:
            raise InvalidConfiguration(
                f"Others may read the key file {self._path.name}.",
                advice=f"Run 'chmod 600 {self._path.name}', and rotate the key.",
            )
        try:
            ring = KeyRing.from_json(self._path.read_bytes(), self._path.name)
        except OSError as error:
            refusal = InvalidConfiguration(f"The key file {self._path.name} cannot be read.")
            raise resource_error(error) or refusal from None
        self._known = state, ring, ring.signing_key()
        return self._known[1:]


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
