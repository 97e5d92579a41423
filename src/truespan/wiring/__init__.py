"""Build a library from its settings: the only place that chooses implementations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec.structs import replace

from truespan.core.clock import SystemClock, SystemProcesses
from truespan.core.disk import DISK_RESERVE
from truespan.engine.components import Components
from truespan.engine.library import Library
from truespan.errors import InvalidConfiguration, LibraryNotFound, StoreDamaged, resource_error
from truespan.index.edge.client import EdgeIndex
from truespan.jobs.thread import JobThread
from truespan.observer import NULL_OBSERVER, Observer, combine_observers
from truespan.protocols import (
    ChatModels,
    Clock,
    Embedder,
    Reranker,
    SourceParser,
    TokenCounter,
    VectorIndex,
)
from truespan.providers import cohort
from truespan.providers.context import ModelContext
from truespan.providers.local import LocalModel
from truespan.retrieval.background import Cohort, CohortVectors
from truespan.retrieval.deps import OtherEmbedder
from truespan.settings import read_settings, shared_metrics
from truespan.settings.catalogue import (
    MEBIBYTE,
    AuthSettings,
    IndexSettings,
    Settings,
    StoreSettings,
)
from truespan.tables import import_member, require, tables
from truespan.types.chunk import FigureFlags
from truespan.types.maintenance import Check
from truespan.types.profile import EmbeddingLimits
from truespan.types.request import Defaults
from truespan.types.scope import OWNER, Authority
from truespan.wiring import providers, storage
from truespan.wiring.storage import component

if TYPE_CHECKING:
    from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
    from truespan.files.sources import FileSources
    from truespan.ingest.draft import Preparation
    from truespan.ingest.workers.client import DraftWorkers
    from truespan.store import Store


INDEX_FOLDER = "index"
UPLOADS_FOLDER = "uploads"
BUILT_IN_MODELS = {
    "local": {"embedding_provider": "local", "embedding_device": ""},
    "local-gpu": {"embedding_provider": "local", "embedding_device": "auto"},
    "multilingual": {"embedding_provider": "multilingual"},
}
"""Embedding models that every library has by name, with the values that choose them."""


def open_library(
    path: str | Path,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
    counter: TokenCounter | None = None,
    chat: ChatModels | None = None,
    others: Mapping[str, Embedder] | None = None,
    reranker: Reranker | None = None,
    authority: Authority = OWNER,
    observer: Observer | None = None,
    metrics: bool | None = None,
    logs: bool = False,
    settings: Settings | None = None,
) -> Library:
    """Open the library in a folder; with `create`, create it if it is absent.

    An embedder, a token counter, chat models or a reranker replace the configured ones; `others`
    are further embedders by name, for generations of other models. `settings` replace those of the
    folder and of the environment. The rest is as for `truespan.open`.

    Raises:
        LibraryNotFound: there is no library, and `create` is not given.
        InvalidConfiguration: a setting is wrong.
        StoreDamaged: the database file is empty, but the library has an index.
    """
    folder = Path(path)
    if not (create or folder.is_dir()):
        raise LibraryNotFound(str(folder))
    settings = settings or read_settings(folder)
    on_server = storage.is_on_server(settings)
    if not (folder.is_dir() if on_server else (folder / storage.STORE_FILE).exists()):
        if not create:
            raise LibraryNotFound(str(folder))
        try:
            # Readable by the owner only.
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not on_server:
                (folder / storage.STORE_FILE).touch(mode=0o600)
        except OSError as error:
            refusal = InvalidConfiguration(
                f"Cannot create a library at {folder}: {error.strerror}.",
                advice="Choose another path.",
            )
            raise resource_error(error) or refusal from None
    if not on_server:
        _refuse_emptied_store(folder)
    # Contradictory settings are refused before anything is opened.
    is_custom = embedder is not None or bool(others)
    distance = None if is_custom else providers.CONFIGURED_DISTANCE
    rules = providers.answer_rules(settings, known=distance)
    providers.chat_choices(settings)
    providers.check_rerank(settings)
    _check_ocr(settings)
    clock = SystemClock()
    identities = None
    if settings.auth.issuer:
        identities = component("identities", "server", folder, settings, clock)
    elif settings.auth != AuthSettings() or settings.auth_rules:
        raise InvalidConfiguration("The settings auth_* need auth_issuer.")
    store = storage.open_store(folder, settings, clock)
    index = _index(folder, settings, clock, store)
    model = _local_model(settings)
    wordpiece = load("truespan.providers.token_counter:WordPieceCounter", model)
    context = ModelContext(
        settings=settings,
        folder=folder,
        model=model,
        clock=clock,
        cooldowns=store.limits,
        counter=wordpiece,
        paces=store.paces if on_server else None,
    )
    max_bytes = settings.source_max_mib * MEBIBYTE
    assets = load(
        "truespan.files.assets:AssetFolder",
        storage.assets_folder(folder, settings),
        reserve=DISK_RESERVE,
    )
    pictures = None
    if settings.pictures_max_mib:
        pictures = load(
            "truespan.files.assets:PictureFolder",
            folder / storage.PICTURES_FOLDER,
            max_bytes=settings.pictures_max_mib * MEBIBYTE,
            reserve=DISK_RESERVE,
        )
    usage_key = load("truespan.files.keys:UsageKey", folder / storage.USAGE_KEY_FILE)
    parser = defer(make_parser)
    workers = defer(partial(_workers, settings, parser, counter or wordpiece))
    rerank = providers.rerank_options(context, reranker)

    def check_environment() -> list[Check]:
        from truespan.wiring.environment import check_environment

        return check_environment(context, store, index, rerank)

    models = chat if chat is not None else providers.chat_models(settings, clock, store.limits)
    all_observers, exposition = _observers(settings, observer, metrics=metrics, logs=logs)
    return Library(
        Components(
            store=store,
            index=index,
            embedder=embedder or providers.make_embedder(context),
            others=_other_embedders(context, others),
            counter=counter or wordpiece,
            sources=defer(partial(_sources, settings)),
            parser=parser,
            workers=workers,
            assets=assets,
            processes=SystemProcesses(),
            clock=clock,
            limits=EmbeddingLimits(
                tokens=settings.embedding.max_tokens_per_batch,
                in_flight=settings.embedding.api_concurrency,
            ),
            preparation=make_preparation(folder, settings),
            world_defaults=Defaults(settings.world_defaults),
            fused_weight=settings.fused_weight,
            max_tokens=settings.retrieval_max_tokens,
            word_states=settings.word_states,
            default_model="" if embedder else providers.configured_model(settings),
            chat=models,
            chat_servers=defer(
                lambda: component("chat_servers", "server", folder, clock, store.limits, models)
            )
            if chat is None
            else None,
            rerank=rerank,
            answers=rules,
            cohort=CohortVectors(Cohort(cohort.DIGEST, cohort.read_texts, cohort.read_vectors)),
            conversations=providers.conversation_rules(settings),
            pages=defer(partial(component, "pages", "crawl", settings, clock, max_bytes)),
            watch_folders=partial(component, "watch_folders", "crawl"),
            uploads=load(
                "truespan.files.uploads:UploadFolder",
                folder / UPLOADS_FOLDER,
                reserve=DISK_RESERVE,
                max_bytes=max_bytes,
            ),
            signing_keys=defer(partial(component, "signing_keys", "proof", folder, settings)),
            signs_questions=settings.sign_questions,
            pictures=pictures,
            backups=defer(
                partial(storage.backup_writer, folder, assets, pictures, settings, clock, store)
            ),
            queue=component("queue", "cluster", folder, settings) if on_server else JobThread(),
            identities=identities,
            random_bytes=os.urandom,
            mark_query=lambda world, query: usage_key.mark(world, query),
            observer=all_observers,
            metrics=exposition,
            check_environment=check_environment,
        ),
        authority,
    )


def _refuse_emptied_store(folder: Path) -> None:
    """Raise StoreDamaged if the database file was emptied; SQLite would take it for a new one."""
    store = folder / storage.STORE_FILE
    # The index is created after the schema. Until it is written, the file may be in the log alone.
    is_new = store.with_name(f"{store.name}-wal").exists() or not (folder / INDEX_FOLDER).is_dir()
    if not is_new and not store.stat().st_size:
        raise StoreDamaged(
            f"{store} is empty, although the library has an index.",
            advice="Restore a backup to another folder, or remove this one and ingest again.",
        )


@contextmanager
def open_temporary(settings_folder: Path, folder: Path | None = None) -> Iterator[Library]:
    """Open a library in a temporary folder, as `truespan.open_temporary` does."""
    settings = replace(
        read_settings(settings_folder),
        store=StoreSettings(),
        # Its process outlives the command, but not for long.
        index=IndexSettings(idle_seconds=10),
        rag_assets_dir="",
    )
    with ExitStack() as stack:
        made = folder or stack.enter_context(
            TemporaryDirectory(prefix="truespan-", ignore_cleanup_errors=True)
        )
        yield stack.enter_context(open_library(made, create=True, settings=settings))


def _other_embedders(
    context: ModelContext, given: Mapping[str, Embedder] | None
) -> dict[str, OtherEmbedder]:
    """Return further embedders: `given`, or the configured ones, created when first used."""

    def ready(embedder: Embedder) -> OtherEmbedder:
        return OtherEmbedder(embedder.profile.provider, lambda: embedder)

    def deferred(chosen: Settings) -> OtherEmbedder:
        own = replace(context, settings=chosen, model=_local_model(chosen))
        return OtherEmbedder(
            chosen.embedding.provider, cache(partial(providers.make_embedder, own))
        )

    if given is not None:
        return {name: ready(embedder) for name, embedder in given.items()}
    settings = context.settings
    built_in = {
        name: settings.with_values(values)
        for name, values in BUILT_IN_MODELS.items()
        # A GPU runs the bundled model only.
        if name != providers.configured_model(settings)
        and not (name == "local-gpu" and settings.model_folder)
    }
    # A table of the same name replaces a built-in model.
    models = {**built_in, **settings.embeddings}
    return {name: deferred(chosen) for name, chosen in models.items()}


def _check_ocr(settings: Settings) -> None:
    if settings.ocr != "auto":
        return
    from truespan.parsing import can_recognise

    if not can_recognise():
        raise InvalidConfiguration(
            'Text recognition (ocr = "auto") is not installed.',
            advice="Install Truespan with the extra 'ocr', or set ocr to off.",
        )


def _local_model(settings: Settings) -> LocalModel:
    return LocalModel(Path(settings.model_folder) if settings.model_folder else None)


def _sources(settings: Settings) -> FileSources:
    from truespan.files.sources import FileSources
    from truespan.parsing import may_hold_members, supported

    return FileSources(
        partial(supported, ocr=settings.ocr == "auto"),
        may_hold_members,
        max_bytes=settings.source_max_mib * MEBIBYTE,
    )


def make_parser() -> SourceParser:
    from truespan.parsing.sandbox.client import ChildParser

    return ChildParser()


def _workers(settings: Settings, parser: SourceParser, counter: TokenCounter) -> DraftWorkers:
    from truespan.ingest.workers.client import DraftWorkers, default_jobs
    from truespan.retrieval.word_counts import count_chunks

    jobs = settings.ingest.jobs or default_jobs()
    return DraftWorkers(jobs, parser, counter, count_chunks)


def make_preparation(folder: Path, settings: Settings) -> Preparation:
    """Return the processing of sources; raise errors of the sanitizer's files."""

    def prepare() -> Preparation:
        from truespan.ingest.draft import Preparation
        from truespan.ingest.embed import OnTokenLimit
        from truespan.parsing import can_recognise

        return Preparation(
            figures=FigureFlags(
                extract_images=settings.docx.extract_images,
                placeholders=settings.docx.inline_figure_placeholders,
                chunks=settings.docx.figure_chunks,
                debug=settings.docx.image_debug,
            ),
            audiences=settings.audiences,
            require_audience=settings.require_audience,
            sanitizer=_sanitizer(folder, settings),
            chunkings=settings.chunkings,
            on_token_limit=OnTokenLimit(settings.on_token_limit),
            ocr=settings.ocr == "auto",
            can_recognise=can_recognise(),
        )

    return defer(prepare) if settings.sanitize.enabled == "off" else prepare()


def _sanitizer(folder: Path, settings: Settings) -> Sanitizer | None:
    """Return the sanitizer; without its extension, one that refuses every ingestion."""
    if settings.sanitize.enabled == "off":
        return None
    given = folder, settings.sanitize, folder / storage.KEY_FILE
    make = partial(component, "sanitizer", "checks", *given)
    return make() if "sanitizer" in tables().components else defer(make)


def _index(folder: Path, settings: Settings, clock: Clock, store: Store) -> VectorIndex:
    if settings.index.url:
        return component("index", "cluster", folder, settings, clock, store)
    return EdgeIndex(
        folder / INDEX_FOLDER,
        reserve=DISK_RESERVE,
        approximate=storage.approximate_worlds(settings),
        idle_seconds=settings.index.idle_seconds,
    )


def _observers(
    settings: Settings, own: Observer | None, *, metrics: bool | None, logs: bool
) -> tuple[Observer, Callable[[], bytes] | None]:
    """Return all observers as one, and the function that returns the metrics; None without."""
    observers: list[Observer] = [own or NULL_OBSERVER]
    exposition: Callable[[], bytes] | None = None
    known = tables().observers if settings.tracing or metrics or settings.metrics else {}
    if settings.tracing:
        observers.append(require(known.get("tracing"), "tracing", "server")())
    if settings.metrics if metrics is None else metrics:
        metrics_observer = require(known.get("metrics"), "metrics", "server")(shared_metrics())
        observers.append(metrics_observer)
        exposition = metrics_observer.exposition
    if logs:
        from truespan.observability.logs import LogObserver, write_logs

        write_logs(level=settings.log.level, as_json=settings.log.format == "json")
        observers.append(LogObserver())
    return combine_observers(*observers), exposition


T = TypeVar("T")


def defer(make: Callable[[], T]) -> T:
    """Return a proxy of the object that `make` returns; `make` is called once, when needed."""
    return cast("T", _Deferred(make))


def load(path: str, *arguments: Any, **options: Any) -> Any:
    """Return a proxy of an object of a class, which is imported when the object is needed."""
    return defer(lambda: import_member(path)(*arguments, **options))


# Shared by threads: the part that it stands for is created under a lock, once.
class _Deferred:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._making = Lock()
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resolve(), name)

    def _resolve(self) -> Any:
        if self._made is None:
            with self._making:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the object that the proxy stands for.
        return _return_same, (self._resolve(),)

    def close(self) -> None:
        """Close the object if it was created."""
        if self._made is not None:
            self._made.close()


def _return_same(made: T) -> T:
    return made
