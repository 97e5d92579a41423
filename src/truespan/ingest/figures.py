"""Figures of a document: their descriptions, their places, and the chunks made of them.

A description is made of the text around a figure: its caption, its alternative text, the heading
above and the sentence before it. It does not depend on the picture's bytes, so the same document
always gives the same description.
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
"""Characters of each part of a description."""
_MARKERS = re.compile(r"\s*\[FIGURE:[^\]\s]+\]")


def describe_figures(
    doc_id: str,
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    chunks: Sequence[NewChunk],
    images: Sequence[Image],
    fits: Callable[[str], bool],
) -> tuple[FigureRecord, ...]:
    """Return a record of every figure in reading order; every description satisfies `fits`."""
    describer = _Describer(canonical, sentences, chunks, fits)
    records = []
    for number, spot in enumerate(canonical.figures, 1):
        image = spot.figure.image
        reference = (
            f"{doc_id}/{image_name(image + 1, images[image].extension)}"
            if image is not None and image < len(images)
            else None
        )
        records.append(describer.describe(number, figure_id_of(doc_id, number), spot, reference))
    return tuple(records)


def figure_chunks(
    records: Sequence[FigureRecord],
    canonical: CanonicalText,
    counter: TokenCounter,
    first_index: int,
) -> tuple[NewChunk, ...]:
    """Return a chunk for each record; their indexes follow those of the text chunks."""
    return tuple(
        _chunk(record, canonical, counter, first_index + place)
        for place, record in enumerate(records)
    )


def summarize_figures(records: Sequence[FigureRecord], *, placeholders: bool, chunks: int) -> str:
    """Return the log line about the figures of a document."""
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
    # A figure between two blocks belongs to the block before it.
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


def _shorten(text: str, fits: Callable[[str], bool]) -> str:
    """Shorten a description between words until it fits."""
    while not fits(text) and len(text) > 1:
        shorter = text[: len(text) * 3 // 4]
        text = shorter.rsplit(None, 1)[0] if " " in shorter.strip() else shorter
    return text


@dataclass(slots=True)
class _Describer:
    """Describes figures by the text around them, from the first to the last."""

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

    def describe(
        self, number: int, figure_id: str, spot: FigureSpot, image_ref: str | None
    ) -> FigureRecord:
        # A sentence that starts at its offset comes after it.
        own = max(bisect_left(self.starts, spot.offset) - 1, 0)
        caption = self._caption(spot)
        first, last, own_reach = self._sids(spot, own, caption)
        between, reach = spot.offset == spot.follows, own_reach
        parent = find_parent(self.chunks, self.sentences[own], spot.offset, between=between)
        if parent is not None:
            # Its id names the parent, so it is visible only once the parent is.
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
            parent=parent_ref(parent),
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
        lines = [f"{label}{line}" for label, part in parts if (line := _one_line(part))]
        return _shorten("\n".join([f"Figure {number}.", *lines]), self.fits)

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
        """Return the first and last sentence of a figure's description, and the last one it depends
        on: the sentence after it decides whether there is a caption, and where that ends."""
        after = bisect_left(self.starts, spot.follows)
        if caption is None:
            return own, own, max(own, after)
        first = min(own, bisect_left(self.starts, caption[0]))
        beyond = bisect_left(self.starts, caption[1])
        return first, max(own, beyond - 1), max(own, after, beyond)


def find_parent(
    chunks: Sequence[NewChunk], before: Sentence, offset: int, *, between: bool
) -> NewChunk | None:
    """Return the first text chunk that contains a figure's offset, or the sentence before it."""
    offsets = (before.end - 1, before.start, offset)
    for wanted in offsets if between else (offset, *offsets):
        place = bisect_right(chunks, wanted, key=lambda chunk: chunk.start)
        parent = None
        while place > 0 and chunks[place - 1].end > wanted:
            place -= 1
            parent = chunks[place]
        if parent is not None:
            return parent
    return None


def parent_ref(chunk: NewChunk | None) -> ParentChunk | None:
    """Return what the id of a figure's chunk needs of its parent chunk."""
    if chunk is None:
        return None
    return ParentChunk(chunk.index, chunk.start, chunk.first_sid, chunk.last_sid, chunk.text_hash)


def _one_line(text: str) -> str:
    """Return a part of a description as one line without markers, cut between words if long."""
    line = " ".join(_MARKERS.sub("", text).split())
    if len(line) <= _LONGEST_PART:
        return line
    return line[:_LONGEST_PART].rsplit(" ", 1)[0] + " …"
