"""Runs all rules on a text and resolves overlapping findings.

Hiding a finding can expose another: a number next to a key is found only after the key is gone. So
the rules run again on a text in which all findings are hidden, until nothing more is found. They
then see what they will see in the sanitised text, so sanitising it again changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from truespan.sanitize.contacts import scan_addresses, scan_emails, scan_phones
from truespan.sanitize.findings import API_KEY, HIDDEN, PASSWORD, Finding, fold, hide, hide_markers
from truespan.sanitize.numbers import scan_ibans, scan_numbers
from truespan.sanitize.profile import Profile
from truespan.sanitize.secrets import scan_api_keys, scan_passwords

ROUNDS = 12
"""Only a text made for it needs more rounds; it is then hidden as a whole."""
PATIENT = 6
"""After this many rounds a finding covers everything that touches it, to end chains."""
UNSETTLED = "unsettled"

_RUN = re.compile(rf"[^\s{HIDDEN}]+")
_DIGIT = re.compile("[0-9]")
_SECRET = frozenset({API_KEY, PASSWORD})


def find(text: str, profile: Profile, *, phones: bool) -> list[Finding]:
    """Return the findings in `text`, ascending and without overlaps."""

    def is_allowed(finding: Finding) -> bool:
        return profile.allows(text[finding.start : finding.end])

    view = fold(text)
    if "[" in text:
        view = hide_markers(text, view, profile.labels())
    findings: list[Finding] = []
    for turn in range(ROUNDS):
        new = _resolve_overlaps(_scan(view, profile, phones), is_allowed)
        if not new:
            return sorted(finding for finding in findings if not is_allowed(finding))
        new = new if turn < PATIENT else _widen(view, new)
        findings += new
        view = hide(view, new)
    return [Finding(0, len(text), findings[-1].label, UNSETTLED)]


def _scan(view: str, profile: Profile, phones: bool) -> Iterator[Finding]:
    scans: list[Callable[[str], Iterator[Finding]]] = [scan_emails, scan_api_keys, scan_passwords]
    if _DIGIT.search(view):
        scans += [scan_numbers, scan_ibans, scan_addresses]
        if phones:
            scans.append(partial(scan_phones, regions=profile.phone_regions))
    for scan in scans:
        yield from (finding for finding in scan(view) if finding.label not in profile.without)
    for rule in profile.rules:
        yield from rule.scan(view)


def _resolve_overlaps(
    candidates: Iterable[Finding], is_allowed: Callable[[Finding], bool]
) -> list[Finding]:
    """Choose findings that do not overlap.

    Allowed values come first, so that nothing covers them. Then secrets: they are known from their
    context, and a password can look like an address. Then longer before shorter findings, and
    earlier before later ones.
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
