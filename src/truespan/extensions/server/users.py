"""Users of an identity provider: the rights that the rules of the settings give them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from truespan.core.fields import MAX_LABEL_LENGTH
from truespan.engine.components import Components
from truespan.engine.tokens import MAX_NAME_LENGTH
from truespan.errors import NotAllowed
from truespan.extensions.server.identities import Identities, claim_values, expand
from truespan.types.ids import WorldId
from truespan.types.scope import AUDIENCE_VERBS, OWNER, UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import AccessRule, Principal

MAX_WORLDS = 50
"""Maximum number of worlds that claims may name; with more, a token grants nothing."""


def find_user(
    components: Components, identities: Identities, within: Authority, token: str
) -> Principal:
    """Return the user of a provider's token within an authority."""
    claims = identities.verifier.verify(token)
    suitable = (
        rule
        for rule in identities.rules
        if not rule.claim or rule.value in claim_values(claims, rule.claim)
    )
    rule = next(suitable, None)
    granted = None if rule is None else _authority(components, rule, claims)
    if granted is None or not granted.verbs:
        refusal = NotAllowed("use this library")
        refusal.advice = "You are signed in; the operator gives rights with [[auth.rules]]."
        raise refusal
    subject = str(claims["sub"])
    user = user_id(identities.verifier.issuer, subject)
    authority = within.within(granted)
    if granted != OWNER:
        authority = replace(authority, token=user)
    printable = "".join(filter(str.isprintable, subject))
    return Principal(user, authority, printable[:MAX_NAME_LENGTH])


def user_id(issuer: str, subject: str) -> str:
    """Return the id of a user, who owns conversations; subjects are unique for an issuer only."""
    spelled = f"{len(issuer)}:{issuer}{subject}"
    return f"user_{hashlib.sha256(spelled.encode()).hexdigest()[:32]}"


def _authority(
    components: Components, rule: AccessRule, claims: Mapping[str, Any]
) -> Authority | None:
    """Return the rights of a rule; None if a claim that it needs is missing."""
    readers: frozenset[str] | Unlimited = UNLIMITED
    if rule.reader:
        readers = _usable(expand((rule.reader,), claims))
        if len(readers) != 1:
            return None
    worlds = expand(rule.worlds, claims)
    if not isinstance(worlds, Unlimited):
        worlds = _find_worlds(components, _usable(worlds))
        if not worlds:
            return None
    # The metrics count the requests of all worlds.
    verbs = rule.verbs if isinstance(worlds, Unlimited) else rule.verbs - {Verb.OBSERVE}
    labels = expand(rule.labels, claims)
    if not isinstance(labels, Unlimited):
        labels, verbs = _usable(labels), verbs & AUDIENCE_VERBS
    return Authority(worlds, verbs, readers, audience=labels)


def _usable(names: frozenset[str] | Unlimited) -> frozenset[str]:
    """Return the names that can be names of worlds, labels or readers; others grant nothing."""
    if isinstance(names, Unlimited):
        return frozenset()
    return frozenset(
        name
        for name in names
        if len(name) <= MAX_LABEL_LENGTH and name.isprintable() and name == name.strip()
    )


def _find_worlds(components: Components, names: frozenset[str]) -> frozenset[WorldId]:
    """Return the worlds that names or ids stand for; names of absent worlds grant nothing."""
    if len(names) > MAX_WORLDS:
        return frozenset()
    found = (components.store.worlds.find(OWNER, name) for name in sorted(names))
    return frozenset(world.id for world in found if world is not None)
