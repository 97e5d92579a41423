"""Client of the parser processes: starts them, sends requests, enforces limits, ends them.

The child is not trusted. The size of an answer is limited before a byte is read, the answer must
decode to a parsed source, a drawn page or sentences of the text that was sent, and only the kind
and advice of an error are used.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import signal
import threading
import time
from array import array
from dataclasses import dataclass, field, fields
from functools import partial
from operator import lt
from pathlib import PurePath
from typing import Any

import msgspec

from truespan import errors
from truespan.core.child_process import ChildProcess
from truespan.core.decoding import prepare
from truespan.parsing.detect import format_of
from truespan.parsing.sandbox.process import (
    ANSWER,
    BEGUN,
    BOUNDS,
    GREETING,
    OUT_OF_TIME,
    Limits,
    MembersRequest,
    Refusal,
    Task,
    in_bytes,
    pack_request,
    peak_memory,
)
from truespan.types.picture import PictureRequest, Rendering
from truespan.types.source import PARSE_DEFAULTS, DocumentOptions, Members, ParseOptions
from truespan.types.text import CanonicalText, Loaded, Sentences

START_SECONDS = 60.0
"""Maximum time for starting a child, which takes a third of a second on an idle machine."""
_MAX_REFUSAL_LENGTH = 4096
_NOT_STARTED = "The process that reads documents cannot be started; check the installation."
_ABORTED = (-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL, 127)
"""Exit codes of a process that runs out of memory: signals raised by libraries, and the code of the
dynamic linker. Memory corruption gives other codes."""

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"}
"""Environment that keeps libraries from starting threads, which the child must not do."""

_MEGABYTE = 1 << 20
_PIECE = 1 << 16
"""Capacity of most pipes in bytes."""
RECOGNITION_MEMORY = 3 << 30
"""Additional address space for OCR; about a quarter of it is used."""
_MEMORY_PER_BYTE = 16
_OUTPUT_PER_BYTE = 8
_WALL_PER_CPU = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a child, which ends after the `last`: a result if `complete`, else a refusal."""

    complete: bool
    last: bool
    content: bytes = field(repr=False)


class ChildGone(Exception):
    """The child had ended before it read the request."""


class ChildFailed(Exception):
    """There is no answer; `code` is that of the error for the document."""

    def __init__(self, code: str, advice: str | None = None) -> None:
        super().__init__(code)
        self.code, self.advice = code, advice


@dataclass(slots=True)
class _Deadline:
    """The deadline of a request, and whether the child was killed because it passed."""

    end: float
    passed: bool = False


class ChildLink(ChildProcess):
    """A parser process, for one thread at a time."""

    def __init__(self, module: str, start_seconds: float = START_SECONDS) -> None:
        self._inherited = peak_memory()
        self._greeted = False
        self._start_seconds = start_seconds
        self._received = bytearray()
        try:
            super().__init__(module, _ONE_THREAD, buffered=False)
        except OSError as error:
            if known := errors.resource_error(error):
                raise known from error
            # The system is out of memory or processes, or the program is missing.
            scarce = error.errno in (errno.EAGAIN, errno.ENOMEM)
            if scarce:
                raise ChildFailed("loader_not_started") from None
            raise ChildFailed("loader_crashed", _NOT_STARTED) from None
        os.set_blocking(self.requests.fileno(), False)

    def ask(
        self,
        task: Task,
        name: str,
        document: bytes,
        limits: Limits,
        options: ParseOptions = PARSE_DEFAULTS,
    ) -> Answer:
        """Return the child's answer. After an error the child cannot be used any more."""
        if not self._greeted:
            self._await_greeting()
        head = pack_request(task, name, len(document), limits, options)
        small = len(document) < _PIECE
        deadline = _Deadline(time.monotonic() + limits.wall)
        with contextlib.suppress(OSError):
            # A child that does not read the whole request may still answer.
            for part in (head + document,) if small else (head, document):
                self._send(part, deadline)
        try:
            if self._receive(len(BEGUN), deadline) != BEGUN:
                raise ChildFailed("source_too_costly") if deadline.passed else ChildGone
            loaded, last, length = ANSWER.unpack(self._receive_all(ANSWER.size, deadline))
            if length > (limits.output if loaded else _MAX_REFUSAL_LENGTH):
                raise ChildFailed("source_too_large")
            answer = Answer(loaded, last, self._receive_all(length, deadline))
        except EOFError:
            raise self._failure(limits, deadline.passed) from None
        if deadline.passed:  # Killed after the answer was received.
            raise ChildFailed("source_too_costly")
        return answer

    def _await_greeting(self) -> None:
        """Wait until the child has started, outside of the time limit of the document."""
        # An overloaded machine does not mean a broken installation; only a child that ended by
        # itself does.
        deadline = _Deadline(time.monotonic() + self._start_seconds)
        self._greeted = self._receive(len(GREETING), deadline) == GREETING
        if not self._greeted:
            ended_by_itself = not deadline.passed and self.process.wait() >= 0
            if ended_by_itself:
                raise ChildFailed("loader_crashed", _NOT_STARTED)
            raise ChildFailed("loader_not_started")

    def _await_pipe(self, pipe: int, deadline: _Deadline, *, to_write: bool = False) -> None:
        """Wait until a pipe is ready; kill the child at the deadline."""
        if not deadline.passed:
            poll = select.poll()
            poll.register(pipe, select.POLLOUT if to_write else select.POLLIN)
            left = deadline.end - time.monotonic()
            if left <= 0 or not poll.poll(math.ceil(left * 1000)):
                deadline.passed = True
                self.process.kill()

    def _send(self, data: bytes, deadline: _Deadline) -> None:
        pipe, rest = self.requests.fileno(), memoryview(data)
        # The pipe of a killed child stays full until the child has ended.
        while rest and not deadline.passed:
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:
                self._await_pipe(pipe, deadline, to_write=True)

    def _receive(self, length: int, deadline: _Deadline) -> bytes:
        """Return the next bytes from the child; fewer if it ended."""
        pipe, received = self.answers.fileno(), self._received
        while len(received) < length:
            self._await_pipe(pipe, deadline)
            piece = os.read(pipe, _PIECE)
            if not piece:
                break
            received += piece
        with memoryview(received) as view:
            content = bytes(view[:length])
        del received[:length]
        return content

    def _receive_all(self, length: int, deadline: _Deadline) -> bytes:
        content = self._receive(length, deadline)
        if len(content) < length:
            raise EOFError
        return content

    def _failure(self, limits: Limits, late: bool) -> ChildFailed:
        """Wait for a child that closed its pipe; return the error for its exit status."""
        # A library that runs out of memory often aborts the process, and the peak memory of the
        # child is the only sign of the reason. If this process once used more than that, the peak
        # is unknown, and the exit code decides. The status is not read from the process object,
        # which another thread may change at the same time.
        status, peak = None, 0
        with contextlib.suppress(ChildProcessError):
            _, code, usage = os.wait4(self.process.pid, 0)
            status, peak = os.waitstatus_to_exitcode(code), in_bytes(usage.ru_maxrss)
            self.process.returncode = status
        if status is None:
            status = self.process.wait()
        unknown = peak <= self._inherited and self._inherited * 2 > limits.memory
        starved = status in _ABORTED if unknown else status < 0 and peak * 2 > limits.memory
        costly = late or status in OUT_OF_TIME or starved
        return ChildFailed("source_too_costly" if costly else "loader_crashed")


# Shared by threads: a child is taken from the list under a lock and serves one thread until it is
# returned.
@dataclass(kw_only=True, eq=False)
class ChildParser:
    """A `SourceParser` in child processes with limits; safe to use from several threads.

    Limits of a document: address space `memory_bytes` plus 16 times its size; CPU time
    `cpu_seconds` plus `cpu_seconds_per_mb`; three times the CPU time as wall time; output
    `output_bytes` plus 8 times its size. With OCR, `ocr_cpu_seconds` and 3 GiB are added. At most
    `children` documents are parsed at once. On Windows only the wall time and the output are
    limited. A child runs `module`.
    """

    memory_bytes: int = 1 << 30
    cpu_seconds: float = 8.0
    cpu_seconds_per_mb: float = 2.0
    output_bytes: int = 64 << 20
    ocr_cpu_seconds: float = 3600
    children: int = 2
    start_seconds: float = START_SECONDS
    module: str = "truespan.parsing.sandbox.process"

    def __post_init__(self) -> None:
        self._turns = threading.BoundedSemaphore(self.children)
        self._lock = threading.Lock()
        self._free: list[ChildLink] = []
        self._owner = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets a parser with the same limits and its own children.
        return partial(
            ChildParser, **{own.name: getattr(self, own.name) for own in fields(self)}
        ), ()

    def parse(self, name: str, data: bytes, options: ParseOptions = PARSE_DEFAULTS) -> Loaded:
        found = format_of(name, data) if options.ocr else None
        if found is None or not found.may_need_ocr:
            options = options._replace(ocr=False)
        return _decode(name, self._run(Task.PARSE, name, name, data, options), Loaded)

    def members(
        self, name: str, data: bytes, options: DocumentOptions, first: str | None = None
    ) -> Members:
        request = msgspec.json.encode(MembersRequest(name, options, first)).decode()
        return _decode(name, self._run(Task.MEMBERS, name, request, data), Members)

    def draw(self, data: bytes, request: PictureRequest) -> Rendering | None:
        subject = msgspec.json.encode(request).decode()
        content = self._run(Task.DRAW, request.name, subject, data)
        drawn: Rendering | None = _decode(request.name, content, Rendering | None)
        if drawn is not None and len(drawn.boxes) != len(request.parts):
            raise errors.SourceRefused("loader_crashed", PurePath(request.name).name)
        return drawn

    def split(self, name: str, canonical: CanonicalText, language: str) -> Sentences:
        text = canonical.text
        # Pages and figures are not needed.
        sent = CanonicalText(
            text, canonical.starts, canonical.places, canonical.block_starts, lines=canonical.lines
        )
        content = self._run(Task.SPLIT, name, language, msgspec.msgpack.encode(sent))
        try:
            return _checked_sentences(text, content)
        except ValueError:
            raise errors.SourceRefused("loader_crashed", PurePath(name).name) from None

    def _run(
        self,
        task: Task,
        name: str,
        subject: str,
        data: bytes,
        options: ParseOptions = PARSE_DEFAULTS,
    ) -> bytes:
        shown, size = PurePath(name).name, len(data)
        cpu = math.ceil(self.cpu_seconds + self.cpu_seconds_per_mb * size / _MEGABYTE)
        memory = self.memory_bytes + _MEMORY_PER_BYTE * size
        if options.ocr:
            cpu, memory = cpu + math.ceil(self.ocr_cpu_seconds), memory + RECOGNITION_MEMORY
        limits = Limits(
            memory=memory,
            cpu=cpu,
            wall=float(_WALL_PER_CPU * cpu),
            output=self.output_bytes + _OUTPUT_PER_BYTE * size,
        )
        with self._turns:
            try:
                answer = self._ask(task, subject, data, limits, options)
                if answer.complete:
                    return answer.content
                refusal = msgspec.msgpack.decode(answer.content, type=prepare(Refusal))
                error = errors.source_refusal(refusal.code, shown, refusal.advice)
                if refusal.trace:
                    error.add_note(refusal.trace)
            except ChildFailed as failure:
                error = errors.SourceRefused(failure.code, shown, advice=failure.advice)
            except msgspec.DecodeError:
                error = errors.SourceRefused("loader_crashed", shown)
        raise error

    @property
    def idle_pids(self) -> list[int]:
        with self._lock:
            return [child.process.pid for child in self._free]

    def close(self) -> None:
        """End the idle children. Using the parser again starts new ones."""
        with self._lock:
            free, self._free = self._free, []
        for child in free:
            child.end()

    def _ask(
        self, task: Task, subject: str, data: bytes, limits: Limits, options: ParseOptions
    ) -> Answer:
        """Send a request to a child; a child that ended while idle is replaced."""
        while True:
            with self._lock:
                if self._owner != os.getpid():
                    # After a fork the children belong to the parent; answers would get mixed up.
                    self._free, self._owner = [], os.getpid()
                waiting = self._free.pop() if self._free else None
            child = waiting or ChildLink(self.module, self.start_seconds)
            try:
                answer = child.ask(task, subject, data, limits, options)
            except BaseException as error:
                # A late answer would count as the answer to the next request.
                child.kill()
                if not isinstance(error, ChildGone):
                    raise
                if not waiting:
                    raise ChildFailed("loader_crashed") from None
                continue
            if answer.last:
                child.end()
            else:
                with self._lock:
                    self._free.append(child)
            return answer


def _decode(name: str, content: bytes, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(content, type=prepare(kind))
    except msgspec.DecodeError:
        raise errors.SourceRefused("loader_crashed", PurePath(name).name) from None


def _checked_sentences(text: str, content: bytes) -> Sentences:
    """Return the sentences from the offsets of a child; raises ValueError if they are invalid."""
    # Sentences are in order, contain all words, and do not begin or end with white space.
    bounds = array(BOUNDS, content)
    starts, ends = bounds[::2], bounds[1::2]
    edges = [0, *bounds, len(text)]
    if len(edges) % 2 or edges != sorted(edges) or not all(map(lt, starts, ends)):
        raise ValueError("The offsets are out of order.")
    begins, past = edges[1:-1:2], edges[::2]
    between = {text[start:end] for start, end in zip(past, [*begins, len(text)], strict=True)}
    if any(gap and not gap.isspace() for gap in between):
        raise ValueError("A word has no sentence.")
    outer = "".join([text[start] for start in begins] + [text[end - 1] for end in past[1:]])
    if outer and outer.split() != [outer]:
        raise ValueError("A sentence begins or ends with white space.")
    return Sentences(starts, ends)
