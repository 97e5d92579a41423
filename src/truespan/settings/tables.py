"""Tables of a settings file: `[chunking.NAME]`, `[embedding.NAME]` and `[[keys]]`.

A world may have generations of several models at once: the active one, and one that is being built.
Each model needs its table for as long as a generation uses it. Keys come from the environment or
from files, never from the settings file itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truespan.errors import InvalidConfiguration
from truespan.settings.check import convert_setting
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, OverlapMode, Strategy
from truespan.types.token import ProviderKey, Secret

CHUNKING_FIELDS = ("strategy", "size", "overlap", "overlap_mode", "pack", "dedupe")
EMBEDDING_FIELDS = {
    "local": {"model_folder": "model_folder"},
    "ollama": {name: f"ollama_{name}" for name in ("base_url", "model", "dimensions")},
    "openai": {
        name: f"openai_{name}"
        for name in ("base_url", "model", "dimensions", "input_limit", "keyless")
    },
    "google": {name: f"google_{name}" for name in ("base_url", "model", "dimensions")},
    "fastembed": {"model": "fastembed_model"},
}
"""The fields of a table for each provider, and the setting that each of them replaces."""
KEY_FIELDS = ("provider", "name", "env", "file", "enabled", "models")
USUAL_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "qdrant": ("QDRANT_API_KEY",),
}
_LONGEST_KEY = 4096


def read_chunkings(tables: Any) -> dict[str, ChunkingProfile]:
    """Return the standard chunking profiles and those of a settings file."""
    if not isinstance(tables, dict):
        raise InvalidConfiguration("The setting chunking must be tables: [chunking.NAME].")
    return STANDARD_CHUNKING | {name: _chunking(name, table) for name, table in tables.items()}


def _chunking(name: str, table: Any) -> ChunkingProfile:
    where = f"[chunking.{name}]"
    if name in STANDARD_CHUNKING:
        raise InvalidConfiguration(f"{where}: this name is taken.", advice="Choose another name.")
    table = _require_fields(where, table, CHUNKING_FIELDS)
    try:
        strategy = Strategy(table.get("strategy", "window"))
        mode = OverlapMode(table.get("overlap_mode", "shared"))
    except ValueError:
        raise InvalidConfiguration(f"{where}: no such strategy or overlap mode.") from None
    standard = STANDARD_CHUNKING[strategy.value]
    dedupe = table.get("dedupe", False)
    if not isinstance(dedupe, bool):
        raise InvalidConfiguration(f"{where}: dedupe must be true or false.")
    try:
        return ChunkingProfile(
            name=name,
            strategy=strategy,
            size=table.get("size", standard.size),
            overlap=table.get("overlap", standard.overlap),
            overlap_mode=mode,
            pack=table.get("pack"),
            dedupe=dedupe,
        )
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{where}: {error.message}", advice=error.advice) from None


def read_embeddings(tables: Any) -> dict[str, dict[str, Any]]:
    """Return for each further embedding profile the settings that it changes."""
    if not isinstance(tables, dict):
        raise InvalidConfiguration("The setting embedding must be tables: [embedding.NAME].")
    return {name: _embedding(name, table) for name, table in tables.items()}


def _embedding(name: str, table: Any) -> dict[str, Any]:
    where = f"[embedding.{name}]"
    provider = table.get("provider") if isinstance(table, dict) else None
    if not isinstance(provider, str) or provider not in EMBEDDING_FIELDS:
        known = ", ".join(EMBEDDING_FIELDS)
        raise InvalidConfiguration(f"{where}: provider must be one of: {known}.")
    settings = EMBEDDING_FIELDS[provider]
    table = _require_fields(where, table, ("provider", *settings))
    changes: dict[str, Any] = {"embedding_provider": provider}
    for member, value in table.items():
        if member != "provider":
            changes[settings[member]] = convert_setting(settings[member], value, where)
    return changes


def read_keys(tables: Any, folder: Path, environment: Mapping[str, str]) -> tuple[ProviderKey, ...]:
    """Return the keys that the settings name, and the usual variables of other providers.

    Raises:
        InvalidConfiguration: an entry is invalid; the message never contains a key.
    """
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting keys must be tables: [[keys]].")
    named = [_key(number, table, folder, environment) for number, table in enumerate(tables, 1)]
    names = [(key.provider, key.name) for key in named]
    if len(set(names)) < len(names):
        raise InvalidConfiguration("Two entries of [[keys]] have the same provider and name.")
    configured = {key.provider for key in named}
    usual = [
        ProviderKey(provider, variable, Secret(environment[variable].strip()))
        for provider, variables in USUAL_VARIABLES.items()
        if provider not in configured
        for variable in variables
        if environment.get(variable, "").strip()
    ]
    return (*named, *usual)


def _key(number: int, table: Any, folder: Path, environment: Mapping[str, str]) -> ProviderKey:
    where = f"Entry {number} of [[keys]]"
    table = _require_fields(where, table, KEY_FIELDS)
    provider, name = table.get("provider"), table.get("name", f"key-{number}")
    if provider not in USUAL_VARIABLES:
        known = ", ".join(USUAL_VARIABLES)
        raise InvalidConfiguration(f"{where}: provider must be one of: {known}.")
    models, enabled = table.get("models"), table.get("enabled", True)
    if not isinstance(name, str) or not name.strip() or not isinstance(enabled, bool):
        raise InvalidConfiguration(f"{where}: name must be text, enabled true or false.")
    names = models if isinstance(models, list) else []
    if models is not None and (names is not models or not all(isinstance(m, str) for m in names)):
        raise InvalidConfiguration(f"{where}: models must be a list of names.")
    secret = _secret(where, table, folder, environment) if enabled else Secret("")
    return ProviderKey(provider, name, secret, enabled, None if models is None else tuple(names))


def _secret(
    where: str, table: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> Secret:
    sources = [source for source in ("env", "file") if isinstance(table.get(source), str)]
    if len(sources) != 1:
        raise InvalidConfiguration(f"{where} needs either env or file for the key.")
    if sources == ["env"]:
        value = environment.get(table["env"], "")
    else:
        try:
            with open(folder / table["file"], encoding="utf-8") as file:
                value = file.read(_LONGEST_KEY)
        except (OSError, UnicodeDecodeError, ValueError):
            raise InvalidConfiguration(f"{where}: the key file cannot be read.") from None
    if not value.strip():
        raise InvalidConfiguration(f"{where}: the key is blank or missing.")
    return Secret(value.strip())


def _require_fields(where: str, table: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(table, dict) or set(table) - set(known):
        raise InvalidConfiguration(
            f"{where} has an unknown field.", advice=f"Fields are: {', '.join(known)}."
        )
    return table
