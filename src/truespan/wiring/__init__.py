"""Build a library from its settings: the only place that chooses implementations."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from truespan.components import Components, OtherEmbedder
from truespan.errors import InvalidConfiguration, LibraryNotFound
from truespan.files.assets import AssetFolder
from truespan.files.checks import find_leftovers
from truespan.files.golden import GoldenFolder
from truespan.files.sources import FileSources
from truespan.files.uploads import UploadFolder
from truespan.files.usage_key import UsageKey
from truespan.index.edge.client import EdgeIndex
from truespan.ingest.draft import Preparation
from truespan.ingest.embed import OnTokenLimit
from truespan.jobs.thread import JobThread
from truespan.library import Library
from truespan.observer import Observer
from truespan.parsing import supported
from truespan.parsing.child_parser import ChildParser
from truespan.protocols import (
    ChatModels,
    Clock,
    Cooldowns,
    Embedder,
    EmbeddingLimits,
    JobQueue,
    RateLimitStore,
    TokenCounter,
    VectorIndex,
)
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.providers.token_counter import WordPieceCounter
from truespan.sanitize.findings import Mode, Style
from truespan.sanitize.profile import Profile, parse_profile
from truespan.sanitize.sanitizer import Sanitizer
from truespan.settings import model_cache, read_settings
from truespan.settings.catalogue import MEBIBYTE, Settings
from truespan.store import Store
from truespan.store.sqlite import SqliteDatabase
from truespan.system import SystemClock, SystemProcesses
from truespan.types.chunk import FigureFlags
from truespan.types.scope import OWNER, Authority
from truespan.wiring.answers import CONFIGURED_DISTANCE, answer_rules
from truespan.wiring.backup import (
    ASSETS_FOLDER,
    KEY_FILE,
    STORE_FILE,
    USAGE_KEY_FILE,
    backup_writer,
)
from truespan.wiring.environment import LibraryEnvironment
from truespan.wiring.observability import observers_of
from truespan.wiring.providers import chat_choices, chat_models
from truespan.wiring.servers import is_on_server, server_queue, server_store

INDEX_FOLDER = "index"
UPLOADS_FOLDER = "uploads"


def open_library(
    path: str | Path,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
    counter: TokenCounter | None = None,
    chat: ChatModels | None = None,
    others: Mapping[str, Embedder] | None = None,
    authority: Authority = OWNER,
    observer: Observer | None = None,
    metrics: bool | None = None,
    logs: bool = False,
) -> Library:
    """Open the library in a folder; with `create`, create it if it is absent.

    An embedder, a token counter or chat models replace the configured ones; `others` are further
    embedders by name, for generations of other models. The rest is as for `truespan.open`.

    Raises:
        LibraryNotFound: there is no library, and `create` is not given.
        InvalidConfiguration: a setting is wrong.
    """
    folder = Path(path)
    if not (create or folder.is_dir()):
        raise LibraryNotFound(str(folder))
    settings = read_settings(folder)
    on_server = is_on_server(settings)
    if not (folder.is_dir() if on_server else (folder / STORE_FILE).exists()):
        if not create:
            raise LibraryNotFound(str(folder))
        _create_folder(folder, with_store=not on_server)
    # Contradictory settings are refused before anything is opened.
    is_custom = embedder is not None or bool(others)
    rules = answer_rules(settings, known=None if is_custom else CONFIGURED_DISTANCE)
    chat_choices(settings)
    clock = SystemClock()
    queue: JobQueue
    paces: RateLimitStore | None
    server = server_store(folder, settings, clock) if on_server else None
    if server is not None:
        store = paces = server
        queue = server_queue(folder, settings)
    else:
        file = SqliteDatabase(folder / STORE_FILE, reserve=settings.disk_reserve)
        store = Store(file, clock)
        paces, queue = None, JobThread()
    model = _model(settings)
    wordpiece = WordPieceCounter(model)
    index = _index(folder, settings, clock)
    observers = observers_of(settings, observer, metrics=metrics, logs=logs)
    return Library(
        Components(
            store=store,
            index=index,
            embedder=embedder or _embedder(settings, model, wordpiece, clock, store, paces),
            counter=counter or wordpiece,
            sources=FileSources(supported, max_bytes=settings.source_max_mib * MEBIBYTE),
            parser=_parser(settings),
            assets=_assets(folder, settings),
            golden=GoldenFolder(),
            processes=SystemProcesses(),
            clock=clock,
            limits=EmbeddingLimits(
                items=settings.embedding_batch_items,
                tokens=settings.embedding_max_tokens_per_batch,
                in_flight=settings.embedding_api_concurrency,
            ),
            preparation=_preparation(folder, settings),
            price=_price(settings),
            fused_weight=settings.fused_weight,
            others=(
                _others(settings, wordpiece, clock, store, paces)
                if others is None
                else {name: _ready(other) for name, other in others.items()}
            ),
            chat=chat if chat is not None else chat_models(settings, clock, store),
            answers=rules,
            find_leftovers=partial(
                find_leftovers,
                [
                    folder / STORE_FILE,
                    folder / INDEX_FOLDER,
                    _assets_folder(folder, settings),
                    folder / UPLOADS_FOLDER,
                ],
            ),
            uploads=UploadFolder(
                folder / UPLOADS_FOLDER,
                reserve=settings.disk_reserve,
                max_bytes=settings.source_max_mib * MEBIBYTE,
            ),
            backups=backup_writer(folder, _assets(folder, settings), settings, clock, server),
            queue=queue,
            most_crashes=settings.worker_crashes,
            doctor_hours=settings.worker_doctor_hours,
            random_bytes=secrets.token_bytes,
            mark_query=UsageKey(folder / USAGE_KEY_FILE).mark,
            observer=observers.observer,
            metrics=observers.metrics,
            check_environment=LibraryEnvironment(
                folder, settings, store, index, model, clock
            ).checks,
        ),
        authority,
    )


def _embedder(
    settings: Settings,
    model: LocalModel,
    wordpiece: TokenCounter,
    clock: Clock,
    cooldowns: Cooldowns,
    paces: RateLimitStore | None = None,
) -> Embedder:
    """Return the configured embedder; it connects when it is first used."""
    if settings.embedding_provider == "local":
        return LocalEmbedder(model, threads=settings.embedding_threads or None)
    # Importing the clients of providers costs milliseconds that most commands need not spend.
    from truespan.wiring.providers import provider_embedder

    return provider_embedder(settings, wordpiece, clock, cooldowns, paces)


def _others(
    settings: Settings,
    wordpiece: TokenCounter,
    clock: Clock,
    cooldowns: Cooldowns,
    paces: RateLimitStore | None,
) -> dict[str, OtherEmbedder]:
    """Return the further configured embedders, each created when it is first used."""

    def deferred(changes: Mapping[str, Any]) -> Callable[[], Embedder]:
        chosen = replace(settings, **changes)
        return cache(lambda: _embedder(chosen, _model(chosen), wordpiece, clock, cooldowns, paces))

    return {
        name: OtherEmbedder(changes["embedding_provider"], deferred(changes))
        for name, changes in settings.embeddings.items()
    }


def _ready(embedder: Embedder) -> OtherEmbedder:
    return OtherEmbedder(embedder.profile.provider, lambda: embedder)


def _model(settings: Settings) -> LocalModel:
    return LocalModel(
        folder=Path(settings.model_folder) if settings.model_folder else None,
        cache=model_cache() / "bge-small-en-v1.5",
    )


def _parser(settings: Settings) -> ChildParser:
    return ChildParser(
        memory_bytes=settings.loader_memory_mib * MEBIBYTE,
        cpu_seconds=settings.loader_cpu_seconds,
    )


def _assets(folder: Path, settings: Settings) -> AssetFolder:
    return AssetFolder(_assets_folder(folder, settings), reserve=settings.disk_reserve)


def _assets_folder(folder: Path, settings: Settings) -> Path:
    # A relative path is relative to the library, not to the working directory.
    return folder / (settings.rag_assets_dir or ASSETS_FOLDER)


def _preparation(folder: Path, settings: Settings) -> Preparation:
    return Preparation(
        figures=FigureFlags(
            extract_images=settings.docx_extract_images,
            placeholders=settings.docx_inline_figure_placeholders,
            chunks=settings.docx_figure_chunks,
            debug=settings.docx_image_debug,
        ),
        sanitizer=_sanitizer(folder, settings),
        chunkings=settings.chunkings,
        on_token_limit=OnTokenLimit(settings.on_token_limit),
    )


def _sanitizer(folder: Path, settings: Settings) -> Sanitizer:
    mode, style = Mode(settings.sanitize_enabled), Style(settings.sanitize_style)
    if mode is Mode.OFF:
        return Sanitizer()
    pseudonyms = mode is Mode.ON and style is Style.PSEUDONYM
    return Sanitizer(
        mode=mode,
        style=style,
        key=_pseudonym_key(folder, settings.sanitize_key_file) if pseudonyms else b"",
        profile=_sanitize_profile(folder, settings.sanitize_profile),
        phones=settings.sanitize_phones,
    )


def _sanitize_profile(folder: Path, path: str) -> Profile:
    if not path:
        return Profile()
    try:
        return parse_profile((folder / path).read_text(encoding="utf-8"), Path(path).name)
    except (OSError, UnicodeDecodeError):
        raise InvalidConfiguration("The file named by sanitize_profile cannot be read.") from None


def _pseudonym_key(folder: Path, path: str) -> bytes:
    """Return the key of pseudonyms: from a configured file, else the library's own."""
    file = folder / (path or KEY_FILE)
    try:
        if not path and not file.exists():
            file.touch(mode=0o600)
            file.write_bytes(secrets.token_hex(32).encode())
        return file.read_bytes().strip()
    except OSError:
        raise InvalidConfiguration("The file named by sanitize_key_file cannot be read.") from None


def _price(settings: Settings) -> float | None:
    price = settings.embedding_price_per_million
    return price if price >= 0 else None


def _index(folder: Path, settings: Settings, clock: Clock) -> VectorIndex:
    """Return the embedded index, or the one on the configured server."""
    if settings.index_url:
        from truespan.wiring.servers import server_index

        return server_index(folder, settings, clock)
    return EdgeIndex(
        folder / INDEX_FOLDER,
        reserve=settings.disk_reserve,
        idle_seconds=settings.index_idle_seconds,
    )


def _create_folder(folder: Path, *, with_store: bool) -> None:
    """Create the library's folder, and its file if the store is one, readable by the owner only."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if with_store:
            (folder / STORE_FILE).touch(mode=0o600)
    except OSError as error:
        raise InvalidConfiguration(
            f"Cannot create a library at {folder}: {error.strerror}.",
            advice="Choose another path.",
        ) from None
