"""Sentences: numbered spans of canonical text, found by one segmenter.

The segmenter is given a paragraph at a time. On longer texts it loses line ends between its own
pieces, and in a paragraph of many sentences its time grows with their square. With many quotation
marks or brackets its time grows with their number times the length of the text, so a text that
holds more of them than prose does is segmented as if they were not there. All limits depend on
the text alone, never on time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from truespan.ingest.chunking import cut
from truespan.protocols import TokenCounter
from truespan.types.profile import ChunkingProfile, Strategy
from truespan.types.text import CanonicalText, Sentence

_RULES = 1
"""Raised whenever this module would cut prose in another way with the same segmenter.

It was not raised for the limits below, which prose does not reach: another number makes a new
revision of every document.
"""

_GAP = re.compile(r"\n(?:[^\S\n]*\n)+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRETCH = 4000
"""Characters given to the segmenter at once."""
_UNSURE = 2
"""Pieces at the end of a stretch that more text could still change."""
_LONGEST = 2**20
"""The longest stretch; a sentence that does not end within it is cut there."""
_EFFORT = 32
"""How many times the length of a text may be given to the segmenter in all."""
_QUOTES = "'`“”‘’«»‹›「」《》„‚‛‟"
_MAX_QUOTES = 1000
_BRACKETS = '"()[]{}<>（）@'
_MAX_BRACKETS = 10_000
"""Marks in one stretch above which none of them is seen by the segmenter."""
_WITHOUT_MARKS = str.maketrans(dict.fromkeys(_QUOTES + _BRACKETS, "\ufffd"))

_Segment = Callable[[str], list[str]]


@cache
def segmenter() -> str:
    """Return the name of the segmenter and its rules; another name means another revision."""
    from importlib.metadata import version

    return f"sentencex-{version('sentencex')}/{_RULES}"


def __getattr__(name: str) -> str:
    # Made when asked for: to look up a version takes longer than to load all of this package.
    if name == "SEGMENTER":
        return segmenter()
    raise AttributeError(name)


def split_sentences(canonical: CanonicalText, language: str = "en") -> list[Sentence]:
    """Return the sentences of a text in order, numbered from 0.

    Each code point that is not white space lies in exactly one of them, none crosses the beginning
    of a block, and a heading is one sentence: whoever has read it has read all that the label of
    its chapter says.
    """
    segment = _segment_in(language)
    found: list[Sentence] = []
    for start, end, heading in _paragraphs(canonical):
        pieces = (
            [canonical.text[start:end]] if heading else _pieces(canonical.text, start, end, segment)
        )
        for piece in pieces:
            if body := piece.strip():
                first = start + piece.index(body[0])
                found.append(Sentence(len(found), first, first + len(body)))
            start += len(piece)
    return found


def _segment_in(language: str) -> _Segment:
    """Return the segmenter for a language; one that it does not know is cut as a related one."""
    import sentencex

    # It is compiled and comes without types.
    split: Callable[[str, str], list[str]] = sentencex.segment  # pyright: ignore[reportAttributeAccessIssue]
    code = re.split("[-_]", language.lower(), maxsplit=1)[0] or "en"

    def segment(text: str) -> list[str]:
        if _count(text, _QUOTES) > _MAX_QUOTES or _count(text, _BRACKETS) > _MAX_BRACKETS:
            text = text.translate(_WITHOUT_MARKS)
        try:
            pieces = split(code, text)
        except UnicodeEncodeError:
            # It takes no surrogates. Clean text has none, and to cope is better than to fail.
            pieces = split(code, _SURROGATE.sub("\ufffd", text))
        return pieces if sum(map(len, pieces)) == len(text) else [text]

    return segment


def _count(text: str, marks: str) -> int:
    return sum(map(text.count, marks))


def _paragraphs(canonical: CanonicalText) -> Iterator[tuple[int, int, bool]]:
    """Give the bounds of each paragraph, and whether it is a heading, which is not taken apart."""
    text, headings = canonical.text, _heading_starts(canonical)
    for start, end in pairwise([*_edges(canonical), len(text)]):
        if start in headings:
            yield start, end, True
            continue
        for gap in _GAP.finditer(text, start, end):
            yield start, gap.start(), False
            start = gap.end()
        if start < end:
            yield start, end, False


def _edges(canonical: CanonicalText) -> list[int]:
    return sorted({0, *canonical.block_starts})


def _heading_starts(canonical: CanonicalText) -> set[int]:
    """Return where blocks begin whose text is the label of the place that begins there."""
    edges = [*_edges(canonical), len(canonical.text)]
    ends = dict(pairwise(edges))
    return {
        start
        for start, place in zip(canonical.starts, canonical.places, strict=True)
        if start in ends and _names(canonical.text[start : ends[start]], place)
    }


def _names(block: str, labels: tuple[str | None, ...]) -> bool:
    heading = " ".join(block.split())
    return any(label and f", {label}".endswith(f", {heading}") for label in labels)


def _pieces(text: str, start: int, end: int, segment: _Segment) -> Iterator[str]:
    """Give the sentences of a paragraph with the white space after them; they join back to it."""
    first, width, given = start, _STRETCH, 0
    while end - start > width:
        pieces = segment(text[start : start + width])
        given += width
        settled = pieces[:-_UNSURE]
        if given > _EFFORT * (start - first + _LONGEST) or (not settled and width >= _LONGEST):
            settled = pieces
        yield from settled
        start += sum(map(len, settled))
        # A sentence longer than the stretch needs a longer one.
        width = _STRETCH if settled else min(width * 2, _LONGEST)
    yield from segment(text[start:end])


_WHOLE = ChunkingProfile("parts", Strategy.SENTENCES, size=1_000_000, overlap=0)


def parts(text: str, counter: TokenCounter, limit: int) -> list[str]:
    """Return a text in parts of whole sentences, each of at most `limit` tokens."""
    stripped = text.strip()
    if counter.count(stripped) <= limit:
        return [stripped]
    canonical = CanonicalText(stripped)
    spans = cut(canonical, split_sentences(canonical), counter.measure(stripped), _WHOLE, limit)
    return [stripped[span.start : span.end] for span in spans]
