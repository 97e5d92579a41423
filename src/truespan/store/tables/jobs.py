"""Jobs: their state, the documents that they reserve, the outcome of each source, and their log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, LiteralString
from uuid import uuid4

import msgspec

from truespan.core.decoding import prepare
from truespan.errors import Interrupted, NotFound, StoreDamaged
from truespan.store.engines.session import Part, Row, Session, retry_on_conflict
from truespan.types.job import (
    DocumentState,
    Job,
    JobCounts,
    JobDocument,
    JobLine,
    JobState,
    JobUpdate,
    Phase,
    damaged_job,
)
from truespan.types.scope import Scope

_DOCUMENT_STATES: Final = frozenset(DocumentState)
_DAMAGED: Final = "The record of its outcome is damaged."
MAX_LINES = 200
"""Maximum number of log lines of a job."""
MAX_JOBS = 200
"""Maximum number of finished jobs of a kind in a world."""
MAX_JOBS_WITH_DOCUMENTS = 10
"""Maximum number of finished jobs of a kind that keep the outcomes of their sources."""

_COLUMNS: Final = (
    "id", "kind", "state", "phase", "request", "created_at", "seen_at", "finished_at", "process",
    "counts", "error", "background", "crashes",
)  # fmt: skip
# Earlier versions split jobs; the parts have a parent, and are done again with their job.
_JOBS: Final = """
    SELECT id, kind, state, phase, request, created_at, seen_at, finished_at, process, counts,
      error, background, crashes
    FROM jobs WHERE world_id = :world AND parent IS NULL
"""
_OLD: Final = """
    SELECT key FROM jobs WHERE world_id = :world AND kind = :kind AND parent IS NULL
      AND state NOT IN ('queued', 'running') AND key < (
        SELECT key FROM jobs WHERE world_id = :world AND kind = :kind AND parent IS NULL
        ORDER BY key DESC LIMIT 1 OFFSET :kept - 1)
"""


class Jobs(Part):
    """Jobs. Methods only lock the row of a job, so they do not wait for writers of the world."""

    @retry_on_conflict
    def add(
        self,
        scope: Scope,
        kind: str,
        request: str,
        process: str,
        *,
        queued: bool = False,
        once: bool = False,
        since: float | None = None,
    ) -> Job:
        """Add a running job, or a queued one to run in the background.

        The oldest finished jobs of its kind are removed. With `once`, an equal job that is queued
        is returned instead; with `since`, any job of the kind that was added at that time or later
        counts as equal.
        """
        now, state = self._clock.now(), JobState.QUEUED if queued else JobState.RUNNING
        values: dict[str, Any] = {
            "id": uuid4().hex[:12],
            "kind": kind,
            "request": request,
            "created_at": now,
            "seen_at": now,
            "process": process,
            "background": queued,
        }
        with self._db.write(scope, lock=False, kind=kind, request=request, since=since) as session:
            if once:
                # Of several concurrent callers, only one may add the job.
                session.lock_name("truespan.once", f"{scope.world} {kind}")
                equal = session.value(
                    """SELECT id FROM jobs WHERE world_id = :world AND kind = :kind
                         AND ((state = 'queued' AND request = :request) OR created_at >= :since)
                       ORDER BY key DESC LIMIT 1"""
                )
                if equal is not None:
                    return _read_job(session.all(f"{_JOBS} AND id = :job", job=equal)[0])
            session.insert("jobs", **values, state=state.value, phase=Phase.READING.value)
            # Per kind, so that a frequent kind does not push out a rare one.
            session.execute(
                f"DELETE FROM jobs WHERE world_id = :world AND key IN ({_OLD})", kept=MAX_JOBS
            )
            # Older jobs keep only their counts; their documents would outgrow the library.
            session.execute(
                f"DELETE FROM job_documents WHERE job IN ({_OLD})", kept=MAX_JOBS_WITH_DOCUMENTS
            )
        return Job(**values, state=state, phase=Phase.READING, finished_at=None)

    def requeue(
        self, scope: Scope, job: str, process: str, *, seen: JobState, crashes: int
    ) -> bool:
        """Queue a job again; False if its state has changed since it was seen."""
        return self._update(
            scope,
            job,
            """UPDATE jobs SET state = 'queued', background = true, cancel = false,
                 process = :process, crashes = :crashes, seen_at = :now, finished_at = NULL,
                 error = NULL
               WHERE world_id = :world AND key = :key AND state = :seen""",
            process=process,
            crashes=crashes,
            seen=seen.value,
        )

    def start(self, scope: Scope, job: str, process: str) -> bool:
        """Start a queued job; return whether it was started."""
        return self._update(
            scope,
            job,
            """UPDATE jobs SET state = 'running', process = :process, seen_at = :now
               WHERE world_id = :world AND key = :key AND state = 'queued'""",
            process=process,
        )

    def resume(self, scope: Scope, job: str, process: str) -> bool:
        """Resume a job that did not succeed; False if it is done, queued or running."""
        return self._update(
            scope,
            job,
            """UPDATE jobs SET state = 'running', background = false, cancel = false,
                 process = :process, seen_at = :now, finished_at = NULL, error = NULL
               WHERE world_id = :world AND key = :key
                 AND state NOT IN ('done', 'queued', 'running')""",
            process=process,
        )

    def interrupt(self, scope: Scope, job: str, process: str) -> bool:
        """Mark a job of a process as interrupted; False if the process does not have it.

        A running background job counts a crash. A job that was to stop is cancelled.
        """
        return self._update(
            scope,
            job,
            """UPDATE jobs SET finished_at = :now,
                 crashes = crashes + CASE WHEN background AND state = 'running' THEN 1 ELSE 0 END,
                 state = CASE WHEN cancel THEN 'cancelled' ELSE 'interrupted' END
               WHERE world_id = :world AND key = :key AND process = :process
                 AND state IN ('queued', 'running')""",
            process=process,
        )

    def take_over(
        self, scope: Scope, job: str, process: str, *, owner: str, max_crashes: int
    ) -> bool:
        """Queue a job of a crashed process again; False if the process does not have it.

        A job that was to stop is cancelled; a job with too many crashes is interrupted.
        """
        return self._update(
            scope,
            job,
            """UPDATE jobs SET crashes = crashes + 1,
                 state = CASE WHEN cancel THEN 'cancelled'
                   WHEN crashes + 1 >= :max_crashes THEN 'interrupted' ELSE 'queued' END,
                 finished_at = CASE WHEN cancel OR crashes + 1 >= :max_crashes THEN :now END,
                 process = CASE WHEN cancel OR crashes + 1 >= :max_crashes THEN process
                   ELSE :owner END
               WHERE world_id = :world AND key = :key AND process = :process
                 AND state = 'running' AND background""",
            process=process,
            owner=owner,
            max_crashes=max_crashes,
        )

    def cancel(self, scope: Scope, job: str) -> None:
        """Request that a job stops. A job that is not running is cancelled at once."""
        self._update(
            scope,
            job,
            """UPDATE jobs SET cancel = true,
                 finished_at = CASE state WHEN 'queued' THEN :now ELSE finished_at END,
                 state = CASE WHEN state IN ('interrupted', 'queued') THEN 'cancelled'
                   ELSE state END
               WHERE world_id = :world AND key = :key""",
        )

    @retry_on_conflict
    def _update(self, scope: Scope, job: str, statement: LiteralString, **values: Any) -> bool:
        """Run a statement on the row `:key` of a job, with `:now`; return whether it changed."""
        with self._db.write(scope, lock=False) as session:
            key = _require_key(session, job)
            return session.execute(statement, key=key, now=self._clock.now(), **values) > 0

    @retry_on_conflict
    def record(
        self,
        scope: Scope,
        job: str,
        *,
        state: JobState,
        phase: Phase,
        counts: JobCounts,
        news: JobUpdate,
        error: str | None = None,
        process: str | None = None,
    ) -> bool:
        """Record the state and the news of a job; return whether it is to stop."""
        now = self._clock.now()
        with self._db.write(scope, lock=False, error=error, now=now, process=process) as session:
            key = _require_key(session, job)
            found = session.one(
                """UPDATE jobs SET state = :state, phase = :phase, counts = :counts,
                     error = :error, seen_at = :now, finished_at = :finished,
                     claims = CASE WHEN :running THEN claims ELSE '[]' END
                   WHERE world_id = :world AND key = :key
                     AND process = coalesce(CAST(:process AS TEXT), process)
                   RETURNING cancel""",
                state=state.value,
                phase=phase.value,
                counts=msgspec.json.encode(counts).decode(),
                finished=now if state.is_over else None,
                running=state is JobState.RUNNING,
                key=key,
            )
            if found is None:
                raise Interrupted
            _write_news(session, key, news)
        return bool(found[0])

    @retry_on_conflict
    def claim_documents(
        self,
        scope: Scope,
        job: str,
        process: str,
        doc_ids: Sequence[str],
        is_alive: Callable[[str], bool] = lambda _process: True,
    ) -> bool:
        """Reserve documents for a job while it runs; False if another job has one of them.

        Jobs of dead processes have none.
        """
        with self._db.write(scope, lock=False, job=job, process=process) as session:
            # One claim at a time in a world: concurrent ones would not see each other.
            session.lock_name("truespan.claims", scope.world)
            others = session.all(
                """SELECT process, claims FROM jobs WHERE world_id = :world AND state = 'running'
                     AND claims <> '[]' AND id <> :job"""
            )
            wanted = set(doc_ids)
            if any(
                not wanted.isdisjoint(_read_claims(claims)) and is_alive(owner)
                for owner, claims in others
            ):
                return False
            claimed = session.execute(
                """UPDATE jobs SET claims = :claims WHERE world_id = :world AND id = :job
                     AND process = :process AND state = 'running'""",
                claims=json.dumps(list(doc_ids)),
            )
            if not claimed:
                raise Interrupted
            return True

    def find(self, scope: Scope, job: str) -> Job | None:
        """Return one job of the world; None if there is none."""
        row = self._db.at(scope).one(f"{_JOBS} AND id = :job", job=job)
        return None if row is None else _read_job(row)

    def all(self, scope: Scope) -> list[Job]:
        """Return the jobs of the world, the latest first."""
        return [_read_job(row) for row in self._db.at(scope).all(f"{_JOBS} ORDER BY key DESC")]

    def documents(self, scope: Scope, job: str) -> list[JobDocument]:
        """Return the outcome of each source of a job."""
        rows = self._db.at(scope, job=job).all(
            """SELECT d.doc_id, d.name, d.state, d.code, d.reason, d.chunks
               FROM job_documents d JOIN jobs j ON j.key = d.job
               WHERE UNINDEXED(j.world_id) = :world AND j.id = :job
               ORDER BY d.name, d.doc_id"""
        )
        return [
            JobDocument(
                doc_id=doc_id,
                name=name,
                state=DocumentState(state),
                code=code,
                reason=reason,
                chunks=chunks,
            )
            if state in _DOCUMENT_STATES
            else JobDocument(doc_id, name, DocumentState.FAILED, StoreDamaged.code, _DAMAGED)
            for doc_id, name, state, code, reason, chunks in rows
        ]

    def lines(self, scope: Scope, job: str) -> list[JobLine]:
        """Return the last lines of the log of a job."""
        rows = self._db.at(scope).all(
            """SELECT l.at, l.level, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
               WHERE UNINDEXED(j.world_id) = :world AND j.id = :job ORDER BY l.number""",
            job=job,
        )
        return [JobLine(*row) for row in rows]


def _read_claims(claims: str) -> Sequence[str]:
    """Return the documents that a job has reserved; none if damaged, so that no job waits."""
    try:
        return msgspec.json.decode(claims, type=list[str])
    except msgspec.DecodeError:
        return ()


def _require_key(session: Session, job: str) -> int:
    key = session.value("SELECT key FROM jobs WHERE world_id = :world AND id = :job", job=job)
    if key is None:
        raise NotFound("job", job)
    return key


def _read_job(row: Row) -> Job:
    """Return a row of `_JOBS`; a damaged one is a failed job."""
    try:
        values = dict(zip(_COLUMNS, row, strict=True))
        counts = msgspec.json.decode(values.pop("counts"), type=prepare(JobCounts))
        # Not strict: SQLite has no booleans.
        return msgspec.convert(values | {"counts": counts}, prepare(Job), strict=False)
    except (ValueError, TypeError, RecursionError):
        return _read_damaged_job(row)


def _read_damaged_job(row: Row) -> Job:
    """Return a failed job with only the id, kind and request of a damaged row."""
    job, kind, _, _, request, *_ = row
    return Job(
        id=str(job),
        kind=str(kind),
        state=JobState.FAILED,
        phase=Phase.FINISHED,
        request=str(request),
        created_at=0.0,
        seen_at=0.0,
        finished_at=None,
        process="",
        error=damaged_job(str(job)).message,
    )


def _write_news(session: Session, key: int, news: JobUpdate) -> None:
    """Write outcomes of sources and log lines; only the last log lines are kept."""
    session.insert_many(
        "job_documents",
        ("job", "doc_id", "name", "state", "code", "reason", "chunks"),
        [
            (key, doc_id, found.name, found.state.value, found.code, found.reason, found.chunks)
            for doc_id, found in news.documents.items()
        ],
        key=("job", "doc_id"),
    )
    if not news.lines:
        return
    last = session.value("SELECT max(number) FROM job_lines WHERE job = :key", key=key) or 0
    session.insert_many(
        "job_lines",
        ("job", "number", "at", "level", "line"),
        [
            (key, number, line.at, line.level, line.line)
            for number, line in enumerate(news.lines, last + 1)
        ],
    )
    session.execute(
        "DELETE FROM job_lines WHERE job = :key AND number <= :number",
        key=key,
        number=last + len(news.lines) - MAX_LINES,
    )
