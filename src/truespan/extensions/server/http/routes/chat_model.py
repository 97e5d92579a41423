"""The chat model that writes answers: find servers of models, try a model and connect it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from truespan import errors
from truespan.extensions.server.arguments import Arguments
from truespan.extensions.server.chat_servers import ChatConnection, ChatServer
from truespan.extensions.server.http.operation import CallContext, Routes
from truespan.types.scope import OWNER
from truespan.types.source import MAX_URL_LENGTH
from truespan.types.token import Secret

# Shared by threads: filled while modules are imported, then only read.
chat_model = Routes("Chat model", "The chat model that writes answers. Only the owner connects it.")

Provider = Literal["ollama", "openai"]
BaseUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL_LENGTH,
        description="URL of the server, such as `http://127.0.0.1:1234/v1`.",
    ),
]
Key = Annotated[
    str, Meta(min_length=1, max_length=4000, description="Key of the server. No reply contains it.")
]
_ERRORS = (
    "not_allowed",
    "invalid_configuration",
    errors.ModelUnavailable,
    errors.ProviderBadReply,
    errors.ProviderRefused,
    errors.ProviderUnavailable,
)


class ServerQuery(Arguments, frozen=True, kw_only=True):
    """A server to ask for its models; without `base_url`, the usual addresses on this machine."""

    base_url: BaseUrl | None = None
    provider: Provider | None = None
    key: Key | None = None


class Connection(Arguments, frozen=True, kw_only=True):
    """A chat model to test; with `keep` it is written to the settings and used from then on."""

    provider: Provider
    base_url: BaseUrl
    model: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"\S")]
    key: Key | None = None
    keep: bool = True


class ServerList(Struct, frozen=True, kw_only=True):
    """Servers that answered, with their models."""

    servers: list[ChatServer]


class CurrentModel(Struct, frozen=True, kw_only=True):
    """The chat model that writes answers; null if answers consist of passages."""

    model: str | None
    may_connect: bool
    """Whether the caller may connect another model."""


class TestedModel(Struct, frozen=True, kw_only=True):
    """The reply of a tested model."""

    model: str
    reply: str
    seconds: float
    kept: bool


@chat_model.get("/v1/chat-model")
def show_chat_model(context: CallContext) -> CurrentModel:
    """Get the chat model.

    Returns the name of the model that writes answers.
    """
    may_connect = context.principal.authority == OWNER
    return CurrentModel(model=context.library.models.chat, may_connect=may_connect)


@chat_model.post("/v1/chat-servers", errors=_ERRORS, example={})
def find_chat_servers(context: CallContext, body: ServerQuery) -> ServerList:
    """Find servers of chat models.

    Without an address it asks Ollama, LM Studio and llama.cpp at their usual addresses on the
    machine of the server, and returns those that answer.
    """
    servers = context.library.models.servers
    if body.base_url is None:
        return ServerList(servers=servers.find())
    return ServerList(
        servers=[servers.describe(body.base_url, provider=body.provider, key=body.key)]
    )


@chat_model.put(
    "/v1/chat-model",
    errors=_ERRORS,
    example={"provider": "ollama", "base_url": "http://127.0.0.1:11434", "model": "llama3.2"},
)
def connect_chat_model(context: CallContext, body: Connection) -> TestedModel:
    """Test and connect a chat model.

    The model must reply to a short message. Its key is written to a file that only its owner can
    read, and is never shown again.
    """
    servers = context.library.models.servers
    key = None if body.key is None else Secret(body.key)
    connection = ChatConnection(
        provider=body.provider, base_url=body.base_url, model=body.model.strip(), key=key
    )
    tested = servers.connect(connection) if body.keep else servers.test(connection)
    return TestedModel(
        model=tested.model, reply=tested.reply, seconds=tested.seconds, kept=body.keep
    )


@chat_model.delete("/v1/chat-model", errors=("not_allowed", "invalid_configuration"))
def disconnect_chat_model(context: CallContext) -> CurrentModel:
    """Disconnect the chat model.

    Removes the connected model and its key from the settings; answers then consist of passages.
    """
    context.library.models.servers.disconnect()
    return show_chat_model(context)
