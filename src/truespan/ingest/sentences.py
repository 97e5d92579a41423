"""Sentences: numbered spans of canonical text, found by one segmenter; and the language of a text.

The segmenter receives one paragraph at a time. In longer texts it loses line ends between its own
pieces, and its time grows with the square of the number of sentences. With many quotation marks or
brackets its time grows with their number times the length of the text; text with more of them than
prose is segmented as if they were not there. All limits depend on the text only, never on time.

To detect the language only the first characters are read. Later text cannot change the result, and
a long document costs no more than a short one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

from truespan.ingest.chunking import chunk_spans
from truespan.protocols import TokenCounter
from truespan.types.profile import ChunkingProfile, Strategy
from truespan.types.text import CanonicalText, Sentence

_SENTENCE_RULES = 1
"""Increase it if this module splits prose differently with the same segmenter.

Another number makes a new revision of every document. The limits below do not need one: prose does
not reach them.
"""

_GAP = re.compile(r"\n(?:[^\S\n]*\n)+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRETCH = 4000
"""Characters passed to the segmenter at once."""
_UNSURE = 2
"""Sentences at the end of a stretch that more text could still change."""
_LONGEST = 2**20
"""The longest stretch; a longer sentence is cut there."""
_EFFORT = 32
"""How many times the length of a text may be passed to the segmenter in all."""
_QUOTES = "'`“”‘’«»‹›「」《》„‚‛‟"
_MAX_QUOTES = 1000
_BRACKETS = '"()[]{}<>（）@'
_MAX_BRACKETS = 10_000
"""With more marks than this in a stretch, all of them are hidden from the segmenter."""
_WITHOUT_MARKS = str.maketrans(dict.fromkeys(_QUOTES + _BRACKETS, "\ufffd"))

_Segment = Callable[[str], list[str]]


@cache
def segmenter_name() -> str:
    """Return the name of the segmenter and its rules; another name makes a new revision."""
    from importlib.metadata import version

    return f"sentencex-{version('sentencex')}/{_SENTENCE_RULES}"


def split_sentences(canonical: CanonicalText, language: str = "en") -> list[Sentence]:
    """Return the sentences of a text in order, numbered from 0.

    Each code point that is not white space lies in exactly one of them. None crosses the beginning
    of a block. A heading is one sentence: a reader at that sentence has read the whole label of its
    chapter.
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
    """Return the segmenter for a language; an unknown language is segmented as a related one."""
    import sentencex

    # A compiled module without types.
    split: Callable[[str, str], list[str]] = sentencex.segment  # pyright: ignore[reportAttributeAccessIssue]
    code = re.split("[-_]", language.lower(), maxsplit=1)[0] or "en"

    def segment(text: str) -> list[str]:
        quotes, brackets = (sum(map(text.count, marks)) for marks in (_QUOTES, _BRACKETS))
        if quotes > _MAX_QUOTES or brackets > _MAX_BRACKETS:
            text = text.translate(_WITHOUT_MARKS)
        try:
            pieces = split(code, text)
        except UnicodeEncodeError:
            # It refuses surrogates. Clean text has none, but failing here would help no one.
            pieces = split(code, _SURROGATE.sub("\ufffd", text))
        return pieces if sum(map(len, pieces)) == len(text) else [text]

    return segment


def _paragraphs(canonical: CanonicalText) -> Iterator[tuple[int, int, bool]]:
    """Yield the bounds of each paragraph, and whether it is a heading, which is one sentence."""
    text = canonical.text
    blocks = list(pairwise([*sorted({0, *canonical.block_starts}), len(text)]))
    places = dict(zip(canonical.starts, canonical.places, strict=True))
    for start, end in blocks:
        if start in places:
            # A block is a heading if its text is the label of the place that begins there.
            heading = " ".join(text[start:end].split())
            if any(label and f", {label}".endswith(f", {heading}") for label in places[start]):
                yield start, end, True
                continue
        for gap in _GAP.finditer(text, start, end):
            yield start, gap.start(), False
            start = gap.end()
        if start < end:
            yield start, end, False


def _pieces(text: str, start: int, end: int, segment: _Segment) -> Iterator[str]:
    """Yield the sentences of a paragraph with the white space after them; joined, they are it."""
    first, width, passed = start, _STRETCH, 0
    while end - start > width:
        pieces = segment(text[start : start + width])
        passed += width
        complete = pieces[:-_UNSURE]
        if passed > _EFFORT * (start - first + _LONGEST) or (not complete and width >= _LONGEST):
            complete = pieces
        yield from complete
        start += sum(map(len, complete))
        # A sentence longer than the stretch needs a longer stretch.
        width = _STRETCH if complete else min(width * 2, _LONGEST)
    yield from segment(text[start:end])


_WHOLE = ChunkingProfile("parts", Strategy.SENTENCES, size=1_000_000, overlap=0)


def split_text(text: str, counter: TokenCounter, limit: int) -> list[str]:
    """Split a text into parts of whole sentences, each of at most `limit` tokens."""
    stripped = text.strip()
    if counter.count(stripped) <= limit:
        return [stripped]
    canonical = CanonicalText(stripped)
    sentences, tokens = split_sentences(canonical), counter.measure(stripped)
    spans = chunk_spans(canonical, sentences, tokens, _WHOLE, limit)
    return [stripped[span.start : span.end] for span in spans]


SAMPLE = 2000
"""Characters that are read."""

_LANGUAGE_RULES = 1
"""Increase it if this module gives other results with the same detector."""
_FEWEST_LETTERS = 20
_LEAST_SHARE = 0.3
"""The least probability that the most likely language must have."""
_DENSE = "\u2e80"
"""The first code point of East Asian scripts, whose letters count as three."""

_CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id "
    "is it ja ka kk km kn ko ky la lo lt lv mk ml mn mr ms mt my ne nl nn no or pa pl ps pt ro ru "
    "si sk sl so sq sr sv sw ta te tg th tl tr uk ur uz vi xh yo zh zu zxx"
)
_LANGUAGES = frozenset(_CODES.split())
"""The languages that can be detected. The detector knows more, but short texts are often mistaken
for those rare ones."""
_NO_LANGUAGE = "zxx"


@cache
def detector_name() -> str:
    """Return the name of the detector and its rules; another name makes a new revision."""
    from importlib.metadata import version

    return f"py3langid-{version('py3langid')}/{_LANGUAGE_RULES}"


def detect_language(text: str) -> str | None:
    """Return the code of the language that a text begins in; None if it is unclear."""
    # It is unclear with fewer than 20 letters (7 of Chinese, Japanese or Korean), or if no language
    # is clearly the most likely, as in tables and programs.
    sample = text[:SAMPLE]
    letters = sum(3 if char >= _DENSE else 1 for char in sample if char.isalpha())
    if letters < _FEWEST_LETTERS:
        return None
    language, share = _classifier()(sample)
    # Rounded, because the last digits of a sum of floats depend on the machine.
    known = language != _NO_LANGUAGE and round(share, 3) >= _LEAST_SHARE
    return language if known else None


def normal_language(code: str) -> str:
    """Return the language of a code in lower case: "en" for "en-GB", "EN" and "en_US"."""
    return code.strip().replace("_", "-").split("-")[0].lower()


@cache
def _classifier() -> Callable[[str], tuple[str, float]]:
    """Return the detector, created when first needed: that takes half a second and 70 MB."""
    # It is rebuilt with the wanted languages only; filtering them would keep all in memory.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    whole = LanguageIdentifier.from_model_file(MODEL_FILE)
    wanted = [place for place, code in enumerate(whole.nb_classes) if code in _LANGUAGES]
    return LanguageIdentifier(
        whole.nb_ptc[:, wanted],
        whole.nb_pc[wanted],
        [whole.nb_classes[place] for place in wanted],
        whole.tk_nextmove,
        whole.tk_output,
        norm_probs=True,
        tk_row=whole.tk_row,
    ).classify
