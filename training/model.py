"""The network in PyTorch: BERT with a start and an end of the answer, and one relevance.

One pass gives all three: how well each piece begins and ends the answer, where the first piece
stands for "no answer", and whether the passage answers the question at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from numpy.typing import NDArray
from torch import Tensor, nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from training.weights import Weights

_EPSILON = 1e-12
_FINE = 127


@dataclass(frozen=True)
class Shape:
    """Sizes of the network; those of the base unless a test needs a tiny one."""

    words: int = 30522
    width: int = 384
    layers: int = 12
    heads: int = 12
    inner: int = 1536
    places: int = 512
    dropout: float = 0.1


class Reading(NamedTuple):
    """Scores of a batch: of each piece as start and as end, and of the passage."""

    start: Tensor
    end: Tensor
    relevance: Tensor


class RoundedLinear(nn.Linear):
    """A product that can round its weights and inputs to 8 bits, as the exported network does.

    The gradient passes through the rounding as if it was not there.
    """

    rounds = False

    def forward(self, states: Tensor) -> Tensor:
        if not self.rounds:
            return functional.linear(states, self.weight, self.bias)
        return functional.linear(round_states(states), round_weights(self.weight, 1), self.bias)


def round_weights(weights: Tensor, dimension: int | None) -> Tensor:
    """Round to int8 with one scale for each row, or for all if there is no dimension."""
    with torch.no_grad():
        size = weights.abs()
        largest = size.amax(dimension, keepdim=True) if dimension is not None else size.amax()
        scale = (largest / _FINE).clamp_min(_EPSILON)
        rounded = (weights / scale).round() * scale
    return weights + (rounded - weights).detach()


def round_states(states: Tensor) -> Tensor:
    """Round to 8 bits between the least and the largest number of each text."""
    with torch.no_grad():
        numbers = states.float()
        flat = numbers.flatten(1)
        least = flat.amin(1).clamp_max(0).view(-1, *[1] * (states.ndim - 1))
        largest = flat.amax(1).clamp_min(0).view_as(least)
        scale = ((largest - least) / 255).clamp_min(_EPSILON)
        zero = (-least / scale).round()
        rounded = (((numbers / scale).round() + zero).clamp(0, 255) - zero) * scale
    return states + (rounded.to(states.dtype) - states).detach()


class _Output(nn.Module):
    """A product whose result is added to its residual and normalised."""

    def __init__(self, size: int, shape: Shape) -> None:
        super().__init__()
        self.dense = RoundedLinear(size, shape.width)
        self.LayerNorm = nn.LayerNorm(shape.width, eps=_EPSILON)
        self._dropout = shape.dropout

    def forward(self, states: Tensor, residual: Tensor) -> Tensor:
        dropped = functional.dropout(self.dense(states), self._dropout, self.training)
        return self.LayerNorm(dropped + residual)


class _Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        names = ("query", "key", "value")
        # The base has a module with the name "self".
        self.self = nn.ModuleDict({n: RoundedLinear(shape.width, shape.width) for n in names})
        self.output = _Output(shape.width, shape)
        self._shape = shape

    def forward(self, states: Tensor) -> Tensor:
        rows, length, width = states.shape
        parts = [self.self[name] for name in ("query", "key", "value")]
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts])
        given = states
        if parts[0].rounds:
            given, weight = round_states(states), round_weights(weight, 1)
        joint = functional.linear(given, weight, bias).view(rows, length, 3, self._shape.heads, -1)
        query, key, value = joint.permute(2, 0, 3, 1, 4)
        dropout = self._shape.dropout if self.training else 0.0
        seen = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        return self.output(seen.transpose(1, 2).reshape(rows, length, width), states)


class _Inner(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dense = RoundedLinear(shape.width, shape.inner)


class _Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = _Attention(shape)
        self.intermediate = _Inner(shape)
        self.output = _Output(shape.inner, shape)

    def forward(self, states: Tensor) -> Tensor:
        states = self.attention(states)
        return self.output(functional.gelu(self.intermediate.dense(states)), states)


class Reader(nn.Module):
    """The network; texts of a batch have the same length, so that none is filled up."""

    def __init__(self, shape: Shape | None = None) -> None:
        super().__init__()
        self.shape = shape = shape or Shape()
        sizes = {"word": shape.words, "position": shape.places, "token_type": 2}
        self.embeddings = nn.ModuleDict(
            {f"{name}_embeddings": nn.Embedding(size, shape.width) for name, size in sizes.items()}
        )
        self.embeddings["LayerNorm"] = nn.LayerNorm(shape.width, eps=_EPSILON)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(map(_Layer, [shape] * shape.layers))})
        self.pooler = nn.ModuleDict({"dense": RoundedLinear(shape.width, shape.width)})
        self.classifier = RoundedLinear(shape.width, 1)
        self.span = nn.Linear(shape.width, 2)

    def forward(self, pieces: Tensor, kinds: Tensor) -> Reading:
        """Read pieces; `kinds` is 1 for those of the passage and the last separator."""
        states = self._embed(pieces, kinds)
        for layer in self.encoder["layer"]:
            states = layer(states)
        start, end = self.span(states).float().unbind(-1)
        pooled = torch.tanh(self.pooler["dense"](states[:, 0]))
        pooled = functional.dropout(pooled, self.shape.dropout, self.training)
        return Reading(start, end, self.classifier(pooled).float().squeeze(-1))

    def _embed(self, pieces: Tensor, kinds: Tensor) -> Tensor:
        tables = [self.embeddings[f"{n}_embeddings"] for n in ("word", "position", "token_type")]
        weights = [table.weight for table in tables]
        if self.classifier.rounds:
            weights = [round_weights(weight, None) for weight in weights]
        places = torch.arange(pieces.shape[1], device=pieces.device)
        states = functional.embedding(pieces, weights[0])
        states = states + weights[1][places] + functional.embedding(kinds, weights[2])
        states = self.embeddings["LayerNorm"](states)
        return functional.dropout(states, self.shape.dropout, self.training)

    def round_products(self, rounds: bool = True) -> None:
        """Round weights and inputs to 8 bits from now on, or no longer."""
        for module in self.modules():
            if isinstance(module, RoundedLinear):
                module.rounds = rounds

    def load(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        """Take weights; those of the base lack the span, which always starts alike."""
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.items()}
        if "span.weight" not in tensors:
            generator = torch.Generator().manual_seed(0)
            size = 0.02 * math.sqrt(384 / self.shape.width)
            tensors["span.weight"] = size * torch.randn(2, self.shape.width, generator=generator)
            tensors["span.bias"] = torch.zeros(2)
        self.load_state_dict(tensors)

    def to_weights(self) -> Weights:
        return {name: tensor.float().cpu().numpy() for name, tensor in self.state_dict().items()}
