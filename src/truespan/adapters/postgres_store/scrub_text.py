"""Canonical texts and sentences in PostgreSQL, held against what was recorded of them."""

from __future__ import annotations

from hashlib import sha256

from truespan.adapters.postgres_store.connection import Session, fetch
from truespan.types.document import RevisionRef
from truespan.types.ids import hash_bytes
from truespan.types.maintenance import RevisionFlaw, RevisionPart


def revision_flaw(session: Session, key: int, ref: RevisionRef) -> RevisionFlaw | None:
    """Return what of a revision cannot be believed; None when all of it can."""
    rows = fetch(
        session,
        """SELECT t.text, r.text_hash, r.sentences FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = %s""",
        (key,),
    )
    if not rows:
        return None
    data, recorded, count = rows[0]
    if data is None or hash_bytes(data) != recorded:
        whole = from_chunks(session, key) is not None
        return RevisionFlaw(ref, RevisionPart.TEXT, hash_bytes(data or b""), whole)
    wrong = _wrong_sentences(session, key, data.decode(), count)
    return RevisionFlaw(ref, RevisionPart.SENTENCES, wrong, False) if wrong else None


def _wrong_sentences(session: Session, key: int, text: str, count: int) -> str:
    """Return a digest of the sentence rows that do not match a text; empty when all do."""
    wrong, expected, before = sha256(), 0, 0
    found = False
    for sid, start, finish, digest in fetch(
        session,
        "SELECT sid, start, finish, text_hash FROM sentences WHERE revision = %s ORDER BY sid",
        (key,),
    ):
        sound = sid == expected and before <= start < finish <= len(text)
        if not sound or sha256(text[start:finish].encode()).digest() != digest:
            wrong.update(f"{sid}:{start}:{finish}:".encode() + digest)
            found = True
        expected, before = sid + 1, max(before, min(finish, len(text)))
    if expected != count:
        wrong.update(f"{expected} of {count}".encode())
        found = True
    return wrong.hexdigest() if found else ""


def from_chunks(session: Session, key: int) -> bytes | None:
    """Return a revision's text with every intact chunk laid over what is left of it.

    None unless that gives the recorded hash: nothing is ever guessed.
    """
    rows = fetch(
        session,
        """SELECT t.text, r.text_hash, r.characters FROM revisions r
           LEFT JOIN texts t ON t.revision = r.key WHERE r.key = %s""",
        (key,),
    )
    data, recorded, characters = rows[0]
    left = (data or b"").decode(errors="replace")
    # Where code points were lost or added, their places are unknown; only white space is assumed.
    letters = list(left) if len(left) == characters else [" "] * characters
    for start, chunk, text_hash in fetch(
        session,
        """SELECT s.start, c.text, s.text_hash FROM states s
           JOIN chunks c ON c.revision = s.revision AND c.generation = s.generation
             AND c.position = s.position
           WHERE s.revision = %s AND s.kind = 'text'""",
        (key,),
    ):
        if hash_bytes(chunk) == text_hash:
            passage = chunk.decode()
            letters[start : start + len(passage)] = passage
    text = "".join(letters).encode(errors="replace")
    return text if hash_bytes(text) == recorded else None
