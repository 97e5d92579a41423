"""Properties of all chunks of every text, for every strategy."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.texts import (
    LIMITS,
    PROFILES,
    Document,
    count_words,
    document,
    documents,
    often,
    raw,
    sometimes,
)
from tests.promises import proves
from truespan.errors import InvalidConfiguration
from truespan.ingest.canonical import assemble
from truespan.ingest.draft import make_chunks
from truespan.text.sentences import split_sentences
from truespan.types.profile import SENTENCES, TOKENS, WINDOW, ChunkingProfile, OverlapMode, Strategy
from truespan.types.text import Block, BlockKind, Span


@proves("chunking.always-advances", "chunking.profile-driven")
@often
@given(documents(), PROFILES, LIMITS)
@example(raw("a a a incomprehensibilities"), ChunkingProfile("dense", Strategy.WINDOW, 14, 4), 4)
def test_spans_advance_and_chunking_ends_for_every_profile(
    doc: Document, profile: ChunkingProfile, limit: int
):
    spans = doc.chunk_spans(profile, limit)

    assert all(span.start < span.end <= len(doc.text) for span in spans)
    assert all(one.start < two.start and one.end < two.end for one, two in pairwise(spans))


@often
@given(documents(), PROFILES, LIMITS)
def test_no_word_is_omitted(doc: Document, profile: ChunkingProfile, limit: int):
    covered = [False] * len(doc.text)
    for span in doc.chunk_spans(profile, limit):
        covered[span.start : span.end] = [True] * (span.end - span.start)

    left_out = "".join(char for char, seen in zip(doc.text, covered, strict=True) if not seen)
    assert left_out.strip() == ""


@often
@given(documents(), PROFILES, LIMITS)
@example(raw("\n0 |"), ChunkingProfile("rows", Strategy.TOKENS, 1, 0, whole_rows=True), 10_000)
def test_no_chunk_exceeds_the_input_limit_or_is_blank(
    doc: Document, profile: ChunkingProfile, limit: int
):
    contents = [doc.text[span.start : span.end] for span in doc.chunk_spans(profile, limit)]

    assert all(count_words(content) <= limit for content in contents)
    assert all(content.strip() for content in contents)


@sometimes
@given(documents(), PROFILES, st.integers(1, 3))
def test_code_point_over_the_limit_is_a_separate_chunk(
    doc: Document, profile: ChunkingProfile, limit: int
):
    for span in doc.chunk_spans(profile, limit):
        content = doc.text[span.start : span.end]
        assert count_words(content) <= limit or len(content.strip()) == 1


@proves("chunking.span-is-content", "chunking.index-contiguous")
@sometimes
@given(documents(), PROFILES, LIMITS)
def test_chunks_are_numbered_slices_of_the_text(
    doc: Document, profile: ChunkingProfile, limit: int
):
    spans = doc.chunk_spans(profile, limit)

    chunks = make_chunks(doc.measured, spans)

    assert [chunk.index for chunk in chunks] == list(range(len(spans)))
    assert [chunk.text for chunk in chunks] == [
        doc.text[chunk.start : chunk.end] for chunk in chunks
    ]
    assert [(chunk.start, chunk.end) for chunk in chunks] == [span[:2] for span in spans]


@often
@given(documents(), PROFILES, LIMITS)
def test_text_beside_a_chunk_precedes_it_in_separate_mode_only(
    doc: Document, profile: ChunkingProfile, limit: int
):
    spans = doc.chunk_spans(profile, limit)

    if profile.overlap_mode is OverlapMode.SEPARATE:
        assert all(0 <= span.context_start <= span.start for span in spans)
        assert all(one.end <= two.start for one, two in pairwise(spans))
    else:
        assert all(span.context_start == span.start for span in spans)


@proves("chunking.blank-text")
@pytest.mark.parametrize("text", ["", " ", "\n\n", " \n\t\n ", "\u00a0\u3000 " * 800])
@pytest.mark.parametrize("profile", [WINDOW, SENTENCES, TOKENS])
def test_text_without_words_has_no_chunks(text: str, profile: ChunkingProfile):
    assert raw(text).chunk_spans(profile) == []


@proves("chunking.no-crlf")
@sometimes
@given(st.lists(st.text("ab. \r\n\x85\u2028", max_size=200), max_size=4), PROFILES)
def test_no_chunk_holds_a_carriage_return(texts: list[str], profile: ChunkingProfile):
    canonical = assemble([Block(BlockKind.PARAGRAPH, text) for text in texts])
    doc = Document(canonical, tuple(split_sentences(canonical)))

    assert not any("\r" in doc.text[span.start : span.end] for span in doc.chunk_spans(profile))


@proves("chunking.deterministic")
def test_chunks_do_not_depend_on_the_hash_seed():
    program = (
        "import hashlib\n"
        "from tests.laws.test_chunkers import every_standard_cut\n"
        "print(hashlib.sha256(repr(every_standard_cut()).encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]

    assert runs[0] == runs[1]
    assert len(every_standard_cut()) > 60


def every_standard_cut() -> list[Span]:
    """Chunk one text of several scripts with every standard strategy."""
    text = "\n\n".join(
        f"Paragraph {number} was short. {'It went on and on. ' * number}\n漢字です。これは文。"
        for number in range(25)
    )
    doc = document(text)
    modes = [
        ChunkingProfile("drawn", one.strategy, one.size, one.overlap, mode)
        for one in (WINDOW, SENTENCES, TOKENS)
        for mode in OverlapMode
    ]
    return [span for profile in modes for span in doc.chunk_spans(profile, 300)]


@proves("chunking.overlap-limit")
@pytest.mark.parametrize(
    ("strategy", "size", "overlap"),
    [
        (Strategy.WINDOW, 1000, 300), (Strategy.WINDOW, 1, 1), (Strategy.WINDOW, 10, 3),
        (Strategy.SENTENCES, 8, 8), (Strategy.TOKENS, 256, 256), (Strategy.WINDOW, 1000, -1),
    ],
)  # fmt: skip
def test_overlap_that_could_stop_progress_is_refused(strategy: Strategy, size: int, overlap: int):
    with pytest.raises(InvalidConfiguration):
        ChunkingProfile("greedy", strategy, size, overlap)
