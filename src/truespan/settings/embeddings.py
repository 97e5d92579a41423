"""Embedding profiles beside the default one, as tables `[embedding.NAME]` of a settings file.

A world may have generations of several models at once: the one readers are sent to, and the one
that is being built. Each model has to be configured for as long as one of its generations is used.
"""

from __future__ import annotations

from typing import Any

from truespan.errors import InvalidConfiguration
from truespan.settings.catalogue import CHOICES
from truespan.settings.check import checked

_MEMBERS = {
    "local": {"model_folder": "model_folder"},
    "ollama": {"base_url": "", "model": "", "dimensions": ""},
    "openai": {"base_url": "", "model": "", "dimensions": "", "input_limit": "", "keyless": ""},
    "google": {"base_url": "", "model": "", "dimensions": ""},
    "fastembed": {"model": ""},
}
"""What a table may say of each provider; blank stands for the setting `PROVIDER_MEMBER`."""


def read_embeddings(tables: Any) -> dict[str, dict[str, Any]]:
    """Return for each named profile the settings that differ from those of the library."""
    if not isinstance(tables, dict):
        raise InvalidConfiguration("The setting embedding must be tables, as [embedding.NAME].")
    return {name: _embedding(name, table) for name, table in tables.items()}


def _embedding(name: str, table: Any) -> dict[str, Any]:
    where = f"[embedding.{name}]"
    if not isinstance(table, dict) or table.get("provider") not in _MEMBERS:
        known = ", ".join(CHOICES["embedding_provider"])
        raise InvalidConfiguration(f"{where}: provider must be one of: {known}.")
    provider = table["provider"]
    members = _MEMBERS[provider]
    unknown = set(table) - set(members) - {"provider"}
    if unknown:
        raise InvalidConfiguration(
            f"{where} has an unknown member.",
            advice=f"Known for {provider} are: {', '.join(sorted(members))}.",
        )
    chosen: dict[str, Any] = {"embedding_provider": provider}
    for member, value in table.items():
        if member != "provider":
            setting = members[member] or f"{provider}_{member}"
            chosen[setting] = checked(setting, value)
    return chosen
