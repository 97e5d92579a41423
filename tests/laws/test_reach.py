"""A span depends on nothing beyond its reach: a reader who is there would get the same one.

The documents here have sentences that begin and end anywhere, words that count more or less when
they are cut, and chapters of any length: what the cutters may rely on, and no more.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.texts import (
    LIMITS,
    PLENTY,
    PROFILES,
    Document,
    divided,
    document,
    documents,
    often,
    sentence_profiles,
    sometimes,
    token_profiles,
    window_profiles,
)
from truespan.types.profile import SENTENCES, WINDOW, ChunkingProfile, OverlapMode, Strategy
from truespan.types.text import CanonicalText, Place, Sentence

_CUT_WITHIN_WORDS = Document(CanonicalText("000¡\n¡0"), divided("000¡\n¡0", [6]))
# The beginning of this word counts more than the whole, and it is made of several sentences.
_WITHIN_A_WORD = Document(
    CanonicalText("abcdefing zzzzzzzzz"), divided("abcdefing zzzzzzzzz", [2, 6, 9])
)


def assert_reach_is_enough(doc: Document, profile: ChunkingProfile, limit: int) -> None:
    """Cut the document short after each sentence and compare what should not have changed."""
    spans = doc.chunk_spans(profile, limit)
    for position in range(len(doc.sentences)):
        settled = [span for span in spans if span.reach <= position]
        assert spans[: len(settled)] == settled
        assert doc.until(position).chunk_spans(profile, limit)[: len(settled)] == settled


@often
@given(documents(), window_profiles(), LIMITS)
def test_windows_depend_on_nothing_beyond_their_reach(
    doc: Document, profile: ChunkingProfile, limit: int
):
    assert_reach_is_enough(doc, profile, limit)


@often
@given(documents(), sentence_profiles(), LIMITS)
@example(_WITHIN_A_WORD, ChunkingProfile("four", Strategy.SENTENCES, 4, 0), 2)
def test_chunks_of_sentences_depend_on_nothing_beyond_their_reach(
    doc: Document, profile: ChunkingProfile, limit: int
):
    assert_reach_is_enough(doc, profile, limit)


@often
@given(documents(), token_profiles(), LIMITS)
@example(_CUT_WITHIN_WORDS, ChunkingProfile("single", Strategy.TOKENS, 1, 0), PLENTY)
def test_chunks_of_tokens_depend_on_nothing_beyond_their_reach(
    doc: Document, profile: ChunkingProfile, limit: int
):
    assert_reach_is_enough(doc, profile, limit)


@often
@given(documents(), documents(), PROFILES, LIMITS, st.data())
def test_another_end_of_the_book_changes_no_span_within_reach(
    doc: Document, other: Document, profile: ChunkingProfile, limit: int, data: st.DataObject
):
    # An end of nothing but white space is none: canonical text does not end in any.
    if not doc.sentences or not other.sentences:
        return
    position = data.draw(st.integers(0, len(doc.sentences) - 1))
    changed = _with_other_end(doc.until(position), other)

    settled = [span for span in doc.chunk_spans(profile, limit) if span.reach <= position]

    assert [
        span for span in changed.chunk_spans(profile, limit) if span.reach <= position
    ] == settled


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
@given(documents(), PROFILES, LIMITS)
def test_the_reach_of_a_span_never_falls_and_covers_its_sentences(
    doc: Document, profile: ChunkingProfile, limit: int
):
    spans = doc.chunk_spans(profile, limit)

    assert [span.reach for span in spans] == sorted(span.reach for span in spans)
    for span in spans:
        last = max(one.sid for one in doc.sentences if one.start < span.end)
        assert last <= span.reach <= len(doc.sentences)


def test_a_full_chunk_of_sentences_reaches_no_further_than_itself():
    doc = document(" ".join(f"Sentence number {number} ends." for number in range(40)))

    assert [span.reach for span in doc.chunk_spans(SENTENCES)] == [7, 13, 19, 25, 31, 37, 40]


def test_a_chunk_that_the_end_of_a_chapter_closed_reaches_the_next_chapter():
    doc = document(" ".join(f"Sentence number {number} ends." for number in range(12)))
    start = doc.sentences[5].start
    chapters = CanonicalText(doc.text, (0, start), (Place("One", None), Place("Two", None)))

    spans = Document(chapters, doc.sentences).chunk_spans(SENTENCES)

    assert [span.reach for span in spans] == [5, 12]


def test_a_chunk_that_a_large_sentence_closed_reaches_that_sentence():
    doc = document("One is short. Two is short. Three has " + "many words " * 20 + "in it. Four.")
    packed = ChunkingProfile("packed", Strategy.SENTENCES, size=8, overlap=0, pack=250)

    assert [span.reach for span in doc.chunk_spans(packed)] == [2, 4]


def test_a_window_reaches_the_sentence_that_goes_on_behind_it():
    doc = document(" ".join(f"Sentence number {number:>4} ends here." for number in range(100)))

    for span in doc.chunk_spans(WINDOW)[:-1]:
        behind = next(one.sid for one in doc.sentences if one.end > span.start + 1000)
        assert span.reach == behind


def test_what_the_end_of_the_document_closed_reaches_beyond_it():
    doc = document("A single sentence.")

    for strategy in Strategy:
        for mode in OverlapMode:
            profile = ChunkingProfile("any", strategy, 100, 20, mode)
            assert [span.reach for span in doc.chunk_spans(profile)] == [1]
