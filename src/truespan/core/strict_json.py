"""JSON and numbers that every parser reads in the same way.

Python's parser keeps the last of two equal keys, others the first, so a check and the use of a
value could see different values. An object with two equal keys is therefore refused, and so are
numbers that are not JSON (`NaN`), exceed 64 bits, or have a form that only Python accepts
(`1_000`).
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, NoReturn

MAX_DEPTH = 32
"""Maximum nesting depth of objects and lists."""
MAX_INTEGER = 1 << 63
_MAX_SHOWN_LENGTH = 80
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


class JsonError(ValueError):
    """A text that is not strict JSON; the message is part of a sentence."""


class DuplicateKey(JsonError):
    """An object has two equal keys."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; raises JsonError."""
    try:
        value = _STRICT.decode(_decode(text))
    except json.JSONDecodeError as error:
        raise _not_json(error) from None
    except RecursionError:
        raise JsonError(_TOO_DEEP) from None
    _check_depth(value)
    try:
        # A string may still contain a lone surrogate.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise JsonError("a string contains half a character (a lone surrogate)") from None
    return value


def parse_json_object(text: str | bytes) -> dict[str, Any]:
    """Return the members of a JSON object; raises JsonError."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise JsonError("not a JSON object")
    return value


def require_unique_keys(text: str | bytes) -> None:
    """Raise JsonError if an object in a JSON text has two equal keys.

    For texts that are parsed by another parser, which would silently use one of them.
    """
    try:
        _UNIQUE.decode(_decode(text))
    except json.JSONDecodeError as error:
        raise _not_json(error) from None
    except RecursionError:
        raise JsonError(_TOO_DEEP) from None


def parse_whole_number(text: str) -> int | None:
    """Return a whole number as JSON spells it: `5`, `-1`; None for `+5`, ` 5`, `1_000`, `1e3`."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def parse_number(text: str) -> float | None:
    """Return a number as JSON spells it; None for others, also for `nan` and `inf`."""
    number = float(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and isfinite(number) else None


def _decode(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonError("not UTF-8") from None


def _not_json(error: json.JSONDecodeError) -> JsonError:
    reason = error.msg[:1].lower() + error.msg[1:]
    line = f"line {error.lineno}, " if error.lineno > 1 else ""
    return JsonError(f"not JSON: {reason} ({line}column {error.colno})")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                shown = (
                    key if len(key) <= _MAX_SHOWN_LENGTH else f"{key[: _MAX_SHOWN_LENGTH - 3]}..."
                )
                raise DuplicateKey(f"{shown!r} occurs twice")
            seen.add(key)
    return fields


def _refuse_constant(constant: str) -> NoReturn:
    raise JsonError(f"not JSON: {constant} is not a JSON number")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise JsonError("a number is too large")
    return number


def _parse_int(digits: str) -> int:
    # Check the length first: converting many digits is slow, and Python refuses it.
    if len(digits) > 20 or not -MAX_INTEGER <= (number := int(digits)) < MAX_INTEGER:
        raise JsonError("a number is too large")
    return number


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise JsonError(_TOO_DEEP)


# Shared by threads: decoders of the standard library, whose only state is a table of the keys
# seen; two threads may fill and empty it at once, and only memory depends on it.
_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_refuse_constant,
    parse_float=_parse_float,
    parse_int=_parse_int,
)
# Numbers stay text, because the other parser converts them.
# Shared by threads: as above.
_UNIQUE = json.JSONDecoder(object_pairs_hook=_unique, parse_float=str, parse_int=str)
