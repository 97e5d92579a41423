"""Laws of the decision between the answer modes, over any settings, hits and outcomes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.examples import examples
from tests.promises import proves
from truespan.answers.decide import decide, search_floor, thresholds_for
from truespan.errors import InvalidConfiguration
from truespan.types.chunk import ChunkKind
from truespan.types.decision import (
    AnswerMode,
    Candidate,
    Coverage,
    Decision,
    DecisionSettings,
    Evidence,
    EvidenceRules,
    ModelOutcome,
    ScoreMode,
)
from truespan.types.ids import ChunkId
from truespan.types.profile import Distance, float32, normalised, raw_score, shortest

STANDING = {AnswerMode.FALLBACK: 0, AnswerMode.HYBRID: 1, AnswerMode.RAG: 2}
USABLE = [ModelOutcome.NOT_RUN, ModelOutcome.ABSENT, ModelOutcome.ANSWERED]
often = examples(100)

similarities = st.one_of(
    st.sampled_from([0.0, 0.25, 0.28, 0.499999, 0.5, 0.549999, 0.55, 0.57, 0.58, 0.9, 1.0]),
    st.floats(0.2, 0.7).map(lambda number: round(number, 6)),
    st.floats(-0.2, 1.0).map(lambda number: round(number, 2)),
)
"""Numbers of six decimals, as results are ordered by: nearer ones are ties by design."""
sizes = st.one_of(st.integers(0, 300), st.integers(0, 9000), st.sampled_from([99, 100, 8000, 8001]))
shares = st.sampled_from([0.0, 0.29, 0.3, 0.5, 1.0])
pairs = st.tuples(similarities, similarities).map(lambda pair: sorted(abs(one) for one in pair))


@st.composite
def any_settings(draw: st.DrawFn) -> DecisionSettings:
    usual, short = draw(pairs), draw(pairs)
    distance, chunks, characters = (
        draw(st.sampled_from(Distance)),
        draw(st.integers(0, 4)),
        draw(st.integers(0, 500)),
    )
    members: dict[str, Any] = {
        "threshold_low": usual[0],
        "threshold_high": usual[1],
        "short_query_threshold_low": short[0],
        "short_query_threshold_high": short[1],
        "short_query_max_tokens": draw(st.integers(0, 5)),
        "min_similarity_for_hybrid": draw(st.floats(0, 0.5)),
        "min_chunks_for_hybrid": chunks,
        "min_total_context_chars": characters,
        "max_chunks": draw(st.integers(max(chunks, 1), 8)),
        "max_context_chars": draw(st.integers(max(characters, 1), 8000)),
        "exclude_chunk_types_from_llm": draw(st.sampled_from([(), ("figure",), ("text",)])),
        "score_mode": draw(st.sampled_from(ScoreMode)),
        "distance": distance,
        f"raw_{distance}_low": raw_score(usual[0], distance),
        f"raw_{distance}_high": raw_score(usual[1], distance),
    }
    try:
        return DecisionSettings(**members)
    except InvalidConfiguration:
        peace = {"short_query_max_tokens": 0, "min_similarity_for_hybrid": 0.0}
        return DecisionSettings(**members | peace)


@st.composite
def any_candidates(draw: st.DrawFn) -> tuple[Candidate, ...]:
    shapes = st.tuples(
        similarities,
        sizes,
        st.sampled_from([ChunkKind.TEXT] * 3 + [ChunkKind.FIGURE]),
        st.integers(1, 3),
        st.integers(0, 4),
        st.one_of(st.none(), st.integers(0, 400)),
        st.none(),
        st.one_of(st.none(), st.builds(Coverage, shares, shares, words=st.integers(0, 3))),
    )
    drawn = draw(st.lists(shapes, max_size=12))
    return tuple(Candidate(ChunkId(f"chunk-{place}"), *shape) for place, shape in enumerate(drawn))


cases = st.builds(
    Evidence,
    settings=st.one_of(st.just(DecisionSettings()), any_settings()),
    query_words=st.integers(0, 7),
    candidates=any_candidates(),
    reading=st.booleans(),
    primary=st.sampled_from(ModelOutcome),
    fallback=st.sampled_from(ModelOutcome),
    retrieval_target=st.text(max_size=5),
    effective_query=st.text(max_size=5),
)


def standing(decision: Decision) -> int:
    return STANDING[decision.mode]


def given_to_models(case: Evidence) -> list[Candidate]:
    """Return the candidates that a model may get, determined without the code under test."""
    allowed = [kind for kind in ChunkKind if kind not in case.settings.exclude_chunk_types_from_llm]
    most = case.settings.max_context_chars
    return [one for one in case.candidates if one.kind in allowed and 0 < one.characters <= most]


@often
@given(cases, st.data())
def test_higher_similarity_never_replaces_rag(case: Evidence, draw: st.DataObject) -> None:
    excluded = case.settings.exclude_chunk_types_from_llm
    kind = next(kind for kind in ChunkKind if kind not in excluded)
    high = thresholds_for(case.settings, case.query_words).high
    enough = Candidate(ChunkId("enough"), case.settings.to_similarity(high) + 1e-7, 1, kind)
    before = replace(
        case, candidates=(*case.candidates, enough), primary=draw.draw(st.sampled_from(USABLE))
    )
    place = draw.draw(st.integers(0, len(case.candidates)))
    found = before.candidates[place]
    raised = replace(found, similarity=draw.draw(st.floats(found.similarity, 1.0001)))
    changed = tuple(raised if one is found else one for one in before.candidates)

    assert decide(before).mode is AnswerMode.RAG
    assert decide(replace(before, candidates=changed)).mode is AnswerMode.RAG


@often
@given(cases, st.floats(0, 0.5))
def test_higher_best_similarity_never_lowers_the_mode(case: Evidence, rise: float) -> None:
    usable = given_to_models(case)
    ranked = [one.candidate for one in decide(case).retrieved]
    best = min(usable, key=ranked.index, default=None)
    if best is None:
        return
    raised = replace(best, similarity=best.similarity + rise)
    changed = tuple(raised if one is best else one for one in case.candidates)

    assert standing(decide(replace(case, candidates=changed))) >= standing(decide(case))


@proves("decision.short-query-tightens")
@often
@given(any_settings(), st.integers(0, 7))
def test_short_query_never_loosens_thresholds(rules: DecisionSettings, words: int) -> None:
    usual = thresholds_for(rules, rules.short_query_max_tokens + 1)
    found = thresholds_for(rules, words)

    assert found.short_query_active == (words <= rules.short_query_max_tokens)
    assert usual.low <= found.low <= found.high
    assert usual.high <= found.high
    assert found.short_query_active or found == usual
    assert 0 <= search_floor(rules, words) <= 1


@often
@given(cases)
def test_short_query_never_raises_the_mode(case: Evidence) -> None:
    most = case.settings.short_query_max_tokens

    short, usual = (decide(replace(case, query_words=words)) for words in (most, most + 1))

    assert standing(short) <= standing(usual)
    assert set(short.chosen) <= set(usual.chosen)


@often
@given(cases)
def test_excluded_kinds_change_neither_chosen_text_nor_mode(case: Evidence) -> None:
    excluded = case.settings.exclude_chunk_types_from_llm
    others = tuple(one for one in case.candidates if one.kind not in excluded)

    found, alone = decide(case), decide(replace(case, candidates=others))

    assert found.chosen == alone.chosen
    assert (found.mode, found.max_similarity) == (alone.mode, alone.max_similarity)
    assert found.gates == alone.gates


@often
@given(cases, st.randoms(use_true_random=False))
def test_order_of_candidates_has_no_effect(case: Evidence, chance: Any) -> None:
    shuffled = list(case.candidates)
    chance.shuffle(shuffled)

    found = decide(replace(case, candidates=tuple(shuffled)))

    assert replace(found, evidence=case) == decide(case)


@often
@given(cases, st.randoms())
def test_word_scores_choose_chunks_and_never_the_mode(case: Evidence, chance: Any) -> None:
    places = list(range(len(case.candidates)))
    chance.shuffle(places)
    pairs = zip(case.candidates, places, strict=True)
    fused = replace(case, candidates=tuple(replace(one, place=turn) for one, turn in pairs))
    plain, blended = decide(case), decide(fused)

    assert (blended.mode, blended.reason, blended.step) == (plain.mode, plain.reason, plain.step)
    assert (blended.gates, blended.max_score) == (plain.gates, plain.max_score)
    order = [one.candidate.chunk_id for one in plain.retrieved]
    assert [one.candidate.chunk_id for one in blended.retrieved] == order


@proves("decision.used-among-retrieved")
@often
@given(cases)
def test_used_chunks_are_retrieved_allowed_and_within_limits(case: Evidence) -> None:
    decision = decide(case)
    ranked = [one.candidate for one in decision.retrieved]
    used = [one for one in ranked if one.chunk_id in decision.used_chunks]

    assert sorted(ranked, key=lambda one: -one.similarity) == ranked
    assert set(ranked) == set(case.candidates)
    assert len(used) == len(decision.used_chunks) <= case.settings.max_chunks
    assert sum(one.characters for one in used) <= case.settings.max_context_chars
    assert all(one in given_to_models(case) for one in used)
    assert decision.sources_used == (
        "none" if not used else "all" if len(used) == len(ranked) else "partial"
    )


@often
@given(cases)
def test_shared_characters_of_chunks_count_once(case: Evidence) -> None:
    decision = decide(case)
    chosen = [one for one in case.candidates if one.chunk_id in decision.chosen]
    standing_in_text = {
        (one.document, place)
        for one in chosen
        if one.start is not None
        for place in range(one.start, one.start + one.characters)
    }
    apart = sum(one.characters for one in chosen if one.start is None)

    assert decision.context_characters == len(standing_in_text) + apart


@proves("decision.rag", "decision.hybrid", "decision.fallback")
@often
@given(cases)
def test_mode_follows_from_best_score_gates_and_reply(case: Evidence) -> None:
    decision = decide(case)
    best = decision.to_json()["max_score"]
    low, high = decision.to_json()["thresholds"].values()
    silent = case.primary in (ModelOutcome.BLANK, ModelOutcome.NO_CONTEXT)

    usable = given_to_models(case)
    assert (best is None) == (not usable)
    between = best is not None and low <= best < high
    held = all(gate.held for gate in decision.gates)
    assert bool(decision.gates) == between
    assert (decision.mode == "rag") == (best is not None and best >= high and not silent)
    assert (decision.mode == "hybrid") == (between and held and not silent)
    assert bool(decision.used_chunks) == (decision.mode != "fallback")


@often
@given(cases)
def test_reader_never_gets_a_fallback_answer(case: Evidence) -> None:
    decision = decide(replace(case, reading=True))

    assert decision.used_llm != "fallback"
    assert decision.step != "ask_fallback"
    assert (decision.step == "refuse") == (decision.mode == "fallback")


@often
@given(st.integers(-(2**24), 2**24), st.sampled_from(Distance))
def test_raw_score_can_be_recovered_from_a_similarity(steps: int, distance: Distance) -> None:
    raw = steps / 2**24
    similarity = normalised(raw, distance)

    assert distance is Distance.COSINE or 0 <= similarity <= 1
    assert raw_score(similarity, distance) == raw


@often
@given(st.floats(-2, 2, width=32), st.floats(-2, 2, width=32))
def test_shown_numbers_have_the_order_of_the_compared_ones(one: float, other: float) -> None:
    assert (shortest(one) < shortest(other)) == (one < other)
    assert float32(shortest(one)) == one


# Evidence


def with_rules(case: Evidence, *rules: float, usual_floor: float = 0.0) -> Evidence:
    evidence = EvidenceRules(*rules, usual_floor=usual_floor)
    settings = replace(case.settings, score_mode=ScoreMode.NORMALIZED, evidence=evidence)
    return replace(case, settings=settings)


weighed = st.builds(
    lambda case, rules, usual, background: replace(
        with_rules(case, *rules, usual_floor=usual), background=background
    ),
    cases,
    st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.3, 0.5]), st.floats(0, 1)),
    st.sampled_from([0.0, 0.4, 0.6]),
    st.one_of(st.none(), st.floats(-0.2, 1)),
)


@proves("decision.evidence")
@often
@given(weighed)
def test_evidence_decides_between_rag_and_fallback(case: Evidence) -> None:
    decision = decide(case)
    explained, silent = decision.to_json(), case.primary not in USABLE
    best, needed = explained["max_score"], explained["thresholds"]["high"]

    assert (decision.mode == "rag") == (best is not None and best >= needed and not silent)
    assert decision.mode != "hybrid"
    assert bool(decision.used_chunks) == (decision.mode == "rag")


@proves("decision.evidence")
@often
@given(weighed, st.data())
def test_more_evidence_never_turns_an_answer_into_a_refusal(
    case: Evidence, draw: st.DataObject
) -> None:
    if not case.candidates:
        return
    # The order of the search stays: a passage is among the ten best before and after.
    placed = tuple(replace(one, place=n) for n, one in enumerate(case.candidates))
    found = draw.draw(st.sampled_from(placed))
    words = found.coverage or Coverage()
    raised = replace(
        found,
        similarity=found.similarity + draw.draw(st.floats(0, 0.2)),
        coverage=Coverage(
            max(words.share, draw.draw(shares)),
            max(words.window, 0.5),
            words=words.words + draw.draw(st.integers(0, 2)),
        ),
    )
    changed = tuple(raised if one is found else one for one in placed)
    lower = (case.background or 0.0) - draw.draw(st.floats(0, 0.1))

    before = decide(replace(case, candidates=placed))
    after = decide(replace(case, candidates=changed, background=lower))
    assert standing(after) >= standing(before)


@often
@given(weighed, st.randoms(use_true_random=False))
def test_evidence_depends_on_neither_order_nor_excluded_kinds(case: Evidence, chance: Any) -> None:
    shuffled = list(case.candidates)
    chance.shuffle(shuffled)
    excluded = case.settings.exclude_chunk_types_from_llm
    others = tuple(one for one in case.candidates if one.kind not in excluded)

    decision = decide(case)
    assert replace(decide(replace(case, candidates=tuple(shuffled))), evidence=case) == decision
    alone = decide(replace(case, candidates=others))
    assert (alone.mode, alone.found, alone.chosen) == (
        decision.mode,
        decision.found,
        decision.chosen,
    )
