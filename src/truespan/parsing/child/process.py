"""What a child that reads documents may do: little, and not for long.

The limits are the operating system's, where it has them. The refusals are Python's own: they keep
our code and that of the libraries we call from doing by mistake, or at a document's wish, what no
loader has a reason to do. They are no wall against machine code that took the process over.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import sys
import time
from types import TracebackType
from typing import IO

from truespan.errors import LoaderCrashed, SourceRefused, SourceTooCostly, SourceTooLarge
from truespan.parsing import load
from truespan.parsing.child.messages import (
    BEGUN,
    GREETING,
    Limits,
    Order,
    Refusal,
    encode,
    receive_document,
    receive_name,
    receive_order,
    send_answer,
)

try:
    import resource
except ImportError:  # pragma: no cover
    resource = None  # There is none on Windows, where the parent's clock is the only limit.

_DESCRIPTORS = 32
_NEVER = (
    "ftplib.",
    "http.client.",
    "imaplib.",
    "nntplib.",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.putenv",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.setxattr",
    "os.spawn",
    "os.startfile",
    "os.symlink",
    "os.system",
    "os.truncate",
    "os.utime",
    "poplib.",
    "pty.spawn",
    "shutil.",
    "smtplib.",
    "socket.",
    "sqlite3.",
    "subprocess.",
    "tempfile.",
    "urllib.",
    "webbrowser.",
)
if sys.platform == "win32":
    OUT_OF_TIME = frozenset[int]()
else:
    OUT_OF_TIME = frozenset({-signal.SIGXCPU, -signal.SIGALRM})
"""How a process ends that used up its time."""

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Forbidden(PermissionError):
    """A loader tried what no loader may do."""


def confine() -> None:
    """Refuse for the rest of the process to connect, to write, to delete and to start programs."""
    # What is compiled here cannot be kept, and an attempt would only cost time.
    sys.dont_write_bytecode = True
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        _, mode, flags = arguments
        writes = isinstance(mode, str) and not {*mode}.isdisjoint("wax+")
        if writes or (isinstance(flags, int) and flags & _CHANGES):
            raise Forbidden("A loader tried to open a file for writing.")
    elif event.startswith(_NEVER):
        raise Forbidden(f"A loader tried {event}.")


def limit_process() -> None:
    """Set what holds for every document: nothing can be written, and no process be started.

    Ctrl-C is the parent's to answer; the signals that end what takes too long do what they are for,
    whatever the parent has made of them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if resource is None or sys.platform == "win32":
        return
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NPROC, 0)
    _lower(resource.RLIMIT_NOFILE, _DESCRIPTORS)


def limit_document(limits: Limits) -> None:
    """Set what the next document may cost, beyond what those before it have cost.

    The alarm is for a child whose parent has gone: nobody else would end it.
    """
    if resource is None or sys.platform == "win32":
        return
    _soften(resource.RLIMIT_CPU, math.ceil(time.process_time()) + limits.cpu)
    _soften(resource.RLIMIT_AS, limits.memory)
    signal.setitimer(signal.ITIMER_REAL, limits.wall)


def lift_limits() -> None:
    """Let the child speak, and wait for the next document, for as long as that takes."""
    if resource is None or sys.platform == "win32":
        return
    signal.setitimer(signal.ITIMER_REAL, 0)
    _soften(resource.RLIMIT_AS, resource.RLIM_INFINITY)
    _soften(resource.RLIMIT_CPU, resource.RLIM_INFINITY)


def address_space() -> int:
    """Return how many bytes of addresses the process holds now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def peak_memory() -> int:
    """Return the most bytes of memory that the process has held at once; 0 where nobody counts.

    Linux hands it on: a child begins with the peak of its parent.
    """
    if resource is None:
        return 0
    return in_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def in_bytes(peak: int) -> int:
    """Return a peak in bytes: all systems count kilobytes but one."""
    return peak if sys.platform == "darwin" else peak << 10


def _lower(what: int, limit: int) -> None:
    """Lower a limit for good; a system that does not know it goes without."""
    assert resource is not None
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (limit, limit))


def _soften(what: int, limit: int) -> None:
    """Set a limit that can be set again, within what was given to us."""
    assert resource is not None
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        limit = hard if limit == resource.RLIM_INFINITY else min(limit, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (limit, hard))


_WEARY = 256 << 20
"""A child that keeps so much ends: what it does not give back would be the next document's loss."""
_PACKAGE = "truespan"


def main() -> int:
    """Answer requests until there are no more."""
    requests, answers = _streams()
    limit_process()
    confine()
    # What is loaded by now stays: looking through it again and again would find nothing to free.
    gc.freeze()
    answers.write(GREETING)
    answers.flush()
    try:
        while _serve(requests, answers):
            pass
    except (EOFError, BrokenPipeError):
        return 0  # Whoever asked has gone.
    return 0


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return the two pipes, and lead the standard streams elsewhere: what some library prints must
    not get between the answers."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    return open(requests, "rb"), open(answers, "wb")


def _serve(requests: IO[bytes], answers: IO[bytes]) -> bool:
    """Answer one request; say whether to wait for another."""
    order = receive_order(requests)
    if order is None:
        return False
    answers.write(BEGUN)
    answers.flush()
    limit_document(order.limits)
    try:
        content, loaded = _content(requests, order)
        starved = False
    except MemoryError:
        content, loaded, starved = b"", False, True
    lift_limits()
    if starved:
        content = encode(Refusal(SourceTooCostly.__name__))
    elif loaded and len(content) > order.limits.output:
        content, loaded = encode(Refusal(SourceTooLarge.__name__)), False
    last = starved or address_space() > _WEARY
    send_answer(answers, content, loaded=loaded, last=last)
    return not last


def _content(requests: IO[bytes], order: Order) -> tuple[bytes, bool]:
    """Return the bytes of the answer, and whether they hold what was loaded."""
    name = receive_name(requests, order)
    try:
        return encode(load(name, receive_document(requests, order), images=order.images)), True
    except SourceRefused as refusal:
        advice = refusal.advice if refusal.advice != type(refusal).advice else None
        return encode(Refusal(type(refusal).__name__, advice)), False
    except (MemoryError, EOFError):
        raise
    except Exception as error:
        return encode(_bug(error)), False


def _bug(error: Exception) -> Refusal:
    return Refusal(LoaderCrashed.__name__, trace=_trace(type(error).__name__, error.__traceback__))


def _trace(kind: str, trail: TracebackType | None) -> str:
    """Return the kind of an error and the last place in our code; its message may quote a text."""
    place = ""
    while trail is not None:
        _, ours, file = trail.tb_frame.f_code.co_filename.rpartition(f"{_PACKAGE}{os.sep}")
        if ours:
            place = f" in {_PACKAGE}/{file.replace(os.sep, '/')}, line {trail.tb_lineno}"
        trail = trail.tb_next
    return f"{kind}{place}"


if __name__ == "__main__":
    sys.exit(main())
