"""Sentences: each word in exactly one, numbered, and none across a block."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.texts import ANYTHING, PROSE, document, often, sometimes
from tests.support.sample_texts import story
from truespan.ingest.canonical import assemble
from truespan.text import sentences
from truespan.text.sentences import split_sentences
from truespan.types.text import Block, BlockKind, CanonicalText

SEGMENT: Callable[[str, str], list[str]] = sentencex.segment  # pyright: ignore[reportAttributeAccessIssue]
BLOCKS = st.lists(
    st.builds(Block, st.sampled_from(BlockKind), PROSE | ANYTHING, st.none() | st.just("Chapter")),
    max_size=5,
)


def texts_of(canonical: CanonicalText, language: str = "en") -> list[str]:
    found = split_sentences(canonical, language)
    return [canonical.text[sentence.start : sentence.end] for sentence in found]


@often
@given(BLOCKS, st.sampled_from(["en", "de", "ja", "hi", "en-GB", "xx", ""]))
def test_each_word_is_in_exactly_one_sentence(blocks: list[Block], language: str):
    canonical = assemble(blocks)

    found = split_sentences(canonical, language)

    assert [sentence.sid for sentence in found] == list(range(len(found)))
    assert all(one.end <= two.start for one, two in pairwise(found))
    kept = "".join(canonical.text[sentence.start : sentence.end] for sentence in found)
    assert "".join(kept.split()) == "".join(canonical.text.split())


@often
@given(BLOCKS)
def test_sentences_are_trimmed_and_within_blocks(blocks: list[Block]):
    canonical = assemble(blocks)

    for _, start, end in split_sentences(canonical):
        assert canonical.text[start:end] == canonical.text[start:end].strip() != ""
        assert not any(start < edge < end for edge in canonical.block_starts)


@sometimes
@given(st.text(max_size=60))
def test_uncleaned_text_is_accepted(text: str):
    kept = "".join(texts_of(CanonicalText(text)))

    assert "".join(kept.split()) == "".join(text.split())


def test_sentences_end_where_a_reader_expects():
    doc = document('Dr. Smith went\nhome. "Stop!" said he. Why?\n\nA new paragraph')

    assert texts_of(doc.canonical) == [
        "Dr. Smith went\nhome.", '"Stop!" said he.', "Why?", "A new paragraph",
    ]  # fmt: skip


def test_a_long_document_keeps_its_offsets():
    paragraphs = [
        f"Paragraph {number} has one sentence. And then a second." for number in range(2000)
    ]

    found = texts_of(assemble([Block(BlockKind.PARAGRAPH, text) for text in paragraphs]))

    assert found[::2] == [f"Paragraph {number} has one sentence." for number in range(2000)]
    assert set(found[1::2]) == {"And then a second."}


def test_long_paragraph_is_split_like_short_ones():
    text = " ".join(f"Sentence number {number} of Mr. Long ends here." for number in range(3000))

    assert texts_of(CanonicalText(text)) == [
        f"Sentence number {number} of Mr. Long ends here." for number in range(3000)
    ]


@pytest.mark.parametrize(
    "text", ["no end in sight " * 40_000, "漢字です。" * 40_000, "😀" * 200_000, "“a. " * 50_000]
)
def test_enormous_paragraphs_are_accepted(text: str):
    assert "".join("".join(texts_of(CanonicalText(text))).split()) == "".join(text.split())


@often
@given(PROSE | ANYTHING)
def test_ordinary_text_is_split_exactly_as_by_the_segmenter(text: str):
    paragraph = " ".join(text.split())

    assert texts_of(CanonicalText(paragraph)) == cut_directly(paragraph)


def test_long_paragraph_is_split_as_by_the_segmenter():
    spoken = "“Why?” asked Ann’s aunt (the elder). ‘I don't know,’ said he. "
    for paragraph in (" ".join(story(400).split()), spoken * 300, "word, " * 20_000):
        assert texts_of(CanonicalText(paragraph)) == cut_directly(paragraph)


def cut_directly(text: str) -> list[str]:
    return [body for piece in SEGMENT("en", text) if (body := piece.strip())]


HOSTILE = ["“a", "‘a", "«a", "(a", "[a", '"a ', "a.”", "``a", "é'a ", "–「‟", "a", "{!{[1]", "a. "]


def test_segmenter_gets_no_long_text_with_many_marks(monkeypatch: pytest.MonkeyPatch):
    given = record_calls(monkeypatch, SEGMENT)

    failures: list[str] = []
    for pattern in HOSTILE:
        for length in (20_000, 80_000):
            given.clear()
            split_sentences(CanonicalText(pattern * (length // len(pattern))))
            # Its time grows with the marks in a text times the length of that text.
            effort = sum(len(text) * (1 + count_quotes(text)) for text in given)
            if effort > 3 * 1001 * length or sum(map(len, given)) > 4 * length:
                failures.append(f"{pattern!r}, {length}: {effort}, {sum(map(len, given))}")
    assert not failures


@pytest.mark.parametrize(
    "segment",
    [lambda _, text: [text], lambda _, text: [text[:1], text[1:2], text[2:]]],
    ids=["no sentence ends", "sentences of one character"],
)
def test_segmenter_input_is_linear_in_the_text(
    monkeypatch: pytest.MonkeyPatch, segment: Callable[[str, str], list[str]]
):
    given = record_calls(monkeypatch, segment, keep=False)

    for length in (2**19, 2**20, 2**21):
        given.clear()
        text = "a" * length
        assert "".join(texts_of(CanonicalText(text))) == text
        assert max(map(len, given)) <= 2**20
        assert sum(map(len, given)) <= 33 * (length + 2**20)


def record_calls(
    monkeypatch: pytest.MonkeyPatch, segment: Callable[[str, str], list[str]], *, keep: bool = True
) -> list:
    """Return a list that records the texts, or ranges of their length, that the segmenter gets."""
    given: list = []

    def recording(language: str, text: str) -> list[str]:
        given.append(text if keep else range(len(text)))
        return segment(language, text)

    monkeypatch.setattr("sentencex.segment", recording)
    return given


def count_quotes(text: str) -> int:
    return sum(map(text.count, "'`“”‘’«»‹›「」《》„‚‛‟"))


@pytest.mark.parametrize(
    "label", ["Chapter 1. It was Mr. Hyde! Or was it?", "Part I, Chapter 1. Oh. No."]
)
def test_heading_is_a_single_sentence(label: str):
    heading = label.removeprefix("Part I, ")
    canonical = assemble(
        [
            Block(BlockKind.HEADING, heading.replace(" It", "\n\nIt"), label),
            Block(BlockKind.PARAGRAPH, "One. Two went home.", label),
        ]
    )

    assert texts_of(canonical) == [heading.replace(" It", "\n\nIt"), "One.", "Two went home."]


def test_rows_of_a_table_are_sentences():
    canonical = assemble([Block(BlockKind.TABLE, "name | age\nAda | 36\nBob | 7")])

    assert texts_of(canonical) == ["name | age", "Ada | 36", "Bob | 7"]


def test_segmenter_that_loses_characters_is_ignored(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sentencex.segment", lambda language, text: text.split())

    assert texts_of(CanonicalText("One two. Three four.")) == ["One two. Three four."]


def test_the_segmenter_is_named_with_its_version():
    assert sentences.segmenter_name().startswith("sentencex-1.")
