"""Shares of jobs in PostgreSQL: written down together, done apart, and folded into their job.

Whoever decides about a job by its shares has the job's row for itself meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from uuid import uuid4

import msgspec

from truespan.adapters.job_rows import job_of
from truespan.adapters.postgres_store.connection import (
    Connections,
    Session,
    again_on_conflict,
    change,
    change_each,
    fetch,
)
from truespan.adapters.postgres_store.job_rows import KEPT_LINES, SELECT_JOBS, job_key
from truespan.errors import Interrupted
from truespan.protocols import Clock
from truespan.types.job import Job, JobCounts, JobShare, JobState, Phase
from truespan.types.scope import Scope


class PostgresShares:
    """The part of the store that knows shares of jobs."""

    _connections: Connections
    _clock: Clock

    @again_on_conflict
    def spread_job(
        self, scope: Scope, job: str, process: str, *, keeper: str, shares: Sequence[JobShare]
    ) -> list[Job]:
        """Write down the shares of a job that a process runs; who waits keeps the job."""
        now = self._clock.now()
        with self._connections.writing(scope.world) as session:
            rows = fetch(
                session,
                """UPDATE jobs SET process = %s, counts = '{}', seen_at = %s
                   WHERE id = %s AND process = %s AND state = 'running' RETURNING key, kind""",
                (keeper, now, job, process),
            )
            if not rows:
                raise Interrupted
            [(key, kind)] = rows
            # What an earlier run said of sources is said anew by the shares.
            session.execute(
                "DELETE FROM job_documents WHERE job = %s AND state <> 'removed'", (key,)
            )
            _add(session, job, kind, keeper, now, shares)
            return _shares(session, job)

    def shares(self, scope: Scope, job: str) -> list[Job]:
        """Return the shares of a job, in the order in which they are to be begun with."""
        with self._connections.reading(scope.world) as session:
            return _shares(session, job)

    @again_on_conflict
    def settle_job(self, scope: Scope, job: str, *, keeper: str) -> bool:
        """End a job that is not to be done any more; say whether all its shares are done."""
        with self._connections.writing(scope.world) as session:
            held = _held(session, job, keeper)
            found = _tally(session, job)
            if held is None or not found or "running" in found:
                return False
            key, cancel = held
            if cancel:
                _end(session, key, JobState.CANCELLED, self._clock.now())
            elif "interrupted" in found:
                _end(session, key, JobState.INTERRUPTED, self._clock.now())
            elif "failed" in found:
                _end(session, key, JobState.FAILED, self._clock.now(), found["failed"])
            fold(session, job)
            return not cancel and set(found) == {"done"}

    @again_on_conflict
    def gather_job(self, scope: Scope, job: str, process: str, *, keeper: str) -> bool:
        """Run a job on whose shares its keeper waited; False unless all of them are done."""
        with self._connections.writing(scope.world) as session:
            held = _held(session, job, keeper)
            if held is None or held[1] or set(_tally(session, job)) != {"done"}:
                return False
            session.execute(
                "UPDATE jobs SET process = %s, seen_at = %s WHERE key = %s",
                (process, self._clock.now(), held[0]),
            )
            return True

    @again_on_conflict
    def claim_documents(self, scope: Scope, job: str, process: str, doc_ids: Sequence[str]) -> bool:
        """Have documents for a job alone while it runs; False while another has one of them."""
        with self._connections.writing(scope.world) as session:
            # Those who claim in one world follow each other, or two would not see each other.
            session.execute(
                "SELECT pg_advisory_xact_lock(hashtext('truespan.claims'), hashtext(%s))",
                (scope.world,),
            )
            others = fetch(
                session,
                """SELECT claims FROM jobs
                   WHERE state = 'running' AND claims <> '[]' AND id <> %s""",
                (job,),
            )
            if any(not set(doc_ids).isdisjoint(json.loads(claims)) for (claims,) in others):
                return False
            claimed = change(
                session,
                """UPDATE jobs SET claims = %s
                   WHERE id = %s AND process = %s AND state = 'running'""",
                (json.dumps(list(doc_ids)), job, process),
            )
            if not claimed:
                raise Interrupted
            return True


def may_begin(session: Session, job: str) -> bool:
    """Say whether nothing speaks against a share; a job that is none is not asked about.

    Its job stays as it is until the transaction ends.
    """
    [(parent,)] = fetch(session, "SELECT parent FROM jobs WHERE id = %s", (job,))
    if parent is None:
        return True
    alive = fetch(
        session,
        """SELECT 1 FROM jobs WHERE id = %s AND state = 'running' AND NOT cancel
           FOR NO KEY UPDATE""",
        (parent,),
    )
    return bool(alive) and _tally(session, parent).keys().isdisjoint({"failed", "interrupted"})


def fold(session: Session, job: str) -> None:
    """Make what the shares of a job that is over did its own, and remove them."""
    rows = fetch(session, f"{SELECT_JOBS} WHERE j.id = %s", (job,))
    folded = job_of(rows[0]) if rows else None
    if folded is None or not folded.shares or not folded.state.is_over:
        return
    key = job_key(session, job)
    session.execute(
        "UPDATE jobs SET counts = %s, crashes = %s, phase = %s WHERE key = %s",
        (_spelled(folded.counts), folded.crashes, folded.phase.value, key),
    )
    session.execute(
        """INSERT INTO job_documents (job, doc_id, name, state, code, reason, chunks)
           SELECT DISTINCT ON (d.doc_id)
             %s::bigint, d.doc_id, d.name, d.state, d.code, d.reason, d.chunks
           FROM job_documents d JOIN jobs j ON j.key = d.job WHERE j.parent = %s
           ON CONFLICT (world_id, job, doc_id) DO UPDATE SET name = excluded.name,
             state = excluded.state, code = excluded.code, reason = excluded.reason,
             chunks = excluded.chunks""",
        (key, job),
    )
    _fold_lines(session, key, job)
    session.execute("DELETE FROM jobs WHERE parent = %s", (job,))


def _fold_lines(session: Session, key: int, job: str) -> None:
    lines = fetch(
        session,
        """SELECT l.at, l.level, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
           WHERE %s IN (j.id, j.parent) ORDER BY l.at, j.key, l.number""",
        (job,),
    )
    session.execute("DELETE FROM job_lines WHERE job = %s", (key,))
    change_each(
        session,
        "INSERT INTO job_lines (job, number, at, level, line) VALUES (%s, %s, %s, %s, %s)",
        [(key, number, *line) for number, line in enumerate(lines[-KEPT_LINES:], 1)],
    )


def _add(
    session: Session, job: str, kind: str, keeper: str, now: float, shares: Sequence[JobShare]
) -> None:
    change_each(
        session,
        """INSERT INTO jobs (id, parent, kind, request, state, phase, process, created_at,
             seen_at, background, counts, weight)
           VALUES (%s, %s, %s, %s, 'queued', %s, %s, %s, %s, true, %s, %s)""",
        [
            (
                uuid4().hex[:12],
                job,
                kind,
                one.request,
                Phase.READING.value,
                keeper,
                now,
                now,
                _spelled(JobCounts(documents_total=one.documents)),
                one.size,
            )
            for one in shares
        ],
    )


def _shares(session: Session, job: str) -> list[Job]:
    rows = fetch(session, f"{SELECT_JOBS} WHERE j.parent = %s ORDER BY j.key", (job,))
    return [job_of(row) for row in rows]


def _held(session: Session, job: str, keeper: str) -> tuple[int, bool] | None:
    """Return a job that waits for its shares, and hold it; its key, and whether it is to stop."""
    rows = fetch(
        session,
        """SELECT key, cancel FROM jobs
           WHERE id = %s AND state = 'running' AND process = %s FOR NO KEY UPDATE""",
        (job, keeper),
    )
    return (rows[0][0], rows[0][1]) if rows else None


def _tally(session: Session, job: str) -> dict[str, str | None]:
    """Return the states that shares of a job are in, each with the error of one that is."""
    rows = fetch(session, "SELECT state, max(error) FROM jobs WHERE parent = %s GROUP BY 1", (job,))
    return dict(rows)


def _end(session: Session, key: int, state: JobState, now: float, error: str | None = None) -> None:
    session.execute(
        "UPDATE jobs SET state = %s, error = %s, finished_at = %s, seen_at = %s WHERE key = %s",
        (state.value, error, now, now, key),
    )


def _spelled(counts: JobCounts) -> str:
    return msgspec.json.encode(asdict(counts)).decode()
