"""Provider keys, access tokens, idempotency keys, and rules for users of an identity provider."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from truespan.types.ids import WorldId
from truespan.types.scope import (
    AUDIENCE_VERBS,
    OWNER,
    UNLIMITED,
    WORLD_VERBS,
    Authority,
    Unlimited,
    Verb,
)


class Secret:
    """Text that only `reveal` returns: not repr, str, format or pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be pickled")


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """An API key of a provider. `name` identifies it in messages, logs and the store.

    `models` are the models it may be used for; an empty tuple means none, and None means any.
    """

    provider: str
    name: str
    secret: Secret = field(repr=False)
    enabled: bool = True
    models: tuple[str, ...] | None = None

    def serves(self, model: str) -> bool:
        return self.enabled and (self.models is None or model in self.models)


ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
_FORM = re.compile(r"ts_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)
_NO_DIGEST: Final = hashlib.sha256(b"").digest()
"""A digest that no token has, because no token is empty."""


class TokenState(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class TokenRecord(Struct, frozen=True):
    """A stored token. Its secret is not stored; it was shown once when the token was created."""

    id: str
    name: str
    worlds: frozenset[WorldId] | Unlimited
    """Worlds of the token; deleted worlds are removed, and an empty set means none."""
    verbs: frozenset[Verb]
    readers: frozenset[str] | Unlimited = UNLIMITED
    audience: frozenset[str] | Unlimited = UNLIMITED
    """Labels of the token; without any, it sees documents for everyone only."""
    impersonate: bool = False
    """Whether a request with the token may name labels that the token does not have."""
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None

    def state(self, now: float) -> TokenState:
        """Return the state at `now`; at its expiry time a token is expired."""
        if self.revoked_at is not None:
            return TokenState.REVOKED
        if self.expires_at is not None and now >= self.expires_at:
            return TokenState.EXPIRED
        return TokenState.ACTIVE

    def authority(self, within: Authority = OWNER) -> Authority:
        """Return the authority that both the token and `within` allow.

        A record with readers or labels and further verbs was not written by Truespan; it only
        allows following those readers, or reading.
        """
        bound = not isinstance(self.readers, Unlimited)
        verbs = self.verbs & {Verb.FOLLOW} if bound else self.verbs
        if not isinstance(self.audience, Unlimited):
            verbs &= AUDIENCE_VERBS
        if verbs == WORLD_VERBS and self.worlds is UNLIMITED:
            # A token for everything that was made before there was `observe`.
            verbs = frozenset(Verb)
        return within.within(Authority(self.worlds, verbs, self.readers, audience=self.audience))


class Principal(Struct, frozen=True):
    """The caller: id and name of the token, if any, and its authority."""

    token: str | None
    authority: Authority
    name: str | None = None
    impersonates: bool = False
    """Whether the caller may name labels that it does not have."""

    @property
    def identity(self) -> str:
        """Return the identity that owns stored replies and sessions: the token with its labels."""
        return self.authority.token or self.token or ""

    def for_audience(self, labels: frozenset[str]) -> Principal:
        """Return the caller restricted to these labels. Without the right to impersonate, the
        caller keeps only labels that it already has.

        Conversations belong to the caller and the labels, so that two users of an application
        never share one.
        """
        authority = self.authority.for_audience(labels)
        if self.impersonates:
            authority = replace(authority, audience=labels)
        spelled = msgspec.json.encode(sorted(labels))
        owner = f"{self.identity or 'owner'}:{hashlib.sha256(spelled).hexdigest()[:32]}"
        return Principal(self.token, replace(authority, token=owner), self.name)


class TokenSecret(Secret):
    """The secret text of a token, `ts_<id>_<256 random bits>`, which repr and pickle never show.

    Only its SHA-256 is stored. A slow hash protects guessable passwords; 256 random bits cannot be
    guessed, so it would only make each request more expensive. The id is part of what is hashed, so
    a digest copied to another token's row does not match.
    """

    __slots__ = ("id",)

    def __init__(self, text: str, token_id: str) -> None:
        super().__init__(text)
        self.id = token_id

    @classmethod
    def of(cls, id_bytes: bytes, secret_bytes: bytes) -> TokenSecret:
        # Only a new token needs it.
        import base64

        token_id = id_bytes.hex()
        spelled = base64.urlsafe_b64encode(secret_bytes).rstrip(b"=").decode()
        return cls(f"ts_{token_id}_{spelled}", token_id)

    @classmethod
    def parse(cls, text: object) -> TokenSecret | None:
        """Parse a token; None if the text does not have the form of a token."""
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        return cls(found[0], found[1]) if found else None

    def digest(self) -> bytes:
        """Return the digest that is stored instead of the secret."""
        return hashlib.sha256(self.reveal().encode()).digest()

    def proves(self, digest: bytes | None) -> bool:
        """Return whether a stored digest belongs to this secret, in constant time.

        Without a digest the same work is done, so an unknown token takes as long as a wrong one.
        """
        return hmac.compare_digest(self.digest(), _NO_DIGEST if digest is None else digest)

    def __repr__(self) -> str:
        return f"<TokenSecret of {self.id}>"


KEPT_SECONDS = 24 * 3600
"""Time for which a stored reply is returned to a repeated request."""
MAX_KEY_LENGTH = 255


class Claim(Struct, frozen=True):
    """A request with an idempotency key. `reply` is None while it runs in `process`."""

    fingerprint: bytes
    process: str
    reply: bytes | None


class ReplayKey(Struct, frozen=True):
    """An idempotency key of a caller; the same text from two callers is two keys."""

    caller: str
    text: str

    def digest(self) -> bytes:
        """Return the digest under which the request is stored; it does not reveal the key."""
        return self._derived("find", 32)

    def sealed(self, reply: bytes) -> bytes:
        """Encrypt or decrypt a reply, so that only the holder of the key can read it.

        A reply may name something that is deleted later. Each key encrypts a single reply.
        """
        stream = self._derived("seal", len(reply))
        return bytes(byte ^ mask for byte, mask in zip(reply, stream, strict=True))

    def _derived(self, purpose: str, length: int) -> bytes:
        parts = (purpose.encode(), self.caller.encode(), self.text.encode())
        spelled = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hashlib.shake_256(spelled).digest(length)


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


class SignIn(Struct, frozen=True):
    """Options with which the page signs people in with the identity provider."""

    issuer: str
    client_id: str
    authorize_url: str
    token_url: str
    scope: str = "openid"
