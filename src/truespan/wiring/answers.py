"""Build the rules of answers from settings, and check them against each other."""

from __future__ import annotations

from truespan.errors import InvalidConfiguration
from truespan.settings.catalogue import Settings
from truespan.types.answer import ANSWER_TOP_K, AnswerRules
from truespan.types.chunk import ChunkKind
from truespan.types.decision import DecisionSettings, ScoreMode
from truespan.types.profile import Distance

PREFIX = "answer_"
CONFIGURED_DISTANCE = Distance.COSINE
"""The distance of every embedder that settings can name."""
_PLAIN = (
    "threshold_low",
    "threshold_high",
    "short_query_max_tokens",
    "short_query_threshold_low",
    "short_query_threshold_high",
    "min_similarity_for_hybrid",
    "min_chunks_for_hybrid",
    "min_total_context_chars",
    "max_chunks",
    "max_context_chars",
    "raw_dot_low",
    "raw_dot_high",
    "raw_cosine_low",
    "raw_cosine_high",
)


def answer_rules(settings: Settings, *, known: Distance | None = None) -> AnswerRules:
    """Return the rules of answers; `known` is the distance of every profile, if it is certain.

    Raises:
        InvalidConfiguration: settings contradict each other.
    """
    wanted = settings.answer_retrieval_distance
    distance = Distance(wanted) if wanted else None
    calibrated = settings.answer_thresholds == "calibrated"
    if calibrated and settings.answer_score_mode == ScoreMode.RAW:
        raise InvalidConfiguration(
            "answer_thresholds is 'calibrated' and answer_score_mode is 'raw', but calibrated "
            "thresholds are normalized similarities.",
            advice="Set answer_score_mode to 'normalized', or answer_thresholds to 'contract'.",
        )
    if known is not None and distance not in (None, known):
        raise InvalidConfiguration(
            f"answer_retrieval_distance is {distance.value!r}, but the vectors of the configured "
            f"models are compared by {known.value!r}.",
            advice=f"Set it to {known.value!r}, or leave it empty.",
        )
    _require_usable(settings)
    return AnswerRules(
        decision=_decision(settings, distance or known or _distance_of_thresholds(settings)),
        distance=distance,
        calibrated=calibrated,
        log_queries=settings.usage_log_queries,
        usage_days=settings.usage_days,
        usage_records=settings.usage_records,
    )


def _require_usable(settings: Settings) -> None:
    """Refuse settings under which no retrieved passage could ever be used."""
    if settings.answer_min_chunks_for_hybrid > ANSWER_TOP_K:
        raise InvalidConfiguration(
            f"answer_min_chunks_for_hybrid is {settings.answer_min_chunks_for_hybrid}, but only "
            f"{ANSWER_TOP_K} passages are retrieved, so no hybrid answer would be possible.",
            advice=f"Set it to at most {ANSWER_TOP_K}.",
        )
    excluded = _kinds(settings.answer_exclude_chunk_types_from_llm)
    if ChunkKind.TEXT in excluded and not settings.docx_figure_chunks:
        raise InvalidConfiguration(
            "answer_exclude_chunk_types_from_llm names 'text' while docx_figure_chunks is off, so "
            "every chunk would be excluded.",
            advice="Remove 'text' from it.",
        )


def _distance_of_thresholds(settings: Settings) -> Distance:
    """Return the distance that raw thresholds are set for; cosine if that is unclear."""
    cosine = settings.answer_raw_cosine_low, settings.answer_raw_cosine_high
    dot = settings.answer_raw_dot_low, settings.answer_raw_dot_high
    only_dot = None not in dot and None in cosine
    raw = settings.answer_score_mode == ScoreMode.RAW
    return Distance.DOT if raw and only_dot else Distance.COSINE


def _decision(settings: Settings, distance: Distance) -> DecisionSettings:
    try:
        return DecisionSettings(
            **{name: getattr(settings, PREFIX + name) for name in _PLAIN},
            exclude_chunk_types_from_llm=_kinds(settings.answer_exclude_chunk_types_from_llm),
            score_mode=ScoreMode(settings.answer_score_mode),
            distance=distance,
        )
    except InvalidConfiguration as problem:
        raise InvalidConfiguration(
            f"Settings that begin with {PREFIX!r}: {problem.message}", advice=problem.advice
        ) from None


def _kinds(text: str) -> tuple[ChunkKind, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        return tuple(ChunkKind(name) for name in names)
    except ValueError:
        known = ", ".join(kind.value for kind in ChunkKind)
        raise InvalidConfiguration(
            "answer_exclude_chunk_types_from_llm names an unknown kind of chunk.",
            advice=f"Known kinds: {known}.",
        ) from None
