"""Keys of programs: those with a known beginning, tokens, private keys, and assignments.

A known beginning is looked for as a plain string, which is fast; its pattern is only run on a text
that holds it. Each pattern takes a whole run of the characters that keys are made of, and cannot
begin inside one, so that no character is looked at from more than one start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from truespan.ingest.sanitize.audit import API_KEY, Finding
from truespan.ingest.sanitize.fold import HIDDEN, before, by_part, lowered, places
from truespan.ingest.sanitize.validators import looks_random

_LONGEST = 2000
_RUN = r"[0-9A-Za-z_-]"


def _known(body: str, edge: str = _RUN) -> re.Pattern[str]:
    return re.compile(rf"(?<!{edge})(?:{body})(?!{edge})")


_Keys = tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]

_BEGINNING: _Keys = (
    ("sk", ("sk-",), _known(rf"sk-{_RUN}{{20,{_LONGEST}}}")),
    ("aws", ("AKIA", "ASIA"), _known("A[KS]IA[0-9A-Z]{16}")),
    (
        "github",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        _known("gh[pousr]_[0-9A-Za-z]{36,255}", "[0-9A-Za-z]"),
    ),
    ("github", ("github_pat_",), _known("github_pat_[0-9A-Za-z_]{22,255}", "[0-9A-Za-z]")),
    ("gitlab", ("glpat-",), _known(rf"glpat-{_RUN}{{20,300}}")),
    ("slack", ("xox",), _known("xox[abceoprs]-[0-9][0-9A-Za-z-]{9,300}")),
    ("slack", ("xapp-",), _known("xapp-[0-9A-Za-z-]{20,300}")),
    ("google", ("AIza",), _known(rf"AIza{_RUN}{{35}}")),
    ("google", ("ya29.",), _known(rf"ya29\.{_RUN}{{20,{_LONGEST}}}")),
    ("google", ("GOCSPX-",), _known(rf"GOCSPX-{_RUN}{{28}}")),
    ("stripe", ("whsec_",), _known("whsec_[0-9A-Za-z]{24,255}")),
    ("twilio", ("SK",), _known("SK[0-9a-f]{32}")),
    ("sendgrid", ("SG.",), _known(rf"SG\.{_RUN}{{16,64}}\.{_RUN}{{16,128}}")),
    ("npm", ("npm_",), _known("npm_[0-9A-Za-z]{36}")),
    ("pypi", ("pypi-",), _known(rf"pypi-{_RUN}{{50,{_LONGEST}}}")),
    ("huggingface", ("hf_",), _known("hf_[0-9A-Za-z]{30,64}")),
    ("shopify", ("shp",), _known("shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}")),
    ("mailgun", ("key-",), _known("key-[0-9a-f]{32}")),
    ("databricks", ("dapi",), _known("dapi[0-9a-f]{32}(?:-[0-9])?")),
    ("groq", ("gsk_",), _known("gsk_[0-9A-Za-z]{40,80}")),
    ("xai", ("xai-",), _known("xai-[0-9A-Za-z]{40,100}")),
    ("replicate", ("r8_",), _known("r8_[0-9A-Za-z]{32,64}")),
    ("age", ("AGE-SECRET-KEY-1",), _known("AGE-SECRET-KEY-1[0-9A-Z]{58}")),
    ("jwt", ("eyJ",), _known(rf"eyJ{_RUN}{{8,4000}}\.eyJ{_RUN}{{8,8000}}\.{_RUN}{{0,2000}}")),
)
"""Whose keys they are, what they begin with, and their pattern."""
_BY_BEGINNING = {
    beginning: (rule, pattern)
    for rule, beginnings, pattern in _BEGINNING
    for beginning in beginnings
}
_BY_PART = by_part(_BY_BEGINNING, ("_", "-"))

_HOLDING: _Keys = (
    ("stripe", ("_live_", "_test_"), _known("[spr]k_(?:live|test)_[0-9A-Za-z]{16,255}")),
    ("digitalocean", ("_v1_",), _known("do[opr]_v1_[0-9a-f]{64}")),
    ("telegram", (":AA",), _known(rf"[0-9]{{8,10}}:AA{_RUN}{{33}}")),
    (
        "slack",
        ("hooks.slack.com/services/",),
        re.compile("(?<=hooks.slack.com/services/)[0-9A-Za-z/]{20,120}(?![0-9A-Za-z/])"),
    ),
)
"""Whose keys they are, what they hold, and their pattern."""


def scan_api_keys(view: str) -> Iterator[Finding]:
    """Give the keys of a text, overlapping ones too."""
    for at, beginning in places(view, _BY_PART):
        rule, pattern = _BY_BEGINNING[beginning]
        found = pattern.match(view, at)
        if found and (rule != "sk" or _is_drawn(found[0])):
            yield Finding(*found.span(), API_KEY, f"api_key.{rule}")
    for rule, needles, pattern in _HOLDING:
        if any(needle in view for needle in needles):
            for found in pattern.finditer(view):
                yield Finding(*found.span(), API_KEY, f"api_key.{rule}")
    if "PRIVATE KEY" in view:
        yield from _private_keys(view)
    yield from _assignments(view)


def _is_drawn(key: str) -> bool:
    """Say whether one stretch of a key is long and random; `sk-` begins other names too."""
    longest = max(re.split("[-_]", key), key=len)
    return len(longest) >= 16 and any(map(str.isdigit, longest)) and looks_random(longest)


# Private keys

_PEM_LENGTH = 20_000
_PEM_BEGIN = re.compile("-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile("-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINES = re.compile(r"(?:^[0-9A-Za-z+/=]{16,80}[ \t]{0,4}\n){1,400}\Z", re.MULTILINE)


def _private_keys(view: str) -> Iterator[Finding]:
    """Give private keys. One whose end is in another block goes on to the end of this one."""
    done = 0
    for begin in _PEM_BEGIN.finditer(view):
        if begin.start() < done:
            continue
        limit = min(begin.start() + _PEM_LENGTH, len(view))
        hidden = view.find(HIDDEN, begin.end(), limit)
        limit = hidden if hidden >= 0 else limit
        end = _PEM_END.search(view, begin.end(), limit)
        done = end.end() if end else limit
        yield Finding(begin.start(), done, API_KEY, "api_key.private_key")
    for end in _PEM_END.finditer(view, done):
        first = max(end.start() - _PEM_LENGTH, done)
        done = end.end()
        lines = _PEM_LINES.search(view[first : end.start()])
        if lines:
            yield Finding(first + lines.start(), end.end(), API_KEY, "api_key.private_key")


# Assignments

_WORDS = ("key", "token", "secret", "credential", "authorization", "bearer")
_OF_A_KEY = re.compile(
    r"(?:api|app|access|account|auth|client|encryption|hmac|license|master|secret|service|shared|"
    r"signing|subscription|webhook)(?:[ _-]?secret)?[ _-]?$",
    re.IGNORECASE,
)
_VALUE = r"([0-9A-Za-z_+/.~-]{16,512}={0,2})(?![0-9A-Za-z_+/~@(\[-])"
_ASSIGNED = re.compile(
    r"[0-9A-Za-z_]{0,16}[\"'`\])]{0,2}[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}[\"'`]?"
    rf"(?:(?:bearer|basic|token) )?{_VALUE}",
    re.IGNORECASE,
)
_BORNE = re.compile(rf"[ \t]{{1,4}}{_VALUE}")


def _assignments(view: str) -> Iterator[Finding]:
    for at, word in places(lowered(view), {"": _WORDS}):
        found = (_BORNE if word == "bearer" else _ASSIGNED).match(view, at + len(word))
        if found and looks_random(found[1]) and _is_of_a_key(view, word, at):
            yield Finding(*found.span(1), API_KEY, "api_key.assigned")


def _is_of_a_key(view: str, word: str, at: int) -> bool:
    """Say whether a word means a secret; there are many other keys than those of programs."""
    return word != "key" or _OF_A_KEY.search(before(view, at, 24)) is not None
