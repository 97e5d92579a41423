"""Embedding providers on the loopback: servers that speak the real protocols and can be broken."""

from tests.support.providers.clock import PassingClock
from tests.support.providers.google import Google
from tests.support.providers.loopback import (
    Answer,
    Asked,
    Fault,
    Loopback,
    Raw,
    Reaction,
    drops,
    numbers_of,
)
from tests.support.providers.ollama import DEFAULT_MODEL, Model, Ollama
from tests.support.providers.openai import OpenAi

__all__ = [
    "DEFAULT_MODEL", "Answer", "Asked", "Fault", "Google", "Loopback", "Model", "Ollama",
    "OpenAi", "PassingClock", "Raw", "Reaction", "drops", "numbers_of",
]  # fmt: skip
