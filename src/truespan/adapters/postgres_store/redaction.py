"""Names of a deleted document, taken out of what PostgreSQL keeps of jobs."""

from __future__ import annotations

import json
import re

from truespan.adapters.postgres_store.connection import Session, change, change_each, fetch

_GONE = "(deleted)"


def redact(session: Session, document: int) -> dict[str, int]:
    """Take the names of a document out of the records of jobs, and forget queries of its world.

    A query may have quoted the document, so the vectors of queries go too; they are asked for
    again. A job that is not done keeps the paths it would need to go on.
    """
    names = _names(session, document)
    counts = {"query_cache": change(session, "DELETE FROM query_cache")}
    counts["job_documents_redacted"] = _redact_documents(session, document)
    counts["job_lines_redacted"] = _redact_lines(session, names)
    counts["jobs_redacted"] = _redact_requests(session, names)
    return {name: count for name, count in counts.items() if count}


def _redact_documents(session: Session, document: int) -> int:
    named = {"document": document, "other": f"deleted-{document}", "gone": _GONE}
    # An earlier document of that number's place in the same job gives way.
    session.execute(
        """DELETE FROM job_documents j WHERE j.doc_id = %(other)s AND EXISTS
             (SELECT 1 FROM job_documents o JOIN documents d ON d.doc_id = o.doc_id
              WHERE o.job = j.job AND d.number = %(document)s)""",
        named,
    )
    return change(
        session,
        """UPDATE job_documents SET doc_id = %(other)s, name = %(gone)s, reason = NULL
           WHERE doc_id = (SELECT doc_id FROM documents WHERE number = %(document)s)""",
        named,
    )


def _redact_lines(session: Session, names: re.Pattern[str]) -> int:
    rows = fetch(session, "SELECT job, number, line FROM job_lines")
    told = [
        (names.sub(_GONE, line), job, number) for job, number, line in rows if names.search(line)
    ]
    change_each(session, "UPDATE job_lines SET line = %s WHERE job = %s AND number = %s", told)
    return len(told)


def _redact_requests(session: Session, names: re.Pattern[str]) -> int:
    rows = fetch(session, "SELECT request, key FROM jobs WHERE state = 'done'")
    told = [(names.sub(_GONE, request), key) for request, key in rows if names.search(request)]
    change_each(session, "UPDATE jobs SET request = %s WHERE key = %s", told)
    return len(told)


def _names(session: Session, document: int) -> re.Pattern[str]:
    """Return a pattern of all that a document was ever called, longest first."""
    rows = fetch(
        session,
        """SELECT d.doc_id, r.name, r.path, r.title FROM documents d
           LEFT JOIN revisions r ON r.document = d.key WHERE d.number = %s""",
        (document,),
    )
    names = {name for row in rows for name in row if name}
    # In a request the names are part of JSON, which may spell them in its own way.
    names |= {json.dumps(name)[1:-1] for name in names}
    longest = sorted(names, key=len, reverse=True) or [_GONE]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest))})(?![\w-])")
