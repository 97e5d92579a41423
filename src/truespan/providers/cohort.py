"""The cohort: texts of many kinds that come with Truespan, and their vectors.

Answers compare a question with them; see `truespan.retrieval.background`. The texts were written
for this purpose. `python -m tools.cohort` writes the vectors under the bundled model.
"""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from pathlib import Path

from truespan.errors import ModelUnavailable, resource_error
from truespan.providers.local import BUNDLED_FOLDER, MODEL
from truespan.types.profile import EmbeddingProfile, shipped
from truespan.types.vectors import Vector

TEXTS_FILE = Path(__file__).with_name("cohort.txt")
VECTORS_FILE = BUNDLED_FOLDER / "cohort.npy"
"""Vectors of the texts in order, as float16 numbers."""
DIGEST = "4763882cda8c1bc494f62e53e165d269470653ce6cddf09c91408116c7c4119c"
VECTORS_DIGEST = "ecfab9ca8bbd742affe4a9c64c7c764ffd2ba33526ce5c4241484d79dfa219c9"
_REINSTALL = "Install Truespan again; with pip, add --force-reinstall and --no-deps."


def read_texts() -> tuple[str, ...]:
    """Return the texts of the cohort."""
    return tuple(_read(TEXTS_FILE, DIGEST).decode().splitlines())


def read_vectors(profile: EmbeddingProfile) -> list[Vector] | None:
    """Return the vectors of the texts under the bundled model; None for another profile."""
    if profile.provider != "local" or profile.model != MODEL or shipped(profile) is None:
        return None
    import numpy as np

    data = _read(VECTORS_FILE, VECTORS_DIGEST)
    rows = np.load(BytesIO(data), allow_pickle=False).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [Vector(row.astype("<f4").tobytes()) for row in rows]


def _read(path: Path, digest: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as failure:
        missing = ModelUnavailable(f"{path.name} is missing.", advice=_REINSTALL)
        raise resource_error(failure) or missing from failure
    if sha256(data).hexdigest() != digest:
        raise ModelUnavailable(f"{path.name} is damaged.", advice=_REINSTALL)
    return data
