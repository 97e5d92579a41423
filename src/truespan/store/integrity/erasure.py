"""Erasure of deleted content: the queue of pending erasures, and redaction of other records."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import LiteralString

from truespan.errors import NotFound
from truespan.store.engines.session import Part, Session, retry_on_conflict
from truespan.types.ids import WorldId
from truespan.types.maintenance import Erasure, ErasureKind, FileTreatment
from truespan.types.profile import profile_from_json
from truespan.types.scope import Authority, Scope, Verb

_ORDER = {kind: place for place, kind in enumerate(ErasureKind)}
_DELETED = "(deleted)"
QUERIES_ERASED = "erased"
"""Key of the row of `query_cache` that records the time of the last erasure."""


class Erasures(Part):
    def all(self, *, urgent: bool = False) -> list[Erasure]:
        """Return the queued erasures in the order of execution; with `urgent`, only urgent ones."""
        rows = self._db.shared.all(
            """SELECT number, kind, world, generation, profile, urgent FROM erasures
               WHERE urgent >= :urgent ORDER BY number""",
            urgent=urgent,
        )
        erasures = []
        for number, kind, world, generation, profile, urgent in rows:
            known = profile_from_json(profile) if profile else None
            erasures.append(
                Erasure(
                    number=number,
                    kind=ErasureKind(kind),
                    world=WorldId(world),
                    generation=generation,
                    profile=known,
                    urgent=bool(urgent),
                )
            )
        return sorted(erasures, key=lambda erasure: _ORDER[erasure.kind])

    @retry_on_conflict
    def queue(self, scope: Scope, *, urgent: bool = False) -> None:
        """Queue a rewrite of the store's files and of the index files of the scope's profile."""
        with self._db.write(scope, shared=True, lock=False) as session:
            profiles = session.all(
                "SELECT profile FROM generations WHERE world_id = :world AND number = :generation"
            )
            queue_files(session, [row[0] for row in profiles], self._clock.now(), urgent=urgent)

    def finish(self, erasure: Erasure) -> None:
        """Remove a finished erasure, unless it was queued again under a new number."""
        self._db.shared.execute(
            "DELETE FROM erasures WHERE number = :number", number=erasure.number
        )

    def rewrite_file(self) -> FileTreatment:
        """Rewrite the store's files, or request it from a server."""
        return self._db.rewrite()

    @retry_on_conflict
    def delete_world(self, authority: Authority, world: WorldId, *, erase: bool) -> dict[str, int]:
        """Remove a world with all its rows, and queue its erasures, in one commit.

        Returns:
            The number of deleted rows by table.
        """
        if not authority.may(Verb.ADMINISTER, world):
            raise NotFound("world", world)
        now = self._clock.now()
        with self._db.write(world, shared=True) as session:
            session.disable_timeout()
            generations = session.all(
                "SELECT number, profile FROM generations WHERE world_id = :world ORDER BY number"
            )
            with session.count_deleted() as removed:
                # Shared tables are not part of `count_deleted` on PostgreSQL.
                shared = {
                    table: session.execute(f"DELETE FROM {table} WHERE world_id = :world")
                    for table in ("aliases", "token_worlds")
                }
                session.execute("DELETE FROM words WHERE world_id = :world")
                session.execute("DELETE FROM directory WHERE world_id = :world")
            for number, profile in generations:
                _queue(session, ErasureKind.POINTS, now, world, number, profile, urgent=True)
            _queue(session, ErasureKind.ASSETS, now, world, urgent=True)
            queue_files(session, [profile for _, profile in generations], now, urgent=erase)
        return {**removed, **{name: count for name, count in shared.items() if count}}


def queue_files(session: Session, profiles: Sequence[str], now: float, *, urgent: bool) -> None:
    """Queue a rewrite of the store's files, and of the index files of some profiles."""
    for profile in dict.fromkeys(profiles):
        _queue(session, ErasureKind.INDEX, now, profile=profile, urgent=urgent)
    _queue(session, ErasureKind.STORE, now, urgent=urgent)


def rename_in_jobs(session: Session, previous: str, doc_id: str) -> None:
    """Rename a document in the records of jobs, so that `redact` finds them."""
    jobs = session.all(
        """SELECT o.job FROM job_documents o JOIN jobs j ON j.key = o.job
           WHERE j.world_id = :world AND o.doc_id = :previous AND NOT EXISTS
             (SELECT 1 FROM job_documents n WHERE n.job = o.job AND n.doc_id = :doc_id)""",
        previous=previous,
        doc_id=doc_id,
    )
    keys = [row[0] for row in jobs]
    session.execute(
        "UPDATE job_documents SET doc_id = :doc_id WHERE doc_id = :previous AND job IN LIST(:keys)",
        doc_id=doc_id,
        previous=previous,
        keys=keys,
    )
    session.execute(
        """UPDATE job_lines SET line = replace(line, :previous, :doc_id)
           WHERE job IN LIST(:keys) AND replace(line, :previous, :doc_id) <> line""",
        doc_id=doc_id,
        previous=previous,
        keys=keys,
    )


def redact(session: Session, document: int, now: float) -> dict[str, int]:
    """Remove the names of a document from the records of jobs, and the world's cached queries.

    A query may have quoted the document; its vector is computed again when needed. A job that is
    not done keeps the paths that it needs to continue.

    Returns:
        The numbers of removed and redacted rows.
    """
    labels = session.all(
        """SELECT d.doc_id, r.name, r.path, r.title FROM documents d
           LEFT JOIN revisions r ON r.document = d.key
           WHERE d.world_id = :world AND d.number = :document""",
        document=document,
    )
    doc_id = labels[0][0] if labels else ""
    pattern = _names_pattern(session, doc_id, {name for row in labels for name in row if name})
    counts = {
        "query_cache": _erase_queries(session, now),
        "job_documents_redacted": _redact_outcomes(session, doc_id, f"deleted-{document}"),
        "job_lines_redacted": _redact_texts(
            session,
            pattern,
            """SELECT l.job, l.number, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
               WHERE j.world_id = :world""",
            "UPDATE job_lines SET line = :text WHERE job = :job AND number = :number",
        ),
        "jobs_redacted": _redact_texts(
            session,
            pattern,
            "SELECT key, 0, request FROM jobs WHERE world_id = :world AND state = 'done'",
            "UPDATE jobs SET request = :text WHERE world_id = :world AND key = :job",
        ),
    }
    return {name: count for name, count in counts.items() if count}


def _names_pattern(session: Session, doc_id: str, names: set[str]) -> re.Pattern[str]:
    """Return a pattern of the names of a document, including names of its file before a rename."""
    previous = session.all(
        """SELECT DISTINCT o.name FROM job_documents o JOIN jobs j ON j.key = o.job
           WHERE j.world_id = :world AND o.doc_id = :doc_id""",
        doc_id=doc_id,
    )
    names |= {row[0] for row in previous if row[0]}
    # Requests are JSON, which may escape characters.
    names |= {json.dumps(name)[1:-1] for name in names}
    longest_first = sorted(names, key=len, reverse=True) or [_DELETED]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")


def _erase_queries(session: Session, now: float) -> int:
    cached = session.execute(
        "DELETE FROM query_cache WHERE world_id = :world AND key <> :key", key=QUERIES_ERASED
    )
    # Processes cache vectors of queries in memory; older ones are not written any more.
    session.insert_many(
        "query_cache",
        ("key", "vector", "created_at"),
        [(QUERIES_ERASED, b"", now)],
        key=("key",),
    )
    return cached


def _redact_outcomes(session: Session, doc_id: str, redacted: str) -> int:
    values = {"doc_id": doc_id, "redacted": redacted}
    # The job may have a row of another redacted document with this name.
    session.execute(
        """DELETE FROM job_documents WHERE doc_id = :redacted AND job IN
             (SELECT o.job FROM job_documents o JOIN jobs j ON j.key = o.job
              WHERE j.world_id = :world AND o.doc_id = :doc_id)""",
        **values,
    )
    return session.execute(
        """UPDATE job_documents SET doc_id = :redacted, name = :name, reason = NULL
           WHERE doc_id = :doc_id AND job IN (SELECT key FROM jobs WHERE world_id = :world)""",
        **values,
        name=_DELETED,
    )


def _redact_texts(
    session: Session, pattern: re.Pattern[str], select: LiteralString, update: LiteralString
) -> int:
    """Replace the matches of a pattern in texts of jobs; return the number of changed texts."""
    rows = [
        {"job": job, "number": number, "text": pattern.sub(_DELETED, text)}
        for job, number, text in session.all(select)
        if pattern.search(text)
    ]
    session.execute_many(update, rows)
    return len(rows)


def _queue(
    session: Session,
    kind: ErasureKind,
    now: float,
    world: str = "",
    generation: int = 0,
    profile: str = "",
    *,
    urgent: bool,
) -> None:
    """Queue an erasure under a new number, in place of an equal one.

    Work that began before cannot remove the new entry.
    """
    # Concurrent transactions would not see each other's rows.
    session.lock_name("truespan.erasures", "queue")
    replaced = session.one(
        """DELETE FROM erasures WHERE kind = :kind AND world = :erased
             AND generation = :generation AND profile = :profile RETURNING urgent""",
        kind=kind.value,
        erased=world,
        generation=generation,
        profile=profile,
    )
    session.insert(
        "erasures",
        kind=kind.value,
        world=world,
        generation=generation,
        profile=profile,
        urgent=urgent or bool(replaced and replaced[0]),
        queued_at=now,
    )
