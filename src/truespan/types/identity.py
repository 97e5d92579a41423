"""Rules that give the users of an OpenID Connect provider their rights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from truespan.types.scope import UNLIMITED, Unlimited, Verb

MAX_VALUES: Final = 500
"""Maximum number of names that a template makes; a claim with more values grants nothing."""
_CLAIM: Final = re.compile(r"\{([^{}]+)\}")


class AccessRule(Struct, frozen=True):
    """The rights of the users whose claim has a value; of all users without a claim.

    Worlds, labels and reader are templates: `group:{groups}` stands for one name for each value of
    the claim `groups`, and for none if the token does not have it.
    """

    claim: str = ""
    value: str = ""
    worlds: tuple[str, ...] | Unlimited = ()
    verbs: frozenset[Verb] = frozenset({Verb.READ})
    labels: tuple[str, ...] | Unlimited = ()
    """Labels of the user; without any, the user sees documents for everyone only."""
    reader: str = ""
    """Reader that the user acts as; blank for a user who is bound to none."""

    def matches(self, claims: Mapping[str, Any]) -> bool:
        """Return whether the rule is for the bearer of these claims."""
        return not self.claim or self.value in claim_values(claims, self.claim)


def claim_values(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a claim; none if it is absent, or has any other value.

    A claim inside another one is named with dots: `realm_access.roles`. A claim with dots in its
    own name, such as a URL, is found first.
    """
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    if len(values) > MAX_VALUES:
        return []
    return [text for text in values if isinstance(text, str) and text.strip()]


def expand(
    templates: tuple[str, ...] | Unlimited, claims: Mapping[str, Any]
) -> frozenset[str] | Unlimited:
    """Return the names that templates stand for; unlimited only if the operator wrote so."""
    if isinstance(templates, Unlimited):
        return UNLIMITED
    return frozenset(name for template in templates for name in _fill(template, claims))


def _fill(template: str, claims: Mapping[str, Any]) -> Iterator[str]:
    found = _CLAIM.search(template)
    if found is None:
        yield template
        return
    before, after = template[: found.start()], template[found.end() :]
    for value in claim_values(claims, found[1]):
        yield before + value + after


def check_template(template: str) -> bool:
    """Return whether a template has at most one claim, and no other braces."""
    rest = _CLAIM.sub("", template, count=1)
    return bool(template.strip()) and "{" not in rest and "}" not in rest
