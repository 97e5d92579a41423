"""What several parts share: finding a revision, counting its chunks, and records as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

import msgspec

from truespan.store.session import Row, Session
from truespan.types.chunk import FigureMark
from truespan.types.document import RevisionRef
from truespan.types.profile import (
    STANDARD_CHUNKING,
    ChunkingProfile,
    Distance,
    EmbeddingProfile,
    chunking_from_json,
)
from truespan.types.scope import Generation
from truespan.types.text import PageStart, Place

_LONGEST: Final = 2**31 - 1

REVISION: Final = """(
    SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.world_id = :world AND d.number = :document AND r.number = :revision)"""
"""The key of a revision, by the numbers that it is known by; as a value of `:document` and
`:revision`."""

ACTIVE_REVISION: Final = """(
    SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
    WHERE d.world_id = :world AND d.number = :document AND r.state = 'active')"""
"""The key of the revision of `:document` that readers see."""

TAILS: Final = """tails t CROSS JOIN revisions r CROSS JOIN documents d
    WHERE r.key = t.revision AND d.key = r.document AND d.world_id = :world"""
"""The tails of the world. CROSS keeps SQLite from starting with all documents of the world."""

OUTLINE: Final = """
    SELECT (SELECT coalesce(min(s.sid), 0) FROM sentences s
        WHERE s.revision = p.revision AND s.start >= p.start),
      p.start, p.chapter, p.section
    FROM places p"""
"""Where chapters and sections begin: the first sentence, the offset, and the names."""


def numbers_of(ref: RevisionRef) -> dict[str, int]:
    """Return the values of `:document` and `:revision` for a revision."""
    return {"document": ref.document, "revision": ref.revision}


def revision_key(session: Session, ref: RevisionRef, *, state: str | None = None) -> int | None:
    """Return the key that a revision's rows carry; None when it is gone or in another state."""
    return session.value(
        """SELECT r.key FROM revisions r JOIN documents d ON d.key = r.document
           WHERE d.world_id = :world AND d.number = :document AND r.number = :revision
             AND r.state = coalesce(CAST(:state AS TEXT), r.state)""",
        **numbers_of(ref),
        state=state,
    )


def has_generation(session: Session) -> bool:
    """Say whether the scope's generation exists and is not being removed."""
    found = session.one(
        """SELECT 1 FROM generations
           WHERE world_id = :world AND number = :generation AND removed_at IS NULL"""
    )
    return found is not None


def tally(session: Session, revision: int, generation: int) -> None:
    """Count a revision's states again, in the transaction that changed them."""
    [(chunks, embedded, quarantined)] = session.all(
        """SELECT count(*), count(*) FILTER (WHERE state = 'embedded'),
             count(*) FILTER (WHERE state = 'quarantined')
           FROM states
           WHERE world_id = :world AND revision = :revision AND generation = :generation""",
        revision=revision,
        generation=generation,
    )
    session.insert(
        "tallies",
        key=("revision", "generation"),
        revision=revision,
        generation=generation,
        chunks=chunks,
        embedded=embedded,
        quarantined=quarantined,
    )


def tally_each(session: Session, changed: Iterable[Row]) -> None:
    """Count the states again of each revision and generation that occurs among changed rows."""
    for revision, generation in sorted({row[:2] for row in changed}):
        tally(session, revision, generation)


class Layout(NamedTuple):
    """Where the chapters, sections and pages of a text begin."""

    starts: tuple[int, ...]
    places: tuple[Place, ...]
    pages: tuple[PageStart, ...]


def read_layout(session: Session, key: int | None, end: int = _LONGEST) -> Layout:
    """Return the places and pages of a revision that begin before `end`."""
    places = session.all(
        """SELECT start, chapter, section FROM places
           WHERE revision = :key AND start < :end ORDER BY start""",
        key=key,
        end=end,
    )
    pages = session.all(
        "SELECT start, page FROM pages WHERE revision = :key AND start < :end ORDER BY start",
        key=key,
        end=end,
    )
    return Layout(
        tuple(row[0] for row in places),
        tuple(Place(*row[1:]) for row in places),
        tuple(PageStart(*row) for row in pages),
    )


def read_chunking(name: str, stored: str | None) -> ChunkingProfile:
    """Return the chunking of a revision; one of an earlier version names a standard profile."""
    return chunking_from_json(stored) if stored else STANDARD_CHUNKING[name]


def figure_text(mark: FigureMark) -> str:
    return msgspec.json.encode(mark).decode()


def figure_mark(stored: str) -> FigureMark:
    return msgspec.json.decode(stored, type=FigureMark)


def tags_of(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(json.loads(stored))


def read_generation(number: int, profile: str, chunking: str | None) -> Generation:
    chunks = chunking_from_json(chunking) if chunking else None
    return Generation(number, _read_profile(profile), chunks)


@cache
def _read_profile(stored: str) -> EmbeddingProfile:
    """Return a profile; its text is read every time, but equal text need not be parsed twice."""
    fields = json.loads(stored)
    return EmbeddingProfile(**{**fields, "distance": Distance(fields["distance"])})
