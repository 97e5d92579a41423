"""Models of the package sentence-transformers, an extra: embedders, rerankers and their download.

Owns: finding a model in a folder or in the cache of models, its digest, and loading it.
Does not own: pooling and further modules; the package runs them as the model's files say.
Must hold: nothing is downloaded unless asked for, no code of a model is run, and files that decide
a vector are hashed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from truespan.errors import InvalidConfiguration, ModelUnavailable, ProviderBadReply
from truespan.extensions.models.torch_devices import (
    BATCH_TOKENS,
    RunOptions,
    TorchNetwork,
    TorchRunner,
    import_torch,
)
from truespan.extensions.models.torch_embedder import TorchEmbedder
from truespan.protocols import Clock
from truespan.providers.context import ModelContext
from truespan.providers.http import sendable
from truespan.providers.model_files import (
    DATA_LIMIT,
    TEXT_LIMIT,
    TOKENIZER_FILE,
    ModelDescription,
    ModelFolder,
    whole_number,
)
from truespan.providers.rerank import pair_tokenizer, wait_for
from truespan.providers.tokenized import TokenizedModel
from truespan.types.profile import Distance, EmbeddingProfile

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor, device, dtype  # pyright: ignore[reportMissingImports]

_WEIGHTS = "*.safetensors"
_FILES = (_WEIGHTS, "*.json", "*.txt", "*.model")
"""Patterns of the files of a model. Weights as pickles and Python files are neither read nor got.
"""
_OTHER_FORMATS = ("onnx/*", "openvino/*")


class SentenceTransformersSettings(Struct, frozen=True):
    """An embedding model of the package sentence-transformers."""

    model: str = ""
    """Folder of a model, relative to the library, or a name in the cache of models."""


def download_model(name: str) -> Path:
    """Download a model from the Hugging Face Hub into its cache; return the folder.

    Raises:
        ModelUnavailable: the extra is not installed, or the hub does not give the model.
    """
    hub = import_torch("huggingface_hub")
    try:
        found = hub.snapshot_download(
            name, allow_patterns=list(_FILES), ignore_patterns=list(_OTHER_FORMATS)
        )
    except Exception as failure:  # The errors of the package have no common root.
        raise ModelUnavailable(
            f"The model {name!r} cannot be downloaded: {type(failure).__name__}.",
            advice="Check the name, the network, and whether the model needs an account.",
        ) from failure
    return Path(found)


# Shared by threads: the tokenizer is loaded under a lock, configured before it is published, and
# afterwards only encodes; the properties are computed from files.
class TorchFolder(ModelFolder):
    """The files of a model of sentence-transformers.

    `model` is a folder, relative to the library, or a name in the cache of models.
    """

    def __init__(
        self, library: Path, model: str, description: ModelDescription | None = None
    ) -> None:
        super().__init__(library / model, description)
        self.model = model

    @cached_property
    def _is_cached(self) -> bool:
        return not self._folder.is_dir()

    def _locate(self) -> Path:
        if not self._is_cached:
            return super()._locate()
        hub = import_torch("huggingface_hub")
        try:
            return Path(hub.snapshot_download(self.model, local_files_only=True))
        except Exception as failure:  # The errors of the package have no common root.
            raise ModelUnavailable(
                f"There is no folder {self._folder}, and no model {self.model!r} in the cache.",
                advice=f"Correct the name, or run: truespan models download {self.model}",
            ) from failure

    @property
    def _root(self) -> Path:
        # Files of a snapshot in the cache are links to files beside it.
        return self.location.parents[1] if self._is_cached else self.location

    def stated_name(self) -> str:
        return self.model if self._is_cached else super().stated_name()

    @property
    def precision(self) -> str:
        """Return the described precision; otherwise bfloat16 if the weights have it, or float16."""
        if self.description.precision:
            return self.description.precision
        config = self.configuration("config.json")
        stated = config.get("dtype", config.get("torch_dtype"))
        return "bfloat16" if stated == "bfloat16" else "float16"

    def revision(self, precision: str) -> str:
        """Return a digest of the precision and of all files that may decide a vector."""
        text = json.dumps([precision, self.digests], sort_keys=True, separators=(",", ":"))
        return f"sha256:{sha256(text.encode()).hexdigest()}"

    def _find_digests(self) -> Mapping[str, str]:
        found = {
            path.relative_to(self.location).as_posix(): DATA_LIMIT if number == 0 else TEXT_LIMIT
            for number, pattern in enumerate(_FILES)
            for path in self.location.rglob(pattern)
        }
        names = [name for name in found if not name.startswith(("onnx/", "openvino/"))]
        if TOKENIZER_FILE not in names or not any(n.endswith(".safetensors") for n in names):
            raise ModelUnavailable(
                f"The model folder {self.location} does not hold {TOKENIZER_FILE} and weights as "
                "safetensors.",
                advice="Save the model with sentence-transformers, or choose another model.",
            )
        return {name: self._digest(name, found[name]) for name in sorted(names)}

    @property
    def padding(self) -> int:
        """Return the id of the tokens that texts are padded with."""
        found = self.configuration("config.json").get("pad_token_id")
        return found if isinstance(found, int) and found >= 0 else 0

    @property
    def takes_kinds(self) -> bool:
        """Return whether the network distinguishes the first from the second text of a pair."""
        return (whole_number(self.configuration("config.json").get("type_vocab_size")) or 0) > 1

    def load(self, package: str, name: str, **options: Any) -> Any:
        """Return a model by a class of a package, from exactly the files that were hashed."""
        expected = self.digests
        make = attrgetter(name)(import_torch(package))
        try:
            with _silence():
                model = make(
                    str(self.location), local_files_only=True, trust_remote_code=False, **options
                )
        except Exception as failure:  # The errors of the package have no common root.
            raise ModelUnavailable(
                f"The model in {self.location} cannot be loaded: {str(failure)[:200]}",
                advice="It must be a model of sentence-transformers without custom code.",
            ) from failure
        if self._find_digests() != expected:
            raise ModelUnavailable(
                f"The files of the model in {self.location} changed.", advice=self.remedy()
            )
        return model.eval()


@contextmanager
def _silence() -> Iterator[None]:
    from transformers.utils import logging  # pyright: ignore[reportMissingImports]

    before, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if shown:
            logging.enable_progress_bar()


class PackageNetwork(TorchNetwork):
    """A model of the package on one device; its arithmetic is float32 on a CPU.

    A CPU uses the same rounded weights as a GPU, so that both give nearly the same vectors.
    """

    def __init__(self, model: Any, takes_kinds: bool, device: device, precision: dtype) -> None:
        model = model.to(precision)
        self.model = model.float() if device.type == "cpu" else model.to(device)
        self._takes_kinds = takes_kinds

    def features(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> dict[str, Tensor]:
        found = {"input_ids": ids, "attention_mask": mask}
        return found | ({"token_type_ids": kinds} if self._takes_kinds else {})


class SentenceNetwork(PackageNetwork):
    """A model that gives a vector for each text."""

    def run(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        found = self.model(self.features(ids, mask, kinds))
        normalise = import_torch().nn.functional.normalize
        return normalise(found["sentence_embedding"].float(), dim=1), found["token_embeddings"]


class CrossNetwork(PackageNetwork):
    """A model that gives numbers for each pair of texts."""

    def run(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        found = self.model(**self.features(ids, mask, kinds)).logits
        return found, found


def make_embedder(context: ModelContext) -> SentenceEmbedder:
    options = context.settings.section("sentence_transformers", SentenceTransformersSettings)
    if not options.model.strip():
        raise InvalidConfiguration(
            "The embedding provider is 'sentence-transformers', but no model is named.",
            advice="Set sentence_transformers_model to a folder, or to the name of a model.",
        )
    folder = TorchFolder(context.folder, options.model.strip())
    return SentenceEmbedder(folder, context.settings.embedding.device or "auto")


def make_reranker(context: ModelContext, seconds: float) -> TorchReranker:
    return TorchReranker(
        TorchFolder(context.folder, context.settings.rerank.model.strip()),
        "auto",
        clock=context.clock,
        seconds=seconds,
    )


# Shared by threads: the network is loaded under a lock and then only run; what is known of the
# model is computed from its files.
class SentenceEmbedder(TorchEmbedder):
    """An embedder with a model of sentence-transformers on this machine."""

    def __init__(
        self, folder: TorchFolder, device: str = "auto", *, batch_tokens: int = BATCH_TOKENS
    ) -> None:
        self._folder = folder
        self._batch_tokens = batch_tokens
        super().__init__(folder, device)

    def _run_options(self) -> RunOptions:
        folder = self._folder
        return RunOptions(
            folder.precision,
            self._batch_tokens,
            padding=folder.padding,
            max_length=folder.max_length(),
        )

    def _describe(self) -> TokenizedModel:
        folder = self._folder
        name = folder.stated_name()
        prefixes = folder.prefixes(name)
        tokenizer = folder.tokenizer()
        limit = folder.max_length() - tokenizer.num_special_tokens_to_add(False)
        prefix = tokenizer.encode(prefixes.document, add_special_tokens=False)
        profile = EmbeddingProfile(
            provider="sentence-transformers",
            model=name,
            revision=folder.revision(folder.precision),
            dimensions=self._dimensions(),
            distance=Distance.COSINE,
            document_mode=prefixes.modes[0],
            query_mode=prefixes.modes[1],
            input_limit=max(limit - len(prefix.ids), 1),
        )
        return TokenizedModel(profile, prefixes, limit, folder.lowercase)

    def _dimensions(self) -> int:
        """Return the dimensions of the last module that states them; embedding checks them."""
        folder = self._folder
        modules = folder.configuration("modules.json").get("entries", [])
        if not modules:
            raise InvalidConfiguration(
                f"The folder {folder.location} does not state the pooling of the model.",
                advice="Save the model with sentence-transformers, which writes modules.json.",
            )
        paths = [str(entry.get("path", "")) for entry in modules if isinstance(entry, dict)]
        stated = [
            folder.configuration(f"{path}/config.json".lstrip("/")).get(name)
            for path in reversed(paths)
            for name in ("out_features", "word_embedding_dimension", "embedding_dimension")
        ]
        stated += [folder.configuration("config.json").get("hidden_size")]
        found = next((size for value in stated if (size := whole_number(value))), None)
        if found is None:
            raise InvalidConfiguration(
                f"The folder {folder.location} does not state the dimensions of a vector.",
                advice="Save the model with sentence-transformers.",
            )
        return found

    def _make_network(self, device: device, precision: dtype) -> TorchNetwork:
        folder = self._folder
        model = folder.load(
            "sentence_transformers",
            "SentenceTransformer",
            device="cpu",
            model_kwargs={"use_safetensors": True},
        )
        return SentenceNetwork(model, folder.takes_kinds, device, precision)


# Shared by threads: the network is loaded under a lock and then only run.
class TorchReranker:
    """A reranker with a cross-encoder on one or several devices of this machine.

    A pair that is too long for the model is cut at the end of the longer text. Loading the files
    with the first texts does not count towards the time limit.
    """

    def __init__(self, folder: TorchFolder, devices: str, *, clock: Clock, seconds: float) -> None:
        self.name = f"sentence-transformers/{Path(folder.model).name}"
        self._folder = folder
        self._clock = clock
        self._seconds = seconds
        self._runner = TorchRunner(
            self._make_network,
            devices,
            lambda: RunOptions(folder.precision, padding=folder.padding, pairs=True),
        )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return pair_tokenizer(self._folder)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text; see `Reranker`."""
        if not texts:
            return []
        pairs = [(sendable(query), sendable(text)) for text in texts]
        batches = self._runner.submit(self._tokenizer.encode_batch(pairs))
        deadline = self._clock.monotonic() + self._seconds
        rows = batches.join(wait_for(batches.runs, self._clock, deadline))
        if rows.vectors.shape[1] != 1:
            raise ProviderBadReply(
                f"The reranker gave {rows.vectors.shape[1]} numbers for one pair of texts."
            )
        return rows.vectors[:, 0].tolist()

    def _make_network(self, device: device, precision: dtype) -> TorchNetwork:
        folder = self._folder
        model = folder.load(
            "transformers",
            "AutoModelForSequenceClassification.from_pretrained",
            use_safetensors=True,
        )
        return CrossNetwork(model, folder.takes_kinds, device, precision)
