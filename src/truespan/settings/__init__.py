"""Settings: the only reader of configuration files and of the environment.

A library folder may contain `truespan.toml`; environment variables win over it, and both over
`chat.toml`, the chat model that a user connected. Everything is checked when a library is opened,
so that a wrong value fails at start-up and not at first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from truespan.errors import InvalidArgument, InvalidConfiguration, resource_error
from truespan.settings import tables
from truespan.settings.catalogue import (
    SECRETS,
    SHARED_NAMES,
    Settings,
    all_types,
    choices,
    descriptions,
)
from truespan.settings.tables import (
    convert_setting,
    mask_password,
    read_audiences,
    read_rules,
    refuse_passwords,
)

FILE_NAME = "truespan.toml"
CHAT_FILE = "chat.toml"
STORE_FILE = "store.db"
PREFIX = tables.OWN_PREFIX
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""A variable of prometheus_client."""
_KEY_VARIABLES = {f"{PREFIX}{name}" for names in tables.USUAL_VARIABLES.values() for name in names}
_OTHER_VARIABLES = {"TRUESPAN_LIBRARY", "TRUESPAN_WORLD", "TRUESPAN_DEBUG"} | _KEY_VARIABLES
"""Variables that are not settings: the command line reads them, or they contain keys."""
_THE_VARIABLE = "the variable "


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a setting and its source."""

    name: str
    value: Any
    default: Any
    source: str
    """`default`, `file` or `variable`."""
    place: str = ""
    """Line of the file, or name of the variable."""
    overridden: tuple[str, ...] = ()
    """Places of values that a later source overrides."""


def read_settings(folder: Path, variables: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of a library; unknown names and invalid values are refused."""
    return _read(folder, variables)[0]


def explain_settings(
    folder: Path, variables: Mapping[str, str] = os.environ
) -> tuple[Settings, list[SettingValue]]:
    """Return the settings of a library, and each with the source of its value, masked in URLs."""
    settings, given = _read(folder, variables)
    defaults, explained = Settings(), list[SettingValue]()
    for name in all_types():
        value, default = settings.value_of(name), defaults.value_of(name)
        if name in SECRETS:
            value = mask_password(value)
        places = [place for _, place in given.get(name, [])]
        if not places:
            explained.append(SettingValue(name, value, default, "default"))
            continue
        source = "variable" if places[-1].startswith(_THE_VARIABLE) else "file"
        *others, last = (place.removeprefix(_THE_VARIABLE) for place in places)
        explained.append(
            SettingValue(
                name=name,
                value=value,
                default=default,
                source=source,
                place=last,
                overridden=tuple(others),
            )
        )
    return settings, explained


def _read(
    folder: Path, variables: Mapping[str, str]
) -> tuple[Settings, dict[str, list[tuple[Any, str]]]]:
    """Return the settings, and every given value of each with its place; the last value counts."""
    try:
        text, chat_text = read_file(folder), read_file(folder, CHAT_FILE)
        values, chat = _parse(text), _parse(chat_text)
    except (OSError, ValueError) as error:
        refusal = InvalidConfiguration(f"{FILE_NAME} cannot be read: {error}.")
        raise resource_error(error) or refusal from None
    lines = tables.find_lines(text)
    chunkings = tables.read_chunkings(values.pop("chunking", {}), lines)
    models = tables.read_models(values.get("embedding", {}), lines)
    rules = read_rules(values.get("auth", {}))
    audiences = read_audiences(values.pop("audience", []))
    keys = values.pop("keys", [])
    if isinstance(keys, list):
        keys += chat.pop("keys", [])
    keys = tables.read_keys(keys, folder, variables)
    given = _read_file(chat, tables.find_lines(chat_text), CHAT_FILE)
    for name, entries in _read_file(values, lines).items():
        given.setdefault(name, []).extend(entries)
    for name, variable in _find_variables(variables):
        given.setdefault(name, []).append((variables[variable], f"{_THE_VARIABLE}{variable}"))
    converted = {name: convert_setting(name, *entries[-1]) for name, entries in given.items()}
    settings = replace(
        Settings().with_values(converted),
        chunkings=chunkings,
        audiences=audiences,
        auth_rules=rules,
        keys=keys,
        written=frozenset(converted),
    )
    embeddings = {name: settings.with_values(changes) for name, changes in models.items()}
    return replace(settings, embeddings=embeddings), given


def read_file(folder: Path, name: str = FILE_NAME) -> str:
    """Return the content of a file of settings in a library; empty if there is none."""
    try:
        return (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except NotADirectoryError:
        raise InvalidConfiguration(
            f"{folder} is a file; a library is a folder.", advice="Choose another path."
        ) from None


def _read_file(
    values: dict[str, Any], lines: Mapping[str, int], file: str = FILE_NAME
) -> dict[str, list[tuple[Any, str]]]:
    given: dict[str, list[tuple[Any, str]]] = {}
    for name, path, value in tables.read_sections(values, lines):
        if name in given:
            raise InvalidConfiguration(
                f"{file} sets {name} twice: directly and in a table.", advice="Remove one of them."
            )
        line = lines.get(path)
        given[name] = [(value, file if line is None else f"{file}, line {line}")]
    refuse_passwords({name: value for name, [(value, _)] in given.items()})
    return given


def _find_variables(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for alias, name in SHARED_NAMES.items():
        if alias in variables:
            yield name, alias
    # Other programs may read the shared names too, so the names with our prefix come last and win.
    for variable in variables:
        if variable.startswith(PREFIX) and variable not in _OTHER_VARIABLES:
            yield variable.removeprefix(PREFIX).lower(), variable


def _parse(text: str) -> dict[str, Any]:
    # Most libraries have no settings file, and need no parser for it.
    if not text:
        return {}
    import tomllib

    return tomllib.loads(text)


def settings_file() -> str:
    """Return a settings file with every setting as a comment: meaning, choices and default."""
    meanings = descriptions()
    lines = [
        "# Settings of this library. Remove the # before a line to change it.",
        "# 'truespan config' shows every setting, its value and where it comes from.",
        "",
    ]
    for name in all_types():
        default = Settings().value_of(name)
        lines.append(f"# {meanings[name]}")
        if allowed := [choice for choice in choices(name) if choice]:
            lines.append(f"# One of: {', '.join(allowed)}.")
        shown = str(default).lower() if isinstance(default, bool) else default
        if isinstance(default, str) or default is None:
            shown = f'"{default or ""}"'
        lines += [f"# {name} = {shown}", ""]
    return "\n".join(lines)


def names_server(file: Path) -> bool:
    """Return whether a settings file puts store or index on a server, even if it is invalid."""
    try:
        with file.open("rb") as content:
            values = _parse(content.read().decode())
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
        raise InvalidArgument(
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


def cache_folder() -> Path:
    """Return the user's folder for files that can be made again."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "truespan"


def debugging() -> bool:
    """Return whether unexpected errors are shown with their traceback."""
    return os.environ.get("TRUESPAN_DEBUG", "") not in ("", "0")


def shows_styles() -> bool:
    """Return whether a terminal shows colours and bold type: unless it is dumb, or NO_COLOR set."""
    return os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def share_metrics(folder: Path) -> None:
    """Let this process and those it starts write their metrics to one folder, to be summed up.

    Must be called before anything imports prometheus_client, which reads the variable once.
    """
    os.environ[SHARED_METRICS] = str(folder)


def shared_metrics() -> str | None:
    """Return the folder to which several processes write their metrics; None if there is none."""
    return os.environ.get(SHARED_METRICS) or None
