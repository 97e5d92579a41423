"""The default embedder: bge-small-en-v1.5, quantised to int8, on this machine and offline.

The model's files are distributed with Truespan; the NOTICE beside them names source and licence. A
folder in the settings replaces them. Bytes are hashed before use, and the bytes hashed are the
bytes used.

A vector is a function of the text alone, bit for bit. The int8 network derives its scales from all
inputs of a run, so texts in one run would affect each other: each text gets its own run, on one
core, and the cores work in parallel.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path

from truespan.errors import ModelUnavailable, resource_error
from truespan.providers.model_files import TOKENIZER_FILE, read_checked, unreadable
from truespan.providers.onnx import NetworkFiles
from truespan.providers.onnx_embedder import OnnxEmbedder, OnnxModel, Pooling
from truespan.providers.prefixes import ModelPrefixes
from truespan.providers.tokenized import TokenizedModel
from truespan.providers.word_states import Projection, orthogonal_projection, read_projection
from truespan.types.profile import Distance, EmbeddingProfile

MODEL = "BAAI/bge-small-en-v1.5"
NETWORK_FILE = "model_quantized.onnx"
PROJECTION_FILE = "word_states.npy"
BUNDLED_FOLDER = Path(__file__).with_name("bge-small-en-v1.5")

_BUNDLED_DIGESTS = {
    NETWORK_FILE: "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
    TOKENIZER_FILE: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
}
_PROJECTION_DIGEST = "001f1d7573f3f6ce2dbe11ba97eabee9b0ace6b64bee6ad027e49f15c99ce134"
"""Another projection needs another `RECIPE` in `types.vectors`."""
REINSTALL = "Install Truespan again; with pip, add --force-reinstall and --no-deps."


# Shared by threads: the tokenizer is loaded under a lock, configured before it is published, and
# afterwards only encodes; the properties are computed from files.
class LocalModel(NetworkFiles):
    """The network and the tokenizer of the local model.

    Without a `folder`, the files must be exactly those that Truespan is distributed with, so their
    revision is known without reading them. The files in a `folder` of the operator may be any
    model, and their digest is the revision.
    """

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__()
        self._folder = folder

    def __reduce__(self) -> tuple[type[LocalModel], tuple[Path | None]]:
        # Another process reads the same files.
        return LocalModel, (self._folder,)

    @cached_property
    def revision(self) -> str:
        """Return a digest of both files, which changes whenever vectors or counts would."""
        digests = "\n".join(self.digests[name] for name in (NETWORK_FILE, TOKENIZER_FILE))
        return f"sha256:{sha256(digests.encode()).hexdigest()}"

    def _locate(self) -> Path:
        folder = self._folder or BUNDLED_FOLDER
        if all((folder / name).is_file() for name in _BUNDLED_DIGESTS):
            return folder
        if self._folder is None:
            raise ModelUnavailable("The files of the local model are missing.", advice=REINSTALL)
        raise ModelUnavailable(
            f"The model folder {self._folder} does not hold {NETWORK_FILE} and {TOKENIZER_FILE}.",
            advice="Correct the setting, or remove it to use the model that comes with Truespan.",
        )

    def _find_network(self) -> str:
        return NETWORK_FILE

    def _find_digests(self) -> dict[str, str]:
        if self._folder is None:
            return _BUNDLED_DIGESTS
        digests: dict[str, str] = {}
        for path in (self.location / name for name in _BUNDLED_DIGESTS):
            try:
                with path.open("rb") as file:
                    digests[path.name] = file_digest(file, "sha256").hexdigest()
            except OSError as failure:
                raise resource_error(failure) or unreadable(path) from failure
        return digests

    @property
    def is_bundled(self) -> bool:
        """Return whether the files are those that Truespan is distributed with, or copies."""
        return self.digests == _BUNDLED_DIGESTS

    @cached_property
    def projection(self) -> Projection:
        """Return the projection that was fitted to the distributed model; a fixed one for others.

        A copy of the distributed model in another folder has the same profile, and so the same
        projection.
        """
        if not self.is_bundled:
            return orthogonal_projection(DIMENSIONS)
        path = BUNDLED_FOLDER / PROJECTION_FILE
        return read_projection(read_checked(path, _PROJECTION_DIGEST, advice=REINSTALL))

    def remedy(self) -> str:
        return REINSTALL if self._folder is None else super().remedy()


INSTRUCTION = "Represent this sentence for searching relevant passages: "
DIMENSIONS = 384
INPUT_LIMIT = 510
"""Maximum number of tokens of a text. The network reads 512, two of which are special tokens."""


def describe_local(revision: str) -> TokenizedModel:
    """Return the properties of the local model with the revision of its weights."""
    return TokenizedModel(
        EmbeddingProfile(
            provider="local",
            model=MODEL,
            revision=revision,
            dimensions=DIMENSIONS,
            distance=Distance.COSINE,
            document_mode="passage",
            query_mode=f"instruction: {INSTRUCTION}",
            input_limit=INPUT_LIMIT,
        ),
        ModelPrefixes(query=INSTRUCTION),
        INPUT_LIMIT,
    )


# Shared by threads: the network is loaded under a lock; its threads work on one text each; what is
# known of a model is computed from its files, the same for every thread.
class LocalEmbedder(OnnxEmbedder):
    """An embedder that runs the local model and loads it with the first text."""

    def __init__(self, model: LocalModel, *, threads: int | None = None) -> None:
        super().__init__(model, threads=threads)
        self._local = model

    def check_files(self) -> str:
        for file in (NETWORK_FILE, TOKENIZER_FILE):
            self._local.read(file)
        return f"files match their digests, {self._local.revision[:19]}"

    @cached_property
    def _projection(self) -> Projection:
        return self._local.projection

    def _describe(self) -> OnnxModel:
        # Reads no file: libraries are opened more often than texts are embedded.
        known = describe_local(self._local.revision)
        return OnnxModel(
            known.profile,
            known.prefixes,
            known.limit,
            pooling=Pooling.CLS,
            output="last_hidden_state",
        )
