"""From settings to chat models. The clients of providers are imported when one is first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from truespan.errors import InvalidConfiguration
from truespan.model.chat import Message
from truespan.ports import ChatModel, ChatModels, Clock, Cooldowns
from truespan.settings import Settings


@dataclass(frozen=True, slots=True)
class ChatChoice:
    """One chat model as the settings name it."""

    provider: str
    model: str
    address: str
    keyless: bool

    @property
    def name(self) -> str:
        """Return provider and model."""
        return f"{self.provider}/{self.model}"


class DeferredChat:
    """A chat model that is made when it is first asked."""

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
        """Give the reply piece by piece; see the port."""
        with self._making:
            if self._made is None:
                self._made = self._make()
        return self._made.stream(messages)


def chat_choices(settings: Settings) -> tuple[ChatChoice | None, ChatChoice | None]:
    """Return the chat models that the settings name: the one that answers, and its fallback.

    Raises:
        InvalidConfiguration: a provider stands without a model, or a model without a provider.
    """
    return _chosen("chat", settings), _chosen("chat_fallback", settings)


def chat_models(settings: Settings, clock: Clock, cooldowns: Cooldowns) -> ChatModels:
    """Return the configured chat models; none is asked anything, nor connected to.

    Raises as `chat_choices` does.
    """

    def deferred(choice: ChatChoice | None) -> ChatModel | None:
        if choice is None:
            return None
        return DeferredChat(choice.name, lambda: _model(choice, settings, clock, cooldowns))

    primary, fallback = chat_choices(settings)
    return ChatModels(deferred(primary), deferred(fallback))


def _chosen(which: str, settings: Settings) -> ChatChoice | None:
    provider: str = getattr(settings, f"{which}_provider")
    model: str = getattr(settings, f"{which}_model").strip()
    if bool(provider) is not bool(model):
        raise InvalidConfiguration(
            f"The settings {which}_provider and {which}_model go together.",
            advice="Set both, or neither.",
        )
    if not provider:
        return None
    fallback = which == "chat_fallback"
    own = settings.chat_fallback_base_url if fallback else ""
    address = own or _usual_address(provider, settings)
    keyless = settings.chat_fallback_keyless if fallback else settings.chat_openai_keyless
    return ChatChoice(provider, model, address, keyless)


def _usual_address(provider: str, settings: Settings) -> str:
    if provider == "openai":
        return settings.chat_openai_base_url
    return settings.chat_ollama_base_url or settings.ollama_base_url


def _model(choice: ChatChoice, settings: Settings, clock: Clock, cooldowns: Cooldowns) -> ChatModel:
    from truespan.adapters.providers.chat_stream import Manner

    manner = Manner(
        max_tokens=settings.chat_max_tokens,
        temperature=settings.chat_temperature,
        seconds=settings.chat_timeout_seconds,
    )
    if choice.provider == "ollama":
        from truespan.adapters.providers.ollama_chat import OllamaChat

        context = settings.chat_ollama_context
        return OllamaChat(choice.address, choice.model, clock=clock, manner=manner, context=context)
    from truespan.adapters.providers.openai_chat import OpenAiChat
    from truespan.compose.provider import ring_of

    keys = ring_of("openai", settings, clock, cooldowns, keyless=choice.keyless)
    return OpenAiChat(choice.address, choice.model, keys=keys, clock=clock, manner=manner)
