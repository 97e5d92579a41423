"""Values and tables of a settings file.

The tables are `[chunking.NAME]`, `[embedding.NAME]`, `[[keys]]`, `[[auth.rules]]` for users of an
identity provider, and `[[audience]]` for documents.

A world may have generations of several models at once: the active one, and one that is being built.
Each model needs its table for as long as a generation uses it. Keys come from the environment or
from files, never from the settings file itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from truespan.core.decoding import prepare
from truespan.core.strict_json import parse_number, parse_whole_number
from truespan.errors import InvalidArgument, InvalidConfiguration, resource_error
from truespan.settings.catalogue import (
    ENGINE_CHOICES,
    MAX_NUMBER,
    SECRETS,
    SECTIONS,
    TYPES,
    EmbeddingSettings,
    all_types,
    base_type,
    choices,
    constraints,
    extension_sections,
    type_of,
)
from truespan.tables import tables as installed
from truespan.types.audience import AudienceRule, check_audience
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, OverlapMode, Strategy
from truespan.types.scope import AUDIENCE_VERBS, UNLIMITED, Unlimited, Verb
from truespan.types.token import AccessRule, ProviderKey, Secret, check_template

CHUNKING_FIELDS = ("strategy", "size", "overlap", "overlap_mode", "pack", "dedupe")
KEY_FIELDS = ("provider", "name", "env", "file", "enabled", "models")
USUAL_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "qdrant": ("QDRANT_API_KEY",),
    "signing": ("RECEIPT_SIGNING_KEY",),
}
"""Usual environment variables of keys, by provider."""
_MODELS = ("multilingual", "sentence-transformers", "google")
"""Providers of the extension `models`."""
_ON_DEVICES = ("local", "sentence-transformers")
"""Providers of models whose device can be chosen."""
OWN_PREFIX = "TRUESPAN_"
_MAX_KEY_LENGTH = 4096
_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_MEMBER = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")


def find_lines(text: str) -> dict[str, int]:
    """Return the line of each member and table of a file, by path, such as `rerank.url`."""
    lines: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            lines.setdefault(header[1].strip(), number)
            prefix = f"{header[1].strip()}."
        elif member := _MEMBER.match(line):
            lines.setdefault(prefix + member[1].strip("\"'"), number)
    return lines


def read_sections(
    table: Mapping[str, Any], lines: Mapping[str, int], path: str = ""
) -> Iterator[tuple[str, str, Any]]:
    """Yield full name, path and value of each setting of a file or of one of its sections."""
    for name, value in table.items():
        own_path = f"{path}.{name}" if path else name
        full_name = own_path.replace(".", "_")
        if own_path == "embedding" and isinstance(value, dict):
            yield from read_model(own_path, _without_tables(value), lines)
        elif isinstance(value, dict) and (
            full_name in SECTIONS or full_name in extension_sections()
        ):
            yield from read_sections(value, lines, own_path)
        else:
            yield full_name, own_path, value


def read_chunkings(tables: Any, lines: Mapping[str, int]) -> dict[str, ChunkingProfile]:
    """Return the standard chunking profiles and the profiles of a settings file."""
    if not isinstance(tables, dict):
        raise InvalidConfiguration("The setting chunking must be tables: [chunking.NAME].")
    profiles = dict(STANDARD_CHUNKING)
    for name, given in tables.items():
        where = f"[chunking.{name}]"
        if name in STANDARD_CHUNKING:
            reason = f"{where}: this name is taken."
            raise InvalidConfiguration(reason, advice="Choose another name.")
        table = require_fields(where, given, CHUNKING_FIELDS, lines)
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


def _without_tables(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if not isinstance(value, dict)}


def read_models(tables: Any, lines: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return the settings that each table `[embedding.NAME]` gives, by its name."""
    return {
        name: {"embedding_device": ""}
        | {
            full_name: convert_setting(full_name, value, f"[embedding.{name}]")
            for full_name, _, value in read_model(f"embedding.{name}", table, lines)
        }
        for name, table in (tables.items() if isinstance(tables, dict) else ())
        if isinstance(table, dict)
    }


def read_model(
    path: str, table: dict[str, Any], lines: Mapping[str, int]
) -> Iterator[tuple[str, str, Any]]:
    """Yield full name, path and value of each setting that an embedding table gives.

    `kind` is another name for `provider`. `[embedding]` describes the library's own model, and may
    have the other settings `embedding_*` too.
    """
    if {"kind", "provider"} <= set(table):
        raise InvalidConfiguration(f"[{path}] has both kind and provider.", advice="Remove one.")
    spelled = "kind" if "kind" in table else "provider"
    fields = {spelled: "embedding_provider"}
    if path == "embedding":
        members = EmbeddingSettings.__struct_fields__
        fields |= {name: f"embedding_{name}" for name in members if name != "provider"}
    if path != "embedding" or spelled in table:
        provider = convert_setting("embedding_provider", table.get(spelled), f"[{path}]")
        fields |= embedding_fields(provider)
    require_fields(f"[{path}]", table, tuple(fields), lines)
    for name, value in table.items():
        yield fields[name], f"{path}.{name}", value


def embedding_fields(provider: str) -> dict[str, str]:
    """Return the members of an embedding table, and the setting that each replaces."""
    section = f"{provider.replace('-', '_')}_"
    names = TYPES if provider in ENGINE_CHOICES["embedders"] else all_types()
    fields = {name.removeprefix(section): name for name in names if name.startswith(section)}
    if provider in _ON_DEVICES:
        fields["device"] = "embedding_device"
    return {"model_folder": "model_folder", **fields} if provider == "local" else fields


def read_keys(tables: Any, folder: Path, environment: Mapping[str, str]) -> tuple[ProviderKey, ...]:
    """Return the keys of a settings file, and those in the usual variables of other providers."""
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting keys must be tables: [[keys]].")
    named = [
        _read_key(number, table, folder, environment) for number, table in enumerate(tables, 1)
    ]
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


def _read_key(number: int, table: Any, folder: Path, environment: Mapping[str, str]) -> ProviderKey:
    where = f"Entry {number} of [[keys]]"
    table = require_fields(where, table, KEY_FIELDS)
    provider, name = table.get("provider"), table.get("name", f"key-{number}")
    if provider not in USUAL_VARIABLES and provider not in installed().embedders:
        known = ", ".join((*USUAL_VARIABLES, *installed().embedders))
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


def require_fields(
    where: str, table: Any, known: tuple[str, ...], lines: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return a table that has only known fields; `lines` has the line of each field."""
    fields = f"Fields are: {', '.join(known)}."
    if not isinstance(table, dict):
        raise InvalidConfiguration(f"{where} has an unknown field.", advice=fields)
    if unknown := sorted(set(table) - set(known)):
        line = (lines or {}).get(f"{where.strip('[]')}.{unknown[0]}")
        place = "" if line is None else f" (in truespan.toml, line {line})"
        raise InvalidConfiguration(
            f"{where} has an unknown field {unknown[0]!r}{place}.",
            advice=suggest_name(unknown[0], known) or fields,
        )
    return table


_ON, _OFF = ("1", "true", "on", "yes"), ("0", "false", "off", "no", "")
_ENDPOINT = "url with query or blank"


_OLLAMA_URLS = ("ollama_base_url", "chat_ollama_base_url")


def convert_setting(name: str, value: Any, source: str) -> Any:
    """Return the value of a setting in its own type; errors name the `source` of the value."""
    if type_of(name) is None:
        _require_models(name, f"The setting {name!r}")
        advice = suggest_name(name, all_types()) or "'truespan config' lists every setting."
        raise InvalidConfiguration(f"There is no setting {name!r} (in {source}).", advice=advice)
    kind, bounds = base_type(name), constraints(name)
    if name in _OLLAMA_URLS and isinstance(value, str) and value and "://" not in value:
        # As Ollama's own variable has it: 127.0.0.1:11434.
        value = f"http://{value}"
    if value == "" and kind is float and type(None) in getattr(type_of(name), "__args__", ()):
        return None
    try:
        plain = msgspec.convert(
            _parse(value, kind, bounds.title), prepare(type_of(name)), strict=True
        )
    except (msgspec.ValidationError, ValueError):
        raise _invalid(name, value, source) from None
    engine = ENGINE_CHOICES.get(bounds.title or "")
    if engine is not None and plain not in engine and plain not in choices(name):
        _require_models(plain, f"{name} = {plain!r}")
        raise _invalid(name, value, source)
    if isinstance(plain, float) and not math.isfinite(plain):
        raise _invalid(name, value, source)
    is_url = bounds.title == "url" or (bounds.title in ("url or blank", _ENDPOINT) and plain)
    if is_url and not _is_plain_url(str(plain), bounds.title == _ENDPOINT):
        raise _invalid(name, value, source)
    return plain


def _require_models(name: str, what: str) -> None:
    """Raise InvalidConfiguration for a provider, or a setting, of an extension not installed."""
    for provider in _MODELS:
        is_of = name == provider or name.startswith(f"{provider.replace('-', '_')}_")
        if is_of and provider not in installed().embedders:
            raise InvalidConfiguration(code="extension_missing", what=what, extension="models")


def suggest_name(name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """Return advice with the known name closest to `name`; blank if no name is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else ""


def _is_plain_url(text: str, query_allowed: bool) -> bool:
    """Return whether a text is a URL with scheme and host, and without a part for a password."""
    try:
        url = urlsplit(text)
        extra = (url.query and not query_allowed) or url.fragment or "@" in url.netloc
        return url.scheme in ("http", "https") and bool(url.hostname) and not extra
    except ValueError:
        return False


def _parse(value: Any, kind: type, title: str | None) -> Any:
    """Return a value from the environment, which is always text, in the setting's plain type."""
    if isinstance(value, list) and title == "comma-separated list":
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
    elif bounds.title == _ENDPOINT:
        expected = "an http:// or https:// URL without user and fragment"
    elif kind is str:
        expected = {"url": "an http:// or https:// URL without user, query and fragment"}.get(
            (bounds.title or "")[:3], "text" if bounds.pattern is None else "text that is not blank"
        )
    else:
        expected = "a whole number" if kind is int else "a number"
        if bounds.ge is not None and bounds.le == MAX_NUMBER:
            expected += f" of at least {bounds.ge}"
        elif bounds.ge is not None:
            expected += f" from {bounds.ge} to {bounds.le}"
        if bounds.le == MAX_NUMBER and isinstance(value, int | str) and len(str(value)) > 9:
            expected += f" and at most {MAX_NUMBER}"
    # The value of a text setting is not repeated: a key or a password may have been pasted into it.
    shown = "" if kind is str and not allowed else f", not {str(value)[:60]!r}"
    return InvalidConfiguration(f"The setting {name} (in {source}) must be {expected}{shown}.")


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
    """Raise InvalidConfiguration if a setting of a file contains a password."""
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


_FIELDS = AccessRule.__struct_fields__
_ALL = "*"
_VERBS = ", ".join(Verb)


def read_rules(section: Any) -> tuple[AccessRule, ...]:
    """Remove the rules from the section `auth` of a file, and return them."""
    tables = section.pop("rules", []) if isinstance(section, dict) else []
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting auth.rules must be tables: [[auth.rules]].")
    return tuple(_read_rule(number, table) for number, table in enumerate(tables, 1))


def read_audiences(tables: Any) -> tuple[AudienceRule, ...]:
    """Return the rules `[[audience]]` of a file."""
    if not isinstance(tables, list):
        raise InvalidConfiguration("The setting audience must be tables: [[audience]].")
    return tuple(_read_audience(number, table) for number, table in enumerate(tables, 1))


def _read_audience(number: int, given: Any) -> AudienceRule:
    where = f"Entry {number} of [[audience]]"
    table = require_fields(where, given, AudienceRule.__struct_fields__)
    texts = {name: table[name] for name in ("path", "world") if name in table}
    if not all(isinstance(text, str) and text for text in texts.values()):
        raise InvalidConfiguration(f"{where}: path and world must be texts.")
    if not isinstance(table.get("labels"), list):
        raise InvalidConfiguration(
            f"{where} needs labels.", advice='Write labels = ["group:hr"]; [] for the owner alone.'
        )
    try:
        return AudienceRule(check_audience(table["labels"]), **texts)
    except InvalidArgument as error:
        raise InvalidConfiguration(f"{where}: {error.message}") from None


def _read_rule(number: int, given: Any) -> AccessRule:
    where = f"Entry {number} of [[auth.rules]]"
    table = require_fields(where, given, _FIELDS)
    texts = {name: table.get(name, "") for name in ("claim", "value", "reader")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise InvalidConfiguration(f"{where}: claim, value and reader must be texts.")
    if bool(texts["claim"]) != bool(texts["value"]):
        raise InvalidConfiguration(
            f"{where} needs both claim and value.", advice="Without both it is for every user."
        )
    if texts["reader"] and not check_template(texts["reader"]):
        raise _invalid_template(where, "reader")
    is_reader = bool(texts["reader"])
    verbs = table.get("verbs", ["follow" if is_reader else "read"])
    if not isinstance(verbs, list) or not verbs or not set(verbs) <= set(Verb):
        raise InvalidConfiguration(f"{where}: verbs must be a list of: {_VERBS}.")
    if is_reader and verbs != ["follow"]:
        raise InvalidConfiguration(
            f"{where}: who is bound to a reader can only follow.", advice="Remove one of them."
        )
    labels = _templates(where, "labels", table.get("labels", []))
    if not isinstance(labels, Unlimited) and not set(verbs) <= AUDIENCE_VERBS:
        raise InvalidConfiguration(
            f"{where}: who sees some documents only can read and follow.",
            advice='Set labels = "*", or leave out the other verbs.',
        )
    return AccessRule(
        claim=texts["claim"],
        value=texts["value"],
        worlds=_templates(where, "worlds", table.get("worlds", [])),
        verbs=frozenset(map(Verb, verbs)),
        labels=labels,
        reader=texts["reader"],
    )


def _templates(where: str, name: str, value: Any) -> tuple[str, ...] | Unlimited:
    if value == _ALL:
        return UNLIMITED
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InvalidConfiguration(f'{where}: {name} must be a list of texts, or "*" for all.')
    if not all(map(check_template, value)):
        raise _invalid_template(where, name)
    return tuple(value)


def _invalid_template(where: str, name: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"{where}: a text of {name} is blank or has more than one claim in braces.",
        advice="Write it like group:{groups}.",
    )
