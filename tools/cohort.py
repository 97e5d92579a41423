"""Write the vectors of the cohort under the bundled model: `python -m tools.cohort`.

It prints the digests of both files, which `truespan.providers.cohort` has to state.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from truespan.providers.cohort import TEXTS_FILE, VECTORS_FILE
from truespan.providers.local import LocalEmbedder, LocalModel


def main() -> None:
    texts = TEXTS_FILE.read_text(encoding="utf-8").splitlines()
    vectors = LocalEmbedder(LocalModel()).embed_documents(texts)
    rows = np.frombuffer(b"".join(vectors), "<f4").reshape(len(texts), -1)
    np.save(VECTORS_FILE, rows.astype("<f2"))
    for path in (TEXTS_FILE, VECTORS_FILE):
        print(path.name, sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
