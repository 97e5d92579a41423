"""How a figure's mark is spelled in a chunk row."""

from __future__ import annotations

import msgspec

from truespan.model.chunk import FigureMark


def figure_text(mark: FigureMark) -> str:
    """Return a mark as the text that is stored."""
    return msgspec.json.encode(mark).decode()


def figure_mark(stored: str) -> FigureMark:
    """Return the mark that stored text spells."""
    return msgspec.json.decode(stored, type=FigureMark)
