"""The cohort: texts of many kinds that come with Truespan, and their vectors.

Answers compare a question with them; see `truespan.retrieval.background`. The texts were written
for this purpose. `python -m tools.cohort` writes the vectors under the bundled model.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from truespan.providers.local import BUNDLED_FOLDER, MODEL, REINSTALL
from truespan.providers.model_files import read_checked
from truespan.types.profile import EmbeddingProfile
from truespan.types.vectors import Vector

TEXTS_FILE = Path(__file__).with_name("cohort.txt")
VECTORS_FILE = BUNDLED_FOLDER / "cohort.npy"
"""Vectors of the texts in order, as float16 numbers."""
DIGEST = "4763882cda8c1bc494f62e53e165d269470653ce6cddf09c91408116c7c4119c"
VECTORS_DIGEST = "ecfab9ca8bbd742affe4a9c64c7c764ffd2ba33526ce5c4241484d79dfa219c9"


def read_texts() -> tuple[str, ...]:
    return tuple(read_checked(TEXTS_FILE, DIGEST, advice=REINSTALL).decode().splitlines())


def read_vectors(profile: EmbeddingProfile) -> list[Vector] | None:
    """Return the vectors of the texts under the bundled model; None for another profile."""
    if profile.provider != "local" or profile.model != MODEL or profile.calibration is None:
        return None
    import numpy as np

    data = read_checked(VECTORS_FILE, VECTORS_DIGEST, advice=REINSTALL)
    rows = np.load(BytesIO(data), allow_pickle=False).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return [Vector(row.astype("<f4").tobytes()) for row in rows]
