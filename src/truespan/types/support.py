"""Support of an answer: the check of each sentence against the passages given to the model."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from truespan.types.text import SentencePlace


class SupportReason(StrEnum):
    """Reason why a sentence of an answer is not supported."""

    NUMBER_NOT_FOUND = "number_not_found"
    NAME_NOT_FOUND = "name_not_found"
    WORDS_NOT_FOUND = "words_not_found"
    NEGATION_DIFFERS = "negation_differs"
    NOT_SIMILAR = "not_similar"
    CITES_NOTHING = "cites_nothing"


class SentenceSupport(Struct, frozen=True):
    """A sentence of an answer that makes a claim, and whether the passages support it.

    `start` and `end` are offsets in the answer, in code points. `missing` are its numbers, names
    and words that were not found.
    """

    start: int
    end: int
    supported: bool
    reasons: tuple[SupportReason, ...]
    source: int | None
    """Number of the best matching passage; None if no passage matches."""
    missing: tuple[str, ...]
    place: SentencePlace | None = None
    """Place of the sentence in that passage that shares most words; None if none shares any."""


class Support(Struct, frozen=True):
    """Support of an answer: a score for all of it, and each sentence.

    Sentences that make no claim, such as questions and headings, are not listed.
    """

    score: float | None
    """Share of the sentences that are supported; None if no sentence makes a claim."""
    claims: int
    supported: int
    sentences: tuple[SentenceSupport, ...]
