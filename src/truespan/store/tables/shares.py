"""Shares of jobs: parts of a job that several workers run at the same time.

Each share is a row of `jobs` whose `parent` is the job. The counts of the shares are part of the
job's counts. When the job is over, the shares are merged into it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from truespan.errors import Interrupted, JobNotFound
from truespan.store.engines.session import Part, Row, Session, retry_on_conflict
from truespan.types.job import Job, JobCounts, JobShare, JobState, Phase, damaged_job
from truespan.types.scope import Scope

MAX_LINES = 200
"""Maximum number of log lines of a job."""
_ADDED: Final = (
    "documents", "documents_total", "unchanged", "failed", "chunks", "embedded", "reused", "tokens",
)  # fmt: skip
"""Counts of a job that include the counts of its shares."""

SELECT_JOBS: Final = """
    SELECT key, id, kind, state, phase, request, created_at, seen_at, finished_at, process, counts,
      error, background, crashes, parent, weight
    FROM jobs
"""
_COLUMNS: Final = (
    "id", "kind", "state", "phase", "request", "created_at", "seen_at", "finished_at", "process",
    "counts", "error", "background", "crashes", "parent",
)  # fmt: skip
"""Columns of `SELECT_JOBS` that are fields of a `Job`."""
WITH_SHARES: Final = f"""{SELECT_JOBS}
    WHERE UNINDEXED(world_id) = :world AND (id = :job OR parent = :job) ORDER BY key
"""
_SHARES: Final = f"""{SELECT_JOBS}
    WHERE UNINDEXED(world_id) = :world AND parent = :job ORDER BY key
"""
LINES: Final = """
    SELECT l.at, l.level, l.line FROM job_lines l JOIN jobs j ON j.key = l.job
    WHERE UNINDEXED(j.world_id) = :world AND (j.id = :job OR j.parent = :job)
    ORDER BY l.at, j.key, l.number
"""


class Shares(Part):
    """Shares of jobs."""

    @retry_on_conflict
    def spread_job(
        self, scope: Scope, job: str, process: str, *, owner: str, shares: Sequence[JobShare]
    ) -> list[Job]:
        """Add queued shares to a job of a process; `owner` has the job from then on.

        Raises:
            Interrupted: the process no longer has the job.
        """
        now = self._clock.now()
        with self._db.write(scope, lock=False, owner=owner, now=now, process=process) as session:
            found = session.one(
                """UPDATE jobs SET process = :owner, counts = '{}', seen_at = :now
                   WHERE world_id = :world AND id = :job AND process = :process
                     AND state = 'running' RETURNING key, kind""",
                job=job,
            )
            if found is None:
                raise Interrupted
            key, kind = found
            # The shares report again on the sources of a previous run.
            session.execute(
                "DELETE FROM job_documents WHERE job = :key AND state <> 'removed'", key=key
            )
            common = {
                "parent": job,
                "kind": kind,
                "state": JobState.QUEUED.value,
                "phase": Phase.READING.value,
                "process": owner,
                "created_at": now,
                "seen_at": now,
                "background": True,
            }
            rows = [
                (
                    *common.values(),
                    *(uuid4().hex[:12], share.request, share.size),
                    counts_text(JobCounts(documents_total=share.documents)),
                )
                for share in shares
            ]
            session.insert_many("jobs", (*common, "id", "request", "weight", "counts"), rows)
            return read_jobs(session.all(_SHARES, job=job))

    def shares(self, scope: Scope, job: str) -> list[Job]:
        """Return the shares of a job, in the order in which to start them."""
        return read_jobs(self._db.at(scope).all(_SHARES, job=job))

    def share_after(self, scope: Scope, share: str, places: int) -> str | None:
        """Return the id of the share that is `places` after another share of the same job."""
        return self._db.at(scope).value(
            """SELECT s.id FROM jobs s JOIN jobs own ON own.parent = s.parent AND own.key < s.key
               WHERE UNINDEXED(s.world_id) = :world AND UNINDEXED(own.world_id) = :world
                 AND own.id = :share
               ORDER BY s.key LIMIT 1 OFFSET :skipped""",
            share=share,
            skipped=places - 1,
        )

    @retry_on_conflict
    def settle_job(self, scope: Scope, job: str, *, owner: str) -> bool:
        """End a job without running shares if it was cancelled or a share failed.

        Returns:
            Whether all shares are done, so that the job can be gathered.
        """
        with self._db.write(scope, lock=False, job=job) as session:
            cancel = _lock_owned_job(session, job, owner)
            states = _share_states(session, job)
            if cancel is None or not states or "running" in states:
                return False
            worst = (state for state in ("interrupted", "failed") if state in states)
            if ended := "cancelled" if cancel else next(worst, None):
                session.execute(
                    """UPDATE jobs SET state = :state, error = :error, finished_at = :now,
                         seen_at = :now WHERE world_id = :world AND id = :job""",
                    state=ended,
                    error=states["failed"] if ended == "failed" else None,
                    now=self._clock.now(),
                )
            merge_shares(session, job)
            return not cancel and set(states) == {"done"}

    @retry_on_conflict
    def gather_job(self, scope: Scope, job: str, process: str, *, owner: str) -> bool:
        """Let a process continue a job after its shares; False unless all of them are done."""
        with self._db.write(scope, lock=False, job=job, process=process) as session:
            cancel = _lock_owned_job(session, job, owner)
            if cancel is None or cancel or set(_share_states(session, job)) != {"done"}:
                return False
            session.execute(
                """UPDATE jobs SET process = :process, seen_at = :now
                   WHERE world_id = :world AND id = :job""",
                now=self._clock.now(),
            )
            return True

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

        Jobs whose process is not alive have none.

        Raises:
            Interrupted: the process no longer has the job.
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


def _read_claims(claims: str) -> Sequence[str]:
    """Return the documents that a job has reserved; none if damaged, so that no job waits."""
    try:
        return msgspec.json.decode(claims, type=list[str])
    except msgspec.DecodeError:
        return ()


def require_key(session: Session, job: str) -> int:
    key = session.value("SELECT key FROM jobs WHERE world_id = :world AND id = :job", job=job)
    if key is None:
        raise JobNotFound(job)
    return key


def may_start(session: Session, job: str) -> bool:
    """Return whether a share may start; always true for a job.

    The parent job is locked until the transaction ends.
    """
    parent = session.value("SELECT parent FROM jobs WHERE world_id = :world AND id = :job", job=job)
    if parent is None:
        return True
    running = session.one(
        """SELECT 1 FROM jobs WHERE world_id = :world AND id = :parent AND state = 'running'
             AND NOT cancel LOCK_ROWS()""",
        parent=parent,
    )
    states = _share_states(session, parent)
    return running is not None and states.keys().isdisjoint({"failed", "interrupted"})


def _lock_owned_job(session: Session, job: str, owner: str) -> bool | None:
    """Lock a job that waits for its shares; return whether it is to stop, None if it is gone."""
    found = session.one(
        """SELECT cancel FROM jobs WHERE world_id = :world AND id = :job AND state = 'running'
             AND process = :owner LOCK_ROWS()""",
        job=job,
        owner=owner,
    )
    return None if found is None else bool(found[0])


def _share_states(session: Session, job: str) -> dict[str, str | None]:
    """Return the states of the shares of a job, each with the error of one share."""
    rows = session.all(
        """SELECT state, max(error) FROM jobs
           WHERE UNINDEXED(world_id) = :world AND parent = :job GROUP BY state""",
        job=job,
    )
    return dict(rows)


def merge_shares(session: Session, job: str) -> None:
    """Merge the shares of a job that is over into the job, and remove them."""
    rows = session.all(WITH_SHARES, job=job)
    merged = next((read for read in read_jobs(rows) if read.id == job), None)
    if merged is None or not merged.shares or not merged.state.is_over:
        return
    keys = [row[0] for row in rows]
    key = require_key(session, job)
    session.execute(
        """UPDATE jobs SET counts = :counts, crashes = :crashes, phase = :phase
           WHERE world_id = :world AND key = :key""",
        key=key,
        counts=counts_text(merged.counts),
        crashes=merged.crashes,
        phase=merged.phase.value,
    )
    # If several shares report on a source, the last report wins.
    session.execute(
        """DELETE FROM job_documents AS d WHERE d.job IN LIST(:keys) AND EXISTS (
             SELECT 1 FROM job_documents o
             WHERE o.job IN LIST(:keys) AND o.doc_id = d.doc_id AND o.job > d.job)""",
        keys=keys,
    )
    session.execute(
        "UPDATE job_documents SET job = :key WHERE job IN LIST(:keys) AND job <> :key",
        key=key,
        keys=keys,
    )
    lines = session.all(LINES, job=job)
    session.execute("DELETE FROM job_lines WHERE job = :key", key=key)
    session.insert_many(
        "job_lines",
        ("job", "number", "at", "level", "line"),
        [(key, number, *line) for number, line in enumerate(lines[-MAX_LINES:], 1)],
    )
    session.execute("DELETE FROM jobs WHERE world_id = :world AND parent = :job", job=job)


def read_jobs(rows: Iterable[Row]) -> list[Job]:
    """Return jobs from rows of `SELECT_JOBS`, with the counts of the shares among the rows."""
    jobs: list[Job] = []
    shares: dict[str, list[tuple[Job, int, int]]] = {}
    for row in rows:
        key, parent, weight = row[0], row[-2], row[-1]
        try:
            read = _read_job(row)
        except (ValueError, TypeError, RecursionError):
            read = _read_damaged_job(row)
        jobs.append(read)
        if parent is not None:
            shares.setdefault(parent, []).append((read, key, weight))
    return [_add_shares(job, shares[job.id]) if job.id in shares else job for job in jobs]


def _read_job(row: Row) -> Job:
    values = dict(zip(_COLUMNS, row[1:-1], strict=True))
    counts = msgspec.json.decode(values.pop("counts"), type=JobCounts)
    # Not strict: SQLite has no booleans.
    return msgspec.convert(values | {"counts": counts}, Job, strict=False)


def _read_damaged_job(row: Row) -> Job:
    """Return a failed job with only the id, kind and request of a damaged row."""
    _, job, kind, _, _, request, *_, parent, _ = row
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
        parent=parent,
    )


def _add_shares(job: Job, rows: list[tuple[Job, int, int]]) -> Job:
    """Return a job with the counts of its shares; its progress is their weighted progress."""
    done = job.state is JobState.DONE
    shares = [share for share, _, _ in rows]
    counts = [job.counts, *(share.counts for share in shares)]
    read = sum(share.counts.fraction * weight for share, _, weight in rows)
    weight = max(sum(weight for *_, weight in rows), 1)
    began = min(share.created_at for share in shares)
    seen = max(share.seen_at for share in shares)
    # The most recently seen share, and of several the oldest.
    running = [(-job.seen_at, key, job) for job, key, _ in rows if job.state is JobState.RUNNING]
    latest = min(running)[2] if running else None
    return replace(
        job,
        phase=_phase(job, shares, latest),
        seen_at=max(job.seen_at, seen),
        counts=JobCounts(
            **{name: sum(getattr(part, name) for part in counts) for name in _ADDED},
            fraction=1.0 if done else min(read / weight, 1.0),
            seconds=round(job.counts.seconds + max(seen - began, 0.0), 3),
            current=latest.counts.current if latest else "",
            device=next((part.device for part in counts if part.device), ""),
        ),
        crashes=max(job.crashes, *(share.crashes for share in shares)),
        shares=len(shares),
    )


def _phase(job: Job, shares: Sequence[Job], latest: Job | None) -> Phase:
    """Return the phase of a job with shares; `latest` is its latest running share, if any."""
    if job.state is JobState.DONE:
        return job.phase
    if latest is not None:
        return latest.phase
    waits = job.state is JobState.RUNNING and any(
        share.state is JobState.QUEUED for share in shares
    )
    return Phase.WAITING if waits else job.phase


def counts_text(counts: JobCounts) -> str:
    return msgspec.json.encode(counts).decode()
