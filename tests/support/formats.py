"""Names of the formats that are detected."""

from truespan.parsing.detect import format_of


def format_name(name: str, data: bytes) -> str | None:
    """Return the name of the format of a file; None if it has no loader."""
    found = format_of(name, data)
    return found and found.name
