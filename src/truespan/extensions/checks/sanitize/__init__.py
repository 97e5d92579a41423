"""Sanitizing: finds values that identify people or give access, and optionally replaces them.

Owns: the rules that find values, the replacements, and the audit counts.
Does not own: reading profile files and keys, cleaning, storing audit records.
Must hold: off changes nothing and records nothing; shadow changes nothing; sanitising twice gives
the result of sanitising once; no record reveals anything about a value; the same text under the
same settings always gives the same result; the time is linear in the length of the text.

A `Sanitizer` handles a text, `sanitizer.sanitize_document` a loaded document. The rules are
imported on first use.

Names of people and postal addresses are not found: no pattern distinguishes them from other words.
"""

from __future__ import annotations

from truespan.extensions.checks.sanitize.findings import Mode, Style
from truespan.extensions.checks.sanitize.profile import Profile, parse_profile
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer

__all__ = ["Mode", "Profile", "Sanitizer", "Style", "parse_profile"]
