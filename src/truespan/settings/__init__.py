"""Settings: the only reader of configuration files and of the environment.

A library folder may hold `truespan.toml`; environment variables win over it. Everything is checked
when a library is opened, so that a wrong value fails at start-up and not at first use.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from truespan.errors import InvalidConfiguration
from truespan.settings.catalogue import SHARED_NAMES, Settings
from truespan.settings.check import checked, read_chunkings, refuse_passwords
from truespan.settings.embeddings import read_embeddings
from truespan.settings.keys import read_keys

__all__ = [
    "Settings",
    "debugging",
    "default_library",
    "model_cache",
    "names_server",
    "read_own_settings",
    "read_settings",
    "share_metrics",
    "shared_metrics",
]

FILE_NAME = "truespan.toml"
PREFIX = "TRUESPAN_"
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""A variable of prometheus_client."""
_TABLES = frozenset({"keys", "chunkings", "embeddings"})


_ELSEWHERE = {"TRUESPAN_LIBRARY", "TRUESPAN_WORLD", "TRUESPAN_DEBUG"}
"""Variables that the command line reads through `default_library` and its options."""


def read_settings(folder: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a library.

    Raises:
        InvalidConfiguration: a name is unknown or a value is not of its kind.
    """
    variables = os.environ if environment is None else environment
    values: dict[str, Any] = {**_from_file(folder / FILE_NAME)}
    refuse_passwords(values)
    tables = {
        "chunkings": read_chunkings(values.pop("chunking", {})),
        "embeddings": read_embeddings(values.pop("embedding", {})),
        "keys": read_keys(values.pop("keys", []), folder, variables),
    }
    values |= _from_environment(variables)
    known = {entry.name for entry in fields(Settings)} - _TABLES
    for name, value in values.items():
        if name not in known:
            raise InvalidConfiguration(
                f"There is no setting {name!r}.", advice=f"Known are: {', '.join(sorted(known))}."
            )
        values[name] = checked(name, value)
    return Settings(**values, **tables)


def read_own_settings(folder: Path) -> Settings:
    """Return the settings of a library whose folder alone says them: one among two of a command.

    The environment says how the other one works. Keys of providers may still come from it.
    """
    shared = {*SHARED_NAMES, *_ELSEWHERE}
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) and name not in shared
    }
    return read_settings(folder, others)


def names_server(file: Path) -> bool:
    """Say whether a file of settings puts store or index on a server, whatever else is in it."""
    try:
        with file.open("rb") as content:
            values = tomllib.load(content)
    except (OSError, ValueError):
        return False
    return any(values.get(name) for name in ("store_url", "store_url_file", "index_url"))


def default_library(environment: Mapping[str, str] | None = None) -> Path:
    """Return where the library lies when nobody says so."""
    variables = os.environ if environment is None else environment
    if chosen := variables.get("TRUESPAN_LIBRARY"):
        return Path(chosen)
    data = variables.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "truespan"


def model_cache(environment: Mapping[str, str] | None = None) -> Path:
    """Return where downloaded models are kept."""
    variables = os.environ if environment is None else environment
    cache = variables.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "truespan" / "models"


def debugging(environment: Mapping[str, str] | None = None) -> bool:
    """Say whether a person asked to see where an unexpected error came from."""
    variables = os.environ if environment is None else environment
    return variables.get("TRUESPAN_DEBUG", "") not in ("", "0")


def share_metrics(folder: Path) -> None:
    """Have this process and those it starts keep their metrics in one folder, so that they add up.

    It has to be said before anything imports prometheus_client, which looks once.
    """
    os.environ[SHARED_METRICS] = str(folder)


def shared_metrics(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the folder in which processes keep their metrics together; None if they do not."""
    variables = os.environ if environment is None else environment
    return variables.get(SHARED_METRICS) or None


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(f"{path.name} cannot be read: {error}.") from None


def _from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return settings given as variables; a misspelt one is an error, not a silence."""
    shared = {
        setting: variables[name] for name, setting in SHARED_NAMES.items() if name in variables
    }
    # Other programs may read the shared names too, so our own spelling wins over them.
    return shared | {
        name.removeprefix(PREFIX).lower(): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name not in _ELSEWHERE
    }
