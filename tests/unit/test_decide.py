"""The decision between the answer modes: the table, the settings, and the record."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.rows import each_row
from tests.unit.mode_table import ROWS, Row
from truespan.answers.decide import count_words, decide, search_floor
from truespan.errors import InvalidArgument
from truespan.types.chunk import ChunkKind
from truespan.types.decision import (
    Candidate,
    Decision,
    DecisionSettings,
    Evidence,
    ModelOutcome,
    Refusal,
    ScoreMode,
    Step,
)
from truespan.types.ids import ChunkId
from truespan.types.profile import Distance, float32, normalised, raw_score, shortest

LONG = 8
"""Words of a query that is not short."""


def chunk(name: str, similarity: float, characters: int = 200, **place: Any) -> Candidate:
    return Candidate(ChunkId(name), similarity, characters, **place)


def figure(name: str, similarity: float, **place: Any) -> Candidate:
    return chunk(name, similarity, kind=ChunkKind.FIGURE, **place)


def evidence(*candidates: Candidate, words: int = LONG, **more: Any) -> Evidence:
    return Evidence(DecisionSettings(), words, candidates, **more)


def decided(*candidates: Candidate, words: int = LONG, **more: Any) -> Decision:
    return decide(evidence(*candidates, words=words, **more))


def evidence_from_json(row: Row) -> Evidence:
    """Build a row's evidence; scores of dot products are written raw in the table."""
    dot = row.settings.get("distance") == "dot"
    candidates = tuple(
        Candidate(
            chunk_id=ChunkId(f"chunk-{place}"),
            similarity=(one.score + 1) / 2 if dot else one.score, characters=one.characters,
            kind=ChunkKind(one.kind), document=1, index=place, start=one.start,
        )
        for place, one in enumerate(row.chunks)
    )  # fmt: skip
    return Evidence(
        settings=DecisionSettings(**row.settings), query_words=row.words, candidates=candidates,
        reading=row.reading, primary=ModelOutcome(row.primary), fallback=ModelOutcome(row.fallback),
    )  # fmt: skip


# The table


@proves(
    "decision.rag", "decision.hybrid", "decision.fallback", "decision.hybrid-gates",
    "decision.used-llm", "decision.sources-used", "decision.short-query-tightens",
)  # fmt: skip
@each_row("row", ROWS)
def test_each_row_of_the_mode_table_is_decided(row: Row) -> None:
    explained = decide(evidence_from_json(row)).to_json()
    assert (
        explained["mode"], explained["reason"], explained["short_query_active"],
        explained["sources_used"], explained["used_llm"], explained["counts"]["used"],
    ) == row.expected  # fmt: skip


def test_mode_table_has_over_500_distinct_rows() -> None:
    assert len({str(row) for row in ROWS}) == len(ROWS) > 500


# Queries


@each_row(
    ("query", "words"),
    [("", 0), (" \t\n", 0), ("why", 1), ("who did it", 3), ("  who\tdid\nit\u00a0then ", 4)],
)
def test_words_are_separated_by_white_space(query: str, words: int) -> None:
    assert count_words(query) == words


@each_row(("settings", "words", "floor"), [
    ({}, LONG, 0.25),
    ({}, 3, 0.28),
    ({"threshold_low": 0.3}, 3, 0.3),
    ({"distance": "dot"}, LONG, 0.25),
    (
        {"score_mode": "raw", "distance": "dot", "raw_dot_low": -0.2, "raw_dot_high": 0.1}, 9, 0.4,
    ),
    ({"score_mode": "raw", "raw_cosine_low": -0.2, "raw_cosine_high": 0.55}, LONG, 0.0),
])  # fmt: skip
def test_search_floor_is_the_low_threshold(
    settings: dict[str, Any], words: int, floor: float
) -> None:
    assert search_floor(DecisionSettings(**settings), words) == pytest.approx(floor, abs=1e-12)


# Before and after the models


def test_decisions_ask_models_until_one_answers() -> None:
    asked = evidence(chunk("a", 0.6))
    told = replace(asked, primary=ModelOutcome.NO_CONTEXT)
    answered = replace(told, fallback=ModelOutcome.ANSWERED)
    steps = [decide(one) for one in (asked, told, answered)]
    assert [one.step for one in steps] == [Step.ASK_PRIMARY, Step.ASK_FALLBACK, Step.DELIVER]
    assert [one.mode for one in steps] == ["rag", "fallback", "fallback"]
    assert [one.used_llm for one in steps] == ["none", "none", "fallback"]
    assert [one.used_chunks for one in steps] == [("a",), (), ()]


def test_primary_answer_changes_only_the_used_model() -> None:
    asked = evidence(chunk("a", 0.52), chunk("b", 0.4))
    before = decide(asked).to_json()
    after = decide(replace(asked, primary=ModelOutcome.ANSWERED)).to_json()
    assert {name for name in before if before[name] != after[name]} == {"used_llm", "models"}
    decision = decided(chunk("a", 0.6), primary=ModelOutcome.ABSENT)
    assert (decision.step, decision.used_llm, decision.used_chunks) == ("quote", "none", ("a",))


@each_row("fallback", list(ModelOutcome))
@each_row("primary", [ModelOutcome.BLANK, ModelOutcome.NO_CONTEXT])
def test_reader_never_gets_a_fallback_answer(primary: ModelOutcome, fallback: ModelOutcome) -> None:
    decision = decided(chunk("a", 0.9), reading=True, primary=primary, fallback=fallback)
    assert (decision.mode, decision.used_llm) == ("fallback", "none")
    assert (decision.step, decision.refusal) == (Step.REFUSE, Refusal.READING)


@each_row(("fallback", "step", "refusal"), [
    ("not_run", "ask_fallback", None), ("answered", "deliver", None),
    ("absent", "refuse", "no_fallback_model"), ("blank", "refuse", "fallback_silent"),
    ("no_context", "refuse", "fallback_silent"),
])  # fmt: skip
def test_blank_fallback_is_a_refusal_with_a_reason(fallback: str, step: str, refusal: str | None):
    decision = decided(fallback=ModelOutcome(fallback))
    assert (decision.step, decision.refusal) == (step, refusal)


# What a decision says


@proves("decision.metadata-sorted")
def test_characters_of_tables_count_toward_the_limit() -> None:
    limit = DecisionSettings().max_context_chars

    def verdicts(*added: int) -> list[str]:
        sizes = limit - 200, 100
        parts = [
            chunk(f"c{number}", 0.9, size, added=more, document=number)
            for number, (size, more) in enumerate(zip(sizes, added, strict=True))
        ]
        return [one.verdict.value for one in decided(*parts).retrieved]

    assert verdicts(50, 50) == ["returned", "returned"]
    assert verdicts(51, 50) == ["returned", "over_budget"]
    assert verdicts(50, 51) == ["returned", "over_budget"]
    assert verdicts(200, 0) == ["returned", "over_budget"]
    assert verdicts(201, 0) == ["over_budget", "returned"]


def test_retrieved_chunks_are_listed_and_figures_do_not_raise_the_mode() -> None:
    given = [
        chunk("d", 0.3, document=1, index=1), chunk("c", 0.5, document=2, index=0),
        chunk("b", 0.5, document=1, index=9), chunk("a", 0.5000001, document=1, index=10),
        figure("f", 0.7, document=3), chunk("e", 0.1, document=1, index=0),
    ]  # fmt: skip
    decision = decided(*given)
    assert [one.candidate.chunk_id for one in decision.retrieved] == [*"fbacde"]
    assert decision.used_chunks == (*"bacd",)

    decision = decided(figure("f", 0.9), chunk("a", 0.52))
    assert decision.max_similarity == 0.52
    assert [(one.candidate.chunk_id, one.verdict) for one in decision.retrieved] == [
        ("f", "excluded_kind"),
        ("a", "returned"),
    ]


def test_each_omitted_chunk_has_a_reason() -> None:
    decision = decide(
        Evidence(
            DecisionSettings(max_chunks=2, max_context_chars=500),
            LONG,
            (
                figure("figure", 0.9), chunk("too large", 0.8, 501),
                chunk("first", 0.7, 300, start=0), chunk("within first", 0.6, 100, start=50),
                chunk("no room", 0.5, 201, start=900), chunk("second", 0.4, 200, start=250),
                chunk("no place", 0.3, 1, start=700), chunk("too far", 0.2, 10, start=800),
            ),
        )
    )  # fmt: skip

    assert {one.candidate.chunk_id: one.verdict.value for one in decision.retrieved} == {
        "figure": "excluded_kind", "too large": "over_budget", "first": "returned",
        "within first": "duplicate_passage", "no room": "over_budget", "second": "returned",
        "no place": "over_budget", "too far": "below_floor",
    }  # fmt: skip
    assert decision.context_characters == 450


def test_more_chunks_than_the_limit_are_outranked() -> None:
    decision = decided(*(chunk(str(place), 0.6, index=place) for place in range(8)))
    assert decision.left_out == {"outranked": 2}
    assert decision.used_chunks == (*"012345",)


@proves("decision.hybrid-gates")
def test_every_gate_that_failed_is_named() -> None:
    explained = decided(chunk("a", 0.4, 99)).to_json()
    assert explained["gates"] == [
        {"name": "min_similarity_for_hybrid", "needed": 0.5, "found": 0.4, "held": False},
        {"name": "min_chunks_for_hybrid", "needed": 1, "found": 1, "held": True},
        {"name": "min_total_context_chars", "needed": 100, "found": 99, "held": False},
    ]


@each_row("similarity", [0.9, 0.1])
def test_gates_are_checked_only_between_the_thresholds(similarity: float) -> None:
    assert decided(chunk("a", similarity, 1)).gates == ()


@proves("decision.explain-fields")
def test_explanation_has_every_member() -> None:
    explained = decided(
        figure("f", 0.9), chunk("a", 0.52), words=3, retrieval_target="main",
        effective_query="hmac:1f", primary=ModelOutcome.ANSWERED, fallback=ModelOutcome.ABSENT,
    ).to_json()  # fmt: skip

    assert [gate.pop("held") for gate in explained.pop("gates")] == [True] * 3
    assert explained == {
        "mode": "hybrid", "reason": "gates_held", "refusal": None, "used_llm": "primary",
        "sources_used": "partial", "thresholds": {"low": 0.28, "high": 0.58},
        "short_query_active": True, "score_mode": "normalized", "distance": "cosine",
        "max_similarity": 0.52, "max_score": 0.52,
        "counts": {"retrieved": 2, "chosen": 1, "used": 1, "context_characters": 200},
        "left_out": {"excluded_kind": 1}, "models": {"primary": "answered", "fallback": "absent"},
        "reading": False, "retrieval_target": "main", "effective_query": "hmac:1f",
    }  # fmt: skip


def test_explanations_have_equal_members_and_agreeing_numbers() -> None:
    nothing, something = decided().to_json(), decided(chunk("a", 0.6)).to_json()
    assert nothing.keys() == something.keys()
    assert (nothing["max_similarity"], nothing["max_score"]) == (None, None)
    just_below = 0.5499999523162842
    explained = decided(chunk("a", just_below)).to_json()
    assert explained["mode"] == "hybrid"
    assert explained["max_similarity"] == 0.54999995 < explained["thresholds"]["high"] == 0.55
    assert shortest(float32(0.58)) == 0.58 != float32(0.58)


@each_row(("similarity", "shown"), [(1.0000002, 1.0), (-0.25, 0.0)])
def test_shown_best_similarity_is_between_0_and_1(similarity: float, shown: float):
    assert decided(chunk("a", similarity)).max_similarity == shown


@each_row(("raw", "similarity"), [(-1.0, 0.0), (0.0, 0.5), (0.1, 0.55), (1.0, 1.0)])
def test_dot_product_becomes_a_similarity_and_back(raw: float, similarity: float) -> None:
    assert normalised(raw, Distance.DOT) == pytest.approx(similarity)
    assert raw_score(similarity, Distance.DOT) == pytest.approx(raw)
    assert normalised(raw, Distance.COSINE) == raw == raw_score(raw, Distance.COSINE)


def test_raw_mode_applies_to_thresholds_only() -> None:
    settings = DecisionSettings(
        score_mode=ScoreMode.RAW, distance=Distance.DOT, raw_dot_low=-0.5, raw_dot_high=0.1
    )
    explained = decide(Evidence(settings, 3, (chunk("a", 0.52),))).to_json()
    assert explained["thresholds"] == {"low": -0.44, "high": 0.16}
    assert (explained["max_similarity"], explained["max_score"]) == (0.52, 0.04)
    assert explained["gates"][0]["found"] == 0.52
    assert explained["score_mode"] == "raw"
    assert explained["distance"] == "dot"


@each_row("similarity", [float("nan"), float("inf"), True, "0.5", None])
def test_candidate_without_a_finite_similarity_is_refused(similarity: Any) -> None:
    with pytest.raises(InvalidArgument):
        chunk("a", similarity)


@each_row("wrong", [{"characters": -1}, {"characters": True}, {"start": -1}])
def test_candidate_with_impossible_counts_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Candidate(**{"chunk_id": "a", "similarity": 0.5, "characters": 1, **wrong})
