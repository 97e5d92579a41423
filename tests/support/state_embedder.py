"""An embedder in memory that gives states of words: a direction for each word, like its vectors."""

from collections.abc import Sequence
from functools import cache
from hashlib import shake_128

import numpy

from truespan.store import Store
from truespan.store.integrity.checksums import word_states_checksum
from truespan.testing import WordEmbedder
from truespan.types.ids import TextHash
from truespan.types.scope import Scope
from truespan.types.vectors import MAX_WORDS, STATE_SIZE, QueryStates, Vector, WordStates, pack_rows
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import distinct_words


class StateEmbedder(WordEmbedder):
    """A `WordEmbedder` with states; those of a document are its words that are no stop words."""

    def gives_word_states(self) -> bool:
        return True

    def embed_documents_with_states(self, texts: Sequence[str]) -> list[tuple[Vector, WordStates]]:
        vectors = self.embed_documents(texts)
        return [(vector, states_of(text)) for vector, text in zip(vectors, texts, strict=True)]

    def embed_query_with_states(self, text: str) -> tuple[Vector, QueryStates]:
        words = distinct_words(text, MAX_WORDS)
        return self.embed_query(text), QueryStates(words, _pack(words))


def states_of(text: str) -> WordStates:
    words = distinct_words(text, MAX_WORDS)
    return WordStates(_pack([word for word in words if word not in STOP_WORDS["english"]]))


def _pack(words: Sequence[str]) -> bytes:
    return pack_rows(numpy.array([_direction(word) for word in words]).reshape(-1, STATE_SIZE))


@cache
def _direction(word: str) -> numpy.ndarray:
    numbers = numpy.frombuffer(shake_128(word.encode()).digest(STATE_SIZE), numpy.uint8) - 127.5
    return numbers / numpy.linalg.norm(numbers)


def stored_states(
    store: Store, scope: Scope, hashes: Sequence[TextHash]
) -> dict[TextHash, WordStates]:
    """Return the stored states of texts, without damaged ones."""
    profile = scope.profile.id
    rows = store._db.at(scope, profile=profile).all(
        """SELECT text_hash, states, checksum FROM word_states
           WHERE world_id = :world AND profile_id = :profile AND text_hash IN LIST(:hashes)""",
        hashes=[*hashes],
    )
    return {
        known: states
        for known, states, recorded in rows
        if recorded == word_states_checksum(scope.world, profile, known, states)
    }
