"""Which of the retrieved chunks a model is given.

A chunk *can be given* when its kind is not excluded and it fits by itself. The best similarity is
taken over these alone: a figure that a model never sees, or a chunk that could only be given cut,
must not decide that there is good text.

The limit of characters counts whole chunks, and the gate of characters counts each character once.
So the prompt is never longer than allowed however the chunks are joined, and a passage that two
chunks share does not pass for two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from truespan.model.bundle import WhyNot
from truespan.model.decision import CHOSEN, Candidate, Considered
from truespan.model.decision_settings import DecisionSettings
from truespan.model.ids import ChunkId
from truespan.model.scale import reaches

_SCORE_DECIMALS = 6
"""As everywhere where results are ordered."""


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates by similarity at six decimals, then by document and place in it."""
    return sorted(
        candidates,
        key=lambda one: (
            -round(one.similarity, _SCORE_DECIMALS),
            one.document,
            one.index,
            one.chunk_id,
        ),
    )


def best_of(ranked: Sequence[Candidate], settings: DecisionSettings) -> float | None:
    """Return the greatest similarity of what can be given to a model; None without any."""
    given = [float(one.similarity) for one in ranked if _can_be_given(one, settings)]
    return max(given, default=None)


def _can_be_given(candidate: Candidate, settings: DecisionSettings) -> bool:
    allowed = candidate.kind not in settings.exclude_chunk_types_from_llm
    return allowed and 1 <= candidate.characters <= settings.max_context_chars


@dataclass(frozen=True, slots=True)
class Choice:
    """What became of each candidate, by rank; how many were chosen, and their characters."""

    considered: tuple[Considered, ...]
    chunks: int
    characters: int


def choose(
    ranked: Sequence[Candidate], settings: DecisionSettings, low: float, *, by_place: bool = True
) -> Choice:
    """Take the best that reach `low` and fit; what is passed over takes no place from the rest.

    The best come first by their place where words counted as well, or else by similarity.
    """
    taken = _Taken()
    verdicts: dict[ChunkId, WhyNot] = {}
    for candidate in sorted(ranked, key=_place) if by_place else ranked:
        verdict = verdicts[candidate.chunk_id] = _verdict(candidate, taken, settings, low)
        if verdict is CHOSEN:
            taken.add(candidate)
    considered = tuple(Considered(one, verdicts[one.chunk_id]) for one in ranked)
    return Choice(considered, taken.chunks, taken.distinct)


def _place(candidate: Candidate) -> float:
    """Return when a candidate has its turn; those without a place keep the order of their rank."""
    return inf if candidate.place is None else candidate.place


def _verdict(candidate: Candidate, taken: _Taken, settings: DecisionSettings, low: float) -> WhyNot:
    """Return why a candidate is passed over, or that it is chosen."""
    if candidate.kind in settings.exclude_chunk_types_from_llm:
        return WhyNot.EXCLUDED
    if not reaches(settings.scored(candidate.similarity), low):
        return WhyNot.BELOW_FLOOR
    if not taken.new_in(candidate):
        return WhyNot.DUPLICATE
    if candidate.characters > settings.max_context_chars - taken.characters:
        return WhyNot.OVER_BUDGET
    return CHOSEN if taken.chunks < settings.max_chunks else WhyNot.OUTRANKED


@dataclass(slots=True)
class _Taken:
    """What was chosen so far: whole chunks, and the distinct characters in them."""

    chunks: int = 0
    characters: int = 0
    distinct: int = 0
    _spans: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, candidate: Candidate) -> None:
        self.distinct += self.new_in(candidate)
        self.chunks += 1
        self.characters += candidate.characters
        if candidate.start is not None:
            span = (candidate.start, candidate.start + candidate.characters)
            self._spans.setdefault(candidate.document, []).append(span)

    def new_in(self, candidate: Candidate) -> int:
        """Return how many characters of a candidate were not taken with another one."""
        if candidate.start is None:
            return candidate.characters
        begin, end = candidate.start, candidate.start + candidate.characters
        new = candidate.characters
        for first, last in sorted(self._spans.get(candidate.document, ())):
            new -= max(0, min(last, end) - max(first, begin))
            begin = max(begin, last)
        return new
