"""Sanitizer profiles: custom labels, safe patterns and allowed values."""

import pytest

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


def test_a_rule_of_ones_own_finds_its_label() -> None:
    assert sanitized("Ask EMP-123456.", RULE.format("EMP-[0-9]{6}")) == "Ask [EMPLOYEE]."


def test_profile_validator_filters_values() -> None:
    profile = RULE.format("[0-9]{4}-[0-9]{4}") + 'validator = "luhn"'

    assert sanitized("1234-5674 and 1234-5675", profile) == "[EMPLOYEE] and 1234-5675"


def test_validator_checks_first_group_and_replaces_whole_value() -> None:
    profile = RULE.format("EMP-([0-9]{4})") + 'validator = "luhn"'

    assert sanitized("EMP-5678 EMP-5679", profile) == "[EMPLOYEE] EMP-5679"


def test_a_context_word_must_stand_before_the_value() -> None:
    profile = RULE.format("[0-9]{6}") + 'context = ["Staff"]'

    assert sanitized("STAFF no. 123456", profile) == "STAFF no. [EMPLOYEE]"
    assert sanitized("Order 123456, staff", profile) == "Order 123456, staff"
    assert sanitized("staff" + "." * 60 + "123456", profile).endswith("123456")


def test_the_longer_finding_wins_over_a_rule_of_ones_own() -> None:
    profile = RULE.format("[0-9]{4}")

    assert sanitized("4111 1111 1111 1111 and 1234", profile) == "[CREDIT_CARD] and [EMPLOYEE]"


def test_profile_rule_matches_full_width_digits() -> None:
    assert sanitized("EMP-１２３", RULE.format("EMP-[0-9]{3}")) == "[EMPLOYEE]"


def test_a_pattern_that_matches_anything_still_settles() -> None:
    profile = RULE.format("[^x]{5}")
    once = sanitized("abcdefgh ann@example.com ijklmnop", profile)

    assert sanitized(once, profile) == once


def test_chained_findings_end_with_their_word() -> None:
    profile = RULE.format("(?<![a-z])[a-z]{2}")

    assert sanitized("ab", profile) == "[EMPLOYEE]"
    assert sanitized("1 " + "a" * 999 + " 2", profile) == "1 " + "[EMPLOYEE]" * 7 + " 2"


def test_endless_findings_hide_the_whole_text() -> None:
    profile = RULE.format(r"(?<![a-z] )[a-z]{2}")
    text = "aa " * 99

    assert sanitized(text, profile) == "[EMPLOYEE]"
    assert sanitized("aa " * 3, profile) == "[EMPLOYEE] " * 3


def test_whole_hidden_text_gets_a_pseudonym() -> None:
    rule = "[[rule]]\nlabel = 'IP_ADDRESS'\npattern = '(?<![a-z])[a-z]{2}'"
    pseudonyms = Sanitizer(Mode.ON, Style.PSEUDONYM, b"k" * 16, parse_profile(rule))

    assert pseudonyms.apply("a" * 999).text.count("[IP_ADDRESS:") == 7


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("(a+)+", "without a bound"), ("a*b", "without a bound"), ("[0-9]+", "without a bound"),
        ("a{3,}", "without a bound"), (".*?x", "without a bound"), ("a{1,600}", "more than 512"),
        ("(?:a{1,50}){1,50}", "ways"), ("a{0,50}a{0,50}a{0,50}b", "ways"),
        ("(?:a|b|ab|ba){1,20}c", "ways"), ("(?:[0-9]{200}){5}", "characters"),
        (r"(a{1,3})\1", "refers back"), (r"(?P<x>a)(?P=x)", "refers back"),
        ("(a)?(?(1)b|c)", "refers back"), ("(?<=a{1,3})b", "cannot be read"),
        ("(unclosed", "cannot be read"), ("a{0,3}", "nothing"), (r"\b", "nothing"),
    ],
)  # fmt: skip
def test_a_pattern_that_could_run_for_long_is_refused(pattern: str, complaint: str) -> None:
    with pytest.raises(InvalidConfiguration, match=complaint) as refused:
        parse_profile(RULE.format(pattern), "mine.toml")

    assert "mine.toml, rule 1" in refused.value.message


@pytest.mark.parametrize(
    "pattern",
    [
        "EMP-[0-9]{6}", r"\b[A-Z]{2}\d{4,8}\b", r"(?:\d{1,3}\.){3}\d{1,3}",
        "(?i)staff ?[0-9]{3,5}", "(?<![0-9])[0-9]{5}(?![0-9])", "A(?:B|CD|EFG)?[0-9]{2}",
        "[a-f0-9]{64}", "X(?>[0-9]{1,9})",
    ],
)  # fmt: skip
def test_a_pattern_with_bounded_work_may_run(pattern: str) -> None:
    assert len(parse_profile(RULE.format(pattern)).rules) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("not toml", "TOML"),
        ("colour = 1", "colour"),
        ("allow = 'x'", "allow"),
        ("allow = ['']", "allow"),
        ("without = ['NAMES']", "NAMES"),
        ("phone_regions = ['Germany']", "region"),
        ("rule = 3", "rules"),
        ("rule = [3]", "table"),
        ("[[rule]]\npattern = 'a'", "label"),
        ("[[rule]]\nlabel = 'low'\npattern = 'a'", "label"),
        ("[[rule]]\nlabel = 'FIGURE'\npattern = 'a'", "label"),
        ("[[rule]]\nlabel = 'OK'", "pattern"),
        ("[[rule]]\nlabel = 'OK'\npattern = 'a'\nvalidator = 'x'", "validator"),
        ("[[rule]]\nlabel = 'OK'\npattern = 'a'\nregex = 'x'", "regex"),
        ("[[rule]]\nlabel = 'OK'\npattern = 'a'\ncontext = 'x'", "context"),
    ],
)
def test_a_profile_that_says_something_unknown_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidConfiguration, match=complaint):
        parse_profile(text)


def test_profile_error_does_not_quote_allowed_values() -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        parse_profile("allow = ['ann@example.com', 3]")

    assert "ann" not in str(refused.value)


# What is never replaced


def test_allowed_values_are_not_replaced() -> None:
    profile = 'allow = ["support@example.com", "192.168.0.1"]'
    text = "support@example.com, ann@example.com, 192.168.0.1, 192.168.0.2"

    assert sanitized(text, profile) == "support@example.com, [EMAIL], 192.168.0.1, [IP_ADDRESS]"


def test_an_allowed_value_protects_only_itself() -> None:
    assert sanitized("bigann@example.com", 'allow = ["ann@example.com"]') == "[EMAIL]"


def test_no_part_of_an_allowed_value_is_replaced() -> None:
    profile = 'allow = ["DE89 3704 0044 0532 0130 00"]\n' + RULE.format("[0-9]{4}")

    assert sanitized("DE89 3704 0044 0532 0130 00", profile) == "DE89 3704 0044 0532 0130 00"


def test_addresses_at_allowed_domains_are_not_replaced() -> None:
    profile = 'allow_domains = ["example.com"]'
    text = "ann@example.com bob@mail.EXAMPLE.com eve@badexample.com"

    assert sanitized(text, profile) == "ann@example.com bob@mail.EXAMPLE.com [EMAIL]"


def test_allowed_values_are_not_counted() -> None:
    shadow = Sanitizer(Mode.SHADOW, profile=parse_profile('allow = ["ann@example.com"]'))

    assert shadow.apply("ann@example.com").counts.total == 0


def test_labels_can_be_left_out() -> None:
    text = "10.0.0.5 ann@example.com"

    assert sanitized(text, 'without = ["IP_ADDRESS"]') == "10.0.0.5 [EMAIL]"
