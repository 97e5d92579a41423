"""Jobs in SQLite: how each stands, its sources, and the last lines of its log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import uuid4

import apsw
import msgspec

from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.errors import Interrupted, JobNotFound
from truespan.model.job import (
    DocumentState,
    Job,
    JobCounts,
    JobDocument,
    JobLine,
    JobNews,
    JobState,
    Phase,
)
from truespan.model.scope import Scope
from truespan.ports import Clock

KEPT_JOBS = 200
KEPT_WITH_DOCUMENTS = 10
KEPT_LINES = 200

_COLUMNS = (
    "j.id, j.kind, j.state, j.phase, j.request, j.created_at, j.seen_at, j.finished_at, "
    "j.process, j.counts, j.error, j.background, j.crashes"
)
_OF_WORLD = "j.world = (SELECT key FROM worlds WHERE id = ?)"


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
            if once and (found := _alike(connection, world, kind, request, since)):
                return found
            connection.execute(
                """INSERT INTO jobs (id, world, kind, request, state, phase, process, created_at,
                     seen_at, background) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (job.id, world, kind, request, state, job.phase, process, now, now, job.background),
            )
            _forget_oldest(connection, world, kind)
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
        return self._change(
            scope,
            job,
            """UPDATE jobs SET state = 'running', process = ?, seen_at = ?
               WHERE key = ? AND state = 'queued'""",
            (process, self._clock.now()),
        )

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
        """Run a statement whose bindings have the job's key among them; say if it did anything."""
        with self._connections.writing() as connection:
            key = _job_key(connection, scope, job)
            connection.execute(statement, (*before, key, *after))
            return connection.changes() > 0

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
            key = _job_key(connection, scope, job)
            rows = fetch(
                connection,
                """UPDATE jobs SET state = ?, phase = ?, counts = ?, error = ?, seen_at = ?,
                     finished_at = ? WHERE key = ? AND process = coalesce(?, process)
                   RETURNING cancel""",
                (
                    state,
                    phase,
                    msgspec.json.encode(asdict(counts)).decode(),
                    error,
                    now,
                    now if state.is_over else None,
                    key,
                    process,
                ),
            )
            if not rows:
                raise Interrupted
            _write_news(connection, key, news)
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
        rows = self._connections.query(
            f"SELECT {_COLUMNS} FROM jobs j WHERE j.id = ? AND {_OF_WORLD}",  # noqa: S608
            (job, scope.world),
        )
        return _job(rows[0]) if rows else None

    def jobs(self, scope: Scope) -> list[Job]:
        """Return the jobs of the world, the latest first."""
        rows = self._connections.query(
            f"SELECT {_COLUMNS} FROM jobs j WHERE {_OF_WORLD} ORDER BY j.key DESC",  # noqa: S608
            (scope.world,),
        )
        return [_job(row) for row in rows]

    def job_documents(self, scope: Scope, job: str) -> list[JobDocument]:
        """Return what became of a job's sources."""
        rows = self._connections.query(
            f"""SELECT d.doc_id, d.name, d.state, d.code, d.reason, d.chunks
                FROM job_documents d JOIN jobs j ON j.key = d.job
                WHERE j.id = ? AND {_OF_WORLD} ORDER BY d.name, d.doc_id""",  # noqa: S608
            (job, scope.world),
        )
        return [
            JobDocument(doc_id, name, DocumentState(state), *rest)
            for doc_id, name, state, *rest in rows
        ]

    def job_lines(self, scope: Scope, job: str) -> list[JobLine]:
        """Return the last lines of a job's log."""
        rows = self._connections.query(
            f"""SELECT l.at, l.level, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
                WHERE j.id = ? AND {_OF_WORLD} ORDER BY l.number""",  # noqa: S608
            (job, scope.world),
        )
        return [JobLine(*row) for row in rows]


def _alike(
    connection: apsw.Connection, world: int, kind: str, request: str, since: float | None
) -> Job | None:
    """Return a job that makes another of its kind needless."""
    rows = fetch(
        connection,
        f"""SELECT {_COLUMNS} FROM jobs j WHERE world = ? AND kind = ?
              AND ((state = 'queued' AND request = ?) OR created_at >= ?)
            ORDER BY key DESC LIMIT 1""",  # noqa: S608 -- the names are above
        (world, kind, request, since),
    )
    return _job(rows[0]) if rows else None


def _forget_oldest(connection: apsw.Connection, world: int, kind: str) -> None:
    """Forget old jobs of a kind; what is done often does not push out what is done rarely."""
    connection.execute(
        """DELETE FROM jobs WHERE world = ?1 AND kind = ?2 AND state NOT IN ('queued', 'running')
             AND key NOT IN (SELECT key FROM jobs WHERE world = ?1 AND kind = ?2
               ORDER BY key DESC LIMIT ?3)""",
        (world, kind, KEPT_JOBS),
    )
    # Of older jobs the numbers are enough; their documents would outgrow the library.
    connection.execute(
        """DELETE FROM job_documents WHERE job IN (SELECT key FROM jobs WHERE world = ?1
             AND kind = ?2 AND state NOT IN ('queued', 'running') AND key NOT IN (SELECT key
               FROM jobs WHERE world = ?1 AND kind = ?2 ORDER BY key DESC LIMIT ?3))""",
        (world, kind, KEPT_WITH_DOCUMENTS),
    )


def _job_key(connection: apsw.Connection, scope: Scope, job: str) -> int:
    rows = fetch(
        connection,
        f"SELECT j.key FROM jobs j WHERE j.id = ? AND {_OF_WORLD}",  # noqa: S608
        (job, scope.world),
    )
    if not rows:
        raise JobNotFound(job)
    return rows[0][0]


def _write_news(connection: apsw.Connection, key: int, news: JobNews) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO job_documents VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (key, one.doc_id, one.name, one.state, one.code, one.reason, one.chunks)
            for one in news.documents.values()
        ],
    )
    if not news.lines:
        return
    last = fetch(
        connection, "SELECT coalesce(max(number), 0) FROM job_lines WHERE job = ?", (key,)
    )[0][0]
    connection.executemany(
        "INSERT INTO job_lines VALUES (?, ?, ?, ?, ?)",
        [
            (key, last + place, line.at, line.level, line.line)
            for place, line in enumerate(news.lines, 1)
        ],
    )
    connection.execute(
        "DELETE FROM job_lines WHERE job = ? AND number <= ?",
        (key, last + len(news.lines) - KEPT_LINES),
    )


def _job(row: tuple[Any, ...]) -> Job:
    job, kind, state, phase, request, created, seen, finished, process, counts, *rest = row
    error, background, crashes = rest
    return Job(
        id=job,
        kind=kind,
        state=JobState(state),
        phase=Phase(phase),
        request=request,
        created_at=created,
        seen_at=seen,
        finished_at=finished,
        process=process,
        counts=msgspec.json.decode(counts, type=JobCounts),
        error=error,
        background=bool(background),
        crashes=crashes,
    )
