"""The default embedder: a model that runs on this machine, offline, straight after install.

Its vector is a function of the text alone, bit for bit. The int8 network takes its scales over all
it is given at once, so texts that share a run would colour each other: each text gets a run of its
own, on one core, and the cores work side by side.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from truespan.errors import ModelUnavailable, ProviderRefused
from truespan.protocols import EmbeddingLimits
from truespan.providers.local_model import MODEL, NETWORK_FILE, LocalModel
from truespan.types.chunk import Vector
from truespan.types.profile import Distance, EmbeddingProfile

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from onnxruntime import InferenceSession

INSTRUCTION = "Represent this sentence for searching relevant passages: "
DIMENSIONS = 384
INPUT_LIMIT = 510
"""The network reads 512 tokens; two of them are its own."""

_LIMITS = EmbeddingLimits(items=32, tokens=100_000, in_flight=1, joint=False)
_MOST_THREADS = 8
"""Each thread may need 40 MB for the longest text, so a machine with many cores is not filled."""
_OUTPUT = "last_hidden_state"
_SILENT = 4
"""The severity at which only fatal messages of the runtime are left; none may reach stdout."""
_LOADING = Lock()
_IN_USE: MutableMapping[str, InferenceSession] = WeakValueDictionary()
"""Networks by the digest of their file: libraries open at once in a process share one."""


class LocalEmbedder:
    """Embeds with the local model, which is loaded when the first text comes."""

    endpoint = "local"

    def __init__(self, model: LocalModel, *, threads: int | None = None) -> None:
        self._model = model
        self._threads = threads or _default_threads()
        self._loading = Lock()
        self._network: _Network | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._profile: EmbeddingProfile | None = None

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the model's profile; nothing is loaded for it."""
        if self._profile is None:
            self._profile = EmbeddingProfile(
                provider="local",
                model=MODEL,
                revision=self._model.revision,
                dimensions=DIMENSIONS,
                distance=Distance.COSINE,
                document_mode="passage",
                query_mode=f"instruction: {INSTRUCTION}",
                input_limit=INPUT_LIMIT,
            )
        return self._profile

    @property
    def limits(self) -> EmbeddingLimits:
        """Return batches small enough that progress is smooth and an interruption loses little."""
        return _LIMITS

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ProviderRefused: a text is longer than the model reads; none is embedded then.
            ModelUnavailable: the model's files are missing or changed.
        """
        if not texts:
            return []
        inputs = self._encode(texts)
        network, pool = self._ready()
        # The longest go first, so that no core is left with a long text at the end.
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]), reverse=True)
        return _gather({i: pool.submit(network.run, inputs[i]) for i in order})

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        [tokens] = self._encode([INSTRUCTION + text])
        network, _ = self._ready()
        return network.run(tokens)

    def count_query(self, text: str) -> int:
        """Return how many tokens the model reads of a query, its instruction included."""
        [tokens] = _encode_all(self._model, [INSTRUCTION + text])
        return len(tokens) - 2

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        inputs = _encode_all(self._model, texts)
        longest = max(map(len, inputs)) - 2
        if longest > INPUT_LIMIT:
            raise ProviderRefused(
                f"A text has {longest} tokens; the local model reads {INPUT_LIMIT}.",
                advice="Cut it into smaller pieces.",
            )
        return inputs

    def _ready(self) -> tuple[_Network, ThreadPoolExecutor]:
        from concurrent.futures import ThreadPoolExecutor

        with self._loading:
            if self._network is None or self._pool is None:
                self._network = _Network(self._model)
                self._pool = ThreadPoolExecutor(self._threads, "truespan-embed")
            return self._network, self._pool


class _Network:
    """The loaded network. It may be run by several threads at once."""

    def __init__(self, model: LocalModel) -> None:
        import numpy

        self._numpy = numpy
        self._session = _shared_session(model)

    def run(self, tokens: list[int]) -> Vector:
        """Return the normalised vector of one text, alone in its run."""
        numpy = self._numpy
        ids = numpy.array([tokens], dtype=numpy.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": numpy.ones_like(ids),
            "token_type_ids": numpy.zeros_like(ids),
        }
        hidden = numpy.asarray(self._session.run([_OUTPUT], feed)[0])
        # The first token stands for the whole text. Its length is taken in double precision, so
        # that the rounding to single precision is the only one.
        pooled = hidden[0, 0].astype(numpy.float64)
        pooled /= numpy.sqrt(numpy.sum(pooled * pooled))
        return Vector(pooled.astype("<f4").tobytes())


def _shared_session(model: LocalModel) -> InferenceSession:
    """Return the network that is loaded already, or load it; its file is checked either way."""
    content = model.read(NETWORK_FILE)
    digest = model.digest(NETWORK_FILE)
    with _LOADING:
        session = _IN_USE.get(digest)
        if session is None:
            session = _IN_USE[digest] = _open_session(model, content)
        return session


def disable_telemetry() -> None:
    """Keep onnxruntime from collecting usage data; call it before onnxruntime is imported.

    On Linux its import would write a device id and an event database to the user's cache folder
    and later try to send events. Only this variable prevents that: `disable_telemetry_events` can
    only be called after the import. A value that is already set is overridden.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def _open_session(model: LocalModel, content: bytes) -> InferenceSession:
    disable_telemetry()
    import onnxruntime

    onnxruntime.set_default_logger_severity(_SILENT)
    # For Windows, and for a program that imported onnxruntime before.
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Measured: the arena saves a tenth of the time and a third of the memory. Memory patterns are
    # kept per length of text, and hardly any two texts have the same.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as failure:  # The runtime's own errors have no common root.
        raise _unfit(model, "cannot be loaded") from failure
    outputs = {output.name: output.shape for output in session.get_outputs()}
    if _OUTPUT not in outputs or outputs[_OUTPUT][-1] != DIMENSIONS:
        raise _unfit(model, f"does not give vectors of {DIMENSIONS} dimensions")
    return session


def _unfit(model: LocalModel, fault: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The network {model.location / NETWORK_FILE} {fault}.",
        advice=f"The model folder must hold {MODEL} as ONNX.",
    )


def _encode_all(model: LocalModel, texts: Sequence[str]) -> list[list[int]]:
    # Half a surrogate pair has no UTF-8; the tokenizer drops what is put in its place.
    clean = [text.encode(errors="surrogatepass").decode(errors="replace") for text in texts]
    return [encoding.ids for encoding in model.tokenizer().encode_batch_fast(clean)]


def _gather(futures: dict[int, Future[Vector]]) -> list[Vector]:
    try:
        return [futures[i].result() for i in range(len(futures))]
    except BaseException:
        # Ctrl-C included: what is not yet running never runs, so stopping takes one text's time.
        for future in futures.values():
            future.cancel()
        raise


def _default_threads() -> int:
    return min(os.cpu_count() or 1, _MOST_THREADS)
