"""Embedders of providers, built from one list of arguments."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import fields

from truespan.providers.embedder import EmbedderOptions

Made = TypeVar("Made")
_OPTIONS = {field.name for field in fields(EmbedderOptions)}


def make_embedder(kind: Callable[..., Made], base_url: str, model: str, **given: Any) -> Made:
    """Return an embedder; the arguments are members of `EmbedderOptions` or its own."""
    options = {name: given.pop(name) for name in _OPTIONS & given.keys()}
    return kind(EmbedderOptions(base_url, model, **options), **given)
