"""JSON Schemas of arguments and results, made from their types."""

from __future__ import annotations

from typing import Any

import msgspec


def schema_of(kind: type) -> dict[str, Any]:
    """Return the schema of a type, with an object at its root as the protocol wants it."""
    whole = msgspec.json.schema(kind)
    definitions = whole["$defs"]
    root = definitions.pop(whole["$ref"].rpartition("/")[2])
    return {**root, "$defs": definitions} if definitions else root
