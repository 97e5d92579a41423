"""LangChain's splitter and its least possible vector store over Qdrant Edge: what a peer costs.

python -m bench.langchain_edge FILES      one ingest of a folder, its CPU time as JSON
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from bench.chunking import splitter
from bench.free import unit_vectors
from bench.raw_edge import make_shard, write
from truespan.types.vectors import numbers_of

VECTORS = 24_000


def edge_store(shard: Any, vectors: Sequence[list[float]]) -> Any:
    """Return a vector store in LangChain's sense; the vectors are there already."""
    base: Any = import_module("langchain_core.vectorstores").VectorStore
    free = iter(vectors)

    class EdgeStore(base):
        def add_texts(self, texts: Any, metadatas: Any = None, **_: Any) -> list[str]:
            contents = list(texts)
            payloads = [
                {"text": text, **metadata}
                for text, metadata in zip(contents, metadatas or [{}] * len(contents), strict=True)
            ]
            ids = [str(uuid4()) for _ in contents]
            write(shard, list(zip(ids, free, payloads, strict=False)))
            return ids

        def similarity_search(self, *_: Any, **__: Any) -> list[Any]:
            return []

        @classmethod
        def from_texts(cls, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return EdgeStore()


def ingest(files: Path) -> dict[str, float]:
    """Read, split and add every file, then flush."""
    document = import_module("langchain_core.documents").Document
    vectors = [list(numbers_of(vector)) for vector in unit_vectors(VECTORS, seed=1)]
    split = splitter(add_start_index=True)
    with TemporaryDirectory(prefix="truespan-bench-") as folder:
        shard = make_shard(Path(folder) / "shard", indexed=False)
        store = edge_store(shard, vectors)
        gc.freeze()
        chunks, cpu = 0, time.process_time()
        for path in sorted(files.iterdir()):
            whole = document(page_content=path.read_text(), metadata={"document": path.name})
            chunks += len(store.add_documents(split.split_documents([whole])))
        shard.flush()
        taken = time.process_time() - cpu
        shard.close()
    return {"cpu": taken, "chunks": chunks}


if __name__ == "__main__":
    print(json.dumps(ingest(Path(sys.argv[1]))))
