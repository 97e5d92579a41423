"""The child in which documents are parsed. `python -m truespan.adapters.child.process`

It reads a request from its standard input, answers on its standard output, and ends when there is
no more input: when the parser was closed, or its process is gone, however that came about.
"""

from __future__ import annotations

import gc
import os
import sys
from types import TracebackType
from typing import IO

from truespan.adapters.child import guard
from truespan.adapters.child.wire import (
    BEGUN,
    GREETING,
    Order,
    Refusal,
    encode,
    receive_document,
    receive_name,
    receive_order,
    send_answer,
)
from truespan.errors import LoaderCrashed, SourceRefused, SourceTooCostly, SourceTooLarge
from truespan.ingest.load import load

_WEARY = 256 << 20
"""A child that keeps so much ends: what it does not give back would be the next document's loss."""
_PACKAGE = "truespan"


def main() -> int:
    """Answer requests until there are no more."""
    requests, answers = _streams()
    guard.limit_process()
    guard.confine()
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
    guard.limit_document(order.limits)
    try:
        content, loaded = _content(requests, order)
        starved = False
    except MemoryError:
        content, loaded, starved = b"", False, True
    guard.lift_limits()
    if starved:
        content = encode(Refusal(SourceTooCostly.__name__))
    elif loaded and len(content) > order.limits.output:
        content, loaded = encode(Refusal(SourceTooLarge.__name__)), False
    last = starved or guard.address_space() > _WEARY
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
