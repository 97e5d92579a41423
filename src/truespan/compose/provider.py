"""From settings to the embedder of a provider. `compose` imports it when one is configured."""

from __future__ import annotations

from truespan.adapters.providers.key_ring import KeyRing
from truespan.ingest.embed.pace import Pace, SharedPace
from truespan.ports import Clock, Cooldowns, Embedder, Paces, TokenCounter
from truespan.settings import Settings, model_cache


def provider_embedder(
    settings: Settings,
    wordpiece: TokenCounter,
    clock: Clock,
    cooldowns: Cooldowns,
    paces: Paces | None = None,
) -> Embedder:
    """Return the embedder of the configured provider; it is asked nothing yet."""
    pace = _pace(settings, clock, paces)
    in_flight = settings.embedding_api_concurrency
    match settings.embedding_provider:
        case "ollama":
            from truespan.adapters.providers.ollama_embedder import OllamaEmbedder

            return OllamaEmbedder(
                settings.ollama_base_url,
                settings.ollama_model,
                dimensions=settings.ollama_dimensions or None,
                # Whatever counts tokens for budgets: this one reads as most embedding models do.
                counter=wordpiece,
                clock=clock,
                in_flight=in_flight,
                pace=pace,
            )
        case "openai":
            from truespan.adapters.providers.openai_embedder import OpenAiEmbedder

            return OpenAiEmbedder(
                settings.openai_base_url,
                settings.openai_model,
                keys=ring_of("openai", settings, clock, cooldowns, keyless=settings.openai_keyless),
                dimensions=settings.openai_dimensions or None,
                input_limit=settings.openai_input_limit or None,
                counter=wordpiece,
                clock=clock,
                in_flight=in_flight,
                pace=pace,
            )
        case "google":
            from truespan.adapters.providers.google_embedder import GoogleEmbedder

            return GoogleEmbedder(
                settings.google_base_url,
                settings.google_model,
                keys=ring_of("google", settings, clock, cooldowns),
                dimensions=settings.google_dimensions or None,
                clock=clock,
                in_flight=in_flight,
                pace=pace,
            )
    from truespan.adapters.providers.fastembed_embedder import FastembedEmbedder

    return FastembedEmbedder(
        settings.fastembed_model,
        cache_dir=model_cache() / "fastembed",
        threads=settings.embedding_threads or None,
    )


def _pace(settings: Settings, clock: Clock, paces: Paces | None) -> Pace | None:
    """Return how fast the provider is asked: by all processes together, where that can be known."""
    per_minute = settings.embedding_requests_per_minute
    if not per_minute:
        return None
    if paces is None:
        return Pace(per_minute, clock)
    return SharedPace(per_minute, clock, settings.embedding_provider, paces)


def ring_of(
    provider: str, settings: Settings, clock: Clock, cooldowns: Cooldowns, *, keyless: bool = False
) -> KeyRing:
    """Return the keys of a provider, or a ring for a server that wants none."""
    if keyless:
        return KeyRing.keyless(provider, clock)
    keys = [key for key in settings.keys if key.provider == provider]
    return KeyRing(provider, keys, cooldowns, clock)
