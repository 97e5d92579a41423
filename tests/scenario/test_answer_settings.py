"""Answer settings that are contradictory or do not fit the profile are refused at start."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import truespan
from tests.promises import proves
from tests.support.answer_worlds import QUESTION, ScoreEmbedder, Scripted, study
from tests.support.worlds import MemoryIndex, other_profile
from truespan.answers.decide import thresholds_for
from truespan.errors import InvalidConfiguration
from truespan.types.answer import AnswerRules
from truespan.types.chunk import ChunkKind
from truespan.types.decision import DecisionSettings
from truespan.types.profile import Calibration, Distance
from truespan.types.request import Defaults


def opened(folder: Path, *, given: bool = True, **settings: Any) -> truespan.Library:
    """Open a library with these settings in its file, and an embedder or the configured one."""
    folder.mkdir(exist_ok=True)
    lines = [f"{name} = {_spelled(value)}" for name, value in settings.items()]
    (folder / "truespan.toml").write_text("\n".join(lines), encoding="utf-8")
    return truespan.open(folder, create=True, embedder=ScoreEmbedder() if given else None)


def _spelled(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


@proves("settings.thresholds-ordered", "settings.raw-bounds", "settings.unsupported-distance")
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"answer_threshold_low": 0.6}, "threshold_low is 0.6 and threshold_high is 0.55"),
        ({"answer_threshold_high": 0.2}, "threshold_low is 0.25 and threshold_high is 0.2"),
        ({"answer_short_query_threshold_low": 0.9}, "short_query_threshold_low is 0.9"),
        (
            {"answer_raw_cosine_low": 0.5, "answer_raw_cosine_high": 0.4},
            "raw_cosine_low is 0.5 and raw_cosine_high is 0.4",
        ),
        ({"answer_min_similarity_for_hybrid": 0.55}, "min_similarity_for_hybrid is 0.55"),
        ({"answer_min_chunks_for_hybrid": 7}, "min_chunks_for_hybrid is 7"),
        ({"answer_min_total_context_chars": 9000}, "min_total_context_chars is 9000"),
        (
            {"answer_min_chunks_for_hybrid": 26, "answer_max_chunks": 30},
            "only 25 passages are retrieved",
        ),
        ({"answer_exclude_chunk_types_from_llm": "figure,text"}, "every chunk would be excluded"),
        ({"answer_exclude_chunk_types_from_llm": "text"}, "every chunk would be excluded"),
        (
            {"answer_exclude_chunk_types_from_llm": "text,figure", "docx_figure_chunks": 1},
            "names every kind of chunk",
        ),
        ({"answer_exclude_chunk_types_from_llm": "picture"}, "an unknown kind of chunk"),
        ({"answer_threshold_high": 1.5}, "must be a number from 0.0 to 1.0, not '1.5'"),
        (
            {"answer_thresholds": "calibrated", "answer_score_mode": "raw"},
            "calibrated thresholds are normalized similarities",
        ),
        ({"answer_score_mode": "raw"}, "raw_cosine_low, raw_cosine_high"),
        ({"answer_score_mode": "raw", "answer_raw_cosine_low": 0.2}, "missing: raw_cosine_high"),
        ({"answer_retrieval_distance": "l2"}, "answer_retrieval_distance"),
        ({"answer_retrieval_distance": "Cosine"}, "answer_retrieval_distance"),
    ],
)
def test_contradictory_settings_are_refused_at_start(
    tmp_path: Path, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        opened(tmp_path, **settings)

    assert named in str(refused.value)
    assert "answer_" in str(refused.value)


@proves("settings.thresholds-ordered")
def test_equal_thresholds_are_accepted(tmp_path: Path) -> None:
    with opened(
        tmp_path, answer_threshold_low=0.55, answer_short_query_threshold_low=0.58
    ) as open_:
        assert open_._components.answers.decision.low == 0.55


@proves("decision.short-query-tightens")
def test_usual_calibrated_and_short_thresholds_use_the_strictest(tmp_path: Path) -> None:
    raised = {"answer_threshold_low": 0.7, "answer_threshold_high": 0.8}
    short = {"answer_short_query_threshold_low": 0.75, "answer_short_query_threshold_high": 0.9}
    looser = {"answer_short_query_threshold_low": 0.1, "answer_short_query_threshold_high": 0.85}
    calibrated = {"answer_thresholds": "calibrated"}
    rows = [
        (raised, (0.7, 0.8), (0.7, 0.8)),
        (raised | short, (0.7, 0.8), (0.75, 0.9)),
        (short | raised, (0.7, 0.8), (0.75, 0.9)),
        (raised | looser, (0.7, 0.8), (0.7, 0.85)),
        (calibrated, (0.6, 0.65), (0.62, 0.68)),
        (calibrated | raised, (0.6, 0.65), (0.62, 0.68)),
        (calibrated | short, (0.6, 0.65), (0.75, 0.9)),
        (short | calibrated | raised, (0.6, 0.65), (0.75, 0.9)),
        (calibrated | looser, (0.6, 0.65), (0.62, 0.85)),
    ]
    measured = Calibration(0.5, 0.6, 0.65, 0.62, 0.68, 0.6, 0.5, "a test")
    profile = ScoreEmbedder(profile=other_profile(dimensions=4)).profile
    failed = []
    for number, (settings, usual, of_short) in enumerate(rows):
        with opened(tmp_path / str(number), **settings) as library:
            rules = library._components.answers.for_profile(profile, measured, Defaults.CONTRACT)
        found = [thresholds_for(rules, words) for words in (9, 2)]
        if [(one.low, one.high) for one in found] != [usual, of_short]:
            failed.append((settings, found))
    assert not failed


@proves("settings.raw-bounds")
@pytest.mark.parametrize("distance", ["cosine", "dot"])
def test_raw_scores_with_raw_thresholds_are_accepted(tmp_path: Path, distance: str) -> None:
    bounds = {f"answer_raw_{distance}_low": 0.1, f"answer_raw_{distance}_high": 0.6}
    others = {"answer_min_similarity_for_hybrid": 0.3, "answer_short_query_max_tokens": 0}

    with opened(tmp_path, answer_score_mode="raw", **bounds, **others) as library:
        decision = library._components.answers.decision

    assert (decision.distance, decision.low, decision.high) == (distance, 0.1, 0.6)


@proves("settings.raw-bounds")
def test_raw_thresholds_of_another_distance_are_refused_at_start(tmp_path: Path) -> None:
    bounds = {"answer_raw_dot_low": 0.1, "answer_raw_dot_high": 0.6}
    others = {"answer_min_similarity_for_hybrid": 0.3, "answer_short_query_max_tokens": 0}

    with pytest.raises(InvalidConfiguration, match="missing: raw_cosine_low, raw_cosine_high"):
        opened(tmp_path, given=False, answer_score_mode="raw", **bounds, **others)


@proves("index.distance-agrees")
def test_unavailable_distance_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="answer_retrieval_distance is 'dot'"):
        opened(tmp_path, given=False, answer_retrieval_distance="dot")

    opened(tmp_path, given=False, answer_retrieval_distance="cosine").close()


@proves("settings.thresholds-ordered")
def test_text_may_be_excluded_where_figures_have_chunks(tmp_path: Path) -> None:
    settings = {"answer_exclude_chunk_types_from_llm": "text", "docx_figure_chunks": 1}

    with opened(tmp_path, **settings) as library:
        components = library._components

    assert components.answers.decision.exclude_chunk_types_from_llm == (ChunkKind.TEXT,)
    assert components.preparation.figures.chunks


@proves("index.distance-agrees")
def test_distance_unlike_the_profile_is_an_error_before_the_search(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted("So."), watched=True)
    room.scores(0.7)
    world = room.with_rules(distance=Distance.DOT)
    room.lib.journal.clear()

    with pytest.raises(InvalidConfiguration, match="compared by 'cosine'"):
        world.answer(QUESTION)

    assert not any(call.startswith(("index.", "embedder.embed")) for call in room.lib.journal)
    assert room.primary.asked == []


@proves("decision.normalised-similarity")
def test_dot_products_are_mapped_before_thresholds_apply(tmp_path: Path) -> None:
    embedder = ScoreEmbedder(profile=other_profile(dimensions=4, distance=Distance.DOT))
    room = study(tmp_path, primary=Scripted("So [1]."), embedder=embedder, index=Mapped())
    room.scores(0.1, 0.2)

    answer = room.world.answer(QUESTION)

    assert answer.decision_explain["distance"] == "dot"
    assert answer.decision_explain["max_similarity"] == pytest.approx(0.6)
    assert answer.mode == "rag"


@proves("settings.raw-bounds")
def test_raw_thresholds_decide_on_raw_scores(tmp_path: Path) -> None:
    rules = AnswerRules(
        DecisionSettings(
            score_mode="raw",  # type: ignore[arg-type]
            raw_cosine_low=0.4,
            raw_cosine_high=0.8,
            short_query_threshold_high=0.9,
            min_similarity_for_hybrid=0.45,
        )
    )
    room = study(tmp_path, primary=Scripted("So [1]."), rules=rules)
    room.scores(0.7, 0.39)

    answer = room.world.answer(QUESTION)

    assert (answer.mode, len(answer.retrieved_chunks_metadata)) == ("hybrid", 1)
    assert answer.decision_explain["thresholds"] == {"low": 0.4, "high": 0.8}


class Mapped(MemoryIndex):
    """An index that gives dot products on the scale of similarities, as the real one does."""

    def search(self, scope: Any, vector: Any, *, limit: int, floor: Any) -> Any:
        hits = super().search(scope, vector, limit=10_000, floor=None)
        mapped = [replace(hit, score=(hit.score + 1) / 2) for hit in hits]
        return [hit for hit in mapped if floor is None or hit.score >= floor][:limit]
