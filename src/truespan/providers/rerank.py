"""Rerankers with cross-encoders on this machine.

Must hold: every call ends in time or when it is cancelled, and a text is scored independently of
the others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from truespan import errors
from truespan.core.cancel import current_cancel_token
from truespan.protocols import Clock
from truespan.providers.context import ModelContext
from truespan.providers.http import sendable
from truespan.providers.model_files import ModelFolder
from truespan.providers.onnx import FolderFiles, open_session, require_known_inputs, run_tokens

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Result = TypeVar("Result")

_USUAL_TOKENS = 512
_MAX_TOKENS = 8192
_MAX_THREADS = 8


def make_onnx_reranker(context: ModelContext, seconds: float) -> OnnxReranker:
    return OnnxReranker(
        context.folder / context.settings.rerank.model.strip(),
        threads=context.threads,
        clock=context.clock,
        seconds=seconds,
    )


# Shared by threads: the model is loaded under a lock; network and tokenizer are then only read, and
# each text is run separately.
class OnnxReranker:
    """A reranker with a cross-encoder in ONNX format from a folder, on this machine.

    The folder contains the network and `tokenizer.json`. The network must return one number for a
    pair of query and text. A pair that is too long for the model is cut at the end of the longer
    text. Loading the files with the first texts does not count towards the time limit.
    """

    def __init__(
        self, folder: Path, *, clock: Clock, seconds: float, threads: int | None = None
    ) -> None:
        self.name = f"onnx/{folder.name}"
        self._files = FolderFiles(folder)
        self._clock = clock
        self._seconds = seconds
        self._threads = threads or min(os.cpu_count() or 1, _MAX_THREADS)
        self._loading = Lock()
        self._loaded: tuple[InferenceSession, Tokenizer, ThreadPoolExecutor] | None = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        session, tokenizer, pool = self._load()
        deadline = self._clock.monotonic() + self._seconds
        pairs = [(sendable(query), sendable(text)) for text in texts]
        # Each pair has its own run: quantised networks derive scales from all inputs of a run.
        runs = [pool.submit(_run, session, tokenizer, *pair) for pair in pairs]
        return wait_for(runs, self._clock, deadline)

    def _load(self) -> tuple[InferenceSession, Tokenizer, ThreadPoolExecutor]:
        from concurrent.futures import ThreadPoolExecutor

        with self._loading:
            if self._loaded is None:
                pool = ThreadPoolExecutor(self._threads, "truespan-rerank")
                self._loaded = self._open_network(), pair_tokenizer(self._files), pool
            return self._loaded

    def _open_network(self) -> InferenceSession:
        session = open_session(self._files)
        require_known_inputs(session, self._files)
        # A name instead of a number is a size that only a run determines.
        shape = session.get_outputs()[0].shape
        if any(isinstance(size, int) and size != 1 for size in shape[1:]):
            raise errors.ModelUnavailable(
                f"The network {self._files.path(self._files.network)} does not give one score for "
                "a pair of texts.",
                advice="Use a cross-encoder, exported for sequence classification.",
            )
        return session


def wait_for(runs: Sequence[Future[Result]], clock: Clock, deadline: float) -> list[Result]:
    """Return the results of runs, which end in time or when the request is cancelled."""
    from concurrent.futures import CancelledError

    def stop() -> None:
        for run in runs:
            run.cancel()

    token = current_cancel_token()
    try:
        token.add_callback(stop)
        return [run.result(_require_time(clock, deadline)) for run in runs]
    except CancelledError:
        token.check()
        raise
    except TimeoutError:
        raise _too_slow() from None
    finally:
        token.remove_callback(stop)
        stop()


def pair_tokenizer(files: ModelFolder) -> Tokenizer:
    """Return a tokenizer for pairs of texts, which cuts the end of the longer one."""
    shared = files.tokenizer()
    known = (files.tokenizer_limit, files.positions)
    length = min([limit for limit in known if limit] or [_USUAL_TOKENS])
    # A separate copy, because it truncates and the shared one must not.
    tokenizer = type(shared).from_str(shared.to_str())
    tokenizer.enable_truncation(min(length, _MAX_TOKENS), strategy="longest_first")
    # A text must not end its own part of the input by spelling out a separator.
    tokenizer.encode_special_tokens = True
    return tokenizer


def _run(session: InferenceSession, tokenizer: Tokenizer, query: str, text: str) -> float:
    output = session.get_outputs()[0].name
    try:
        [found] = run_tokens(session, [output], tokenizer.encode(query, text))
    except Exception as failure:  # The runtime's own errors have no common root.
        raise errors.ModelUnavailable(
            "The network of the reranker cannot be run.", advice="Export the model again."
        ) from failure
    if found.size != 1:
        raise errors.ProviderBadReply(
            f"The reranker gave {found.size} numbers for one pair of texts."
        )
    return float(found.reshape(()))


def _require_time(clock: Clock, deadline: float) -> float:
    left = deadline - clock.monotonic()
    if left <= 0:
        raise _too_slow()
    return left


def _too_slow() -> errors.ProviderUnavailable:
    return errors.ProviderUnavailable(
        "The reranker did not finish in time.",
        advice="Use a smaller or faster model.",
    )
