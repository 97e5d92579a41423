"""Sanitizer profiles: custom labels, safe patterns and allowed values."""

import pytest

from tests.support.rows import each_row
from truespan.errors import InvalidConfiguration
from truespan.extensions.checks.sanitize.findings import Mode, Style
from truespan.extensions.checks.sanitize.profile import parse_profile
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer

RULE = """
[[rule]]
label = "EMPLOYEE"
pattern = '{}'
"""


def sanitized(text: str, profile: str) -> str:
    return Sanitizer(Mode.ON, profile=parse_profile(profile)).apply(text).text


LUHN, STAFF, IBAN = 'validator = "luhn"', 'context = ["Staff"]', "DE89 3704 0044 0532 0130 00"


@each_row(("profile", "text", "shown"), [
    (RULE.format("EMP-[0-9]{6}"), "Ask EMP-123456.", "Ask [EMPLOYEE]."),
    (RULE.format("EMP-[0-9]{3}"), "EMP-１２３", "[EMPLOYEE]"),
    # A validator checks the first group, and the whole value is replaced.
    (RULE.format("[0-9]{4}-[0-9]{4}") + LUHN, "1234-5674, 1234-5675", "[EMPLOYEE], 1234-5675"),
    (RULE.format("EMP-([0-9]{4})") + LUHN, "EMP-5678 EMP-5679", "[EMPLOYEE] EMP-5679"),
    # A context word stands before the value.
    (RULE.format("[0-9]{6}") + STAFF, "STAFF no. 123456", "STAFF no. [EMPLOYEE]"),
    (RULE.format("[0-9]{6}") + STAFF, "Order 123456, staff", "Order 123456, staff"),
    (RULE.format("[0-9]{6}") + STAFF, f"staff{'.' * 60}123456", f"staff{'.' * 60}123456"),
    # The longer finding wins.
    (RULE.format("[0-9]{4}"), "4111 1111 1111 1111 and 1234", "[CREDIT_CARD] and [EMPLOYEE]"),
    # Findings that uncover others end with their word, or with the whole text.
    (RULE.format("(?<![a-z])[a-z]{2}"), "ab", "[EMPLOYEE]"),
    (RULE.format("(?<![a-z])[a-z]{2}"), f"1 {'a' * 999} 2", f"1 {'[EMPLOYEE]' * 7} 2"),
    (RULE.format("(?<![a-z] )[a-z]{2}"), "aa " * 99, "[EMPLOYEE]"),
    (RULE.format("(?<![a-z] )[a-z]{2}"), "aa " * 3, "[EMPLOYEE] " * 3),
    # What is allowed protects itself alone.
    ('allow = ["a@b.org"]', "a@b.org ann@example.com", "a@b.org [EMAIL]"),
    ('allow = ["192.168.0.1"]', "192.168.0.1, 192.168.0.2", "192.168.0.1, [IP_ADDRESS]"),
    ('allow = ["ann@example.com"]', "bigann@example.com", "[EMAIL]"),
    (f'allow = ["{IBAN}"]\n' + RULE.format("[0-9]{4}"), IBAN, IBAN),
    ('allow_domains = ["example.com"]', "bob@mail.EXAMPLE.com", "bob@mail.EXAMPLE.com"),
    ('allow_domains = ["example.com"]', "ann@example.com", "ann@example.com"),
    ('allow_domains = ["example.com"]', "eve@badexample.com", "[EMAIL]"),
    ('without = ["IP_ADDRESS"]', "10.0.0.5 ann@example.com", "10.0.0.5 [EMAIL]"),
])  # fmt: skip
def test_profile_selects_replaced_values(profile: str, text: str, shown: str) -> None:
    assert sanitized(text, profile) == shown


def test_pattern_that_matches_anything_still_ends() -> None:
    profile = RULE.format("[^x]{5}")
    once = sanitized("abcdefgh ann@example.com ijklmnop", profile)
    assert sanitized(once, profile) == once


def test_whole_hidden_text_gets_a_pseudonym() -> None:
    rule = "[[rule]]\nlabel = 'IP_ADDRESS'\npattern = '(?<![a-z])[a-z]{2}'"
    pseudonyms = Sanitizer(Mode.ON, Style.PSEUDONYM, b"k" * 16, parse_profile(rule))
    assert pseudonyms.apply("a" * 999).text.count("[IP_ADDRESS:") == 7


@pytest.mark.parametrize(("pattern", "complaint"), [
    ("(a+)+", "without a bound"), ("a*b", "without a bound"), ("[0-9]+", "without a bound"),
    ("a{3,}", "without a bound"), (".*?x", "without a bound"), ("a{1,600}", "more than 512"),
    ("(?:a{1,50}){1,50}", "ways"), ("a{0,50}a{0,50}a{0,50}b", "ways"),
    ("(?:a|b|ab|ba){1,20}c", "ways"), ("(?:[0-9]{200}){5}", "characters"),
    (r"(a{1,3})\1", "refers back"), (r"(?P<x>a)(?P=x)", "refers back"),
    ("(a)?(?(1)b|c)", "refers back"), ("(?<=a{1,3})b", "cannot be read"),
    ("(unclosed", "cannot be read"), ("a{0,3}", "empty text"), (r"\b", "empty text"),
])  # fmt: skip
def test_pattern_with_unbounded_work_is_refused(pattern: str, complaint: str) -> None:
    with pytest.raises(InvalidConfiguration, match=complaint) as refused:
        parse_profile(RULE.format(pattern), "mine.toml")
    assert "mine.toml, rule 1" in refused.value.message


@pytest.mark.parametrize("pattern", [
    "EMP-[0-9]{6}", r"\b[A-Z]{2}\d{4,8}\b", r"(?:\d{1,3}\.){3}\d{1,3}", "(?i)staff ?[0-9]{3,5}",
    "(?<![0-9])[0-9]{5}(?![0-9])", "A(?:B|CD|EFG)?[0-9]{2}", "[a-f0-9]{64}", "X(?>[0-9]{1,9})",
])  # fmt: skip
def test_pattern_with_bounded_work_is_accepted(pattern: str) -> None:
    assert len(parse_profile(RULE.format(pattern)).rules) == 1


@pytest.mark.parametrize(("text", "complaint"), [
    ("not toml", "TOML"), ("colour = 1", "colour"), ("allow = 'x'", "allow"),
    ("allow = ['']", "allow"), ("without = ['NAMES']", "NAMES"),
    ("phone_regions = ['Germany']", "region"), ("rule = 3", "rules"), ("rule = [3]", "table"),
    ("[[rule]]\npattern = 'a'", "label"), ("[[rule]]\nlabel = 'low'\npattern = 'a'", "label"),
    ("[[rule]]\nlabel = 'FIGURE'\npattern = 'a'", "label"), ("[[rule]]\nlabel = 'OK'", "pattern"),
    ("[[rule]]\nlabel = 'OK'\npattern = 'a'\nvalidator = 'x'", "validator"),
    ("[[rule]]\nlabel = 'OK'\npattern = 'a'\nregex = 'x'", "regex"),
    ("[[rule]]\nlabel = 'OK'\npattern = 'a'\ncontext = 'x'", "context"),
])  # fmt: skip
def test_profile_with_an_unknown_member_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidConfiguration, match=complaint):
        parse_profile(text)


def test_allowed_values_are_neither_counted_nor_quoted() -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        parse_profile("allow = ['ann@example.com', 3]")
    assert "ann" not in str(refused.value)
    shadow = Sanitizer(Mode.SHADOW, profile=parse_profile('allow = ["ann@example.com"]'))
    assert shadow.apply("ann@example.com").counts.total() == 0
