"""The parser process, and its protocol with the parent.

It also splits text into sentences, because the segmenter blocks all threads of its process.

Requests and answers pass through two pipes, each with a length, so that a large document is written
and read once. The operating system limits the resources of the child, where it can. The audit hook
refuses operations that no parser needs, such as writing files. It does not stop machine code that
has taken over the process.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import signal
import struct
import sys
import time
from array import array
from enum import IntEnum
from typing import IO, NamedTuple

import msgspec

from truespan.core.decoding import prepare
from truespan.errors import SourceRefused
from truespan.parsing import load
from truespan.text.sentences import sentence_bounds
from truespan.types.picture import PictureRequest
from truespan.types.source import PARSE_DEFAULTS, DocumentOptions, ParseOptions
from truespan.types.text import CanonicalText

GREETING = b"T"
"""First byte of a child, sent when it has started."""
BEGUN = b"B"
"""Byte before each answer, sent when the request arrives."""
ANSWER = struct.Struct(">??Q")
"""Header of an answer: whether it is complete, whether it is the last, and its length."""
BOUNDS = "I"
"""Array type of the offsets of sentences in an answer."""
_REQUEST = struct.Struct(f">B{len(PARSE_DEFAULTS) * '?'}IQQIdQ")

_DESCRIPTORS = 32
_NEVER = (
    "ftplib.", "http.client.", "imaplib.", "nntplib.", "os.chmod", "os.chown", "os.exec",
    "os.fork", "os.kill", "os.link", "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove",
    "os.rename", "os.rmdir", "os.setxattr", "os.spawn", "os.startfile", "os.symlink", "os.system",
    "os.truncate", "os.utime", "poplib.", "pty.spawn", "shutil.", "smtplib.", "socket.",
    "sqlite3.", "subprocess.", "tempfile.", "urllib.", "webbrowser.",
)  # fmt: skip
"""Prefixes of the audit events that are refused."""
# Shared by threads: used by the child process alone, which has one thread.
_allowed: set[str] = set()
"""Audit events of importing the OCR libraries."""
OUT_OF_TIME = frozenset({-signal.SIGXCPU, -signal.SIGALRM})
"""Exit codes of a process that exceeded its time."""
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MAX_SIZE_TO_REUSE = 256 << 20
"""Maximum address space of a child that is reused; the next document would have less."""
_PACKAGE = "truespan"


class Task(IntEnum):
    """Operation of a request."""

    PARSE = 0
    SPLIT = 1
    MEMBERS = 2
    DRAW = 3


class Limits(NamedTuple):
    """Limits of a document: bytes of memory, seconds, and bytes of the answer."""

    memory: int
    cpu: int
    wall: float
    output: int


class MembersRequest(msgspec.Struct, array_like=True):
    """Request for members of a file: their bytes starting at `first`, or a list of all."""

    name: str
    options: DocumentOptions
    first: str | None = None


class Refusal(msgspec.Struct, array_like=True, gc=False):
    """A refusal: the code of an error, advice if not the default, and the line of a bug of ours."""

    code: str
    advice: str | None = None
    trace: str | None = None


class Forbidden(PermissionError):
    """A parser tried a forbidden operation."""


def pack_request(
    task: Task, name: str, size: int, limits: Limits, options: ParseOptions = PARSE_DEFAULTS
) -> bytes:
    """Return the header of a request with `size` bytes.

    The bytes are a document with its name, an encoded `CanonicalText` with its language, or a file
    with an encoded `MembersRequest` or `PictureRequest`.
    """
    encoded = name.encode("utf-8", "surrogatepass")
    return _REQUEST.pack(task, *options, len(encoded), size, *limits) + encoded


def read_exactly(stream: IO[bytes], length: int) -> bytes:
    """Read `length` bytes; raise EOFError if the other process ended first."""
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


def peak_memory() -> int:
    """Return the peak memory in bytes; 0 if unknown. On Linux a child inherits it."""
    return in_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) if resource else 0


def in_bytes(peak: int) -> int:
    """Return `ru_maxrss` in bytes; all systems but macOS report kilobytes."""
    return peak if sys.platform == "darwin" else peak << 10


def main() -> int:
    """Answer requests until the parent closes the pipe."""
    # Redirect the standard streams, so that libraries cannot print into the answers.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    # Ctrl-C is for the parent. The time limit signals must have their default effect, even if the
    # parent changed it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Forbid writing files and starting processes. Some systems lack some limits.
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (0, 0))
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    # Bytecode cannot be written any more.
    sys.dont_write_bytecode = True
    sys.addaudithook(_refuse)
    # Exclude everything loaded so far from garbage collection.
    gc.freeze()
    # Parsers create hundreds of thousands of objects and hardly any cycles.
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
        content = msgspec.msgpack.encode(Refusal("source_too_costly"))
    elif loaded and len(content) > limits.output:
        content, loaded = msgspec.msgpack.encode(Refusal("source_too_large")), False
    last = out_of_memory or _address_space() > _MAX_SIZE_TO_REUSE
    answers.write(ANSWER.pack(loaded, last, len(content)))
    answers.write(content)
    answers.flush()
    return not last


def _limit_document(limits: Limits | None) -> None:
    """Limit the resources of the next document; None lifts the limits."""
    # The alarm is for a child whose parent has gone: nothing else would end it.
    cpu = memory = resource.RLIM_INFINITY
    if limits:
        cpu, memory = math.ceil(time.process_time()) + limits.cpu, limits.memory
    signal.setitimer(signal.ITIMER_REAL, limits.wall if limits else 0)
    for what, limit in ((resource.RLIMIT_CPU, cpu), (resource.RLIMIT_AS, memory)):
        # The soft limit can be changed within the hard limit.
        _, hard = resource.getrlimit(what)
        if hard != resource.RLIM_INFINITY:
            limit = hard if limit == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (limit, hard))


def _run(task: int, name: str, document: bytes, options: ParseOptions) -> tuple[bytes, bool]:
    try:
        if task == Task.SPLIT:
            canonical = msgspec.msgpack.decode(document, type=prepare(CanonicalText))
            return array(BOUNDS, sentence_bounds(canonical, name)).tobytes(), True
        if task == Task.MEMBERS:
            # Imported on first use, because most documents are not members of a file.
            from truespan.parsing.members import list_members, read_members

            request = msgspec.json.decode(name, type=prepare(MembersRequest))
            wanted = request.name, document, request.options
            found = (
                list_members(*wanted)
                if request.first is None
                else read_members(*wanted, request.first)
            )
            return msgspec.msgpack.encode(found), True
        if task == Task.DRAW:
            from truespan.parsing import draw

            drawn = draw(document, msgspec.json.decode(name, type=prepare(PictureRequest)))
            return msgspec.msgpack.encode(drawn), True
        if options.ocr:
            _allowed.add("os.putenv")
        return msgspec.msgpack.encode(load(name, document, options)), True
    except SourceRefused as refusal:
        answer = Refusal(refusal.code, refusal.own_advice)
    except MemoryError:
        raise
    except Exception as error:
        # Only the type of the error and the last line of our code; the message may quote text.
        place, traceback = "", error.__traceback__
        while traceback is not None:
            path = traceback.tb_frame.f_code.co_filename
            _, ours, file = path.rpartition(f"{_PACKAGE}{os.sep}")
            if ours:
                file = file.replace(os.sep, "/")
                place = f" in {_PACKAGE}/{file}, line {traceback.tb_lineno}"
            traceback = traceback.tb_next
        answer = Refusal("loader_crashed", trace=f"{type(error).__name__}{place}")
    return msgspec.msgpack.encode(answer), False


def _address_space() -> int:
    """Return the current address space of the process in bytes; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
