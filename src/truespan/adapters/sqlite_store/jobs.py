"""Jobs in SQLite: how each stands, its sources, and the last lines of its log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import uuid4

import apsw
import msgspec

from truespan.adapters.job_rows import job_of
from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.job_rows import (
    KEPT_LINES,
    OF_WORLD,
    SELECT_JOBS,
    forget_oldest,
    job_key,
    write_news,
)
from truespan.adapters.sqlite_store.shares import fold, may_begin
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.errors import Interrupted
from truespan.protocols import Clock
from truespan.types.job import (
    DocumentState,
    Job,
    JobCounts,
    JobDocument,
    JobLine,
    JobNews,
    JobState,
    Phase,
)
from truespan.types.scope import Scope


class SqliteJobs:
    """The part of the store that knows jobs."""

    _connections: Connections
    _clock: Clock

    def begin_job(self, scope: Scope, kind: str, request: str, process: str) -> Job:
        """Write down a job that runs now, and forget the oldest that are over."""
        return self._add(scope, kind, request, process, JobState.RUNNING)

    def queue_job(self, scope: Scope, kind: str, request: str, process: str) -> Job:
        """Write down a job that is to be done in the background; else as `begin_job`."""
        return self._add(scope, kind, request, process, JobState.QUEUED)

    def queue_job_once(
        self, scope: Scope, kind: str, request: str, process: str, *, since: float | None = None
    ) -> Job:
        """Write down a job as `queue_job` does, unless one like it waits; then return that one."""
        queued = JobState.QUEUED
        return self._add(scope, kind, request, process, queued, once=True, since=since)

    def _add(
        self,
        scope: Scope,
        kind: str,
        request: str,
        process: str,
        state: JobState,
        *,
        once: bool = False,
        since: float | None = None,
    ) -> Job:
        now = self._clock.now()
        job = Job(
            id=uuid4().hex[:12],
            kind=kind,
            state=state,
            phase=Phase.READING,
            request=request,
            created_at=now,
            seen_at=now,
            finished_at=None,
            process=process,
            background=state is JobState.QUEUED,
        )
        with self._connections.writing() as connection:
            world = world_key(connection, scope)
            if once and (found := _alike(connection, scope, kind, request, since)):
                return found
            connection.execute(
                """INSERT INTO jobs (id, world, kind, request, state, phase, process, created_at,
                     seen_at, background) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (job.id, world, kind, request, state, job.phase, process, now, now, job.background),
            )
            forget_oldest(connection, world, kind)
        return job

    def requeue_job(
        self, scope: Scope, job: str, process: str, *, seen: JobState, crashes: int
    ) -> bool:
        """Queue a job again; False when it is no longer in the state it was seen in."""
        return self._change(
            scope,
            job,
            """UPDATE jobs SET state = 'queued', background = 1, cancel = 0, process = ?,
                 crashes = ?, seen_at = ?, finished_at = NULL, error = NULL
               WHERE key = ? AND state = ?""",
            (process, crashes, self._clock.now()),
            (seen,),
        )

    def start_job(self, scope: Scope, job: str, process: str) -> bool:
        """Begin with a job that is queued; False when it is not, or not any more."""
        with self._connections.writing() as connection:
            key = job_key(connection, scope, job)
            if not may_begin(connection, key):
                return False
            connection.execute(
                """UPDATE jobs SET state = 'running', process = ?, seen_at = ?
                   WHERE key = ? AND state = 'queued'""",
                (process, self._clock.now(), key),
            )
            return connection.changes() > 0

    def continue_job(self, scope: Scope, job: str, process: str) -> bool:
        """Take up a job that did not end well; False when it is done or another took it up."""
        return self._change(
            scope,
            job,
            """UPDATE jobs SET state = 'running', background = 0, cancel = 0, process = ?,
                 seen_at = ?, finished_at = NULL, error = NULL
               WHERE key = ? AND state NOT IN ('done', 'queued', 'running')""",
            (process, self._clock.now()),
        )

    def interrupt_job(self, scope: Scope, job: str, process: str) -> bool:
        """Write down that a job which a process had is interrupted; False when that has it not."""
        return self._change(
            scope,
            job,
            """UPDATE jobs SET crashes = crashes + (background AND state = 'running'),
                 state = CASE WHEN cancel THEN 'cancelled' ELSE 'interrupted' END, finished_at = ?
               WHERE key = ? AND process = ? AND state IN ('queued', 'running')""",
            (self._clock.now(),),
            (process,),
        )

    def take_over_job(
        self, scope: Scope, job: str, process: str, *, keeper: str, most_crashes: int
    ) -> bool:
        """Queue a job that ran in a process which is gone, as a crash; False when that has it not.

        One that was asked to stop is cancelled, one with too many crashes is interrupted.
        """
        return self._change(
            scope,
            job,
            """UPDATE jobs SET crashes = crashes + 1,
                 state = CASE WHEN cancel THEN 'cancelled'
                   WHEN crashes + 1 >= ? THEN 'interrupted' ELSE 'queued' END,
                 finished_at = CASE WHEN cancel OR crashes + 1 >= ? THEN ? END,
                 process = CASE WHEN cancel OR crashes + 1 >= ? THEN process ELSE ? END
               WHERE key = ? AND process = ? AND state = 'running' AND background""",
            (most_crashes, most_crashes, self._clock.now(), most_crashes, keeper),
            (process,),
        )

    def _change(
        self,
        scope: Scope,
        job: str,
        statement: str,
        before: tuple[Any, ...],
        after: tuple[Any, ...] = (),
    ) -> bool:
        """Run a statement whose bindings have the job's key among them; say if it did anything.

        One that is over, or was and begins anew, has no shares afterwards.
        """
        with self._connections.writing() as connection:
            key = job_key(connection, scope, job)
            fold(connection, scope, job)
            connection.execute(statement, (*before, key, *after))
            changed = connection.changes() > 0
            fold(connection, scope, job)
            return changed

    def record_job(
        self,
        scope: Scope,
        job: str,
        *,
        state: JobState,
        phase: Phase,
        counts: JobCounts,
        news: JobNews,
        error: str | None = None,
        process: str | None = None,
    ) -> bool:
        """Write down how a job stands; say whether somebody asked for it to be cancelled."""
        now = self._clock.now()
        with self._connections.writing() as connection:
            key = job_key(connection, scope, job)
            rows = fetch(
                connection,
                """UPDATE jobs SET state = ?, phase = ?, counts = ?, error = ?, seen_at = ?,
                     finished_at = ?, claims = CASE WHEN ? THEN claims ELSE '[]' END
                   WHERE key = ? AND process = coalesce(?, process)
                   RETURNING cancel OR EXISTS
                     (SELECT 1 FROM jobs p WHERE p.id = jobs.parent AND p.cancel)""",
                (
                    state,
                    phase,
                    msgspec.json.encode(asdict(counts)).decode(),
                    error,
                    now,
                    now if state.is_over else None,
                    state is JobState.RUNNING,
                    key,
                    process,
                ),
            )
            if not rows:
                raise Interrupted
            write_news(connection, key, news)
            if state.is_over:
                fold(connection, scope, job)
        return bool(rows[0][0])

    def cancel_job(self, scope: Scope, job: str) -> None:
        """Ask a job to stop. One that nobody runs, yet or any more, is cancelled at once."""
        self._change(
            scope,
            job,
            """UPDATE jobs SET cancel = 1, finished_at = CASE state WHEN 'queued' THEN ?
                   ELSE finished_at END,
                 state = CASE WHEN state IN ('interrupted', 'queued') THEN 'cancelled'
                   ELSE state END
               WHERE key = ?""",
            (self._clock.now(),),
        )

    def job(self, scope: Scope, job: str) -> Job | None:
        """Return one job of the world, found by its id."""
        rows = self._connections.query(f"{SELECT_JOBS} AND j.id = ?", (scope.world, job))
        return job_of(rows[0]) if rows else None

    def jobs(self, scope: Scope) -> list[Job]:
        """Return the jobs of the world, the latest first; shares are none."""
        which = "AND j.parent IS NULL ORDER BY j.key DESC"
        rows = self._connections.query(f"{SELECT_JOBS} {which}", (scope.world,))
        return [job_of(row) for row in rows]

    def job_documents(self, scope: Scope, job: str) -> list[JobDocument]:
        """Return what became of a job's sources, its shares' among them."""
        rows = self._connections.query(
            f"""SELECT d.doc_id, d.name, d.state, d.code, d.reason, d.chunks
                FROM job_documents d JOIN jobs j ON j.key = d.job
                WHERE ? IN (j.id, j.parent) AND {OF_WORLD}
                ORDER BY d.name, d.doc_id""",  # noqa: S608
            (job, scope.world),
        )
        return [
            JobDocument(doc_id, name, DocumentState(state), *rest)
            for doc_id, name, state, *rest in rows
        ]

    def job_lines(self, scope: Scope, job: str) -> list[JobLine]:
        """Return the last lines of a job's log, its shares' among them."""
        rows = self._connections.query(
            f"""SELECT l.at, l.level, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
                WHERE ? IN (j.id, j.parent) AND {OF_WORLD}
                ORDER BY l.at, j.key, l.number""",  # noqa: S608
            (job, scope.world),
        )
        return [JobLine(*row) for row in rows[-KEPT_LINES:]]


def _alike(
    connection: apsw.Connection, scope: Scope, kind: str, request: str, since: float | None
) -> Job | None:
    """Return a job that makes another of its kind needless."""
    rows = fetch(
        connection,
        f"""{SELECT_JOBS} AND j.kind = ? AND ((j.state = 'queued' AND j.request = ?)
              OR j.created_at >= ?) ORDER BY j.key DESC LIMIT 1""",
        (scope.world, kind, request, since),
    )
    return job_of(rows[0]) if rows else None
