"""A model's reply as it comes: held back until it is known to be one.

A reply that is blank, or that says there was no context, leads to another decision. So nothing of
it may be given out before it can be neither any more; from then on every piece goes out at once.
What a model thinks before it speaks is no part of its reply.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from unicodedata import category

from truespan.answers.citations import GROUP, OPENERS
from truespan.types.decision import ModelOutcome

_NAMES = ("think", "thinking", "reasoning")
_LONGEST_TAG = 32


def without_thoughts(pieces: Generator[str, None, None]) -> Generator[str, None, None]:
    """Give the pieces of a reply from where it speaks; closing this closes them."""
    try:
        name, held, speaking = "", "", False
        for piece in pieces:
            if speaking:
                yield piece
                continue
            if not name and not held:
                # What nobody sees goes on at once: without end, it is a blank reply.
                yield " " * len(_unseen(piece))
            held += piece
            name, held, speaking = _passed(name, held)
            if speaking and held:
                yield held
        if held and not name and not speaking:
            yield held
    finally:
        pieces.close()


def _passed(name: str, held: str) -> tuple[str, str, bool]:
    """Go past all thoughts that are whole; say in which one this ends, with what of it to keep.

    The last member says whether the reply has begun. Only what may be the beginning of a tag is
    kept, so that thoughts of any length cost no room.
    """
    while True:
        if name:
            end, held = _closed(name, held)
            if not end:
                return name, held, False
        held = held[len(_unseen(held)) :]
        name, held, undecided = _opened(held)
        if not name:
            return "", held, not undecided


def _closed(name: str, held: str) -> tuple[bool, str]:
    """Return whether the tag is closed, and what stands behind it; else its possible beginning."""
    found = re.search(rf"</{name}\s*>", held, re.IGNORECASE)
    return (True, held[found.end() :]) if found else (False, held[-_LONGEST_TAG:])


def _opened(held: str) -> tuple[str, str, bool]:
    """Return the name of the tag that stands here, what is behind it, and whether one may come."""
    tag, closing, behind = held[:_LONGEST_TAG].partition(">")
    spelled = tag.lower().rstrip()
    if closing:
        name = spelled[1:] if spelled[:1] == "<" and spelled[1:] in _NAMES else ""
        return (name, behind + held[_LONGEST_TAG:], False) if name else ("", held, False)
    coming = len(held) < _LONGEST_TAG and any(f"<{one}".startswith(spelled) for one in _NAMES)
    return "", held, coming


def _unseen(text: str) -> str:
    """Return the white space, and what is as good as that, with which a text begins."""
    seen = (place for place, one in enumerate(text) if not one.isspace() and category(one) != "Cf")
    return text[: next(seen, len(text))]


NO_CONTEXT = "NO_CONTEXT"
"""What a model is told to say when its sources do not answer the question."""

MOST_HELD = 4096
"""Characters that may come without a word among them before the reply counts as blank."""

_LETTERS = "nocontext"
_BETWEEN = " \t_-\\"
"""What may stand between the two words: models escape the line, or leave it out."""
_COLONS = frozenset(":\uff1a")
_ENDS = _COLONS | frozenset("\n\r\u2013\u2014")
"""After these the reply has said that there was no context, whatever it adds."""
_UNCLOSED = re.compile(r"[^\]\u3011\uff3d\n]{1,60}")
"""Brackets that are still open, and may become a citation."""
_BEFORE_COLON = frozenset(" \t*_`")
_REPLY_NAMES = (
    "answer reply response result output conclusion verdict assistant a antwort réponse respuesta "
    "risposta resposta antwoord svar odpowiedź ответ उत्तर جواب 答案 回答 答"
)
_LABELS = (
    *_REPLY_NAMES.split(),
    "the answer",
    "my answer",
    "final answer",
    "the final answer",
    "short answer",
)
"""What models put before an answer, with a colon behind it."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Reply:
    """The pieces of one reply. `outcome` waits until it is certain; then the pieces can be had."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = without_thoughts(_clean(pieces))
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
    its case and whatever marks and citations are around it. There may be a label before it, and
    after a colon or a dash what it means. A sentence that mentions it is an answer.
    """
    begin = _first_word(text, 0)
    if begin is None:
        return ModelOutcome.BLANK if whole or len(text) > MOST_HELD else None
    verdict = _verdict(text, begin, whole=whole)
    if verdict is not ModelOutcome.ANSWERED:
        return verdict
    after = _after_label(text, begin)
    labelled = None if after is None else _first_word(text, after)
    if labelled is not None:
        return _verdict(text, labelled, whole=whole)
    settled = whole or after is None or len(text) > MOST_HELD
    return ModelOutcome.ANSWERED if settled else None


def _first_word(text: str, start: int) -> int | None:
    return next((place for place in range(start, len(text)) if _speaks(text[place])), None)


def _verdict(text: str, begin: int, *, whole: bool) -> ModelOutcome | None:
    """Return what a reply is whose first word begins here."""
    end, spelled = _spelled(text, begin)
    if not spelled:
        return None if end == len(text) and not whole else ModelOutcome.ANSWERED
    rest = GROUP.sub(" ", text[end:])
    for place, one in enumerate(rest):
        if one in _ENDS or (one == "-" and rest[place + 1 : place + 2].isspace()):
            return ModelOutcome.NO_CONTEXT
        if one in OPENERS and not whole and _UNCLOSED.fullmatch(rest, place):
            return None
        if _speaks(one):
            return ModelOutcome.ANSWERED
    return ModelOutcome.NO_CONTEXT if whole or len(text) > MOST_HELD else None


def _after_label(text: str, begin: int) -> int | None:
    """Return where a label such as `Answer:` ends, or the end while one may still be coming.

    None where there is none. Only labels that are known count: any other word is given out at once.
    """
    coming = False
    for label in _LABELS:
        spelled = text[begin : begin + len(label)].lower()
        place = begin + len(label)
        while spelled == label and text[place : place + 1] in _BEFORE_COLON:
            place += 1
        if spelled == label and text[place : place + 1] in _COLONS:
            return place + 1
        coming |= label.startswith(spelled) and place >= len(text)
    return len(text) if coming else None


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
