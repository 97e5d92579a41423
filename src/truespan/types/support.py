"""How far the sentences of a model's answer are supported by the passages that it was given."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from truespan.types.text import SentencePlace


class SupportReason(StrEnum):
    """Why a sentence of an answer is not supported."""

    NUMBER_NOT_FOUND = "number_not_found"
    NAME_NOT_FOUND = "name_not_found"
    WORDS_NOT_FOUND = "words_not_found"
    NEGATION_DIFFERS = "negation_differs"
    NOT_SIMILAR = "not_similar"
    CITES_NOTHING = "cites_nothing"


class SentenceSupport(Struct, frozen=True):
    """A sentence of an answer that makes a claim, and whether the passages support it.

    `start` and `end` count characters (code points) of the answer. `missing` are the numbers, names
    and words of it that were not found.
    """

    start: int
    end: int
    supported: bool
    reasons: tuple[SupportReason, ...]
    source: int | None
    """The number of the passage that fits best; None if none fits at all."""
    missing: tuple[str, ...]
    place: SentencePlace | None = None
    """The place of the sentence of that passage with most of its words; None if none has any."""


class Support(Struct, frozen=True):
    """How much of an answer is supported: a figure for the whole, and each sentence.

    Sentences that claim nothing, such as questions and headings, are not listed.
    """

    score: float | None
    """The share of the sentences that are supported; None if no sentence makes a claim."""
    claims: int
    supported: int
    sentences: tuple[SentenceSupport, ...]
