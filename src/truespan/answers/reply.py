"""A streamed model reply, held back until it is known to be an answer.

A blank reply, or one that says there was no context, leads to another decision. So nothing is
passed on until it can be neither; from then on every piece is passed on at once. Reasoning that a
model writes before its reply is removed.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from itertools import chain
from unicodedata import category

from truespan.answers.citations import GROUP, OPENERS
from truespan.types.decision import ModelOutcome

_NAMES = ("think", "thinking", "reasoning")
_LONGEST_TAG = 32


def strip_reasoning(pieces: Generator[str, None, None]) -> Generator[str, None, None]:
    """Yield the pieces of a reply after its reasoning; closing this closes the source."""
    try:
        name, buffer, speaking = "", "", False
        for piece in pieces:
            if speaking:
                yield piece
                continue
            if not name and not buffer:
                # White space is passed on at once: without end, it is a blank reply.
                yield " " * len(_unseen(piece))
            buffer += piece
            name, buffer, speaking = _skip_reasoning(name, buffer)
            if speaking and buffer:
                yield buffer
        if buffer and not name and not speaking:
            yield buffer
    finally:
        pieces.close()


def _skip_reasoning(name: str, buffer: str) -> tuple[str, str, bool]:
    """Skip complete reasoning blocks; return the name of an open one, and the text to keep.

    The last value tells whether the reply has begun. Only a possible beginning of a tag is kept, so
    that reasoning of any length needs no memory.
    """
    while True:
        if name:
            end = re.search(rf"</{name}\s*>", buffer, re.IGNORECASE)
            if end is None:
                return name, buffer[-_LONGEST_TAG:], False
            buffer = buffer[end.end() :]
        buffer = buffer[len(_unseen(buffer)) :]
        tag, closing, rest = buffer[:_LONGEST_TAG].partition(">")
        tag = tag.lower().rstrip()
        if not closing:
            may_follow = any(f"<{known}".startswith(tag) for known in _NAMES)
            return "", buffer, not may_follow or len(buffer) >= _LONGEST_TAG
        name = tag[1:]
        if not tag.startswith("<") or name not in _NAMES:
            return "", buffer, True
        buffer = rest + buffer[_LONGEST_TAG:]


def _unseen(text: str) -> str:
    """Return the leading white space and invisible characters of a text."""
    for place, char in enumerate(text):
        if not char.isspace() and category(char) != "Cf":
            return text[:place]
    return text


NO_CONTEXT = "NO_CONTEXT"
"""What a model must reply if its sources do not answer the question."""

MOST_HELD = 4096
"""Characters without a word after which a reply counts as blank."""

_LETTERS = "nocontext"
_BETWEEN = " \t_-\\"
"""What may separate the two words: models escape the underscore, or leave it out."""
_COLONS = frozenset(":\uff1a")
_ENDS = _COLONS | frozenset("\n\r\u2013\u2014")
"""After these the reply means that there was no context, whatever follows."""
_UNCLOSED = re.compile(r"[^\]\u3011\uff3d\n]{1,60}")
"""An open bracket that may become a citation."""
_BEFORE_COLON = frozenset(" \t*_`")
_REPLY_NAMES = (
    "answer reply response result output conclusion verdict assistant a antwort réponse respuesta "
    "risposta resposta antwoord svar odpowiedź ответ उत्तर جواب 答案 回答 答"
)
_LABELS = (
    *_REPLY_NAMES.split(),
    *("the answer", "my answer", "final answer", "the final answer", "short answer"),
)
"""What models write before an answer, followed by a colon."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Reply:
    """The pieces of one reply. `outcome` reads until it is certain; then `pieces` can be read."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = strip_reasoning(_clean(pieces))
        self._buffer = ""
        self._outcome: ModelOutcome | None = None

    @property
    def outcome(self) -> ModelOutcome:
        """Return what kind of reply this is, reading no further than necessary.

        Raises whatever the model raises: a provider that failed has no outcome.
        """
        while self._outcome is None:
            piece = next(self._pieces, None)
            self._buffer += piece or ""
            self._outcome = outcome_of(self._buffer, whole=piece is None)
        if self._outcome is not ModelOutcome.ANSWERED:
            self.close()
        return self._outcome

    def pieces(self) -> Iterator[str]:
        """Yield the reply without surrounding white space, beginning with what was held back."""
        waiting, begun = "", False
        for piece in chain([self._buffer], self._pieces):
            text = waiting + (piece if begun else piece.lstrip())
            shown = text.rstrip()
            waiting = text[len(shown) :]
            if shown:
                begun = True
                yield shown

    def close(self) -> None:
        self._pieces.close()


def outcome_of(text: str, *, whole: bool) -> ModelOutcome | None:
    """Return the outcome of a reply that begins like this; None while more of it is needed.

    `NO_CONTEXT` counts if it is alone, or alone on the first line with words, in any case and with
    any marks and citations around it. A label may precede it, and an explanation may follow after a
    colon or a dash. A sentence that mentions it is an answer.
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
    return next((place for place in range(start, len(text)) if _is_text(text[place])), None)


def _verdict(text: str, begin: int, *, whole: bool) -> ModelOutcome | None:
    """Return the outcome of a reply whose first word begins here."""
    end, spelled = _match_no_context(text, begin)
    if not spelled:
        return None if end == len(text) and not whole else ModelOutcome.ANSWERED
    rest = GROUP.sub(" ", text[end:])
    for place, char in enumerate(rest):
        if char in _ENDS or (char == "-" and rest[place + 1 : place + 2].isspace()):
            return ModelOutcome.NO_CONTEXT
        if char in OPENERS and not whole and _UNCLOSED.fullmatch(rest, place):
            return None
        if _is_text(char):
            return ModelOutcome.ANSWERED
    return ModelOutcome.NO_CONTEXT if whole or len(text) > MOST_HELD else None


def _after_label(text: str, begin: int) -> int | None:
    """Return where a label such as `Answer:` ends, or the end while one may still follow.

    None if there is none. Only known labels count: any other word is passed on at once.
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


def _match_no_context(text: str, begin: int) -> tuple[int, bool]:
    """Return how far the text matches the two words, and whether it matches completely."""
    place, letters = begin, 0
    while place < len(text) and letters < len(_LETTERS):
        char = text[place]
        if char.lower() == _LETTERS[letters]:
            letters += 1
        elif not (letters == len("no") and char in _BETWEEN):
            return place, False
        place += 1
    return place, letters == len(_LETTERS)


def _is_text(char: str) -> bool:
    """Return whether a character counts as text: letters, digits and symbols, no punctuation."""
    kind = category(char)
    return kind[0] in "LNM" or kind in ("So", "Sc")


def _clean(pieces: Iterator[str]) -> Generator[str, None, None]:
    """Yield pieces without surrogates; closing this ends the request to the model."""
    try:
        for piece in pieces:
            yield _SURROGATE.sub("\ufffd", piece)
    finally:
        getattr(pieces, "close", lambda: None)()
