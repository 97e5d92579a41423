"""The `tokens` strategy: sizes and overlaps in tokens, and whole words."""

import re
from itertools import pairwise

from hypothesis import given

from tests.laws.texts import LIMITS, Document, count_words, documents, often, raw, token_profiles
from tests.promises import proves
from truespan.types.profile import ChunkingProfile, OverlapMode, Strategy


@proves("chunking.profile-driven")
@often
@given(documents(), token_profiles(), LIMITS)
def test_no_chunk_has_more_tokens_than_its_size(
    doc: Document, profile: ChunkingProfile, limit: int
):
    for span in doc.chunk_spans(profile, limit):
        content = doc.text[span.start : span.end]
        assert count_words(content) <= min(profile.size, limit) or len(content.strip()) == 1


@often
@given(documents(), token_profiles())
def test_word_that_fits_a_chunk_is_not_divided(doc: Document, profile: ChunkingProfile):
    words = [found.span() for found in re.finditer(r"\S+", doc.text)]
    # A cut word may count more than a whole one; then its beginning alone can be too much.
    fitting = [
        (start, end)
        for start, end in words
        if max(count_words(doc.text[start:stop]) for stop in range(start + 1, end + 1))
        <= profile.size
    ]

    for span in doc.chunk_spans(profile):
        assert not any(start < span.end < end for start, end in fitting)


@often
@given(documents(), token_profiles())
def test_neighbours_share_at_most_the_overlap_in_tokens(doc: Document, profile: ChunkingProfile):
    spans = doc.chunk_spans(profile)

    for one, two in pairwise(spans):
        assert count_words(doc.text[two.context_start : one.end]) <= profile.overlap


def test_tokens_fill_chunks_of_short_words_exactly():
    profile = ChunkingProfile("ten", Strategy.TOKENS, size=10, overlap=3)

    spans = raw("ab " * 30 + "ab").chunk_spans(profile)

    assert [(span.start // 3, -(-span.end // 3)) for span in spans] == [
        (0, 10), (7, 17), (14, 24), (21, 31),
    ]  # fmt: skip


def test_separate_mode_keeps_the_overlap_beside_the_chunk():
    profile = ChunkingProfile("ten", Strategy.TOKENS, 10, 3, OverlapMode.SEPARATE)
    doc = raw("ab " * 24 + "ab")

    spans = doc.chunk_spans(profile)

    assert [doc.text[span.start : span.end].split() for span in spans] == [
        ["ab"] * 10,
        ["ab"] * 10,
        ["ab"] * 5,
    ]
    assert [doc.text[span.context_start : span.start] for span in spans] == ["", *["ab ab ab "] * 2]


@proves("reading.tail")
def test_chunks_do_not_depend_on_the_characters_before_the_first():
    profile = ChunkingProfile("seven", Strategy.TOKENS, size=7, overlap=3)
    text = "0\n\u094d\n0\U0001f1e9\u200d00\u0300\u200d\U0001f1e9\u0300\n00\u094d\u093a"
    whole = raw(text).chunk_spans(profile)

    for index, first in enumerate(whole):
        rest = raw(text[first.start :]).chunk_spans(profile)
        assert [span.start + first.start for span in rest] == [span.start for span in whole[index:]]
