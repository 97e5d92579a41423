"""One child process as the parent sees it: started, asked, watched by the clock, ended."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO

import msgspec

from truespan.errors import LoaderCrashed, SourceRefused, SourceTooCostly, SourceTooLarge
from truespan.parsing.child.messages import (
    BEGUN,
    GREETING,
    Answer,
    AnswerTooLong,
    Limits,
    decode_loaded,
    decode_refusal,
    receive_answer,
    send_order,
)
from truespan.parsing.child.process import OUT_OF_TIME, in_bytes, peak_memory
from truespan.types.text import Loaded

_FAREWELL_SECONDS = 2.0
_NOT_STARTED = "The process that reads documents cannot be started; check the installation."
if sys.platform == "win32":
    _WINDOWS, _APART = True, subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
else:
    _WINDOWS, _APART = False, 0


class ChildGone(Exception):
    """The child had ended before it was asked, so that the question was never read."""


_GIVEN_UP = tuple(
    -getattr(signal, name) for name in ("SIGABRT", "SIGTRAP", "SIGILL") if hasattr(signal, name)
)
"""How a library ends the process when it is refused memory; corrupted memory ends it otherwise."""


class ChildFailed(Exception):
    """There is no answer; `kind` says what that means for the document."""

    def __init__(self, kind: type[SourceRefused], advice: str | None = None) -> None:
        super().__init__(kind.__name__)
        self.kind, self.advice = kind, advice


class ChildLink:
    """A child that runs a module, for one thread at a time."""

    def __init__(self, module: str) -> None:
        self._inherited = peak_memory()
        self._process = _spawn(module)
        self._greeted = False

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    def ask(self, name: str, document: bytes, limits: Limits, *, images: bool) -> Answer:
        """Return the child's answer. After an error the child is of no use any more.

        Raises:
            ChildGone: it had ended already.
            ChildFailed: it ended without an answer, or was ended.
        """
        with self._watched(limits.wall) as late:
            self._send(name, document, limits, images)
            try:
                answer = receive_answer(self._answers(late), limits.output)
            except AnswerTooLong:
                raise ChildFailed(SourceTooLarge) from None
            except EOFError:
                raise self._failure(limits, late.is_set()) from None
        if late.is_set():  # The clock struck between the answer and this line: it has been killed.
            raise ChildFailed(SourceTooCostly)
        return answer

    def end(self) -> None:
        """Let the child end by itself, which it does at once if it is waiting."""
        self._close_pipes()
        try:
            self._process.wait(_FAREWELL_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the child, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._close_pipes()

    def _send(self, name: str, document: bytes, limits: Limits, images: bool) -> None:
        """Write the question. A child that does not read all of it may still have an answer."""
        questions = self._process.stdin
        assert questions is not None
        with contextlib.suppress(OSError):
            send_order(questions, name, document, limits, images=images)

    def _answers(self, late: threading.Event) -> IO[bytes]:
        """Return the stream of answers, once the child has started and begun with this one."""
        answers = self._process.stdout
        assert answers is not None
        if not self._greeted:
            if answers.read(len(GREETING)) != GREETING:
                raise ChildFailed(LoaderCrashed, _NOT_STARTED)
            self._greeted = True
        if answers.read(len(BEGUN)) != BEGUN:
            raise ChildFailed(SourceTooCostly) if late.is_set() else ChildGone
        return answers

    @contextlib.contextmanager
    def _watched(self, seconds: float) -> Iterator[threading.Event]:
        """Kill the child if the block takes longer; the event tells that it happened."""
        late = threading.Event()

        def strike() -> None:
            late.set()
            self._process.kill()

        clock = threading.Timer(seconds, strike)
        clock.daemon = True
        clock.start()
        try:
            yield late
        finally:
            clock.cancel()

    def _failure(self, limits: Limits, late: bool) -> ChildFailed:
        """Return what the end of the child means: beyond a limit, or a crash.

        A library that cannot get memory often ends the process. That it held much of what it may
        have is then the only trace of the reason; where whoever started it held more than that,
        not even this one, and only how it ended tells.
        """
        peak = self._wait()
        status = self._process.returncode
        untold = peak <= self._inherited and self._inherited * 2 > limits.memory
        starved = status in _GIVEN_UP if untold else status < 0 and peak * 2 > limits.memory
        costly = late or status in OUT_OF_TIME or starved
        return ChildFailed(SourceTooCostly if costly else LoaderCrashed)

    def _wait(self) -> int:
        """Wait for the end of a child that closed its pipe; return the most memory it held."""
        if not _WINDOWS:
            with contextlib.suppress(ChildProcessError):
                _, status, usage = os.wait4(self._process.pid, 0)
                self._process.returncode = os.waitstatus_to_exitcode(status)
                return in_bytes(usage.ru_maxrss)
        self._process.wait()
        return 0

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # What was not sent cannot be sent any more.
                    pipe.close()


def _spawn(module: str) -> subprocess.Popen[bytes]:
    """Start a child apart from us, so that a Ctrl-C here is not one there.

    It gets the import path and nothing else of the environment: keys have no business where
    documents are parsed. Windows starts no process without some of it.
    """
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        return subprocess.Popen(
            # -P keeps the current directory off the import path, where anybody may put modules.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=None if _WINDOWS else {"PYTHONPATH": path},
            start_new_session=not _WINDOWS,
            creationflags=_APART,
        )
    except OSError:
        raise ChildFailed(LoaderCrashed, _NOT_STARTED) from None


_MEGABYTE = 1 << 20
_MEMORY_PER_BYTE = 16
_OUTPUT_PER_BYTE = 8
_WALL_PER_CPU = 3


class ChildParser:
    """Parses sources in child processes with limits; safe to use from several threads.

    A document may use `memory_bytes` and 16 times its size of address space, `cpu_seconds` and
    `cpu_seconds_per_mb`, three times as long by the clock, and what is read out of it may have
    `output_bytes` and 8 times its size. At most `children` are parsed at once. On Windows the clock
    and the size of the answer are the only limits. A child runs `module`.
    """

    def __init__(
        self,
        *,
        memory_bytes: int = 1 << 30,
        cpu_seconds: float = 8.0,
        cpu_seconds_per_mb: float = 2.0,
        output_bytes: int = 64 << 20,
        children: int = 2,
        module: str = "truespan.parsing.child.process",
    ) -> None:
        self._memory_bytes = memory_bytes
        self._cpu_seconds = cpu_seconds
        self._cpu_seconds_per_mb = cpu_seconds_per_mb
        self._output_bytes = output_bytes
        self._module = module
        self._turns = threading.BoundedSemaphore(children)
        self._lock = threading.Lock()
        self._free: list[ChildLink] = []
        self._owner = os.getpid()

    def parse(self, name: str, data: bytes, *, images: bool) -> Loaded:
        """Return what a source holds; the bytes of pictures only if `images` are wanted.

        Raises:
            SourceRefused: it cannot become a document, or reading it went beyond the limits.
        """
        with self._turns:
            outcome = self._outcome(name, data, images)
        if isinstance(outcome, SourceRefused):
            raise outcome
        return outcome

    @property
    def idle_pids(self) -> list[int]:
        """Return the process numbers of the children that wait for a document."""
        with self._lock:
            return [child.pid for child in self._free]

    def close(self) -> None:
        """End the children that nobody uses. A parser that is used again starts new ones."""
        with self._lock:
            free, self._free = self._free, []
        for child in free:
            child.end()

    def _outcome(self, name: str, data: bytes, images: bool) -> Loaded | SourceRefused:
        shown = PurePath(name).name
        try:
            answer = self._ask(name, data, self._limits(len(data)), images)
            if answer.loaded:
                return decode_loaded(answer.content)
            return decode_refusal(answer.content, shown)
        except ChildFailed as failure:
            return failure.kind(shown, advice=failure.advice)
        except msgspec.DecodeError:
            return LoaderCrashed(shown)

    def _limits(self, size: int) -> Limits:
        cpu = math.ceil(self._cpu_seconds + self._cpu_seconds_per_mb * size / _MEGABYTE)
        return Limits(
            memory=self._memory_bytes + _MEMORY_PER_BYTE * size,
            cpu=cpu,
            wall=float(_WALL_PER_CPU * cpu),
            output=self._output_bytes + _OUTPUT_PER_BYTE * size,
        )

    def _ask(self, name: str, data: bytes, limits: Limits, images: bool) -> Answer:
        """Ask a child; one that ended while it waited says nothing about the document."""
        while True:
            child, warm = self._borrow()
            try:
                answer = child.ask(name, data, limits, images=images)
            except BaseException as error:
                # It may still answer, and that would be taken for the answer to the next question.
                child.kill()
                if not isinstance(error, ChildGone):
                    raise
                if not warm:
                    raise ChildFailed(LoaderCrashed) from None
                continue
            self._give_back(child, answer)
            return answer

    def _borrow(self) -> tuple[ChildLink, bool]:
        """Return a child, and whether it has been waiting."""
        with self._lock:
            if self._owner != os.getpid():
                # After a fork the children are the other process's: answers would get mixed up.
                self._free, self._owner = [], os.getpid()
            if self._free:
                return self._free.pop(), True
        return ChildLink(self._module), False

    def _give_back(self, child: ChildLink, answer: Answer) -> None:
        if answer.last:
            child.end()
            return
        with self._lock:
            self._free.append(child)
