"""A span depends on nothing after its reach.

The documents here have sentences that begin and end anywhere, words that count more or less when
they are cut, and chapters of any length: the only assumptions of the chunkers. Others have
headings, tables, lists and code.
"""

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.texts import (
    DOCUMENTS,
    LIMITS,
    PLENTY,
    PROFILES,
    Document,
    divided,
    document,
    often,
    sentence_profiles,
    sometimes,
    token_profiles,
    window_profiles,
    workbooks,
)
from truespan.ingest.canonical import assemble
from truespan.text.sentences import split_sentences
from truespan.types.profile import SENTENCES, WINDOW, ChunkingProfile, OverlapMode, Strategy
from truespan.types.text import Block, BlockKind, CanonicalText, Place, Sentence, Span

_CUT_WITHIN_WORDS = Document(CanonicalText("000¡\n¡0"), divided("000¡\n¡0", [6]))
# The beginning of this word counts more than the whole, and it is made of several sentences.
_WITHIN_A_WORD = Document(
    CanonicalText("abcdefing zzzzzzzzz"), divided("abcdefing zzzzzzzzz", [2, 6, 9])
)
_LAMPS = " ".join(f"Lamp {number} is lit." for number in range(7))
_FULL_AFTER_A_TABLE = document(f"lamp | oil\n\n{_LAMPS} Then the butler did it.")
_ROWS = assemble([Block(BlockKind.TABLE, "a | b\nc d\nNone. At all. | e\nf | g")])
_TABLE = Document(_ROWS, tuple(split_sentences(_ROWS)))
_NARROW = Document(CanonicalText("a a a a a a "), (Sentence(0, 0, 9), Sentence(1, 10, 11)))
_BAR_AHEAD = document("Lamps.\n\nThen | the butler.")


def readable_spans(
    doc: Document, position: int, profile: ChunkingProfile, limit: int
) -> list[Span]:
    """Return the stored spans that nothing past a position decided, and those of the tail."""
    stored = [span for span in doc.chunk_spans(profile, limit) if span.reach <= position]
    short = doc.until(position).chunk_spans(profile, limit)
    return [*stored, *(span for span in short if span.reach > position)]


def assert_reach_is_exact(doc: Document, profile: ChunkingProfile, limit: int) -> None:
    """Cut the document after each sentence and compare what should not have changed."""
    for position in range(len(doc.sentences)):
        short = doc.until(position)
        assert readable_spans(doc, position, profile, limit) == short.chunk_spans(profile, limit)


@often
@given(DOCUMENTS, window_profiles(), LIMITS)
@example(_NARROW, ChunkingProfile("narrow", Strategy.WINDOW, 4, 1, whole_words=True), PLENTY)
def test_windows_depend_only_on_their_reach(doc: Document, profile: ChunkingProfile, limit: int):
    assert_reach_is_exact(doc, profile, limit)


@often
@given(DOCUMENTS, sentence_profiles(), LIMITS)
@example(_WITHIN_A_WORD, ChunkingProfile("four", Strategy.SENTENCES, 4, 0), 2)
@example(_FULL_AFTER_A_TABLE, replace(SENTENCES, whole_rows=True), PLENTY)
@example(_TABLE, replace(SENTENCES, size=2, overlap=0, whole_rows=True), 10)
def test_sentence_chunks_depend_only_on_their_reach(
    doc: Document, profile: ChunkingProfile, limit: int
):
    assert_reach_is_exact(doc, profile, limit)


@often
@given(DOCUMENTS, token_profiles(), LIMITS)
@example(_CUT_WITHIN_WORDS, ChunkingProfile("single", Strategy.TOKENS, 1, 0), PLENTY)
@example(_BAR_AHEAD, ChunkingProfile("two", Strategy.TOKENS, 2, 0, whole_rows=True), PLENTY)
def test_token_chunks_depend_only_on_their_reach(
    doc: Document, profile: ChunkingProfile, limit: int
):
    assert_reach_is_exact(doc, profile, limit)


@often
@given(workbooks(), st.one_of(window_profiles(), token_profiles()), LIMITS)
def test_workbook_chunks_depend_only_on_their_reach(
    doc: Document, profile: ChunkingProfile, limit: int
):
    assert_reach_is_exact(doc, profile, limit)
    for span in doc.chunk_spans(profile, limit):
        assert len({place.chapter for place in doc.canonical.places_between(*span[:2])}) == 1


@often
@given(DOCUMENTS, DOCUMENTS, PROFILES, LIMITS, st.data())
def test_other_ending_changes_no_span_within_reach(
    doc: Document, other: Document, profile: ChunkingProfile, limit: int, data: st.DataObject
):
    # An end of nothing but white space is none: canonical text does not end in any.
    if not doc.sentences or not other.sentences:
        return
    position = data.draw(st.integers(0, len(doc.sentences) - 1))
    changed = _with_other_end(doc.until(position), other)

    assert readable_spans(changed, position, profile, limit) == readable_spans(
        doc, position, profile, limit
    )


def _with_other_end(begun: Document, other: Document) -> Document:
    first, offset = len(begun.sentences), len(begun.text) + 1
    sentences = [
        Sentence(first + sid, start + offset, end + offset) for sid, start, end in other.sentences
    ]
    places = [Place(f"Other {place.chapter}", None) for place in other.canonical.places]
    canonical = CanonicalText(
        f"{begun.text}\n{other.text}",
        (*begun.canonical.starts, *(start + offset for start in other.canonical.starts)),
        (*begun.canonical.places, *places),
        begun.canonical.block_starts,
        pages=begun.canonical.pages,
    )
    return Document(canonical, (*begun.sentences, *sentences))


@sometimes
@given(DOCUMENTS, PROFILES, LIMITS)
def test_reach_ascends_and_covers_the_sentences(
    doc: Document, profile: ChunkingProfile, limit: int
):
    spans = doc.chunk_spans(profile, limit)

    assert [span.reach for span in spans] == sorted(span.reach for span in spans)
    for span in spans:
        last = max(one.sid for one in doc.sentences if one.start < span.end)
        assert last <= span.reach <= len(doc.sentences)


def test_full_sentence_chunk_reaches_only_itself():
    doc = document(" ".join(f"Sentence number {number} ends." for number in range(40)))

    assert [span.reach for span in doc.chunk_spans(SENTENCES)] == [7, 13, 19, 25, 31, 37, 40]


def test_chunk_before_a_chapter_reaches_the_chapter():
    doc = document(" ".join(f"Sentence number {number} ends." for number in range(12)))
    start = doc.sentences[5].start
    chapters = CanonicalText(doc.text, (0, start), (Place("One", None), Place("Two", None)))

    spans = Document(chapters, doc.sentences).chunk_spans(SENTENCES)

    assert [span.reach for span in spans] == [5, 12]


def test_chunk_before_a_long_sentence_reaches_it():
    doc = document("One is short. Two is short. Three has " + "many words " * 20 + "in it. Four.")
    packed = ChunkingProfile("packed", Strategy.SENTENCES, size=8, overlap=0, pack=250)

    assert [span.reach for span in doc.chunk_spans(packed)] == [2, 4]


def test_window_reaches_the_sentence_that_it_ends_in():
    doc = document(" ".join(f"Sentence number {number:>4} ends here." for number in range(100)))

    for span in doc.chunk_spans(WINDOW)[:-1]:
        behind = next(one.sid for one in doc.sentences if one.end > span.start + 1000)
        assert span.reach == behind


def test_chunk_closed_by_the_document_end_reaches_beyond_it():
    doc = document("A single sentence.")

    for strategy in Strategy:
        for mode in OverlapMode:
            profile = ChunkingProfile("any", strategy, 100, 20, mode)
            assert [span.reach for span in doc.chunk_spans(profile)] == [1]
