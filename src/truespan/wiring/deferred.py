"""Parts of a library that are created, with their imports, when first used."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, cast

T = TypeVar("T")


def defer(make: Callable[[], T]) -> T:
    """Return a proxy of the object that `make` returns; `make` is called once, when needed."""
    return cast("T", _Deferred(make))


# Shared by threads: the part that it stands for is created under a lock, once.
class _Deferred:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._making = Lock()
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            with self._making:
                if self._made is None:
                    self._made = self._make()
        return getattr(self._made, name)

    def close(self) -> None:
        """Close the object if it was created."""
        if self._made is not None:
            self._made.close()
