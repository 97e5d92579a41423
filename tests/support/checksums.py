"""Checksums of rows that a test changed, so that the rows count as written that way."""

from typing import Any

from truespan.store.engines.session import Session
from truespan.store.integrity.checksums import (
    CHUNK_CELLS,
    CHUNK_TABLES,
    Structure,
    chunk_checksum,
    read_revisions,
    seal_revision,
    tally_checksum,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import WorldId

_KEYS = {"sentences": "sid", "places": "start", "figures": "number"}


def reseal_world(session: Session, world: WorldId) -> None:
    """Write the checksums of all revisions of a world and of their rows again."""
    for (document,) in session.all("SELECT number FROM documents WHERE world_id = :world"):
        for found in read_revisions(session, world, document):
            _reseal_structure(session, world, found.ref, found.key)
            _reseal_chunks(session, world, found.ref, found.key)
        for found in read_revisions(session, world, document):
            seal_revision(session, world, found)


def _reseal_structure(session: Session, world: WorldId, ref: RevisionRef, key: int) -> None:
    rows = Structure.read(session, key)
    made = rows.checksums(world, ref)
    for table, column in _KEYS.items():
        pairs = zip(getattr(rows, table), getattr(made, table), strict=True)
        values = [{"key": key, "row": row[0], "checksum": own} for row, own in pairs]
        statement: Any = (
            f"UPDATE {table} SET checksum = :checksum WHERE revision = :key AND {column} = :row"
        )
        session.execute_many(statement, values)
    session.execute(
        "UPDATE revisions SET parts = :parts WHERE key = :key", parts=made.parts, key=key
    )


def _reseal_chunks(session: Session, world: WorldId, ref: RevisionRef, key: int) -> None:
    for (generation,) in session.all(
        "SELECT generation FROM tallies WHERE revision = :key", key=key
    ):
        where = {"key": key, "generation": generation}
        rows = session.all(
            f"""SELECT {CHUNK_CELLS} FROM {CHUNK_TABLES}
                WHERE s.world_id = :world AND s.revision = :key AND s.generation = :generation
                ORDER BY s.position""",
            **where,
        )
        made = [chunk_checksum(world, generation, ref, row) for row in rows]
        session.execute_many(
            """UPDATE states SET checksum = :checksum WHERE world_id = :world AND revision = :key
                 AND generation = :generation AND position = :position""",
            [
                {**where, "position": row[0], "checksum": own}
                for row, own in zip(rows, made, strict=True)
            ],
        )
        session.execute(
            """UPDATE tallies SET checksum = :checksum
               WHERE revision = :key AND generation = :generation""",
            **where,
            checksum=tally_checksum(world, generation, ref, made),
        )
