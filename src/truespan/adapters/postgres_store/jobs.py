"""Jobs in PostgreSQL: how each stands, its sources, and the last lines of its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, LiteralString
from uuid import uuid4

import msgspec

from truespan.adapters.job_rows import job_of
from truespan.adapters.postgres_store.connection import (
    Connections,
    Session,
    again_on_conflict,
    change,
    fetch,
)
from truespan.adapters.postgres_store.job_rows import (
    KEPT_LINES,
    SELECT_JOBS,
    forget_oldest,
    job_key,
    write_news,
)
from truespan.adapters.postgres_store.shares import fold, may_begin
from truespan.adapters.postgres_store.worlds import require_world
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

_ONCE_LOCK = 0x6F6E_6365
"""Names the advisory locks under which it is seen to that one job of a kind waits."""


class PostgresJobs:
    """The part of the store that knows jobs.

    A job's row is all that has to be agreed on, so nobody waits here for who writes to the world.
    """

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

    @again_on_conflict
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
        with self._connections.writing(scope.world) as session:
            require_world(session, scope.world)
            if once and (found := _alike(session, scope.world, kind, request, since)):
                return found
            session.execute(
                """INSERT INTO jobs (id, kind, request, state, phase, process, created_at,
                     seen_at, background) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)""",
                (
                    job.id,
                    kind,
                    request,
                    state.value,
                    job.phase.value,
                    process,
                    now,
                    now,
                    job.background,
                ),
            )
            forget_oldest(session, kind)
        return job

    def requeue_job(
        self, scope: Scope, job: str, process: str, *, seen: JobState, crashes: int
    ) -> bool:
        """Queue a job again; False when it is no longer in the state it was seen in."""
        return self._change(
            scope,
            job,
            """UPDATE jobs SET state = 'queued', background = true, cancel = false,
                 process = %(process)s, crashes = %(crashes)s, seen_at = %(now)s,
                 finished_at = NULL, error = NULL
               WHERE key = %(key)s AND state = %(seen)s""",
            process=process,
            crashes=crashes,
            seen=seen.value,
        )

    def start_job(self, scope: Scope, job: str, process: str) -> bool:
        """Begin with a job that is queued; False when it is not, or not any more."""
        return self._change(
            scope,
            job,
            """UPDATE jobs SET state = 'running', process = %(process)s, seen_at = %(now)s
               WHERE key = %(key)s AND state = 'queued'""",
            process=process,
            only_if=may_begin,
        )

    def continue_job(self, scope: Scope, job: str, process: str) -> bool:
        """Take up a job that did not end well; False when it is done or another took it up."""
        return self._change(
            scope,
            job,
            """UPDATE jobs SET state = 'running', background = false, cancel = false,
                 process = %(process)s, seen_at = %(now)s, finished_at = NULL, error = NULL
               WHERE key = %(key)s AND state NOT IN ('done', 'queued', 'running')""",
            process=process,
        )

    def interrupt_job(self, scope: Scope, job: str, process: str) -> bool:
        """Write down that a job which a process had is interrupted; False when that has it not."""
        return self._change(
            scope,
            job,
            """UPDATE jobs SET crashes = crashes + (background AND state = 'running')::int,
                 state = CASE WHEN cancel THEN 'cancelled' ELSE 'interrupted' END,
                 finished_at = %(now)s
               WHERE key = %(key)s AND process = %(process)s
                 AND state IN ('queued', 'running')""",
            process=process,
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
                   WHEN crashes + 1 >= %(most)s THEN 'interrupted' ELSE 'queued' END,
                 finished_at = CASE WHEN cancel OR crashes + 1 >= %(most)s THEN %(now)s END,
                 process = CASE WHEN cancel OR crashes + 1 >= %(most)s
                   THEN process ELSE %(keeper)s END
               WHERE key = %(key)s AND process = %(process)s AND state = 'running'
                 AND background""",
            process=process,
            keeper=keeper,
            most=most_crashes,
        )

    @again_on_conflict
    def _change(
        self,
        scope: Scope,
        job: str,
        statement: LiteralString,
        *,
        only_if: Callable[[Session, str], bool] | None = None,
        **bindings: Any,
    ) -> bool:
        """Run a statement that may name the job's `key` and `now`; say if it did anything.

        One that is over, or was and begins anew, has no shares afterwards.
        """
        with self._connections.writing(scope.world) as session:
            named = {"key": job_key(session, job), "now": self._clock.now(), **bindings}
            if only_if is not None and not only_if(session, job):
                return False
            fold(session, job)
            changed = change(session, statement, named) > 0
            fold(session, job)
            return changed

    @again_on_conflict
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
        with self._connections.writing(scope.world) as session:
            key = job_key(session, job)
            rows = fetch(
                session,
                """UPDATE jobs j SET state = %s, phase = %s, counts = %s, error = %s, seen_at = %s,
                     finished_at = %s, claims = CASE WHEN %s THEN claims ELSE '[]' END
                   WHERE key = %s AND process = coalesce(%s::text, process)
                   RETURNING cancel OR EXISTS
                     (SELECT 1 FROM jobs p WHERE p.id = j.parent AND p.cancel)""",
                (
                    state.value,
                    phase.value,
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
            write_news(session, key, news)
            if state.is_over:
                fold(session, job)
        return bool(rows[0][0])

    def cancel_job(self, scope: Scope, job: str) -> None:
        """Ask a job to stop. One that nobody runs, yet or any more, is cancelled at once."""
        self._change(
            scope,
            job,
            """UPDATE jobs SET cancel = true,
                 finished_at = CASE state WHEN 'queued' THEN %(now)s ELSE finished_at END,
                 state = CASE WHEN state IN ('interrupted', 'queued') THEN 'cancelled'
                   ELSE state END
               WHERE key = %(key)s""",
        )

    def job(self, scope: Scope, job: str) -> Job | None:
        """Return one job of the world, found by its id."""
        rows = self._connections.query(scope.world, f"{SELECT_JOBS} WHERE j.id = %s", (job,))
        return job_of(rows[0]) if rows else None

    def jobs(self, scope: Scope) -> list[Job]:
        """Return the jobs of the world, the latest first; shares are none."""
        which = "WHERE j.parent IS NULL ORDER BY j.key DESC"
        return [
            job_of(row) for row in self._connections.query(scope.world, f"{SELECT_JOBS} {which}")
        ]

    def job_documents(self, scope: Scope, job: str) -> list[JobDocument]:
        """Return what became of a job's sources, its shares' among them."""
        rows = self._connections.query(
            scope.world,
            """SELECT d.doc_id, d.name, d.state, d.code, d.reason, d.chunks
               FROM job_documents d JOIN jobs j ON j.key = d.job
               WHERE %s IN (j.id, j.parent) ORDER BY d.name, d.doc_id""",
            (job,),
        )
        return [
            JobDocument(doc_id, name, DocumentState(state), *rest)
            for doc_id, name, state, *rest in rows
        ]

    def job_lines(self, scope: Scope, job: str) -> list[JobLine]:
        """Return the last lines of a job's log, its shares' among them."""
        rows = self._connections.query(
            scope.world,
            """SELECT l.at, l.level, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
               WHERE %s IN (j.id, j.parent) ORDER BY l.at, j.key, l.number""",
            (job,),
        )
        return [JobLine(*row) for row in rows[-KEPT_LINES:]]


def _alike(
    session: Session, world: str, kind: str, request: str, since: float | None
) -> Job | None:
    """Return a job that makes another of its kind needless; none is added meanwhile."""
    session.execute(
        "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_ONCE_LOCK, f"{world} {kind}")
    )
    rows = fetch(
        session,
        f"""{SELECT_JOBS} WHERE j.kind = %s AND ((j.state = 'queued' AND j.request = %s)
              OR j.created_at >= %s) ORDER BY j.key DESC LIMIT 1""",
        (kind, request, since),
    )
    return job_of(rows[0]) if rows else None
