"""Validation of single values: types, and labels of one line."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

MAX_LABEL_LENGTH = 200
_TYPES = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


class FieldError(Exception):
    """An invalid value; the message continues a sentence that begins with the field name."""


def check_fields(
    values: Mapping[str, Any], checks: Mapping[str, Callable[[Any], Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Return the checked values, and a message for each invalid value."""
    checked: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in values.items():
        try:
            checked[name] = checks[name](value)
        except FieldError as error:
            faults.append(f"{name} {error}")
    return checked, faults


def check_type(kind: type, value: Any) -> Any:
    """Return a value if it has a type; a boolean does not count as an integer."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FieldError(f"must be {_TYPES[kind]}")
    return value


def check_label(limit: int, value: Any) -> str:
    """Return a text of one line if it is neither blank nor longer than `limit`."""
    text: str = check_type(str, value)
    if not text.strip():
        raise FieldError("is blank")
    if len(text) > limit:
        raise FieldError(f"is longer than {limit} characters")
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise FieldError("contains a control character")
    return text
