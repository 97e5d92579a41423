"""Build embedders and chat models from settings. Clients are imported when first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from truespan.errors import InvalidConfiguration
from truespan.ingest.embed import RateLimiter, SharedRateLimiter
from truespan.protocols import (
    ChatModel,
    ChatModels,
    Clock,
    Cooldowns,
    Embedder,
    RateLimitStore,
    TokenCounter,
)
from truespan.providers.keys import KeyRing
from truespan.settings import model_cache
from truespan.settings.catalogue import Settings
from truespan.types.answer import Message


def provider_embedder(
    settings: Settings,
    wordpiece: TokenCounter,
    clock: Clock,
    cooldowns: Cooldowns,
    paces: RateLimitStore | None = None,
) -> Embedder:
    """Return the embedder of the configured provider; it connects when it is first used."""
    provider = settings.embedding_provider
    if provider == "fastembed":
        from truespan.providers.fastembed import FastembedEmbedder

        return FastembedEmbedder(
            settings.fastembed_model,
            cache_dir=model_cache() / "fastembed",
            threads=settings.embedding_threads or None,
        )
    from truespan.providers.embedder import EmbedderOptions

    options = EmbedderOptions(
        base_url=getattr(settings, f"{provider}_base_url"),
        model=getattr(settings, f"{provider}_model"),
        clock=clock,
        dimensions=getattr(settings, f"{provider}_dimensions") or None,
        in_flight=settings.embedding_api_concurrency,
        pace=_pace(settings, clock, paces),
    )
    if provider == "ollama":
        from truespan.providers.ollama import OllamaEmbedder

        # An estimate for batches: most embedding models count tokens like this one.
        return OllamaEmbedder(options, counter=wordpiece)
    if provider == "google":
        from truespan.providers.google import GoogleEmbedder

        return GoogleEmbedder(options, keys=key_ring("google", settings, clock, cooldowns))
    from truespan.providers.openai import OpenAiEmbedder

    return OpenAiEmbedder(
        options,
        keys=key_ring("openai", settings, clock, cooldowns, keyless=settings.openai_keyless),
        counter=wordpiece,
        input_limit=settings.openai_input_limit or None,
    )


def _pace(settings: Settings, clock: Clock, paces: RateLimitStore | None) -> RateLimiter | None:
    """Return the rate limiter of a provider; shared by all processes if the store supports it."""
    per_minute = settings.embedding_requests_per_minute
    if not per_minute:
        return None
    if paces is None:
        return RateLimiter(per_minute, clock)
    return SharedRateLimiter(per_minute, clock, settings.embedding_provider, paces)


def key_ring(
    provider: str, settings: Settings, clock: Clock, cooldowns: Cooldowns, *, keyless: bool = False
) -> KeyRing:
    """Return the keys of a provider, or an empty ring for a server that needs none."""
    keys = () if keyless else settings.keys
    return KeyRing(provider, keys, cooldowns, clock, keyless=keyless)


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """A configured chat model."""

    provider: str
    model: str
    address: str
    keyless: bool

    @property
    def name(self) -> str:
        """Return provider and model."""
        return f"{self.provider}/{self.model}"


class DeferredChat:
    """A chat model that is created when it is first used."""

    def __init__(self, name: str, make: Callable[[], ChatModel]) -> None:
        self._name = name
        self._make = make
        self._making = Lock()
        self._made: ChatModel | None = None

    @property
    def name(self) -> str:
        """Return provider and model."""
        return self._name

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """Give the reply piece by piece; see `ChatModel`."""
        with self._making:
            if self._made is None:
                self._made = self._make()
        return self._made.stream(messages)


def chat_choices(settings: Settings) -> tuple[ChatChoice | None, ChatChoice | None]:
    """Return the configured chat models: the primary one and its fallback.

    Raises:
        InvalidConfiguration: a provider without a model, or a model without a provider.
    """
    return _choice("chat", settings), _choice("chat_fallback", settings)


def chat_models(settings: Settings, clock: Clock, cooldowns: Cooldowns) -> ChatModels:
    """Return the configured chat models; they connect when first used.

    Raises as `chat_choices` does.
    """

    def deferred(choice: ChatChoice | None) -> ChatModel | None:
        if choice is None:
            return None
        return DeferredChat(choice.name, lambda: _model(choice, settings, clock, cooldowns))

    primary, fallback = chat_choices(settings)
    return ChatModels(deferred(primary), deferred(fallback))


def _choice(which: str, settings: Settings) -> ChatChoice | None:
    provider: str = getattr(settings, f"{which}_provider")
    model: str = getattr(settings, f"{which}_model").strip()
    if bool(provider) is not bool(model):
        raise InvalidConfiguration(
            f"The settings {which}_provider and {which}_model need each other.",
            advice="Set both, or neither.",
        )
    if not provider:
        return None
    fallback = which == "chat_fallback"
    own = settings.chat_fallback_base_url if fallback else ""
    address = own or _default_address(provider, settings)
    keyless = settings.chat_fallback_keyless if fallback else settings.chat_openai_keyless
    return ChatChoice(provider, model, address, keyless)


def _default_address(provider: str, settings: Settings) -> str:
    if provider == "openai":
        return settings.chat_openai_base_url
    return settings.chat_ollama_base_url or settings.ollama_base_url


def _model(choice: ChatChoice, settings: Settings, clock: Clock, cooldowns: Cooldowns) -> ChatModel:
    from truespan.providers.chat import ChatDialect

    dialect = ChatDialect(
        max_tokens=settings.chat_max_tokens,
        temperature=settings.chat_temperature,
        seconds=settings.chat_timeout_seconds,
        context=settings.chat_ollama_context,
    )
    if choice.provider == "ollama":
        from truespan.providers.ollama import OllamaChat

        return OllamaChat(choice.address, choice.model, clock=clock, dialect=dialect)
    from truespan.providers.openai import OpenAiChat

    keys = key_ring("openai", settings, clock, cooldowns, keyless=choice.keyless)
    return OpenAiChat(choice.address, choice.model, keys=keys, clock=clock, dialect=dialect)
