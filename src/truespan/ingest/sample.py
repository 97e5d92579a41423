"""The sample book that comes with the package, so that a new library has something to ask about."""

from __future__ import annotations

from importlib.resources import files

from truespan.types.source import Upload

SAMPLE_NAME = "the-glass-ferry.md"


def sample_book() -> Upload:
    """Return the sample book as an upload."""
    return Upload(SAMPLE_NAME, files("truespan.ingest").joinpath(SAMPLE_NAME).read_bytes())
