"""Libraries in PostgreSQL whose jobs are done by workers, with the embedder of the tests.

Run as `python -m tests.support.worker_process FOLDER URL` it is such a worker, until it is stopped.
It prints a line when it is ready, before it embeds each batch, and when it leaves.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.worlds import DirectParser, WordCounter, WordEmbedder
from truespan.core.clock import SystemClock, SystemProcesses
from truespan.engine.components import Components
from truespan.engine.library import Library
from truespan.extensions.cluster.commands import stop_on_signals
from truespan.extensions.cluster.postgres import Address, PostgresDatabase
from truespan.extensions.cluster.queue import ProcrastinateQueue, QueueLimits
from truespan.files.assets import AssetFolder
from truespan.files.sources import FileSources
from truespan.files.uploads import UploadFolder
from truespan.index.edge.client import EdgeIndex
from truespan.parsing import supported
from truespan.protocols import VectorIndex
from truespan.store import Store
from truespan.types.profile import EmbeddingLimits
from truespan.types.token import Secret
from truespan.types.vectors import Vector

LIMITS = QueueLimits(stalled_seconds=2.0)
FEW = EmbeddingLimits(items=2, in_flight=1, joint=False)


class TellingEmbedder(WordEmbedder):
    """Prints a line before each batch, so that a test can choose a moment."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        print("batch", flush=True)
        return super().embed_documents(texts)


def library(
    folder: Path,
    url: Secret,
    *,
    limits: QueueLimits = LIMITS,
    embedder: WordEmbedder | None = None,
    index: VectorIndex | None = None,
    max_crashes: int = 3,
) -> Library:
    """Open a library of a database; its jobs are not run here unless requested."""
    clock = SystemClock()
    return Library(
        Components(
            store=Store(PostgresDatabase(Address(url, pool_size=4)), clock),
            index=index or EdgeIndex(folder / "index", reserve=0),
            embedder=embedder or WordEmbedder(limits=FEW),
            counter=WordCounter(),
            sources=FileSources(supported),
            parser=DirectParser(),
            assets=AssetFolder(folder / "assets", reserve=0),
            uploads=UploadFolder(folder / "uploads", reserve=0),
            processes=SystemProcesses(),
            clock=clock,
            queue=ProcrastinateQueue(url, limits),
            max_crashes=max_crashes,
        )
    )


def main(folder: str, url: str) -> None:
    told = TellingEmbedder(limits=FEW)
    opened = library(Path(folder), Secret(url), embedder=told, max_crashes=1000)
    with opened, stop_on_signals() as stop:
        print("ready", flush=True)
        opened.work(stopping=stop.is_set)
    print("left", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
