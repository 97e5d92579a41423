"""The chunks of a kept revision for another generation: other sizes, or another model's limits.

A revision's text, sentences and places never change, so its chunks can be cut again at any time and
come out the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from truespan.ingest.draft import text_chunks
from truespan.ingest.figures import as_parent, parent_of
from truespan.model.chunk import CutChunk
from truespan.model.document import Recuttable
from truespan.model.profile import ChunkingProfile
from truespan.model.text import CanonicalText, Sentence
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
    starts = [sentence.start for sentence in kept.sentences]
    figures = []
    for place, figure in enumerate(kept.figures):
        # What begins just where it stands comes after it.
        own = kept.sentences[max(bisect_left(starts, figure.start) - 1, 0)]
        figures.append(_moved(figure, own, chunks, len(chunks) + place))
    return (*chunks, *figures)


def _moved(figure: CutChunk, before: Sentence, chunks: Sequence[CutChunk], index: int) -> CutChunk:
    """Return a figure's chunk with the text chunk that it stands in now."""
    mark = figure.figure
    if mark is None:
        return replace(figure, index=index)
    parent = parent_of(chunks, before, figure.start, between=mark.between)
    reach = figure.reach if mark.reach is None else mark.reach
    if parent is not None:
        # Its id names the chunk it stands in, so it is seen once that is.
        reach = max(reach, parent.reach)
    return replace(figure, index=index, figure=replace(mark, parent=as_parent(parent)), reach=reach)
