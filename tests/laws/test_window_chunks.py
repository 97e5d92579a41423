"""The `window` strategy: ends of chunks, shared text, and skipped white space."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.texts import (
    LIMITS,
    Document,
    document,
    documents,
    measure,
    often,
    raw,
    window_profiles,
)
from tests.promises import proves
from truespan.ingest.chunking import _OTHER_SCRIPTS, MAX_OTHER_LETTERS, find_tables
from truespan.text.clean import clean
from truespan.types.profile import WINDOW, ChunkingProfile, OverlapMode

LETTERS = "abcdefgh"
NEVER = st.just(False)
WHOLE = replace(WINDOW, whole_words=True)


@st.composite
def long_texts(draw: st.DrawFn) -> str:
    """Make texts of several default windows, with breaks of each kind dense, rare or missing."""
    breaks = draw(st.lists(st.sampled_from(["\n\n", ". ", "?\n", "\n", " ", ""]), min_size=1))
    lengths = draw(st.lists(st.integers(1, 700), min_size=4, max_size=14))
    return "".join(
        LETTERS[place % 8] * length + breaks[place % len(breaks)]
        for place, length in enumerate(lengths)
    )


def expected_end(text: str, start: int, size: int) -> int:
    """Return the end of the chunk in the window from `start`, by the plainest rules."""
    window = text[start : start + size]
    if start + size >= len(text):
        return len(text)
    kinds = [(r"\n\n", 0.5), (r"[.!?][ \n]", 0.5), (r"\n", 0.3), (r" ", 0.3)]
    for pattern, share in kinds:
        ends = [found.end(1) for found in re.finditer(f"(?=({pattern}))", window)]
        accepted = [end for end in ends if end > share * size]
        if accepted:
            return start + accepted[-1]
    return start + size


@proves("chunking.break-priority", "chunking.break-thresholds", "chunking.hard-cut")
@often
@given(long_texts())
def test_default_window_ends_at_the_best_break(text: str):
    doc = raw(clean(text).strip())

    for span in doc.chunk_spans(WINDOW):
        assert span.end == expected_end(doc.text, span.start, 1000)


@often
@given(documents(), window_profiles(NEVER, NEVER))
def test_window_of_any_size_ends_at_the_best_break(doc: Document, profile: ChunkingProfile):
    content = doc.text.rstrip()
    for span in doc.chunk_spans(profile):
        piece = doc.text[span.start : expected_end(content, span.start, profile.size)]
        # A break that leaves nothing but white space is none.
        if piece.strip() and span.end < len(content):
            assert span.end == span.start + len(piece)


@proves("chunking.default-size", "chunking.default-overlap", "chunking.no-gap")
@often
@given(long_texts())
def test_default_windows_cover_the_text_and_share_exactly_200_characters(text: str):
    doc = raw(clean(text).strip())

    spans = doc.chunk_spans(WINDOW)

    assert all(span.end - span.start <= 1000 for span in spans)
    assert all(one.end - two.start == 200 for one, two in pairwise(spans))
    assert (spans[0].start, spans[-1].end) == (0, len(doc.text))


@proves("chunking.break-thresholds")
@often
@given(long_texts())
def test_no_default_window_but_the_last_is_shorter_than_300_characters(text: str):
    spans = raw(clean(text).strip()).chunk_spans(WINDOW)

    assert all(span.end - span.start >= 300 for span in spans[:-1])


@proves("chunking.no-gap")
@often
@given(documents(), window_profiles(), LIMITS)
def test_windows_leave_gaps_in_wide_white_space_only(
    doc: Document, profile: ChunkingProfile, limit: int
):
    spans = doc.chunk_spans(profile, limit)
    bounds = [0, *(bound for span in spans for bound in span[:2]), len(doc.text.rstrip())]

    gaps = [doc.text[end:start] for end, start in zip(bounds[::2], bounds[1::2], strict=True)]

    # A window that must end with a line may be as narrow as a line break, which makes no chunk.
    may_skip = profile.whole_rows or _widest_gap(doc) >= profile.size
    assert all(not gap or (gap.isspace() and may_skip) for gap in gaps)


def _widest_gap(doc: Document) -> int:
    return max(map(len, re.findall(r"\s+", doc.text)), default=0)


@often
@given(documents(), window_profiles(), LIMITS)
def test_no_window_is_longer_than_its_size(doc: Document, profile: ChunkingProfile, limit: int):
    assert all(span.end - span.start <= profile.size for span in doc.chunk_spans(profile, limit))


@often
@given(documents(), window_profiles(whole_words=NEVER))
def test_windows_share_exactly_the_overlap_unless_they_skip_white_space(
    doc: Document, profile: ChunkingProfile
):
    if find_tables(doc.canonical, profile):
        return  # The overlap begins with a line or a row.
    shared = profile.overlap if profile.overlap_mode is OverlapMode.SHARED else 0
    beside = profile.overlap - shared

    spans = doc.chunk_spans(profile)

    for one, two in pairwise(spans):
        assert one.end - two.start == shared or not doc.text[one.end - shared : two.start].strip()
        assert two.context_start == max(0, two.start - beside)


def splits_a_word(doc: Document, offset: int) -> bool:
    around = doc.text[max(offset - 1, 0) : offset + 1]
    within = len(around) == 2 and not any(map(str.isspace, around))
    return within and all(sentence.start != offset for sentence in doc.sentences)


@often
@given(documents(), window_profiles(NEVER, st.just(True)), LIMITS)
def test_whole_windows_begin_with_a_sentence_or_word(
    doc: Document, profile: ChunkingProfile, limit: int
):
    for one, two in pairwise(doc.chunk_spans(profile, limit)):
        for start, end in ((two.start, one.end), (two.context_start, two.start)):
            if splits_a_word(doc, start):
                # Only if the rest, up to the end of the overlap, is part of one word.
                assert not re.search(r"\s\S", doc.text[start:end])
                assert not any(start < item.start < end for item in doc.sentences)


@often
@given(documents(), window_profiles(NEVER, st.just(True)))
def test_whole_windows_end_within_a_word_only_if_it_is_long(
    doc: Document, profile: ChunkingProfile
):
    for span in doc.chunk_spans(profile)[:-1]:
        if splits_a_word(doc, span.end):
            # A break after nothing but white space is none.
            words = doc.text[span.start : span.end].split()
            assert len(words) == 1 or len(words[-1]) >= 0.6 * profile.size


def test_whole_windows_of_prose_consist_of_whole_sentences():
    sentences = [f"Sentence {number} of Dr. Who has {'many ' * 12}words." for number in range(90)]
    doc = document(" ".join(sentences))
    starts = {sentence.start for sentence in doc.sentences}

    spans = doc.chunk_spans(WHOLE)

    assert len(spans) > 6
    assert all(span.start in starts for span in spans)
    assert all(span.end in starts for span in spans[:-1])
    assert all(100 <= one.end - two.start <= 400 for one, two in pairwise(spans))


def test_whole_windows_of_chinese_end_with_a_sentence():
    doc = document("".join(f"第{number}盏灯在港口的尽头亮着。" for number in range(300)))

    spans = doc.chunk_spans(WHOLE)

    assert len(spans) > 3
    assert all(doc.text[span.end - 1] == "。" for span in spans)
    assert all(doc.text[span.start] == "第" for span in spans)


@proves("chunking.hard-cut")
def test_text_without_breaks_is_cut_at_the_size():
    spans = raw("x" * 4000).chunk_spans(WINDOW)

    assert [span[:2] for span in spans] == [
        (0, 1000), (800, 1800), (1600, 2600), (2400, 3400), (3200, 4000),
    ]  # fmt: skip


@proves("chunking.break-priority")
@pytest.mark.parametrize(
    ("better", "worse"),
    [("\n\n", ". "), ("\n\n", "\n"), ("! ", "\n"), ("?\n", "\n"), (".\n", " "), ("\n", " ")],
)
def test_better_break_wins_over_a_later_one(better: str, worse: str):
    text = "x" * 600 + better + "y" * 200 + worse + "z" * 600

    assert raw(text).chunk_spans(WINDOW)[0].end == 600 + len(better)


@proves("chunking.break-thresholds")
@pytest.mark.parametrize(
    ("separator", "least"), [("\n\n", 501), (". ", 501), ("?\n", 501), ("\n", 301), (" ", 301)]
)
def test_break_counts_after_its_share_of_the_window(separator: str, least: int):
    def first_end(length: int) -> int:
        text = "x" * (length - len(separator)) + separator + "y" * 2000
        return raw(text).chunk_spans(WINDOW)[0].end

    assert first_end(least) == least
    assert first_end(300) == 1000


@proves("chunking.break-thresholds")
def test_early_sentence_break_yields_to_a_later_word():
    text = "x" * 490 + ". " + "y" * 300 + " " + "z" * 2000

    assert raw(text).chunk_spans(WINDOW)[0].end == 793


def test_early_paragraph_break_still_ends_a_line():
    text = "x" * 400 + "\n\n" + "y" * 2000

    assert raw(text).chunk_spans(WINDOW)[0].end == 402


def test_white_space_wider_than_a_window_is_skipped():
    text = "a" * 10 + " " * 5000 + "b" * 10

    spans = raw(text).chunk_spans(WINDOW)

    assert [text[span.start : span.end].strip() for span in spans] == ["a" * 10, "b" * 10]


def test_trailing_white_space_belongs_to_the_last_window():
    assert [span[:2] for span in raw("some words \n \n").chunk_spans(WINDOW)] == [(0, 14)]


def test_window_narrowed_by_tokens_keeps_its_share_of_overlap():
    text = "漢" * 3000
    tokens = measure(text)

    spans = raw(text).chunk_spans(WINDOW, 510)

    assert all(150 < span.end - span.start <= 170 for span in spans[:-1])
    assert all(30 <= one.end - two.start <= 34 for one, two in pairwise(spans))
    assert all(tokens.count(span.start, span.end) <= 510 for span in spans)


@pytest.mark.parametrize("text", ["港口的灯塔。" * 400, "Маяк в гавани горит. " * 300])
def test_window_has_few_letters_of_other_scripts(text: str) -> None:
    whole, plain = (raw(text).chunk_spans(profile, 8000) for profile in (WHOLE, WINDOW))

    widths = [len(_OTHER_SCRIPTS.findall(text, span.start, span.end)) for span in whole]
    assert MAX_OTHER_LETTERS * 0.7 < max(widths) <= MAX_OTHER_LETTERS
    assert max(span.end - span.start for span in plain) > 0.7 * WINDOW.size
