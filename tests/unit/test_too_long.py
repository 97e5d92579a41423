"""Texts that are longer than the model's limit."""

from array import array
from collections.abc import Callable

import pytest

from tests.promises import proves
from tests.support.worlds import WordCounter, similarity, vector_of
from truespan.errors import ProviderUnavailable, TextTooLong
from truespan.ingest.embed import MIN_PART, OnTokenLimit, Remark, embed_too_long
from truespan.types.vectors import Vector, weighted_mean

LONG = " ".join(f"This is sentence{number} of the story." for number in range(30))


class Reader:
    """A model with a maximum number of words per text, which refuses longer ones."""

    def __init__(self, words: int) -> None:
        self.words = words
        self.read: list[str] = []

    def __call__(self, text: str) -> Vector:
        if len(text.split()) > self.words:
            raise TextTooLong("too long")
        self.read.append(text)
        return vector_of(text)


def too_long(
    policy: OnTokenLimit, embed: Callable[[str], Vector], limit: int = 400
) -> tuple[Vector | None, Remark]:
    """Embed the long text with a model that has a lower limit."""
    return embed_too_long(
        LONG, embed, policy=policy, counter=WordCounter(), limit=limit, dimensions=64
    )


@proves("embedding.no-silent-truncation")
@pytest.mark.parametrize("words", [20, 50, 100])
def test_mean_covers_all_parts_of_whole_sentences(words: int) -> None:
    reader = Reader(words)
    vector, remark = too_long(OnTokenLimit.MEAN, reader)
    assert remark is Remark.MEAN_OF_PARTS
    assert " ".join(reader.read) == LONG
    assert all(part.endswith("story.") for part in reader.read)
    weights = [len(part.split()) for part in reader.read]
    assert vector == weighted_mean([vector_of(part) for part in reader.read], weights)
    assert vector is not None
    assert similarity(vector, vector_of(LONG)) > 0.99


def test_mean_of_parts_is_weighted_and_normalised() -> None:
    one = Vector(array("f", [3.0, 0.0]).tobytes())
    other = Vector(array("f", [0.0, 0.5]).tobytes())
    assert list(array("f", weighted_mean([one, other], [3, 4]))) == pytest.approx([0.6, 0.8])


def test_only_the_beginning_is_embedded_if_configured() -> None:
    reader = Reader(50)
    vector, remark = too_long(OnTokenLimit.TRUNCATE, reader)
    assert remark is Remark.TRUNCATED
    assert len(reader.read) == 1
    assert LONG.startswith(reader.read[0])
    assert vector == vector_of(reader.read[0])


def test_long_text_is_skipped_or_first_cut_to_the_limit() -> None:
    reader = Reader(50)
    assert too_long(OnTokenLimit.SKIP, reader) == (None, Remark.TOO_LONG)
    assert reader.read == []
    reader = Reader(400)
    too_long(OnTokenLimit.MEAN, reader, limit=70)
    assert [len(part.split()) for part in reader.read] == [66, 66, 48]


@pytest.mark.parametrize("policy", [OnTokenLimit.MEAN, OnTokenLimit.TRUNCATE])
def test_model_that_rejects_every_length_is_not_asked_forever(policy: OnTokenLimit) -> None:
    asked: list[str] = []

    def never(text: str) -> Vector:
        asked.append(text)
        raise TextTooLong("too long")

    assert too_long(policy, never) == (None, Remark.BAD_VECTOR)
    assert 1 < len(asked) < 10
    assert min(len(text.split()) for text in asked) >= MIN_PART // 2


def test_part_without_a_valid_vector_fails_its_text() -> None:
    def broken(text: str) -> Vector:
        if len(text.split()) > 100:
            raise TextTooLong("too long")
        return Vector(bytes(256)) if "sentence29" in text else vector_of(text)

    assert too_long(OnTokenLimit.MEAN, broken) == (None, Remark.BAD_VECTOR)


def test_parts_that_cancel_out_give_no_vector() -> None:
    def turning(text: str) -> Vector:
        if len(text.split()) > 100:
            raise TextTooLong("too long")
        sign = 1.0 if "sentence0 " in text else -1.0
        return Vector(array("f", [sign] + [0.0] * 63).tobytes())

    assert too_long(OnTokenLimit.MEAN, turning) == (None, Remark.BAD_VECTOR)


def test_other_failures_are_not_treated_as_length() -> None:
    def down(text: str) -> Vector:
        raise ProviderUnavailable("down")

    with pytest.raises(ProviderUnavailable):
        too_long(OnTokenLimit.MEAN, down)
