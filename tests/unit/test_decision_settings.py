"""Decision settings: contradictions are refused with advice."""

from typing import Any

import pytest

from tests.promises import proves
from tests.support.rows import each_row
from truespan.answers.decide import thresholds_for
from truespan.errors import InvalidConfiguration
from truespan.types.decision import DecisionSettings

RAW_DOT: dict[str, Any] = {"score_mode": "raw", "distance": "dot"}
RAW_COSINE: dict[str, Any] = {"score_mode": "raw", "distance": "cosine"}


def refused(**settings: Any) -> str:
    with pytest.raises(InvalidConfiguration) as caught:
        DecisionSettings(**settings)
    return str(caught.value)


def test_defaults_are_those_of_the_contract() -> None:
    settings = DecisionSettings()
    assert (settings.threshold_low, settings.threshold_high) == (0.25, 0.55)
    assert settings.short_query_max_tokens == 3
    assert settings.short_query_threshold_low == 0.28
    assert settings.short_query_threshold_high == 0.58
    assert settings.min_similarity_for_hybrid == 0.5
    assert (settings.min_chunks_for_hybrid, settings.min_total_context_chars) == (1, 100)
    assert (settings.max_chunks, settings.max_context_chars) == (6, 8000)
    assert settings.exclude_chunk_types_from_llm == ("figure",)
    assert (settings.score_mode, settings.distance) == ("normalized", "cosine")


@each_row("value", [float("nan"), float("inf"), -0.01, 1.01, True, "0.5", None])
@each_row("name", [
    "threshold_low", "threshold_high", "short_query_threshold_low", "short_query_threshold_high",
    "min_similarity_for_hybrid",
])  # fmt: skip
def test_invalid_threshold_is_refused_by_name(name: str, value: Any) -> None:
    assert name in refused(**{name: value})


@each_row("value", [-1, True, 1.0, "1", None])
@each_row("name", [
    "short_query_max_tokens", "min_chunks_for_hybrid", "min_total_context_chars", "max_chunks",
    "max_context_chars",
])  # fmt: skip
def test_invalid_gate_or_limit_is_refused_by_name(name: str, value: Any) -> None:
    assert name in refused(**{name: value})


@each_row("name", ["max_chunks", "max_context_chars"])
def test_limit_of_zero_is_refused(name: str) -> None:
    assert name in refused(**{name: 0})


@proves("settings.thresholds-ordered")
@each_row(("settings", "lower", "upper"), [
    ({"threshold_low": 0.551}, "threshold_low", "threshold_high"),
    ({"threshold_high": 0.24}, "threshold_low", "threshold_high"),
    (
        {"short_query_threshold_low": 0.59},
        "short_query_threshold_low",
        "short_query_threshold_high",
    ),
    ({"raw_dot_low": 0.3, "raw_dot_high": 0.2}, "raw_dot_low", "raw_dot_high"),
    ({"raw_cosine_low": 0.3, "raw_cosine_high": -0.3}, "raw_cosine_low", "raw_cosine_high"),
])  # fmt: skip
def test_low_threshold_above_the_high_one_is_refused(
    settings: dict[str, Any], lower: str, upper: str
) -> None:
    assert f"Set {lower} to at most {upper}." in refused(**settings)


@proves("settings.raw-bounds")
@each_row(("settings", "missing"), [
    (RAW_DOT, "raw_dot_low, raw_dot_high"), ({**RAW_DOT, "raw_dot_low": 0.1}, "raw_dot_high"),
    ({**RAW_DOT, "raw_dot_high": 0.1}, "raw_dot_low"),
    ({**RAW_DOT, "raw_cosine_low": 0.1, "raw_cosine_high": 0.2}, "raw_dot_low, raw_dot_high"),
    (RAW_COSINE, "raw_cosine_low, raw_cosine_high"),
    ({**RAW_COSINE, "raw_cosine_low": 0.1}, "raw_cosine_high"),
    ({**RAW_COSINE, "raw_dot_low": 0, "raw_dot_high": 1}, "raw_cosine_low, raw_cosine_high"),
])  # fmt: skip
def test_raw_mode_without_its_thresholds_is_refused(settings: dict[str, Any], missing: str) -> None:
    assert f"missing: {missing}." in refused(**settings)


@each_row("value", [float("nan"), -1.01, 1.01, True, "0"])
@each_row("name", ["raw_dot_low", "raw_dot_high", "raw_cosine_low"])
def test_invalid_raw_threshold_is_refused_by_name(name: str, value: Any) -> None:
    assert name in refused(**{name: value})


def test_raw_mode_uses_the_thresholds_of_its_distance() -> None:
    dot = DecisionSettings(**RAW_DOT, raw_dot_low=-0.5, raw_dot_high=0.1)
    cosine = DecisionSettings(**RAW_COSINE, raw_cosine_low=-0.1, raw_cosine_high=0.56)
    assert (dot.low, dot.high) == (-0.5, 0.1)
    assert (cosine.low, cosine.high) == (-0.1, 0.56)


@proves("settings.unsupported-distance")
@each_row("distance", ["euclid", "manhattan", "l2", "COSINE", "", None, 1])
def test_another_distance_is_refused_with_the_supported_ones(distance: Any) -> None:
    assert "Choose one of: cosine, dot." in refused(distance=distance)


@each_row("mode", ["Normalized", "", None, 0])
def test_another_score_mode_is_refused(mode: Any) -> None:
    assert "Choose one of: normalized, raw." in refused(score_mode=mode)


@each_row("settings", [
    {"threshold_low": 0.6, "threshold_high": 0.8},
    {"short_query_threshold_low": 0.1, "short_query_threshold_high": 0.2},
    {**RAW_DOT, "raw_dot_low": 0.2, "raw_dot_high": 0.6},
    {**RAW_COSINE, "raw_cosine_low": 0.29, "raw_cosine_high": 0.59},
])  # fmt: skip
def test_short_queries_get_at_least_the_usual_thresholds(
    settings: dict[str, Any],
) -> None:
    made = DecisionSettings(**settings)
    short, usual = thresholds_for(made, 1), thresholds_for(made, 9)
    assert (short.low, short.high) == (usual.low, usual.high) == (made.low, made.high)


@each_row("settings", [
    {"threshold_low": 0.3}, {"threshold_high": 0.6},
    {"short_query_threshold_low": 0.25, "short_query_threshold_high": 0.55},
    {**RAW_DOT, "raw_dot_low": -0.2, "raw_dot_high": 0.16},
])  # fmt: skip
def test_looser_short_threshold_is_not_a_contradiction(settings: dict[str, Any]):
    assert DecisionSettings(**settings)


@each_row("settings", [
    {"min_similarity_for_hybrid": 0.55}, {"min_similarity_for_hybrid": 0.9},
    {"threshold_high": 0.5}, {**RAW_DOT, "raw_dot_low": -0.4, "raw_dot_high": 0.0},
])  # fmt: skip
def test_similarity_gate_that_excludes_every_hybrid_is_refused(settings: dict[str, Any]):
    assert "Lower min_similarity_for_hybrid" in refused(**settings)


def test_similarity_gate_is_skipped_without_a_middle_range() -> None:
    assert DecisionSettings(threshold_low=0.4, threshold_high=0.4)


@each_row(("settings", "advice"), [
    ({"min_chunks_for_hybrid": 7}, "Lower min_chunks_for_hybrid or raise max_chunks."),
    (
        {"min_total_context_chars": 8001},
        "Lower min_total_context_chars or raise max_context_chars.",
    ),
])  # fmt: skip
def test_gate_over_its_limit_is_refused(settings: dict[str, Any], advice: str) -> None:
    assert advice in refused(**settings)


@each_row("kinds", ["figure", None, ("picture",), ("text", "figure"), (1,)])
def test_excluding_unknown_kinds_or_all_kinds_is_refused(kinds: Any) -> None:
    assert "exclude_chunk_types_from_llm" in refused(exclude_chunk_types_from_llm=kinds)


def test_settings_from_text_equal_typed_settings() -> None:
    spelled: dict[str, Any] = {
        "exclude_chunk_types_from_llm": ["figure", "figure"],
        "score_mode": "normalized",
        "distance": "cosine",
    }
    assert DecisionSettings(**spelled) == DecisionSettings()
    assert hash(DecisionSettings(**spelled)) == hash(DecisionSettings())
