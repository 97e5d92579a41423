"""The chunks of a kept revision for another generation: other sizes, or another model's limits.

A revision's text, sentences and places never change, so its chunks can be cut again at any time and
come out the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from truespan.ingest.draft import text_chunks
from truespan.model.chunk import CutChunk
from truespan.model.document import Recuttable
from truespan.model.figure import ParentChunk
from truespan.model.profile import ChunkingProfile
from truespan.model.text import CanonicalText
from truespan.ports import TokenCounter


def recut(
    kept: Recuttable, chunking: ChunkingProfile | None, counter: TokenCounter, input_limit: int
) -> tuple[CutChunk, ...]:
    """Cut a revision as a generation's profile says, or where it has none, as its own does."""
    canonical = CanonicalText(kept.text, kept.starts, kept.places, pages=kept.pages)
    chunks = text_chunks(
        canonical,
        kept.sentences,
        counter.measure(kept.text),
        chunking or kept.chunking,
        input_limit,
    )
    figures = (
        _moved(figure, chunks, len(chunks) + place) for place, figure in enumerate(kept.figures)
    )
    return (*chunks, *figures)


def _moved(figure: CutChunk, chunks: Sequence[CutChunk], index: int) -> CutChunk:
    """Return a figure's chunk with the text chunk that it stands in now."""
    mark = figure.figure
    parent = _parent(figure, chunks)
    if mark is None or parent is None:
        return replace(figure, index=index)
    named = ParentChunk(
        parent.index, parent.start, parent.first_sid, parent.last_sid, parent.text_hash
    )
    # Its id names the chunk it stands in, so it is seen once that is.
    reach = max(figure.reach, parent.reach)
    return replace(figure, index=index, figure=replace(mark, parent=named), reach=reach)


def _parent(figure: CutChunk, chunks: Sequence[CutChunk]) -> CutChunk | None:
    """Return the same chunk as before where there still is one, else the first at its place."""
    before = figure.figure.parent if figure.figure else None
    if before is None:
        return None
    for chunk in chunks:
        if (chunk.start, chunk.text_hash) == (before.start, before.text_hash):
            return chunk
    offset = max(figure.start - 1, 0)
    holding = (chunk for chunk in chunks if chunk.start <= offset < chunk.end)
    return next(holding, None) or next(
        (chunk for chunk in chunks if chunk.last_sid >= before.first_sid), None
    )
