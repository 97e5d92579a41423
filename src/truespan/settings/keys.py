"""Keys of providers and of an index server, from the environment or files; never from settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truespan.errors import InvalidConfiguration
from truespan.types.token import ProviderKey, Secret

USUAL_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "qdrant": ("QDRANT_API_KEY",),
}
_FIELDS = frozenset({"provider", "name", "env", "file", "enabled", "models"})
_LONGEST = 4096


def read_keys(tables: Any, folder: Path, environment: Mapping[str, str]) -> tuple[ProviderKey, ...]:
    """Return every key that the settings name, and the usual ones of providers they do not.

    Raises:
        InvalidConfiguration: an entry is wrong; the message never holds a key.
    """
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting keys must be tables, as [[keys]].")
    named = [_key(number, table, folder, environment) for number, table in enumerate(tables, 1)]
    names = [(key.provider, key.name) for key in named]
    if len(set(names)) < len(names):
        raise InvalidConfiguration("Two entries of [[keys]] have the same provider and name.")
    spoken_for = {key.provider for key in named}
    usual = [
        ProviderKey(provider, variable, Secret(environment[variable].strip()))
        for provider, variables in USUAL_VARIABLES.items()
        if provider not in spoken_for
        for variable in variables
        if environment.get(variable, "").strip()
    ]
    return (*named, *usual)


def _key(number: int, table: Any, folder: Path, environment: Mapping[str, str]) -> ProviderKey:
    where = f"Entry {number} of [[keys]]"
    if not isinstance(table, dict) or set(table) - _FIELDS:
        raise InvalidConfiguration(
            f"{where} has an unknown member.", advice=f"Known are: {', '.join(sorted(_FIELDS))}."
        )
    provider, name = table.get("provider"), table.get("name", f"key-{number}")
    if provider not in USUAL_VARIABLES:
        known = ", ".join(USUAL_VARIABLES)
        raise InvalidConfiguration(f"{where}: provider must be one of: {known}.")
    models, enabled = table.get("models"), table.get("enabled", True)
    if not isinstance(name, str) or not name.strip() or not isinstance(enabled, bool):
        raise InvalidConfiguration(f"{where}: name must be text, enabled true or false.")
    if models is not None and not _are_texts(models):
        raise InvalidConfiguration(f"{where}: models must be a list of names.")
    return ProviderKey(
        provider,
        name,
        _secret(where, table, folder, environment) if enabled else Secret(""),
        enabled,
        None if models is None else tuple(models),
    )


def _secret(
    where: str, table: Mapping[str, Any], folder: Path, environment: Mapping[str, str]
) -> Secret:
    given = [source for source in ("env", "file") if isinstance(table.get(source), str)]
    if len(given) != 1:
        raise InvalidConfiguration(f"{where} needs either env or file, to say where the key is.")
    if given == ["env"]:
        value = environment.get(table["env"], "")
    else:
        value = _read(where, folder / table["file"])
    if not value.strip():
        raise InvalidConfiguration(f"{where}: there is no key where it says.")
    return Secret(value.strip())


def _read(where: str, path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_LONGEST)
    except (OSError, UnicodeDecodeError, ValueError):
        raise InvalidConfiguration(f"{where}: the key file cannot be read.") from None


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
