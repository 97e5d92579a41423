"""Sanitising: finds values that identify people or give access, and replaces them if wanted.

Owns: which values are found, what replaces them, and the record of how many there were.
Does not own: reading profile files and keys, cleaning, where audit records are kept.
Must hold: off changes nothing and records nothing; shadow changes nothing; sanitising twice gives
the result of sanitising once; no record reveals anything about a value; the same text under the
same settings always gives the same result; the time is linear in the length of the text.

A `Sanitizer` handles a text, `sanitizer.sanitize_document` a loaded document. The rules are
imported on first use.

Names of people and postal addresses are not found: no pattern separates them from other words.
"""

from __future__ import annotations

from truespan.sanitize.findings import (
    LABELS,
    AuditCounts,
    AuditEntry,
    Edit,
    Finding,
    Mode,
    Sanitized,
    Style,
)
from truespan.sanitize.profile import Profile, parse_profile
from truespan.sanitize.sanitizer import Sanitizer

__all__ = [
    "LABELS",
    "AuditCounts",
    "AuditEntry",
    "Edit",
    "Finding",
    "Mode",
    "Profile",
    "Sanitized",
    "Sanitizer",
    "Style",
    "parse_profile",
]
