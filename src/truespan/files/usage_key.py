"""The key that stands between queries and the usage log."""

from __future__ import annotations

import errno
import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

from truespan.errors import InvalidConfiguration, StorageFull

_LEAST_BYTES = 32


class UsageKey:
    """Marks queries with a key that lies in a file of its own; made when it is first needed.

    Equal queries of a world get equal marks, so that they can be counted. Whoever has the log and
    not the key cannot try out which query it was.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = b""

    def mark(self, world: str, query: str) -> str:
        """Return the keyed hash of a query in a world.

        Raises:
            InvalidConfiguration: the key cannot be read, or is too short to be one.
            StorageFull: there is none yet, and no room for one.
        """
        self._key = self._key or self._read()
        spelled = f"{len(world)}:{world}{query}".encode(errors="replace")
        return f"hmac-sha256:{hmac.new(self._key, spelled, sha256).hexdigest()}"

    def _read(self) -> bytes:
        try:
            if not self._path.exists():
                self._make()
            key = self._path.read_bytes().strip()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(0, _LEAST_BYTES) from None
            raise InvalidConfiguration(f"The key file {self._path.name} cannot be read.") from None
        if len(key) < _LEAST_BYTES:
            raise InvalidConfiguration(
                f"The key file {self._path.name} holds no key.",
                advice="Remove it, and another key is made; old and new marks then differ.",
            )
        return key

    def _make(self) -> None:
        """Write a new key whole and give it its name; a key that came first stays."""
        draft = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_hex(32).encode())
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, self._path)
        except FileExistsError:
            return
        finally:
            draft.unlink()
