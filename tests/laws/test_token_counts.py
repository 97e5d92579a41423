"""Token counts: a map counts every slice exactly, and no character is left uncounted."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.laws.examples import examples
from truespan.protocols import TokenCounter
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.providers.token_counter import LONE, WordPieceCounter
from truespan.types.text import TokenMap

MODEL = LocalModel()
COUNTER = WordPieceCounter(MODEL)

PROSE = "It was the best of times, it wasn't — unbelievably — the worst: 'Antidisestablishment?!' "
SCRIPTS = [
    PROSE, "naïve CAFÉ Ångström ﬁancée İstanbul ǅ ß straße",
    "e\u0301 a\u0300\u0323 \u0301 o\u0308\u0304n\u0303 ,\u0301x =\u0338 \u302e\U0001d165\U0001d16d",
    "漢字仮名交じり文、「括弧」。ひらがなカタカナ 中文測試𠀀豈", "ภาษาไทยไม่มีช่องว่าง ก็ได้",
    "한국어 띄어쓰기 한",
    "العربية עִבְרִית हिन्दी தமிழ்", "👍🏽 👩‍👩‍👧‍👦 🇩🇪 ☃️ ♥ 1️⃣",
    "iVBORw0KGgoAAAANSUhEUgAA+AAQCAYAAAB/8w==", "[CLS] [SEP] [UNK] ##ing a##b [PAD]",
    "\x00\x01\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x7f\x85\xa0\xad",
    "\u1680\u180e\u2000\u200b\u200d\u2028\u2029\u202e\u202f\u205f\u2060\u3000\ufeff\ufffd\ufffe",
]  # fmt: skip
characters = st.one_of(
    st.sampled_from(sorted(set("".join(SCRIPTS)))), st.characters(exclude_categories=["Cs"])
)
pieces = st.one_of(
    st.sampled_from(SCRIPTS),
    st.sampled_from(PROSE.split()),
    st.text(characters, max_size=12),
    st.builds(lambda character, times: character * times, characters, st.integers(1, 600)),
)
texts = st.lists(pieces, max_size=6).map("".join)
short_texts = st.text(characters, max_size=24)


def reference(text: str) -> int:
    """Count by tokenizing the whole text at once, as specified."""
    tokenizer = MODEL.tokenizer()
    encoding = tokenizer.encode(text, add_special_tokens=False)
    unknown = tokenizer.token_to_id("[UNK]")
    return sum(
        len(text[start:end].encode()) if token == unknown else 1
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
    )


def longest_word(text: str) -> int:
    return max(map(len, LONE.split(text)))


def all_slices(text: str) -> Iterator[tuple[int, int]]:
    return ((start, end) for end in range(len(text) + 1) for start in range(end + 1))


# The counter against the tokenizer


@given(texts)
@examples(300)
def test_count_equals_tokenizer_with_unknown_tokens_as_bytes(text: str) -> None:
    if longest_word(text) <= 512:
        assert COUNTER.count(text) == reference(text)


@given(texts)
@examples(200)
def test_count_is_at_least_what_the_model_reads(text: str) -> None:
    read = MODEL.tokenizer().encode(text, add_special_tokens=False).ids

    assert COUNTER.count(text) >= len(read)


def test_separate_tokens_do_not_depend_on_their_neighbours() -> None:
    lone = [chr(code) for code in range(0x110000) if LONE.match(chr(code))]

    encodings = MODEL.tokenizer().encode_batch(
        [f"a{character}b" for character in lone], add_special_tokens=False
    )

    assert len(lone) > 70_000
    for encoding in encodings:
        assert (encoding.tokens[0], encoding.tokens[-1]) == ("a", "b")
        assert (encoding.offsets[0], encoding.offsets[-1]) == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    "text",
    ["qZ7" * 7000, "😀" * 1000, "ไทย" * 1000, "\ud800" * 600],
    ids=["letters", "emoji", "thai", "halves of pairs"],
)
def test_unknown_characters_count_as_bytes(text: str) -> None:
    assert COUNTER.count(text) == len(text.encode(errors="surrogatepass"))


def test_document_count_is_at_least_that_of_the_embedder() -> None:
    embedder = LocalEmbedder(MODEL)
    text = PROSE * 3 + SCRIPTS[3]

    read = embedder.count_query(text) - embedder.count_query("")

    assert COUNTER.count(text) >= read > 0


# The map against the counter


@given(short_texts)
@example("a\x0cb c\x85d\x1ce")
@example("ab\u0301 c漢d,e")
@example("x\ud800y z")
@examples(150)
def test_map_counts_slices_like_the_counter(text: str) -> None:
    tokens = COUNTER.measure(text)

    for start, end in all_slices(text):
        assert tokens.count(start, end) == COUNTER.count(text[start:end])


@given(texts, st.data())
@examples(200)
def test_map_counts_slices_of_long_texts_exactly(text: str, data: st.DataObject) -> None:
    tokens = COUNTER.measure(text)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(0, len(text)))

    assert tokens.total == COUNTER.count(text)
    assert tokens.count(start, end) == COUNTER.count(text[start:end])


@given(texts)
@examples(100)
def test_units_of_a_map_are_ordered_within_the_text(text: str) -> None:
    tokens = COUNTER.measure(text)

    assert len(tokens.totals) == len(tokens.starts) + 1
    assert all(one <= other for one, other in pairwise([0, *tokens.starts, len(text)]))
    assert all(one < other for one, other in pairwise(tokens.totals))


# Size, memory and threads


def shuffled(parts: list[str], size: int, seed: int) -> str:
    """Join randomly chosen parts to a text of about `size` characters."""
    chosen = random.Random(seed).choices(parts, k=size * len(parts) // len("".join(parts)))
    return " ".join(chosen)


def test_text_of_many_blocks_is_counted_like_its_parts() -> None:
    text = shuffled(SCRIPTS, 150_000, seed=1)

    tokens = COUNTER.measure(text)

    assert tokens.total == COUNTER.count(text) == reference(text)
    for start, end in pairwise(range(0, len(text), 30_011)):
        assert tokens.count(start, end) == reference(text[start:end])


def test_word_of_millions_of_letters_can_be_counted_and_cut() -> None:
    tokens = COUNTER.measure("x" * 5_000_000)

    assert tokens.total == 5_000_000
    assert tokens.count(1_000_000, 1_001_000) == 1000


def test_overlong_words_end_at_white_space() -> None:
    mark = "\u0301"

    assert COUNTER.count(mark * 512) == COUNTER.count(mark * 512 + " ") == 0
    assert COUNTER.count(mark * 513) == COUNTER.count(mark * 513 + " ") == 1026


def test_counts_do_not_depend_on_the_word_cache() -> None:
    counter = WordPieceCounter(MODEL)
    before = counter.measure(PROSE)
    words = [f"{number:x}zq{number}" for number in range(60_000)]
    counter.count(" ".join(words))

    assert list(counter.measure(PROSE).totals) == list(before.totals)
    assert counter.count(words[0]) == COUNTER.count(words[0])


def test_threads_sharing_a_counter_get_equal_counts() -> None:
    counter: TokenCounter = WordPieceCounter(MODEL)
    samples = [shuffled(SCRIPTS, 40_000, seed) for seed in range(8)]

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(counter.count, samples))

    assert counts == [reference(text) for text in samples]


def test_name_identifies_the_tokenizer() -> None:
    assert MODEL.digests["tokenizer.json"][:16] in COUNTER.name


# Any counter


def test_map_of_a_custom_counter_adds_up_across_white_space() -> None:
    def count_words(text: str) -> int:
        return len(text.split())

    text = "one two\nthree\u3000four"
    tokens = TokenMap(text, [0, 4, 8, 14], [0, 1, 2, 3, 4], count_words)

    for start, end in all_slices(text):
        assert tokens.count(start, end) == count_words(text[start:end])
