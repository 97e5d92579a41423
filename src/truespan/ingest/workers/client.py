"""Client of the worker processes that make drafts, so that one run uses all cores.

A worker is a trusted process: it cleans, splits, measures and chunks text, and counts its words. It
parses no bytes itself; its own restricted subprocess does. A worker writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import threading
from collections.abc import Callable
from typing import IO

import msgspec

from truespan.core.child_process import ChildProcess
from truespan.core.decoding import prepare
from truespan.errors import SourceRefused, resource_error, source_refusal
from truespan.ingest.draft import CountWords, DraftTask
from truespan.protocols import SourceParser, TokenCounter
from truespan.types.document import Draft

HEAD = struct.Struct(">BQ")
TASK, DRAFT, REFUSAL, FAILURE = range(4)
_ATTEMPTS = 2
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment that keeps libraries from starting threads: there is one worker for each core."""
_WORKER_MEMORY = 512 << 20
"""Memory that a worker and its parser need for a document of ordinary size."""


class Refusal(msgspec.Struct, array_like=True):
    """A refusal by a worker: code, file name, advice and notes of the error."""

    code: str
    name: str
    advice: str | None
    notes: tuple[str, ...]


class WorkerGone(Exception):
    """The worker ended before it answered."""


def default_jobs() -> int:
    """Return the number of cores that this process may use, bounded by the free memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(min(cores or 1, _free_memory() // _WORKER_MEMORY), 1)


def _free_memory() -> int:
    """Return the free memory in bytes; a large number if the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return 1 << 62


# Shared by threads: a worker is taken from the list under a lock and serves one thread until it is
# returned.
class DraftWorkers:
    """At most `jobs` worker processes, started when needed; an idle one exits after a while."""

    def __init__(
        self, jobs: int, parser: SourceParser, counter: TokenCounter, count_words: CountWords | None
    ) -> None:
        self.jobs = jobs
        self._tools = parser, counter, count_words
        self._turns = threading.BoundedSemaphore(jobs)
        self._lock = threading.Lock()
        self._free: list[_Worker] = []
        self._setup: bytes | None = None

    def with_jobs(self, jobs: int) -> DraftWorkers:
        return DraftWorkers(jobs, *self._tools)

    def can_start(self) -> bool:
        """Return whether there may be several workers, and their tools can be sent to them."""
        if self.jobs < 2:
            return False
        if self._setup is None:
            try:
                self._setup = pickle.dumps(self._tools)
            except Exception:
                # A caller's own counter or parser may exist in this process only.
                self._setup = b""
        return bool(self._setup)

    def make(self, task: DraftTask, make_here: Callable[[DraftTask], Draft]) -> Draft:
        """Return the draft of a task, made by a worker."""
        # An unexpected error of a worker is found by `make_here`, which makes the draft in this
        # process, where the error has its usual form.
        with self._turns:
            kind, content = self._run(task)
        if kind == DRAFT:
            return decode_draft(content)
        if kind == FAILURE:
            return make_here(task)
        refusal = msgspec.msgpack.decode(content, type=prepare(Refusal))
        error = source_refusal(refusal.code, refusal.name, refusal.advice)
        for note in refusal.notes:
            error.add_note(note)
        raise error

    def close(self) -> None:
        """End the idle workers. Using them again starts new ones."""
        with self._lock:
            free, self._free = self._free, []
        for worker in free:
            worker.end()

    def _run(self, task: DraftTask) -> tuple[int, bytes]:
        """Return the answer of a worker; one that ended while it was idle is replaced."""
        message = pickle.dumps(task)
        ended_busy = 0
        while ended_busy < _ATTEMPTS:
            with self._lock:
                waiting = self._free.pop() if self._free else None
            worker = waiting or start_worker(self._setup or b"")
            try:
                answer = worker.ask(message)
            except BaseException as error:
                # A late answer would count as the answer to the next task.
                worker.kill()
                if not isinstance(error, WorkerGone):
                    raise
                ended_busy += waiting is None
                continue
            with self._lock:
                self._free.append(worker)
            return answer
        raise SourceRefused("loader_crashed", task.source.name)


class _Worker(ChildProcess):
    """A worker process, for one thread at a time."""

    def __init__(self, setup: bytes) -> None:
        try:
            super().__init__("truespan.ingest.workers.process", _ONE_THREAD, buffered=True)
        except OSError as error:
            raise resource_error(error) or WorkerGone from error
        with contextlib.suppress(OSError):
            send(self.requests, TASK, setup)

    def ask(self, task: bytes) -> tuple[int, bytes]:
        """Return the kind and the content of the answer; raises WorkerGone without one."""
        try:
            send(self.requests, TASK, task)
            return receive(self.answers)
        except (OSError, EOFError):
            raise WorkerGone from None


start_worker: Callable[[bytes], _Worker] = _Worker
"""Starts a worker with its tools, which are pickled."""


def send(pipe: IO[bytes], kind: int, content: bytes) -> None:
    pipe.write(HEAD.pack(kind, len(content)))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[int, bytes]:
    """Read a message; raise EOFError if the other process has ended."""
    kind, length = HEAD.unpack(_read(pipe, HEAD.size))
    return kind, _read(pipe, length)


def _read(pipe: IO[bytes], length: int) -> bytes:
    content, filled = bytearray(length), 0
    with memoryview(content) as view:
        while filled < length:
            # A pipe may return less than requested.
            count = pipe.readinto(view[filled:])  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            filled += count
    return bytes(content)


encode_draft = msgspec.msgpack.Encoder(enc_hook=list).encode
"""Encode a draft; sentences, which are stored as columns, become a list of rows."""
decode_draft = msgspec.msgpack.Decoder(prepare(Draft)).decode
