"""The bundled model on a GPU: its weights, dequantised, in a network of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from truespan.errors import InvalidConfiguration
from truespan.extensions.models.onnx_format import read_weights
from truespan.extensions.models.sentence_transformers import PackageNetwork
from truespan.extensions.models.torch_devices import RunOptions, TorchNetwork, import_torch
from truespan.extensions.models.torch_embedder import TorchEmbedder
from truespan.providers.context import ModelContext
from truespan.providers.local import DIMENSIONS, NETWORK_FILE, LocalModel, describe_local
from truespan.providers.tokenized import TokenizedModel
from truespan.providers.word_states import Projection

if TYPE_CHECKING:
    import numpy
    from torch import Tensor, device, dtype  # pyright: ignore[reportMissingImports]

PRECISION = "float16"
_PARTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
"""Names of the matrices of a layer, in the order of the numbers that the export gave them."""


def dequantise(weights: Mapping[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
    """Return the weights of the bundled network by their original names, as float32 numbers."""
    import numpy

    def restore(name: str) -> numpy.ndarray:
        steps = weights[f"{name}_quantized"].astype(numpy.float32) - weights[f"{name}_zero_point"]
        return steps * weights[f"{name}_scale"]

    names = [name.removesuffix("_quantized") for name in weights if name.endswith("_quantized")]
    matrices = sorted(name for name in names if name.startswith("onnx::MatMul_"))
    found = {name: restore(name) for name in names if name.startswith("embeddings.")}
    for number, name in enumerate(matrices):
        layer, part = divmod(number, len(_PARTS))
        found[f"encoder.layer.{layer}.{_PARTS[part]}.weight"] = restore(name).T.copy()
    return found | {name: weights[name] for name in weights if name.endswith((".bias", ".weight"))}


class BundledNetwork(PackageNetwork):
    """The bundled network. The vector of a text is the state of its first token."""

    def run(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        states = self.model(**self.features(ids, mask, kinds)).last_hidden_state
        return import_torch().nn.functional.normalize(states[:, 0].float(), dim=1), states


def make_embedder(context: ModelContext) -> LocalTorchEmbedder:
    return LocalTorchEmbedder(context.model, context.settings.embedding.device or "auto")


# Shared by threads: the network is loaded under a lock and then only run; what is known of the
# model is computed from its files.
class LocalTorchEmbedder(TorchEmbedder):
    """An embedder with the dequantised weights of the bundled model, on a GPU or the CPU."""

    def __init__(self, model: LocalModel, devices: str = "auto") -> None:
        super().__init__(model, devices)
        self._local = model

    def _run_options(self) -> RunOptions:
        return RunOptions(PRECISION)

    def _describe(self) -> TokenizedModel:
        if not self._local.is_bundled:
            raise InvalidConfiguration(
                "Only the bundled model runs on other devices than the CPU.",
                advice="Remove model_folder, or use the provider 'sentence-transformers'.",
            )
        decisive = f"{self._local.revision}\ndequantised, {PRECISION}, cls"
        return describe_local(f"sha256:{sha256(decisive.encode()).hexdigest()}")

    @cached_property
    def _projection(self) -> Projection:
        return self._local.projection

    def _make_network(self, device: device, precision: dtype) -> TorchNetwork:
        torch, package = import_torch(), import_torch("transformers")
        config = package.BertConfig(hidden_size=DIMENSIONS, intermediate_size=4 * DIMENSIONS)
        network = package.BertModel(config, add_pooling_layer=False)
        weights = dequantise(read_weights(self._local.read(NETWORK_FILE)))
        network.load_state_dict({name: torch.tensor(each) for name, each in weights.items()})
        return BundledNetwork(network.eval(), False, device, precision)
