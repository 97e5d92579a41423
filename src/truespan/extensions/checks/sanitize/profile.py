"""Profiles: custom labels, and values that are never replaced.

A profile is a TOML text:

    allow = ["support@example.com"]        # exactly these are never replaced
    allow_domains = ["example.org"]        # nor addresses at these domains and below them
    without = ["IP_ADDRESS", "PHONE"]      # labels that are not searched for; PHONE is the slowest
    phone_regions = ["DE", "US"]           # phone numbers of these are found in national form too

    [[rule]]
    label = "EMPLOYEE"
    pattern = "EMP-([0-9]{6})"
    validator = "luhn"                     # optional: checks the first group, else the whole value
    context = ["employee", "staff"]        # optional: one of these must be shortly before it
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from msgspec import Struct

from truespan.errors import InvalidConfiguration
from truespan.extensions.checks.sanitize.findings import (
    HIDDEN,
    LABELS,
    PHONE,
    Finding,
    text_before,
    to_lower,
)
from truespan.extensions.checks.sanitize.numbers import NAMED

MAX_WAYS = 10_000
WIDEST = 512


def compile_pattern(pattern: str, where: str) -> re.Pattern[str]:
    """Compile a pattern; raise `InvalidConfiguration` unless its cost is bounded."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidConfiguration(f"{where}: the pattern cannot be read: {error}.") from None
    # The parser of the `re` module: another parser might read some patterns differently.
    tree: Any = import_module("re._parser").parse(pattern)
    ways = _ways_of(tree, where)
    if ways > MAX_WAYS:
        raise InvalidConfiguration(
            f"{where}: the pattern could be tried in more than {MAX_WAYS} ways at one place.",
            advice="Use fewer or smaller repetitions, and none inside another.",
        )
    narrowest, widest = tree.getwidth()
    if narrowest == 0:
        raise InvalidConfiguration(f"{where}: the pattern matches an empty text.")
    if widest > WIDEST:
        raise InvalidConfiguration(
            f"{where}: the pattern may match {widest} characters; {WIDEST} are allowed."
        )
    return compiled


def _ways_of(items: Any, where: str) -> int:
    """Return the maximum number of ways in which a sequence can match at one position."""
    ways = 1
    for kind, content in items:
        match str(kind):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT":
                continue
            case "BRANCH":
                ways *= sum(_ways_of(branch, where) for branch in content[1])
            case "SUBPATTERN":
                ways *= _ways_of(content[3], where)
            case "ASSERT" | "ASSERT_NOT":
                ways *= _ways_of(content[1], where)
            case "ATOMIC_GROUP":
                ways *= _ways_of(content, where)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, repeated = content
                if most > WIDEST:
                    raise InvalidConfiguration(
                        f"{where}: the pattern repeats something without a bound, or more than"
                        f" {WIDEST} times.",
                        advice="Give each repetition an upper bound, such as {1,64} instead of +.",
                    )
                once = _ways_of(repeated, where)
                ways *= sum(min(once**n, MAX_WAYS + 1) for n in range(least, most + 1))
            case _:
                raise InvalidConfiguration(
                    f"{where}: the pattern refers back to a group, which could run for long.",
                    advice="Write the repeated part out.",
                )
        ways = min(ways, MAX_WAYS + 1)
    return ways


_LABEL = re.compile("[A-Z][A-Z0-9_]{1,31}")
_RESERVED = "FIGURE"
_SEEN = re.compile(f"[^{HIDDEN}]+")
_REACH = 48
_MAX_RULES = 100
_KEYS = {"allow", "allow_domains", "without", "phone_regions", "rule"}
_RULE_KEYS = {"label", "pattern", "validator", "context"}


class ProfileRule(Struct, frozen=True):
    """A custom pattern; the rule of its findings is `profile.<number>`."""

    name: str
    label: str
    pattern: re.Pattern[str]
    validator: str | None = None
    context: tuple[str, ...] = ()

    def scan(self, view: str) -> Iterator[Finding]:
        """Yield the matches of the pattern in the visible parts of a text."""
        for stretch in _SEEN.finditer(view):
            for found in self.pattern.finditer(view, stretch.start(), stretch.end()):
                part = (found[1] if self.pattern.groups else found[0]) or ""
                value = "".join(filter(str.isalnum, part))
                if self.validator and not NAMED[self.validator](value):
                    continue
                context = to_lower(text_before(view, found.start(), _REACH)) if self.context else ""
                if not self.context or any(word in context for word in self.context):
                    yield Finding(*found.span(), self.label, self.name)


class Profile(Struct, frozen=True):
    """The content of a profile file; an empty profile changes nothing."""

    rules: tuple[ProfileRule, ...] = ()
    allow: frozenset[str] = frozenset()
    allow_domains: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    phone_regions: tuple[str, ...] = ()

    def labels(self) -> list[str]:
        return sorted({*LABELS, *(rule.label for rule in self.rules)})

    @property
    def finds_phones(self) -> bool:
        return PHONE not in self.without

    def allows(self, value: str) -> bool:
        """Return whether a value must not be replaced."""
        if value in self.allow:
            return True
        domain = value.lower().rpartition("@")[2] if self.allow_domains and "@" in value else ""
        return any(f".{domain}".endswith(f".{allowed}") for allowed in self.allow_domains)

    def steps(self) -> dict[str, object]:
        """Return everything that a profile decides as JSON values, for the digest."""
        rules = [
            [rule.label, rule.pattern.pattern, rule.validator, list(rule.context)]
            for rule in self.rules
        ]
        sets = (self.allow, self.allow_domains, self.without)
        return {"rules": rules, "sets": list(map(sorted, sets)), "regions": self.phone_regions}


def parse_profile(text: str, name: str = "profile") -> Profile:
    """Parse the TOML text of a profile; `name` is used in error messages."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfiguration(f"{name}: not valid TOML: {error}.") from None
    _refuse_unknown(name, table, _KEYS)
    rules = table.get("rule", [])
    if not isinstance(rules, list) or len(rules) > _MAX_RULES:
        raise InvalidConfiguration(f"{name}: give up to {_MAX_RULES} rules, each as [[rule]].")
    without = _strings(name, table, "without")
    if unknown := set(without).difference(LABELS):
        raise InvalidConfiguration(
            f"{name}: there is no label {', '.join(sorted(unknown))}.",
            advice=f"Choose from {', '.join(LABELS)}.",
        )
    regions = _strings(name, table, "phone_regions")
    if not all(re.fullmatch("[A-Z]{2}", region) for region in regions):
        raise InvalidConfiguration(f"{name}: a region has two capital letters, such as DE.")
    return Profile(
        rules=tuple(_rule(f"{name}, rule {at}", at, rule) for at, rule in enumerate(rules, 1)),
        allow=frozenset(_strings(name, table, "allow")),
        allow_domains=frozenset(
            domain.lower().lstrip("@.") for domain in _strings(name, table, "allow_domains")
        ),
        without=frozenset(without),
        phone_regions=tuple(regions),
    )


def _rule(where: str, number: int, table: Any) -> ProfileRule:
    if not isinstance(table, dict):
        raise InvalidConfiguration(f"{where}: a rule is a table.")
    _refuse_unknown(where, table, _RULE_KEYS)
    label, pattern, validator = (table.get(key) for key in ("label", "pattern", "validator"))
    if not isinstance(label, str) or not _LABEL.fullmatch(label) or label == _RESERVED:
        raise InvalidConfiguration(
            f"{where}: a label has 2 to 32 capital letters, digits and underscores, and is not"
            f" {_RESERVED}."
        )
    if not isinstance(pattern, str):
        raise InvalidConfiguration(f"{where}: a pattern is needed, as a string.")
    if validator is not None and validator not in NAMED:
        raise InvalidConfiguration(
            f"{where}: there is no such validator.", advice=f"Choose one of {', '.join(NAMED)}."
        )
    context = tuple(word.lower() for word in _strings(where, table, "context"))
    return ProfileRule(
        f"profile.{number}", label, compile_pattern(pattern, where), validator, context
    )


def _strings(where: str, table: dict[str, Any], key: str) -> list[str]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise InvalidConfiguration(f"{where}: {key!r} is a list of strings.")
    return values


def _refuse_unknown(where: str, table: dict[str, Any], known: set[str]) -> None:
    if unknown := set(table).difference(known):
        raise InvalidConfiguration(
            f"{where}: there is no key {', '.join(map(repr, sorted(unknown)))}.",
            advice=f"Known are {', '.join(sorted(known))}.",
        )
