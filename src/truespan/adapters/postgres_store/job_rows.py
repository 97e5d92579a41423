"""Rows of jobs in PostgreSQL: found, with what their shares add up to, and forgotten."""

from __future__ import annotations

from typing import Final, LiteralString

from truespan.adapters.job_rows import JOB_COLUMNS, LATEST_COLUMNS, SUM_COLUMNS
from truespan.adapters.postgres_store.connection import Session, change_each, fetch
from truespan.errors import JobNotFound
from truespan.types.job import JobNews

KEPT_JOBS = 200
KEPT_WITH_DOCUMENTS = 10
KEPT_LINES = 200

_SUMS: Final = """
    SELECT parent, count(*) AS shares,
      sum((counts::json->>'documents')::bigint)::bigint AS documents,
      sum((counts::json->>'documents_total')::bigint)::bigint AS documents_total,
      sum((counts::json->>'unchanged')::bigint)::bigint AS unchanged,
      sum((counts::json->>'failed')::bigint)::bigint AS failed,
      sum((counts::json->>'chunks')::bigint)::bigint AS chunks,
      sum((counts::json->>'embedded')::bigint)::bigint AS embedded,
      sum((counts::json->>'reused')::bigint)::bigint AS reused,
      sum((counts::json->>'fraction')::double precision * weight) AS weighed,
      sum(weight)::bigint AS weight, min(created_at) AS began_at, max(seen_at) AS seen_at,
      max(crashes) AS crashes
    FROM jobs WHERE parent IS NOT NULL GROUP BY parent
"""
SELECT_JOBS: Final[LiteralString] = (
    f"SELECT {JOB_COLUMNS}, {SUM_COLUMNS}, {LATEST_COLUMNS} "  # noqa: S608 -- names of our own
    f"FROM jobs j LEFT JOIN ({_SUMS}) s ON s.parent = j.id"
)
"""Gives what `job_of` reads. Which jobs, and in which order, is said after it."""


def forget_oldest(session: Session, kind: str) -> None:
    """Forget old jobs of a kind; what is done often does not push out what is done rarely.

    Shares are forgotten with their job, and not before.
    """
    session.execute(
        """DELETE FROM jobs WHERE kind = %(kind)s AND state NOT IN ('queued', 'running')
             AND parent IS NULL AND key NOT IN (SELECT key FROM jobs
               WHERE kind = %(kind)s AND parent IS NULL ORDER BY key DESC LIMIT %(most)s)""",
        {"kind": kind, "most": KEPT_JOBS},
    )
    # Of older jobs the numbers are enough; their documents would outgrow the library.
    session.execute(
        """DELETE FROM job_documents WHERE job IN (SELECT key FROM jobs
             WHERE kind = %(kind)s AND state NOT IN ('queued', 'running') AND parent IS NULL
               AND key NOT IN (SELECT key FROM jobs
                 WHERE kind = %(kind)s AND parent IS NULL ORDER BY key DESC LIMIT %(most)s))""",
        {"kind": kind, "most": KEPT_WITH_DOCUMENTS},
    )


def job_key(session: Session, job: str) -> int:
    """Return the key of a job; raises JobNotFound."""
    rows = fetch(session, "SELECT key FROM jobs WHERE id = %s", (job,))
    if not rows:
        raise JobNotFound(job)
    return rows[0][0]


def write_news(session: Session, key: int, news: JobNews) -> None:
    """Write down what became of sources, and lines of the log, of which the last are kept."""
    change_each(
        session,
        """INSERT INTO job_documents (job, doc_id, name, state, code, reason, chunks)
           VALUES (%s, %s, %s, %s, %s, %s, %s)
           ON CONFLICT (world_id, job, doc_id) DO UPDATE SET name = excluded.name,
             state = excluded.state, code = excluded.code, reason = excluded.reason,
             chunks = excluded.chunks""",
        [
            (key, one.doc_id, one.name, one.state.value, one.code, one.reason, one.chunks)
            for one in news.documents.values()
        ],
    )
    if not news.lines:
        return
    last = fetch(session, "SELECT coalesce(max(number), 0) FROM job_lines WHERE job = %s", (key,))[
        0
    ][0]
    change_each(
        session,
        "INSERT INTO job_lines (job, number, at, level, line) VALUES (%s, %s, %s, %s, %s)",
        [
            (key, last + place, line.at, line.level, line.line)
            for place, line in enumerate(news.lines, 1)
        ],
    )
    session.execute(
        "DELETE FROM job_lines WHERE job = %s AND number <= %s",
        (key, last + len(news.lines) - KEPT_LINES),
    )
