"""Files of golden queries, which people write and the engine adds to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class GoldenFiles(Protocol):
    """Reads files of golden queries, and changes them whole."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            SourceRefused: it is missing, too large, or cannot be read.
        """
        ...

    def change(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Put what `change` makes of a file's bytes in its place; of no bytes where there is none.

        Nobody ever sees half of it, and of two changes at once neither is lost.

        Raises:
            SourceRefused: it cannot be read or written.
        """
        ...
