"""Access tokens of an OpenID Connect provider: JWTs, checked with the keys that it publishes.

Owns: the checks of a token, and the provider's keys while they are valid.
Does not own: the rights of a user, which rules of the settings give.
Must hold: only keys of the configured file or URL are trusted, never one that a token names or
carries; no algorithm with a shared secret and no unsigned token is accepted; every refusal is the
same error, and the log has its reason without any part of the token.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from msgspec import Struct

from truespan import errors
from truespan.core.strict_json import JsonError, parse_json_object
from truespan.extensions.server.identities import Identities, SignIn
from truespan.protocols import Clock
from truespan.providers.http import JsonClient
from truespan.providers.outbound import Bounds, read_target
from truespan.settings.catalogue import Settings
from truespan.types.telemetry import FIELDS, SYSTEM, Event

_log = logging.getLogger(f"{SYSTEM}.auth")
_log.addHandler(logging.NullHandler())

CACHE_SECONDS = 3600
"""Time after which the provider's keys are loaded again."""
LEEWAY_SECONDS = 30
"""Difference of clocks that is allowed when the times of a token are checked."""
ALGORITHMS: Mapping[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None),
    "PS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Key type and curve of each accepted algorithm: signatures with a key pair.

With `none` anyone could make a token, and with HMAC anyone who knows the public key.
"""
MAX_TOKEN_LENGTH = 16 << 10
MAX_KEY_BYTES = 256 << 10
"""Maximum size of a set of keys."""
MAX_KEYS = 100
MAX_KEY_ID_LENGTH = 200
MIN_RSA_BITS = 2048
RELOAD_SECONDS = 30.0
"""Minimum time between two requests for the keys, also if a token names an unknown key."""
_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
"""Values of `typ` for access tokens and ID tokens; others are made for another purpose."""
_BOUNDS = Bounds(connect_seconds=3.0, read_seconds=5.0, total_seconds=5.0, body_bytes=MAX_KEY_BYTES)
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Key(Struct, frozen=True):
    """A public key that may check tokens of one algorithm."""

    id: str | None
    algorithm: str
    public: Any


class _Loaded(Struct, frozen=True):
    keys: tuple[Key, ...]
    at: float


# Shared by threads: the keys are replaced under a lock, which is held while the provider is asked.
# Only the first keys are waited for. Later, tokens with a known key take no lock, and those with
# another key are refused while the keys are loaded: anyone can send such tokens.
class KeyCache:
    """The keys of a provider. Threads may share it.

    Keys are loaded again after `cache_seconds`, and at once for an unknown key, but not more often
    than every `RELOAD_SECONDS`. While the provider does not answer, the last keys are used for up
    to twice `cache_seconds`.
    """

    def __init__(
        self, load: Callable[[], bytes], algorithms: Sequence[str], clock: Clock, cache_seconds: int
    ) -> None:
        self._load = load
        self._algorithms = tuple(algorithms)
        self._clock = clock
        self._cache_seconds = cache_seconds
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._reload_at = 0.0

    def find(self, key_id: str | None, algorithm: str) -> list[Key]:
        """Return the keys that may have signed a token; a key without an id only if it is alone."""
        loaded = self._loaded
        found = _matching(loaded, key_id, algorithm)
        if loaded is None or not found or self._age(loaded) >= self._cache_seconds:
            found = _matching(self._reload(loaded, known=bool(found)), key_id, algorithm)
        return found

    def _reload(self, seen: _Loaded | None, *, known: bool) -> _Loaded:
        wait = seen is None
        if not self._lock.acquire(blocking=wait, timeout=_BOUNDS.total_seconds if wait else -1):
            return self._usable(seen if known else None)
        try:
            if self._loaded is not seen or self._clock.monotonic() < self._reload_at:
                return self._usable(self._loaded)
            self._reload_at = self._clock.monotonic() + RELOAD_SECONDS
            try:
                keys = read_keys(self._load(), self._algorithms)
            except errors.TruespanError as error:
                fields = {"reason": error.code}
                _log.warning(Event.AUTH_KEYS_FAILED.value, extra={FIELDS: fields})
            else:
                self._loaded = _Loaded(keys, self._clock.monotonic())
            return self._usable(self._loaded)
        finally:
            self._lock.release()

    def _usable(self, loaded: _Loaded | None) -> _Loaded:
        if loaded is None or self._age(loaded) >= 2 * self._cache_seconds:
            raise errors.ProviderUnavailable(
                "The keys of the identity provider cannot be loaded.",
                advice="Try again in a moment; the operator finds the reason in the log.",
            )
        return loaded

    def _age(self, loaded: _Loaded) -> float:
        return self._clock.monotonic() - loaded.at


def _matching(loaded: _Loaded | None, key_id: str | None, algorithm: str) -> list[Key]:
    usable = [key for key in loaded.keys if key.algorithm == algorithm] if loaded else []
    if key_id is None:
        return usable if len(usable) == 1 else []
    return [key for key in usable if key.id == key_id]


def read_keys(content: bytes, algorithms: Sequence[str]) -> tuple[Key, ...]:
    """Return the keys of a JWKS that may check signatures; raises ProviderBadReply."""
    try:
        entries = parse_json_object(content).get("keys")
    except JsonError as error:
        raise errors.ProviderBadReply(f"The set of keys is {error}.") from None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise errors.ProviderBadReply(
            f"The set of keys needs a list 'keys' of at most {MAX_KEYS} keys."
        )
    return tuple(
        key
        for entry in entries
        if isinstance(entry, dict)
        for algorithm in algorithms
        if (key := _read_key(entry, algorithm)) is not None
    )


def _read_key(entry: dict[str, Any], algorithm: str) -> Key | None:
    """Return a key for an algorithm; None if it is not made for it, is private, or is too short."""
    from jwt import PyJWK, PyJWTError

    kind, curve = ALGORITHMS[algorithm]
    is_fitting = entry.get("kty") == kind and entry.get("crv") == curve and "d" not in entry
    operations = entry.get("key_ops", ["verify"])
    is_for_signatures = entry.get("use", "sig") == "sig" and isinstance(operations, list)
    if not is_fitting or not is_for_signatures or "verify" not in operations:
        return None
    key_id = entry.get("kid")
    if entry.get("alg", algorithm) != algorithm or not isinstance(key_id, str | None):
        return None
    try:
        public = PyJWK(entry, algorithm).key
    except (PyJWTError, ValueError, TypeError):
        return None
    is_short = kind == "RSA" and public.key_size < MIN_RSA_BITS
    return None if is_short else Key(key_id, algorithm, public)


class OpenIdVerifier:
    """Checks the tokens of one provider that are made for this library."""

    def __init__(
        self,
        keys: KeyCache,
        *,
        issuer: str,
        audience: str,
        algorithms: Sequence[str],
        leeway_seconds: int,
    ) -> None:
        self._keys = keys
        self.issuer = issuer
        self._audience = audience
        self._algorithms = frozenset(algorithms)
        self._leeway_seconds = leeway_seconds

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token."""
        parts = token.split(".")
        if len(token) > MAX_TOKEN_LENGTH or len(parts) != 3 or not token.isascii():
            _refuse("form")
        algorithm, key_id = self._read_head(_decode(parts[0], "header"))
        keys = self._keys.find(key_id, algorithm)
        if not keys:
            _refuse("unknown_key")
        self._check_signed(token, keys)
        # The same bytes as those that were checked, read by a parser without two meanings.
        claims = _decode(parts[1], "claims")
        if "cnf" in claims:
            # The token is worth nothing without a proof of its key, which a bearer does not send.
            _refuse("bound_to_key")
        return claims

    def _read_head(self, header: dict[str, Any]) -> tuple[str, str | None]:
        """Return algorithm and key id; keys and addresses in the header are never used."""
        algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            _refuse("algorithm")
        if not isinstance(key_id, str | None) or len(key_id or "") > MAX_KEY_ID_LENGTH:
            _refuse("key_id")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            _refuse("type")
        if "crit" in header or "b64" in header:
            _refuse("critical_header")
        return algorithm, key_id

    def _check_signed(self, token: str, keys: Sequence[Key]) -> None:
        """Check signature, issuer, audience and times with one of the keys."""
        import jwt

        reason = ""
        for key in keys:
            try:
                jwt.decode(
                    token,
                    key.public,
                    algorithms=[key.algorithm],
                    issuer=self.issuer,
                    audience=self._audience,
                    leeway=self._leeway_seconds,
                    options={"require": ["exp", "iss", "aud", "sub"]},
                )
            except jwt.InvalidSignatureError:
                reason = "signature"
            except jwt.PyJWTError as error:
                # The name only: a message may quote a claim.
                _refuse(type(error).__name__)
            else:
                return
        _refuse(reason)


def _decode(part: str, name: str) -> dict[str, Any]:
    try:
        padded = part + "=" * (-len(part) % 4)
        return parse_json_object(base64.b64decode(padded, b"-_", validate=True))
    except ValueError:
        _refuse(name)


def _refuse(reason: str) -> NoReturn:
    _log.info(Event.AUTH_REFUSED.value, extra={FIELDS: {"reason": reason}})
    raise errors.NotAllowed.of("unauthorized") from None


def key_client(url: str, clock: Clock) -> Callable[[], bytes]:
    """Return a function that requests the keys at a URL."""
    endpoint, _, query = url.partition("?")
    target = read_target(endpoint)
    if target.scheme != "https" and target.host not in _LOOPBACK:
        raise errors.InvalidConfiguration(
            "The setting auth_jwks_url must be an https:// URL, except on this machine.",
            advice="Use https, or store the keys in a file and set auth_jwks_file.",
        )
    base = f"{target.scheme}://{target.address}"
    client = JsonClient(base, label="The identity provider", clock=clock, bounds=_BOUNDS)

    # With a slash at the end, if the URL has one.
    path = urlsplit(endpoint).path or "/"

    def load() -> bytes:
        reply = client.get(f"{path}?{query}" if query else path)
        if not reply.succeeded:
            raise reply.failure()
        return reply.body

    return load


def key_file(path: Path) -> Callable[[], bytes]:
    """Return a function that reads the keys in a file; it is read once already."""

    def load() -> bytes:
        try:
            with path.open("rb") as file:
                return file.read(MAX_KEY_BYTES)
        except OSError as error:
            refusal = errors.InvalidConfiguration("The file of auth_jwks_file cannot be read.")
            raise errors.resource_error(error) or refusal from None

    try:
        parse_json_object(load())
    except JsonError as error:
        raise errors.InvalidConfiguration(f"The file of auth_jwks_file is {error}.") from None
    return load


def open_identities(folder: Path, settings: Settings, clock: Clock) -> Identities:
    """Return the configured users of an identity provider."""
    auth = settings.auth
    if not auth.audience.strip() or not settings.auth_rules:
        raise errors.InvalidConfiguration(
            "auth_issuer needs auth_audience and at least one rule in [[auth.rules]].",
            advice="Without an audience, tokens for other programs would be accepted too.",
        )
    if bool(auth.jwks_url) == bool(auth.jwks_file):
        raise errors.InvalidConfiguration(
            "auth_issuer needs either auth_jwks_url or auth_jwks_file."
        )
    sign_in = (auth.client_id, auth.authorize_url, auth.token_url)
    if any(sign_in) and not all(sign_in):
        raise errors.InvalidConfiguration(
            "Signing in on the page needs auth_client_id, auth_authorize_url and auth_token_url."
        )
    load = key_client(auth.jwks_url, clock) if auth.jwks_url else key_file(folder / auth.jwks_file)
    keys = KeyCache(load, tuple(ALGORITHMS), clock, CACHE_SECONDS)
    verifier = OpenIdVerifier(
        keys,
        issuer=auth.issuer,
        audience=auth.audience.strip(),
        algorithms=tuple(ALGORITHMS),
        leeway_seconds=LEEWAY_SECONDS,
    )
    options = None
    if auth.client_id:
        addresses = (auth.authorize_url, auth.token_url)
        options = SignIn(auth.issuer, auth.client_id, *addresses)
    return Identities(verifier, settings.auth_rules, options)
