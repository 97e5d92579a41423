"""Rows of jobs in SQLite: found, with what their shares add up to, and forgotten."""

from __future__ import annotations

import apsw

from truespan.adapters.job_rows import JOB_COLUMNS, LATEST_COLUMNS, SUM_COLUMNS
from truespan.adapters.sqlite_store.connection import fetch
from truespan.errors import JobNotFound
from truespan.types.job import JobNews
from truespan.types.scope import Scope

KEPT_JOBS = 200
KEPT_WITH_DOCUMENTS = 10
KEPT_LINES = 200

OF_WORLD = "j.world = (SELECT key FROM worlds WHERE id = ?)"

_SUMS = """
    SELECT parent, count(*) AS shares,
      sum(json_extract(counts, '$.documents')) AS documents,
      sum(json_extract(counts, '$.documents_total')) AS documents_total,
      sum(json_extract(counts, '$.unchanged')) AS unchanged,
      sum(json_extract(counts, '$.failed')) AS failed,
      sum(json_extract(counts, '$.chunks')) AS chunks,
      sum(json_extract(counts, '$.embedded')) AS embedded,
      sum(json_extract(counts, '$.reused')) AS reused,
      sum(json_extract(counts, '$.fraction') * weight) AS weighed,
      sum(weight) AS weight, min(created_at) AS began_at, max(seen_at) AS seen_at,
      max(crashes) AS crashes
    FROM jobs WHERE parent IS NOT NULL GROUP BY parent
"""
SELECT_JOBS = (
    f"SELECT {JOB_COLUMNS}, {SUM_COLUMNS}, {LATEST_COLUMNS} "  # noqa: S608 -- names of our own
    f"FROM jobs j LEFT JOIN ({_SUMS}) s ON s.parent = j.id WHERE {OF_WORLD}"
)
"""Gives what `job_of` reads, of the world that is bound first. Which jobs is said after it."""


def forget_oldest(connection: apsw.Connection, world: int, kind: str) -> None:
    """Forget old jobs of a kind; what is done often does not push out what is done rarely.

    Shares are forgotten with their job, and not before.
    """
    connection.execute(
        """DELETE FROM jobs WHERE world = ?1 AND kind = ?2 AND state NOT IN ('queued', 'running')
             AND parent IS NULL AND key NOT IN (SELECT key FROM jobs
               WHERE world = ?1 AND kind = ?2 AND parent IS NULL ORDER BY key DESC LIMIT ?3)""",
        (world, kind, KEPT_JOBS),
    )
    # Of older jobs the numbers are enough; their documents would outgrow the library.
    connection.execute(
        """DELETE FROM job_documents WHERE job IN (SELECT key FROM jobs WHERE world = ?1
             AND kind = ?2 AND state NOT IN ('queued', 'running') AND parent IS NULL
             AND key NOT IN (SELECT key FROM jobs
               WHERE world = ?1 AND kind = ?2 AND parent IS NULL ORDER BY key DESC LIMIT ?3))""",
        (world, kind, KEPT_WITH_DOCUMENTS),
    )


def job_key(connection: apsw.Connection, scope: Scope, job: str) -> int:
    """Return the key of a job; raises JobNotFound."""
    rows = fetch(
        connection,
        f"SELECT j.key FROM jobs j WHERE j.id = ? AND {OF_WORLD}",  # noqa: S608
        (job, scope.world),
    )
    if not rows:
        raise JobNotFound(job)
    return rows[0][0]


def write_news(connection: apsw.Connection, key: int, news: JobNews) -> None:
    """Write down what became of sources, and lines of the log, of which the last are kept."""
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
