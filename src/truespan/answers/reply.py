"""A streamed model reply, held back until it is known to be an answer.

A blank reply, or one that says NO_CONTEXT, leads to another decision. So nothing is passed on until
the reply can be neither; from then on every piece is passed on at once. If a model says NO_CONTEXT
later, the rest is dropped: it does not come from the sources. Reasoning before a reply is removed.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from unicodedata import category

from truespan.answers.citations import GROUP, OPENERS
from truespan.protocols import ChatModel
from truespan.types.answer import Message
from truespan.types.decision import ModelOutcome

_NAMES = ("think", "thinking", "reasoning")
_MAX_TAG_LENGTH = 32


def strip_reasoning(pieces: Generator[str, None, None]) -> Generator[str, None, None]:
    """Yield the pieces of a reply after its reasoning; closing this closes the source."""
    try:
        name, buffer, speaking = "", "", False
        for piece in pieces:
            if speaking:
                yield piece
                continue
            if not name and not buffer:
                # White space is passed on at once: endless white space is a blank reply.
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

    The last value is True once the reply has begun. Only a possible beginning of a tag is kept, so
    that long reasoning needs no memory.
    """
    while True:
        if name:
            end = re.search(rf"</{name}\s*>", buffer, re.IGNORECASE)
            if end is None:
                return name, buffer[-_MAX_TAG_LENGTH:], False
            buffer = buffer[end.end() :]
        buffer = buffer[len(_unseen(buffer)) :]
        tag, closing, rest = buffer[:_MAX_TAG_LENGTH].partition(">")
        tag = tag.lower().rstrip()
        if not closing:
            may_follow = any(f"<{known}".startswith(tag) for known in _NAMES)
            return "", buffer, not may_follow or len(buffer) >= _MAX_TAG_LENGTH
        name = tag[1:]
        if not tag.startswith("<") or name not in _NAMES:
            return "", buffer, True
        buffer = rest + buffer[_MAX_TAG_LENGTH:]


def _unseen(text: str) -> str:
    """Return the leading white space and invisible characters of a text."""
    for place, char in enumerate(text):
        if not char.isspace() and category(char) != "Cf":
            return text[:place]
    return text


NO_CONTEXT = "NO_CONTEXT"
"""Reply of a model whose sources do not answer the question."""

MAX_HELD = 4096
"""Maximum number of characters without a word; then a reply counts as blank."""

MAX_UNCERTAIN = 80
"""Number of characters within which `NO_CONTEXT` rejects a reply, unless a citation comes first:
models apologise before they say it."""

_LETTERS = "nocontext"
_UNSEEN = "\u00ad\u200b-\u200d\u2060\ufeff"
_BETWEEN = re.compile(rf"[\s_\\*`{_UNSEEN}\-\u2010-\u2015]")
"""Characters between the two words: models escape the underscore, emphasise, or leave it out."""
_COLONS = frozenset(":\uff1a")
_ENDS = _COLONS | frozenset(
    "\n\r\u2013\u2014.,;!?\u2026(\u3002\uff0c\u3001\uff1b\uff01\uff1f\uff08"
)
"""Characters after which the reply means NO_CONTEXT even if more text follows."""
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_GAP = rf"(?:[\s_\\*`{_UNSEEN}]|-|\u2010|\u2011){{0,6}}"
_MARKER = re.compile(
    rf"(?<![^\W_])(?:NO{_GAP}CONTEXT|(?i:no\\?_{{1,2}}context))(?![^\W_]|[-'\u2019][^\W_])"
)
"""The marker in capitals or with its underscore; "no context" alone may be prose."""
_UNDECIDED = re.compile(
    rf"[\s*_`>#\"'\u201c\u2018(\[\\-]*"
    rf"(?:(?<![^\W_])[Nn](?:[Oo](?:{_GAP}(?:$|[Cc](?:$|[Oo](?:$|[Nn](?:$|[Tt](?:$|[Ee](?:$|"
    rf"[Xx](?:$|[Tt][-'\u2019]?)))))))|)|))?$"
)
"""End of a text that may be the beginning of the marker, with the marks before it."""
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
"""Labels that models write before an answer, followed by a colon."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Reply:
    """The pieces of one reply. Read `outcome` first, then `pieces`.

    With `quotable`, the question or the sources contain the marker, so that a reply may mention it.
    """

    def __init__(self, pieces: Iterator[str], *, quotable: bool = False) -> None:
        self._pieces = strip_reasoning(_clean(pieces))
        self._buffer = ""
        self._outcome: ModelOutcome | None = None
        self._quotable = quotable
        self.cut = False
        """Whether the rest was dropped because the model said NO_CONTEXT."""

    @property
    def outcome(self) -> ModelOutcome:
        """Return the kind of reply, reading no further than necessary.

        Errors of the model are raised unchanged: a provider that failed has no outcome.
        """
        while self._outcome is None:
            piece = next(self._pieces, None)
            self._buffer += piece or ""
            whole = piece is None
            self._outcome = outcome_of(self._buffer, whole=whole, quotable=self._quotable)
        if self._outcome is not ModelOutcome.ANSWERED:
            self.close()
        return self._outcome

    def pieces(self) -> Iterator[str]:
        """Yield the reply without surrounding white space, starting with the text held back."""
        waiting, last = "", ""
        for piece in chain([self._buffer], self._pieces, [None]):
            text = waiting + (piece or "")
            text = text if last else text.lstrip()
            marker = None if self._quotable else _find_marker(last + text)
            if marker is not None and (marker.end() < len(last + text) or piece is None):
                shown, self.cut = text[: marker.start() - len(last)], True
                shown = shown[: len(shown) - len(_end_of(last + shown))]
            elif piece is None or self._quotable:
                shown = text.rstrip()
            else:
                shown = text[: len(text) - len(_end_of(last + text))].rstrip()
            waiting = text[len(shown) :]
            if shown:
                last = shown[-1]
                yield shown
            if self.cut:
                self.close()
                return

    def close(self) -> None:
        self._pieces.close()


def read_reply(model: ChatModel, messages: Sequence[Message], max_length: int) -> str | None:
    """Return the whole reply of a model; None if it is blank, NO_CONTEXT or too long."""
    reply = Reply(model.stream(messages), quotable=True)
    text = ""
    try:
        if reply.outcome is not ModelOutcome.ANSWERED:
            return None
        for piece in reply.pieces():
            text += piece
            if len(text) > max_length:
                return None
    finally:
        reply.close()
    return text.strip()


def mentions_marker(text: str) -> bool:
    """Return whether a text contains the marker, so that a reply may quote it."""
    return _find_marker(text) is not None


def _find_marker(text: str) -> re.Match[str] | None:
    return _MARKER.search(text.translate(_FULL_WIDTH))


def _end_of(text: str) -> str:
    """Return the end of a text that may begin the marker, with the marks before it."""
    # Far enough back for the longest beginning; earlier marks are passed on.
    start = max(0, len(text) - 40)
    found = _UNDECIDED.search(text.translate(_FULL_WIDTH), start)
    return text[found.start() :] if found else ""


def outcome_of(text: str, *, whole: bool, quotable: bool = False) -> ModelOutcome | None:
    """Return the outcome of a reply that begins with `text`; None while more is needed.

    At the beginning, `NO_CONTEXT` counts in any case, with marks, citations or a label around it
    and any text after it; as two ordinary words it counts only if the sentence ends there. In
    capitals or with its underscore it also counts within the first words, unless a citation comes
    before it or it is `quotable`.
    """
    begin = _first_word(text, 0)
    while begin and (cited := GROUP.match(text, begin - 1)):
        following = _first_word(text, cited.end())
        if following is None:
            return ModelOutcome.ANSWERED if whole or len(text) > MAX_HELD else None
        begin = following
    if begin is None:
        return ModelOutcome.BLANK if whole or len(text) > MAX_HELD else None
    if not whole and text[begin - 1 : begin] in OPENERS and _UNCLOSED.fullmatch(text, begin):
        return None
    verdict = _verdict(text, begin, whole=whole)
    if verdict is not ModelOutcome.ANSWERED:
        return verdict
    after = _after_label(text, begin)
    labelled = None if after is None else _first_word(text, after)
    if labelled is not None:
        verdict = _verdict(text, labelled, whole=whole)
        if verdict is not ModelOutcome.ANSWERED:
            return verdict
    elif not (whole or after is None or len(text) > MAX_HELD):
        return None
    return ModelOutcome.ANSWERED if quotable else _look_further(text, begin, whole=whole)


def _look_further(text: str, begin: int, *, whole: bool) -> ModelOutcome | None:
    """Return the outcome of a reply that begins like an answer."""
    cited = GROUP.search(text, begin)
    certain = min(cited.start() if cited else MAX_UNCERTAIN, begin + MAX_UNCERTAIN)
    marker = _find_marker(text)
    if marker is not None and marker.start() < certain:
        settled = whole or marker.end() < len(text)
        return ModelOutcome.NO_CONTEXT if settled else None
    undecided = len(text) - len(_end_of(text)) < certain
    return None if undecided and not whole else ModelOutcome.ANSWERED


def _first_word(text: str, start: int) -> int | None:
    return next((place for place in range(start, len(text)) if _is_text(text[place])), None)


def _verdict(text: str, begin: int, *, whole: bool) -> ModelOutcome | None:
    """Return the outcome of a reply whose first word begins at `begin`."""
    end, spelled = _match_no_context(text, begin)
    if not spelled:
        return None if end == len(text) and not whole else ModelOutcome.ANSWERED
    following, next_to_it = text[end : end + 1], text[end + 1 : end + 2]
    if not following and not whole:
        return None
    if following in ("-", "'", "\u2019") and not next_to_it and not whole:
        return None
    if following and (
        _is_text(following) or (following in "-'\u2019" and next_to_it and _is_text(next_to_it))
    ):
        return ModelOutcome.ANSWERED  # Another word, or a part of one.
    name = text[begin:end]
    if "_" in name or "\uff3f" in name or "C" in name.translate(_FULL_WIDTH):
        return ModelOutcome.NO_CONTEXT
    rest = GROUP.sub(" ", text[end:])
    for place, char in enumerate(rest):
        if char in _ENDS or (char == "-" and rest[place + 1 : place + 2].isspace()):
            return ModelOutcome.NO_CONTEXT
        if char in OPENERS and not whole and _UNCLOSED.fullmatch(rest, place):
            return None
        if _is_text(char):
            return ModelOutcome.ANSWERED
    return ModelOutcome.NO_CONTEXT if whole or len(text) > MAX_HELD else None


def _after_label(text: str, begin: int) -> int | None:
    """Return the end of a label such as `Answer:`, or of the text while a label may still follow.

    None without a label. Only known labels count: any other word is passed on at once.
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
    """Return the end of the match with the two words, and whether the match is complete."""
    place, letters = begin, 0
    while place < len(text) and letters < len(_LETTERS):
        char = text[place]
        if char.translate(_FULL_WIDTH).lower() == _LETTERS[letters]:
            letters += 1
        elif not (letters == len("no") and (_BETWEEN.match(char) or char == "\uff3f")):
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
