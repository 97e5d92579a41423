"""Changes below folders, as the operating system reports them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress

from truespan.ingest.sidecar import SIDECAR_ENDINGS

STEP_MS = 50
CHECK_MS = 500
"""How often it is checked that the folders are still the same ones."""
POLL_SECONDS = 5.0
"""How often the caller has to look where the system reports no changes."""
RETRY_SECONDS = 300.0
"""After this time it is tried again whether the system reports changes."""


class FolderWatcher:
    """Says that something changed below folders. What it was, the caller finds out.

    Where the system cannot report changes, `wait` returns every few seconds. It is used by one
    thread.
    """

    def __init__(self, folders: Sequence[str], is_supported: Callable[[str], bool]) -> None:
        self._folders = tuple(folders)
        self._is_supported = is_supported
        self._events: Generator[Collection[tuple[object, str]], None, None] | None = None
        self._identities: list[tuple[int, int] | None] = []
        self._retry_at = 0.0

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait until something changes, at most so long; True if the caller should look."""
        deadline = time.monotonic() + seconds
        if self._events is None:
            if not self._begin(stop):
                stop.wait(min(seconds, POLL_SECONDS))
            # Something may have changed before the folders were watched.
            return True
        while True:
            # It ends when `stop` is set.
            changes = next(self._events, None)
            if changes is None:
                self.close()
                return False
            # A folder that was replaced, or mounted, is not watched any more.
            roots = any(path in self._folders for _, path in changes)
            if roots or self._identify() != self._identities:
                self.close()
                return True
            if changes:
                return True
            if time.monotonic() >= deadline:
                return False

    def pause(self, seconds: float, stop: threading.Event) -> None:
        """Wait so long, even if something changes."""
        stop.wait(seconds)

    def close(self) -> None:
        """Stop watching; the next `wait` begins again."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def _begin(self, stop: threading.Event) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        from watchfiles import watch

        self._identities = self._identify()
        if None in self._identities:
            return False
        events = watch(
            *self._folders,
            watch_filter=self._matters,
            debounce=STEP_MS,
            step=STEP_MS,
            stop_event=stop,
            rust_timeout=CHECK_MS,
            yield_on_timeout=True,
            # `watchfiles` would compare all files several times a second instead.
            force_polling=False,
            ignore_permission_denied=True,
        )
        try:
            # The folders are watched from the first step on.
            next(events, None)
        except (OSError, RuntimeError):
            self._retry_at = time.monotonic() + RETRY_SECONDS
            return False
        self._events = events
        return True

    def _identify(self) -> list[tuple[int, int] | None]:
        """Return what each folder is on its device; None if it is missing."""
        found: list[tuple[int, int] | None] = []
        for folder in self._folders:
            identity = None
            with suppress(OSError):
                status = os.stat(folder)
                identity = status.st_dev, status.st_ino
            found.append(identity)
        return found

    def _matters(self, _change: object, path: str) -> bool:
        """Say whether a change can concern a source: a file of a kind that is read, or a folder."""
        name = os.path.basename(path)
        if self._is_supported(name) or name.endswith(SIDECAR_ENDINGS) or path in self._folders:
            return True
        # Whether something that is gone was a folder is unknown.
        return os.path.isdir(path) or not os.path.lexists(path)
