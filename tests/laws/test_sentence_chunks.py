"""The `sentences` strategy: whole sentences, separate chapters, and parts of long sentences."""

from hypothesis import given

from tests.laws.texts import (
    LIMITS,
    Document,
    count_words,
    document,
    documents,
    often,
    sentence_profiles,
)
from tests.promises import proves
from truespan.ingest.canonical import assemble
from truespan.text.sentences import split_sentences
from truespan.types.profile import SENTENCES, ChunkingProfile, OverlapMode, Strategy
from truespan.types.text import Block, BlockKind, Span


@proves("chunking.whole-sentences", "chunking.default-overlap")
@often
@given(documents(), sentence_profiles(), LIMITS)
def test_sentence_that_fits_a_chunk_is_not_divided(
    doc: Document, profile: ChunkingProfile, limit: int
):
    spans = doc.chunk_spans(profile, limit)

    for _, start, end in doc.sentences:
        fits = count_words(doc.text[start:end]) <= limit
        if fits and (profile.pack is None or end - start <= profile.pack):
            assert any(span.start <= start and end <= span.end for span in spans)


@often
@given(documents(), sentence_profiles(), LIMITS)
def test_sentence_chunks_begin_and_end_at_sentences(
    doc: Document, profile: ChunkingProfile, limit: int
):
    starts = {sentence.start for sentence in doc.sentences}
    ends = {sentence.end for sentence in doc.sentences}

    for span in doc.chunk_spans(profile, limit):
        whole = span.start in starts and span.end in ends
        within = [one for one in doc.sentences if one.start <= span.start and span.end <= one.end]
        assert whole or within
        if profile.pack is not None:
            assert span.end - span.start <= profile.pack


@often
@given(documents(), sentence_profiles(), LIMITS)
def test_sentence_chunk_stays_within_its_chapter(
    doc: Document, profile: ChunkingProfile, limit: int
):
    for span in doc.chunk_spans(profile, limit):
        inside = [one for one in doc.sentences if span.context_start <= one.start < span.end]
        assert len({doc.canonical.place_at(one.start).chapter for one in inside}) <= 1


def test_sentence_chunks_have_eight_sentences_and_share_two():
    doc = document(" ".join(f"Sentence number {number} ends." for number in range(20)))

    sids = [_sids(doc, span) for span in doc.chunk_spans(SENTENCES)]

    assert sids == [range(8), range(6, 14), range(12, 20)]


def test_packed_sentences_fill_the_size():
    profile = ChunkingProfile("packed", Strategy.SENTENCES, size=8, overlap=1, pack=100)
    doc = document(" ".join(f"Sentence number {number} ends." for number in range(10, 20)))

    spans = doc.chunk_spans(profile)

    assert [_sids(doc, span) for span in spans] == [range(4), range(3, 7), range(6, 10)]
    assert all(span.end - span.start <= 100 for span in spans)


def test_overlap_is_dropped_for_a_sentence_that_needs_the_space():
    long = "word " * 18 + "end."
    doc = document(f"One two three. Four five six. {long} Seven.")
    profile = ChunkingProfile("packed", Strategy.SENTENCES, size=8, overlap=2, pack=100)

    assert [_sids(doc, span) for span in doc.chunk_spans(profile)] == [
        range(2),
        range(2, 3),
        range(3, 4),
    ]


def test_long_sentence_is_split_into_parts_that_join_back():
    doc = document(f"Before it. {'many words, ' * 300}and an end. After it.")

    spans = doc.chunk_spans(SENTENCES, limit=100)
    parts = [span for span in spans if _sids(doc, span) == range(1, 2)]

    start, end = doc.sentences[1].start, doc.sentences[1].end
    assert len(parts) > 3
    assert "".join(doc.text[part.start : part.end] for part in parts) == doc.text[start:end]
    assert {part.reach for part in parts} == {1}


def test_separate_mode_keeps_previous_sentences_beside_a_chunk():
    profile = ChunkingProfile("apart", Strategy.SENTENCES, 3, 2, OverlapMode.SEPARATE)
    blocks = [
        Block(BlockKind.PARAGRAPH, " ".join(f"Sentence {sid} ends." for sid in range(5)), name)
        for name in ("One", "Two")
    ]
    canonical = assemble(blocks)
    doc = Document(canonical, tuple(split_sentences(canonical)))

    spans = doc.chunk_spans(profile)

    beside = [doc.text[span.context_start : span.start].strip() for span in spans]
    assert [_sids(doc, span) for span in spans] == [
        range(3),
        range(3, 5),
        range(5, 8),
        range(8, 10),
    ]
    assert beside == [
        "", "Sentence 1 ends. Sentence 2 ends.", "", "Sentence 1 ends. Sentence 2 ends.",
    ]  # fmt: skip


def _sids(doc: Document, span: Span) -> range:
    sids = [one.sid for one in doc.sentences if one.start < span.end and one.end > span.start]
    return range(sids[0], sids[-1] + 1)
