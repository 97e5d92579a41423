"""The signing keys in a file of the library, and the configured one."""

from __future__ import annotations

import os
import secrets
from base64 import b64encode
from pathlib import Path

from truespan.core.disk import FileLock, replace_file
from truespan.errors import InvalidConfiguration, resource_error
from truespan.extensions.proof.statement import SEED_BYTES, KeyRing, SigningKey
from truespan.extensions.proof.types import PublicKey
from truespan.settings import Settings
from truespan.types.token import Secret
from truespan.wiring.storage import SIGNING_KEYS_FILE

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


def open_keys(folder: Path, settings: Settings) -> SigningKeyFile:
    """Return the signing keys of a library."""
    usable = (key.secret for key in settings.keys if key.provider == "signing" and key.enabled)
    return SigningKeyFile(folder / SIGNING_KEYS_FILE, next(usable, None))
