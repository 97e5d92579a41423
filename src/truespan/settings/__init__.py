"""Settings: the only reader of configuration files and of the environment.

A library folder may contain `truespan.toml`; environment variables win over it. Everything is
checked when a library is opened, so that a wrong value fails at start-up and not at first use.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truespan.errors import InvalidConfiguration
from truespan.settings.catalogue import SHARED_NAMES, Settings
from truespan.settings.check import convert_setting, refuse_passwords
from truespan.settings.tables import read_chunkings, read_embeddings, read_keys

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
_OTHER_VARIABLES = {"TRUESPAN_LIBRARY", "TRUESPAN_WORLD", "TRUESPAN_DEBUG"}
"""Variables that are no settings: the command line reads them."""


def read_settings(folder: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a library.

    Raises:
        InvalidConfiguration: a name is unknown or a value is invalid.
    """
    variables = os.environ if environment is None else environment
    values = _read_file(folder / FILE_NAME)
    refuse_passwords(values)
    tables = {
        "chunkings": read_chunkings(values.pop("chunking", {})),
        "embeddings": read_embeddings(values.pop("embedding", {})),
        "keys": read_keys(values.pop("keys", []), folder, variables),
    }
    given = {name: (value, FILE_NAME) for name, value in values.items()}
    # Other programs may read the shared names too, so the names with our prefix come last and win.
    given |= {
        name: (variables[variable], f"the variable {variable}")
        for variable, name in SHARED_NAMES.items()
        if variable in variables
    }
    given |= {
        variable.removeprefix(PREFIX).lower(): (value, f"the variable {variable}")
        for variable, value in variables.items()
        if variable.startswith(PREFIX) and variable not in _OTHER_VARIABLES
    }
    converted = {name: convert_setting(name, *entry) for name, entry in given.items()}
    return Settings(**converted, **tables)


def read_own_settings(folder: Path) -> Settings:
    """Return the settings that the library's own file gives, for a command with two libraries.

    The environment configures the other library. Only keys of providers still come from it.
    """
    shared = {*SHARED_NAMES, *_OTHER_VARIABLES}
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) and name not in shared
    }
    return read_settings(folder, others)


def names_server(file: Path) -> bool:
    """Return whether a settings file puts store or index on a server, even if it is invalid."""
    try:
        with file.open("rb") as content:
            values = tomllib.load(content)
    except (OSError, ValueError):
        return False
    return any(values.get(name) for name in ("store_url", "store_url_file", "index_url"))


def default_library(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the library that is used when none is named."""
    variables = os.environ if environment is None else environment
    if chosen := variables.get("TRUESPAN_LIBRARY"):
        return Path(chosen)
    data = variables.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "truespan"


def model_cache(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder for downloaded models."""
    variables = os.environ if environment is None else environment
    cache = variables.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "truespan" / "models"


def debugging(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether unexpected errors are shown with their traceback."""
    variables = os.environ if environment is None else environment
    return variables.get("TRUESPAN_DEBUG", "") not in ("", "0")


def share_metrics(folder: Path) -> None:
    """Let this process and those it starts write their metrics to one folder, to be summed up.

    Must be called before anything imports prometheus_client, which reads the variable once.
    """
    os.environ[SHARED_METRICS] = str(folder)


def shared_metrics(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the folder to which several processes write their metrics; None if there is none."""
    variables = os.environ if environment is None else environment
    return variables.get(SHARED_METRICS) or None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(f"{path.name} cannot be read: {error}.") from None
