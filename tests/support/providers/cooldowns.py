"""Cooldowns of keys without a store."""

from truespan.protocols import Clock
from truespan.providers.keys import KeyRing


class MemoryCooldowns:
    """Cooldowns of one process, for as long as it runs."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key must not be used; 0.0 if it may be."""
        return self._until.get((provider, key), 0.0)

    def cool_down(self, provider: str, key: str, until: float) -> None:
        self._until[provider, key] = until


def keyless_ring(clock: Clock) -> KeyRing:
    return KeyRing("openai", [], MemoryCooldowns(), clock, keyless=True)
