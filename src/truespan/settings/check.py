"""Checks of single values, so that a wrong one fails at start-up and not at first use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from truespan.errors import InvalidConfiguration
from truespan.settings.catalogue import (
    ADDRESSES,
    CHOICES,
    LEAST,
    LISTS,
    MAY_BE_BLANK,
    MOST,
    MOST_WHOLE,
    NUMBERS,
    OPTIONAL,
    REQUIRED,
    SECRETS,
    SWITCHES,
)
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, OverlapMode, Strategy

_ON, _OFF = ("1", "true", "on", "yes"), ("0", "false", "off", "no", "")


def checked(name: str, value: Any) -> Any:
    """Return the value of a setting in its own type.

    Raises:
        InvalidConfiguration: it is not of its kind.
    """
    if name in LEAST:
        return _whole_number(name, value)
    if name in SWITCHES:
        return _switch(name, value)
    if name in NUMBERS:
        return None if name in OPTIONAL and value == "" else _number(name, value)
    if name in LISTS and isinstance(value, list):
        return ",".join(_text(name, one) for one in value)
    return _text(name, value)


def refuse_passwords(values: Mapping[str, Any]) -> None:
    """Refuse settings of a file that hold a password.

    Raises:
        InvalidConfiguration: one does; it is not repeated.
    """
    for name in sorted(SECRETS & values.keys()):
        if isinstance(values[name], str) and _holds_password(values[name]):
            raise InvalidConfiguration(
                f"The setting {name} holds a password, which must not stand in this file.",
                advice=f"Set the variable TRUESPAN_{name.upper()}, or {name}_file.",
            )


def _holds_password(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.password is not None or "password" in parts.query
    except ValueError:
        return True


def _whole_number(name: str, value: Any) -> int:
    most = MOST.get(name, MOST_WHOLE)
    number = _as_whole(value)
    if number is None or not LEAST[name] <= number <= most:
        told = name in MOST or (number is not None and number > most)
        limit = f" and at most {most}" if told else ""
        raise InvalidConfiguration(
            f"The setting {name} must be a whole number of at least {LEAST[name]}{limit}."
        )
    return number


def _as_whole(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    shown = str(value).strip().lower() if isinstance(value, str | int) else None
    if shown not in (*_ON, *_OFF):
        raise InvalidConfiguration(f"The setting {name} must be 0 or 1.")
    return shown in _ON


def _number(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    least, most = NUMBERS[name]
    if not (math.isfinite(number) and least <= number <= most):
        limits = f" from {least} to {most}" if math.isfinite(most) else ""
        raise InvalidConfiguration(f"The setting {name} must be a number{limits}.")
    return number


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidConfiguration(f"The setting {name} must be text.")
    choices = CHOICES.get(name)
    if choices is not None and value not in choices:
        raise InvalidConfiguration(f"The setting {name} must be one of: {', '.join(choices)}.")
    if name in ADDRESSES and not _is_web_address(value) and (value or name not in MAY_BE_BLANK):
        # The value is not repeated: it may hold a password.
        raise InvalidConfiguration(f"The setting {name} must be an http:// or https:// address.")
    if name in REQUIRED and not value.strip():
        raise InvalidConfiguration(f"The setting {name} must not be blank.")
    return value


def _is_web_address(value: str) -> bool:
    """Say whether a value has an allowed scheme and a host, and nothing that may be a password.

    Its adapter checks the rest of it.
    """
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    extra = parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not extra


_CHUNKING_FIELDS = ("strategy", "size", "overlap", "overlap_mode", "pack", "dedupe")


def read_chunkings(tables: Any) -> dict[str, ChunkingProfile]:
    """Return the standard chunking profiles and those of a settings file."""
    if not isinstance(tables, dict):
        raise InvalidConfiguration("The setting chunking must be tables, as [chunking.NAME].")
    return STANDARD_CHUNKING | {name: _chunking(name, table) for name, table in tables.items()}


def _chunking(name: str, table: Any) -> ChunkingProfile:
    where = f"[chunking.{name}]"
    if name in STANDARD_CHUNKING:
        raise InvalidConfiguration(f"{where}: this name is taken.", advice="Choose another name.")
    if not isinstance(table, dict) or set(table) - set(_CHUNKING_FIELDS):
        raise InvalidConfiguration(
            f"{where} has an unknown member.",
            advice=f"Known are: {', '.join(_CHUNKING_FIELDS)}.",
        )
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
