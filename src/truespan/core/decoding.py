"""Types prepared for msgspec before several threads decode into them.

msgspec builds its description of a record at the first use and publishes it before it is complete.
A second thread that decodes the same record meanwhile reads a null pointer, which ends the process.
"""

from __future__ import annotations

from threading import RLock
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")

_LOCK = RLock()
# Shared by threads: changed only under the lock; a type is added after it is complete.
_PREPARED: set[Any] = set()


def prepare(kind: Kind) -> Kind:
    """Return a type once msgspec knows it completely; every type to decode into passes here."""
    if kind not in _PREPARED:
        with _LOCK:
            msgspec.json.Decoder(kind)
            _PREPARED.add(kind)
    return kind
