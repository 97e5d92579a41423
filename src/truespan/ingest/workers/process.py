"""The process of a worker that makes drafts: it answers tasks until the pipe is closed."""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
from typing import Any

import msgspec

from truespan.errors import SourceRefused
from truespan.ingest.draft import DraftTask, run_task
from truespan.ingest.workers.client import (
    DRAFT,
    FAILURE,
    REFUSAL,
    Refusal,
    encode_draft,
    receive,
    send,
)

IDLE_SECONDS = 60.0
"""Time without a task after which a worker ends, to free its memory."""


def main() -> int:
    """Answer tasks until the parent closes the pipe, or until there has been none for a while."""
    # Redirect the standard streams, so that libraries cannot print into the answers.
    # Without a buffer, the pipe shows whether a task is waiting.
    tasks, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Only the parent, which started this process, can write to the pipe.
        tools: tuple[Any, ...] = pickle.loads(receive(tasks)[1])  # noqa: S301
        # Drafts consist of thousands of objects and hardly any cycles.
        gc.freeze()
        gc.set_threshold(200_000, 20, 100)
        # It ends if there is no task for a while.
        while select.select([tasks], [], [], IDLE_SECONDS)[0]:
            send(answers, *answer(receive(tasks)[1], tools))
    except (EOFError, BrokenPipeError):
        pass  # The parent has gone.
    return 0


def answer(message: bytes, tools: tuple[Any, ...]) -> tuple[int, bytes]:
    """Return the kind and the content of the answer to a task."""
    try:
        task: DraftTask = pickle.loads(message)  # noqa: S301
        return DRAFT, encode_draft(run_task(task, *tools))
    except SourceRefused as error:
        notes = tuple(getattr(error, "__notes__", ()))
        refusal = Refusal(error.code, error.name, error.own_advice, notes)
        return REFUSAL, msgspec.msgpack.encode(refusal)
    except Exception:
        return FAILURE, b""


if __name__ == "__main__":
    sys.exit(main())
