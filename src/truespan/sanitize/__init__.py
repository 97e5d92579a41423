"""Sanitising: values that identify people or open doors are found and, if wanted, replaced.

Owns: which values are found, what stands in their place, and the record of how many there were.
Does not own: reading profile files and keys, cleaning, where audit records are kept.
Must hold: off changes nothing and records nothing; shadow changes nothing; sanitising twice is
sanitising once; no record tells anything of a value; the same text under the same settings gives
the same result on any day; the work on a text is at most its length times a constant.

A text is given to a `Sanitizer`, a loaded document to `document.sanitized_loaded`; the rules are
loaded when there is something to look at.

Names of people and postal addresses are not found: no rule of form tells them from other words.
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
