"""Users of an identity provider: their tokens, and the names that rules make of their claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from truespan.types.scope import UNLIMITED, Unlimited
from truespan.types.token import CLAIM, AccessRule

MAX_VALUES: Final = 500
"""Maximum number of names that a template makes; a claim with more values grants nothing."""


class SignIn(Struct, frozen=True):
    """Options with which the page signs people in with the identity provider."""

    issuer: str
    client_id: str
    authorize_url: str
    token_url: str
    scope: str = "openid"


class IdentityVerifier(Protocol):
    """Verifier of the tokens of an identity provider."""

    issuer: str

    def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token; raise NotAllowed for every token that is not valid."""
        ...


class Identities(Struct, frozen=True):
    """The verifier of an identity provider's tokens, and the rules for its users."""

    verifier: IdentityVerifier
    rules: tuple[AccessRule, ...]
    sign_in: SignIn | None = None
    """Options of the page; None for tokens only."""


def claim_values(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a claim; none if it is absent, or has any other value.

    A claim inside another one is named with dots: `realm_access.roles`. A claim may also have dots
    in its own name, such as a URL. None are returned if a token has both: users can often choose
    the names of further claims, and neither may stand for the other.
    """
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if "." in name and (own := claims.get(name)) is not None:
        if value is not None:
            return []
        value = own
    values = value if isinstance(value, list) else [value]
    if len(values) > MAX_VALUES:
        return []
    return [text for text in values if isinstance(text, str) and text.strip()]


def expand(
    templates: tuple[str, ...] | Unlimited, claims: Mapping[str, Any]
) -> frozenset[str] | Unlimited:
    """Return the names that templates stand for; unlimited only if the operator configured "*"."""
    if isinstance(templates, Unlimited):
        return UNLIMITED
    return frozenset(name for template in templates for name in _fill(template, claims))


def _fill(template: str, claims: Mapping[str, Any]) -> Iterator[str]:
    found = CLAIM.search(template)
    if found is None:
        yield template
        return
    before, after = template[: found.start()], template[found.end() :]
    for value in claim_values(claims, found[1]):
        yield before + value + after
