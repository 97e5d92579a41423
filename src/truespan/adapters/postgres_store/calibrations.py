"""Kept calibrations in PostgreSQL."""

from __future__ import annotations

import msgspec

from truespan.adapters.postgres_store.connection import Connections, again_on_conflict, change
from truespan.adapters.postgres_store.worlds import lock_world, touch_world
from truespan.errors import StoreDamaged
from truespan.protocols import Clock
from truespan.types.profile import Calibration
from truespan.types.scope import Scope


class PostgresCalibrations:
    """The part of the store that keeps what a world's holder measured for a profile."""

    _connections: Connections
    _clock: Clock

    def kept_calibration(self, scope: Scope) -> Calibration | None:
        """Return what was kept for the scope's profile; None when nothing was."""
        rows = self._connections.query(
            scope.world,
            "SELECT measured FROM calibrations WHERE profile_id = %s",
            (scope.profile.id,),
        )
        try:
            return msgspec.json.decode(rows[0][0], type=Calibration) if rows else None
        except msgspec.MsgspecError:
            raise StoreDamaged("The kept calibration of a world is damaged.") from None

    @again_on_conflict
    def keep_calibration(self, scope: Scope, calibration: Calibration) -> None:
        """Keep a calibration in the place of an earlier one."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            session.execute(
                """INSERT INTO calibrations (profile_id, measured, kept_at) VALUES (%s, %s, %s)
                   ON CONFLICT (world_id, profile_id) DO UPDATE SET
                     measured = excluded.measured, kept_at = excluded.kept_at""",
                (
                    scope.profile.id,
                    msgspec.json.encode(calibration).decode(),
                    self._clock.now(),
                ),
            )
            # Answers depend on it, so a request that is under way looks again.
            touch_world(session)

    @again_on_conflict
    def forget_calibration(self, scope: Scope) -> bool:
        """Forget what was kept; say whether there was anything."""
        with self._connections.writing(scope.world) as session:
            lock_world(session, scope.world)
            gone = change(
                session, "DELETE FROM calibrations WHERE profile_id = %s", (scope.profile.id,)
            )
            if gone:
                touch_world(session)
        return gone > 0
