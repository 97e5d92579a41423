"""Elements of all outputs: counts, tables, notices and places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from truespan.cli.terminal import printable
from truespan.types.answer import Citation
from truespan.types.bundle import Notice, Passage, SourceNote
from truespan.types.text import name_sources

_SAID_BY_DOCTOR = frozenset({"floor_does_not_discriminate"})


def pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    texts = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


def show_notices(notices: Iterable[Notice]) -> list[str]:
    """Return notices as lines, except those about the model that 'truespan doctor' shows."""
    return [f"Note: {notice.message}" for notice in notices if notice.code not in _SAID_BY_DOCTOR]


def name_others(part: Passage | SourceNote | Citation) -> str:
    """Return the documents that have the same text, to be put after the source of a passage."""
    return (
        f"; also in {name_sources(at.source_url for at in part.other_places)}"
        if part.other_places
        else ""
    )


def name_span(chunk: Any) -> str:
    """Return the characters, the sentences and the location of a chunk."""
    location = f", {chunk.location}" if chunk.location else ""
    return f"characters {chunk.start}-{chunk.end}, {name_sentences(chunk)}{location}"


def name_sentences(part: Any) -> str:
    """Return the numbers of the sentences of a passage in words."""
    if part.first_sid == part.last_sid:
        return f"sentence {part.first_sid}"
    return f"sentences {part.first_sid}-{part.last_sid}"
