"""Checks of a library's environment: files, database, index, models, keys, versions."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from truespan.core.disk import DISK_RESERVE
from truespan.errors import TruespanError
from truespan.maintenance.doctor.examine import check_index
from truespan.protocols import VectorIndex
from truespan.providers.context import ModelContext
from truespan.providers.tokenized import TokenizedEmbedder
from truespan.retrieval.rerank import RerankOptions, check_scores
from truespan.settings import FILE_NAME
from truespan.settings.catalogue import Settings
from truespan.settings.tables import USUAL_VARIABLES
from truespan.store import Store
from truespan.types.maintenance import Check, Verdict
from truespan.wiring.providers import make_embedder
from truespan.wiring.storage import component

_PACKAGES = (
    "truespan", "qdrant-edge-py", "apsw", "onnxruntime", "tokenizers", "numpy", "psycopg",
    "qdrant-client", "torch", "sentence-transformers",
)  # fmt: skip


def check_environment(
    context: ModelContext, store: Store, index: VectorIndex, rerank: RerankOptions | None = None
) -> list[Check]:
    """Return every check of a library's environment. No check contains a key or a text."""
    settings, folder, now = context.settings, context.folder, context.clock.now()
    provider, keyless = settings.embedding.provider, settings.openai.keyless
    return [
        Check("settings", Verdict.OK, "valid, and every TRUESPAN_ variable is known"),
        *file_checks(folder, FILE_NAME, reserve=DISK_RESERVE, now=now),
        *store.scrub.soundness(),
        _check_index(settings, index),
        _check_model(context),
        _check_keys(settings, provider, "embedding", keyless),
        _check_chat(settings),
        _check_reranker(rerank),
        Check("versions", Verdict.OK, ", ".join(_versions())),
    ]


def _check_index(settings: Settings, index: VectorIndex) -> Check:
    if not settings.index.url:
        return check_index("index process", index)
    return component("index_check", "cluster", index, check_index("index server", index))


def _check_model(context: ModelContext) -> Check:
    name = "embedding model"
    try:
        # A new one, because the library's own does not read its files again.
        embedder = make_embedder(context)
        if isinstance(embedder, TokenizedEmbedder):
            return Check(name, Verdict.OK, embedder.check_files())
    except TruespanError as error:
        return Check(name, Verdict.PROBLEM, error.message, error.advice)
    return Check(name, Verdict.OK, f"of {context.settings.embedding.provider}, not checked here")


def _check_keys(settings: Settings, provider: str, purpose: str, keyless: bool) -> Check:
    name = f"{purpose} keys"
    if provider not in USUAL_VARIABLES or keyless:
        return Check(name, Verdict.OK, "none needed")
    usable = [key for key in settings.keys if key.provider == provider and key.enabled]
    if usable:
        return Check(name, Verdict.OK, f"{len(usable)} for {provider}")
    remedy = f"Set {USUAL_VARIABLES[provider][0]}, or add [[keys]] to {FILE_NAME}."
    return Check(name, Verdict.PROBLEM, f"none for {provider}", remedy)


def _check_chat(settings: Settings) -> Check:
    if not settings.chat.provider:
        return Check("chat model", Verdict.OK, "none: an answer consists of the passages")
    keys = _check_keys(settings, settings.chat.provider, "chat", settings.chat.openai.keyless)
    if keys.verdict is not Verdict.OK:
        return keys
    return Check("chat model", Verdict.OK, f"{settings.chat.provider}/{settings.chat.model}")


def _check_reranker(rerank: RerankOptions | None) -> Check:
    if rerank is None:
        return Check("reranker", Verdict.OK, "none: results are in the order of retrieval")
    name, reranker = f"reranker {rerank.reranker.name}", rerank.reranker
    try:
        check_scores(reranker.scores("a query", ["a text"]), 1)
    except TruespanError as error:
        return Check("reranker", Verdict.PROBLEM, f"{name}: {error.message}", error.advice)
    except Exception as error:
        # A reranker that a program passed to the library may raise anything.
        return Check("reranker", Verdict.PROBLEM, f"{name} raised {type(error).__name__}")
    return Check("reranker", Verdict.OK, f"{name} answers")


def _versions() -> Iterator[str]:
    from importlib import metadata

    yield f"Python {platform.python_version()}"
    for name in _PACKAGES:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
EARLIEST = 1_767_225_600.0
"""Start of 2026; a clock with an earlier time was never set."""
AHEAD = 86_400.0


def file_checks(folder: Path, settings_file: str, *, reserve: int, now: float) -> Iterator[Check]:
    if os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Check("folder", Verdict.OK, "can be read and written")
    else:
        remedy = "Run as its owner, or correct its permissions."
        yield Check("folder", Verdict.PROBLEM, "cannot be written", remedy)
    yield _check_privacy(folder)
    yield _check_settings(folder / settings_file)
    free = shutil.disk_usage(folder).free
    says = f"{free / (1 << 20):.0f} MiB free, {reserve / (1 << 20):.0f} MiB in reserve"
    if free < reserve:
        yield Check("room", Verdict.PROBLEM, says, "Free disk space: nothing can be written.")
    elif free < 2 * reserve:
        yield Check("room", Verdict.WARNING, says, "Free disk space soon.")
    else:
        yield Check("room", Verdict.OK, says)
    latest = max(path.stat().st_mtime for path in (folder, *folder.glob("store.db*")))
    if now < EARLIEST or latest > now + AHEAD:
        says = "is earlier than the last write to the library"
        yield Check("clock", Verdict.WARNING, says, "Set the machine's clock.")
    else:
        yield Check("clock", Verdict.OK, "is plausible")


def _check_privacy(folder: Path) -> Check:
    """Check that only the owner can read the library; a private folder suffices."""
    if not folder.stat().st_mode & _OTHERS:
        return Check("privacy", Verdict.OK, "only its owner can open the folder")
    files = [path for path in sorted(folder.iterdir()) if path.stat().st_mode & _OTHERS]
    if not files:
        return Check("privacy", Verdict.OK, "only its owner can read the files")
    says = f"others on this machine can read {', '.join(path.name for path in files[:3])}"
    return Check("privacy", Verdict.WARNING, says, "Make the folder private: chmod 700.")


def _check_settings(path: Path) -> Check:
    if not path.exists():
        return Check(path.name, Verdict.OK, "does not exist: the defaults apply")
    if path.stat().st_mode & _WRITABLE:
        says = "others on this machine can change it"
        return Check(path.name, Verdict.PROBLEM, says, "Make it private: chmod 600.")
    return Check(path.name, Verdict.OK, "is valid, and only its owner can change it")
