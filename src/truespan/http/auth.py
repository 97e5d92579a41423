"""Who is at the door: hosts, origins, tokens and rates, before anything is read or asked."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from truespan.errors import HostRefused, OriginRefused, TooManyRequests, Unauthorized
from truespan.types.scope import OWNER
from truespan.types.token import Principal

if TYPE_CHECKING:
    from truespan.library import Library

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
LOCAL = Principal(None, OWNER)
"""Whoever asks on this machine where no token is needed."""
_MOST_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class AuthPolicy:
    """Who is answered: under which names, to pages of which origins, and with or without token."""

    hosts: frozenset[str] = LOOPBACK
    addresses: bool = False
    """Whether any address that is spelled in numbers will do, as on a server with several."""
    origins: frozenset[str] = frozenset()
    needs_token: bool = False
    per_minute: int = 0
    """How many requests a token may send in a minute; 0 for any number."""

    def check_host(self, hosts: Iterable[bytes]) -> str:
        """Return the host that a request names.

        A page of another site can make a browser ask under that site's name, and never under ours.

        Raises:
            HostRefused: it is not one of ours, or not exactly one.
        """
        given = [host.decode("latin-1") for host in hosts]
        name = _name_of(given[0]) if len(given) == 1 else ""
        if name in self.hosts or (self.addresses and _is_address(name)):
            return given[0].lower()
        raise HostRefused

    def check_origin(self, origins: list[bytes], host: str, *, cross_site: bool) -> str | None:
        """Return the origin that is to be told it may read the reply; None for our own pages.

        Raises:
            OriginRefused: a page of another site asks, and nobody said that it may.
        """
        if not origins:
            if cross_site:
                raise OriginRefused
            return None
        origin = origins[0].decode("latin-1").lower()
        if len(origins) != 1:
            raise OriginRefused
        if origin in self.origins:
            return origin
        if origin not in (f"http://{host}", f"https://{host}"):
            raise OriginRefused
        return None


@dataclass(slots=True)
class Admission:
    """Tells callers by their tokens, and counts what each sends. Threads may share it."""

    library: Library
    keeping: AuthPolicy
    now: Callable[[], float]
    _levels: dict[str, tuple[float, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, authorizations: list[bytes]) -> Principal:
        """Return who asks.

        Raises:
            Unauthorized: a token is needed and none came, or the one that came is not valid.
            TooManyRequests: this caller has sent too many.
        """
        principal = self.known(authorizations)
        if principal.token is not None and self.keeping.per_minute:
            self._count(principal.token)
        return principal

    def known(self, authorizations: list[bytes]) -> Principal:
        """Return who asks, without counting it."""
        if not authorizations:
            if self.keeping.needs_token:
                raise Unauthorized
            return LOCAL
        scheme, _, secret = authorizations[0].decode("latin-1").partition(" ")
        # What is wrong is never read as nothing: a caller with a bad token is not the owner.
        if len(authorizations) != 1 or scheme.lower() != "bearer":
            raise Unauthorized
        return self.library.admit(secret.strip())

    def _count(self, caller: str) -> None:
        """Let a caller's level leak away evenly, and refuse what would overflow it."""
        most, now = float(self.keeping.per_minute), self.now()
        with self._lock:
            level, at = self._levels.pop(caller, (0.0, now))
            level = max(0.0, level - (now - at) * most / 60)
            over = level + 1 > most
            self._levels[caller] = (level if over else level + 1, now)
            if len(self._levels) > _MOST_CALLERS:
                self._levels.pop(next(iter(self._levels)))
        if over:
            raise TooManyRequests((level + 1 - most) * 60 / most)


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Return a Host header without its port, in small letters; nothing if it is none."""
    name, bracket, port = host.lower().rpartition("]")
    if bracket:
        plain = not port or (port.startswith(":") and port[1:].isdecimal())
        return name + bracket if plain else ""
    name, colon, port = host.lower().partition(":")
    return name if not colon or port.isdecimal() else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
