"""What PostgreSQL does so that something deleted is gone for good, and remembers until it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from truespan.adapters.postgres_store.connection import (
    BOTH,
    Connections,
    Row,
    Session,
    again_on_conflict,
    be_patient,
    change,
    enter,
    fetch,
)
from truespan.adapters.postgres_store.counting import row_counts
from truespan.adapters.postgres_store.erasure_queue import queue, queue_files
from truespan.adapters.postgres_store.worlds import each_world, lock_world, require_world
from truespan.adapters.stored_rows import generation_of
from truespan.errors import WorldNotFound
from truespan.protocols import Clock
from truespan.types.ids import ChunkId, WorldId
from truespan.types.maintenance import Erasure, ErasureKind, FileFate, Trace
from truespan.types.scope import Authority, Scope, Verb

_ORDER = {kind: place for place, kind in enumerate(ErasureKind)}
_TRACES = 4
_TRACE_CHARACTERS = 48

_REVISIONS: Final = """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.number = coalesce(%s::int, d.number)"""

# Labels are looked through as well: a title may be what a chunk consists of.
_ELSEWHERE: Final = """
    SELECT 1 FROM texts WHERE position(%(bytes)s IN text) > 0 AND revision <> ALL(%(own)s)
    UNION ALL SELECT 1 FROM figures WHERE position(%(bytes)s IN description) > 0
      AND revision <> ALL(%(own)s)
    UNION ALL SELECT 1 FROM revisions WHERE key <> ALL(%(own)s) AND position(%(bytes)s IN
      convert_to(concat_ws(' ', name, path, title, metadata, derived, properties), 'UTF8')) > 0
    LIMIT 1
"""


class PostgresErasure:
    """The part of the store that forgets for good."""

    _connections: Connections
    _clock: Clock

    def erasures(self, *, urgent: bool = False) -> list[Erasure]:
        """Return what waits, in the order it is to be done."""
        rows = self._connections.query_shared(
            """SELECT number, kind, world, generation, profile, urgent FROM truespan_shared.erasures
               WHERE urgent >= %s ORDER BY number""",
            (urgent,),
        )
        return sorted(map(_erasure, rows), key=lambda one: _ORDER[one.kind])

    @again_on_conflict
    def queue_erasure(self, scope: Scope, *, urgent: bool = False) -> None:
        """Have the files of the store and of the scope's profile written anew."""
        with self._connections.writing(scope.world, BOTH) as session:
            require_world(session, scope.world)
            rows = fetch(
                session,
                "SELECT profile FROM generations WHERE number = %s",
                (scope.generation.number,),
            )
            queue_files(session, [row[0] for row in rows], self._clock.now(), urgent=urgent)

    @again_on_conflict
    def finish_erasure(self, erasure: Erasure) -> None:
        """Forget what was done, unless it was wished for again, under a new number."""
        with self._connections.sharing() as session:
            session.execute(
                "DELETE FROM truespan_shared.erasures WHERE number = %s", (erasure.number,)
            )

    def rewrite_file(self) -> FileFate:
        """Have the server give back the room of deleted rows, where it lets us.

        Its files, its log of writes, its replicas and its backups are its operator's: what was
        deleted may be in any of them, and nothing here could tell.
        """
        return FileFate.REQUESTED if self._connections.vacuum() else FileFate.LEFT

    def traces(self, scope: Scope, document: int | None) -> list[Trace]:
        """Return stretches of text that nothing else in the library has."""
        with self._connections.surveying() as session:
            be_patient(session)
            enter(session, scope.world)
            require_world(session, scope.world)
            own = [row[0] for row in fetch(session, _REVISIONS, (document,))]
            found = [_stretch(text) for text in _texts(session, own)]
            return [
                Trace(False, one.encode())
                for one in dict.fromkeys(found)
                if one and not _elsewhere(session, one, own)
            ]

    def own_chunks(self, scope: Scope, document: int | None, *, limit: int) -> list[ChunkId]:
        """Return embedded chunks whose text no other document, or no other world, has.

        World after world is asked, since none is seen from another; `limit` is small.
        """
        with self._connections.surveying() as session:
            be_patient(session)
            enter(session, scope.world)
            own = [row[0] for row in fetch(session, _REVISIONS, (document,))]
            found = fetch(
                session,
                """SELECT chunk_id, text_hash FROM states
                   WHERE revision = ANY(%s) AND generation = %s AND state = 'embedded'
                   ORDER BY revision, position""",
                (own, scope.generation.number),
            )
            shared = _shared(session, own, [row[1] for row in found])
        return [ChunkId(chunk) for chunk, text_hash in found if text_hash not in shared][:limit]

    @again_on_conflict
    def delete_world(self, authority: Authority, world: WorldId, *, erase: bool) -> dict[str, int]:
        """Remove a world with all its rows, and queue what has to follow, in one commit."""
        if not authority.may(Verb.ADMINISTER, world):
            raise WorldNotFound(world)
        now = self._clock.now()
        with self._connections.writing(world, BOTH) as session:
            lock_world(session, world)
            be_patient(session)
            generations = fetch(session, "SELECT number, profile FROM generations ORDER BY number")
            removed = {name: count for name, count in row_counts(session).items() if count}
            removed |= _shared_rows(session, world)
            session.execute("DELETE FROM truespan_shared.directory WHERE world_id = %s", (world,))
            for number, profile in generations:
                queue(session, ErasureKind.POINTS, now, world, number, profile, urgent=True)
            queue(session, ErasureKind.ASSETS, now, world, urgent=True)
            queue_files(session, [profile for _, profile in generations], now, urgent=erase)
        return removed


def _shared_rows(session: Session, world: str) -> dict[str, int]:
    """Take away what names a world outside of it, and count it."""
    counts = {
        "aliases": change(
            session, "DELETE FROM truespan_shared.aliases WHERE world_id = %s", (world,)
        ),
        "token_worlds": change(
            session, "DELETE FROM truespan_shared.token_worlds WHERE world_id = %s", (world,)
        ),
    }
    return {name: count for name, count in counts.items() if count}


def _erasure(row: Row) -> Erasure:
    number, kind, world, generation, profile, urgent = row
    known = generation_of(generation, profile, None).profile if profile else None
    return Erasure(number, ErasureKind(kind), WorldId(world), generation, known, urgent)


def _texts(session: Session, revisions: Sequence[int]) -> list[str]:
    """Return the texts of a few chunks, spread evenly over some revisions."""
    rows = fetch(
        session,
        """SELECT revision, generation, position FROM chunks WHERE revision = ANY(%s)
           ORDER BY revision, generation, position""",
        (list(revisions),),
    )
    step = max(1, len(rows) // _TRACES)
    return [
        fetch(
            session,
            "SELECT text FROM chunks WHERE revision = %s AND generation = %s AND position = %s",
            row,
        )[0][0].decode(errors="ignore")
        for row in rows[step // 2 :: step][:_TRACES]
    ]


def _stretch(text: str) -> str:
    middle = max(0, (len(text) - _TRACE_CHARACTERS) // 2)
    return text[middle : middle + _TRACE_CHARACTERS]


def _elsewhere(session: Session, stretch: str, own: Sequence[int]) -> bool:
    """Say whether other texts of the library have a stretch too, so that finding it means nothing.

    Revisions' keys are those of the whole library, so `own` means nothing in another world.
    """
    asked = {"bytes": stretch.encode(), "own": list(own)}
    for world in each_world(session):
        enter(session, world)
        if fetch(session, _ELSEWHERE, asked):
            return True
    return False


def _shared(session: Session, own: Sequence[int], hashes: Sequence[str]) -> set[str]:
    """Return those of some hashes that texts of other revisions, in any world, have as well."""
    shared: set[str] = set()
    for world in each_world(session):
        enter(session, world)
        rows = fetch(
            session,
            """SELECT text_hash FROM states
               WHERE text_hash = ANY(%(hashes)s) AND revision <> ALL(%(own)s)
               UNION SELECT text_hash FROM tails
               WHERE text_hash = ANY(%(hashes)s) AND revision <> ALL(%(own)s)""",
            {"hashes": list(hashes), "own": list(own)},
        )
        shared.update(row[0] for row in rows)
    return shared
