"""Novels as plain text, with chapters of the usual forms."""

from collections.abc import Sequence

PROSE = """\
The ferry left the quay at six in the morning, and nobody who stood there saw that one of the
lamps had gone out before it was light. The keeper of the landing wrote the hour down in a book.
He had done so for thirty years, and he had never once been asked what he did it for.

There was ice on the ropes. A woman in a green coat came aboard with a parrot in a cage, and she
paid for both of them without a word. The captain looked at the parrot, and the parrot at the sea.

"""
STORY = (
    PROSE
    + """\
“You are late,” said the keeper, and he shut the book.

“No,” she said. “The tide is early.”

He thought about it for some time, and then he opened the book again and wrote down the tide.

"""
)
CHAPTER_NAMES = {
    "chapters": ["Chapter 1", "Chapter 2", "Chapter 3", "Chapter 4"],
    "titles": ["CHAPTER I. THE LAMP", "CHAPTER II. THE BOAT", "CHAPTER III. THE INN"],
    "words": ["Chapter One", "Chapter Two", "Chapter Three"],
    "Roman numbers": ["I", "II", "III", "IV"],
    "parts": ["PART I", "CHAPTER I", "CHAPTER II", "PART II", "CHAPTER I", "CHAPTER II"],
    "parts that count on": ["BOOK ONE", "Chapter 1", "Chapter 2", "BOOK TWO", "Chapter 3"],
    "another language": ["Kapitel 1", "Kapitel 2", "Kapitel 3"],
    "letters": ["Letter 1", "Letter 2", "Letter 3", "Chapter 1"],
}
"""The headings of novels, by their form."""


def make_text(headings: Sequence[str], body: str = STORY, *, repeats: int = 4) -> str:
    """Return a text of chapters with the same body; a part has none before its first chapter."""
    parts = [
        heading
        if heading.startswith(("PART", "BOOK"))
        else f"{heading}\n\n{body.strip()}" + (f"\n\n{body.strip()}" * (repeats - 1))
        for heading in headings
    ]
    return "\n\n\n" + "\n\n\n\n".join(parts) + "\n"
