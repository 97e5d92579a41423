"""Split a model's answer into sentences, and find those that make a claim.

An answer is Markdown with citations. List items, table rows and lines of code are separate units;
within paragraphs, sentences are split as in documents. The work is linear in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from truespan.answers.citations import GROUP
from truespan.text.sentences import sentence_spans


class AnswerSentence(Struct, frozen=True):
    """A sentence of an answer. In `text`, citations and marks are replaced by blanks.

    `claim` is False for a sentence that states nothing: a question, a heading, "I do not know".
    """

    start: int
    end: int
    text: str
    citations: tuple[tuple[int, str], ...]
    """Offset of each citation, and the text between its brackets."""
    claim: bool


_HEADING = re.compile(r"[ ]{0,3}#{1,6}(?:\s|$)")
_ITEM = re.compile(r"\s{0,40}(?:[-*+•‣◦–—]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s+")
_QUOTED = re.compile(r"\s{0,3}(?:>\s?){1,9}")
_ROW = re.compile(r"\s{0,9}\|")
_ROW_RULE = re.compile(r"[\s|:+=-]+")
_FENCE = re.compile(r"\s{0,9}(?:```|~~~)")
_RULE = re.compile(r"\s{0,3}(?:[-*_=]\s*){3,}")
_BOLD_LINE = re.compile(r"\s*+(\*\*|__)[^*_]++\1\s*+:?\s*+")
_MARKS = re.compile(r"[*_`~#|>\\]+")

_NO_CLAIM = re.compile(
    r"\W*(?:"
    r"(?:here (?:is|are)|below (?:is|are)|the following|in summary|to summari[sz]e)\b[^.]{0,120}:"
    r"|(?:i hope|hope) (?:this|that) helps|let me know|feel free|would you like"
    r"|please (?:let|ask|note)"
    r"|(?:yes|no|sure|certainly|of course|okay|ok|thanks|thank you|sorry)\W*$"
    r"|(?:sources?|references?|citations?)\b\W*$"
    r")",
    re.IGNORECASE,
)
_PASSAGES = (
    r"(?:the |these |those |your |any |given |provided |available |retrieved |cited "
    r"|numbered ){0,6}"
    r"(?:sources?|passages?|texts?|documents?|excerpts?|context|material|information|book|chapters?)"
)
_DENIAL = re.compile(
    r"\b(?:i|we) (?:do not|don.t|cannot|can.t|could not|couldn.t|am not able to|am unable to)"
    r" (?:know|say|tell|find|determine|answer|see|confirm|be certain|be sure)\b"
    r"|\b(?:i am|i.m|we are) (?:not (?:sure|certain|able)|unsure|unable)\b"
    rf"|\b{_PASSAGES} (?:given |provided |above |here |so far |that (?:i|you) \w+ ){{0,4}}"
    r"(?:do not|does not|don.t|doesn.t|did not|didn.t|never|nowhere|gives? no|give no|provides? no"
    r"|contains? no|has no|have no|makes? no|is silent|are silent|leaves? (?:it|this|that|open)"
    r"|is not|are not|says? nothing|mentions? (?:no|nothing))\b"
    r"|\b(?:is|are|was|were) (?:not|never|nowhere) (?:explicitly |directly |clearly )?"
    rf"(?:mentioned|stated|specified|said|given|known|described|named|explained|answered|discussed)"
    r"|\b(?:not|nothing|no information|no mention|no details?|no answer|unclear)\b[^.]{0,60}"
    rf"\b(?:in|by|from|about (?:this|that|it) in) {_PASSAGES}\b"
    r"|\bit is (?:not clear|unclear|unknown|not known|left open)\b"
    r"|\bno (?:information|mention|details?|answer) (?:is|are|was|were|about|of|on)\b"
    r"|\b(?:das|darüber|dazu) (?:weiß ich nicht|steht nichts)"
    r"|\b(?:ich|wir) (?:weiß|wissen) (?:es )?nicht\b"
    r"|\bdie (?:quellen|texte|passagen|auszüge)\b[^.]{0,40}\b(?:nicht|nichts|keine)\b"
    r"|\bje ne sais pas\b|\bles (?:sources|passages|textes) ne \w+ pas\b"
    r"|\bno (?:lo )?sé\b|\blas (?:fuentes|pasajes|textos) no \w+\b",
    re.IGNORECASE,
)


_TURN = re.compile(
    r"\b(?:but|however|although|though|except|yet|aber|sondern|obwohl|mais|pero|ma)\b|;",
    re.IGNORECASE,
)
"""Words after which a statement may follow a denial."""


def split_answer(answer: str, language: str = "en") -> list[AnswerSentence]:
    """Return the sentences of an answer in order; text without a letter or digit is left out."""
    found: list[AnswerSentence] = []
    for start, end, heading in _units(answer):
        spans = [(0, end - start)] if heading else sentence_spans(answer[start:end], language)
        for first, last in spans:
            sentence = _sentence(answer, start + first, start + last, heading=heading)
            if sentence.text.strip(" \t\n.,;:!?()[]") and any(map(str.isalnum, sentence.text)):
                found.append(sentence)
            elif sentence.citations and found and not answer[found[-1].end : start + first].strip():
                # Citations after the sentence that they belong to.
                before = found.pop()
                joined = _sentence(answer, before.start, start + last, heading=False)
                found.append(joined if before.claim else before)
    return found


def _units(answer: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the spans of paragraphs, list items, rows and headings; True for a heading."""
    begin, place, code = None, 0, False
    lines = answer.splitlines(keepends=True)
    for number, line in enumerate(chain(lines, [""])):
        bare = line.strip()
        fence = bool(_FENCE.match(line))
        item = None if code else _ITEM.match(line) or _QUOTED.match(line)
        row = not code and bool(_ROW.match(line))
        heading = not code and bool(_HEADING.match(line) or _BOLD_LINE.fullmatch(line))
        rule = not code and bool(bare) and bool(_RULE.fullmatch(line))
        ends = not bare or fence or item or row or heading or rule or code
        if ends and begin is not None:
            yield begin, place, False
            begin = None
        if fence:
            code = not code
        elif heading:
            yield place, place + len(line), True
        elif row:
            following = lines[number + 1] if number + 1 < len(lines) else ""
            if not _ROW_RULE.fullmatch(line):
                header = bool(_ROW.match(following) and _ROW_RULE.fullmatch(following))
                yield place, place + len(line), header
        elif code and bare:
            yield place, place + len(line), False
        elif bare and not rule and begin is None:
            begin = place + (item.end() if item else 0)
        place += len(line)
    # The empty last line has ended every open part.


def _sentence(answer: str, start: int, end: int, *, heading: bool) -> AnswerSentence:
    raw = answer[start:end]
    citations = tuple((found.start(), found[1]) for found in GROUP.finditer(raw))
    text = GROUP.sub(lambda found: " " * len(found[0]), raw)
    text = _MARKS.sub(lambda found: " " * len(found[0]), text)
    bare = text.strip().rstrip("\"'”’»)")
    denial = bool(_DENIAL.search(bare[:400])) and not _TURN.search(bare)
    asks = bare.endswith(("?", "？", "؟"))
    empty = heading or asks or denial or bare.endswith((":", "：")) or bool(_NO_CLAIM.match(bare))
    return AnswerSentence(start, end, text, citations, not empty)
