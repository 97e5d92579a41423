"""Rerankers: HTTP servers of the common protocols, and cross-encoders on this machine.

Owns: the requests and replies of rerank servers, and running cross-encoders of a folder.
Does not own: the choice of texts, and the effect of a failure on the order of a result.
Must hold: a score belongs to the text with its index, every call ends in time or when it is
cancelled, a text is scored independently of the others, and a key goes into one header only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from truespan import errors
from truespan.core.cancel import current_cancel_token
from truespan.protocols import Clock
from truespan.providers.context import ModelContext
from truespan.providers.http import JsonClient, Reply, sendable
from truespan.providers.keys import KeyRing
from truespan.providers.limits import sending_query
from truespan.providers.model_files import ModelFolder
from truespan.providers.onnx import FolderFiles, open_session, require_known_inputs, run_tokens
from truespan.providers.outbound import Bounds, read_target
from truespan.types.token import Secret

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Result = TypeVar("Result")
Shape = Literal["jina", "cohere", "tei", "llama.cpp"]

_PATHS: dict[Shape, str] = {
    "jina": "/v1/rerank",
    "cohere": "/v2/rerank",
    "tei": "/rerank",
    "llama.cpp": "/v1/rerank",
}
"""Default path of each protocol, if the URL has no path."""
_NEED_MODEL = ("jina", "cohere")
_REQUESTS = 4
"""Concurrent requests of a process to the rerank server."""
_TEI_TEXTS = 32
"""Maximum number of texts of a request to TEI with its default settings."""
_REPLY_BYTES = 8 << 20
"""Maximum size of a reply: some servers return the texts beside the scores."""


class RerankServer(NamedTuple):
    """Endpoint and protocol of a rerank server."""

    url: str
    shape: Shape
    model: str

    @property
    def name(self) -> str:
        return f"{self.shape}/{self.model}" if self.model else self.shape


def find_server(url: str, shape: Shape | Literal[""] | None, model: str) -> RerankServer:
    """Return the endpoint of a rerank server; without a `shape`, the path of the URL decides.

    Raises:
        InvalidConfiguration: the URL is invalid, its path has no known protocol, or a model is
        missing.
    """
    target, model = read_target(url), model.strip()
    found = shape or _shape_of(target.path)
    if found is None:
        raise errors.InvalidConfiguration(
            "The path of rerank_url does not tell the protocol of the rerank server.",
            advice="Set rerank_shape to 'jina', 'cohere', 'tei' or 'llama.cpp'.",
        )
    if found in _NEED_MODEL and not model:
        raise errors.InvalidConfiguration(
            f"A rerank server of the shape {found!r} needs rerank_model.",
            advice="Set it, or set rerank_shape to 'llama.cpp' for a server with one model.",
        )
    path = "" if target.path else _PATHS[found]
    return RerankServer(target.url + path, found, model)


def _shape_of(path: str) -> Shape | None:
    """Return the usual protocol of a path: version 1 is Jina's, version 2 Cohere's."""
    parts = path.lower().split("/")
    if parts[-1] not in ("rerank", "reranking"):
        return None
    return {"v1": "jina", "v2": "cohere"}.get(parts[-2], "tei")  # type: ignore[return-value]


class _Scored(msgspec.Struct):
    index: int
    relevance_score: float


class _Results(msgspec.Struct):
    results: list[_Scored]


class _TeiScored(msgspec.Struct):
    index: int
    score: float


def make_http_reranker(context: ModelContext, seconds: float) -> HttpReranker:
    options = context.settings.rerank
    # A local server seldom needs a key, so it gets one only if one is configured for it.
    keyless = not any(key.provider == "rerank" for key in context.settings.keys)
    return HttpReranker(
        find_server(options.url, options.shape, options.model),
        keys=context.key_ring("rerank", keyless=keyless),
        clock=context.clock,
        seconds=seconds,
        in_flight=_REQUESTS,
    )


class HttpReranker:
    """A reranker of a server: one request for all texts, with TEI one for each 32 texts."""

    def __init__(
        self,
        server: RerankServer,
        *,
        keys: KeyRing,
        clock: Clock,
        seconds: float,
        in_flight: int | None = None,
    ) -> None:
        self.name = server.name
        self._server = server
        self._keys = keys
        self._clock = clock
        self._seconds = seconds
        self._client = JsonClient(
            server.url,
            label="The rerank server",
            clock=clock,
            bounds=Bounds(
                connect_seconds=min(Bounds().connect_seconds, seconds),
                read_seconds=seconds,
                total_seconds=seconds,
                body_bytes=_REPLY_BYTES,
            ),
            in_flight=in_flight,
            start_advice="Check that it runs, and that rerank_url is its URL.",
        )

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text; see `Reranker`."""
        deadline = self._clock.monotonic() + self._seconds
        size = _TEI_TEXTS if self._server.shape == "tei" else max(len(texts), 1)
        return [
            score
            for start in range(0, len(texts), size)
            for score in self._request(query, texts[start : start + size], deadline)
        ]

    def _request(self, query: str, texts: Sequence[str], deadline: float) -> list[float]:
        payload = self._payload(sendable(query), [sendable(text) for text in texts])

        def post(key: Secret | None) -> Reply:
            headers = {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}
            return self._client.post("", payload, headers=headers, deadline=deadline)

        with sending_query():
            reply = self._keys.send(self._server.model, post)
        if not reply.succeeded:
            raise reply.size_refusal() or reply.failure()
        if self._server.shape == "tei":
            found = [(item.index, item.score) for item in reply.read(list[_TeiScored])]
        else:
            found = [(item.index, item.relevance_score) for item in reply.read(_Results).results]
        if sorted(index for index, _ in found) != list(range(len(texts))):
            raise errors.ProviderBadReply(
                f"{self._client.server} did not return exactly one score for each text."
            )
        return [score for _, score in sorted(found)]

    def _payload(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._server.shape == "tei":
            # Without it a text that is too long for the model fails the whole request.
            return {"query": query, "texts": texts, "truncate": True}
        payload: dict[str, Any] = {"query": query, "documents": texts, "top_n": len(texts)}
        if self._server.model:
            payload["model"] = self._server.model
        if self._server.shape == "jina":
            payload["return_documents"] = False
        return payload


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
        """Return one score for each text; see `Reranker`."""
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
    """Return the results of runs, which end in time or when the request is cancelled.

    Raises:
        ProviderUnavailable: the runs took too long.
        Cancelled: the request was cancelled.
    """
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
    """Return the score of one pair, alone in its run. Threads may share session and tokenizer."""
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
        advice="Lower rerank_candidates.",
    )
