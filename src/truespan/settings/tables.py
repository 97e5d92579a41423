"""Values of settings, and tables: `[chunking.NAME]`, `[embedding]`, `[rerank]` and `[[keys]]`.

A world may have generations of several models at once: the active one, and one that is being built.
Each model needs its table for as long as a generation uses it. Keys come from the environment or
from files, never from the settings file itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from truespan.core.strict_json import parse_number, parse_whole_number
from truespan.errors import InvalidConfiguration, resource_error
from truespan.settings.catalogue import LARGEST, SECRETS, TYPES, base_type, choices, constraints
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, OverlapMode, Strategy
from truespan.types.token import ProviderKey, Secret

_ON, _OFF = ("1", "true", "on", "yes"), ("0", "false", "off", "no", "")
CHUNKING_FIELDS = ("strategy", "size", "overlap", "overlap_mode", "pack", "dedupe")
EMBEDDING_FIELDS = {
    "local": {"model_folder": "model_folder"},
    "onnx": {
        name: f"onnx_{name}"
        for name in (
            "folder",
            "file",
            "model",
            "pooling",
            "output",
            "query_prefix",
            "document_prefix",
            "dimensions",
            "max_length",
            "batch",
            "device",
        )
    },
    "ollama": {name: f"ollama_{name}" for name in ("base_url", "model", "dimensions")},
    "openai": {
        name: f"openai_{name}"
        for name in ("base_url", "model", "dimensions", "input_limit", "keyless")
    },
    "google": {name: f"google_{name}" for name in ("base_url", "model", "dimensions")},
    "fastembed": {"model": "fastembed_model"},
}
"""The fields of a table for each provider, and the setting that each of them replaces."""
RERANK_PREFIX = "rerank_"
RERANK_FIELDS = tuple(
    name.removeprefix(RERANK_PREFIX) for name in TYPES if name.startswith(RERANK_PREFIX)
)
"""The members of the table `[rerank]`; each is the setting of that name with the prefix."""
KEY_FIELDS = ("provider", "name", "env", "file", "enabled", "models")
USUAL_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "qdrant": ("QDRANT_API_KEY",),
    "rerank": ("RERANK_API_KEY",),
}
OWN_PREFIX = "TRUESPAN_"
_MAX_KEY_LENGTH = 4096
_URLS = "urls or blank"
_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_MEMBER = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")


def convert_setting(name: str, value: Any, source: str) -> Any:
    """Return the value of a setting in its own type; `source` says where the value was given."""
    if name not in TYPES:
        from difflib import get_close_matches

        close = get_close_matches(name, TYPES, n=1)
        advice = "'truespan config' lists every setting."
        if close:
            advice = f"Did you mean {close[0]!r}?"
        raise InvalidConfiguration(f"There is no setting {name!r} (in {source}).", advice=advice)
    kind, bounds = base_type(name), constraints(name)
    if value == "" and kind is float and type(None) in getattr(TYPES[name], "__args__", ()):
        return None
    try:
        plain = msgspec.convert(_parse(value, kind, bounds.title), TYPES[name], strict=True)
    except (msgspec.ValidationError, ValueError):
        raise _invalid(name, value, source) from None
    if isinstance(plain, float) and not math.isfinite(plain):
        raise _invalid(name, value, source)
    if bounds.title == "url" or (bounds.title in ("url or blank", _URLS) and plain):
        urls = str(plain).split(",") if bounds.title == _URLS else [str(plain)]
        if not all(_is_plain_url(url.strip()) for url in urls):
            raise _invalid(name, value, source)
    return plain


def _is_plain_url(text: str) -> bool:
    """Return whether a text is a URL with scheme and host, and without a part for a password.

    The client of the service checks the rest.
    """
    try:
        url = urlsplit(text)
        extra = url.query or url.fragment or "@" in url.netloc
        return url.scheme in ("http", "https") and bool(url.hostname) and not extra
    except ValueError:
        return False


def _parse(value: Any, kind: type, title: str | None) -> Any:
    """Return a value from the environment, which is always text, in the setting's plain type."""
    if isinstance(value, list) and title in ("comma-separated list", _URLS):
        return ",".join(value) if all(isinstance(part, str) for part in value) else value
    if kind is bool and isinstance(value, str | int) and not isinstance(value, bool):
        word = str(value).strip().lower()
        return word in _ON if word in (*_ON, *_OFF) else value
    if isinstance(value, str) and kind in (int, float):
        # As in a file: Python alone would also read `1_000` and `+5`.
        number = parse_whole_number(value) if kind is int else parse_number(value)
        # Other text stays text. As None it would leave an optional setting unset.
        return value if number is None else number
    return value


def _invalid(name: str, value: Any, source: str) -> InvalidConfiguration:
    kind, bounds = base_type(name), constraints(name)
    if allowed := choices(name):
        expected = f"one of: {', '.join(choice or '(blank)' for choice in allowed)}"
    elif kind is bool:
        expected = "true or false (1 or 0)"
    elif kind is str:
        expected = {"url": "an http:// or https:// URL without user, query and fragment"}.get(
            (bounds.title or "")[:3], "text" if bounds.pattern is None else "text that is not blank"
        )
    else:
        expected = "a whole number" if kind is int else "a number"
        if bounds.ge is not None and bounds.le == LARGEST:
            expected += f" of at least {bounds.ge}"
        elif bounds.ge is not None:
            expected += f" from {bounds.ge} to {bounds.le}"
        if bounds.le == LARGEST and isinstance(value, int | str) and len(str(value)) > 9:
            expected += f" and at most {LARGEST}"
    # The value of a text setting is not repeated: a key or a password may have been pasted into it.
    shown = "" if kind is str and not allowed else f", not {str(value)[:60]!r}"
    return InvalidConfiguration(f"The setting {name} (in {source}) must be {expected}{shown}.")


def find_lines(text: str) -> dict[str, int]:
    """Return the line of each setting of a file, as `name`, and of each table, as `[name]`.

    A member of a table is `[name].member`. Inside a text of several lines this may be wrong.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = f"[{header[1].strip()}]"
            lines.setdefault(table, number)
        elif member := _MEMBER.match(line):
            name = member[1].strip("\"'")
            lines.setdefault(f"{table}.{name}" if table else name, number)
    return lines


def line_of_member(lines: Mapping[str, int], name: str) -> int | None:
    """Return the line of a setting that [rerank] or [embedding] gives; None if it is not found."""
    if name.startswith(RERANK_PREFIX):
        return lines.get(f"[rerank].{name.removeprefix(RERANK_PREFIX)}")
    members = ["provider", "kind"] if name == "embedding_provider" else []
    for fields in EMBEDDING_FIELDS.values():
        members += [member for member, setting in fields.items() if setting == name]
    found = (lines.get(f"[embedding].{member}") for member in members)
    return next((line for line in found if line is not None), None)


def mask_password(url: str) -> str:
    """Return a URL with stars for its password; only stars if it cannot be read."""
    try:
        parts = urlsplit(url)
        password, query = parts.password, parts.query
    except ValueError:
        return "***"
    if "password" in query or (url and not parts.scheme):
        return "***"
    if password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}").geturl()


def refuse_passwords(values: Mapping[str, Any]) -> None:
    """Refuse settings of a file that contain a password."""
    for name in sorted(SECRETS & values.keys()):
        if not isinstance(values[name], str):
            continue
        try:
            parts = urlsplit(values[name])
            has_password = parts.password is not None or "password" in parts.query
        except ValueError:
            has_password = True
        if has_password:
            raise InvalidConfiguration(
                f"The setting {name} contains a password, which must not be in this file.",
                advice=f"Set the variable TRUESPAN_{name.upper()}, or {name}_file.",
            )


def read_chunkings(tables: Any, lines: Mapping[str, int]) -> dict[str, ChunkingProfile]:
    """Return the standard chunking profiles and those of a settings file."""
    if not isinstance(tables, dict):
        raise InvalidConfiguration("The setting chunking must be tables: [chunking.NAME].")
    profiles = dict(STANDARD_CHUNKING)
    for name, given in tables.items():
        where = f"[chunking.{name}]"
        if name in STANDARD_CHUNKING:
            reason = f"{where}: this name is taken."
            raise InvalidConfiguration(reason, advice="Choose another name.")
        table = _require_fields(where, given, CHUNKING_FIELDS, lines)
        try:
            strategy = Strategy(table.get("strategy", "window"))
            mode = OverlapMode(table.get("overlap_mode", "shared"))
        except ValueError:
            raise InvalidConfiguration(f"{where}: no such strategy or overlap mode.") from None
        if not isinstance(table.get("dedupe", False), bool):
            raise InvalidConfiguration(f"{where}: dedupe must be true or false.")
        standard = STANDARD_CHUNKING[strategy.value]
        sizes: dict[str, Any] = {"size": standard.size, "overlap": standard.overlap}
        chosen = sizes | table | {"strategy": strategy, "overlap_mode": mode}
        try:
            profiles[name] = ChunkingProfile(name, **chosen)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"{where}: {error.message}", advice=error.advice) from None
    return profiles


def read_embeddings(
    tables: Any, lines: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the settings of the library's model, and those that each further one changes.

    `[embedding]` itself describes the library's model, `[embedding.NAME]` another one.
    """
    if not isinstance(tables, dict):
        raise InvalidConfiguration("The setting embedding must be tables: [embedding.NAME].")
    own = {name: value for name, value in tables.items() if not isinstance(value, dict)}
    others = {
        name: _read_embedding(f"[embedding.{name}]", table, lines)
        for name, table in tables.items()
        if isinstance(table, dict)
    }
    return _read_embedding("[embedding]", own, lines) if own else {}, others


def _read_embedding(where: str, table: dict[str, Any], lines: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings that a table gives; `kind` is another name for `provider`."""
    if {"kind", "provider"} <= set(table):
        raise InvalidConfiguration(f"{where} has both kind and provider.", advice="Remove one.")
    table = {"provider" if name == "kind" else name: value for name, value in table.items()}
    provider = table.pop("provider", None)
    if not isinstance(provider, str) or provider not in EMBEDDING_FIELDS:
        known = ", ".join(EMBEDDING_FIELDS)
        raise InvalidConfiguration(f"{where}: provider must be one of: {known}.")
    settings = EMBEDDING_FIELDS[provider]
    _require_fields(where, table, tuple(settings), lines)
    return {"embedding_provider": provider} | {
        settings[member]: convert_setting(settings[member], value, where)
        for member, value in table.items()
    }


def read_rerank(values: Mapping[str, Any], lines: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of a file with the members of `[rerank]` under their full names."""
    table = _require_fields("[rerank]", values.get("rerank", {}), RERANK_FIELDS, lines)
    members = {f"{RERANK_PREFIX}{name}": value for name, value in table.items()}
    if twice := sorted(members.keys() & values.keys()):
        raise InvalidConfiguration(
            f"The setting {twice[0]} is given twice, in [rerank] and outside it.",
            advice="Remove one of them.",
        )
    return {name: value for name, value in values.items() if name != "rerank"} | members


def read_keys(tables: Any, folder: Path, environment: Mapping[str, str]) -> tuple[ProviderKey, ...]:
    """Return the keys that the settings name, and the usual variables of other providers.

    No error message contains a key.
    """
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting keys must be tables: [[keys]].")
    named = [_key(number, table, folder, environment) for number, table in enumerate(tables, 1)]
    names = [(key.provider, key.name) for key in named]
    if len(set(names)) < len(names):
        raise InvalidConfiguration("Two entries of [[keys]] have the same provider and name.")
    configured = {key.provider for key in named}
    usual = [
        ProviderKey(provider, name, Secret(environment[name].strip()))
        for provider, variables in USUAL_VARIABLES.items()
        if provider not in configured
        for variable in variables
        # The name with our prefix wins.
        for name in [
            name
            for name in (f"{OWN_PREFIX}{variable}", variable)
            if environment.get(name, "").strip()
        ][:1]
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
    chosen = None if models is None else tuple(names)
    if not enabled:
        return ProviderKey(provider, name, Secret(""), enabled, chosen)
    sources = [source for source in ("env", "file") if isinstance(table.get(source), str)]
    if len(sources) != 1:
        raise InvalidConfiguration(f"{where} needs either env or file for the key.")
    if sources == ["env"]:
        value = environment.get(table["env"], "")
    else:
        try:
            with open(folder / table["file"], encoding="utf-8") as file:
                value = file.read(_MAX_KEY_LENGTH)
        except (OSError, UnicodeDecodeError, ValueError) as error:
            refusal = InvalidConfiguration(f"{where}: the key file cannot be read.")
            raise resource_error(error) or refusal from None
    if not value.strip():
        raise InvalidConfiguration(f"{where}: the key is blank or missing.")
    return ProviderKey(provider, name, Secret(value.strip()), enabled, chosen)


def _require_fields(
    where: str, table: Any, known: tuple[str, ...], lines: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return a table that has only known fields; `lines` says where the others stand."""
    fields = f"Fields are: {', '.join(known)}."
    if not isinstance(table, dict):
        raise InvalidConfiguration(f"{where} has an unknown field.", advice=fields)
    if unknown := sorted(set(table) - set(known)):
        from difflib import get_close_matches

        line = (lines or {}).get(f"{where}.{unknown[0]}")
        place = "" if line is None else f" (in truespan.toml, line {line})"
        close = get_close_matches(unknown[0], known, n=1)
        raise InvalidConfiguration(
            f"{where} has an unknown field {unknown[0]!r}{place}.",
            advice=f"Did you mean {close[0]!r}?" if close else fields,
        )
    return table
