"""Embeds with the package `fastembed`, which is an extra and is imported when it is first needed.

Owns: loading and running its models, and the profile of a model.
Does not own: the package, and where models come from; nothing is downloaded unless allowed.
Must hold: a vector is a function of its text alone, and no text is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from truespan.errors import ModelUnavailable, TextTooLong
from truespan.protocols import EmbeddingLimits
from truespan.providers.embedder import ModelPrefixes, prefixes_for
from truespan.providers.local import disable_telemetry
from truespan.types.chunk import Vector
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.vectors import unit_vector

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PROVIDER = "fastembed"
MODEL = "BAAI/bge-small-en-v1.5"
INSTALL = "pip install 'truespan[fastembed]'"
_ITEMS = 32
_LEAST_CONTEXT = 512
_DECIDING = (".onnx", ".onnx_data", ".safetensors", "tokenizer.json", "tokenizer_config.json")
"""Endings of the files that decide a vector."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded model. `tokenizer` is the model's, without truncation and padding."""

    network: Any
    tokenizer: Tokenizer
    profile: EmbeddingProfile
    prefixes: ModelPrefixes
    room: int


class FastembedEmbedder:
    """Embeds on this machine with a model that `fastembed` knows.

    The model is looked for in `cache_dir`, or is the one in `folder`. Only with `download` may the
    package fetch it.
    """

    def __init__(
        self,
        model: str = MODEL,
        *,
        cache_dir: Path,
        folder: Path | None = None,
        threads: int | None = None,
        download: bool = False,
    ) -> None:
        self._model = model
        self._cache_dir = cache_dir
        self._folder = folder
        self._threads = threads
        self._download = download
        self._loading = Lock()
        self._loaded: _Loaded | None = None

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the profile; its revision is a digest of the model's files.

        Raises:
            ModelUnavailable: the package or the model is not there.
        """
        return self._ready().profile

    @property
    def endpoint(self) -> str:
        """Return the word for this machine."""
        return "local"

    @property
    def limits(self) -> EmbeddingLimits:
        """Return small batches, so that results are stored soon; texts run one by one anyway."""
        return EmbeddingLimits(items=_ITEMS, in_flight=1, joint=False)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ModelUnavailable: the package or the model is not there.
            TextTooLong: the model would read less than one of the texts.
        """
        if not texts:
            return []
        ready = self._ready()
        return self._embed(ready, [ready.prefixes.document + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        ready = self._ready()
        return self._embed(ready, [ready.prefixes.query + text])[0]

    def count_query(self, text: str) -> int:
        """Return the exact number of tokens of a query, including its prefix."""
        ready = self._ready()
        return _count(ready.tokenizer, ready.prefixes.query + text)

    def _embed(self, ready: _Loaded, texts: list[str]) -> list[Vector]:
        clean = [text.encode(errors="replace").decode() for text in texts]
        if any(_count(ready.tokenizer, text) > ready.room for text in clean):
            raise TextTooLong(
                f"A text has more tokens than the model reads ({ready.room}).",
                advice="Nothing was cut off; shorten the query, or choose smaller chunks.",
            )
        # Quantised models scale over a batch, so a vector would depend on the other texts in it.
        found = ready.network.embed(clean, batch_size=1)
        return [unit_vector(numbers.tolist()) for numbers in found]

    def _ready(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> _Loaded:
        network = self._open()
        inner = network.model
        tokenizer, context = _uncut(inner.tokenizer)
        prefixes = prefixes_for(self._model)
        room = context - tokenizer.num_special_tokens_to_add(False)
        profile = EmbeddingProfile(
            provider=PROVIDER,
            model=self._model,
            revision=_revision(Path(inner._model_dir)),
            dimensions=len(next(iter(network.embed(["dimensions"], batch_size=1)))),
            distance=Distance.COSINE,
            document_mode=prefixes.document_mode,
            query_mode=prefixes.query_mode,
            input_limit=max(room - _count(tokenizer, prefixes.document), 1),
        )
        return _Loaded(network, tokenizer, profile, prefixes, room)

    def _open(self) -> Any:
        disable_telemetry()  # The package runs its models with onnxruntime.
        try:
            from fastembed import TextEmbedding  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ModelUnavailable(
                "The package fastembed is not installed.", advice=f"Install it: {INSTALL}"
            ) from None
        known = {str(entry["model"]).lower() for entry in TextEmbedding.list_supported_models()}
        if self._model.lower() not in known:
            raise ModelUnavailable(f"The package fastembed has no model {self._model!r}.")
        options: dict[str, Any] = {"local_files_only": not self._download}
        if self._folder is not None:
            options["specific_model_path"] = str(self._folder)
        try:
            return TextEmbedding(
                self._model, cache_dir=str(self._cache_dir), threads=self._threads, **options
            )
        except Exception as failure:  # The package raises nothing narrower.
            raise ModelUnavailable(
                f"The model {self._model!r} is not on this machine, or cannot be loaded.",
                advice=self._how_to_get(),
            ) from failure

    def _how_to_get(self) -> str:
        if self._folder is not None:
            return "Check the folder that the settings name for it."
        call = f"TextEmbedding({self._model!r}, cache_dir={str(self._cache_dir)!r})"
        return f'Get it: python -c "from fastembed import TextEmbedding; {call}"'


def _uncut(tokenizer: Tokenizer) -> tuple[Tokenizer, int]:
    """Return a copy of a tokenizer without truncation, and the limit of the original."""
    cutting = tokenizer.truncation or {}
    own = type(tokenizer).from_str(tokenizer.to_str())
    own.no_truncation()
    own.no_padding()
    return own, int(cutting.get("max_length") or _LEAST_CONTEXT)


def _count(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def _revision(folder: Path) -> str:
    """Return a digest of the files that decide a vector."""
    files = sorted(path for path in folder.rglob("*") if path.name.endswith(_DECIDING))
    digest = sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(f"{path.name} {file_digest(file, 'sha256').hexdigest()}\n".encode())
    return f"sha256:{digest.hexdigest()}"
