"""Documents in step with folders: changes below the folders become jobs, one at a time.

Events of the operating system only trigger a scan. A scan lists the folders, as an ingestion does,
and compares size and time of each file with the last job, so missed or merged events do not matter.
A change counts once two scans in a row have seen the same: a save that writes a second file and
renames it is one change, and a file that is still growing is waited for.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Protocol, Unpack

from msgspec import Struct, field

from truespan.engine.ingestion import Ingestion, OnProgress, OnPrune
from truespan.errors import (
    Cancelled,
    InternalError,
    Interrupted,
    InvalidArgument,
    NotAllowed,
    TruespanError,
    resource_error,
)
from truespan.ingest import requests
from truespan.ingest.manifest import SIDECAR_ENDINGS
from truespan.ingest.report import IngestReport
from truespan.ingest.requests import Choice, IngestRequest
from truespan.protocols import Clock
from truespan.types.job import IngestJob, Paths
from truespan.types.source import IngestArguments

if TYPE_CHECKING:
    from truespan.engine.documents import Documents
    from truespan.types.source import Source

SETTLE_SECONDS = 1.0
"""Seconds between two scans that must see the same state."""
MAX_SCANS = 10
"""Maximum number of scans that wait for files to settle; then the settled files are ingested."""
SCAN_SECONDS = 60.0
"""Maximum seconds between scans, because not every file system reports every change."""
MIN_IDLE_FACTOR = 50
"""Minimum idle time between scans, as a multiple of the scan's duration."""
FIRST_PAUSE = 1.0
MAX_PAUSE = 60.0
"""First and maximum pause after errors; each pause is twice the previous pause."""
FIRST_RETRY = 60.0
MAX_RETRY = 3600.0
"""First and maximum pause before a refused file is tried again; a change of the file ends it."""

OnError = Callable[[TruespanError, float], None]
"""Function that receives an error of a watch and the seconds until the next attempt."""

_log = logging.getLogger("truespan.watch")
_log.addHandler(logging.NullHandler())


class FolderWatcher(Protocol):
    """Watcher of changes below folders."""

    def wait(self, seconds: float, stop: Event) -> bool: ...
    def pause(self, seconds: float, stop: Event) -> None: ...
    def close(self) -> None: ...


class _Refusal(Struct, frozen=True):
    """A file that failed: its stamp, the time of the next attempt, and the last pause."""

    stamp: object
    due: float
    pause: float


class _Look(Struct, frozen=True):
    changed: Mapping[str, object]
    """The stamps of files to ingest, by path."""
    missing: frozenset[str]
    """The ids of documents whose files are gone."""
    lost: frozenset[str]
    """The paths of files that are gone since the last job."""
    seconds: float

    @property
    def is_empty(self) -> bool:
        return not (self.changed or self.missing)


class Watch(Struct):
    """An iterator that keeps a world in step with folders.

    Each step waits for changes, ingests them as a job, and gives its report. `stop`, from any
    thread or a signal handler, ends the iteration; a running job is interrupted before its next
    step. Iterate from one thread.
    """

    jobs: Callable[[], Ingestion]
    request: IngestRequest
    watcher: FolderWatcher
    clock: Clock
    finish: Callable[[], object]
    settle_seconds: float = SETTLE_SECONDS
    on_error: OnError | None = None
    on_progress: OnProgress | None = None
    on_prune: OnPrune | None = None
    stopped: Event = field(default_factory=Event)
    state: _State = field(default_factory=lambda: _State())

    def __iter__(self) -> Iterator[IngestReport]:
        return self

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stop(self) -> None:
        """End the iteration; a second call does nothing."""
        self.stopped.set()

    def close(self) -> None:
        """Stop, and stop watching; for the thread that iterates."""
        self.stop()
        self.watcher.close()

    def __next__(self) -> IngestReport:
        """Return the report of the next job.

        Raises:
            StopIteration: the watch was stopped.
        """
        while not self.stopped.is_set():
            report = self._try(self._step)
            if report is not None:
                return report
        self.close()
        raise StopIteration

    def _step(self) -> IngestReport | None:
        """Scan, and run a job if changes have settled; otherwise wait and return None."""
        jobs = self.jobs()
        look = self._look(jobs)
        choice = self.state.settle(look)
        if choice is None:
            if look.is_empty:
                pause = max(SCAN_SECONDS, MIN_IDLE_FACTOR * look.seconds)
                self.watcher.wait(self.state.pause(self.clock.monotonic(), pause), self.stopped)
            else:
                self.watcher.pause(self.settle_seconds, self.stopped)
            return None
        try:
            report = jobs.run(
                self.request,
                on_progress=self.on_progress,
                on_prune=self.on_prune,
                choice=choice,
                stopping=self.stopped.is_set,
            )
        except Cancelled:
            # A cancelled job begins again only when a file changes.
            self.state.finish(look, choice, self.clock.monotonic())
            raise
        self.state.finish(look, choice, self.clock.monotonic())
        self.finish()
        return report

    def _look(self, jobs: Ingestion) -> _Look:
        began, state = self.clock.monotonic(), self.state
        found = requests.find_sources(jobs.deps, jobs.scope, self.request, open_files=False)
        stamps = {source.path: _stamp(source) for source in found}
        missing: frozenset[str] = frozenset()
        lost = frozenset(state.done.keys() - stamps.keys())
        # All documents are compared with the folders once, later only if a file is gone.
        if lost or not state.begun:
            removed = requests.find_removed(jobs.deps, jobs.scope, self.request, found)
            missing = frozenset(document.doc_id for document in removed)
        if not missing:
            # A file that was refused, or whose document was deleted, leaves no document to remove.
            state.forget(lost)
        now = self.clock.monotonic()
        changed = {path: stamp for path, stamp in stamps.items() if state.is_due(path, stamp, now)}
        return _Look(changed, missing, lost, now - began)

    def _try(self, step: Callable[[], IngestReport | None]) -> IngestReport | None:
        try:
            report = step()
        except Cancelled as error:
            self._tell(error, 0.0)
            return None
        except Interrupted:
            # By Ctrl-C, unless the watch was stopped.
            if self.stopped.is_set():
                return None
            raise
        # A watch continues if one job fails.
        except Exception as error:
            known = error if isinstance(error, TruespanError) else resource_error(error)
            if known is None:
                known = InternalError(type(error).__name__)
                _log.exception("A step of a watch failed.")
            self.state.failures += 1
            pause = min(FIRST_PAUSE * 2 ** (self.state.failures - 1), MAX_PAUSE)
            pause = max(pause, getattr(known, "retry_after", None) or 0.0)
            self._tell(known, pause)
            self.watcher.pause(pause, self.stopped)
            return None
        self.state.failures = 0
        return report

    def _tell(self, error: TruespanError, pause: float) -> None:
        _log.warning("%s; next attempt in %.0f s", error.code, pause)
        if self.on_error is not None:
            self.on_error(error, pause)


class _State(Struct):
    done: dict[str, object] = field(default_factory=dict)
    """The stamps with which files were ingested, by path."""
    refused: dict[str, _Refusal] = field(default_factory=dict)
    seen: _Look | None = None
    looks: int = 0
    begun: bool = False
    failures: int = 0

    def is_due(self, path: str, stamp: object, now: float) -> bool:
        refusal = self.refused.get(path)
        if refusal is not None and refusal.stamp == stamp:
            return refusal.due <= now
        return self.done.get(path) != stamp

    def settle(self, look: _Look) -> Choice | None:
        """Return the changes that two scans in a row have seen; None if another scan is needed."""
        seen, self.seen = self.seen, look
        if look.is_empty:
            self.begun, self.looks = True, 0
            return None
        if not self.begun:
            # The first job takes all files. A file that is still growing changes, and is ingested
            # again.
            return Choice(frozenset(look.changed), look.missing)
        self.looks += 1
        if seen is None:
            return None
        settled = {path for path, stamp in look.changed.items() if seen.changed.get(path) == stamp}
        gone = look.missing & seen.missing
        complete = len(settled) == len(look.changed) and gone == look.missing
        if (complete or self.looks >= MAX_SCANS) and (settled or gone):
            return Choice(frozenset(settled), gone)
        return None

    def finish(self, look: _Look, choice: Choice, now: float) -> None:
        """Record that a job ingested the chosen files, except for those that failed."""
        self.begun, self.looks, self.seen = True, 0, None
        if choice.missing == look.missing:
            self.forget(look.lost)
        for path in choice.files:
            stamp, before = look.changed[path], self.refused.pop(path, None)
            self.done[path] = stamp
            if path in choice.failed:
                again = before if before is not None and before.stamp == stamp else None
                pause = min(2 * again.pause, MAX_RETRY) if again else FIRST_RETRY
                self.refused[path] = _Refusal(stamp, now + pause, pause)

    def pause(self, now: float, longest: float) -> float:
        """Return the seconds until the next step, unless something changes."""
        due = min((refusal.due for refusal in self.refused.values()), default=now + longest)
        return min(max(due - now, 0.0), longest)

    def forget(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.done.pop(path, None)
            self.refused.pop(path, None)


def _stamp(source: Source) -> object:
    """Return a value that changes with a file or its sidecar: sizes, times and inodes."""
    stamps: list[tuple[int, ...] | None] = []
    for ending in ("", *SIDECAR_ENDINGS):
        stamp = None
        with suppress(OSError, ValueError):
            found = os.stat(f"{source.path}{ending}")
            stamp = found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
        stamps.append(stamp)
    return tuple(stamps)


def watch(
    documents: Documents,
    folders: Paths,
    *,
    settle_seconds: float = SETTLE_SECONDS,
    on_error: OnError | None = None,
    on_progress: OnProgress | None = None,
    on_prune: OnPrune | None = None,
    **options: Unpack[IngestArguments],
) -> Watch:
    """Watch folders for a world; see `Documents.watch`."""
    access, components = documents._access, documents._access.components

    def make_jobs() -> Ingestion:
        return Ingestion(components, access.writable_scope())

    jobs = make_jobs()
    options["prune"] = True
    request = jobs.request(IngestJob(folders, **options))
    roots = requests.find_sources(jobs.deps, jobs.scope, request, open_files=False).roots
    if len(roots) < len(request.paths) or any(root.pattern for root in roots):
        raise InvalidArgument("Only folders can be watched.", advice="Name the file's folder.")
    if components.watch_folders is None:
        raise NotAllowed("watch folders")
    return Watch(
        jobs=make_jobs,
        request=request,
        watcher=components.watch_folders([root.folder for root in roots]),
        clock=components.clock,
        finish=lambda: components.remover().finish_erasures(urgent=True),
        settle_seconds=settle_seconds,
        on_error=on_error,
        on_progress=on_progress,
        on_prune=on_prune,
    )
