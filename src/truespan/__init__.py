"""Truespan: retrieval of verified text.

    import truespan

    with truespan.open("library", create=True) as library:
        world = library.world()
        world.ingest("examples/the-glass-ferry.md", kind="book")
        for passage in world.search("Who held the spare key?", top_k=3).passages:
            print(passage.score, passage.chapter, passage.text)

Every passage was read from the store and checked, in the same read, against the hash of the text
that was embedded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truespan.errors import TruespanError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from truespan.engine.library import Library
    from truespan.engine.reader import Reader
    from truespan.engine.world import World
    from truespan.extensions.proof.types import PublicKeys, SignedReceipt, VerifiedReceipt
    from truespan.observer import Observer, StageListener
    from truespan.protocols import ChatModels, Embedder, Reranker, TokenCounter
    from truespan.types.answer import Answer
    from truespan.types.bundle import ContextBundle, Passage, SearchResult
    from truespan.types.job import DoctorJob, IngestJob, Job, ReindexJob, RepairJob
    from truespan.types.maintenance import Manifest, RestoreReport
    from truespan.types.scope import Authority
    from truespan.types.source import Upload

    __version__: str

__all__ = [
    "Answer",
    "Authority",
    "ContextBundle",
    "DoctorJob",
    "IngestJob",
    "Job",
    "Library",
    "Observer",
    "Passage",
    "Reader",
    "ReindexJob",
    "RepairJob",
    "SearchResult",
    "StageListener",
    "TruespanError",
    "Upload",
    "World",
    "__version__",
    "download_model",
    "open",
    "open_temporary",
    "restore",
    "verify_backup",
    "verify_receipt",
]

_MODULES = {
    "Answer": "types.answer",
    "Authority": "types.scope",
    "ContextBundle": "types.bundle",
    "DoctorJob": "types.job",
    "IngestJob": "types.job",
    "Job": "types.job",
    "Library": "engine.library",
    "Observer": "observer",
    "Passage": "types.bundle",
    "Reader": "engine.reader",
    "ReindexJob": "types.job",
    "RepairJob": "types.job",
    "SearchResult": "types.bundle",
    "StageListener": "observer",
    "Upload": "types.source",
    "World": "engine.world",
}
"""Modules of the exported classes, which are imported on first use to keep start-up fast."""


def open(
    path: str | Path,
    *,
    create: bool = False,
    embedder: Embedder | None = None,
    counter: TokenCounter | None = None,
    chat: ChatModels | None = None,
    others: Mapping[str, Embedder] | None = None,
    reranker: Reranker | None = None,
    authority: Authority | None = None,
    observer: Observer | None = None,
    metrics: bool | None = None,
    logs: bool = False,
) -> Library:
    """Open the library in a folder.

    Args:
        path: The folder.
        create: Whether to create the library if it is absent.
        embedder: Embedder to use instead of the configured one.
        counter: Token counter to use instead of the configured one.
        chat: Chat models to use instead of the configured ones.
        others: Further embedders by the names of their profiles.
        reranker: Reranker to use instead of the configured one.
        authority: Permissions to which the library is restricted; None for all.
        observer: Observer that is notified of requests and their stages.
        metrics: Whether to collect metrics; None for the setting of that name.
        logs: Whether this process writes its log to standard error.

    Returns:
        The library. Close it, or use it in a `with` statement.

    Raises:
        LibraryNotFound: There is no library, and `create` is not given.
        InvalidConfiguration: A setting is wrong.
    """
    from truespan.types.scope import OWNER
    from truespan.wiring import open_library

    return open_library(
        path,
        create=create,
        embedder=embedder,
        counter=counter,
        chat=chat,
        others=others,
        reranker=reranker,
        authority=OWNER if authority is None else authority,
        observer=observer,
        metrics=metrics,
        logs=logs,
    )


def open_temporary(
    settings_folder: str | Path = ".", *, folder: str | Path | None = None
) -> AbstractContextManager[Library]:
    """Open a new library in a temporary folder for a `with` statement, which removes it.

    Args:
        settings_folder: Folder whose `truespan.toml` applies, if it has one. Its servers for store
            and index are not used.
        folder: Folder of a library that is not removed, such as one in a cache; made if it is
            absent.


    Raises:
        InvalidConfiguration: A setting is wrong.
    """
    from pathlib import Path

    from truespan.wiring import open_temporary as open_with_settings

    return open_with_settings(Path(settings_folder), None if folder is None else Path(folder))


def download_model(name: str) -> Path:
    """Download a model of sentence-transformers from the Hugging Face Hub into its cache.

    Nothing else is sent than the name of the model. Only weights as safetensors, the tokenizer
    and the configuration are downloaded.

    Args:
        name: Name of the model, such as "BAAI/bge-m3".

    Returns:
        The folder of the model in the cache.

    Raises:
        ModelUnavailable: The extra is not installed, or the hub does not give the model.
    """
    from truespan.tables import member

    return member("truespan.download_model", "models")(name)


def restore(backup: str | Path, path: str | Path) -> RestoreReport:
    """Restore a backup into a folder that is new or empty, and fill its index.

    Either everything is restored or nothing. Stored vectors are written to the index;
    `World.repair` embeds the rest.

    Args:
        backup: The file.
        path: The folder. If its settings or the environment have a `store_url`, the backup is
            restored to that store, which must be prepared and have no worlds.

    Returns:
        A report of what was restored and what is left to embed.

    Raises:
        BackupInvalid: The file is not a backup, or was changed. Nothing was done.
        InvalidArgument: The folder or the store is not empty.
        SchemaUnknown: The store on the server is not prepared.
    """
    from pathlib import Path

    from truespan.types.maintenance import RestoreReport
    from truespan.wiring import open_library
    from truespan.wiring.storage import find_settings_aside, restore_library

    manifest = restore_library(Path(backup), Path(path))
    with open_library(path) as library:
        written = library._refill() if manifest.vectors else 0
        found = map(library._components.store.worlds.generations, library._scopes())
        pending = sum(record.pending for records in found for record in records)
    aside = find_settings_aside(Path(path)) if manifest.has("settings") else None
    return RestoreReport(str(path), manifest, written, pending, str(aside) if aside else None)


def verify_receipt(
    receipt: SignedReceipt | bytes | str,
    keys: PublicKeys | dict[str, Any],
    *,
    source: str | Path | None = None,
    settings_folder: str | Path = ".",
) -> VerifiedReceipt:
    """Verify a signed receipt, offline: signature, key and texts.

    Args:
        receipt: The receipt, as a value or as JSON.
        keys: Public keys of the library, from `Library.keys.list()` or its JSON.
        source: File that a document of the receipt was read from. Its bytes must have the signed
            hash, and its text must have the signed passages at their places.
        settings_folder: Folder whose `truespan.toml` applies to reading the file, if it has one.

    Returns:
        The claims, the texts, and the places of the passages in the file.

    Raises:
        ReceiptInvalid: The receipt is not valid; `failure` says why.
        SourceRefused: The file cannot be read.
    """
    from pathlib import Path

    from truespan.tables import member

    return member("truespan.verify_receipt", "proof")(
        receipt,
        keys,
        source=None if source is None else Path(source),
        settings_folder=Path(settings_folder),
    )


def verify_backup(backup: str | Path) -> Manifest:
    """Read a whole backup, check every digest, and return its manifest.

    Args:
        backup: The file.

    Raises:
        BackupInvalid: The file is not a backup, or was changed.
    """
    from pathlib import Path

    from truespan.files.backup import read_archive

    return read_archive(Path(backup))


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"truespan.{_MODULES[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("truespan")
    raise AttributeError(f"module 'truespan' has no attribute {name!r}")
