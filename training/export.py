"""Export: the int8 graph of the base with new weights, and one product more for the spans.

The graph keeps its output `logits` (the relevance) and gains `spans`: for each piece, how well it
begins and how well it ends the answer.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from training.base import parse_network, products, read_base
from training.weights import Weights, quantise

if TYPE_CHECKING:
    from onnx import ModelProto  # pyright: ignore[reportMissingImports]

_LAST_STATES = "/bert/encoder/layer.11/output/LayerNorm/Add_1_output_0"
_TABLES = ("word", "position", "token_type")


def export(base: Path, weights: Weights, folder: Path) -> dict[str, str]:
    """Write the network and its tokenizer, and return the digests of the files."""
    network = parse_network(read_base(base, "model.onnx"))
    _replace_weights(network, weights)
    _add_spans(network, weights)
    contents = {
        "model.onnx": network.SerializeToString(),
        "tokenizer.json": read_base(base, "tokenizer.json"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: sha256(content).hexdigest() for name, content in contents.items()}


def _replace_weights(network: ModelProto, weights: Weights) -> None:
    """Replace products with a scale for each column, tables with one scale, others as they are."""
    from onnx import numpy_helper  # pyright: ignore[reportMissingImports]

    stored = {item.name: item for item in network.graph.initializer}

    def put(name: str, array: Any) -> None:
        stored[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))

    for name, place in products(network):
        steps, scale = quantise(weights[name], by_row=True)
        put(f"{place}_quantized", steps.T)
        put(f"{place}_scale", scale[:, 0])
        put(f"{place}_zero_point", np.zeros(len(scale), np.int8))
    for table in _TABLES:
        name = f"embeddings.{table}_embeddings.weight"
        steps, scale = quantise(weights[name], by_row=False)
        put(f"bert.{name}_quantized", steps)
        put(f"bert.{name}_scale", scale)
        put(f"bert.{name}_zero_point", np.int8(0))
    for name, array in weights.items():
        place = name if name in stored else f"bert.{name}"
        if place in stored:
            put(place, array.astype(np.float32))


def _add_spans(network: ModelProto, weights: Weights) -> None:
    """Add the product that scores each piece as start and as end of the answer."""
    from onnx import (  # pyright: ignore[reportMissingImports]
        TensorProto,
        checker,
        helper,
        numpy_helper,
    )

    graph = network.graph
    columns = np.ascontiguousarray(weights["span.weight"].T.astype(np.float32))
    graph.initializer.extend(
        [
            numpy_helper.from_array(columns, "span.weight"),
            numpy_helper.from_array(weights["span.bias"].astype(np.float32), "span.bias"),
        ]
    )
    graph.node.extend(
        [
            helper.make_node("MatMul", [_LAST_STATES, "span.weight"], ["span_products"], "span"),
            helper.make_node("Add", ["span_products", "span.bias"], ["spans"], "span_bias"),
        ]
    )
    shape = ["batch_size", "sequence_length", 2]
    graph.output.append(helper.make_tensor_value_info("spans", TensorProto.FLOAT, shape))
    del graph.value_info[:]
    checker.check_model(network)
