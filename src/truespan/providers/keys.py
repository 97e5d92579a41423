"""The keys of one provider: their rotation, cooldowns and denials.

Must hold: the text of a key is passed only to the call that sends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

from truespan import errors
from truespan.protocols import Clock, Cooldowns
from truespan.providers.http import MAX_PAUSE, Reply
from truespan.types.token import ProviderKey, Secret

AnyReply = TypeVar("AnyReply", bound=Reply)

COOLDOWN = 60.0
"""Seconds a key cools down after too many requests, unless the provider states a pause."""
_NEARLY = 1e-3
"""Tolerance for the rounding of large numbers."""


# Shared by threads: its turn and the denied keys are changed under a lock, which is held while the
# cooldowns are read from the store.
class KeyRing:
    """A rotation of the keys of one provider; empty if it is `keyless`. Threads may share it."""

    def __init__(
        self,
        provider: str,
        keys: Sequence[ProviderKey],
        cooldowns: Cooldowns,
        clock: Clock,
        *,
        keyless: bool = False,
    ) -> None:
        """Select the provider's keys; refuse duplicate names and keys that cannot be sent."""
        self._provider = provider
        self._keys = [key for key in keys if key.provider == provider]
        self._cooldowns = cooldowns
        self._clock = clock
        self._keyless = keyless
        self._lock = Lock()
        self._turn = 0
        self._denied: set[str] = set()
        if len({key.name for key in self._keys}) < len(self._keys):
            raise errors.InvalidConfiguration(f"Two keys for {provider} have the same name.")
        for key in self._keys:
            text = key.secret.reveal()
            # The text of a disabled key may never have been read.
            if key.enabled and not (text.strip() and text.isascii() and text.isprintable()):
                # The text is not quoted, not even to show the mistake.
                raise errors.InvalidConfiguration(
                    f"The key {key.name!r} for {provider} is blank or contains invalid characters."
                )

    def send(self, model: str, request: Callable[[Secret | None], AnyReply]) -> AnyReply:
        """Send a request with one key after the other until one is neither denied nor limited."""
        if self._keyless:
            return request(None)
        tried: set[str] = set()
        while (key := self._next(model, tried)) is not None:
            tried.add(key.name)
            reply = request(key.secret)
            if reply.status == 429:
                pause = COOLDOWN if reply.retry_after is None else reply.retry_after
                until = self._clock.now() + min(pause, MAX_PAUSE)
                self._cooldowns.cool_down(self._provider, key.name, until)
            elif reply.denied:
                with self._lock:
                    self._denied.add(key.name)
            else:
                return reply
        serving = [key for key in self._keys if key.serves(model)]
        if not serving:
            raise errors.InvalidConfiguration(
                code="credentials_missing", provider=self._provider, model=model
            )
        waits = [self._wait(key) for key in serving if key.name not in self._denied]
        if not waits:
            raise errors.ProviderRefused(
                f"Every key for {self._provider} was denied.",
                advice="Check the keys and their permissions.",
            )
        raise errors.ProviderUnavailable(
            f"Every key for {self._provider} is cooling down after too many requests.",
            code="provider_cooldown",
            retry_after=min(waits),
        )

    def _next(self, model: str, tried: set[str]) -> ProviderKey | None:
        with self._lock:
            count = len(self._keys)
            for place in range(self._turn, self._turn + count):
                key = self._keys[place % count]
                usable = key.serves(model) and key.name not in tried | self._denied
                if usable and self._wait(key) == 0:
                    self._turn = place % count + 1
                    return key
        return None

    def _wait(self, key: ProviderKey) -> float:
        """Return the remaining seconds of the cooldown of a key."""
        # An end further ahead than any cooldown is ignored: the clock was set back.
        left = self._cooldowns.cooling_until(self._provider, key.name) - self._clock.now()
        return left if _NEARLY < left <= MAX_PAUSE + _NEARLY else 0.0
