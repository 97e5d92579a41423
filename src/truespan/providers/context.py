"""The arguments from which embedders and rerankers are made, and the makers of local embedders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from truespan.errors import InvalidConfiguration
from truespan.protocols import Clock, Cooldowns, TokenCounter
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.providers.onnx_embedder import FolderEmbedder
from truespan.settings.catalogue import Settings

if TYPE_CHECKING:
    from truespan.extensions.cluster.paces import PaceRows
    from truespan.providers.embedder import EmbedderOptions
    from truespan.providers.keys import KeyRing


class ModelContext(Struct, frozen=True):
    """The settings of a library, and other arguments of functions that make models."""

    settings: Settings
    folder: Path
    model: LocalModel
    clock: Clock
    cooldowns: Cooldowns
    counter: TokenCounter
    """Counter for servers that do not count tokens; most models count like it."""
    paces: PaceRows | None = None
    """Store with which all processes share the rate limit."""

    @property
    def threads(self) -> int | None:
        """Threads of a model on this machine; None for one per core."""
        return self.settings.embedding.threads or None

    def key_ring(self, provider: str, *, keyless: bool = False) -> KeyRing:
        from truespan.providers.keys import KeyRing

        keys = () if keyless else self.settings.keys
        return KeyRing(provider, keys, self.cooldowns, self.clock, keyless=keyless)

    def http_options(self, section: str) -> EmbedderOptions:
        """Return the options of an embedder of a server, whose settings are in a section."""
        from truespan.providers.embedder import EmbedderOptions
        from truespan.providers.limits import RateLimiter

        options, value, pace = self.settings.embedding, self.settings.value_of, None
        if per_minute := options.requests_per_minute:
            shared = self.paces and self.paces.limiter(options.provider, per_minute)
            pace = shared or RateLimiter(per_minute, self.clock)
        return EmbedderOptions(
            base_url=value(f"{section}_base_url"),
            model=value(f"{section}_model"),
            clock=self.clock,
            dimensions=value(f"{section}_dimensions") or None,
            in_flight=options.api_concurrency,
            pace=pace,
        )


def make_local_embedder(context: ModelContext) -> LocalEmbedder:
    return LocalEmbedder(context.model, threads=context.threads)


def make_folder_embedder(context: ModelContext) -> FolderEmbedder:
    options = context.settings.onnx
    if not options.folder.strip():
        raise InvalidConfiguration(
            "The embedding provider is 'onnx', but no folder is named.",
            advice="Set onnx_folder to the folder with model.onnx and tokenizer.json.",
        )
    return FolderEmbedder(context.folder / options.folder, threads=context.threads)
