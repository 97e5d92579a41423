"""BERT networks of PyTorch, and the bundled model on a GPU: its weights, dequantised.

Texts of a batch are one long row of tokens without padding, and attention stays within each text.
The matrix products of such a batch have the same shape for all texts, so that a vector of
the bundled model depends on its text alone, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from truespan.errors import InvalidConfiguration
from truespan.providers.local import NETWORK_FILE, LocalModel, describe_local
from truespan.providers.onnx_format import read_weights
from truespan.providers.tokenized import TokenizedModel
from truespan.providers.torch_devices import PackingNetwork, RunOptions, TorchNetwork, import_torch
from truespan.providers.torch_embedder import TorchEmbedder
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


class BertShape(Struct, frozen=True):
    """Properties of a BERT network that its weights do not tell."""

    heads: int = 12
    max_length: int = 512
    first_position: int = 0
    """Position of the first token of a text."""
    epsilon: float = 1e-12
    takes_mean: bool = False
    """Whether the vector of a text is the mean of its tokens, instead of the first one."""


class BertNetwork(TorchNetwork):
    """A BERT network on one device. Its arithmetic is float32 on a CPU, and half elsewhere.

    A CPU uses the same rounded weights as a GPU, so that both give nearly the same vectors.
    """

    def __init__(
        self,
        weights: Mapping[str, numpy.ndarray],
        device: device,
        precision: dtype,
        shape: BertShape | None = None,
    ) -> None:
        self._torch = torch = import_torch()
        self._shape = shape or BertShape()
        arithmetic = torch.float32 if device.type == "cpu" else precision

        def load(*names: str) -> Tensor:
            parts = [torch.from_numpy(weights[name]).to(precision) for name in names]
            return torch.cat(parts).to(device, arithmetic)

        def pair(*names: str) -> tuple[Tensor, Tensor]:
            weight, bias = ([f"{name}.{kind}" for name in names] for kind in ("weight", "bias"))
            return load(*weight), load(*bias)

        self._words = load("embeddings.word_embeddings.weight")
        places = load("embeddings.position_embeddings.weight")
        # Every text is of the first kind.
        kinds = load("embeddings.token_type_embeddings.weight")
        self._places = places[self._shape.first_position :] + kinds[0]
        self._norm = pair("embeddings.LayerNorm")
        self._layers = []
        while (name := f"encoder.layer.{len(self._layers)}.") + f"{_PARTS[0]}.weight" in weights:
            attention = f"{name}attention."
            self._layers.append(
                (
                    pair(*(f"{attention}self.{part}" for part in ("query", "key", "value"))),
                    *(pair(f"{attention}output.{part}") for part in ("dense", "LayerNorm")),
                    pair(f"{name}intermediate.dense"),
                    *(pair(f"{name}output.{part}") for part in ("dense", "LayerNorm")),
                )
            )

    def run_padded(self, ids: Tensor, mask: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        del kinds
        rows, width = ids.shape
        places = self._torch.arange(width, device=ids.device).expand(rows, width)
        seen = None if rows == 1 else mask[:, None, None, :].bool()

        def attend(*parts: Tensor) -> Tensor:
            query, key, value = (
                part.view(rows, width, self._shape.heads, -1).transpose(1, 2) for part in parts
            )
            dot_product = self._torch.nn.functional.scaled_dot_product_attention
            return dot_product(query, key, value, attn_mask=seen).transpose(1, 2)

        states = self._run(ids.flatten(), places.flatten(), attend).view(rows, width, -1)
        if not self._shape.takes_mean:
            return self._normalise(states[:, 0]), states
        shown = states.float() * mask[:, :, None]
        return self._normalise(shown.sum(1) / mask.sum(1, keepdim=True)), states

    def _run(self, ids: Tensor, places: Tensor, attend: Callable[..., Tensor]) -> Tensor:
        functions, size = self._torch.nn.functional, self._words.shape[1]
        heads, epsilon = self._shape.heads, self._shape.epsilon

        def norm(states: Tensor, scale: tuple[Tensor, Tensor]) -> Tensor:
            return functions.layer_norm(states, (size,), *scale, eps=epsilon)

        states = norm(
            functions.embedding(ids, self._words) + functions.embedding(places, self._places),
            self._norm,
        )
        for joint, output, norm1, inner, outer, norm2 in self._layers:
            parts = functions.linear(states, *joint).view(len(ids), 3, heads, -1).unbind(1)
            attended = functions.linear(attend(*parts).reshape(len(ids), size), *output)
            states = norm(states + attended, norm1)
            wide = functions.gelu(functions.linear(states, *inner))
            states = norm(states + functions.linear(wide, *outer), norm2)
        return states

    def _normalise(self, vectors: Tensor) -> Tensor:
        return self._torch.nn.functional.normalize(vectors.float(), dim=1)


class PackingBertNetwork(BertNetwork, PackingNetwork):
    """A BERT network on a device that has attention within the texts of a row."""

    def __init__(
        self,
        weights: Mapping[str, numpy.ndarray],
        device: device,
        precision: dtype,
        attend: Callable[..., Any],
        shape: BertShape | None = None,
    ) -> None:
        super().__init__(weights, device, precision, shape)
        self._attend = attend

    def run_packed(self, ids: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
        lengths, starts = bounds.diff(), bounds[:-1]
        places = self._torch.arange(len(ids), device=ids.device, dtype=bounds.dtype)
        places -= starts.repeat_interleave(lengths, output_size=len(ids))
        longest = self._shape.max_length
        states = self._run(
            ids, places, lambda q, k, v: self._attend(q, k, v, bounds, bounds, longest, longest)
        )
        if not self._shape.takes_mean:
            # An empty text at the end begins after the last token.
            return self._normalise(states[starts.clamp(max=len(ids) - 1)]), states
        # Checking the lengths would wait for the device.
        means = self._torch.segment_reduce(
            states.float(), "mean", lengths=lengths, axis=0, unsafe=True
        )
        return self._normalise(means), states


def find_packed_attention(device: device, precision: dtype) -> Callable[..., Any] | None:
    """Return attention within the texts of a row; None if the device does not have it."""
    torch = import_torch()
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        return None
    if precision not in (torch.float16, torch.bfloat16):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn  # pyright: ignore[reportMissingImports]
    except ImportError:  # Before PyTorch 2.10.
        return None
    return varlen_attn


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
        weights = dequantise(read_weights(self._local.read(NETWORK_FILE)))
        attend = find_packed_attention(device, precision)
        if attend is None:
            return BertNetwork(weights, device, precision)
        return PackingBertNetwork(weights, device, precision, attend)
