"""Checks of texts: whether a reply is supported by its sources, and personal data in documents.

Owns: the support check, and the sanitizer.
Does not own: the check of quotes, which every answer needs (answers).
Must hold: a check that is configured and missing refuses, and is never skipped.
"""

from __future__ import annotations

from truespan.tables import Tables

_HERE = "truespan.extensions.checks"


def register(tables: Tables) -> None:
    """Add the support check and the sanitizer."""
    tables.answer_checks["support"] = f"{_HERE}.support.reply:check_reply"
    tables.components["sanitizer"] = f"{_HERE}.sanitize.setup:make_sanitizer"
