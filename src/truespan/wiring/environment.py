"""Checks of a library's environment: files, database, index, models, keys, versions."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from truespan.errors import TruespanError
from truespan.files.checks import file_checks
from truespan.protocols import Clock, VectorIndex
from truespan.providers.local import NETWORK_FILE, TOKENIZER_FILE, LocalModel
from truespan.settings import FILE_NAME
from truespan.settings.catalogue import Settings
from truespan.settings.tables import USUAL_VARIABLES
from truespan.store import Store
from truespan.types.maintenance import Check, Verdict

_PACKAGES = (
    "truespan", "qdrant-edge-py", "apsw", "onnxruntime", "tokenizers", "numpy", "psycopg",
    "qdrant-client",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LibraryEnvironment:
    """Checks the environment of a library; nothing is read before `checks` is called."""

    folder: Path
    settings: Settings
    store: Store
    index: VectorIndex
    model: LocalModel
    clock: Clock

    def checks(self) -> list[Check]:
        """Return every check. None contains a key or a text of the library."""
        settings, reserve = self.settings, self.settings.disk_reserve
        return [
            Check("settings", Verdict.OK, "valid, and every TRUESPAN_ variable is known"),
            *file_checks(self.folder, FILE_NAME, reserve=reserve, now=self.clock.now()),
            *self.store.soundness(),
            self._check_index(),
            self._check_model(),
            _check_keys(
                settings, settings.embedding_provider, "embedding", settings.openai_keyless
            ),
            _check_chat(settings),
            Check("versions", Verdict.OK, ", ".join(_versions())),
        ]

    def _check_index(self) -> Check:
        name = "index server" if self.settings.index_url else "index process"
        try:
            count = len(self.index.collections())
        except TruespanError as error:
            return Check(name, Verdict.PROBLEM, error.message, error.advice)
        collections = "1 collection" if count == 1 else f"{count} collections"
        return Check(name, Verdict.OK, f"answers, with {collections}")

    def _check_model(self) -> Check:
        provider = self.settings.embedding_provider
        if provider != "local":
            return Check("embedding model", Verdict.OK, f"of {provider}, not checked here")
        try:
            for name in (NETWORK_FILE, TOKENIZER_FILE):
                self.model.read(name)
        except TruespanError as error:
            return Check("embedding model", Verdict.PROBLEM, error.message, error.advice)
        says = f"files match their digests, {self.model.revision[:19]}"
        return Check("embedding model", Verdict.OK, says)


def _check_keys(settings: Settings, provider: str, purpose: str, keyless: bool) -> Check:
    """Check that a provider that needs keys has one, without showing it."""
    name = f"{purpose} keys"
    if provider not in USUAL_VARIABLES or keyless:
        return Check(name, Verdict.OK, "none needed")
    usable = [key for key in settings.keys if key.provider == provider and key.enabled]
    if usable:
        return Check(name, Verdict.OK, f"{len(usable)} for {provider}")
    remedy = f"Set {USUAL_VARIABLES[provider][0]}, or add [[keys]] to {FILE_NAME}."
    return Check(name, Verdict.PROBLEM, f"none for {provider}", remedy)


def _check_chat(settings: Settings) -> Check:
    if not settings.chat_provider:
        return Check("chat model", Verdict.OK, "none: an answer consists of the passages")
    keys = _check_keys(settings, settings.chat_provider, "chat", settings.chat_openai_keyless)
    if keys.verdict is not Verdict.OK:
        return keys
    return Check("chat model", Verdict.OK, f"{settings.chat_provider}/{settings.chat_model}")


def _versions() -> Iterator[str]:
    from importlib import metadata

    yield f"Python {platform.python_version()}"
    for name in _PACKAGES:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
