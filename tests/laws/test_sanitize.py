"""Laws of sanitizing: idempotent, complete, and linear in time."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.promises import proves
from tests.support.rows import each_row
from truespan.extensions.checks.sanitize.findings import Mode, Style, apply_edits, move_offsets
from truespan.extensions.checks.sanitize.profile import parse_profile
from truespan.extensions.checks.sanitize.sanitizer import UNSETTLED, Sanitizer, find
from truespan.text.clean import clean

PROFILE = parse_profile(
    """
    allow = ["bob@example.com"]
    allow_domains = ["example.org"]
    phone_regions = ["DE"]

    [[rule]]
    label = "STAFF"
    pattern = "[A-Z]{2}-[0-9]{3,5}"
    """
)
OFF, SHADOW = Sanitizer(Mode.OFF), Sanitizer(Mode.SHADOW, profile=PROFILE)
ON = Sanitizer(Mode.ON, profile=PROFILE)
PSEUDONYMS = Sanitizer(Mode.ON, Style.PSEUDONYM, b"sixteen bytes or", PROFILE)

VALUES = [
    "ann@example.com", "bob@example.com", "eve%40example.net", "4111 1111 1111 1111",
    "378282246310005", "DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "192.168.0.1",
    "2001:db8::1", "+49 30 901820", "(212) 736-5000", "030 901820", "85.07.30-033.28",
    "12345678Z", "sk-aB3dE5fG7hI9jK1lM3nO5pQ7", "AKIAQ7RS9TU1VW3XY5ZA",
    "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5", "eyJabcdefgh1.eyJabcdefgh1.abc",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "aB3dE5fG7hI9jK1lM3nO5pQ7\n",
    "AB-1234", "[EMAIL]", "[PHONE:0123456789]",
]  # fmt: skip
WORDS = [
    "password: ", "pwd=", "--password ", "https://ann:", "api_key = ", "Bearer ", "version ",
    "Tel. ", "BSN ", "ISBN ", "the", "x", "1", "11", "0", "1.2", "４", "١", "密码：", "é",
]  # fmt: skip
GAPS = ["", "", "", " ", " ", "\n", "-", ".", ",", ":", "/", "@", "_", '"', "'", "(", ")", "[", "]"]
PIECES = st.lists(
    st.sampled_from([*VALUES, *VALUES, *WORDS, *GAPS, *GAPS]) | st.text(max_size=3), max_size=12
)
TEXTS = st.one_of(
    PIECES.map("".join),
    st.text("0123456789 .-/+()\n", max_size=80),
    st.text("ab@.:/%-_=[]\"' \n", max_size=80),
    st.text("aA0fF:.-_ ", max_size=80),
    st.text(max_size=60),
).map(clean)


@pytest.mark.parametrize("sanitizer", [ON, PSEUDONYMS], ids=["redact", "pseudonym"])
@examples(300)
@example("10.0.0.5sk-aB3dE5fG7hI9jK1lM3nO5pQ7")
@example("password: [PASSWORD]")
@example("85.07.30-033.28[EMAIL]z-")
@example("a password:bob@example.com[-----BEGIN PRIVATE KEY-----eve@example.net")
@example(f"-----BEGIN PRIVATE KEY-----'@{VALUES[16]} /bob@example.com-----BEGIN PRIVATE KEY-----:")
@example(f"PPS {'a' * 60}@example.com 2879216PB")
@example("sk-aB3dE5fG7hI9jK1lM3nO5pQ7\n--password 8DE89")
@given(text=TEXTS)
def test_sanitising_is_idempotent(sanitizer: Sanitizer, text: str) -> None:
    once = sanitizer.apply(text)
    twice = sanitizer.apply(once.text)

    assert (twice.text, twice.edits, twice.counts.total()) == (once.text, (), 0)


@proves("sanitise.before-chunking")
@examples(200)
@given(TEXTS)
def test_no_finding_survives(text: str) -> None:
    assert SHADOW.findings(ON.apply(text).text) == []


@proves("sanitise.audit-and-off")
@examples(100)
@given(TEXTS)
def test_off_and_shadow_change_nothing_and_only_shadow_counts(text: str) -> None:
    off, shadow = OFF.apply(text), SHADOW.apply(text)

    assert off.text == shadow.text == text
    assert off.edits == shadow.edits == ()
    assert not off.counts
    assert shadow.counts == ON.apply(text).counts


@examples(200)
@given(TEXTS)
def test_findings_ascend_without_overlap_and_sanitising_ends(text: str) -> None:
    findings = SHADOW.findings(text)
    edges = [edge for each in findings for edge in (each.start, each.end)]

    assert edges == sorted(edges)
    assert all(each.start < each.end <= len(text) for each in findings)
    assert UNSETTLED not in {each.rule for each in findings}
    assert findings == SHADOW.findings(text)


@examples(150)
@given(TEXTS)
def test_edits_make_the_text_and_move_offsets_with_it(text: str) -> None:
    done = PSEUDONYMS.apply(text)
    places = move_offsets(range(len(text) + 1), done.edits)
    inside = {at for edit in done.edits for at in range(edit.start, edit.end)}
    starts = {edit.start: edit for edit in done.edits}

    assert apply_edits(text, done.edits) == done.text
    assert places == sorted(places)
    assert places[-1] == len(done.text)
    for at, char in enumerate(text):
        if at not in inside:
            assert done.text[places[at]] == char
        elif at in starts:
            assert done.text.startswith(starts[at].replacement, places[at])


@examples(100)
@given(st.sampled_from(VALUES[:20]), st.text("\u200b\u00ad\u2060", min_size=1, max_size=2))
def test_invisible_characters_hide_no_value(value: str, unseen: str) -> None:
    hidden = unseen.join(value)

    assert ON.apply(clean(hidden)).text == ON.apply(value).text


# The work is bounded

RULES = ("contacts", "numbers", "secrets")


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    def within(name: str, value: Any) -> Iterator[tuple[str, re.Pattern[str]]]:
        if isinstance(value, re.Pattern):
            yield name, value
        elif isinstance(value, tuple):
            for each in value:
                yield from within(name, each)

    for rule in RULES:
        module = import_module(f"truespan.extensions.checks.sanitize.{rule}")
        for name, value in vars(module).items():
            yield from within(f"{rule}.{name}", value)


def repetitions(items: Any) -> Iterator[int]:
    """Yield the upper bound of each repetition in a parsed pattern, at any depth."""
    for kind, content in items:
        if str(kind).endswith("REPEAT"):
            yield int(content[1])
        for part in content if isinstance(content, (list, tuple)) else [content]:
            for each in part if isinstance(part, list) else [part]:
                if type(each).__name__ == "SubPattern":
                    yield from repetitions(each)


def test_sanitizer_patterns_have_bounded_repeats() -> None:
    parse = import_module("re._parser").parse
    bounds = {
        name: max(repetitions(parse(pattern.pattern)), default=0) for name, pattern in patterns()
    }

    assert len(bounds) > 30
    assert {name: bound for name, bound in bounds.items() if bound > 10_000} == {}
    assert max(repetitions(parse("(a(?:b|c+))?"))) > 10_000


def calls_made(text: str) -> int:
    """Return the number of function calls, including those in C, that sanitising a text takes."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        ON.apply(text)
    finally:
        sys.setprofile(None)
    return count


HOSTILE = [
    *("a@", "@", "a", "1", "1 ", ".", "-", "+", "+1", "0f", "QUJD", "1.1.1.1.", ":", "1:", "::"),
    *("a@b.cc ", "password:", "pwd=", "://a:b@", "api_key=", "eyJ", "eyJabcdefgh1.", "sk-", "[at]"),
    *("-----BEGIN RSA PRIVATE KEY-----\n", "A" * 40 + "\n-----END PRIVATE KEY-----\n", '"@', "%40"),
    *("DE89 ", "4111 1111 1111 1111 ", "+49 30 901820 ", "1.2.3.4 ", "[EMAIL]", "1\n", "X-1", "４"),
    *(f"{value} " for value in VALUES),
    *VALUES,
]


@each_row("unit", HOSTILE)
def test_sanitizer_time_is_linear_in_the_text(unit: str) -> None:
    find(unit, PROFILE)
    few, many = calls_made(unit * (1000 // len(unit))), calls_made(unit * (4000 // len(unit)))

    assert many <= 4.5 * few + 200
