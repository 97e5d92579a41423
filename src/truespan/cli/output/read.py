"""Readers and their positions as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from truespan.cli.output.plain import table
from truespan.types.reading import ReadingPosition


def show_positions(positions: Sequence[ReadingPosition]) -> str:
    """Show the positions of a reader: last sentence and chapter, nothing past them."""
    if not positions:
        return "No reading position is recorded, so nothing is readable."
    lines: list[str] = []
    for place in positions:
        mark = " (current)" if place.current else ""
        if place.sid < 0:
            lines.append(f"{place.title}{mark}: nothing read yet")
            continue
        chapter = f", {place.chapter}" if place.chapter else ""
        lines.append(f"{place.title}{mark}: read to sentence {place.sid}{chapter}")
        lines.append(f"  last read: {' '.join((place.last_sentence or '').split())}")
    return "\n".join(lines)


def show_readers(found: Mapping[str, Sequence[ReadingPosition]]) -> str:
    """Show readers and their positions, one book on each line."""
    if not found:
        return "No readers yet. 'truespan reader set BOOK --reader NAME' records a position."
    rows: list[tuple[object, ...]] = [("reader", "book", "read to sentence", "chapter")]
    for name, positions in found.items():
        for place in positions:
            mark = " (current)" if place.current else ""
            sid = place.sid if place.sid >= 0 else "-"
            rows.append((name, f"{place.title}{mark}", sid, place.chapter or ""))
    return "\n".join(table(rows))
