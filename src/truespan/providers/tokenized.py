"""The base of embedders whose network runs on this machine: tokens, limits and states of words.

Must hold: no text is cut, and a text cannot end its own input by spelling out a special token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from truespan.errors import TextTooLong
from truespan.providers.model_files import ModelFiles
from truespan.providers.prefixes import ModelPrefixes
from truespan.providers.word_states import (
    Projection,
    TokenStates,
    document_states,
    orthogonal_projection,
    query_states,
)
from truespan.types.profile import EmbeddingLimits, EmbeddingProfile
from truespan.types.vectors import QueryStates, Vector, WordStates

if TYPE_CHECKING:
    import numpy
    from tokenizers import Encoding

Result = TypeVar("Result")


class TokenizedModel(Struct, frozen=True):
    """Everything that must be known about a model to tokenize texts for it."""

    profile: EmbeddingProfile
    prefixes: ModelPrefixes
    limit: int
    """Maximum number of tokens of a text, including its prefix, without special tokens."""
    lowercase: bool = False


class Input(Struct, frozen=True):
    """The tokens of a text after its prefix."""

    encoding: Encoding
    text: str
    """Text without the prefix, as the tokenizer reads it."""
    first: int


class Output(Struct, frozen=True):
    """The vector of a text, and the states of its tokens if they are needed."""

    vector: Vector
    states: numpy.ndarray | None
    """States of the tokens, or of the whole text if the network gives no others."""

    def of_tokens(self, text: Input) -> TokenStates:
        assert self.states is not None
        return TokenStates(text.text, self.states, text.encoding.offsets, text.first)


class TokenizedEmbedder(ABC):
    """An embedder with a network on this machine, loaded with the first text.

    Embedding raises:
        TextTooLong: a text is longer than the maximum; no text is embedded.
        ModelUnavailable: the model's files are missing or changed, or cannot be used.
        ProviderBadReply: the network returned no valid vector.
    """

    endpoint = "local"
    # Batches are small, so that progress is smooth and an interruption loses little.
    limits = EmbeddingLimits(items=32, tokens=100_000, in_flight=1, joint=False)

    def __init__(self, files: ModelFiles) -> None:
        self._files = files

    if TYPE_CHECKING:

        @property
        def profile(self) -> EmbeddingProfile: ...

    else:
        # Each search reads it several times; this getter is no Python function.
        profile = property(attrgetter("_model.profile"))

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        inputs = self._encode(self._model.prefixes.document, texts, limit=self._model.limit)
        return self._embed(inputs, lambda _, output: output.vector)

    def embed_query(self, text: str) -> Vector:
        [found] = self._encode(self._model.prefixes.query, [text], limit=self._model.limit)
        return self._embed_one(found).vector

    @abstractmethod
    def gives_word_states(self) -> bool:
        """Return whether the network gives a state for each token, and not for whole texts."""

    def embed_documents_with_states(self, texts: Sequence[str]) -> list[tuple[Vector, WordStates]]:
        model, projection = self._model, self._projection
        inputs = self._encode(model.prefixes.document, texts, limit=model.limit, offsets=True)
        return self._embed(
            inputs,
            lambda text, output: (
                output.vector,
                document_states(output.of_tokens(text), projection),
            ),
            states=True,
        )

    def embed_query_with_states(self, text: str) -> tuple[Vector, QueryStates]:
        model = self._model
        [found] = self._encode(model.prefixes.query, [text], limit=model.limit, offsets=True)
        output = self._embed_one(found, states=True)
        return output.vector, query_states(output.of_tokens(found), self._projection)

    def check_files(self) -> str:
        return f"{self.profile.model}, {self.profile.revision[:19]}"

    def count_query(self, text: str) -> int:
        [found] = self._encode(self._model.prefixes.query, [text])
        return len(found.encoding) - self._special_tokens

    @abstractmethod
    def _describe(self) -> TokenizedModel:
        """Return the properties of the model, without loading the network."""

    @abstractmethod
    def _embed(
        self,
        inputs: Sequence[Input],
        read: Callable[[Input, Output], Result],
        *,
        states: bool = False,
    ) -> list[Result]:
        """Run the network on texts and return the result of `read` for each output."""

    @abstractmethod
    def _embed_one(self, text: Input, *, states: bool = False) -> Output:
        """Run the network on a query."""

    @cached_property
    def _model(self) -> TokenizedModel:
        return self._describe()

    @cached_property
    def _special_tokens(self) -> int:
        return self._files.tokenizer().num_special_tokens_to_add(False)

    @cached_property
    def _projection(self) -> Projection:
        """Projection of the states of tokens; it must be a function of the profile."""
        return orthogonal_projection(self._model.profile.dimensions)

    def _encode(
        self, prefix: str, texts: Sequence[str], *, limit: int | None = None, offsets: bool = False
    ) -> list[Input]:
        """Return the tokens of texts after a prefix; with `offsets`, also their places."""
        if not texts:
            return []
        before, clean = self._clean(prefix), [self._clean(text) for text in texts]
        found = self._tokenize([before + text for text in clean], offsets=offsets)
        longest = max(map(len, found)) - self._special_tokens
        if limit is not None and longest > limit:
            raise TextTooLong(
                f"A text has {longest} tokens; the model reads {limit}.",
                advice="Split it into smaller texts.",
            )
        return [
            Input(encoding, text, len(before)) for encoding, text in zip(found, clean, strict=True)
        ]

    def _tokenize(self, texts: Sequence[str], *, offsets: bool) -> list[Encoding]:
        tokenizer = self._files.tokenizer()
        # Without offsets it takes a sixth less time.
        return tokenizer.encode_batch(texts) if offsets else tokenizer.encode_batch_fast(texts)

    def _clean(self, text: str) -> str:
        # A lone surrogate has no UTF-8; the tokenizer drops the character that replaces it.
        clean = text.encode(errors="surrogatepass").decode(errors="replace")
        return clean.lower() if self._model.lowercase else clean
