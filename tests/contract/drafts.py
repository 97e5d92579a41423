"""Minimal revisions for tests of the store."""

from hashlib import sha256
from typing import Any

from truespan.types.chunk import NewChunk
from truespan.types.document import AuditEntry, Draft
from truespan.types.ids import hash_text
from truespan.types.profile import STANDARD_CHUNKING
from truespan.types.source import DocumentKind
from truespan.types.text import CanonicalText, PageStart, Place


def draft(text: str, doc_id: str = "doc-1", **changes: Any) -> Draft:
    """Return a revision of one sentence and one chunk."""
    chunk = NewChunk(
        index=0, start=0, end=len(text), first_sid=0, last_sid=0, reach=0, text=text,
        text_hash=hash_text(text), overlap_text="", tokens=3, sentence_ends=[len(text)],
        chapter="One", section="Two", page=1, location="page 1",
    )  # fmt: skip
    fields: dict[str, Any] = {
        "doc_id": doc_id,
        "name": "a.txt",
        "path": "/a.txt",
        "shown_path": "a.txt",
        "kind": DocumentKind.DOCUMENT,
        "title": "A Title",
        "language": "en",
        "language_declared": False,
        "version": "1.0",
        "declared_title": None,
        "tags": (),
        "chunking": STANDARD_CHUNKING["window"],
        "source_hash": hash_text(f"source of {text}"),
        "recipe": "recipe",
        "canonical": CanonicalText(text, (0,), (Place("One", "Two"),), pages=(PageStart(0, 1),)),
        "sentences": ((0, 0, len(text), 3, sha256(text.encode()).digest()),),
        "chunks": (chunk,),
        "audit": (AuditEntry("EMAIL", "rule", 2, True),),
    }
    return Draft(**fields | changes)
