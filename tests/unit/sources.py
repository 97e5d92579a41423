"""Visible chunks, made by hand."""

from typing import Any

from msgspec.structs import asdict

from truespan.types.chunk import ChunkKind, SourceLabels
from truespan.types.ids import ChunkId, hash_text
from truespan.types.trust import Visible

LABELS = SourceLabels(
    source_url="docs/file.txt", address="truespan://world/1", path="docs/file.txt", language="en",
    version="1.0", tags=(),
)  # fmt: skip


def source(text: str, *, start: int = 0, **changes: Any) -> Visible:
    """Return a visible chunk of a document's text."""
    document = changes.pop("document", 1)
    fields: dict[str, Any] = {
        "chunk_id": ChunkId(f"chunk-{document}-{start}"), "document": document,
        "source": "file.txt", "title": "A Title", "revision": 1, "index": start, "start": start,
        "end": start + len(text), "first_sid": 0, "last_sid": 1, "chapter": "One", "section": "One",
        "kind": ChunkKind.TEXT, "text": text, "text_hash": hash_text(text),
        "tokens": len(text.split()), "score": 0.7,
    }  # fmt: skip
    return Visible(**asdict(LABELS) | fields | changes)
