"""The sanitiser: its settings, and what it does to one text."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from hashlib import sha256

from truespan.errors import InvalidConfiguration
from truespan.ingest.sanitize.audit import Edit, Finding, Mode, Sanitized, Style, counted
from truespan.ingest.sanitize.profile import Profile

RULES_VERSION = 1
"""Raised whenever the rules would find or write something else in some text."""

_SHORTEST_KEY = 16


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """Finds what should not be kept, and puts a marker in its place.

    `key` makes the pseudonyms. Who has it can tell whether a guessed value stood in a text; without
    it nobody can.
    """

    mode: Mode = Mode.OFF
    style: Style = Style.REDACT
    key: bytes = field(default=b"", repr=False)
    profile: Profile = field(default_factory=Profile)
    phones: bool = True

    def __post_init__(self) -> None:
        if self.mode is Mode.ON and self.style is Style.PSEUDONYM and len(self.key) < _SHORTEST_KEY:
            raise InvalidConfiguration(
                f"Pseudonyms need a key of {_SHORTEST_KEY} bytes or more.",
                advice="Give one, or use the style 'redact'.",
            )

    @property
    def digest(self) -> str:
        """Return what a revision's recipe holds of this: equal digests, equal texts.

        Off and shadow both leave texts as they are and so have one digest. Of the key it holds a
        keyed hash, from which the key cannot be had.
        """
        if self.mode is not Mode.ON:
            return ""
        steps = {
            "rules": RULES_VERSION,
            "libraries": _libraries(self.phones),
            "style": self.style,
            "key": self._key_digest(),
            "profile": self.profile.steps(),
        }
        return sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()

    def findings(self, text: str) -> list[Finding]:
        """Return what is found in a clean text, ascending and without overlaps; off, nothing."""
        if self.mode is Mode.OFF or not text:
            return []
        # Imported here: the rules take some time to load, and most libraries have this off.
        from truespan.ingest.sanitize.detect import find

        return find(text, self.profile, phones=self.phones)

    def apply(self, text: str) -> Sanitized:
        """Return a clean text as it is to be kept, with the edits made and the audit record.

        Applied to its own result it changes nothing.
        """
        findings = self.findings(text)
        if not findings:
            return Sanitized(text)
        counts = counted(findings)
        if self.mode is Mode.SHADOW:
            return Sanitized(text, (), counts)
        from truespan.ingest.sanitize.replace import edited

        edits = tuple(Edit(found.start, found.end, self._marker(text, found)) for found in findings)
        return Sanitized(edited(text, edits), edits, counts)

    def _marker(self, text: str, found: Finding) -> str:
        from truespan.ingest.sanitize.replace import pseudonym, redaction

        if self.style is Style.REDACT:
            return redaction(found.label)
        return pseudonym(found.label, text[found.start : found.end], self.key)

    def _key_digest(self) -> str:
        if self.style is Style.REDACT:
            return ""
        return hmac.digest(self.key, b"truespan sanitizer", "sha256").hex()


def _libraries(phones: bool) -> list[str]:
    """Return the libraries that decide what a valid number is, with their versions."""
    from importlib.metadata import version

    names = ["python-stdnum", *(["phonenumbers"] if phones else [])]
    return [f"{name} {version(name)}" for name in names]
