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

from truespan.errors import InvalidConfiguration, InvalidSettings, resource_error
from truespan.settings import tables
from truespan.settings.catalogue import SHARED_NAMES, Settings

FILE_NAME = "truespan.toml"
STORE_FILE = "store.db"
PREFIX = "TRUESPAN_"
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""A variable of prometheus_client."""
_OTHER_VARIABLES = {"TRUESPAN_LIBRARY", "TRUESPAN_WORLD", "TRUESPAN_DEBUG"}
"""Variables that are no settings: the command line reads them."""


def read_settings(folder: Path, variables: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of a library; unknown names and invalid values are refused."""
    try:
        values = tomllib.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        values: dict[str, Any] = {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        refusal = InvalidConfiguration(f"{FILE_NAME} cannot be read: {error}.")
        raise resource_error(error) or refusal from None
    tables.refuse_passwords(values)
    values = tables.read_rerank(values)
    chunkings = tables.read_chunkings(values.pop("chunking", {}))
    embedding, embeddings = tables.read_embeddings(values.pop("embedding", {}))
    if twice := sorted(embedding.keys() & values.keys()):
        raise InvalidConfiguration(
            f"{FILE_NAME} gives {twice[0]} twice: by itself and in [embedding].",
            advice="Remove one of them.",
        )
    values |= embedding
    keys = tables.read_keys(values.pop("keys", []), folder, variables)
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
    converted = {name: tables.convert_setting(name, *entry) for name, entry in given.items()}
    return Settings(
        **converted,
        chunkings=chunkings,
        embeddings=embeddings,
        keys=keys,
        written=frozenset(converted),
    )


def read_own_settings(folder: Path) -> Settings:
    """Return the settings that the library's own file gives, for a command with two libraries.

    The environment configures the other library. Only keys of providers still come from it.
    """
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) and name not in SHARED_NAMES
    }
    return read_settings(folder, others)


def names_server(file: Path) -> bool:
    """Return whether a settings file puts store or index on a server, even if it is invalid."""
    try:
        with file.open("rb") as content:
            values = tomllib.load(content)
    except (OSError, ValueError) as error:
        if known := resource_error(error):
            raise known from None
        return False
    return any(values.get(name) for name in ("store_url", "store_url_file", "index_url"))


def default_library(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for a new library when none is named."""
    if chosen := variables.get("TRUESPAN_LIBRARY"):
        return Path(chosen)
    data = variables.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "truespan"


def find_library(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the library that is meant when none is named.

    It is the one that TRUESPAN_LIBRARY names; else the current folder, if it is a library; else the
    default folder, if it is one; else the only library inside the current folder. If there is none,
    it is the default folder.

    Raises:
        InvalidSettings: the current folder contains several.
    """
    default, here = default_library(variables), Path()
    if variables.get("TRUESPAN_LIBRARY"):
        return default
    if is_library(here):
        return here
    stores = (f"{PREFIX}{name.upper()}" for name in ("store_url", "store_url_file"))
    if any(variables.get(name) for name in stores) or is_library(default):
        return default
    try:
        with os.scandir(here) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError as error:
        if known := resource_error(error):
            raise known from None
        return default
    found = [here / name for name in names if is_library(here / name)]
    if len(found) > 1:
        listed = ", ".join(map(str, found[:10]))
        raise InvalidSettings(
            f"There are {len(found)} libraries here: {listed}.", advice="Name one with --library."
        )
    return found[0] if found else default


def is_library(folder: Path) -> bool:
    """Return whether a folder is a library: by its store, or by settings that name a server.

    Another program's database may have the name of our store, so its header must say that it has a
    schema version, unless changes wait beside it.
    """
    store = folder / STORE_FILE
    try:
        with store.open("rb") as file:
            header = file.read(64)
    except OSError as error:
        if known := resource_error(error):
            raise known from None
        return names_server(folder / FILE_NAME)
    is_versioned = header.startswith(b"SQLite format 3\0") and any(header[60:64])
    return is_versioned or store.with_name(f"{STORE_FILE}-wal").exists()


def model_cache() -> Path:
    """Return the folder for downloaded models."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "truespan" / "models"


def debugging() -> bool:
    """Return whether unexpected errors are shown with their traceback."""
    return os.environ.get("TRUESPAN_DEBUG", "") not in ("", "0")


def share_metrics(folder: Path) -> None:
    """Let this process and those it starts write their metrics to one folder, to be summed up.

    Must be called before anything imports prometheus_client, which reads the variable once.
    """
    os.environ[SHARED_METRICS] = str(folder)


def shared_metrics() -> str | None:
    """Return the folder to which several processes write their metrics; None if there is none."""
    return os.environ.get(SHARED_METRICS) or None
