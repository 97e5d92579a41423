"""Manifests: from the bytes of a JSONL file to entries that can be looked for.

Each line is judged by itself and everything wrong with any of them is told at once, so that nobody
mends a manifest line by line. What only the files can tell is left to whoever finds them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from math import isfinite
from typing import Any

from truespan.errors import ManifestInvalid
from truespan.ingest.manifest.fields import Fields, FieldWrong, checked_fields, shown
from truespan.model.found import Entry

LONGEST_LINE = 1 << 20
MOST_DEPTH = 32
"""How deep objects and lists may lie in one another; whoever reads them later has less room."""
MOST_INTEGER = 1 << 63
_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"
_TOO_DEEP = f"nested more than {MOST_DEPTH} levels deep"


def parse_manifest(name: str, data: bytes, *, profiles: Collection[str]) -> tuple[Entry, ...]:
    """Return the entries of a manifest; `profiles` are the chunking profiles a line may name.

    Raises:
        ManifestInvalid: with every line that cannot be used, and why.
    """
    entries: list[Entry] = []
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(data.removeprefix(_MARK).split(b"\n"), start=1):
        if not line.strip(_BLANK):
            continue
        fields, faults = _judged(line, profiles)
        bad.extend((number, fault) for fault in faults)
        if not faults:
            entries.append(Entry(number, fields.path, fields.doc_id, fields.declared()))
    if bad:
        raise ManifestInvalid(name, bad)
    return tuple(entries)


def _judged(line: bytes, profiles: Collection[str]) -> tuple[Fields, list[str]]:
    """Return what a line says, and everything that is wrong with it."""
    try:
        return checked_fields(_object(line), profiles)
    except FieldWrong as wrong:
        return Fields(), [str(wrong)]


def _object(line: bytes) -> dict[str, Any]:
    """Return the object that a line holds."""
    if len(line) > LONGEST_LINE:
        raise FieldWrong(f"longer than {LONGEST_LINE} bytes")
    value = _decoded(line)
    if not isinstance(value, dict):
        raise FieldWrong("not a JSON object")
    _check_depth(value)
    try:
        # A string may still hold half of a pair of surrogates, which is no character.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FieldWrong("a string holds half a character (a lone surrogate)") from None
    return value


def _decoded(line: bytes) -> Any:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise FieldWrong("not UTF-8") from None
    if text.startswith("\ufeff"):
        raise FieldWrong("a byte order mark that is not at the start of the file")
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except json.JSONDecodeError as error:
        raise FieldWrong(f"not JSON: {_lowered(error.msg)} (column {error.colno})") from None
    except RecursionError:
        raise FieldWrong(_TOO_DEEP) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise FieldWrong(f"{shown(key)} is there twice")
        unique[key] = value
    return unique


def _no_constant(spelled: str) -> Any:
    raise FieldWrong(f"not JSON: {spelled} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise FieldWrong("a number is too large")
    return number


def _bounded(digits: str) -> int:
    # Counted first: turning very many digits into a number is slow, and Python refuses it.
    if len(digits) > 20 or not -MOST_INTEGER <= (number := int(digits)) < MOST_INTEGER:
        raise FieldWrong("a number is too large")
    return number


def _check_depth(value: Any) -> None:
    level: Iterable[Any] = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return
    raise FieldWrong(_TOO_DEEP)


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]
