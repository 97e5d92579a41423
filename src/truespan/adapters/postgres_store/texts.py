"""Parts of texts, counted in code points, of which PostgreSQL keeps the bytes."""

from __future__ import annotations

from truespan.adapters.postgres_store.connection import Session, fetch


def text_part(session: Session, revision: int | None, start: int, end: int) -> bytes | None:
    """Return a part of a revision's text; None when there is no such text.

    Only that part is sent, unless the bytes are damaged or hold what the engine cannot read.
    """
    rows = fetch(
        session,
        "SELECT text_part(text, %s::int, %s::int) FROM texts WHERE revision = %s",
        (start, end - start, revision),
    )
    if not rows:
        return None
    if rows[0][0] is not None:
        return rows[0][0]
    whole = fetch(session, "SELECT text FROM texts WHERE revision = %s", (revision,))
    return whole[0][0].decode(errors="replace")[start:end].encode()
