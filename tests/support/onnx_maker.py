"""Small networks in the ONNX format, and folders of models."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy

from truespan.extensions.models import onnx_format
from truespan.extensions.models.onnx_format import ElementType, external_tensor, node, tensor, value
from truespan.providers.local import LocalModel
from truespan.providers.model_files import TOKENIZER_FILE

_SPOKEN = "the tide comes in and goes out at night while moon pulls on sea query passage :"
WORDS = _SPOKEN.split()
"""What the tokenizer of a folder knows besides its special tokens."""
WIDTH = 8
_FLOAT, _INT64 = ElementType.FLOAT, ElementType.INT64


def weights_tensor(name: str, numbers: numpy.ndarray, file: str = "") -> bytes:
    """Return weights, in the network itself or in a file beside it."""
    element = _FLOAT if numbers.dtype == numpy.float32 else _INT64
    if not file:
        return tensor(name, element, numbers.shape, numbers.tobytes())
    return external_tensor(name, element, numbers.shape, file, start=0, length=numbers.nbytes)


def network(
    nodes: list[bytes], weights: list[bytes], inputs: list[bytes], outputs: list[bytes]
) -> bytes:
    """Return a network with the operators that small networks use."""
    return onnx_format.network(nodes, weights, inputs, outputs, operators=13)


def table(seed: int = 1, width: int = WIDTH) -> numpy.ndarray:
    """Return a vector for each token of the tokenizer."""
    generator = numpy.random.default_rng(seed)
    return generator.standard_normal((len(WORDS) + 4, width)).astype(numpy.float32)


def attention_network(weights: numpy.ndarray, *, file: str = "", types: bool = False) -> bytes:
    """Return a network of one layer of attention, in which every token sees every other."""
    nodes = [
        node("Gather", ["table", "input_ids"], "x"),
        node("Transpose", ["x"], "y", perm=[0, 2, 1]),
        node("MatMul", ["x", "y"], "scores"),
        node("Cast", ["attention_mask"], "seen", to=_FLOAT),
        node("Sub", ["seen", "one"], "unseen"),
        node("Mul", ["unseen", "large"], "penalty"),
        node("Unsqueeze", ["penalty", "axis"], "row"),
        node("Add", ["scores", "row"], "masked"),
        node("Softmax", ["masked"], "shares", axis=2),
        node("MatMul", ["shares", "x"], "last_hidden_state"),
    ]
    constants = [
        weights_tensor("table", weights, file),
        weights_tensor("one", numpy.array([1], numpy.float32)),
        weights_tensor("large", numpy.array([1e9], numpy.float32)),
        weights_tensor("axis", numpy.array([1], numpy.int64)),
    ]
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    inputs = [value(name, _INT64, "b", "s") for name in names]
    states = value("last_hidden_state", _FLOAT, "b", "s", weights.shape[1])
    return network(nodes, constants, inputs, [states])


def lookup_network(
    weights: numpy.ndarray, *, output: str = "last_hidden_state", mean: bool = False
) -> bytes:
    """Return a network that looks each token up, and with `mean` gives one vector for a text."""
    nodes = [node("Gather", ["table", "input_ids"], "x" if mean else output)]
    shape: list[int | str] = ["b", "s", weights.shape[1]]
    constants = [weights_tensor("table", weights)]
    if mean:
        nodes.append(node("ReduceMean", ["x"], output, axes=[1], keepdims=0))
        del shape[1]
    inputs = [value("input_ids", _INT64, "b", "s")]
    return network(nodes, constants, inputs, [value(output, _FLOAT, *shape)])


def tokenizer_file() -> str:
    """Return a tokenizer that knows `WORDS` and adds a token before and after each text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    numbers = {name: number for number, name in enumerate(names)}
    made = Tokenizer(models.WordLevel(numbers, "[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_special_tokens(["[PAD]", "[CLS]", "[SEP]"])
    # Exports cut and pad; both must be turned off.
    made.enable_truncation(4)
    made.enable_padding(length=6)
    return made.to_str()


def model_folder(folder: Path, content: bytes, **files: dict[str, Any] | list[Any]) -> Path:
    """Write a folder as exported for sentence-transformers: mean pooling, 32 tokens.

    Files of configuration are given by their name without `.json`, with `__` for a folder; an empty
    one is left out.
    """
    usual: dict[str, Any] = {
        "config": {"model_type": "bert", "hidden_size": WIDTH, "max_position_embeddings": 64},
        "sentence_bert_config": {"max_seq_length": 32, "do_lower_case": False},
        "tokenizer_config": {"model_max_length": 1000000000000000019884624838656},
        "modules": [
            {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "1_Pooling__config": {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(content)
    (folder / "tokenizer.json").write_text(tokenizer_file())
    for name, entries in (usual | files).items():
        path = folder / f"{name.replace('__', '/')}.json"
        if entries:
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(entries))
    return folder


def cross_encoder(*, numbers: int = 1) -> bytes:
    """Return a network that counts pairs of equal tokens, one in each of two texts.

    With more `numbers` than one, its output is no single score.
    """
    nodes = [
        node("Unsqueeze", ["input_ids", "two"], "down"),
        node("Unsqueeze", ["input_ids", "one"], "across"),
        node("Equal", ["down", "across"], "same"),
        node("Cast", ["same"], "equal", to=_FLOAT),
        node("Cast", ["token_type_ids"], "second", to=_FLOAT),
        node("Sub", ["unit", "second"], "first"),
        node("Unsqueeze", ["first", "two"], "query"),
        node("Unsqueeze", ["second", "one"], "text"),
        node("Mul", ["equal", "query"], "asked"),
        node("Mul", ["asked", "text"], "pairs"),
        node("ReduceSum", ["pairs", "two"], "sums", keepdims=0),
        node("ReduceSum", ["sums", "one"], "total", keepdims=1),
        node("Concat", ["total"] * numbers, "logits", axis=1),
    ]
    constants = [
        weights_tensor("one", numpy.array([1], numpy.int64)),
        weights_tensor("two", numpy.array([2], numpy.int64)),
        weights_tensor("unit", numpy.array([1], numpy.float32)),
    ]
    inputs = [value(name, _INT64, "b", "s") for name in ("input_ids", "token_type_ids")]
    return network(nodes, constants, inputs, [value("logits", _FLOAT, "b", numbers)])


def reranker_folder(folder: Path, *, numbers: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(cross_encoder(numbers=numbers))
    shutil.copy(LocalModel().location / TOKENIZER_FILE, folder / TOKENIZER_FILE)
    return folder
