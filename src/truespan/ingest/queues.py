"""Queues of an ingestion: drafts that workers make ahead, and groups that are indexed meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from truespan.errors import SourceRefused
from truespan.ingest.draft import DraftTask
from truespan.ingest.source_drafts import DraftMaker, SourceDraft
from truespan.ingest.workers.client import DraftWorkers
from truespan.types.document import Document, Draft
from truespan.types.source import Source

TASKS_PER_WORKER = 4
"""Number of sources that are read ahead for each worker."""
MAX_BYTES_AHEAD = 64 << 20
"""Maximum size of the sources that are read ahead; a larger source is read alone."""
MIN_BYTES = 2 << 20
"""Minimum size of the sources of a run for which workers are started: a start takes a second."""


SourceResult: TypeAlias = tuple[Source, SourceDraft | SourceRefused]


def make_drafts(
    maker: DraftMaker, sources: Sequence[Source], known: Mapping[str, Document]
) -> Generator[SourceResult, None, None]:
    for source in sources:
        try:
            yield source, maker.make(source, known.get(source.doc_id))
        except SourceRefused as error:
            yield source, error


def are_worth_workers(sources: Sequence[Source]) -> bool:
    return len(sources) > 1 and sum(source.size for source in sources) >= MIN_BYTES


class _Waiting(Struct):
    """A source whose result is not yielded yet."""

    source: Source
    task: DraftTask | None = None
    future: Future[Draft] | None = None
    draft: SourceDraft | SourceRefused | None = None
    size: int = 0


class DraftQueue:
    """Drafts that workers make a limited number of bytes ahead, in the order of `make_drafts`."""

    def __init__(self, maker: DraftMaker, workers: DraftWorkers) -> None:
        self._maker = maker
        self._workers = workers
        self._waiting: deque[_Waiting] = deque()

    def make_drafts(
        self, sources: Sequence[Source], known: Mapping[str, Document]
    ) -> Generator[SourceResult, None, None]:
        jobs = self._workers.jobs
        with ThreadPoolExecutor(jobs, thread_name_prefix="draft") as pool:
            try:
                for source in sources:
                    while self._is_full(source):
                        yield self._take()
                    self._waiting.append(self._start(pool, source, known.get(source.doc_id)))
                while self._waiting:
                    yield self._take()
            finally:
                for waiting in self._waiting:
                    if waiting.future is not None:
                        waiting.future.cancel()

    def _is_full(self, source: Source) -> bool:
        ahead = sum(waiting.size for waiting in self._waiting)
        full = len(self._waiting) >= TASKS_PER_WORKER * self._workers.jobs
        return full or (ahead > 0 and ahead + source.size > MAX_BYTES_AHEAD)

    def _start(self, pool: ThreadPoolExecutor, source: Source, known: Document | None) -> _Waiting:
        try:
            task = self._maker.prepare(source, known, self._settle)
        except SourceRefused as error:
            return _Waiting(source, draft=error)
        if isinstance(task, SourceDraft):
            return _Waiting(source, draft=task)
        future = pool.submit(self._workers.make, task, self._maker.run)
        return _Waiting(source, task, future, size=len(task.content.data))

    def _settle(self, digest: str) -> None:
        """Complete a source of the same content first: whether it becomes a document decides."""
        if any(
            waiting.task is not None and waiting.task.content.digest == digest
            for waiting in self._waiting
        ):
            for waiting in self._waiting:
                self._complete(waiting)

    def _take(self) -> SourceResult:
        waiting = self._waiting.popleft()
        return waiting.source, self._complete(waiting)

    def _complete(self, waiting: _Waiting) -> SourceDraft | SourceRefused:
        if waiting.draft is None:
            assert waiting.task is not None
            assert waiting.future is not None
            try:
                waiting.draft = self._maker.complete(waiting.task, waiting.future.result())
            except SourceRefused as error:
                waiting.draft = error
            # The bytes of the source are not needed any more.
            waiting.task = waiting.future = None
        return waiting.draft


T = TypeVar("T")
R = TypeVar("R")

MAX_RUNNING = 3
"""Maximum number of groups that are indexed at once: embedded, written to the index, flushed."""


class IndexQueue(Generic[T, R]):
    """Calls `index` for each added group on a thread, and `finish` in order on the caller's.

    An error of `index` is raised by the next call. If the block is left by an error, `stop` is
    called, and running groups are waited for.
    """

    def __init__(
        self,
        index: Callable[[T], R],
        finish: Callable[[T, R], None],
        stop: Callable[[], None],
    ) -> None:
        self._index = index
        self._finish = finish
        self._stop = stop
        self._running: deque[tuple[T, Future[R]]] = deque()
        self._pool = ThreadPoolExecutor(MAX_RUNNING, thread_name_prefix="index")

    def __enter__(self) -> IndexQueue[T, R]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                while self._running:
                    self._finish_first()
        except BaseException:
            self._stop()
            raise
        finally:
            if error is not None:
                self._stop()
            self._pool.shutdown(cancel_futures=True)

    def add(self, group: T) -> None:
        """Index a group; wait for an earlier one if too many are running."""
        while len(self._running) >= MAX_RUNNING:
            self._finish_first()
        future = self._pool.submit(copy_context().run, self._index, group)
        self._running.append((group, future))

    def _finish_first(self) -> None:
        group, future = self._running.popleft()
        self._finish(group, future.result())
