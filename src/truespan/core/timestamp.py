"""Times: seconds since 1970 internally, ISO 8601 in UTC in output."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

IsoTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time in ISO 8601, in UTC and with milliseconds: 2026-01-31T09:30:00.250Z."""


def format_time(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601, such as 2026-01-31T09:30:00.250Z."""
    shown = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return shown.removesuffix("+00:00") + "Z"


def parse_time(text: str) -> float:
    """Return the seconds since 1970 of an ISO 8601 time; a time without an offset is UTC.

    Raises:
        ValueError: the text is not a time.
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
