"""Access tokens: made, listed and revoked by the owner, and told from texts that are none."""

from __future__ import annotations

import builtins
import math
import unicodedata
from collections.abc import Iterable

from truespan.engine.parts import Components
from truespan.errors import InvalidSettings, NotAllowed, TokenNotFound, Unauthorized, WorldNotFound
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import (
    ID_BYTES,
    SECRET_BYTES,
    Principal,
    TokenRecord,
    TokenSecret,
    TokenState,
)

LONGEST_SECONDS = 100 * 366 * 24 * 3600
_NAME_CHARACTERS = 200
_HARMFUL = {"Cc", "Cs", "Zl", "Zp"}
"""Categories of characters that steer a terminal, break lines or are no text."""
_VERBS = ", ".join(Verb)


class Tokens:
    """The tokens of a library. They are for its owner alone."""

    def __init__(self, parts: Components, authority: Authority) -> None:
        self._parts = parts
        self._authority = authority

    def create(
        self,
        name: str,
        *,
        worlds: str | Iterable[str] | Unlimited,
        verbs: str | Iterable[str] | None = None,
        readers: str | Iterable[str] | Unlimited = UNLIMITED,
        expires_in: float | None = None,
    ) -> tuple[TokenRecord, TokenSecret]:
        """Make a token; its secret is to be had here and never again.

        Worlds are named by name or id. Without `verbs` it may read, and if it is bound to readers,
        follow them; then nothing else is possible. `expires_in` is in seconds; None is for ever.

        Raises:
            NotAllowed: this authority does not own the library.
            WorldNotFound: one of the worlds is absent.
            InvalidSettings: a name, verb or time cannot be, or a list is empty.
        """
        randomness = self._parts.randomness
        if self._authority != OWNER or randomness is None:
            raise NotAllowed("make tokens")
        bound = readers if isinstance(readers, Unlimited) else _readers(readers)
        now = self._parts.clock.now()
        secret = TokenSecret.of(
            randomness.fresh_bytes(ID_BYTES), randomness.fresh_bytes(SECRET_BYTES)
        )
        record = TokenRecord(
            id=secret.id,
            name=_named("A token", name),
            worlds=worlds if isinstance(worlds, Unlimited) else self._worlds(worlds),
            verbs=_verbs(verbs, bound),
            readers=bound,
            created_at=now,
            expires_at=None if expires_in is None else now + _seconds(expires_in),
        )
        self._parts.store.create_token(self._authority, record, secret.digest())
        return record, secret

    def list(self) -> builtins.list[TokenRecord]:
        """Return every token, revoked and expired ones too, the oldest first.

        Raises:
            NotAllowed: this authority does not own the library.
        """
        return self._parts.store.tokens(self._authority)

    def revoke(self, token: str) -> TokenRecord:
        """Make the token of this id invalid at once, in every process; again does no harm.

        Raises:
            TokenNotFound: there is none.
            NotAllowed: this authority does not own the library.
        """
        store, now = self._parts.store, self._parts.clock.now()
        # What is no id is not looked for: it might be a secret, or no text that can be kept.
        known = isinstance(token, str) and token.isascii() and token.isalnum()
        if self._authority == OWNER and not known:
            raise TokenNotFound
        found = store.revoke_token(self._authority, token, now=now) and store.find_token(token)
        if not found:
            raise TokenNotFound
        return found[0]

    def state(self, record: TokenRecord) -> TokenState:
        """Say how a token stands now."""
        return record.state(self._parts.clock.now())

    def _worlds(self, references: str | Iterable[str]) -> frozenset[WorldId]:
        return frozenset(self._world(reference) for reference in _several("world", references))

    def _world(self, reference: str) -> WorldId:
        record = self._parts.store.find_world(self._authority, reference)
        if record is None:
            raise WorldNotFound(reference)
        return record.id


def authenticated(parts: Components, within: Authority, text: object) -> Principal:
    """Return the holder of a token, and what it may do within an authority.

    Raises:
        Unauthorized: always the same, whatever is wrong with the token.
    """
    secret = TokenSecret.parse(text)
    if secret is None:
        raise Unauthorized
    found = parts.store.find_token(secret.id)
    proven = secret.proves(found[1] if found else None)
    if not found or not proven or found[0].state(parts.clock.now()) is not TokenState.ACTIVE:
        raise Unauthorized
    return Principal(found[0].id, found[0].authority(within))


def _several(what: str, names: str | Iterable[str]) -> builtins.list[str]:
    """Return names as a list; none at all would be a token that allows nothing."""
    # A string is a sequence of letters to Python, and hardly ever meant so.
    listed = [names] if isinstance(names, str) else list(names)
    if not listed or not all(isinstance(name, str) for name in listed):
        raise InvalidSettings(f"A token needs at least one {what}.")
    return listed


def _verbs(
    verbs: str | Iterable[str] | None, readers: frozenset[str] | Unlimited
) -> frozenset[Verb]:
    bound = not isinstance(readers, Unlimited)
    if verbs is None:
        return frozenset({Verb.FOLLOW if bound else Verb.READ})
    spelled = _several("verb", verbs)
    if unknown := [verb for verb in spelled if verb not in set(Verb)]:
        raise InvalidSettings(f"There is no verb {unknown[0]!r}.", advice=f"Verbs are: {_VERBS}.")
    chosen = frozenset(map(Verb, spelled))
    if bound and chosen != {Verb.FOLLOW}:
        raise InvalidSettings(
            "A token that is bound to readers can only follow them.",
            advice="Leave the verbs out, or the readers.",
        )
    return chosen


def _readers(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset(_named("A reader", name) for name in _several("reader", names))


def _named(what: str, name: object) -> str:
    """Return a name that can be kept, and printed without harm to a terminal."""
    plain = name.strip() if isinstance(name, str) else ""
    harmful = any(unicodedata.category(one) in _HARMFUL for one in plain)
    if not plain or len(plain) > _NAME_CHARACTERS or harmful:
        raise InvalidSettings(
            f"{what} needs a name of 1 to {_NAME_CHARACTERS} characters, none of them for control."
        )
    return plain


def _seconds(given: object) -> float:
    number = given if isinstance(given, int | float) and not isinstance(given, bool) else math.nan
    if not 0 < number <= LONGEST_SECONDS:
        raise InvalidSettings("A token expires after more than 0 seconds, and within 100 years.")
    return float(number)
