"""Figures of a document: descriptions, places and chunks.

A description consists of the text around a figure: caption, alternative text, heading, and the
sentence before it. It does not depend on the bytes of the picture, so the same document always
gives the same description.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from truespan.core.graphemes import shorten
from truespan.core.records import copy_fields
from truespan.ingest.chunking import MeasuredText
from truespan.protocols import TokenCounter
from truespan.text.clean import clean
from truespan.types.chunk import (
    ChunkKind,
    FigureMark,
    FigureRecord,
    NewChunk,
    ParentChunk,
    figure_id_of,
    image_name,
)
from truespan.types.ids import hash_text
from truespan.types.text import CanonicalText, FigureSpot, Image, Sentence

_MAX_PART_LENGTH = 600
"""Maximum length of each part of a description."""
_MARKERS = re.compile(r"(?<!\s)\s*\[FIGURE:(?:(?!\[FIGURE:)[^\]\s])++\]")
"""A marker with the white space before it; the lookbehind avoids quadratic time on long runs."""


def describe_figures(
    doc_id: str,
    measured: MeasuredText,
    chunks: Sequence[NewChunk],
    images: Sequence[Image],
    fits: Callable[[str], bool],
) -> tuple[FigureRecord, ...]:
    """Return a record of every figure in reading order; every description satisfies `fits`."""
    canonical, sentences = measured.canonical, measured.sentences
    starts = [sentence.start for sentence in sentences]
    captions = set(canonical.captions)
    records: list[FigureRecord] = []
    for number, spot in enumerate(canonical.figures, 1):
        picture, reference = spot.figure.bytes_in(images), None
        if picture is not None and spot.figure.image is not None:
            reference = f"{doc_id}/{image_name(spot.figure.image + 1, picture.extension)}"
        # A sentence that starts at the offset of the figure comes after it.
        own = max(bisect_left(starts, spot.offset) - 1, 0)
        caption = _find_caption(spot, canonical, captions)
        # The sentence after a figure decides whether there is a caption, and its end.
        first, last, own_reach = own, own, max(own, bisect_left(starts, spot.follows))
        if caption is not None:
            captions.remove(caption.start)
            beyond = bisect_left(starts, caption.stop)
            first = min(own, bisect_left(starts, caption.start))
            last, own_reach = max(own, beyond - 1), max(own_reach, beyond)
        between, reach = spot.offset == spot.follows, own_reach
        parent = find_parent(chunks, sentences[own], spot.offset, between=between)
        if parent is not None:
            # The id of the figure names the parent, so the figure becomes visible with it.
            reach = max(reach, parent.reach)
        place = canonical.place_at(sentences[own].start)
        parts = (
            ("", canonical.text[caption] if caption else ""),
            ("Shows: ", clean(spot.figure.alt)),
            ("In: ", " › ".join(label for label in (place.chapter, place.section) if label)),
            ("After: ", canonical.text[sentences[own].start : sentences[own].end]),
        )
        lines = [f"{label}{line}" for label, part in parts if (line := _one_line(part))]
        description = "\n".join([f"Figure {number}.", *lines])
        # Shorten it between words until it fits.
        while not fits(description) and len(description) > 1:
            shorter = description[: len(description) * 3 // 4]
            description = shorter.rsplit(None, 1)[0] if " " in shorter.strip() else shorter
        records.append(
            FigureRecord(
                number=number,
                figure_id=figure_id_of(doc_id, number),
                offset=spot.offset,
                image_ref=reference,
                description=description,
                first_sid=first,
                last_sid=last,
                reach=reach,
                parent=parent_ref(parent),
                between=between,
                own_reach=own_reach,
            )
        )
    return tuple(records)


def _find_caption(spot: FigureSpot, canonical: CanonicalText, captions: set[int]) -> slice | None:
    """Return the span of a figure's caption: the block after it, else the block before it."""
    blocks = canonical.block_starts
    before = bisect_left(blocks, spot.offset) - 1
    if spot.offset != spot.follows and before >= 0:
        before = bisect_right(blocks, spot.offset) - 2
    for start in (spot.follows, blocks[before] if before >= 0 else -1):
        if start in captions:
            after = bisect_right(blocks, start)
            return slice(start, blocks[after] if after < len(blocks) else len(canonical.text))
    return None


def figure_chunks(
    records: Sequence[FigureRecord],
    canonical: CanonicalText,
    counter: TokenCounter,
    first_index: int,
) -> tuple[NewChunk, ...]:
    """Return a chunk for each record; their indexes follow those of the text chunks."""
    chunks: list[NewChunk] = []
    for index, record in enumerate(records, first_index):
        spot = canonical.figures[record.number - 1]
        # A figure between two blocks belongs to the block before it.
        offset = max(spot.offset - 1, 0) if spot.offset == spot.follows else spot.offset
        place, text = canonical.place_at(offset), record.description
        chunks.append(
            copy_fields(
                NewChunk,
                record,
                index=index,
                start=record.offset,
                end=record.offset,
                text=text,
                text_hash=hash_text(text),
                overlap_text="",
                tokens=counter.count(text),
                sentence_ends=[],
                chapter=place.chapter,
                section=place.section,
                kind=ChunkKind.FIGURE,
                page=canonical.page_at(offset),
                location=canonical.location(offset, offset),
                figure=copy_fields(FigureMark, record, reach=record.own_reach),
            )
        )
    return tuple(chunks)


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
    """Return the parts of the parent chunk that the id of a figure's chunk needs."""
    if chunk is None:
        return None
    return ParentChunk(chunk.index, chunk.start, chunk.first_sid, chunk.last_sid, chunk.text_hash)


def _one_line(text: str) -> str:
    """Return a part of a description as one line without markers, cut between words if long."""
    line = " ".join(_MARKERS.sub("", text).split())
    if len(line) <= _MAX_PART_LENGTH:
        return line
    return shorten(line, _MAX_PART_LENGTH).rsplit(" ", 1)[0] + " …"
