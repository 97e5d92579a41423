"""Files of golden queries: read with a size limit, replaced atomically."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from truespan.errors import SourceMissing, SourceUnreadable, resource_error
from truespan.files.jail import read_file
from truespan.types.source import display_path

MAX_GOLDEN_BYTES = 64 << 20
_ATTEMPTS, _PAUSE = 40, 0.05


class GoldenFolder:
    """Reads and changes files of golden queries at any path."""

    def __init__(self, *, attempts: int = _ATTEMPTS) -> None:
        self._attempts = attempts

    def read(self, path: str) -> bytes:
        return read_file(path, display_path(path), jailed=False, max_bytes=MAX_GOLDEN_BYTES)

    def change(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Replace the bytes of a file with the result of `change`.

        The new file is written beside the old one, under a name that only one writer can create at
        a time, and then replaces it.
        """
        # A link stays a link: its target is changed.
        place = os.path.realpath(path)
        new = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.new")
        file = self._create(new, display_path(path))
        try:
            with os.fdopen(file, "wb") as written:
                content = b""
                with suppress(SourceMissing):
                    content = self.read(place)
                written.write(change(content))
                written.flush()
                os.fsync(written.fileno())
            # The new file has the permissions of the old one, if there is one.
            with suppress(FileNotFoundError):
                os.chmod(new, os.stat(place).st_mode & 0o7777)
            os.replace(new, place)
        except BaseException as error:
            with suppress(OSError):
                os.remove(new)
            if isinstance(error, OSError):
                raise resource_error(error) or _unwritable(display_path(path)) from None
            raise

    def _create(self, new: str, name: str) -> int:
        for attempt in range(self._attempts):
            try:
                return os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                if attempt + 1 < self._attempts:
                    time.sleep(_PAUSE)
            except OSError as error:
                raise resource_error(error) or _unwritable(name) from None
        raise SourceUnreadable(
            name, advice=f"Another process is changing it. If none is, remove {display_path(new)}."
        )


def _unwritable(name: str) -> SourceUnreadable:
    return SourceUnreadable(name, advice="Check that its folder exists and is writable.")
