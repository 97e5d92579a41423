"""From blocks to canonical text, and where in it chapters, sections and blocks begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from truespan.ingest.clean import clean
from truespan.model.text import Block, BlockKind, CanonicalText, Place

_BETWEEN = "\n\n"
_NOWHERE = Place(None, None)


def assemble(blocks: Sequence[Block]) -> CanonicalText:
    """Join blocks into one text with a blank line between two of them.

    A block begins and ends with a line that holds something; the spaces before its first word
    stay, for code needs them. Blocks without any text leave no trace, not even their place.
    """
    parts: list[str] = []
    starts: list[int] = []
    places: list[Place] = []
    block_starts: list[int] = []
    offset, place = 0, _NOWHERE
    for block in blocks:
        text = _trimmed(clean(block.text))
        if not text:
            continue
        here = Place(_label(block.chapter), _label(block.section))
        if here != place:
            starts.append(offset)
            places.append(here)
            place = here
        block_starts.extend(_units(block.kind, text, offset))
        parts.append(text)
        offset += len(text) + len(_BETWEEN)
    return CanonicalText(_BETWEEN.join(parts), tuple(starts), tuple(places), tuple(block_starts))


def _trimmed(text: str) -> str:
    """Return `text` without the blank lines at both ends."""
    margin = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, margin) + 1 :].rstrip()


def _label(label: str | None) -> str | None:
    return " ".join(clean(label).split()) or None if label else None


def _units(kind: BlockKind, text: str, offset: int) -> Iterator[int]:
    """Give where a block begins; in a table each row is one, for no sentence runs on into it."""
    yield offset
    if kind is BlockKind.TABLE:
        for place, char in enumerate(text):
            if char == "\n":
                yield offset + place + 1
