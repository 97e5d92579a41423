"""Weights in files: those of the base as it stores them, and trained ones in parts.

The format is an archive of arrays. `NAME` is an array as it is; `NAME|steps` with `NAME|scale` and
`NAME|zero` are small whole numbers that stand for (steps - zero) * scale.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]
Arrays = dict[str, NDArray[np.generic]]

BASE_FILE = "base.npz.xz"
MAX_PART_BYTES = 14 << 20
_EMBEDDINGS = "embeddings.word_embeddings.weight"


def quantise(
    weights: NDArray[np.float32], by_row: bool
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return weights as int8 and their scale: one for each row, or one for all."""
    largest = np.abs(weights).max(axis=1, keepdims=True) if by_row else np.abs(weights).max()
    scale = np.maximum(largest / 127, 1e-12).astype(np.float32)
    return np.rint(weights / scale).astype(np.int8), scale


def encode_weights(weights: Mapping[str, NDArray[np.float32]]) -> bytes:
    """Return trained weights as bytes: matrices as float16, word embeddings as they ship."""
    arrays: Arrays = {}
    for name, array in weights.items():
        if name == _EMBEDDINGS:
            arrays[f"{name}|steps"], arrays[f"{name}|scale"] = quantise(array, by_row=False)
        else:
            arrays[name] = array.astype(np.float16 if array.ndim == 2 else np.float32)
    return _to_bytes(arrays)


def decode_weights(content: bytes) -> Weights:
    arrays = np.load(io.BytesIO(content))
    found: Weights = {}
    for name in arrays.files:
        stored, _, part = name.partition("|")
        if part == "steps":
            zero = arrays[f"{stored}|zero"] if f"{stored}|zero" in arrays.files else 0
            steps = arrays[name].astype(np.float32) - np.float32(zero)
            found[stored] = (steps * arrays[f"{stored}|scale"]).astype(np.float32)
        elif not part:
            found[name] = arrays[name].astype(np.float32)
    return found


def write_parts(content: bytes, folder: Path) -> list[Path]:
    """Write bytes in parts that are small enough to be carried one by one."""
    paths = []
    for number, start in enumerate(range(0, len(content), MAX_PART_BYTES)):
        paths.append(folder / f"weights-{number:02}.part")
        paths[-1].write_bytes(content[start : start + MAX_PART_BYTES])
    return paths


def read_parts(folder: Path) -> Weights:
    return decode_weights(b"".join(p.read_bytes() for p in sorted(folder.glob("weights-*.part"))))


def average(found: Iterable[Weights]) -> Weights:
    """Return the mean of weights that were trained from the same start."""
    several = list(found)
    return {name: np.mean([w[name] for w in several], axis=0) for name in several[0]}


def save_compressed(arrays: Mapping[str, NDArray[np.generic]], path: Path) -> None:
    path.write_bytes(lzma.compress(_to_bytes(arrays), preset=6))


def load_compressed(path: Path) -> Weights:
    return decode_weights(lzma.decompress(path.read_bytes()))


def _to_bytes(arrays: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
