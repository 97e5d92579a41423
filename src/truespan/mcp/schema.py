"""JSON Schemas of arguments and results, made from their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call failed; `code` is stable, and `retryable` says whether the same call may help."""

    code: str
    message: str
    advice: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """What a call gives that was refused, or failed before there was a result."""

    error: Fault


def schema_of_arguments(kind: type) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    whole = msgspec.json.schema(kind)
    return whole["$defs"][whole["$ref"].rpartition("/")[2]]


def schema_of_result(kind: type) -> dict[str, Any]:
    """Return the schema of what a tool gives: a result, or the reason why there is none.

    Both stand in it because some clients hold failed calls against the schema too.
    """
    either, definitions = msgspec.json.schema_components(
        [kind, Refused], ref_template="#/$defs/{name}"
    )
    return {"type": "object", "anyOf": list(either), "$defs": definitions}
