"""Sentences: numbered spans of canonical text, found by one segmenter.

The segmenter receives one paragraph at a time: in longer texts it loses line ends, and its time is
quadratic in the number of sentences. Its time also grows with the number of quotation marks and
brackets; in text with far more of them than prose, they are hidden from it. All limits depend on
the text, never on time.

The segmenter holds the interpreter lock while it runs, so documents are split in the parser
process. Only short texts, such as questions, are split in the main process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from truespan.types.text import CanonicalText, Sentence

_SENTENCE_RULES = 3
"""Version of the rules. Increase it if this module splits prose differently.

Another version makes a new revision of every document. Changed limits do not need one: prose does
not reach them.
"""

_GAP = re.compile(r"\n(?:[^\S\n]*\n)+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRETCH = 4000
"""Number of characters passed to the segmenter at once."""
_UNSURE = 2
"""Number of sentences at the end of a stretch that more text could change."""
_MAX_STRETCH = 2**20
"""Maximum length of a stretch; a longer sentence is cut."""
_EFFORT = 32
"""Maximum number of characters passed to the segmenter, as a multiple of the text."""
_MAX_HEADING_LENGTH = 240
MAX_LINE_LENGTH = 4000
"""Maximum length of a source code line that is one sentence; longer lines are split like prose."""
_QUOTES = "'`“”‘’«»‹›「」《》„‚‛‟"
_MAX_QUOTES = 1000
_BRACKETS = '"()[]{}<>（）@'
_MAX_BRACKETS = 10_000
"""Maximum number of brackets in a stretch; with more, all are hidden from the segmenter."""
_WITHOUT_MARKS = str.maketrans(dict.fromkeys(_QUOTES + _BRACKETS, "\ufffd"))

_NEVER_LAST = {
    "es": "avda. cap. fig. núm. pág. págs. prof. tel.",
    "fr": "M. MM. Mme. Mlle. Mgr. dr. pr. boul. chap. fig. env. tél.",
    "it": "pag. pagg. cap. fig. num. tel. sigg. geom. rag.",
    "pl": "dr. inż. mgr. godz. str. nr. zob. por. ul. al. pl. św. ks. gen. płk. tel. rys. tab.",
    "pt": "av. pág. págs. cap. fig. núm. prof. tel.",
    "ru": "им. ул. пр. пер. кв. рис. табл. гл. стр. см. ср. проф. акад. доц. е.",
}
"""Abbreviations before a name or a number, by language, that the segmenter takes for an end."""
_SELDOM_LAST = {"es": "m. uu.", "fr": "J. J.-C."}
"""Abbreviations that end a sentence only before a capital letter."""
_ALSO_LAST = {
    "ru": re.compile(
        r"(?:\bт\. ?[дп]|\bи (?:др|пр)|(?P<year>\d{3,4}|[IVX]) (?:гг?|вв?))\.\s+"
        r"(?=[«„\"(]?[А-ЯЁA-Z])"
    )
}
"""Abbreviations, by language, that end a sentence before a capital letter."""
_MIN_WORDS_BEFORE_YEAR = 5
"""Minimum number of words of a sentence that ends with a year: in "В 1812 г. Наполеон" it does
not."""
_LAST_WORD = re.compile(r"[^\s'’\"“«(\[]+\Z")

_Segment = Callable[[str], list[str]]


# Shared by threads: caches of texts.
@cache
def segmenter_name() -> str:
    """Return the name of the segmenter and its rules; another name makes a new revision."""
    from importlib.metadata import version

    return f"sentencex-{version('sentencex')}/{_SENTENCE_RULES}"


def split_sentences(canonical: CanonicalText, language: str = "en") -> list[Sentence]:
    """Return the sentences of a text in order, numbered from 0.

    Each code point other than white space is in exactly one sentence. No sentence crosses the start
    of a block. A heading is one sentence, so a reader at that sentence has read the whole label of
    the chapter.
    """
    bounds = iter(sentence_bounds(canonical, language))
    return [Sentence(sid, *pair) for sid, pair in enumerate(zip(bounds, bounds, strict=True))]


def sentence_bounds(canonical: CanonicalText, language: str = "en") -> list[int]:
    """Return the start and end of each sentence of a text, in one flat list."""
    text, segment = canonical.text, _segment_in(language)
    found: list[int] = []
    places = dict(zip(canonical.starts, canonical.places, strict=True))
    for start, end, heading in _paragraphs(canonical):
        pieces = [text[start:end]] if heading else _pieces(text, start, end, segment)
        if start in places and not heading and end - start <= _MAX_HEADING_LENGTH:
            # A heading of several sentences, whose label is only a part, is one sentence too.
            whole, first = _bare(text[start:end]), _bare(pieces[0])
            labels = [_bare(label) for label in places[start] if label]
            if any(
                whole.startswith(one) or whole.endswith(one) for one in labels if one not in first
            ):
                pieces = [text[start:end]]
        for piece in pieces:
            # Fast path: nearly all sentences begin with a word.
            if body := piece.rstrip():
                size = len(body)
                if body[0].isspace():
                    found.append(start + size - len(body.lstrip()))
                else:
                    found.append(start)
                found.append(start + size)
            start += len(piece)
    return found


def sentence_spans(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Return the bounds of the sentences of a short plain text, without white space around them."""
    bounds = iter(sentence_bounds(CanonicalText(text), language))
    return list(zip(bounds, bounds, strict=True))


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _segment_in(language: str) -> _Segment:
    """Return the segmenter for a language; for an unknown language, of a related one."""
    import sentencex

    # A compiled module without types.
    split: Callable[[str, str], list[str]] = sentencex.segment  # pyright: ignore[reportAttributeAccessIssue]
    code = re.split("[-_]", language.lower(), maxsplit=1)[0] or "en"

    def segment(text: str) -> list[str]:
        # A short text cannot have too many marks.
        if len(text) > _MAX_QUOTES:
            quotes, brackets = (sum(map(text.count, marks)) for marks in (_QUOTES, _BRACKETS))
            if quotes > _MAX_QUOTES or brackets > _MAX_BRACKETS:
                text = text.translate(_WITHOUT_MARKS)
        try:
            pieces = split(code, text)
        except UnicodeEncodeError:
            # The segmenter refuses surrogates. Clean text has none, but failing would not help.
            pieces = split(code, _SURROGATE.sub("\ufffd", text))
        if sum(map(len, pieces)) != len(text):
            return [text]
        pieces = _join_abbreviations(pieces, code) if code in _NEVER_LAST else pieces
        return _split_after(pieces, _ALSO_LAST[code]) if code in _ALSO_LAST else pieces

    return segment


def _join_abbreviations(pieces: list[str], language: str) -> list[str]:
    """Return sentences, each that ends with an abbreviation joined with the next."""
    never = _NEVER_LAST[language].split()
    seldom = _SELDOM_LAST.get(language, "").split()
    found: list[str] = []
    for piece in pieces:
        last = _LAST_WORD.search(found[-1].rstrip()) if found and piece.strip() else None
        word = last[0] if last else ""
        # A table in lower case also has the word at the start of a sentence.
        forms = {word, word[:1].lower() + word[1:]}
        # Marks such as "¿" come before the first letter.
        first = next(filter(str.isalnum, piece), "")
        continues = piece.startswith("-") or not first.isupper()
        if not forms.isdisjoint(never) or (continues and not forms.isdisjoint(seldom)):
            found[-1] += piece
        else:
            found.append(piece)
    return found


def _split_after(pieces: list[str], last: re.Pattern[str]) -> list[str]:
    """Return sentences, each split after the abbreviations that end one."""
    found: list[str] = []
    for piece in pieces:
        start = 0
        for match in last.finditer(piece):
            words = len(piece[start : match.end()].split())
            if not match["year"] or words > _MIN_WORDS_BEFORE_YEAR:
                found.append(piece[start : match.end()])
                start = match.end()
        found.append(piece[start:])
    return found


def _paragraphs(canonical: CanonicalText) -> Iterator[tuple[int, int, bool]]:
    """Yield the bounds of each paragraph, and whether it is one sentence, as a heading is."""
    text, lines = canonical.text, {*canonical.lines}
    blocks = list(pairwise([*sorted({0, *canonical.block_starts, *lines}), len(text)]))
    places = dict(zip(canonical.starts, canonical.places, strict=True))
    for start, end in blocks:
        # White space after a line depends on the following text and must not count.
        if start in lines and (
            end - start <= MAX_LINE_LENGTH or len(text[start:end].rstrip()) <= MAX_LINE_LENGTH
        ):
            yield start, end, True
            continue
        if start in places:
            # A block is a heading if its text is the label of the place that starts with it.
            heading = " ".join(text[start:end].split())
            if any(label and f", {label}".endswith(f", {heading}") for label in places[start]):
                yield start, end, True
                continue
        for gap in _GAP.finditer(text, start, end):
            yield start, gap.start(), False
            start = gap.end()
        if start < end:
            yield start, end, False


def _pieces(text: str, start: int, end: int, segment: _Segment) -> list[str]:
    """Return the sentences of a paragraph with the white space after them; joined, they are it."""
    first, width, passed = start, _STRETCH, 0
    found: list[str] = []
    while end - start > width:
        pieces = segment(text[start : start + width])
        passed += width
        complete = pieces[:-_UNSURE]
        if passed > _EFFORT * (start - first + _MAX_STRETCH) or (
            not complete and width >= _MAX_STRETCH
        ):
            complete = pieces
        found += complete
        start += sum(map(len, complete))
        # Extend the stretch for a sentence that does not fit.
        width = _STRETCH if complete else min(width * 2, _MAX_STRETCH)
    found += segment(text[start:end])
    return found
