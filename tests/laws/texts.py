"""Documents for the laws: texts of every kind, arbitrary sentences, and a counter of words."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.examples import examples
from truespan.ingest.canonical import assemble
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.text.clean import clean
from truespan.text.sentences import split_sentences
from truespan.types.profile import ChunkingProfile, OverlapMode, Strategy
from truespan.types.text import (
    Block,
    BlockKind,
    CanonicalText,
    PageStart,
    Place,
    Sentence,
    Span,
    TokenMap,
)

PLENTY = 10_000
"""An input limit that no chunk of these tests comes near."""


def weigh(word: str) -> int:
    """Count a word as tokenizers do: a cut one may count more or less than the whole.

    Long words and strange ones count their bytes, and some endings are known by heart.
    """
    if len(word) > 12 or not word.isascii():
        return len(word.encode())
    return 1 if word.endswith(("ing", "ed")) else 1 + len(word) // 3


def count_words(text: str) -> int:
    return sum(map(weigh, text.split()))


def measure(text: str, count: Callable[[str], int] = count_words) -> TokenMap:
    """Make the token map of a text with one unit a word."""
    words = list(re.finditer(r"\S+", text))
    totals = list(accumulate((count(word[0]) for word in words), initial=0))
    return TokenMap(text, [word.start() for word in words], totals, count)


@dataclass(frozen=True)
class Document:
    """A text with its sentences, as the cutters get it."""

    canonical: CanonicalText
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        return self.canonical.text

    def chunk_spans(self, profile: ChunkingProfile, limit: int = PLENTY) -> list[Span]:
        """Split the text, counting its tokens again."""
        return chunk_spans(self.measured, profile, limit)

    @property
    def measured(self) -> MeasuredText:
        return MeasuredText(self.canonical, self.sentences, measure(self.text))

    def until(self, position: int) -> "Document":
        whole, end = self.canonical, self.sentences[position].end
        places = [pair for pair in zip(whole.starts, whole.places, strict=True) if pair[0] < end]
        canonical = CanonicalText(
            whole.text[:end],
            tuple(start for start, _ in places),
            tuple(place for _, place in places),
            tuple(start for start in whole.block_starts if start < end),
            pages=tuple(page for page in whole.pages if page.offset < end),
        )
        return Document(canonical, self.sentences[: position + 1])


def divided(text: str, edges: Iterable[int]) -> tuple[Sentence, ...]:
    """Number the pieces of a text between edges, without the white space around them."""
    bounds = sorted({0, len(text), *(edge for edge in edges if 0 < edge < len(text))})
    found: list[Sentence] = []
    for start, end in pairwise(bounds):
        piece = text[start:end]
        if body := piece.strip():
            first = start + piece.index(body[0])
            found.append(Sentence(len(found), first, first + len(body)))
    return tuple(found)


def with_chapters(text: str, sentences: Sequence[Sentence], first: Iterable[int]) -> CanonicalText:
    """Begin a chapter at each of the sentences `first`."""
    sids = sorted({sid for sid in first if sid < len(sentences)})
    starts = tuple(sentences[sid].start for sid in sids)
    return CanonicalText(text, starts, tuple(Place(f"Chapter {sid}", None) for sid in sids))


def document(text: str) -> Document:
    """Make a document of one paragraph block after another, with the sentences that are found."""
    blocks = [Block(BlockKind.PARAGRAPH, part) for part in text.split("\n\n")]
    canonical = assemble(blocks)
    return Document(canonical, tuple(split_sentences(canonical)))


def raw(text: str) -> Document:
    """Make a document of exactly this text, as one sentence."""
    return Document(CanonicalText(text), divided(text, ()))


_PLAIN_WORDS = ["a", "of", "I", "walking", "turned", "seven", "Mr.", "said:", '"No!"', "yes?"]
_STRANGE_WORDS = ["incomprehensibilities", "x" * 30, "漢字です。これは文です。", "😀😀", "नमस्ते।"]
WORDS = st.sampled_from(_PLAIN_WORDS + _STRANGE_WORDS)
SPACES = st.sampled_from(
    [" "] * 8 + ["\n", "\n\n", ". ", "! ", "? ", ".\n", "", "  ", "\u00a0", " " * 9]
)
CELLS = st.sampled_from([" | "] * 4 + [" ", " |\n", ". | ", "\n", "\n", "\n| ", "\n\n", "|", ". "])
PROSE = st.lists(st.tuples(WORDS, SPACES), max_size=60).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
ROWS = st.lists(st.tuples(WORDS, CELLS | SPACES), max_size=60).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
ANYTHING = st.text(st.characters(codec="utf-8"), max_size=120)
BOTH = st.booleans()
TEXTS = st.one_of(PROSE, PROSE, ROWS, st.text("ab. |\n", max_size=150), ANYTHING)


_PAGES = st.tuples(st.integers(1, 9), st.sampled_from(["page", "page", "slide"]))


@st.composite
def documents(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS) -> Document:
    """Make documents whose sentences, chapters and pages begin anywhere, even within words."""
    text = clean(draw(texts))
    edges = draw(st.lists(st.integers(1, max(1, len(text))), max_size=20))
    sentences = divided(text, edges)
    chapters = draw(st.lists(st.integers(0, 12), max_size=3))
    numbers = draw(st.dictionaries(st.integers(0, max(0, len(text) - 1)), _PAGES, max_size=4))
    if draw(BOTH):
        # So do the numbered lines of a program, which has no other pages.
        numbers = {offset: (number, "line") for offset, (number, _) in numbers.items()}
        numbers[0] = (1, "line")
        # Its chapter is its name and begins with it; other texts with numbered lines have none.
        chapters = [0, *chapters] if chapters else []
    pages = tuple(PageStart(offset, *page) for offset, page in sorted(numbers.items()))
    return Document(replace(with_chapters(text, sentences, chapters), pages=pages), sentences)


_SHORT = [
    "Lamp.", "Oil burns.", "He went on!", "Why?", "a | b.", "x |", "| y", "Wick", "漢字。文です。",
]  # fmt: skip
_SENTENCES = st.sampled_from([*_SHORT, "It is, of course, a longer sentence of words."])
_CELLS = st.sampled_from(["oil", "3 EUR", "None. At all.", "", "a b c", "x" * 30])
_CODE = st.sampled_from(["ls | wc", "x = y | z", "", "    return", "if a:"])
_BLOCKS = st.one_of(
    *[st.tuples(st.just(BlockKind.PARAGRAPH), st.lists(_SENTENCES, max_size=8).map(" ".join))] * 2,
    st.tuples(
        st.just(BlockKind.TABLE),
        st.lists(st.lists(_CELLS, max_size=3).map(" | ".join), max_size=8).map("\n".join),
    ),
    st.tuples(
        st.just(BlockKind.LIST), st.lists(_SENTENCES.map("- {}".format), max_size=5).map("\n".join)
    ),
    st.tuples(st.just(BlockKind.CODE), st.lists(_CODE, max_size=5).map("\n".join)),
    st.tuples(st.just(BlockKind.HEADING), st.sampled_from(["One", "Two", "Three | Four"])),
)


@st.composite
def structured_documents(draw: st.DrawFn) -> Document:
    """Make documents of headings, paragraphs, tables, lists and code, with their sentences."""
    blocks: list[Block] = []
    chapter = None
    for kind, text in draw(st.lists(_BLOCKS, min_size=1, max_size=9)):
        chapter = text if kind is BlockKind.HEADING else chapter
        blocks.append(Block(kind, text, chapter, header_rows=int(kind is BlockKind.TABLE)))
    canonical = assemble(blocks, divide_tables=draw(BOTH))
    return Document(canonical, tuple(split_sentences(canonical)))


DOCUMENTS = documents() | structured_documents()


@st.composite
def workbooks(draw: st.DrawFn) -> Document:
    """Make documents whose chapters are sheets: each begins after text and white space.

    All pages are rows, and the first is at 0.
    """
    doc = draw(documents())
    whole, text = doc.canonical, doc.text
    rows = {start.offset: start.page - 1 for start in whole.pages} | {0: 0}
    pages = tuple(PageStart(offset, row, "row A:C") for offset, row in sorted(rows.items()))
    sheets = [
        (start, place)
        for start, place in zip(whole.starts, whole.places, strict=True)
        if not start or (text[start - 1] in " \n" and text[:start].strip())
    ]
    starts, places = zip(*sheets, strict=True) if sheets else ((), ())
    return Document(replace(whole, starts=starts, places=places, pages=pages), doc.sentences)


MODES = st.sampled_from(OverlapMode)


@st.composite
def window_profiles(
    draw: st.DrawFn,
    whole_rows: st.SearchStrategy[bool] = BOTH,
    whole_words: st.SearchStrategy[bool] = BOTH,
) -> ChunkingProfile:
    size = draw(st.integers(1, 70))
    overlap = draw(st.integers(0, max(0, (3 * size - 1) // 10)))
    return ChunkingProfile(
        "drawn",
        Strategy.WINDOW,
        size,
        overlap,
        draw(MODES),
        whole_rows=draw(whole_rows),
        whole_words=draw(whole_words),
    )


@st.composite
def sentence_profiles(draw: st.DrawFn) -> ChunkingProfile:
    size = draw(st.integers(1, 5))
    pack = draw(st.none() | st.integers(1, 80))
    overlap = draw(st.integers(0, size - 1))
    return ChunkingProfile(
        "drawn", Strategy.SENTENCES, size, overlap, draw(MODES), pack, whole_rows=draw(BOTH)
    )


@st.composite
def token_profiles(draw: st.DrawFn) -> ChunkingProfile:
    size = draw(st.integers(1, 25))
    overlap, rows = draw(st.integers(0, size - 1)), draw(BOTH)
    return ChunkingProfile("drawn", Strategy.TOKENS, size, overlap, draw(MODES), whole_rows=rows)


PROFILES = st.one_of(window_profiles(), sentence_profiles(), token_profiles())
LIMITS = st.one_of(st.just(PLENTY), st.integers(4, 40))
"""A limit of 4 holds the widest code point; a smaller one could hold nothing."""

often = examples(100)
sometimes = examples(40)
