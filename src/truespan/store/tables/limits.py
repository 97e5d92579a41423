"""Waiting times of provider keys, which the processes of a library share."""

from __future__ import annotations

from truespan.store.engines.session import Part, retry_on_conflict


class Limits(Part):
    """Waiting times of provider keys."""

    def cooling_until(self, provider: str, key: str) -> float:
        """Return the time until which a key has to wait; 0 if it can be used."""
        until = self._db.shared.value(
            "SELECT until FROM cooldowns WHERE provider = :provider AND key = :key",
            provider=provider,
            key=key,
        )
        return until or 0.0

    @retry_on_conflict
    def cool_down(self, provider: str, key: str, until: float) -> None:
        with self._db.write_shared() as session:
            where = ("provider", "key")
            session.insert_many("cooldowns", (*where, "until"), [(provider, key, until)], key=where)
