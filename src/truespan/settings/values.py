"""Values of settings: conversion from a file or the environment, and errors that hide secrets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from truespan.core.strict_json import parse_number, parse_whole_number
from truespan.errors import InvalidConfiguration
from truespan.settings.catalogue import MAX_NUMBER, SECRETS, TYPES, base_type, choices, constraints

_ON, _OFF = ("1", "true", "on", "yes"), ("0", "false", "off", "no", "")
_URLS = "urls or blank"


def convert_setting(name: str, value: Any, source: str) -> Any:
    """Return the value of a setting in its own type; errors name the `source` of the value."""
    if name not in TYPES:
        advice = suggest_name(name, TYPES) or "'truespan config' lists every setting."
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


def suggest_name(name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """Return advice that names the known name closest to `name`; blank if none is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else ""


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
