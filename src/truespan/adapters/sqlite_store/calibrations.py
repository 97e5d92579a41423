"""Kept calibrations in SQLite."""

from __future__ import annotations

import msgspec

from truespan.adapters.sqlite_store.connection import Connections
from truespan.adapters.sqlite_store.worlds import touch_world, world_key
from truespan.errors import StoreDamaged
from truespan.protocols import Clock
from truespan.types.profile import Calibration
from truespan.types.scope import Scope


class SqliteCalibrations:
    """The part of the store that keeps what a world's holder measured for a profile."""

    _connections: Connections
    _clock: Clock

    def kept_calibration(self, scope: Scope) -> Calibration | None:
        """Return what was kept for the scope's profile; None when nothing was."""
        rows = self._connections.query(
            """SELECT measured FROM calibrations WHERE profile_id = ?
               AND world = (SELECT key FROM worlds WHERE id = ?)""",
            (scope.profile.id, scope.world),
        )
        try:
            return msgspec.json.decode(rows[0][0], type=Calibration) if rows else None
        except msgspec.MsgspecError:
            raise StoreDamaged("The kept calibration of a world is damaged.") from None

    def keep_calibration(self, scope: Scope, calibration: Calibration) -> None:
        """Keep a calibration in the place of an earlier one."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.execute(
                "INSERT OR REPLACE INTO calibrations VALUES (?, ?, ?, ?)",
                (
                    world,
                    scope.profile.id,
                    msgspec.json.encode(calibration).decode(),
                    self._clock.now(),
                ),
            )
            # Answers depend on it, so a request that is under way looks again.
            touch_world(connection, world)

    def forget_calibration(self, scope: Scope) -> bool:
        """Forget what was kept; say whether there was anything."""
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            connection.execute(
                "DELETE FROM calibrations WHERE world = ? AND profile_id = ?",
                (world, scope.profile.id),
            )
            gone = bool(connection.changes())
            if gone:
                touch_world(connection, world)
        return gone
