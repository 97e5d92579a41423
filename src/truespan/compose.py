"""From settings to a library: the one place that knows which adapters there are."""

from __future__ import annotations

from pathlib import Path

from truespan.adapters.edge_index import EdgeIndex
from truespan.adapters.file_sources import FileSources
from truespan.adapters.local_embedder import LocalEmbedder
from truespan.adapters.local_model import LocalModel
from truespan.adapters.sqlite_store import SqliteStore
from truespan.adapters.system_clock import SystemClock
from truespan.adapters.wordpiece_counter import WordPieceCounter
from truespan.errors import LibraryNotFound
from truespan.ingest.load import supported
from truespan.library import Library, Parts
from truespan.ports import Embedder, EmbeddingLimits, TokenCounter
from truespan.settings import Settings, model_cache, read_settings

STORE_FILE = "store.db"
INDEX_FOLDER = "index"


def open_library(
    path: str | Path,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
    counter: TokenCounter | None = None,
) -> Library:
    """Open the library in a folder; with `create`, make it if it is not there.

    An embedder or token counter of one's own may be given in place of the configured ones.

    Raises:
        LibraryNotFound: there is none, and it was not to be made.
        InvalidConfiguration: a setting is wrong.
    """
    folder = Path(path)
    if not (folder / STORE_FILE).exists():
        if not create:
            raise LibraryNotFound(str(folder))
        _make(folder)
    settings = read_settings(folder)
    clock = SystemClock()
    model = LocalModel(
        folder=Path(settings.model_folder) if settings.model_folder else None,
        cache=model_cache() / "bge-small-en-v1.5",
    )
    return Library(
        Parts(
            store=SqliteStore(folder / STORE_FILE, clock, reserve=settings.disk_reserve),
            index=_index(folder, settings),
            embedder=embedder or LocalEmbedder(model, threads=settings.embedding_threads or None),
            counter=counter or WordPieceCounter(model),
            sources=FileSources(supported),
            clock=clock,
            limits=EmbeddingLimits(
                tokens=settings.embedding_max_tokens_per_batch,
                in_flight=settings.embedding_api_concurrency,
            ),
        )
    )


def _index(folder: Path, settings: Settings) -> EdgeIndex:
    return EdgeIndex(
        folder / INDEX_FOLDER,
        reserve=settings.disk_reserve,
        idle_seconds=settings.index_idle_seconds,
    )


def _make(folder: Path) -> None:
    """Make the library's folder, readable by its owner alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise LibraryNotFound(f"{folder} ({error.strerror})") from None
