"""Find servers of chat models, try a model, and keep it in the settings of a library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import InvalidArgument, ProviderBadReply, ServiceError
from truespan.extensions.server.chat_file import remove_connection, write_connection
from truespan.protocols import ChatModel, ChatModels, Clock, Cooldowns
from truespan.providers.http import JsonClient
from truespan.providers.outbound import Bounds
from truespan.settings import read_settings
from truespan.settings.catalogue import Settings
from truespan.types.answer import Message, Role
from truespan.types.token import ProviderKey, Secret
from truespan.wiring.providers import chat_models

USUAL_SERVERS = (
    ("Ollama", "ollama", "http://127.0.0.1:11434"),
    ("LM Studio", "openai", "http://127.0.0.1:1234/v1"),
    ("llama.cpp", "openai", "http://127.0.0.1:8080/v1"),
)
"""Name, protocol and address of servers that run on the user's machine."""
_OTHER_NAMES = {"ollama": "Ollama", "openai": "OpenAI-compatible"}
_BOUNDS = Bounds(connect_seconds=2.0, read_seconds=5.0, total_seconds=5.0, body_bytes=4 << 20)
_TEST = "Reply with the word: ready"
_MAX_REPLY = 200
"""Maximum number of characters of a test reply that are read."""


class _Named(Struct):
    name: str


class _OllamaModels(Struct):
    models: list[_Named]


class _WithId(Struct):
    id: str


class _OpenAiModels(Struct):
    data: list[_WithId]


class ChatServer(Struct, frozen=True, kw_only=True):
    """A server that answered with its models."""

    name: str
    """Name of the program, such as `Ollama`; `OpenAI-compatible` for others."""
    provider: str
    """Protocol: `ollama` or `openai`."""
    base_url: str
    models: list[str]


class ChatConnection(Struct, frozen=True, kw_only=True):
    """A chat model of a server."""

    provider: str
    base_url: str
    model: str
    key: Secret | None = None
    """Key of the server; None if it needs none."""


class ChatTest(Struct, frozen=True, kw_only=True):
    """A reply of a chat model to a test message."""

    model: str
    """Provider and model, as in `ollama/llama3`."""
    reply: str
    """The beginning of the reply."""
    seconds: float


class LocalChatServers(Struct, frozen=True):
    """Servers of chat models for one library: find them, try a model, keep it in the settings."""

    folder: Path
    clock: Clock
    cooldowns: Cooldowns
    models: ChatModels
    """The chat models of the library, which a connected model replaces."""

    def find(self) -> list[ChatServer]:
        """Return the servers on this machine that answer at their usual addresses."""
        return [*self._find()]

    def _find(self) -> Iterator[ChatServer]:
        for name, provider, base_url in USUAL_SERVERS:
            with suppress(ServiceError):
                models = self._list_models(provider, base_url, None)
                yield ChatServer(name=name, provider=provider, base_url=base_url, models=models)

    def describe(
        self, base_url: str, *, provider: str | None = None, key: str | None = None
    ) -> ChatServer:
        """Return a server with its models.

        Args:
            base_url: URL of the server, such as `http://127.0.0.1:1234/v1`.
            provider: `ollama` or `openai`; None to try both.
            key: The key of the server; None if it needs none.

        Raises:
            ServiceError: The server does not answer, or not with a list of models.
            InvalidArgument: There is no such provider.
            InvalidConfiguration: The URL cannot be used.
        """
        if provider not in (None, *_OTHER_NAMES):
            raise InvalidArgument(
                f"There is no provider {provider!r}.", advice="Use 'ollama' or 'openai'."
            )
        base_url = base_url.rstrip("/")
        failures: list[ServiceError] = []
        for protocol in [provider] if provider else ["openai", "ollama"]:
            secret = Secret(key) if key else None
            try:
                models = self._list_models(protocol, base_url, secret)
            except ServiceError as error:
                failures.append(error)
                continue
            name = _OTHER_NAMES[protocol]
            return ChatServer(name=name, provider=protocol, base_url=base_url, models=models)
        raise failures[0]

    def _list_models(self, provider: str, base_url: str, key: Secret | None) -> list[str]:
        client = JsonClient(base_url, label="The chat server", clock=self.clock, bounds=_BOUNDS)
        headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
        with closing(client):
            if provider == "ollama":
                found = client.get("/api/tags", headers=headers).read(_OllamaModels)
                return sorted(model.name for model in found.models)
            listed = client.get("/models", headers=headers).read(_OpenAiModels)
            return sorted(model.id for model in listed.data)

    def test(self, connection: ChatConnection) -> ChatTest:
        """Ask the model for a short reply and return it."""
        settings = read_settings(self.folder).with_values(_values(connection))
        key = connection.key
        keys = () if key is None else (ProviderKey("openai", "connected-chat", key),)
        model = self._primary(replace(settings, keys=keys))
        began = self.clock.monotonic()
        reply = _begin_reply(model) if model else ""
        if not reply:
            raise ProviderBadReply("The model sent an empty reply.")
        return ChatTest(
            model=f"{connection.provider}/{connection.model}",
            reply=reply,
            seconds=round(self.clock.monotonic() - began, 3),
        )

    def connect(self, connection: ChatConnection) -> ChatTest:
        """Test a model, write it to the settings of the library, and answer with it from now on.

        The key is written to a file that only its owner can read. Other processes that have the
        library open use the model from their next start on.

        Raises:
            ServiceError: The model did not reply; nothing was changed.
            InvalidConfiguration: The settings cannot be changed.
        """
        tested = self.test(connection)
        key = connection.key if connection.provider == "openai" else None
        settings = write_connection(self.folder, _values(connection), key)
        self.models.connect(self._primary(settings))
        return tested

    def disconnect(self) -> None:
        """Remove the chat model and its key from the settings; answers then consist of passages."""
        self.models.connect(self._primary(remove_connection(self.folder)))

    def _primary(self, settings: Settings) -> ChatModel | None:
        return chat_models(settings, self.clock, self.cooldowns).primary


def _begin_reply(model: ChatModel) -> str:
    """Return the beginning of a reply to the test message; the rest is not requested."""
    reply = ""
    pieces = model.stream([Message(Role.USER, _TEST)])
    try:
        for piece in pieces:
            reply += piece
            if len(reply) >= _MAX_REPLY:
                break
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
    return reply.strip()[:_MAX_REPLY]


def _values(connection: ChatConnection) -> dict[str, str | bool]:
    provider = connection.provider
    values: dict[str, str | bool] = {"chat_provider": provider, "chat_model": connection.model}
    values[f"chat_{provider}_base_url"] = connection.base_url.rstrip("/")
    if provider == "openai":
        values["chat_openai_keyless"] = connection.key is None
    return values
