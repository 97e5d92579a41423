"""Parses every document in a child process, so that whatever a document does there does no harm.

A child is started when it is needed, kept warm, and used by one thread at a time. One that died,
or may be in the middle of something, is never used again: the next document gets a new one.
"""

from __future__ import annotations

import math
import os
import threading
from pathlib import PurePath

import msgspec

from truespan.adapters.child.link import ChildFailed, ChildGone, ChildLink
from truespan.adapters.child.wire import Answer, Limits, decode_loaded, decode_refusal
from truespan.errors import LoaderCrashed, SourceRefused
from truespan.model.text import Loaded

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
        module: str = "truespan.adapters.child.process",
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
