"""Changes below folders, as the operating system reports them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

from truespan.errors import InvalidConfiguration
from truespan.ingest.manifest import SIDECAR_ENDINGS
from truespan.parsing import supported

STEP_MS = 50
CHECK_MS = 500
"""Interval for checking that the folders were not replaced."""
POLL_SECONDS = 5.0
"""Interval of scans if the system reports no changes."""
RETRY_SECONDS = 300.0
"""Pause before trying again whether the system reports changes."""


def watch_folders(folders: Sequence[str]) -> FolderWatcher:
    """Return a watcher of folders; raises InvalidConfiguration without `watchfiles`."""
    if find_spec("watchfiles") is None:
        raise InvalidConfiguration(
            "Watching folders needs a package that is missing.",
            advice="Install Truespan with the extra 'watch'.",
        )
    # A run may recognise text even if the setting is off; others find no image.
    return FolderWatcher(folders, partial(supported, ocr=True))


class FolderWatcher:
    """Waits for changes below folders; the caller scans for the changed files.

    If the system cannot report changes, `wait` returns every few seconds. For one thread only.
    """

    def __init__(self, folders: Sequence[str], is_supported: Callable[[str], bool]) -> None:
        self._folders = tuple(folders)
        self._is_supported = is_supported
        self._events: Generator[Collection[tuple[object, str]], None, None] | None = None
        self._identities: list[tuple[int, int] | None] = []
        self._retry_at = 0.0

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        """Wait at most `seconds` for a change; True if the caller should scan."""
        deadline = time.monotonic() + seconds
        if self._events is None:
            if not self._begin(stop):
                stop.wait(min(seconds, POLL_SECONDS))
            # Something may have changed before the folders were watched.
            return True
        while True:
            # The generator ends when `stop` is set.
            changes = next(self._events, None)
            if changes is None:
                self.close()
                return False
            # A folder that was replaced or mounted is no longer watched.
            roots = any(path in self._folders for _, path in changes)
            if roots or self._identify() != self._identities:
                self.close()
                return True
            if changes:
                return True
            if time.monotonic() >= deadline:
                return False

    def pause(self, seconds: float, stop: threading.Event) -> None:
        """Wait `seconds`, even if something changes."""
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
            # Watching begins with the first step.
            next(events, None)
        except (OSError, RuntimeError):
            self._retry_at = time.monotonic() + RETRY_SECONDS
            return False
        self._events = events
        return True

    def _identify(self) -> list[tuple[int, int] | None]:
        found: list[tuple[int, int] | None] = []
        for folder in self._folders:
            identity = None
            with suppress(OSError):
                status = os.stat(folder)
                identity = status.st_dev, status.st_ino
            found.append(identity)
        return found

    def _matters(self, _change: object, path: str) -> bool:
        """Return whether a change can concern a source: a supported file, or a folder."""
        name = os.path.basename(path)
        if self._is_supported(name) or name.endswith(SIDECAR_ENDINGS) or path in self._folders:
            return True
        # A deleted path may have been a folder.
        return os.path.isdir(path) or not os.path.lexists(path)
