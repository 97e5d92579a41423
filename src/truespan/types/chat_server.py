"""Servers of chat models: found ones, the connection to a model, and the outcome of a test."""

from __future__ import annotations

from msgspec import Struct

from truespan.types.token import Secret


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
