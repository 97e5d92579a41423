"""The sanitizer of texts, and of loaded documents with their labels, properties and figures.

Hiding a finding can expose another: a number next to a key is found only after the key is hidden.
So the rules run again on a text with all findings hidden, until they find nothing more. Sanitizing
the result again therefore changes nothing.
"""

from __future__ import annotations

import hmac
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any

from msgspec.structs import asdict, replace

from truespan.errors import InvalidConfiguration
from truespan.extensions.checks.sanitize.findings import (
    API_KEY,
    HIDDEN,
    PASSWORD,
    Counts,
    Edit,
    Finding,
    Mode,
    Sanitized,
    Style,
    apply_edits,
    fold,
    hide,
    hide_markers,
    move_offsets,
    pseudonym,
)
from truespan.extensions.checks.sanitize.profile import Profile
from truespan.text.clean import clean
from truespan.types.document import AuditEntry
from truespan.types.text import Block, Loaded, PlacedFigure, Properties

RULES_VERSION = 1
"""Increased whenever the rules would change the result for some text."""
ROUNDS = 12
"""Only a crafted text needs more rounds; all of it is hidden then."""
PATIENT = 6
"""After this many rounds a finding covers everything that touches it, to end chains."""
UNSETTLED = "unsettled"

_MIN_KEY_LENGTH = 16
_RUN = re.compile(rf"[^\s{HIDDEN}]+")
_DIGIT = re.compile("[0-9]")
_SECRET = frozenset({API_KEY, PASSWORD})


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """Replaces values that should not be stored with markers.

    `key` is the key of the pseudonyms. With it, guesses about a replaced value can be tested.
    """

    mode: Mode = Mode.OFF
    style: Style = Style.REDACT
    key: bytes = field(default=b"", repr=False)
    profile: Profile = field(default_factory=Profile)

    def __post_init__(self) -> None:
        if (
            self.mode is Mode.ON
            and self.style is Style.PSEUDONYM
            and len(self.key) < _MIN_KEY_LENGTH
        ):
            raise InvalidConfiguration(
                f"Pseudonyms need a key of {_MIN_KEY_LENGTH} bytes or more.",
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
        from importlib.metadata import version

        keyed = self.style is Style.PSEUDONYM
        # These libraries define valid numbers.
        libraries = ["python-stdnum", *(["phonenumbers"] if self.profile.finds_phones else [])]
        steps = {
            "rules": RULES_VERSION,
            "libraries": [f"{name} {version(name)}" for name in libraries],
            "style": self.style,
            "key": hmac.digest(self.key, b"truespan sanitizer", "sha256").hex() if keyed else "",
            "profile": self.profile.steps(),
        }
        return sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()

    def findings(self, text: str) -> list[Finding]:
        """Return the findings in a clean text, ascending and without overlaps; none if off."""
        if self.mode is Mode.OFF or not text:
            return []
        return find(text, self.profile)

    def apply(self, text: str) -> Sanitized:
        """Sanitise a clean text. Applied to its own result, this changes nothing."""
        findings = self.findings(text)
        if not findings:
            return Sanitized(text)
        counts = Counter((finding.label, finding.rule) for finding in findings)
        if self.mode is Mode.SHADOW:
            return Sanitized(text, (), counts)
        redact = self.style is Style.REDACT
        edits = tuple(
            Edit(
                start, end, f"[{label}]" if redact else pseudonym(label, text[start:end], self.key)
            )
            for start, end, label, _ in findings
        )
        return Sanitized(apply_edits(text, edits), edits, counts)

    def filter(self, loaded: Loaded) -> tuple[Loaded, tuple[AuditEntry, ...]]:
        """Return a document sanitised, and the counts of findings to store with it."""
        loaded, counts = sanitize_document(loaded, self)
        redacted = self.mode is Mode.ON
        return loaded, tuple(AuditEntry(*key, counts[key], redacted) for key in sorted(counts))


def find(text: str, profile: Profile) -> list[Finding]:
    """Return the findings in `text`, ascending and without overlaps."""

    def is_allowed(finding: Finding) -> bool:
        return profile.allows(text[finding.start : finding.end])

    view = fold(text)
    if "[" in text:
        view = hide_markers(text, view, profile.labels())
    findings: list[Finding] = []
    for turn in range(ROUNDS):
        new = _resolve_overlaps(_scan(view, profile), is_allowed)
        if not new:
            return sorted(finding for finding in findings if not is_allowed(finding))
        new = new if turn < PATIENT else _widen(view, new)
        findings += new
        view = hide(view, new)
    return [Finding(0, len(text), findings[-1].label, UNSETTLED)]


def _scan(view: str, profile: Profile) -> Iterator[Finding]:
    # Imported on first use: the rules take time to load, and most libraries do not use them.
    from truespan.extensions.checks.sanitize.contacts import (
        scan_addresses,
        scan_emails,
        scan_phones,
    )
    from truespan.extensions.checks.sanitize.numbers import scan_ibans, scan_numbers
    from truespan.extensions.checks.sanitize.secrets import scan_api_keys, scan_passwords

    scans: list[Callable[[str], Iterator[Finding]]] = [scan_emails, scan_api_keys, scan_passwords]
    if _DIGIT.search(view):
        scans += [scan_numbers, scan_ibans, scan_addresses]
        if profile.finds_phones:
            scans.append(partial(scan_phones, regions=profile.phone_regions))
    for scan in scans:
        yield from (finding for finding in scan(view) if finding.label not in profile.without)
    for rule in profile.rules:
        yield from rule.scan(view)


def _resolve_overlaps(
    candidates: Iterable[Finding], is_allowed: Callable[[Finding], bool]
) -> list[Finding]:
    """Choose findings that do not overlap.

    The order of priority: allowed values; secrets, since a password can look like an address;
    longer findings; earlier findings.
    """

    def rank(finding: Finding) -> tuple[bool, bool, int, Finding]:
        is_secret = finding.label in _SECRET
        return not is_allowed(finding), not is_secret, finding.start - finding.end, finding

    ranked = sorted(set(candidates), key=rank)
    chosen: list[Finding] = []
    covered = bytearray(max((finding.end for finding in ranked), default=0))
    for finding in ranked:
        if covered.find(1, finding.start, finding.end) < 0:
            covered[finding.start : finding.end] = bytes([1]) * (finding.end - finding.start)
            chosen.append(finding)
    return sorted(chosen)


def _widen(view: str, findings: Iterable[Finding]) -> list[Finding]:
    """Extend findings to the next white space or hidden value on both sides."""
    runs = [run.span() for run in _RUN.finditer(view)]
    wide: list[Finding] = []
    for finding in findings:
        first = runs[bisect_right(runs, (finding.start, len(view))) - 1]
        last = runs[bisect_right(runs, (finding.end - 1, len(view))) - 1]
        if not wide or first[0] >= wide[-1].end:
            wide.append(Finding(first[0], last[1], finding.label, finding.rule))
    return wide


def sanitize_document(loaded: Loaded, sanitizer: Sanitizer) -> tuple[Loaded, Counts]:
    """Sanitize a document and return it with the counts of findings.

    Each block and each label is searched separately, so values that span blocks are not found. A
    label of several blocks is counted once.
    """
    if sanitizer.mode is Mode.OFF:
        return loaded, Counter()
    counts: Counts = Counter()

    @cache
    def label(text: Any) -> Any:
        if not text:
            return text
        done = sanitizer.apply(clean(text))
        counts.update(done.counts)
        return done.text if done.edits else text

    def place(placed: PlacedFigure, offsets: dict[int, int]) -> PlacedFigure:
        offset, figure = placed
        new = replace(figure, alt=label(figure.alt), origin=label(figure.origin))
        return PlacedFigure(offsets[offset], new)

    def sanitize_block(block: Block) -> Block:
        text = clean(block.text)
        done = sanitizer.apply(text)
        counts.update(done.counts)
        old = sorted({placed.offset for placed in (*block.figures, *block.pages)})
        # A block without findings is unchanged; it is cleaned when the text is assembled.
        new = move_offsets(_map_to_clean(block.text, text, old), done.edits) if done.edits else old
        offsets = dict(zip(old, new, strict=True))
        return replace(
            block,
            text=done.text if done.edits else block.text,
            chapter=label(block.chapter),
            section=label(block.section),
            figures=tuple(place(placed, offsets) for placed in block.figures),
            # The replaced value may have continued in the next row.
            header_rows=block.header_rows if done.text.count("\n") == text.count("\n") else 0,
            pages=tuple(page._replace(offset=offsets[page.offset]) for page in block.pages),
        )

    # All properties: sources may have any text in place of a date or a code.
    properties: dict[str, Any] = {
        name: tuple(map(label, value)) if isinstance(value, tuple) else label(value)
        for name, value in asdict(loaded.properties).items()
    }
    sanitized = replace(
        loaded,
        blocks=tuple(map(sanitize_block, loaded.blocks)),
        title=label(loaded.title),
        properties=Properties(**properties),
    )
    # In shadow mode nothing changes, not even what cleaning would change.
    return (sanitized if sanitizer.mode is Mode.ON else loaded), counts


def _map_to_clean(text: str, clean_text: str, offsets: Sequence[int]) -> Sequence[int]:
    """Map ascending offsets of a text to offsets in the clean text.

    The parts between offsets are cleaned separately. The result differs only if an offset divides
    characters that are cleaned together, such as those of a line break.
    """
    if text == clean_text:
        return offsets
    lengths = accumulate(len(clean(text[a:b])) for a, b in pairwise([0, *offsets]))
    return [min(length, len(clean_text)) for length in lengths]
