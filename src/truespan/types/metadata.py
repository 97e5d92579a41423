"""Declared metadata of documents: validation, types and comparison.

Metadata are a JSON object. Under each key, text, numbers, booleans, dates and lists of these can be
compared; nested objects are only stored and returned. A date is a text of the form `2026-11-16`, or
with a time of day as in `2026-11-16T09:30:00+01:00`; without an offset the time is UTC.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from math import isfinite
from typing import Any

from msgspec import Struct

from truespan.core.fields import MAX_LABEL_LENGTH, FieldError, check_label
from truespan.core.graphemes import shorten
from truespan.core.strict_json import MAX_DEPTH, MAX_INTEGER, parse_number, parse_whole_number

MAX_METADATA = 16 * 1024
"""Maximum size of the metadata of a document, in bytes of compact JSON."""
MAX_CONDITIONS = 20
"""Maximum number of keys in a metadata filter."""
MAX_VALUES = 1000
"""Maximum number of values in a condition."""

Scalar = str | int | float | bool

_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?P<time>[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1) // _MICROSECOND


class ValueKind(StrEnum):
    """Type of a value. Values of different kinds are never equal and have no order."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"


class Value(Struct, frozen=True):
    """A comparable value. `key` orders the values of one kind.

    The key of a date is its time in microseconds since 1970. `length` is the duration of a date
    without a time of day, one day; it is 0 for all other values.
    """

    kind: ValueKind
    key: Scalar
    length: int = 0


def check_metadata(value: Any) -> str:
    """Return metadata as JSON with sorted keys; dates of Python and TOML become ISO 8601."""
    if not isinstance(value, Mapping):
        raise FieldError("must be an object")
    members: dict[str, Any] = {}
    for name, inner in value.items():
        key = check_key(name)
        if key in members:
            raise FieldError(f"has the key {_quote(key)} twice")
        members[key] = _to_json(inner, f"under {_quote(key)}", 1)
    text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if len(text.encode()) > MAX_METADATA:
        raise FieldError(f"has more than {MAX_METADATA} bytes")
    return text


def check_key(value: Any) -> str:
    """Return a key in NFC; raises FieldError."""
    try:
        label = check_label(MAX_LABEL_LENGTH, value)
        return unicodedata.normalize("NFC", _check_text(label, "contains half a character"))
    except FieldError as error:
        raise FieldError(f"has a key that {error}") from None


def _to_json(value: Any, place: str, depth: int) -> Any:
    """Return a value as JSON; raises FieldError with `place` in the message."""
    if depth > MAX_DEPTH - 1:
        raise FieldError(f"is nested more than {MAX_DEPTH - 1} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _check_text(value, f"has half a character {place}")
    if isinstance(value, int):
        if not -MAX_INTEGER <= value < MAX_INTEGER:
            raise FieldError(f"has a number that is too large {place}")
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise FieldError(f"has {value} {place}, which is not a JSON number")
        return value
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_to_json(inner, place, depth + 1) for inner in value]
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise FieldError(f"has an object {place} with a key that is not a string")
        return {
            _check_text(name, f"has half a character {place}"): _to_json(inner, place, depth + 1)
            for name, inner in value.items()
        }
    raise FieldError(
        f"has a value of the type {type(value).__name__} {place}; use text, numbers, booleans, "
        "dates, lists or objects"
    )


def _check_text(text: str, fault: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FieldError(f"{fault} (a lone surrogate)") from None
    return text


def _quote(text: str) -> str:
    return repr(shorten(text, 80, "..."))


def read_metadata(stored: str | None) -> dict[str, Any]:
    """Return stored metadata as a dict; empty if there are none."""
    return json.loads(stored) if stored else {}


def type_value(value: Any) -> Value | None:
    """Return a comparable value for text, a number, a boolean or a date; None for others."""
    if isinstance(value, bool):
        return Value(ValueKind.BOOLEAN, value)
    if isinstance(value, int | float):
        return Value(ValueKind.NUMBER, value)
    if not isinstance(value, str):
        return None
    return _read_date(value) or Value(ValueKind.TEXT, unicodedata.normalize("NFC", value))


def type_values(stored: Any) -> tuple[Value, ...]:
    """Return the comparable values stored under a key, each once: one, or the items of a list."""
    found = stored if isinstance(stored, list) else [stored]
    return tuple(dict.fromkeys(value for part in found if (value := type_value(part))))


def _read_date(text: str) -> Value | None:
    """Return a date, or a date with a time of day; None for any other text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # The offset may move the time out of the supported years.
        instant = (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None
    return Value(ValueKind.DATE, instant, 0 if match["time"] else _DAY)


def show_value(value: Value) -> Scalar:
    """Return a value for output: a date in ISO 8601, any other value unchanged."""
    if value.kind is not ValueKind.DATE:
        return value.key
    moment = _EPOCH + int(value.key) * _MICROSECOND
    if value.length:
        return moment.date().isoformat()
    return moment.isoformat().replace("+00:00", "Z")


_BOUNDS = ("gt", "gte", "lt", "lte")
_OPERATORS = frozenset({"any_of", "exists", *_BOUNDS})


class Condition(Struct, frozen=True, dict=True):
    """A condition on the values under one metadata key.

    A document matches if one of its values is in `any_of` and within the bounds. Without `any_of`
    and bounds, any value matches; with `exists` false, only documents without a value do. A date
    stands for the whole day. Values of a different kind do not match.
    """

    key: str
    any_of: tuple[Scalar, ...] | None = None
    gt: Scalar | None = None
    gte: Scalar | None = None
    lt: Scalar | None = None
    lte: Scalar | None = None
    exists: bool = True

    @classmethod
    def from_json(cls, key: Any, wanted: Any) -> Condition:
        """Return a condition from JSON: a value, or an object of operators."""
        name = check_key(key)
        place = f"under {_quote(name)}"
        members = wanted if isinstance(wanted, Mapping) else {"any_of": [wanted]}
        if unknown := [member for member in members if member not in _OPERATORS]:
            raise FieldError(
                f"has the unknown operator {_quote(str(unknown[0]))} {place}; use any_of, gt, gte, "
                "lt, lte or exists"
            )
        if not members:
            raise FieldError(f"has no operator {place}; use any_of, gt, gte, lt, lte or exists")
        exists, listed = members.get("exists", True), members.get("any_of")
        if not isinstance(exists, bool):
            raise FieldError(f"has an exists that is not true or false {place}")
        if not exists and len(members) > 1:
            raise FieldError(
                f"has exists false with another operator {place}; no value matches both"
            )
        if "any_of" in members and not isinstance(listed, list | tuple):
            raise FieldError(f"has an any_of that is not a list {place}")
        if listed and len(listed) > MAX_VALUES:
            raise FieldError(f"has an any_of with more than {MAX_VALUES} values {place}")
        bounds = {
            member: _check_scalar(members[member], place) for member in _BOUNDS if member in members
        }
        kinds = {value.kind for bound in bounds.values() if (value := type_value(bound))}
        if ValueKind.BOOLEAN in kinds or len(kinds) > 1:
            raise FieldError(
                f"has bounds that have no order {place}; use numbers, dates or texts, not mixed"
            )
        return cls(
            name,
            None if listed is None else tuple(_check_scalar(value, place) for value in listed),
            exists=exists,
            **bounds,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the operators of the condition, for `from_json`."""
        members = {name: bound for name in _BOUNDS if (bound := getattr(self, name)) is not None}
        if self.any_of is not None:
            members["any_of"] = list(self.any_of)
        return members or {"exists": self.exists}

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the metadata of a document meet the condition."""
        stored = metadata.get(self.key)
        if not self.exists or not self.compares:
            return self.exists is (stored is not None)
        return any(self.accepts(value) for value in type_values(stored))

    @property
    def compares(self) -> bool:
        """Whether the condition compares values, not only their existence."""
        return self.any_of is not None or any(getattr(self, name) is not None for name in _BOUNDS)

    def accepts(self, value: Value) -> bool:
        """Return whether a value is in `any_of` and within the bounds."""
        if self.any_of is not None:
            exact, days = self._wanted
            is_listed = (value.kind, value.key) in exact
            if not is_listed and not any(_is_on_day(value, day) for day in days):
                return False
        return all(
            _is_within(name, value, bound)
            for name in _BOUNDS
            if (bound := type_value(getattr(self, name))) is not None
        )

    @cached_property
    def _wanted(self) -> tuple[frozenset[tuple[ValueKind, Scalar]], list[Value]]:
        """Return the values of `any_of` by kind and key, and the dates among them."""
        listed = [value for part in self.any_of or () if (value := type_value(part))]
        exact = frozenset((value.kind, value.key) for value in listed)
        return exact, [value for value in listed if value.length]


def _is_on_day(value: Value, day: Value) -> bool:
    return value.kind is day.kind and 0 <= int(value.key) - int(day.key) < day.length


def _is_within(name: str, value: Value, bound: Value) -> bool:
    if value.kind is not bound.kind:
        return False
    key: Any = value.key
    first: Any = bound.key
    if name in ("gte", "lt"):
        return (key >= first) is (name == "gte")
    # `gt` and `lte` with a date compare with the end of the day.
    is_after = key >= first + bound.length if bound.length else key > first
    return is_after is (name == "gt")


def _check_scalar(value: Any, place: str) -> Scalar:
    checked = _to_json(value, place, 1)
    if type_value(checked) is None:
        raise FieldError(f"has a value that cannot be compared {place}; use text, numbers or dates")
    return checked


def read_conditions(wanted: Any) -> tuple[Condition, ...]:
    """Return the conditions of an object such as `{"team": "a", "year": {"gte": 2020}}`, by key."""
    if not isinstance(wanted, Mapping):
        raise FieldError("must be an object")
    if len(wanted) > MAX_CONDITIONS:
        raise FieldError(f"has more than {MAX_CONDITIONS} keys")
    found = [Condition.from_json(key, value) for key, value in wanted.items()]
    by_key = {condition.key: condition for condition in found}
    if len(by_key) < len(found):
        raise FieldError("has a key twice")
    return tuple(by_key[key] for key in sorted(by_key))


_ASSIGNMENT = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_COMPARISON = re.compile(r"([^=<>!]+)(==|=|>=|<=|>|<)(.*)", re.DOTALL)
SYMBOLS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def parse_value(text: str) -> Scalar:
    """Return the value of a command-line text; raises FieldError if it is empty.

    `true` and `false` are booleans, and numbers are written as in JSON. Everything else, and
    everything in double quotes, is text.
    """
    plain = text.strip()
    if not plain:
        raise FieldError('has no value; write "" for an empty text')
    if len(plain) > 1 and plain[0] == plain[-1] == '"':
        try:
            return str(json.loads(plain, strict=False))
        except ValueError:
            return plain[1:-1]
    if plain in ("true", "false"):
        return plain == "true"
    whole = parse_whole_number(plain)
    if whole is not None:
        return whole if -MAX_INTEGER <= whole < MAX_INTEGER else plain
    number = parse_number(plain)
    return plain if number is None else number


def parse_assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Return metadata from texts such as `team=a`; a repeated key gets a list of values."""
    found: dict[str, list[Scalar]] = {}
    for text in texts:
        match = _ASSIGNMENT.fullmatch(text)
        if match is None:
            raise FieldError(f"{_quote(text)} is not key=value")
        try:
            value = parse_value(match[2])
        except FieldError as error:
            raise FieldError(f"{_quote(text)} {error}") from None
        found.setdefault(match[1].strip(), []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def parse_comparisons(texts: Sequence[str]) -> dict[str, Any]:
    """Return conditions as an object, from texts such as `team=a`, `year>=2020` and `!team`.

    `team` requires a value and `!team` requires none. Several `=` for one key match any of the
    values.
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        match = _COMPARISON.fullmatch(text.strip())
        if match is None:
            name, exists = text.strip().removeprefix("!").strip(), not text.strip().startswith("!")
            if not name or re.search("[=<>!]", name):
                raise FieldError(f"{_quote(text)} is not key=value, key>value, key or !key")
            found.setdefault(name, {})["exists"] = exists
            continue
        members = found.setdefault(match[1].strip(), {})
        try:
            value = parse_value(match[3])
        except FieldError as error:
            raise FieldError(f"{_quote(text)} {error}") from None
        operator = SYMBOLS.get(match[2])
        if operator is None:
            members.setdefault("any_of", []).append(value)
        elif operator in members:
            raise FieldError(f"{_quote(text)} repeats {match[2]} for one key")
        else:
            members[operator] = value
    return found
