"""Checks of single settings, so that a wrong value fails at start-up and not at first use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from truespan.errors import InvalidConfiguration
from truespan.settings.catalogue import (
    LARGEST,
    SECRETS,
    TYPES,
    base_type,
    choices,
    constraints,
)

_ON, _OFF = ("1", "true", "on", "yes"), ("0", "false", "off", "no", "")


def convert_setting(name: str, value: Any, source: str) -> Any:
    """Return the value of a setting in its own type; `source` says where the value was given.

    Raises:
        InvalidConfiguration: there is no such setting, or the value is invalid.
    """
    if name not in TYPES:
        raise _unknown(name, source)
    kind, bounds = base_type(name), constraints(name)
    if value == "" and kind is float and type(None) in getattr(TYPES[name], "__args__", ()):
        return None
    try:
        plain = msgspec.convert(_parse(value, kind, bounds.title), TYPES[name], strict=True)
    except (msgspec.ValidationError, ValueError):
        raise _invalid(name, value, source) from None
    if isinstance(plain, float) and not math.isfinite(plain):
        raise _invalid(name, value, source)
    if bounds.title in ("url", "url or blank"):
        optional = bounds.title == "url or blank"
        if not (_is_url(str(plain)) or (optional and not plain)):
            raise _invalid(name, value, source)
    return plain


def _parse(value: Any, kind: type, title: str | None) -> Any:
    """Return a value from the environment, which is always text, in the setting's plain type."""
    if isinstance(value, list) and title == "comma-separated list":
        return ",".join(value) if all(isinstance(part, str) for part in value) else value
    if kind is bool and isinstance(value, str | int) and not isinstance(value, bool):
        word = str(value).strip().lower()
        return word in _ON if word in (*_ON, *_OFF) else value
    return kind(value) if isinstance(value, str) and kind in (int, float) else value


def _unknown(name: str, source: str) -> InvalidConfiguration:
    from difflib import get_close_matches

    close = get_close_matches(name, TYPES, n=1)
    advice = (
        f"Did you mean {close[0]!r}?" if close else f"Settings are: {', '.join(sorted(TYPES))}."
    )
    return InvalidConfiguration(f"There is no setting {name!r} (in {source}).", advice=advice)


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


def refuse_passwords(values: Mapping[str, Any]) -> None:
    """Refuse settings of a file that contain a password.

    Raises:
        InvalidConfiguration: one does; the message does not repeat it.
    """
    for name in sorted(SECRETS & values.keys()):
        if isinstance(values[name], str) and _has_password(values[name]):
            raise InvalidConfiguration(
                f"The setting {name} contains a password, which must not be in this file.",
                advice=f"Set the variable TRUESPAN_{name.upper()}, or {name}_file.",
            )


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password" in parts.query
    except ValueError:
        return True


def _is_url(value: str) -> bool:
    """Return whether a value has an allowed scheme and a host, and no part for a password.

    The client of the service checks the rest of it.
    """
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    extra = parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not extra
