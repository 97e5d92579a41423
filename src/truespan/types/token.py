"""Provider keys, access tokens, idempotency keys, and rules for users of an identity provider."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

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


CLAIM: Final = re.compile(r"\{([^{}]+)\}")
"""Name of a claim in a template."""


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


def check_template(template: str) -> bool:
    """Return whether a template has at most one claim, and no other braces."""
    rest = CLAIM.sub("", template, count=1)
    return bool(template.strip()) and "{" not in rest and "}" not in rest
