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
from truespan.errors import InvalidConfiguration, LibraryNotFound
from truespan.ingest.load import supported
from truespan.library import Library
from truespan.model.scope import OWNER, Authority
from truespan.parts import Parts
from truespan.ports import Clock, Embedder, EmbeddingLimits, TokenCounter
from truespan.settings import Settings, model_cache, read_settings

STORE_FILE = "store.db"
INDEX_FOLDER = "index"


def open_library(
    path: str | Path,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
    counter: TokenCounter | None = None,
    authority: Authority = OWNER,
) -> Library:
    """Open the library in a folder; with `create`, make it if it is not there.

    An embedder or token counter of one's own may be given in place of the configured ones. Whoever
    holds the library can do with it what `authority` allows, and no more.

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
    wordpiece = WordPieceCounter(model)
    chosen = embedder or _embedder(settings, model, wordpiece, clock)
    return Library(
        Parts(
            store=SqliteStore(folder / STORE_FILE, clock, reserve=settings.disk_reserve),
            index=_index(folder, settings),
            embedder=chosen,
            counter=counter or wordpiece,
            sources=FileSources(supported),
            clock=clock,
            limits=EmbeddingLimits(
                tokens=settings.embedding_max_tokens_per_batch,
                in_flight=settings.embedding_api_concurrency,
            ),
        ),
        authority,
    )


def _embedder(
    settings: Settings, model: LocalModel, wordpiece: TokenCounter, clock: Clock
) -> Embedder:
    """Return the configured embedder; none is asked anything before it is needed."""
    if settings.embedding_provider == "ollama":
        # Its HTTP client costs every start some milliseconds that most do not need.
        from truespan.adapters.ollama_embedder import OllamaEmbedder

        return OllamaEmbedder(
            settings.ollama_base_url,
            settings.ollama_model,
            dimensions=settings.ollama_dimensions or None,
            # Whatever counts tokens for budgets: this one reads as most embedding models do.
            counter=wordpiece,
            clock=clock,
            in_flight=settings.embedding_api_concurrency,
        )
    return LocalEmbedder(model, threads=settings.embedding_threads or None)


def _index(folder: Path, settings: Settings) -> EdgeIndex:
    return EdgeIndex(
        folder / INDEX_FOLDER,
        reserve=settings.disk_reserve,
        idle_seconds=settings.index_idle_seconds,
    )


def _make(folder: Path) -> None:
    """Make the library's folder and file, readable by their owner alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / STORE_FILE).touch(mode=0o600)
    except OSError as error:
        raise InvalidConfiguration(
            f"A library cannot be made at {folder}: {error.strerror}.",
            advice="Choose another path.",
        ) from None
