"""Give checksums to the rows of a world that an earlier version wrote."""

from __future__ import annotations

from typing import Final

from truespan.store.engines.session import Session
from truespan.store.integrity.checksums import (
    CHUNK_CELLS,
    Structure,
    checksum,
    chunk_checksum,
    generation_checksum,
    position_checksum,
    read_revisions,
    seal_revision,
    tally_checksum,
    vector_checksum,
    world_checksum,
)
from truespan.types.document import RevisionRef
from truespan.types.ids import WorldId

_PAGE: Final = 500


def seal_world(session: Session, world: WorldId) -> None:
    """Write the checksums that the rows of a world lack, and that of the world itself last. Only a
    world without a checksum is sealed: later, a row without one is damaged."""
    for (document,) in session.all("SELECT number FROM documents WHERE world_id = :world"):
        for found in read_revisions(session, world, document):
            if found.checksum is None:
                _seal_structure(session, world, found.ref, found.key)
                _seal_chunks(session, world, found.ref, found.key)
        for found in read_revisions(session, world, document):
            if found.checksum is None:
                seal_revision(session, world, found)
    _seal_generations(session, world)
    _seal_positions(session, world)
    _seal_vectors(session, world)
    session.execute_many(
        """UPDATE calibrations SET checksum = :checksum
           WHERE world_id = :world AND profile_id = :profile""",
        [
            {"profile": profile, "checksum": checksum("calibrations", world, profile, *cells)}
            for profile, *cells in session.all(
                """SELECT profile_id, measured, kept_at FROM calibrations
                   WHERE world_id = :world AND checksum IS NULL"""
            )
        ],
    )
    seal_name(session, world)


def seal_name(session: Session, world: WorldId) -> None:
    """Write the checksum of a world's own row as it is now."""
    [row] = session.all("SELECT name, created_at, defaults FROM directory WHERE world_id = :world")
    session.execute(
        "UPDATE directory SET checksum = :checksum WHERE world_id = :world",
        checksum=world_checksum(world, *row),
    )


def _seal_structure(session: Session, world: WorldId, ref: RevisionRef, key: int) -> None:
    rows = Structure.read(session, key)
    own = rows.checksums(world, ref)
    session.execute_many(
        "UPDATE sentences SET checksum = :checksum WHERE revision = :key AND sid = :sid",
        [
            {"key": key, "sid": row[0], "checksum": made}
            for row, made in zip(rows.sentences, own.sentences, strict=True)
        ],
    )
    session.execute_many(
        "UPDATE places SET checksum = :checksum WHERE revision = :key AND start = :start",
        [
            {"key": key, "start": row[0], "checksum": made}
            for row, made in zip(rows.places, own.places, strict=True)
        ],
    )
    session.execute_many(
        "UPDATE figures SET checksum = :checksum WHERE revision = :key AND number = :number",
        [
            {"key": key, "number": row[0], "checksum": made}
            for row, made in zip(rows.figures, own.figures, strict=True)
        ],
    )
    session.execute(
        "UPDATE revisions SET parts = :parts WHERE key = :key", parts=own.parts, key=key
    )


def _seal_chunks(session: Session, world: WorldId, ref: RevisionRef, key: int) -> None:
    generations = session.all(
        """SELECT generation FROM tallies WHERE revision = :key
           UNION SELECT generation FROM states WHERE world_id = :world AND revision = :key""",
        key=key,
    )
    for (generation,) in generations:
        where = {"key": key, "generation": generation}
        rows = session.all(
            f"""SELECT {CHUNK_CELLS} FROM states s
                LEFT JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
                  AND c.position = s.position
                WHERE s.world_id = :world AND s.revision = :key AND s.generation = :generation
                ORDER BY s.position""",
            **where,
        )
        own = [chunk_checksum(world, generation, ref, row) for row in rows]
        session.execute_many(
            """UPDATE states SET checksum = :checksum WHERE world_id = :world AND revision = :key
                 AND generation = :generation AND position = :position""",
            [
                {**where, "position": row[0], "checksum": made}
                for row, made in zip(rows, own, strict=True)
            ],
        )
        session.execute(
            """UPDATE tallies SET checksum = :checksum
               WHERE revision = :key AND generation = :generation""",
            **where,
            checksum=tally_checksum(world, generation, ref, own),
        )


def _seal_generations(session: Session, world: WorldId) -> None:
    session.execute_many(
        """UPDATE generations SET checksum = :checksum
           WHERE world_id = :world AND number = :number""",
        [
            {"number": row[0], "checksum": generation_checksum(world, *row)}
            for row in session.all(
                """SELECT number, profile, chunking, profile_id, created_at FROM generations
                   WHERE world_id = :world AND checksum IS NULL"""
            )
        ],
    )


def _seal_positions(session: Session, world: WorldId) -> None:
    rows = session.all(
        """SELECT p.reader, p.document, e.name, d.number, p.revision, p.sid, p.updated_at
           FROM positions p JOIN readers e ON e.key = p.reader
           JOIN documents d ON d.key = p.document
           WHERE e.world_id = :world AND p.checksum IS NULL"""
    )
    session.execute_many(
        """UPDATE positions SET checksum = :checksum
           WHERE reader = :reader AND document = :document""",
        [
            {
                "reader": reader,
                "document": document,
                "checksum": position_checksum(world, name, RevisionRef(number, revision), *rest),
            }
            for reader, document, name, number, revision, *rest in rows
        ],
    )


def _seal_vectors(session: Session, world: WorldId) -> None:
    while rows := session.all(
        """SELECT profile_id, text_hash, vector FROM vectors
           WHERE world_id = :world AND checksum IS NULL LIMIT :limit""",
        limit=_PAGE,
    ):
        session.execute_many(
            """UPDATE vectors SET checksum = :checksum
               WHERE world_id = :world AND profile_id = :profile AND text_hash = :text_hash""",
            [
                {
                    "profile": profile,
                    "text_hash": text_hash,
                    "checksum": vector_checksum(world, profile, text_hash, vector),
                }
                for profile, text_hash, vector in rows
            ],
        )
    session.execute_many(
        """UPDATE probes SET checksum = :checksum
           WHERE world_id = :world AND generation = :generation AND probe = :probe""",
        [
            {
                "generation": generation,
                "probe": probe,
                "checksum": checksum("probes", world, generation, probe, vector),
            }
            for generation, probe, vector in session.all(
                """SELECT generation, probe, vector FROM probes
                   WHERE world_id = :world AND checksum IS NULL"""
            )
        ],
    )
