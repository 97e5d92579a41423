"""The settings of a decision, checked when they are made.

Settings that contradict each other would decide something that nobody meant, and nobody would see
it. So they are refused at start-up, with what to change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from truespan.errors import InvalidConfiguration
from truespan.model.chunk import ChunkKind
from truespan.model.profile import Distance
from truespan.model.scale import normalised, raw_score, reaches, shortest

Choice = TypeVar("Choice", bound=StrEnum)


class ScoreMode(StrEnum):
    """Which numbers are held against thresholds: similarities, or the scores of the distance."""

    NORMALIZED = "normalized"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """Thresholds, gates and limits. All but the `raw_` ones are on the scale of similarities.

    The thresholds of short queries are on that scale in raw mode as well, and are converted to the
    one in force; so is the similarity gate, which looks at the similarity of the best chunk.
    """

    threshold_low: float = 0.25
    threshold_high: float = 0.55
    short_query_max_tokens: int = 3
    """Queries of this many words or fewer are short; 0 switches the tightening off."""
    short_query_threshold_low: float = 0.28
    short_query_threshold_high: float = 0.58
    min_similarity_for_hybrid: float = 0.5
    min_chunks_for_hybrid: int = 1
    min_total_context_chars: int = 100
    max_chunks: int = 6
    max_context_chars: int = 8000
    exclude_chunk_types_from_llm: tuple[ChunkKind, ...] = (ChunkKind.FIGURE,)
    score_mode: ScoreMode = ScoreMode.NORMALIZED
    distance: Distance = Distance.COSINE
    raw_dot_low: float | None = None
    raw_dot_high: float | None = None
    raw_cosine_low: float | None = None
    raw_cosine_high: float | None = None

    def __post_init__(self) -> None:
        self._take_choices()
        _check_numbers(self)
        _check_order(self)
        _check_limits(self)
        _check_short_query(self)
        _check_similarity_gate(self)

    def _take_choices(self) -> None:
        """Turn names into choices, so that settings read from a file compare equal."""
        taken = {
            "score_mode": _choice("score_mode", ScoreMode, self.score_mode),
            "distance": _choice("distance", Distance, self.distance),
            "exclude_chunk_types_from_llm": _kinds(self.exclude_chunk_types_from_llm),
        }
        for name, value in taken.items():
            object.__setattr__(self, name, value)

    @property
    def raw_names(self) -> tuple[str, str]:
        """Return the names of the raw thresholds that the distance asks for."""
        return f"raw_{self.distance}_low", f"raw_{self.distance}_high"

    @property
    def low(self) -> float:
        """Return the low threshold on the scale of the score mode."""
        return self.threshold_low if self._normalized else getattr(self, self.raw_names[0])

    @property
    def high(self) -> float:
        """Return the high threshold on the scale of the score mode."""
        return self.threshold_high if self._normalized else getattr(self, self.raw_names[1])

    def scored(self, similarity: float) -> float:
        """Return a similarity on the scale of the score mode."""
        return similarity if self._normalized else raw_score(similarity, self.distance)

    def as_similarity(self, score: float) -> float:
        """Return a score of the score mode as a similarity."""
        return score if self._normalized else normalised(score, self.distance)

    @property
    def _normalized(self) -> bool:
        return self.score_mode is ScoreMode.NORMALIZED


_FRACTIONS = (
    "threshold_low",
    "threshold_high",
    "short_query_threshold_low",
    "short_query_threshold_high",
    "min_similarity_for_hybrid",
)
_RAW = ("raw_dot_low", "raw_dot_high", "raw_cosine_low", "raw_cosine_high")
_LEAST = {
    "short_query_max_tokens": 0,
    "min_chunks_for_hybrid": 0,
    "min_total_context_chars": 0,
    "max_chunks": 1,
    "max_context_chars": 1,
}
_PAIRS = (
    ("threshold_low", "threshold_high"),
    ("short_query_threshold_low", "short_query_threshold_high"),
    ("raw_dot_low", "raw_dot_high"),
    ("raw_cosine_low", "raw_cosine_high"),
)


def _choice(name: str, kind: type[Choice], value: Any) -> Choice:
    try:
        return kind(value)
    except ValueError:
        raise InvalidConfiguration(
            f"{name} cannot be {value!r}.",
            advice=f"Choose one of: {', '.join(one.value for one in kind)}.",
        ) from None


def _kinds(given: Any) -> tuple[ChunkKind, ...]:
    """Return the excluded kinds in one order, so that equal settings are equal values."""
    name = "exclude_chunk_types_from_llm"
    if isinstance(given, str) or not isinstance(given, tuple | list | set | frozenset):
        raise InvalidConfiguration(f"{name} must be a list.", advice='As in ["figure"].')
    kinds = {_choice(name, ChunkKind, kind) for kind in given}
    if kinds == set(ChunkKind):
        raise InvalidConfiguration(
            f"{name} names every kind of chunk, so that no model would be given any context.",
            advice="Leave 'text' out of it.",
        )
    return tuple(sorted(kinds))


def _check_numbers(settings: DecisionSettings) -> None:
    for name in _FRACTIONS:
        _check_number(name, getattr(settings, name), 0.0)
    for name in _RAW:
        if getattr(settings, name) is not None:
            _check_number(name, getattr(settings, name), -1.0)
    for name, least in _LEAST.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidConfiguration(f"{name} must be a whole number of at least {least}.")


def _check_number(name: str, value: Any, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidConfiguration(f"{name} must be a number between {least} and 1.0.")
    if not least <= value <= 1.0:  # NaN is not, either.
        raise InvalidConfiguration(
            f"{name} is {value}.", advice=f"Give a number between {least} and 1.0."
        )


def _check_order(settings: DecisionSettings) -> None:
    """Hold each pair to low <= high, and raw mode to having the pair of its distance."""
    if settings.score_mode is ScoreMode.RAW:
        missing = [name for name in settings.raw_names if getattr(settings, name) is None]
        if missing:
            raise InvalidConfiguration(
                f"Score mode 'raw' with distance {settings.distance.value!r} needs "
                f"{' and '.join(settings.raw_names)}; missing: {', '.join(missing)}.",
                advice="Set both, or use score mode 'normalized'.",
            )
    for lower, upper in _PAIRS:
        low, high = getattr(settings, lower), getattr(settings, upper)
        if low is not None and high is not None and low > high:
            raise InvalidConfiguration(
                f"{lower} is {low} and {upper} is {high}.",
                advice=f"Set {lower} to at most {upper}.",
            )


def _check_limits(settings: DecisionSettings) -> None:
    for gate, limit in (
        ("min_chunks_for_hybrid", "max_chunks"),
        ("min_total_context_chars", "max_context_chars"),
    ):
        if getattr(settings, gate) > getattr(settings, limit):
            raise InvalidConfiguration(
                f"{gate} is {getattr(settings, gate)}, but {limit} allows only "
                f"{getattr(settings, limit)}, so that no hybrid answer would be possible.",
                advice=f"Lower {gate} or raise {limit}.",
            )


def _check_short_query(settings: DecisionSettings) -> None:
    """Refuse thresholds for short queries that could not tighten either of the usual ones.

    One of the two may lie lower: the tighter of both is in force. Both lower means that somebody
    moved the usual thresholds and forgot these.
    """
    low = settings.scored(settings.short_query_threshold_low)
    high = settings.scored(settings.short_query_threshold_high)
    tightens = reaches(low, settings.low) or reaches(high, settings.high)
    if settings.short_query_max_tokens and not tightens:
        raise InvalidConfiguration(
            "short_query_threshold_low and short_query_threshold_high are both looser than the "
            "thresholds for all queries, so that short ones would not be held to more.",
            advice="Raise them above the others, or set short_query_max_tokens to 0.",
        )


def _check_similarity_gate(settings: DecisionSettings) -> None:
    """Refuse a gate that nothing below the high threshold could pass."""
    high = settings.as_similarity(settings.high)
    between = not reaches(settings.low, settings.high)
    if between and reaches(settings.min_similarity_for_hybrid, high):
        raise InvalidConfiguration(
            f"min_similarity_for_hybrid is {settings.min_similarity_for_hybrid}, but an answer is "
            f"hybrid only below a similarity of {shortest(high)}, so that none would be possible.",
            advice="Lower min_similarity_for_hybrid, or set both thresholds to the same number.",
        )
