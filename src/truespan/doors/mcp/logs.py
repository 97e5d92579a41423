"""What the SDK writes to the log is shown as its fixed words: the rest may quote a document."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Outline(logging.Formatter):
    """Shows the fixed words of a record: its arguments and exceptions may quote a document."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's words without what was filled in."""
        return f"{record.levelname.lower()}: {record.name}: {record.msg}"


def outlines() -> logging.Handler:
    """Return what writes outlines of records to standard error."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(Outline())
    return shown


@contextmanager
def outlined(name: str) -> Iterator[None]:
    """Show warnings of a logger and those below it in outline, and pass nothing on to others."""
    logger, shown = logging.getLogger(name), outlines()
    before = (logger.level, logger.propagate)
    logger.addHandler(shown)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(shown)
        logger.level, logger.propagate = before
