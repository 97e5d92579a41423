"""An embedder of the package `fastembed`, an extra that is imported when first needed.

Owns: loading and running its models, and the profile of a model.
Does not own: the package, and the source of models; nothing is downloaded unless allowed.
Must hold: a vector is a function of its text alone, and no text is cut.
"""

from __future__ import annotations

from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truespan.errors import ModelUnavailable, TextTooLong
from truespan.providers.embedder import BaseEmbedder, LearntModel
from truespan.providers.onnx import disable_telemetry
from truespan.providers.prefixes import prefixes_for
from truespan.types.profile import EmbeddingLimits
from truespan.types.vectors import Vector, unit_vector

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL = "BAAI/bge-small-en-v1.5"
INSTALL = "Install Truespan with the extra 'fastembed'."
_MIN_CONTEXT = 512
_DECIDING = (".onnx", ".onnx_data", ".safetensors", "tokenizer.json", "tokenizer_config.json")
"""Endings of the files that decide a vector."""


class FastembedEmbedder(BaseEmbedder):
    """An embedder with a model of `fastembed` on this machine.

    The model is in `cache_dir` or in `folder`. Only with `download` may the package fetch it.

    Embedding raises:
        ModelUnavailable: the package or the model is not installed.
        TextTooLong: the model would truncate one of the texts.
    """

    provider = "fastembed"

    def __init__(
        self,
        model: str = MODEL,
        *,
        cache_dir: Path,
        folder: Path | None = None,
        threads: int | None = None,
        download: bool = False,
    ) -> None:
        # Batches are small, so that results are stored soon; texts run one by one anyway.
        super().__init__(model, "local", EmbeddingLimits(items=32, in_flight=1, joint=False))
        self._cache_dir = cache_dir
        self._folder = folder
        self._threads = threads
        self._download = download
        self._network: Any = None
        self._tokenizer: Tokenizer
        """Tokenizer of the model, without truncation and padding; set when the model is loaded."""

    def count_query(self, text: str) -> int:
        """Return the exact number of tokens of a query, including its prefix."""
        return self._count(self._known().prefixes.query + text)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _embed(self, known: LearntModel, texts: list[str], *, query: bool = False) -> list[Vector]:
        del query
        if any(self._count(text) > known.limit for text in texts):
            raise TextTooLong(
                f"A text has more tokens than the model reads ({known.limit}).",
                advice="Nothing was cut off; shorten the query, or choose smaller chunks.",
            )
        # Quantised models scale over a batch, so a vector would depend on the other texts in it.
        found = self._network.embed(texts, batch_size=1)
        return [unit_vector(numbers.tolist()) for numbers in found]

    def _learn(self) -> LearntModel:
        self._network = self._open()
        original: Tokenizer = self._network.model.tokenizer
        tokenizer = self._tokenizer = type(original).from_str(original.to_str())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        context = int((original.truncation or {}).get("max_length") or _MIN_CONTEXT)
        limit = context - tokenizer.num_special_tokens_to_add(False)
        prefixes = prefixes_for(self._model)
        profile = self._profile(
            len(next(iter(self._network.embed(["dimensions"], batch_size=1)))),
            revision=_revision(Path(self._network.model._model_dir)),
            modes=prefixes.modes,
            input_limit=limit - self._count(prefixes.document),
        )
        return LearntModel(profile, prefixes, limit=limit)

    def _open(self) -> Any:
        disable_telemetry()  # The package runs its models with onnxruntime.
        try:
            from fastembed import TextEmbedding  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ModelUnavailable(
                "The package fastembed is not installed.", advice=INSTALL
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
            call = f"TextEmbedding({self._model!r}, cache_dir={str(self._cache_dir)!r})"
            raise ModelUnavailable(
                f"The model {self._model!r} is not on this machine, or cannot be loaded.",
                advice="Check the folder that the settings name for it."
                if self._folder
                else f'Get it: python -c "from fastembed import TextEmbedding; {call}"',
            ) from failure


def _revision(folder: Path) -> str:
    """Return a digest of the files that decide a vector."""
    digest = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.name.endswith(_DECIDING)):
        with path.open("rb") as file:
            digest.update(f"{path.name} {file_digest(file, 'sha256').hexdigest()}\n".encode())
    return f"sha256:{digest.hexdigest()}"
