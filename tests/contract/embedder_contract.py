"""The contract of every embedder that is reached by HTTP."""

import math
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.keyed_parts import PASSAGES, SECRET, failure_of
from tests.promises import proves
from tests.support.worlds import similarity
from truespan.errors import TextTooLong
from truespan.protocols import Embedder
from truespan.types.profile import Distance
from truespan.types.vectors import Vector


def numbers(vector: Vector) -> "array[float]":
    return array("f", vector)


class EmbedderContract:
    """The contract; modules provide the fixtures `embedder`, on two servers, and `server`."""

    provider: str
    embedder_of: Callable[..., Embedder]

    def test_profile_states_everything_that_affects_a_vector(self, embedder: Embedder) -> None:
        profile = embedder.profile

        assert (profile.provider, profile.distance) == (self.provider, Distance.COSINE)
        assert profile.model
        assert profile.dimensions > 0
        assert profile.input_limit > 0
        assert embedder.limits.joint
        assert embedder.profile is profile

    @proves("embedding.vector-per-input")
    def test_vectors_are_normalised_and_in_the_order_of_texts(self, embedder: Embedder) -> None:
        together = embedder.embed_documents(PASSAGES)

        alone = [embedder.embed_documents([text])[0] for text in PASSAGES]
        assert {len(numbers(vector)) for vector in together} == {embedder.profile.dimensions}
        for vector, expected in zip(together, alone, strict=True):
            assert math.hypot(*numbers(vector)) == pytest.approx(1, abs=1e-6)
            assert similarity(vector, expected) > 0.98

    def test_question_is_nearest_to_the_passage_that_answers_it(self, embedder: Embedder) -> None:
        query = embedder.embed_query("Why does the tide come in, and what do moon and sun pull on?")

        scores = [similarity(query, passage) for passage in embedder.embed_documents(PASSAGES)]

        assert max(scores) == scores[1]

    @proves("embedding.no-silent-truncation")
    def test_texts_are_embedded_whole_or_refused(self, embedder: Embedder) -> None:
        long = f"{SECRET} " * 40_000

        for call in (lambda: embedder.embed_documents([long]), lambda: embedder.embed_query(long)):
            assert "too long for the model" in failure_of(call, TextTooLong).message
        assert len(embedder.embed_documents(["\ud800 half a pair"])) == 1
        assert embedder.embed_query("\udfff half a pair")

    def test_empty_list_gives_no_vectors_and_no_request(self, server: Any) -> None:
        assert self.embedder_of(server).embed_documents([]) == []
        assert server.asked == []
