"""States of words: a function of the text and the model, bounded, and bit-equal in any batch."""

import random
import shutil
from pathlib import Path

import numpy
import pytest

from tests.support.onnx_maker import attention_network, lookup_network, model_folder, table
from truespan.errors import ModelUnavailable, TextTooLong
from truespan.protocols import Embedder, find_state_embedder
from truespan.providers import local
from truespan.providers.local import BUNDLED_FOLDER, PROJECTION_FILE, LocalEmbedder, LocalModel
from truespan.providers.onnx_embedder import FolderEmbedder
from truespan.providers.word_states import (
    TokenStates,
    _group_in_bytes,
    _group_tokens,
    _pack_groups,
    document_states,
    orthogonal_projection,
    query_states,
)
from truespan.testing import WordEmbedder
from truespan.types.vectors import (
    MAX_WORDS,
    ROW_BYTES,
    STATE_SIZE,
    QueryStates,
    WordStates,
    pack_rows,
)
from truespan.words.terms import fold_bytes, stem_function, word_spans

TEXTS = [
    "The tide comes in twice a day because the moon and the sun pull on the oceans.",
    "naïve café, ﬁancée",
    "漢字とかな",
    "😀 😀",
    "\ud800 half a pair",
    "",
    "the of and",
    " ".join(f"word{number}" for number in range(130)),
]


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(LocalModel())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("model"), attention_network(table()))


# Grouping of tokens


def test_plain_texts_are_grouped_like_other_texts() -> None:
    tokenizer, chance = LocalModel().tokenizer(), random.Random(5)
    words = ["the", "sea", "seas", "sea's", "of", "a", "I", "rises", "naïve", "Œuvre", "x1", "“it”"]
    for _ in range(200):
        text = " ".join(chance.choices(words, k=chance.randint(0, 60)))
        prefix = chance.choice(["", "passage: "])
        offsets = tokenizer.encode(prefix + text).offsets
        spans = [span for span in word_spans(text) if span.word in text.casefold()]
        stems = [stem_function("english")(span.word) for span in spans]
        folded = fold_bytes(text)
        assert folded is not None

        expected = _pack_groups(
            _group_tokens(offsets, len(prefix), spans, stem_function("english"))
        )
        found = _group_in_bytes(folded, stems, offsets, len(prefix))

        assert found is not None
        assert found.places.tolist() == expected.places.tolist()
        assert found.weights.tolist() == expected.weights.tolist()
        assert found.sizes.tolist() == expected.sizes.tolist()


def test_token_of_two_words_is_left_to_the_general_path() -> None:
    assert _group_in_bytes(b"sea air", ["sea", "air"], [(0, 3), (4, 7)], 0) is not None
    assert _group_in_bytes(b"sea air", ["sea", "air"], [(0, 7)], 0) is None


# The bundled model


def unpack_rows(packed: bytes) -> numpy.ndarray:
    pairs = numpy.frombuffer(packed, numpy.uint8).reshape(-1, STATE_SIZE // 2)
    rows = numpy.stack([pairs & 15, pairs >> 4], axis=2).reshape(-1, STATE_SIZE) - 8.0
    return rows / numpy.maximum(numpy.linalg.norm(rows, axis=1), 1.0)[:, None]


def test_states_come_with_the_same_vector(embedder: LocalEmbedder) -> None:
    found = embedder.embed_documents_with_states(TEXTS)

    assert [vector for vector, _ in found] == embedder.embed_documents(TEXTS)
    assert embedder.embed_query_with_states("Who?")[0] == embedder.embed_query("Who?")
    assert embedder.embed_documents_with_states([]) == []


def test_states_depend_on_their_text_alone(embedder: LocalEmbedder) -> None:
    alone = [embedder.embed_documents_with_states([text])[0] for text in TEXTS]
    other = LocalEmbedder(LocalModel(), threads=3)

    assert embedder.embed_documents_with_states(TEXTS) == alone
    assert other.embed_documents_with_states(TEXTS[::-1]) == alone[::-1]


def test_states_have_one_unit_row_for_each_content_word(embedder: LocalEmbedder) -> None:
    tide, accents, _, emoji, _, empty, stop_words, _ = [
        states for _, states in embedder.embed_documents_with_states(TEXTS)
    ]

    assert len(unpack_rows(tide)) == 8  # tide comes twice day moon sun pull oceans
    assert len(unpack_rows(accents)) == 3
    assert emoji == empty == stop_words == b""
    assert numpy.linalg.norm(unpack_rows(tide), axis=1) == pytest.approx(1.0, abs=1e-6)


def test_states_of_a_long_text_are_bounded(embedder: LocalEmbedder) -> None:
    numbers = [*map(str, range(100, 400))]
    [(_, states)] = embedder.embed_documents_with_states([" ".join(numbers)])
    [(_, fewer)] = embedder.embed_documents_with_states([" ".join(numbers[:20] * 3)])

    assert len(unpack_rows(states)) == MAX_WORDS
    assert len(unpack_rows(fewer)) == 20
    with pytest.raises(TextTooLong):
        embedder.embed_documents_with_states(["word " * 511])


def test_query_states_name_every_word_of_the_query(embedder: LocalEmbedder) -> None:
    _, found = embedder.embed_query_with_states("Who was Captain HOOK's captain?")

    assert found.words == ("who", "was", "captain", "hook", "s")
    assert unpack_rows(found.rows).shape == (5, STATE_SIZE)
    assert embedder.embed_query_with_states("?!")[1] == QueryStates()


def test_states_find_an_inflected_word_and_a_synonym(embedder: LocalEmbedder) -> None:
    [(_, states)] = embedder.embed_documents_with_states(
        ["The physician walked slowly along the river, and his dogs barked at a boat."]
    )
    _, query = embedder.embed_query_with_states("doctor walking, a dog")
    content = [query.words.index(word) for word in ("doctor", "walking", "dog")]
    best = (unpack_rows(query.rows)[content] @ unpack_rows(states).T).argmax(axis=1)

    assert best.tolist() == [0, 1, 5]  # physician, walked, dogs


def test_copy_of_the_bundled_model_has_its_projection(embedder: LocalEmbedder, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(BUNDLED_FOLDER, copy, ignore=shutil.ignore_patterns(PROJECTION_FILE))
    own = LocalEmbedder(LocalModel(copy))

    assert own.profile.id == embedder.profile.id
    assert own.embed_query_with_states("the tide") == embedder.embed_query_with_states("the tide")


def test_changed_projection_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(BUNDLED_FOLDER, tmp_path / "own")
    (tmp_path / "own" / PROJECTION_FILE).write_bytes(b"another")
    monkeypatch.setattr(local, "BUNDLED_FOLDER", tmp_path / "own")

    with pytest.raises(ModelUnavailable, match="SHA-256"):
        LocalEmbedder(LocalModel()).embed_query_with_states("the tide")


# Models from a folder


def test_folder_model_gives_a_state_of_each_content_word(folder: Path) -> None:
    texts = ["the tide comes in", "at night the moon pulls on the sea", "", "sea"]
    single = FolderEmbedder(folder)
    found = single.embed_documents_with_states(texts)

    assert [vector for vector, _ in found] == single.embed_documents(texts)
    assert [len(states) // ROW_BYTES for _, states in found] == [2, 4, 0, 1]


def test_model_of_whole_texts_gives_no_states(tmp_path: Path) -> None:
    network = lookup_network(table(3), output="sentence_embedding", mean=True)
    whole = model_folder(tmp_path / "whole", network, **{"1_Pooling__config": {}})
    remote: Embedder = WordEmbedder()

    assert find_state_embedder(FolderEmbedder(whole)) is None
    assert find_state_embedder(remote) is None
    assert find_state_embedder(LocalEmbedder(LocalModel())) is not None


@pytest.mark.parametrize("dimensions", [8, 128, 384])
def test_orthogonal_projection_keeps_angles(dimensions: int) -> None:
    projection = orthogonal_projection(dimensions)
    product = projection.matrix.T @ projection.matrix
    if dimensions < STATE_SIZE:
        product = projection.matrix @ projection.matrix.T

    assert projection.matrix.shape == (dimensions, STATE_SIZE)
    assert product == pytest.approx(numpy.eye(len(product)), abs=1e-5)
    # Stored states are compared with those of later versions.
    assert float(orthogonal_projection(384).matrix[0, 0]) == pytest.approx(PINNED, abs=1e-6)


PINNED = -0.03733353316783905
"""First number of the projection for 384 dimensions."""


# Tokens and words


def make_tokens(text: str, offsets: list[tuple[int, int]], first: int = 0) -> TokenStates:
    """Return tokens whose states are the unit vectors of 128 dimensions, in order."""
    return TokenStates(
        text, numpy.eye(STATE_SIZE, dtype=numpy.float32)[: len(offsets)], offsets, first
    )


def test_stem_is_the_mean_of_its_occurrences() -> None:
    projection = orthogonal_projection(STATE_SIZE)
    tokens = make_tokens("Tide, tides, moon", [(0, 0), (0, 2), (2, 4), (6, 11), (13, 17), (0, 0)])
    states = numpy.array([[0, 0.5, 0.5, 1, 0, 0], [0, 0, 0, 0, 1, 0]]) @ tokens.states
    expected = states / numpy.linalg.norm(states, axis=1, keepdims=True) @ projection.matrix

    found = unpack_rows(document_states(tokens, projection))
    assert (found * expected).sum(axis=1) == pytest.approx(1.0, abs=0.02)
    assert query_states(tokens, projection).words == ("tide", "tides", "moon")


def test_single_letters_have_no_row_in_a_document() -> None:
    projection = orthogonal_projection(STATE_SIZE)
    tokens = make_tokens("J B 7 猫", [(0, 1), (2, 3), (4, 5), (6, 7)])

    assert len(unpack_rows(document_states(tokens, projection))) == 2
    assert query_states(tokens, projection).words == ("j", "b", "7", "猫")


def test_packed_rows_keep_their_direction() -> None:
    rows = numpy.random.RandomState(1).standard_normal((40, STATE_SIZE))
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    packed = pack_rows(rows)

    assert len(packed) == 40 * ROW_BYTES
    assert (unpack_rows(packed) * rows).sum(axis=1).min() > 0.97
    assert pack_rows(unpack_rows(packed)[:0]) == b""
    assert unpack_rows(b"").shape == (0, STATE_SIZE)


def test_words_after_a_prefix_take_no_state_of_the_prefix() -> None:
    projection = orthogonal_projection(STATE_SIZE)
    prefixed = make_tokens("tide", [(0, 5), (7, 11)], first=7)
    alone = TokenStates("tide", prefixed.states[1:], [(0, 4)])

    assert query_states(prefixed, projection) == query_states(alone, projection)


def test_words_without_tokens_or_states_have_no_row() -> None:
    projection = orthogonal_projection(STATE_SIZE)
    unread = make_tokens("tide moon", [(5, 9)])
    zero = TokenStates("tide moon", numpy.zeros((2, STATE_SIZE)), [(0, 4), (5, 9)])
    broken = TokenStates("tide moon", numpy.full((2, STATE_SIZE), numpy.nan), [(0, 4), (5, 9)])

    assert unpack_rows(query_states(unread, projection).rows).any(axis=1).tolist() == [False, True]
    assert len(unpack_rows(document_states(unread, projection))) == 1
    assert document_states(zero, projection) == WordStates(b"")
    assert document_states(broken, projection) == WordStates(b"")
    assert not unpack_rows(query_states(broken, projection).rows).any()


def test_new_word_needs_a_new_token() -> None:
    thai, offsets = "สวัสดีครับ", [(0, 6), (6, 10)]
    tokens = TokenStates(thai, numpy.eye(2, STATE_SIZE), offsets)

    assert len(list(word_spans(thai))) == 8
    assert len(unpack_rows(document_states(tokens, orthogonal_projection(STATE_SIZE)))) == 2
