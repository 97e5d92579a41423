"""The decision by evidence: the number, its threshold, its record and its explanation."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.rows import each_row
from tests.support.worlds import other_profile
from truespan.answers.decide import decide, evidence_to_json, search_floor
from truespan.answers.respond import explain_refusal
from truespan.errors import InvalidArgument, InvalidConfiguration
from truespan.retrieval.background import background_of
from truespan.types.answer import AnswerRules, Retrieved
from truespan.types.chunk import ChunkKind
from truespan.types.decision import (
    Candidate,
    Coverage,
    Decision,
    DecisionSettings,
    Evidence,
    EvidenceRules,
    ModelOutcome,
    ScoreMode,
    evidence_rules,
)
from truespan.types.ids import ChunkId, WorldId
from truespan.types.profile import _SHIPPED, Calibration, usual_late
from truespan.types.request import Defaults, Mode
from truespan.types.scope import World

BUNDLED, _ = [one for key, one in _SHIPPED.items() if key[1] == "BAAI/bge-small-en-v1.5"]
RULES = EvidenceRules(threshold=0.48, floor=0.49, word_weight=0.2)
SETTINGS = DecisionSettings(evidence=RULES)


def passage(
    similarity: float,
    share: float = 0.0,
    window: float = 0.0,
    number: int = 0,
    words: int = 0,
    **more: Any,
) -> Candidate:
    covered = Coverage(share, window, words=words)
    return Candidate(ChunkId(f"c{number}"), similarity, 200, index=number, coverage=covered, **more)


def decided(*passages: Candidate, background: float | None = 0.5, **more: Any) -> Decision:
    return decide(Evidence(SETTINGS, 8, passages, background=background, **more))


@proves("decision.evidence")
@each_row(("part", "background", "mode"), [
    # 0.6 + 0.2 * (0.4 + 0.25) - 0.25 = 0.48
    (passage(0.6, 0.4, 0.25), 0.5, "rag"), (passage(0.6, 0.4, 0.249), 0.5, "fallback"),
    (passage(0.599, 0.4, 0.25), 0.5, "fallback"), (passage(0.6, 0.4, 0.25), 0.501, "fallback"),
    # Similarity alone, or words with little similarity.
    (passage(0.73), 0.5, "rag"), (passage(0.729), 0.5, "fallback"),
    (passage(0.5, 0.6, 0.55), 0.5, "rag"),
    # Without anything to compare with, the background is 0. Below the floor is no evidence.
    (passage(0.49), None, "rag"), (passage(0.48, 1.0, 1.0), 0.5, "fallback"),
])  # fmt: skip
def test_decide_adds_words_to_similarity_less_background(
    part: Candidate, background: float | None, mode: str
) -> None:
    decision = decided(part, background=background)
    assert (decision.mode, bool(decision.used_chunks)) == (mode, mode == "rag")


def test_record_leaves_out_words_that_were_not_counted() -> None:
    decision = decided(passage(0.5, 0.6, 0.55), passage(0.49, 0.1, 0.1, 1))
    record = json.loads(json.dumps(evidence_to_json(decision.evidence)))
    assert not {"usual_floor", "further_word_weight"} & record["settings"]["evidence"].keys()
    assert record["candidates"][0]["coverage"] == {"share": 0.6, "window": 0.55}


@proves("decision.evidence")
def test_decide_uses_the_numbers_of_one_passage() -> None:
    similar, covered = passage(0.7, 0.0, 0.0, 0), passage(0.5, 0.5, 0.5, 1)
    assert decided(similar, covered).mode == "fallback"
    assert decided(similar, covered, passage(0.6, 0.5, 0.5, 2)).mode == "rag"


@proves("decision.evidence", "answers.cross-language")
@each_row(("rules", "member", "rows"), [
    # More is needed in a language that is unknown to the model.
    ({"foreign_loss": 0.02}, "foreign", [
        (passage(0.73), "rag"), (passage(0.73, foreign=True), "fallback"),
        (passage(0.75, foreign=True), "rag"),
    ]),
    # Words decide where similarity says little.
    ({"foreign_loss": 0.02, "foreign_weight": 0.3, "foreign_usual": 0.3}, "foreign", [
        (passage(0.8), "rag"), (passage(0.8, foreign=True), "fallback"),
        (passage(0.5, 0.6, 0.6, foreign=True), "rag"),
        (passage(0.5, 0.4, 0.4, foreign=True), "fallback"),
    ]),
    # Words count more where they say more; both coverages are 0.75 in all, as usual.
    ({"further_word_weight": 0.1}, "by_words", [
        (passage(0.58, 0.4, 0.35), "rag"), (passage(0.58, 0.4, 0.35, by_words=True), "rag"),
        (passage(0.53, 0.5, 0.45), "fallback"),
        (passage(0.53, 0.5, 0.45, by_words=True), "rag"), (passage(0.74), "rag"),
        (passage(0.74, by_words=True), "fallback"),
    ]),
    # Few words are asked of a passage in another language. Names and numbers may be in both
    # languages, and a detected language may be wrong.
    ({"crossed_words": 0.1}, "crossed", [
        (passage(0.63), "fallback"), (passage(0.63, crossed=True), "rag"),
        (passage(0.62, crossed=True), "fallback"),
        (passage(0.62, 0.3, 0.3, crossed=True), "rag"),
        (passage(0.62, 0.2, 0.2, crossed=True), "fallback"),
    ]),
    # Late interaction above the usual is added.
    ({"late_weight": 0.5}, "late", [
        (passage(0.7), "fallback"), (passage(0.7, late=0.06), "rag"),
        (passage(0.7, late=0.05), "fallback"), (passage(0.73, late=-0.01), "fallback"),
    ]),
    # The most similar sentence has a weight of its own.
    ({"sentence_share": 0.5}, "sentence", [
        (passage(0.73, crossed=True), "rag"),
        (passage(0.66, crossed=True, sentence=0.80), "rag"),
        (passage(0.66, crossed=True, sentence=0.79), "fallback"),
        (passage(0.80, crossed=True, sentence=0.65), "fallback"),
    ]),
    # Less is asked of a passage that has the names of the question.
    ({"name_weight": 0.04}, "has_names", [
        (passage(0.73), "rag"), (passage(0.72), "fallback"),
        (passage(0.69, has_names=True), "rag"), (passage(0.689, has_names=True), "fallback"),
        (passage(0.77, has_names=False), "rag"),
        (passage(0.769, has_names=False), "fallback"),
    ]),
])  # fmt: skip
def test_decide_explains_the_share_of_each_rule(
    rules: dict[str, float], member: str, rows: list[tuple[Candidate, str]]
) -> None:
    settings = DecisionSettings(evidence=replace(RULES, **rules))
    for part, mode in rows:
        decision = decide(Evidence(settings, 8, (part,), background=0.5))
        assert decision.mode == mode, part
        explained = decision.to_json()["evidence"].get(member, getattr(passage(0.0), member))
        assert explained == getattr(part, member)


def test_late_interaction_is_evidence_under_the_multilingual_model() -> None:
    [key] = [key for key in _SHIPPED if key[0] == "multilingual"]
    profile = other_profile(provider=key[0], model=key[1], revision=key[2])
    rules = AnswerRules().for_profile(profile, profile.calibration, Defaults.RECOMMENDED).evidence
    assert rules is not None
    assert (rules.threshold, rules.late_weight, rules.floor) == (0.348, 0.6, 0.0)
    assert (rules.usual_floor, rules.further_word_weight) == (0.047, 0.136)
    usual = {name: usual_late(profile, name, crossed=False) for name in ("en", "en-GB", "ja", "el")}
    assert usual == {"en": 0.66, "en-GB": 0.66, "ja": 0.54, "el": None}
    assert usual_late(profile, "en", crossed=True) == 0.42
    assert usual_late(other_profile(), "en", crossed=False) is None


def test_single_word_in_a_dissimilar_passage_is_not_evidence() -> None:
    settings = DecisionSettings(evidence=replace(RULES, floor=0.3, usual_floor=0.5))
    rows = [(0.4, 2, "rag"), (0.4, 1, "fallback"), (0.29, 2, "fallback"), (0.5, 1, "rag")]
    for similarity, words, mode in rows:
        part = passage(similarity, 1.0, 1.0, words=words)
        found = decide(Evidence(settings, 8, (part,), background=0.2))
        assert found.mode == mode, (similarity, words)


def test_dissimilar_passage_is_a_source_only_with_enough_evidence() -> None:
    settings = DecisionSettings(evidence=replace(RULES, floor=0.3, usual_floor=0.5))
    named = passage(0.4, 1.0, 1.0, 1, words=2, place=1)
    others = [passage(0.4, 0.1, 0.1, 2, place=0), passage(0.6, 0.1, 0.1, 3, place=2)]
    decision = decide(Evidence(settings, 8, (named, *others), background=0.4))
    assert decision.mode == "rag"
    assert {*decision.chosen} == {named.chunk_id, others[1].chunk_id}
    assert decide(Evidence(settings, 8, (*others,), background=0.4)).mode == "fallback"


def test_decide_includes_the_deciding_passage_of_the_ten_best() -> None:
    weak = [passage(0.6, 0.1, 0.1, number, place=number) for number in range(10)]
    strong = passage(0.55, 1.0, 1.0, 10, place=10)
    assert decided(*weak, strong).mode == "fallback"
    assert decided(*weak[1:], strong).mode == "rag"
    # Figures, which a model never gets, do not count among the ten.
    assert decided(replace(weak[0], kind=ChunkKind.FIGURE), *weak[1:], strong).mode == "rag"

    weak = [passage(0.6, 0.1, 0.1, number, place=number) for number in range(9)]
    strong = passage(0.55, 1.0, 1.0, 9, place=9)
    decision = decided(*weak, strong)
    assert len(decision.used_chunks) == SETTINGS.max_chunks == 6
    assert strong.chunk_id in decision.used_chunks
    best = {part.chunk_id for part in weak[: SETTINGS.max_chunks - 1]}
    assert best == {*decision.used_chunks} - {strong.chunk_id}


def test_decide_by_evidence_ignores_gates_and_query_length() -> None:
    part = passage(0.7, 1.0, 1.0)
    for words in (1, 8):
        decision = decide(Evidence(SETTINGS, words, (replace(part, characters=5),), background=0.5))
        assert decision.mode == "rag"
        assert decision.gates == ()
        assert not decision.thresholds.short_query_active
    assert search_floor(SETTINGS, 1) == RULES.floor


def test_decide_ignores_coverage_where_thresholds_decide() -> None:
    for similarity in (0.2, 0.3, 0.5, 0.55):
        plain, covered = (
            decide(Evidence(DecisionSettings(), 8, (replace(passage(similarity), coverage=words),)))
            for words in (None, Coverage(1.0, 1.0))
        )
        assert plain.to_json() == covered.to_json()


@proves("decision.evidence", "decision.explain-fields")
def test_explanation_has_the_numbers_of_the_best_passage() -> None:
    decision = decided(passage(0.6, 0.25, 0.1), missing_words=("insulin",))
    explained = decision.to_json()

    assert explained["reason"] == "too_little_evidence"
    assert explained["thresholds"] == {"low": 0.48, "high": 0.48}
    assert explained["max_score"] == pytest.approx(0.42)
    assert explained["evidence"] == {
        "score": explained["max_score"], "similarity": 0.6, "coverage": 0.25, "window": 0.1,
        "background": 0.5,
    }  # fmt: skip
    assert explained["missing_words"] == ["insulin"]
    assert explained["score_mode"] == "evidence"
    assert decided().to_json()["reason"] == "nothing_found"
    assert decided(passage(0.9, kind=ChunkKind.FIGURE)).to_json()["reason"] == "nothing_usable"


@proves("decision.evidence")
def test_refusal_names_the_words_that_no_passage_has() -> None:
    world = World(WorldId("w"), "w", None, 1, defaults=Defaults.RECOMMENDED)
    rows = {
        (): "No passage is close enough to the question",
        ("insulin",): "There are similar passages, but none about 'insulin'",
        ("insulin", "dose"): "There are similar passages, but none about 'insulin' or 'dose'",
        ("a", "b", "c"): "There are similar passages, but none about 'a', 'b' or 'c'",
    }
    for words, text in rows.items():
        decision = decided(passage(0.6), missing_words=words, fallback=ModelOutcome.ABSENT)
        assert explain_refusal(decision, Retrieved(world, Mode.HYBRID)) == (
            f"Nothing certain. {text}: the best evidence is 0.350, and 0.48 is needed."
        )


def test_records_without_evidence_omit_its_members() -> None:
    plain = evidence_to_json(
        Evidence(DecisionSettings(), 8, (replace(passage(0.5), coverage=None),))
    )
    assert not {"background", "cohort", "missing_words"} & plain.keys()
    assert "evidence" not in plain["settings"]
    assert not {"coverage", "foreign", "has_names"} & plain["candidates"][0].keys()


@each_row("wrong", [-0.1, 1.1, float("nan"), True, "all"])
def test_impossible_share_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        Coverage(wrong, 0.5)
    with pytest.raises(InvalidArgument):
        Coverage(0.5, wrong)
    with pytest.raises(InvalidArgument):
        EvidenceRules(wrong, 0.5, 0.2)


def test_evidence_and_raw_scores_are_refused_together() -> None:
    with pytest.raises(InvalidConfiguration, match="raw"):
        DecisionSettings(
            evidence=RULES, score_mode=ScoreMode.RAW, raw_cosine_low=0.1, raw_cosine_high=0.2
        )


# Rules of a model


def test_evidence_rules_of_the_bundled_model_are_the_measured_ones() -> None:
    assert evidence_rules(BUNDLED) == EvidenceRules(
        threshold=0.46, floor=0.3, word_weight=0.2, foreign_loss=0.02, crossed_words=0.091,
        name_weight=0.04, usual_floor=BUNDLED.calibrated_floor,
    )  # fmt: skip
    assert evidence_rules(BUNDLED, 0.6).threshold == 0.6
    weighed = evidence_rules(BUNDLED, weighs_late=True)
    assert (weighed.floor, weighed.late_weight) == (0.3, 0.454)


def test_evidence_rules_follow_the_scale_of_a_model() -> None:
    """A model with scaled and shifted similarities gives the same decisions."""
    other = replace(BUNDLED, unrelated_high=0.1, threshold_high=0.1 + 2 * 0.1609)
    rules = evidence_rules(other)

    def moved(similarity: float) -> float:
        return 0.1 + 2 * (similarity - BUNDLED.unrelated_high)

    for similarity, share, background in ((0.6, 0.4, 0.5), (0.7, 0.0, 0.45), (0.55, 0.8, 0.6)):
        own = similarity + 0.2 * share - 0.5 * background - 0.46
        found = moved(similarity) + rules.word_weight * share - 0.5 * moved(background)
        assert found - rules.threshold == pytest.approx(2 * own, abs=0.002)


def test_evidence_rules_of_a_model_that_separates_nothing_are_valid() -> None:
    for unrelated, high in ((0.9, 0.2), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)):
        found = evidence_rules(replace(BUNDLED, unrelated_high=unrelated, threshold_high=high))
        assert 0 < found.word_weight <= 1
        assert 0 < found.threshold <= 1


@proves("decision.evidence")
def test_rules_weigh_evidence_in_calibrated_recommended_worlds_only() -> None:
    profile, contract, recommended = other_profile(), Defaults.CONTRACT, Defaults.RECOMMENDED

    def evidence_of(
        measured: Calibration | None, defaults: Defaults, **rules: Any
    ) -> EvidenceRules | None:
        return AnswerRules(**rules).for_profile(profile, measured, defaults).evidence

    assert evidence_of(BUNDLED, recommended) == evidence_rules(BUNDLED)
    assert evidence_of(BUNDLED, recommended, min_evidence=0.5) == evidence_rules(BUNDLED, 0.5)
    assert evidence_of(None, recommended) is None
    assert evidence_of(BUNDLED, recommended, calibrated=False) is None
    assert evidence_of(BUNDLED, contract) is None
    assert evidence_of(BUNDLED, contract, calibrated=True) is None


# Background


def test_background_is_the_mean_of_the_highest_similarities() -> None:
    cohort = [0.4] * 300
    assert background_of(cohort, [], 0.5) == pytest.approx(0.4)
    # The ten closest chunks may answer the question; those below the floor are not close.
    assert background_of(cohort, [0.9] * 10, 0.5) == pytest.approx(0.4)
    assert background_of(cohort, [0.9] * 10 + [0.6] * 10, 0.5) == pytest.approx(0.5)
    assert background_of(cohort, [0.9] * 10 + [0.6] * 90, 0.5) == pytest.approx(0.6)
    assert background_of(cohort, [0.9] * 10 + [0.49] * 90, 0.5) == pytest.approx(0.4)
    assert background_of([], [0.9] * 12, 0.5) == pytest.approx(0.9)
    assert background_of([], [0.9] * 10, 0.5) is None


@each_row("wrong", [-1.5, 1.5, float("nan")])
def test_impossible_background_is_refused(wrong: float) -> None:
    with pytest.raises(InvalidArgument, match="background"):
        Evidence(SETTINGS, 8, background=wrong)
