"""The sanitizer of texts, and of loaded documents with their labels, properties and figures."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from truespan.errors import InvalidConfiguration
from truespan.parsing.clean import clean
from truespan.sanitize.findings import (
    AuditCounts,
    Edit,
    Finding,
    Mode,
    Sanitized,
    Style,
    count_findings,
    merge_counts,
    move_offsets,
)
from truespan.sanitize.profile import Profile
from truespan.types.text import Block, Loaded, PageStart, PlacedFigure, Properties

RULES_VERSION = 1
"""Increased whenever the rules would change the result for some text."""

_SHORTEST_KEY = 16


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """Replaces values that should not be stored with markers.

    `key` is the key of the pseudonyms. With it, guesses about a replaced value can be tested.
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
        """Return the digest for the recipe of a revision: equal digests give equal texts.

        Off and shadow do not change texts and have the same digest. The key enters as a keyed hash,
        which does not reveal it.
        """
        if self.mode is not Mode.ON:
            return ""
        steps = {
            "rules": RULES_VERSION,
            "libraries": _library_versions(self.phones),
            "style": self.style,
            "key": self._key_digest(),
            "profile": self.profile.steps(),
        }
        return sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()

    def findings(self, text: str) -> list[Finding]:
        """Return the findings in a clean text, ascending and without overlaps; none if off."""
        if self.mode is Mode.OFF or not text:
            return []
        # Imported here: the rules take time to load, and most libraries have this off.
        from truespan.sanitize.detection import find

        return find(text, self.profile, phones=self.phones)

    def apply(self, text: str) -> Sanitized:
        """Sanitise a clean text and return it with its edits and audit record.

        Applied to its own result, it changes nothing.
        """
        findings = self.findings(text)
        if not findings:
            return Sanitized(text)
        counts = count_findings(findings)
        if self.mode is Mode.SHADOW:
            return Sanitized(text, (), counts)
        from truespan.sanitize.findings import apply_edits

        edits = tuple(Edit(found.start, found.end, self._marker(text, found)) for found in findings)
        return Sanitized(apply_edits(text, edits), edits, counts)

    def _marker(self, text: str, found: Finding) -> str:
        from truespan.sanitize.findings import pseudonym, redaction

        if self.style is Style.REDACT:
            return redaction(found.label)
        return pseudonym(found.label, text[found.start : found.end], self.key)

    def _key_digest(self) -> str:
        if self.style is Style.REDACT:
            return ""
        return hmac.digest(self.key, b"truespan sanitizer", "sha256").hex()


def _library_versions(phones: bool) -> list[str]:
    """Return the libraries that decide what a valid number is, with their versions."""
    from importlib.metadata import version

    names = ["python-stdnum", *(["phonenumbers"] if phones else [])]
    return [f"{name} {version(name)}" for name in names]


def sanitize_document(loaded: Loaded, sanitizer: Sanitizer) -> tuple[Loaded, AuditCounts]:
    """Sanitise a document and return it with its audit record.

    Each block and each label is searched by itself, so values that span blocks are not found. A
    label that several blocks share is counted once.
    """
    if sanitizer.mode is Mode.OFF:
        return loaded, AuditCounts()
    work = _DocumentSanitizer(sanitizer)
    kept = replace(
        loaded,
        blocks=tuple(work.block(block) for block in loaded.blocks),
        title=work.label(loaded.title),
        properties=work.properties(loaded.properties),
    )
    # In shadow mode nothing changes, not even what cleaning would change.
    return (kept if sanitizer.mode is Mode.ON else loaded), merge_counts(work.records)


class _DocumentSanitizer:
    """Sanitises the parts of one document."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer
        self._labels: dict[str, str] = {}
        self.records: list[AuditCounts] = []

    def block(self, block: Block) -> Block:
        text = clean(block.text)
        done = self._sanitizer.apply(text)
        self.records.append(done.counts)
        places = {offset: offset for offset in _offsets(block)}
        # Without findings a block stays as it is; it is cleaned later when it is assembled.
        if done.edits:
            offsets = _map_to_clean(block.text, text, list(places))
            places = dict(zip(places, move_offsets(offsets, done.edits), strict=True))
        return replace(
            block,
            text=done.text if done.edits else block.text,
            chapter=self.label(block.chapter),
            section=self.label(block.section),
            figures=tuple(self._figure(placed, places) for placed in block.figures),
            pages=tuple(PageStart(places[page.offset], page.page) for page in block.pages),
        )

    def label(self, label: str | None) -> str | None:
        """Sanitise a short text; its findings are counted the first time only."""
        if not label:
            return label
        if label not in self._labels:
            done = self._sanitizer.apply(clean(label))
            self.records.append(done.counts)
            self._labels[label] = done.text if done.edits else label
        return self._labels[label]

    def properties(self, properties: Properties) -> Properties:
        return replace(
            properties,
            title=self.label(properties.title),
            authors=tuple(self.label(author) or "" for author in properties.authors),
            keywords=tuple(self.label(word) or "" for word in properties.keywords),
            description=self.label(properties.description),
            publisher=self.label(properties.publisher),
            # Sources write any text where a date or a code belongs.
            created=self.label(properties.created),
            modified=self.label(properties.modified),
            language=self.label(properties.language),
        )

    def _figure(self, placed: PlacedFigure, places: dict[int, int]) -> PlacedFigure:
        figure = placed.figure
        alt, origin = self.label(figure.alt) or "", self.label(figure.origin) or ""
        return PlacedFigure(places[placed.offset], replace(figure, alt=alt, origin=origin))


def _offsets(block: Block) -> list[int]:
    figures = {placed.offset for placed in block.figures}
    return sorted(figures.union(page.offset for page in block.pages))


def _map_to_clean(text: str, clean_text: str, offsets: Sequence[int]) -> Sequence[int]:
    """Map ascending offsets of a text to offsets in the clean text.

    The parts between them are cleaned separately. That differs from the whole only where an offset
    divides characters that are cleaned together, such as those of a line break.
    """
    if text == clean_text:
        return offsets
    found: list[int] = []
    begin = length = 0
    for offset in offsets:
        length += len(clean(text[begin:offset]))
        found.append(min(length, len(clean_text)))
        begin = offset
    return found
