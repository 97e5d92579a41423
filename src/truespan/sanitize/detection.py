"""Detection: what all rules find in a text, and which of it counts where findings overlap.

A finding that is taken can bring another to light: a number that touched a key stands free once the
key is gone. So the rules look again, at a text in which everything found is out of sight, until
nothing more is found. What they then see is what they will see in the sanitised text, and that is
why sanitising it again changes nothing.
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

Scan = Callable[[str], Iterator[Finding]]

ROUNDS = 12
"""No text that was not made for it needs more; what goes on then is hidden as a whole."""
PATIENT = 6
"""After so many rounds a finding takes all that touches it, so that a chain of them ends."""
UNSETTLED = "unsettled"

_RUN = re.compile(rf"[^\s{HIDDEN}]+")
_DIGIT = re.compile("[0-9]")
_SECRET = frozenset({API_KEY, PASSWORD})


def find(text: str, profile: Profile, *, phones: bool) -> list[Finding]:
    """Return the findings in `text`, ascending, none overlapping another."""

    def is_allowed(each: Finding) -> bool:
        return profile.allows(text[each.start : each.end])

    view = fold(text)
    if "[" in text:
        view = hide_markers(text, view, profile.labels())
    found: list[Finding] = []
    for turn in range(ROUNDS):
        fresh = _settled(_candidates(view, profile, phones), is_allowed)
        if not fresh:
            return sorted(each for each in found if not is_allowed(each))
        fresh = fresh if turn < PATIENT else _widened(view, fresh)
        found += fresh
        view = hide(view, fresh)
    return [Finding(0, len(text), found[-1].label, UNSETTLED)]


def _candidates(view: str, profile: Profile, phones: bool) -> Iterator[Finding]:
    scans: list[Scan] = [scan_emails, scan_api_keys, scan_passwords]
    if _DIGIT.search(view):
        scans += [scan_numbers, scan_ibans, scan_addresses]
        if phones:
            scans.append(partial(scan_phones, regions=profile.phone_regions))
    for scan in scans:
        yield from (each for each in scan(view) if each.label not in profile.without)
    for rule in profile.rules:
        yield from rule.scan(view)


def _settled(candidates: Iterable[Finding], is_allowed: Callable[[Finding], bool]) -> list[Finding]:
    """Choose findings that do not overlap.

    What is allowed comes first, for nothing may touch it. Then come secrets: what they cover is
    known from its context, whatever it looks like, and a password can look like an address. Then
    the longer goes before the shorter one, and the earlier before the later.
    """

    def rank(each: Finding) -> tuple[bool, bool, int, Finding]:
        return not is_allowed(each), each.label not in _SECRET, each.start - each.end, each

    found = sorted(set(candidates), key=rank)
    taken: list[Finding] = []
    covered = bytearray(max((each.end for each in found), default=0))
    for each in found:
        if covered.find(1, each.start, each.end) < 0:
            covered[each.start : each.end] = bytes([1]) * (each.end - each.start)
            taken.append(each)
    return sorted(taken)


def _widened(view: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings that reach from white space to white space, or to what is hidden."""
    runs = [run.span() for run in _RUN.finditer(view)]
    wide: list[Finding] = []
    for each in findings:
        first = runs[bisect_right(runs, (each.start, len(view))) - 1]
        last = runs[bisect_right(runs, (each.end - 1, len(view))) - 1]
        if not wide or first[0] >= wide[-1].end:
            wide.append(Finding(first[0], last[1], each.label, each.rule))
    return wide
