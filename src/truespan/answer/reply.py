"""A model's reply as it comes: held back until it is known to be one.

A reply that is blank, or that says there was no context, leads to another decision. So nothing of
it may be given out before it can be neither any more; from then on every piece goes out at once.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from unicodedata import category

from truespan.model.decision import ModelOutcome

NO_CONTEXT = "NO_CONTEXT"
"""What a model is told to say when its sources do not answer the question."""

MOST_HELD = 4096
"""Characters that may come without a word among them before the reply counts as blank."""

_LETTERS = "nocontext"
_BETWEEN = " \t_-\\"
"""What may stand between the two words: models escape the line, or leave it out."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Reply:
    """The pieces of one reply. `outcome` waits until it is certain; then the pieces can be had."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = _clean(pieces)
        self._held = ""
        self._outcome: ModelOutcome | None = None

    @property
    def outcome(self) -> ModelOutcome:
        """Return what kind of reply this is, reading no further than needed to know it.

        Raises whatever the model raises: a provider that failed gave no outcome.
        """
        while self._outcome is None:
            piece = next(self._pieces, None)
            self._held += piece or ""
            self._outcome = outcome_of(self._held, whole=piece is None)
        if self._outcome is not ModelOutcome.ANSWERED:
            self.close()
        return self._outcome

    def pieces(self) -> Iterator[str]:
        """Give the reply without white space around it, what was held first."""
        waiting, begun = "", False
        for piece in self._all():
            text = waiting + (piece if begun else piece.lstrip())
            shown = text.rstrip()
            waiting = text[len(shown) :]
            if shown:
                begun = True
                yield shown

    def close(self) -> None:
        """End the request to the model."""
        self._pieces.close()

    def _all(self) -> Iterator[str]:
        yield self._held
        yield from self._pieces


def outcome_of(text: str, *, whole: bool) -> ModelOutcome | None:
    """Return what a reply is that begins like this; None while more of it could decide.

    `NO_CONTEXT` counts when it stands alone, or alone on the first line with words in it, whatever
    its case and whatever marks are around it. A sentence that mentions it is an answer.
    """
    begin = next((place for place, one in enumerate(text) if _speaks(one)), None)
    if begin is None:
        return ModelOutcome.BLANK if whole or len(text) > MOST_HELD else None
    end, spelled = _spelled(text, begin)
    if not spelled:
        return None if end == len(text) and not whole else ModelOutcome.ANSWERED
    for one in text[end:]:
        if one in "\n\r":
            return ModelOutcome.NO_CONTEXT
        if _speaks(one):
            return ModelOutcome.ANSWERED
    return ModelOutcome.NO_CONTEXT if whole or len(text) > MOST_HELD else None


def _spelled(text: str, begin: int) -> tuple[int, bool]:
    """Return up to where the text spells the two words, and whether it does so to their end."""
    place, letters = begin, 0
    while place < len(text) and letters < len(_LETTERS):
        one = text[place]
        if one.lower() == _LETTERS[letters]:
            letters += 1
        elif not (letters == len("no") and one in _BETWEEN):
            return place, False
        place += 1
    return place, letters == len(_LETTERS)


def _speaks(one: str) -> bool:
    """Say whether a character can be part of an answer: letters, digits, pictures; no marks."""
    kind = category(one)
    return kind[0] in "LNM" or kind in ("So", "Sc")


def _clean(pieces: Iterator[str]) -> Generator[str, None, None]:
    """Give pieces that can be written down anywhere; the request ends when nobody listens."""
    try:
        for piece in pieces:
            yield _SURROGATE.sub("\ufffd", piece)
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
