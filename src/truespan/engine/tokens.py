"""Access tokens, and users of an identity provider: requests are authenticated by both.

The owner creates, lists and revokes tokens. Users get the rights that the operator's rules give.
"""

from __future__ import annotations

import builtins
import math
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from truespan.engine.access import LibraryPart
from truespan.engine.components import Components
from truespan.errors import InvalidArgument, NotAllowed, NotFound
from truespan.retrieval.pipeline import require_world
from truespan.tables import import_member, tables
from truespan.types.audience import check_labels
from truespan.types.ids import WorldId
from truespan.types.scope import AUDIENCE_VERBS, OWNER, UNLIMITED, Authority, Unlimited, Verb
from truespan.types.token import (
    ID_BYTES,
    SECRET_BYTES,
    Principal,
    TokenRecord,
    TokenSecret,
    TokenState,
)

if TYPE_CHECKING:
    pass

MAX_SECONDS = 100 * 366 * 24 * 3600
MAX_NAME_LENGTH = 200
_HARMFUL = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode categories that control a terminal, break lines or are not text."""
_VERBS = ", ".join(Verb)


class AccessTokens(LibraryPart, frozen=True):
    """The tokens of a library. Only its owner may use them; others get NotAllowed."""

    def create(
        self,
        name: str,
        *,
        worlds: str | Iterable[str] | Unlimited | None = None,
        verbs: str | Iterable[str] | None = None,
        readers: str | Iterable[str] | Unlimited = UNLIMITED,
        audience: str | Iterable[str] | Unlimited = UNLIMITED,
        impersonate: bool = False,
        expires_in: float | None = None,
    ) -> tuple[TokenRecord, TokenSecret]:
        """Create a token and return its secret, which is not stored and never shown again.

        Args:
            name: Name of the token.
            worlds: Names or ids of the worlds it is for.
            verbs: Permissions; None for reading, or for following its readers if `readers` are
                given, which is then the only verb allowed. A token with `observe` alone may read
                the metrics and has no worlds.
            readers: Names of the readers it may act as.
            audience: Labels of the token, which then sees only documents for everyone and for one
                of its labels, and can only read and follow.
            impersonate: Whether each request may name other labels, for an application that
                knows its users. Requests that name none have the labels of `audience`, which is
                empty if it is not given.
            expires_in: Seconds until the token expires; None for never.
        """
        random_bytes = self._components.random_bytes
        if self._authority != OWNER or random_bytes is None:
            raise NotAllowed("create tokens")
        bound = readers
        if not isinstance(bound, Unlimited):
            names = _require_list("reader", bound)
            bound = frozenset(_require_name("A reader", reader) for reader in names)
        allowed = _verbs(verbs, bound)
        labels = _labels(audience, allowed, impersonate=impersonate)
        now = self._components.clock.now()
        secret = TokenSecret.of(random_bytes(ID_BYTES), random_bytes(SECRET_BYTES))
        record = TokenRecord(
            id=secret.id,
            name=_require_name("A token", name),
            worlds=self._worlds(worlds, allowed),
            verbs=allowed,
            readers=bound,
            audience=labels,
            impersonate=bool(impersonate),
            created_at=now,
            expires_at=None if expires_in is None else now + _seconds(expires_in),
        )
        self._components.store.tokens.create(self._authority, record, secret.digest())
        return record, secret

    def list(self) -> builtins.list[TokenRecord]:
        """Return every token, revoked and expired ones too, the oldest first."""
        return self._components.store.tokens.all(self._authority)

    def revoke(self, token: str) -> TokenRecord:
        """Revoke a token at once, in every process. Revoking it twice changes nothing.

        Args:
            token: Id or name of the token; of several tokens with the name, the only active one.

        Raises:
            InvalidArgument: Several tokens have the name.
        """
        store, now = self._components.store, self._components.clock.now()
        # Compared here and not in the store: the text might be a secret, or not storable.
        listed = self.list()
        named = [record for record in listed if record.name == token]
        active = [record for record in named if self.state(record) is TokenState.ACTIVE]
        if not any(record.id == token for record in listed):
            matching = active or named
            if not matching:
                raise NotFound("token")
            if len(matching) > 1:
                ids = ", ".join(record.id for record in matching)
                raise InvalidArgument(
                    f"{len(matching)} tokens have this name: {ids}.",
                    advice="Revoke one by its id. 'truespan token list' shows what each allows.",
                )
            token = matching[0].id
        found = store.tokens.revoke(self._authority, token, now=now) and store.tokens.find(token)
        if not found:
            raise NotFound("token")
        return found[0]

    def state(self, record: TokenRecord) -> TokenState:
        """Return whether a token is active, expired or revoked.

        Args:
            record: The record of the token.
        """
        return record.state(self._components.clock.now())

    def _worlds(
        self, references: str | Iterable[str] | Unlimited | None, verbs: frozenset[Verb]
    ) -> frozenset[WorldId] | Unlimited:
        if references is None and verbs == {Verb.OBSERVE}:
            return frozenset()
        if Verb.OBSERVE in verbs and (references is not UNLIMITED or verbs == {Verb.OBSERVE}):
            raise InvalidArgument(
                "A token with 'observe' cannot be limited to worlds: the metrics count the "
                "requests of all worlds.",
                advice="Give it no worlds and no other verb.",
            )
        if isinstance(references, Unlimited):
            return references
        store, names = self._components.store, _require_list("world", references or ())
        return frozenset(require_world(store, self._authority, name).id for name in names)


def authenticate(components: Components, within: Authority, text: object) -> Principal:
    """Return the principal of a token within an authority; every failure is the same error."""
    secret = TokenSecret.parse(text)
    if secret is None and isinstance(text, str) and components.identities is not None:
        find_user = import_member(tables().components["find_user"])
        return find_user(components, components.identities, within, text)
    if secret is None:
        raise NotAllowed.of("unauthorized")
    found = components.store.tokens.find(secret.id)
    proven = secret.proves(found[1] if found else None)
    if not found or not proven or found[0].state(components.clock.now()) is not TokenState.ACTIVE:
        raise NotAllowed.of("unauthorized")
    record = found[0]
    authority = record.authority(within)
    if record.authority() != OWNER:
        # A token for everything acts as the owner, who sees all conversations.
        authority = replace(authority, token=record.id)
    # No token has more labels than the library was opened with.
    impersonates = record.impersonate and within.audience is UNLIMITED
    return Principal(record.id, authority, record.name, impersonates)


def _require_list(what: str, names: str | Iterable[str]) -> builtins.list[str]:
    """Return names as a list; a token with an empty list would allow nothing."""
    # A string is a sequence too, but never a list of names.
    values = [names] if isinstance(names, str) else list(names)
    if not values or not all(isinstance(name, str) for name in values):
        raise InvalidArgument(f"A token needs at least one {what}.")
    return values


def _verbs(
    verbs: str | Iterable[str] | None, readers: frozenset[str] | Unlimited
) -> frozenset[Verb]:
    bound = not isinstance(readers, Unlimited)
    if verbs is None:
        return frozenset({Verb.FOLLOW if bound else Verb.READ})
    names = _require_list("verb", verbs)
    if unknown := [verb for verb in names if verb not in set(Verb)]:
        raise InvalidArgument(f"There is no verb {unknown[0]!r}.", advice=f"Known verbs: {_VERBS}.")
    chosen = frozenset(map(Verb, names))
    if bound and chosen != {Verb.FOLLOW}:
        raise InvalidArgument(
            "A token with readers can only follow them.", advice="Omit the verbs or the readers."
        )
    return chosen


def _labels(
    audience: str | Iterable[str] | Unlimited, verbs: frozenset[Verb], *, impersonate: bool
) -> frozenset[str] | Unlimited:
    if isinstance(audience, Unlimited) and not impersonate:
        return UNLIMITED
    if verbs - AUDIENCE_VERBS:
        raise InvalidArgument(
            "A token with labels can only read and follow.",
            advice="Omit the other verbs, or the labels and the right to impersonate.",
        )
    return frozenset() if isinstance(audience, Unlimited) else check_labels(audience)


def _require_name(what: str, name: object) -> str:
    """Return a name that can be stored and printed safely."""
    plain = name.strip() if isinstance(name, str) else ""
    harmful = any(unicodedata.category(character) in _HARMFUL for character in plain)
    if not plain or len(plain) > MAX_NAME_LENGTH or harmful:
        raise InvalidArgument(
            f"{what} needs a name of 1 to {MAX_NAME_LENGTH} characters without control characters."
        )
    return plain


def _seconds(given: object) -> float:
    number = given if isinstance(given, int | float) and not isinstance(given, bool) else math.nan
    if not 0 < number <= MAX_SECONDS:
        raise InvalidArgument("A token's lifetime must be more than 0 seconds, at most 100 years.")
    return float(number)
