"""Settings: the only reader of configuration files and of the environment.

A library folder may hold `truespan.toml`; environment variables win over it. Everything is checked
when a library is opened, so that a wrong value fails at start-up and not at first use.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from truespan.errors import InvalidConfiguration

FILE_NAME = "truespan.toml"
PREFIX = "TRUESPAN_"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """How a library works. Each field has a default that needs no network and no key."""

    disk_reserve_mib: int = 256
    """Writes are refused when less than this would stay free."""
    index_idle_seconds: int = 300
    """The index process ends after this long without a request."""
    model_folder: str = ""
    """A folder with model_quantized.onnx and tokenizer.json, instead of the installed model."""
    embedding_threads: int = 0
    """Threads of the local embedder; 0 means one for each core."""
    embedding_api_concurrency: int = 2
    embedding_max_tokens_per_batch: int = 100_000
    embedding_provider: str = "local"
    """Who embeds: the model on this machine, or one that Ollama serves."""
    ollama_base_url: str = "http://127.0.0.1:11434"
    ollama_model: str = "BAAI/bge-base-en-v1.5"
    ollama_dimensions: int = 0
    """To how many dimensions Ollama is asked to shorten vectors; 0 leaves them as they are."""

    @property
    def disk_reserve(self) -> int:
        """Return the reserve in bytes."""
        return self.disk_reserve_mib * MEBIBYTE


_LEAST = {
    "disk_reserve_mib": 0,
    "index_idle_seconds": 1,
    "embedding_threads": 0,
    "embedding_api_concurrency": 1,
    "embedding_max_tokens_per_batch": 1,
    "ollama_dimensions": 0,
}
_CHOICES = {"embedding_provider": ("local", "ollama")}
_ADDRESSES = {"ollama_base_url"}
_REQUIRED = {"ollama_model"}
_SEED_NAMES = {
    "EMBEDDING_API_CONCURRENCY": "embedding_api_concurrency",
    "EMBEDDING_MAX_TOKENS_PER_BATCH": "embedding_max_tokens_per_batch",
    "OLLAMA_BASE_URL": "ollama_base_url",
}
_ELSEWHERE = {"TRUESPAN_LIBRARY", "TRUESPAN_WORLD", "TRUESPAN_DEBUG"}
"""Variables that the command line reads through `default_library` and its options."""


def read_settings(folder: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a library.

    Raises:
        InvalidConfiguration: a name is unknown or a value is not of its kind.
    """
    values: dict[str, Any] = {**_from_file(folder / FILE_NAME)}
    values |= _from_environment(os.environ if environment is None else environment)
    known = {entry.name: entry for entry in fields(Settings)}
    for name, value in values.items():
        if name not in known:
            raise InvalidConfiguration(
                f"There is no setting {name!r}.", advice=f"Known are: {', '.join(sorted(known))}."
            )
        values[name] = _checked(name, value)
    return Settings(**values)


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
        setting: variables[name] for name, setting in _SEED_NAMES.items() if name in variables
    }
    # Other programs may read the shared names too, so our own spelling wins over them.
    return shared | {
        name.removeprefix(PREFIX).lower(): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name not in _ELSEWHERE
    }


def _checked(name: str, value: Any) -> Any:
    if name not in _LEAST:
        return _checked_text(name, value)
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or number < _LEAST[name]:
        raise InvalidConfiguration(
            f"The setting {name} must be a whole number of at least {_LEAST[name]}."
        )
    return number


def _checked_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidConfiguration(f"The setting {name} must be text.")
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        raise InvalidConfiguration(f"The setting {name} must be one of: {', '.join(choices)}.")
    if name in _ADDRESSES and not _is_web_address(value):
        # The value is not repeated: it may hold a password.
        raise InvalidConfiguration(f"The setting {name} must be an http:// or https:// address.")
    if name in _REQUIRED and not value.strip():
        raise InvalidConfiguration(f"The setting {name} must not be blank.")
    return value


def _is_web_address(value: str) -> bool:
    """Say whether a value has an allowed scheme and a host; its adapter checks the rest of it."""
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
