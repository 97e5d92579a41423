"""Figures of a document: what is said of each, where it stands, and the chunk made of it.

A description is made of what stands around a figure: its caption, its alternative text, the
heading above and the sentence before it. All of that is text the document has, and none of it
speaks of the picture's bytes, so the same document always gives the same description.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from truespan.parsing.clean import clean
from truespan.protocols import TokenCounter
from truespan.types.chunk import ChunkKind, FigureMark, NewChunk
from truespan.types.figure import FigureRecord, ParentChunk, figure_id_of, image_name
from truespan.types.ids import hash_text
from truespan.types.text import CanonicalText, FigureSpot, Image, Sentence

_LONGEST_PART = 600
"""Characters of each part of a description; captions are shorter, and context need not be long."""
_MARKERS = re.compile(r"\s*\[FIGURE:[^\]\s]+\]")


def describe_figures(
    doc_id: str,
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    chunks: Sequence[NewChunk],
    images: Sequence[Image],
    fits: Callable[[str], bool],
) -> tuple[FigureRecord, ...]:
    """Return a record of every figure, in reading order; no description is longer than `fits`."""
    around = _Around(canonical, sentences, chunks, fits)
    records = []
    for number, spot in enumerate(canonical.figures, 1):
        image = spot.figure.image
        reference = (
            f"{doc_id}/{image_name(image + 1, images[image].extension)}"
            if image is not None and image < len(images)
            else None
        )
        records.append(around.record(number, figure_id_of(doc_id, number), spot, reference))
    return tuple(records)


def figure_chunks(
    records: Sequence[FigureRecord],
    canonical: CanonicalText,
    counter: TokenCounter,
    first_index: int,
) -> tuple[NewChunk, ...]:
    """Return a chunk for each record. They follow the text chunks, whose numbers stay theirs."""
    return tuple(
        _chunk(record, canonical, counter, first_index + place)
        for place, record in enumerate(records)
    )


def summary_of(records: Sequence[FigureRecord], *, placeholders: bool, chunks: int) -> str:
    """Return the line that tells how figures became chunks."""
    parents = sum(1 for record in records if record.parent is not None) if chunks else 0
    shown = len(records) if placeholders else 0
    return (
        f"DOCX_FIGURE_CHUNKING_SUMMARY placeholders={shown} figure_chunks={chunks} "
        f"parent_links={parents}"
    )


def _chunk(
    record: FigureRecord,
    canonical: CanonicalText,
    counter: TokenCounter,
    index: int,
) -> NewChunk:
    spot = canonical.figures[record.number - 1]
    # Between two blocks it belongs to what stands before it.
    here = max(spot.offset - 1, 0) if spot.offset == spot.follows else spot.offset
    place = canonical.place_at(here)
    text = record.description
    return NewChunk(
        index=index,
        start=record.offset,
        end=record.offset,
        first_sid=record.first_sid,
        last_sid=record.last_sid,
        reach=record.reach,
        text=text,
        text_hash=hash_text(text),
        overlap_text="",
        tokens=counter.count(text),
        sentence_ends=[],
        chapter=place.chapter,
        section=place.section,
        kind=ChunkKind.FIGURE,
        page=canonical.page_at(here),
        figure=FigureMark(
            record.figure_id, record.image_ref, record.parent, record.between, record.own_reach
        ),
    )


def _fitted(text: str, fits: Callable[[str], bool]) -> str:
    """Return a description short enough for the model, cut between words."""
    while not fits(text) and len(text) > 1:
        shorter = text[: len(text) * 3 // 4]
        text = shorter.rsplit(None, 1)[0] if " " in shorter.strip() else shorter
    return text


@dataclass(slots=True)
class _Around:
    """Looks at what stands around figures, from the first to the last."""

    canonical: CanonicalText
    sentences: Sequence[Sentence]
    chunks: Sequence[NewChunk]
    fits: Callable[[str], bool]
    starts: list[int] = field(init=False)
    captions: set[int] = field(init=False)
    claimed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.starts = [sentence.start for sentence in self.sentences]
        self.captions = set(self.canonical.captions)

    def record(
        self, number: int, figure_id: str, spot: FigureSpot, image_ref: str | None
    ) -> FigureRecord:
        # What begins just where it stands comes after it.
        own = max(bisect_left(self.starts, spot.offset) - 1, 0)
        caption = self._caption(spot)
        first, last, own_reach = self._sids(spot, own, caption)
        between, reach = spot.offset == spot.follows, own_reach
        parent = parent_of(self.chunks, self.sentences[own], spot.offset, between=between)
        if parent is not None:
            # Its id names the chunk it stands in, so it is seen once that is.
            reach = max(reach, parent.reach)
        return FigureRecord(
            number=number,
            figure_id=figure_id,
            offset=spot.offset,
            image_ref=image_ref,
            description=self._description(number, spot, own, caption),
            first_sid=first,
            last_sid=last,
            reach=reach,
            parent=as_parent(parent),
            between=between,
            own_reach=own_reach,
        )

    def _description(
        self, number: int, spot: FigureSpot, own: int, caption: tuple[int, int] | None
    ) -> str:
        text = self.canonical.text
        place = self.canonical.place_at(self.sentences[own].start)
        start, end = self.sentences[own].start, self.sentences[own].end
        parts = (
            ("", text[slice(*caption)] if caption else ""),
            ("Shows: ", clean(spot.figure.alt)),
            ("In: ", " › ".join(label for label in (place.chapter, place.section) if label)),
            ("After: ", text[start:end]),
        )
        shown = ((label, _short(part)) for label, part in parts)
        lines = [f"{label}{part}" for label, part in shown if part]
        return _fitted("\n".join([f"Figure {number}.", *lines]), self.fits)

    def _caption(self, spot: FigureSpot) -> tuple[int, int] | None:
        """Return the span of a figure's caption: the block after it, or else the one before."""
        blocks = self.canonical.block_starts
        before = bisect_left(blocks, spot.offset) - 1
        if spot.offset != spot.follows and before >= 0:
            before = bisect_right(blocks, spot.offset) - 2
        candidates = [spot.follows, blocks[before] if before >= 0 else -1]
        for start in candidates:
            if start in self.captions and start not in self.claimed:
                self.claimed.add(start)
                after = bisect_right(blocks, start)
                return start, blocks[after] if after < len(blocks) else len(self.canonical.text)
        return None

    def _sids(
        self, spot: FigureSpot, own: int, caption: tuple[int, int] | None
    ) -> tuple[int, int, int]:
        """Return the first and last sentence that a figure is described with, and the last one
        that had a say: the one after it tells whether there is a caption, and where that ends."""
        after = bisect_left(self.starts, spot.follows)
        if caption is None:
            return own, own, max(own, after)
        first = min(own, bisect_left(self.starts, caption[0]))
        beyond = bisect_left(self.starts, caption[1])
        return first, max(own, beyond - 1), max(own, after, beyond)


def parent_of(
    chunks: Sequence[NewChunk], before: Sentence, offset: int, *, between: bool
) -> NewChunk | None:
    """Return the first text chunk that holds a figure's place, or the sentence before it."""
    offsets = (before.end - 1, before.start, offset)
    for wanted in offsets if between else (offset, *offsets):
        for chunk in _holding(chunks, wanted):
            return chunk
    return None


def _holding(chunks: Sequence[NewChunk], offset: int) -> list[NewChunk]:
    found = bisect_right(chunks, offset, key=lambda chunk: chunk.start) - 1
    holding: list[NewChunk] = []
    while found >= 0 and chunks[found].end > offset:
        holding.insert(0, chunks[found])
        found -= 1
    return holding


def as_parent(chunk: NewChunk | None) -> ParentChunk | None:
    """Return what a figure's id is made from of the chunk it stands in."""
    if chunk is None:
        return None
    return ParentChunk(chunk.index, chunk.start, chunk.first_sid, chunk.last_sid, chunk.text_hash)


def _short(text: str) -> str:
    """Return a part of a description in one line without markers, cut between words if long."""
    line = " ".join(_MARKERS.sub("", text).split())
    if len(line) <= _LONGEST_PART:
        return line
    return line[:_LONGEST_PART].rsplit(" ", 1)[0] + " …"
