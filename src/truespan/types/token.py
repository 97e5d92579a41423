"""Access tokens: what is known of one, what it allows, and the secret that proves it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NoReturn

from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, UNLIMITED, Authority, Unlimited, Verb


class Secret:
    """Text that is only given out when asked for by name: not by repr, str, format or pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """One key of a provider. `name` is what messages, logs and the store call it.

    `models` are the models it may serve; an empty list means none, and None means any.
    """

    provider: str
    name: str
    secret: Secret = field(repr=False)
    enabled: bool = True
    models: tuple[str, ...] | None = None

    def serves(self, model: str) -> bool:
        """Say whether the key may be used for a model."""
        return self.enabled and (self.models is None or model in self.models)


ID_BYTES: Final = 8
SECRET_BYTES: Final = 32
_FORM = re.compile(r"ts_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)
_NOBODY: Final = hashlib.sha256(b"").digest()
"""A digest that no token has: every token's text is longer than nothing."""


class TokenState(StrEnum):
    """How a token stands."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is known of a token. Its secret is not: whoever has it was shown it once."""

    id: str
    name: str
    worlds: frozenset[WorldId] | Unlimited
    """Worlds that are left; one that is deleted goes, and an empty set is none at all."""
    verbs: frozenset[Verb]
    readers: frozenset[str] | Unlimited = UNLIMITED
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None

    def state(self, now: float) -> TokenState:
        """Say how the token stands; at the very moment of its expiry it is expired."""
        if self.revoked_at is not None:
            return TokenState.REVOKED
        if self.expires_at is not None and now >= self.expires_at:
            return TokenState.EXPIRED
        return TokenState.ACTIVE

    def authority(self, within: Authority = OWNER) -> Authority:
        """Return what the token allows of what `within` allows, and never more than either.

        A record that binds readers and names wider verbs cannot come from us; whoever wrote it, it
        allows no more than following them.
        """
        bound = not isinstance(self.readers, Unlimited)
        verbs = self.verbs & {Verb.FOLLOW} if bound else self.verbs
        return within.within(Authority(self.worlds, verbs, self.readers))


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks: by which token, if by any, and what that allows."""

    token: str | None
    authority: Authority


class TokenSecret:
    """The text that proves a token, `ts_<id>_<256 random bits>`. No accident shows or stores it.

    What is kept of it is its SHA-256. A slow hash guards what people choose and others can guess;
    nobody can try 2**256 texts, so a slow one would only make each request dearer. The id is part
    of what is hashed, so a digest that is moved to another token's row opens nothing.
    """

    __slots__ = ("_text", "id")

    def __init__(self, text: str, token_id: str) -> None:
        self._text = text
        self.id = token_id

    @classmethod
    def of(cls, id_bytes: bytes, secret_bytes: bytes) -> TokenSecret:
        """Return the secret that is spelled by random bytes."""
        token_id = id_bytes.hex()
        spelled = base64.urlsafe_b64encode(secret_bytes).rstrip(b"=").decode()
        return cls(f"ts_{token_id}_{spelled}", token_id)

    @classmethod
    def parse(cls, text: object) -> TokenSecret | None:
        """Return what a caller gave, if it is spelled like a token; None for anything else."""
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        return cls(found[0], found[1]) if found else None

    def reveal(self) -> str:
        """Return the text itself, to be shown once."""
        return self._text

    def digest(self) -> bytes:
        """Return what is kept in the place of the secret."""
        return hashlib.sha256(self._text.encode()).digest()

    def proves(self, digest: bytes | None) -> bool:
        """Say whether a kept digest is this secret's, in a time that does not tell how nearly.

        Without one the same work is done, so that an unknown token takes as long as a wrong one.
        """
        return hmac.compare_digest(self.digest(), _NOBODY if digest is None else digest)

    def __repr__(self) -> str:
        return f"<TokenSecret of {self.id}>"

    def __reduce__(self) -> NoReturn:
        # Whatever pickles it would write it down somewhere.
        raise TypeError("a token's secret is not to be stored")


KEPT_SECONDS = 24 * 3600
"""How long a reply is given again to whoever repeats the request."""
LONGEST_KEY = 255


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that came with a key. Without a reply it is at work, in `process`."""

    fingerprint: bytes
    process: str
    reply: bytes | None


@dataclass(frozen=True, slots=True)
class ReplayKey:
    """An idempotency key of one caller. Two callers who chose the same word have two keys."""

    caller: str
    text: str

    def digest(self) -> bytes:
        """Return what the request is found by again; it does not tell the key."""
        return self._derived("find", 32)

    def sealed(self, reply: bytes) -> bytes:
        """Return a reply so that only whoever has the key can read it; twice is undone.

        A reply may name what is deleted later. Each key seals one reply and no more.
        """
        stream = self._derived("seal", len(reply))
        return bytes(one ^ other for one, other in zip(reply, stream, strict=True))

    def _derived(self, purpose: str, length: int) -> bytes:
        parts = (purpose.encode(), self.caller.encode(), self.text.encode())
        spelled = b"".join(len(part).to_bytes(4) + part for part in parts)
        return hashlib.shake_256(spelled).digest(length)
