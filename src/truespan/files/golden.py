"""Files of golden queries on disk: read with a limit, changed in one step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from truespan.errors import SourceMissing, SourceUnreadable
from truespan.files.jail import displayed, read_file

MAX_GOLDEN_BYTES = 64 << 20
_ATTEMPTS, _PAUSE = 40, 0.05


class GoldenFolder:
    """Reads and changes files of golden queries wherever the caller says they are."""

    def __init__(self, *, attempts: int = _ATTEMPTS) -> None:
        self._attempts = attempts

    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return read_file(path, displayed(path), jailed=False, max_bytes=MAX_GOLDEN_BYTES)

    def change(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Put what `change` makes of a file's bytes in its place.

        The new file is written beside the old one under a name that only one writer can have, so
        that writers take turns, and then takes its place.
        """
        # A link stays a link: what it leads to is changed.
        place = os.path.realpath(path)
        aside = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.new")
        file = self._taken(aside, displayed(path))
        try:
            with os.fdopen(file, "wb") as written:
                written.write(change(self._content(place)))
                written.flush()
                os.fsync(written.fileno())
            _keep_mode(place, aside)
            os.replace(aside, place)
        except BaseException as error:
            with suppress(OSError):
                os.remove(aside)
            if isinstance(error, OSError):
                raise _unwritable(displayed(path)) from None
            raise

    def _taken(self, aside: str, name: str) -> int:
        for attempt in range(self._attempts):
            try:
                return os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                if attempt + 1 < self._attempts:
                    time.sleep(_PAUSE)
            except OSError:
                raise _unwritable(name) from None
        raise SourceUnreadable(
            name,
            advice=f"Somebody is changing it. If nobody is, remove {displayed(aside)}.",
        )

    def _content(self, place: str) -> bytes:
        try:
            return self.read(place)
        except SourceMissing:
            return b""


def _keep_mode(place: str, aside: str) -> None:
    """Give the new file the permissions of the old one, where there is one."""
    with suppress(FileNotFoundError):
        os.chmod(aside, os.stat(place).st_mode & 0o7777)


def _unwritable(name: str) -> SourceUnreadable:
    return SourceUnreadable(name, advice="Check that its folder is there and may be written.")
