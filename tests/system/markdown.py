"""The treatise as Markdown, from which pandoc makes its documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.support.sample_document import (
    AUTHOR,
    TITLE,
    Code,
    Heading,
    Items,
    Paragraph,
    Picture,
    Piece,
    Quote,
    Table,
)

PICTURE = "wheels.png"


def markdown(pieces: Sequence[Piece]) -> str:
    """Return pieces as pandoc's Markdown; unsupported content is an error."""
    head = f"---\ntitle: {TITLE}\nauthor: {AUTHOR}\nlang: en\n---"
    parts = [head]
    for number, piece in enumerate(pieces):
        parts.extend(_written(piece, f"n{number}"))
    return "\n\n".join(parts) + "\n"


def _written(piece: Piece, name: str) -> Iterator[str]:
    match piece:
        case Heading(level, text):
            yield f"{'#' * level} {text}"
        case Paragraph(text, note):
            yield text.replace("^", f"[^{name}]")
            if note:
                yield f"[^{name}]: {note}"
        case Quote(text):
            yield f"> {text}"
        case Code(text):
            yield f"```python\n{text}\n```"
        case Items():
            yield "\n".join(_items(piece))
        case Table(rows):
            yield "\n".join(_rows(rows))
        case Picture(alt):
            # The backslash keeps it an image on a separate line and no captioned figure.
            yield f"![{alt}]({PICTURE})\\\n"
        case _:
            raise NotImplementedError(type(piece).__name__)


def _items(piece: Items) -> Iterator[str]:
    for number, (item, inner) in enumerate(piece.items, 1):
        mark = f"{number}. " if piece.numbered else "- "
        yield mark + item
        yield from (f"    - {below}" for below in inner)


def _rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    head, *body = rows
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in body:
        yield "| " + " | ".join(row) + " |"
