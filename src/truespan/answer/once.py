"""What of each source the ones before it have not said: by place, and never by text."""

from __future__ import annotations

from collections.abc import Sequence

from truespan.model.chunk import ChunkKind
from truespan.model.trail import Visible
from truespan.query.render import Shown


def told_once(sources: Sequence[Visible]) -> list[list[tuple[int, int]]]:
    """Return spans of each source's own text that no earlier source has, without spaces around.

    A source that says nothing new keeps all of its words: its number must stand for something.
    """
    shown, told = Shown(), []
    for source in sources:
        whole = _trimmed(source.text, 0, len(source.text))
        if source.kind is not ChunkKind.TEXT:
            told.append([whole])
            continue
        fresh = [
            _trimmed(source.text, start - source.start, end - source.start)
            for start, end in shown.uncovered(source.document, source.start, source.end)
        ]
        told.append([span for span in fresh if span[0] < span[1]] or [whole])
        shown.add(source.document, source.start, source.end)
    return told


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    begin = start + len(piece) - len(piece.lstrip())
    return begin, max(begin, start + len(piece.rstrip()))
