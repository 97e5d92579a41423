"""The child process that parses documents, and what goes between it and its parent.

It also splits their text into sentences: the segmenter keeps every thread of its process waiting.

Bytes and text pass through two pipes as they are, behind their lengths: a big document is written
once and read once. The operating system limits the resources of the child, where it can. The audit
hook keeps our code and the libraries it calls from doing by mistake, or because a document asks for
it, what no parser has a reason to do. It does not stop machine code that took over the process.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import struct
import sys
import time
from array import array
from enum import IntEnum
from typing import IO, NamedTuple

import msgspec

from truespan.errors import LoaderCrashed, SourceRefused, SourceTooCostly, SourceTooLarge
from truespan.parsing import load
from truespan.text.sentences import sentence_bounds
from truespan.types.source import PARSE_DEFAULTS, DocumentOptions, ParseOptions
from truespan.types.text import CanonicalText

try:
    import resource
except ImportError:  # pragma: no cover
    resource = None  # There is none on Windows, where the parent's clock is the only limit.

GREETING = b"T"
"""The first byte of a child that has started: an end after it is not a failure to start."""
BEGUN = b"B"
"""Comes before each answer: the request was seen. A child that ends earlier ended by itself."""
ANSWER = struct.Struct(">??Q")
"""The head of an answer: whether it holds what was asked for, whether it is the last, and its
length."""
BOUNDS = "I"
"""The type of the offsets in an answer: where each sentence starts and ends."""
_REQUEST = struct.Struct(f">B{len(PARSE_DEFAULTS) * '?'}IQQIdQ")

_DESCRIPTORS = 32
_NEVER = (
    "ftplib.", "http.client.", "imaplib.", "nntplib.", "os.chmod", "os.chown", "os.exec",
    "os.fork", "os.kill", "os.link", "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove",
    "os.rename", "os.rmdir", "os.setxattr", "os.spawn", "os.startfile", "os.symlink", "os.system",
    "os.truncate", "os.utime", "poplib.", "pty.spawn", "shutil.", "smtplib.", "socket.",
    "sqlite3.", "subprocess.", "tempfile.", "urllib.", "webbrowser.",
)  # fmt: skip
"""The beginnings of the audit events that are refused."""
# Shared by threads: used by the child process alone, which has one thread.
_allowed: set[str] = set()
"""Those that the libraries of text recognition cause when they are imported."""
if sys.platform == "win32":
    OUT_OF_TIME = frozenset[int]()
else:
    OUT_OF_TIME = frozenset({-signal.SIGXCPU, -signal.SIGALRM})
"""How a process ends that used up its time."""
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MAX_SIZE_TO_REUSE = 256 << 20
"""A child that keeps more memory ends, because the next document would have less."""
_PACKAGE = "truespan"


class Task(IntEnum):
    """What to do with the bytes of a request."""

    PARSE = 0
    SPLIT = 1
    MEMBERS = 2


class Limits(NamedTuple):
    """What one document may cost: bytes of memory, seconds, and bytes of the answer."""

    memory: int
    cpu: int
    wall: float
    output: int


class MembersRequest(msgspec.Struct, array_like=True):
    """Which members of a file are wanted: their bytes from `first` on, or a list of all of them."""

    name: str
    options: DocumentOptions
    first: str | None = None


class Refusal(msgspec.Struct, array_like=True, gc=False):
    """Why there is no document: the name of an error, advice that differs from its own, and where
    a bug showed itself, which is a place in our code and holds nothing of the document."""

    kind: str
    advice: str | None = None
    trace: str | None = None


class Forbidden(PermissionError):
    """A parser tried what no parser may do."""


def pack_request(
    task: Task,
    name: str,
    size: int,
    limits: Limits,
    options: ParseOptions = PARSE_DEFAULTS,
) -> bytes:
    """Return what goes before the bytes of a request, `size` in number. They are a document with
    its name, or an encoded `CanonicalText` with its language, or a file with an encoded
    `MembersRequest`."""
    encoded = name.encode("utf-8", "surrogatepass")
    return _REQUEST.pack(task, *options, len(encoded), size, *limits) + encoded


def read_exactly(stream: IO[bytes], length: int) -> bytes:
    """Read so many bytes; raise `EOFError` if the other process ended first."""
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


def peak_memory() -> int:
    """Return the peak of memory in bytes; 0 if unknown. On Linux a child inherits it."""
    return in_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) if resource else 0


def in_bytes(peak: int) -> int:
    """Return a peak in bytes: all systems count kilobytes but one."""
    return peak if sys.platform == "darwin" else peak << 10


def main() -> int:
    """Answer requests until there are no more."""
    # The standard streams lead elsewhere: what a library prints must not get between the answers.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    # Ctrl-C is for the parent. The signals that end what takes too long have their usual effect,
    # even if the parent has changed that.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if resource is not None and sys.platform != "win32":
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        # Nothing can be written, and no process be started. Some systems do not know some limits.
        for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(what, (0, 0))
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    # Bytecode cannot be written any more, and an attempt would only cost time.
    sys.dont_write_bytecode = True
    sys.addaudithook(_refuse)
    # What is loaded by now stays: looking through it again and again would find nothing to free.
    gc.freeze()
    # Parsers make hundreds of thousands of objects and hardly any circles of them.
    gc.set_threshold(200_000, 20, 100)
    answers.write(GREETING)
    answers.flush()
    with contextlib.suppress(EOFError, BrokenPipeError):  # The parent has gone.
        while _serve(requests, answers):
            pass
    return 0


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        _, mode, flags = arguments
        writes = isinstance(mode, str) and not {*mode}.isdisjoint("wax+")
        if writes or (isinstance(flags, int) and flags & _CHANGES):
            raise Forbidden("A loader tried to open a file for writing.")
    elif event.startswith(_NEVER) and event not in _allowed:
        raise Forbidden(f"A loader tried {event}.")


def _serve(requests: IO[bytes], answers: IO[bytes]) -> bool:
    """Answer one request; return whether to wait for another."""
    head = requests.read(_REQUEST.size)
    if len(head) < _REQUEST.size:
        return False
    task, *values = _REQUEST.unpack(head)
    options = ParseOptions(*values[: len(PARSE_DEFAULTS)])
    name_length, size, *costs = values[len(options) :]
    limits = Limits(*costs)
    answers.write(BEGUN)
    answers.flush()
    _limit_document(limits)
    content, loaded, out_of_memory = b"", False, False
    try:
        name = read_exactly(requests, name_length).decode("utf-8", "surrogatepass")
        content, loaded = _run(task, name, read_exactly(requests, size), options)
    except MemoryError:
        out_of_memory = True
    _limit_document(None)
    if out_of_memory:
        content = msgspec.msgpack.encode(Refusal(SourceTooCostly.__name__))
    elif loaded and len(content) > limits.output:
        content, loaded = msgspec.msgpack.encode(Refusal(SourceTooLarge.__name__)), False
    last = out_of_memory or _address_space() > _MAX_SIZE_TO_REUSE
    answers.write(ANSWER.pack(loaded, last, len(content)))
    answers.write(content)
    answers.flush()
    return not last


def _limit_document(limits: Limits | None) -> None:
    """Set what the next document may cost beyond what those before it have cost; None lifts this.

    The alarm is for a child whose parent has gone: nothing else would end it.
    """
    if resource is None or sys.platform == "win32":
        return
    cpu = memory = resource.RLIM_INFINITY
    if limits:
        cpu, memory = math.ceil(time.process_time()) + limits.cpu, limits.memory
    signal.setitimer(signal.ITIMER_REAL, limits.wall if limits else 0)
    for what, limit in ((resource.RLIMIT_CPU, cpu), (resource.RLIMIT_AS, memory)):
        # It can be set again, within what was given to us.
        _, hard = resource.getrlimit(what)
        if hard != resource.RLIM_INFINITY:
            limit = hard if limit == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (limit, hard))


def _run(task: int, name: str, document: bytes, options: ParseOptions) -> tuple[bytes, bool]:
    """Return the bytes of the answer, and whether they hold what was asked for."""
    try:
        if task == Task.SPLIT:
            canonical = msgspec.msgpack.decode(document, type=CanonicalText)
            return array(BOUNDS, sentence_bounds(canonical, name)).tobytes(), True
        if task == Task.MEMBERS:
            # Imported here, because most documents are not inside a file.
            from truespan.parsing.members import list_members, read_members

            request = msgspec.json.decode(name, type=MembersRequest)
            wanted = request.name, document, request.options
            found = (
                list_members(*wanted)
                if request.first is None
                else read_members(*wanted, request.first)
            )
            return msgspec.msgpack.encode(found), True
        if options.ocr:
            _allowed.add("os.putenv")
        return msgspec.msgpack.encode(load(name, document, options)), True
    except SourceRefused as refusal:
        advice = refusal.advice if refusal.advice != type(refusal).advice else None
        answer = Refusal(type(refusal).__name__, advice)
    except MemoryError:
        raise
    except Exception as error:
        # The kind of the error and the last place in our code; its message may quote a text.
        place, traceback = "", error.__traceback__
        while traceback is not None:
            path = traceback.tb_frame.f_code.co_filename
            _, ours, file = path.rpartition(f"{_PACKAGE}{os.sep}")
            if ours:
                file = file.replace(os.sep, "/")
                place = f" in {_PACKAGE}/{file}, line {traceback.tb_lineno}"
            traceback = traceback.tb_next
        answer = Refusal(LoaderCrashed.__name__, trace=f"{type(error).__name__}{place}")
    return msgspec.msgpack.encode(answer), False


def _address_space() -> int:
    """Return how many bytes of addresses the process holds now; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
