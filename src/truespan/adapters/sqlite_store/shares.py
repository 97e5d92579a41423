"""Shares of jobs in SQLite: written down together, done apart, and folded into their job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from uuid import uuid4

import apsw
import msgspec

from truespan.adapters.job_rows import job_of
from truespan.adapters.sqlite_store.connection import Connections, fetch
from truespan.adapters.sqlite_store.job_rows import KEPT_LINES, OF_WORLD, SELECT_JOBS, job_key
from truespan.adapters.sqlite_store.worlds import world_key
from truespan.errors import Interrupted
from truespan.protocols import Clock
from truespan.types.job import Job, JobCounts, JobShare, JobState, Phase
from truespan.types.scope import Scope


class SqliteShares:
    """The part of the store that knows shares of jobs."""

    _connections: Connections
    _clock: Clock

    def spread_job(
        self, scope: Scope, job: str, process: str, *, keeper: str, shares: Sequence[JobShare]
    ) -> list[Job]:
        """Write down the shares of a job that a process runs; who waits keeps the job."""
        now = self._clock.now()
        with self._connections.writing() as connection:
            key = job_key(connection, scope, job)
            rows = fetch(
                connection,
                """UPDATE jobs SET process = ?, counts = '{}', seen_at = ?
                   WHERE key = ? AND process = ? AND state = 'running' RETURNING kind""",
                (keeper, now, key, process),
            )
            if not rows:
                raise Interrupted
            # What an earlier run said of sources is said anew by the shares.
            connection.execute(
                "DELETE FROM job_documents WHERE job = ? AND state <> 'removed'", (key,)
            )
            world = world_key(connection, scope)
            _add(connection, world, job, (rows[0][0], keeper, now), shares)
            return _shares(connection, scope, job)

    def shares(self, scope: Scope, job: str) -> list[Job]:
        """Return the shares of a job, in the order in which they are to be begun with."""
        with self._connections.reading() as connection:
            return _shares(connection, scope, job)

    def settle_job(self, scope: Scope, job: str, *, keeper: str) -> bool:
        """End a job that is not to be done any more; say whether all its shares are done."""
        with self._connections.writing() as connection:
            held = _held(connection, scope, job, keeper)
            found = _tally(connection, job)
            if held is None or not found or "running" in found:
                return False
            key, cancel = held
            if cancel:
                _end(connection, key, JobState.CANCELLED, self._clock.now())
            elif "interrupted" in found:
                _end(connection, key, JobState.INTERRUPTED, self._clock.now())
            elif "failed" in found:
                _end(connection, key, JobState.FAILED, self._clock.now(), found["failed"])
            fold(connection, scope, job)
            return not cancel and set(found) == {"done"}

    def gather_job(self, scope: Scope, job: str, process: str, *, keeper: str) -> bool:
        """Run a job on whose shares its keeper waited; False unless all of them are done."""
        with self._connections.writing() as connection:
            held = _held(connection, scope, job, keeper)
            if held is None or held[1] or set(_tally(connection, job)) != {"done"}:
                return False
            connection.execute(
                "UPDATE jobs SET process = ?, seen_at = ? WHERE key = ?",
                (process, self._clock.now(), held[0]),
            )
            return True

    def claim_documents(self, scope: Scope, job: str, process: str, doc_ids: Sequence[str]) -> bool:
        """Have documents for a job alone while it runs; False while another has one of them."""
        with self._connections.writing() as connection:
            others = fetch(
                connection,
                """SELECT claims FROM jobs
                   WHERE world = ? AND state = 'running' AND claims <> '[]' AND id <> ?""",
                (world_key(connection, scope), job),
            )
            if any(not set(doc_ids).isdisjoint(json.loads(claims)) for (claims,) in others):
                return False
            connection.execute(
                "UPDATE jobs SET claims = ? WHERE key = ? AND process = ? AND state = 'running'",
                (json.dumps(list(doc_ids)), job_key(connection, scope, job), process),
            )
            if not connection.changes():
                raise Interrupted
            return True


def may_begin(connection: apsw.Connection, key: int) -> bool:
    """Say whether nothing speaks against a share; a job that is none is not asked about."""
    [(parent,)] = fetch(connection, "SELECT parent FROM jobs WHERE key = ?", (key,))
    if parent is None:
        return True
    alive = fetch(
        connection,
        "SELECT 1 FROM jobs WHERE id = ? AND state = 'running' AND NOT cancel",
        (parent,),
    )
    return bool(alive) and _tally(connection, parent).keys().isdisjoint({"failed", "interrupted"})


def fold(connection: apsw.Connection, scope: Scope, job: str) -> None:
    """Make what the shares of a job that is over did its own, and remove them."""
    rows = fetch(connection, f"{SELECT_JOBS} AND j.id = ?", (scope.world, job))
    folded = job_of(rows[0]) if rows else None
    if folded is None or not folded.shares or not folded.state.is_over:
        return
    key = job_key(connection, scope, job)
    connection.execute(
        "UPDATE jobs SET counts = ?, crashes = ?, phase = ? WHERE key = ?",
        (_spelled(folded.counts), folded.crashes, folded.phase, key),
    )
    connection.execute(
        """INSERT OR REPLACE INTO job_documents
           SELECT ?, d.doc_id, d.name, d.state, d.code, d.reason, d.chunks
           FROM job_documents d JOIN jobs j ON j.key = d.job WHERE j.parent = ?""",
        (key, job),
    )
    _fold_lines(connection, key, job)
    connection.execute("DELETE FROM jobs WHERE parent = ?", (job,))


def _fold_lines(connection: apsw.Connection, key: int, job: str) -> None:
    lines = fetch(
        connection,
        """SELECT l.at, l.level, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
           WHERE ? IN (j.id, j.parent) ORDER BY l.at, j.key, l.number""",
        (job,),
    )
    connection.execute("DELETE FROM job_lines WHERE job = ?", (key,))
    connection.executemany(
        "INSERT INTO job_lines VALUES (?, ?, ?, ?, ?)",
        [(key, number, *line) for number, line in enumerate(lines[-KEPT_LINES:], 1)],
    )


def _add(
    connection: apsw.Connection,
    world: int,
    job: str,
    alike: tuple[str, str, float],
    shares: Sequence[JobShare],
) -> None:
    kind, keeper, now = alike
    connection.executemany(
        """INSERT INTO jobs (id, world, parent, kind, request, state, phase, process, created_at,
             seen_at, background, counts, weight)
           VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, 1, ?, ?)""",
        [
            (
                uuid4().hex[:12],
                world,
                job,
                kind,
                one.request,
                Phase.READING,
                keeper,
                now,
                now,
                _spelled(JobCounts(documents_total=one.documents)),
                one.size,
            )
            for one in shares
        ],
    )


def _shares(connection: apsw.Connection, scope: Scope, job: str) -> list[Job]:
    which = "AND j.parent = ? ORDER BY j.key"
    return [job_of(row) for row in fetch(connection, f"{SELECT_JOBS} {which}", (scope.world, job))]


def _held(
    connection: apsw.Connection, scope: Scope, job: str, keeper: str
) -> tuple[int, bool] | None:
    """Return a job that waits for its shares: its key, and whether it is to stop."""
    rows = fetch(
        connection,
        f"""SELECT j.key, j.cancel FROM jobs j
            WHERE {OF_WORLD} AND j.id = ? AND j.state = 'running'
              AND j.process = ?""",  # noqa: S608 -- a condition of our own
        (scope.world, job, keeper),
    )
    return (rows[0][0], bool(rows[0][1])) if rows else None


def _tally(connection: apsw.Connection, job: str) -> dict[str, str | None]:
    """Return the states that shares of a job are in, each with the error of one that is."""
    rows = fetch(
        connection, "SELECT state, max(error) FROM jobs WHERE parent = ? GROUP BY 1", (job,)
    )
    return dict(rows)


def _end(
    connection: apsw.Connection, key: int, state: JobState, now: float, error: str | None = None
) -> None:
    connection.execute(
        "UPDATE jobs SET state = ?, error = ?, finished_at = ?, seen_at = ? WHERE key = ?",
        (state, error, now, now, key),
    )


def _spelled(counts: JobCounts) -> str:
    return msgspec.json.encode(asdict(counts)).decode()
