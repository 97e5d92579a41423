"""What sanitising finds and leaves behind: findings, edits, and counts that tell nothing of values.

A finding has the place of a value and is only passed on inside the program. What is kept of it is
an audit record: which label, which rule, how often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

EMAIL = "EMAIL"
PHONE = "PHONE"
CREDIT_CARD = "CREDIT_CARD"
IBAN = "IBAN"
NATIONAL_ID = "NATIONAL_ID"
IP_ADDRESS = "IP_ADDRESS"
API_KEY = "API_KEY"
PASSWORD = "PASSWORD"  # noqa: S105 - the name of a label, not a password

LABELS = (EMAIL, PHONE, CREDIT_CARD, IBAN, NATIONAL_ID, IP_ADDRESS, API_KEY, PASSWORD)
"""The labels that are there without a profile."""


class Mode(StrEnum):
    """Whether values are looked for, and whether they are replaced."""

    OFF = "off"
    SHADOW = "shadow"
    """Values are counted; the text stays as it is."""
    ON = "on"


class Style(StrEnum):
    """What stands in place of a value."""

    REDACT = "redact"
    """The label alone: `[EMAIL]`."""
    PSEUDONYM = "pseudonym"
    """The label and a keyed hash: `[EMAIL:1a2b3c4d5e]`, the same for equal values."""


class Finding(NamedTuple):
    """A value at `text[start:end]`, and the rule that knew it."""

    start: int
    end: int
    label: str
    rule: str


class Edit(NamedTuple):
    """What is written in place of `text[start:end]`; offsets are those of the text before."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """How often one rule found something."""

    label: str
    rule: str
    count: int


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """The audit record of a text or a document, ordered by label and rule.

    It holds no value and nothing made from one: no length, no hash, no offset.
    """

    entries: tuple[AuditEntry, ...] = ()

    @property
    def total(self) -> int:
        """Return how many values were found."""
        return sum(entry.count for entry in self.entries)

    def by_label(self) -> dict[str, int]:
        """Return how many values each label has."""
        counts: Counter[str] = Counter()
        for entry in self.entries:
            counts[entry.label] += entry.count
        return dict(counts)


@dataclass(frozen=True, slots=True)
class Sanitized:
    """A text after sanitising, and what was done to it. Edits ascend and do not overlap."""

    text: str
    edits: tuple[Edit, ...] = ()
    counts: AuditCounts = AuditCounts()


def counted(findings: Iterable[Finding]) -> AuditCounts:
    """Return the audit record of findings."""
    counts = Counter((finding.label, finding.rule) for finding in findings)
    return AuditCounts(tuple(AuditEntry(*key, count) for key, count in sorted(counts.items())))


def joined(records: Iterable[AuditCounts]) -> AuditCounts:
    """Return one record for several."""
    counts: Counter[tuple[str, str]] = Counter()
    for record in records:
        for entry in record.entries:
            counts[entry.label, entry.rule] += entry.count
    return AuditCounts(tuple(AuditEntry(*key, count) for key, count in sorted(counts.items())))
