"""What is left to do after something was deleted, written down in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from truespan.adapters.postgres_store.connection import Session, fetch
from truespan.types.maintenance import ErasureKind


def queue_files(session: Session, profiles: Sequence[str], now: float, *, urgent: bool) -> None:
    """Have files written anew: those of the store, and of some profiles in the index."""
    for profile in dict.fromkeys(profiles):
        queue(session, ErasureKind.INDEX, now, profile=profile, urgent=urgent)
    queue(session, ErasureKind.STORE, now, urgent=urgent)


def wish_of(session: Session, revision: int) -> tuple[list[str], bool]:
    """Return which profiles hold points of a revision whose rows are about to go, and whether its
    document was deleted by somebody who wants no trace of it."""
    profiles = fetch(
        session,
        """SELECT DISTINCT g.profile FROM states s JOIN generations g ON g.number = s.generation
           WHERE s.revision = %s ORDER BY 1""",
        (revision,),
    )
    wanted = fetch(
        session,
        "SELECT d.erase FROM documents d JOIN revisions r ON r.document = d.key WHERE r.key = %s",
        (revision,),
    )
    return [row[0] for row in profiles], bool(wanted and wanted[0][0])


def queue(
    session: Session,
    kind: ErasureKind,
    now: float,
    world: str = "",
    generation: int = 0,
    profile: str = "",
    *,
    urgent: bool,
) -> None:
    """Write down a wish, in the place of an earlier one for the same, under a new number.

    Whoever wishes for the same at the same time waits here: the last wish is the one that stays.
    """
    session.execute(
        """INSERT INTO truespan_shared.erasures AS e
             (kind, world, generation, profile, urgent, queued_at)
           VALUES (%s, %s, %s, %s, %s, %s)
           ON CONFLICT (kind, world, generation, profile) DO UPDATE SET
             number = DEFAULT, urgent = e.urgent OR excluded.urgent,
             queued_at = excluded.queued_at""",
        (kind.value, world, generation, profile, urgent, now),
    )
