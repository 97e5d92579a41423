"""Answers of a world, end to end: mode, text, reasons, and records."""

from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.answer_worlds import QUESTION, Scripted, scored, study
from truespan.errors import ProviderUnavailable
from truespan.types.answer import Answer
from truespan.types.decision import SourcesUsed

BOTH_DEFAULTS = True
SAID = "It hung on hook seven [1]."


def asked(folder: Path, *scores: float, query: str = QUESTION, **models: Any) -> Answer:
    """Ask a world with passages of these similarities."""
    room = study(folder, **{"primary": Scripted(SAID), **models})
    room.scores(*scores)
    return room.world.answer(query)


def outcome(answer: Answer) -> tuple[str, str]:
    assert answer.mode == answer.decision_explain["mode"]
    return answer.mode.value, answer.decision_explain["reason"]


@proves("decision.rag", "decision.hybrid", "decision.hybrid-gates")
@pytest.mark.parametrize(
    ("best", "expected"),
    [
        *((best, ("rag", "reached_high")) for best in (0.55, 0.550001, 0.7, 1.0)),
        *((best, ("hybrid", "gates_held")) for best in (0.549999, 0.52, 0.5)),
    ],
)
def test_best_passage_decides_between_rag_and_hybrid(
    tmp_path: Path, best: float, expected: tuple[str, str]
) -> None:
    answer = asked(tmp_path, 0.3, best, 0.26)

    assert outcome(answer) == expected
    assert all(gate["held"] for gate in answer.decision_explain["gates"])
    assert answer.answer == SAID


@proves("decision.hybrid-gates", "decision.fallback")
@pytest.mark.parametrize(
    ("rule", "failed"),
    [
        ({"min_similarity_for_hybrid": 0.53}, "min_similarity_for_hybrid"),
        ({"min_chunks_for_hybrid": 2}, "min_chunks_for_hybrid"),
        ({"min_total_context_chars": 5000}, "min_total_context_chars"),
    ],
)
def test_single_failed_gate_causes_a_fallback(
    tmp_path: Path, rule: dict[str, Any], failed: str
) -> None:
    room = study(tmp_path, primary=Scripted(SAID), fallback=Scripted("In general, a hook."))
    room.scores(0.52)

    answer = room.with_rules(**rule).answer(QUESTION)

    assert outcome(answer) == ("fallback", "gate_failed")
    gates = answer.decision_explain["gates"]
    assert [gate["name"] for gate in gates if not gate["held"]] == [failed]
    assert room.primary.asked == []
    assert answer.answer == "In general, a hook."


@proves("decision.fallback", "decision.used-llm")
@pytest.mark.parametrize(
    ("scores", "reply", "reason"),
    [
        ((), SAID, "nothing_found"),
        ((0.24, 0.1), SAID, "nothing_found"),
        ((0.3,), SAID, "gate_failed"),
        ((0.7,), "", "primary_blank"),
        ((0.7,), " \n\t", "primary_blank"),
        ((0.7,), "NO_CONTEXT", "primary_no_context"),
        ((0.52,), "**no_context**.\n", "primary_no_context"),
    ],
)
def test_fallback_has_the_words_of_its_model_and_no_sources(
    tmp_path: Path, scores: tuple[float, ...], reply: str, reason: str
) -> None:
    fallback = Scripted("On a hook, I suppose.", name="test/fallback")
    answer = asked(tmp_path, *scores, primary=Scripted(reply), fallback=fallback)

    assert outcome(answer) == ("fallback", reason)
    assert answer.decision_explain["used_llm"] == "fallback"
    assert answer.answer == "On a hook, I suppose."
    assert (answer.used_chunks, answer.citations, answer.sources_used) == ((), (), "none")


@proves("decision.fallback")
def test_excluded_kinds_alone_are_nothing_usable(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID), fallback=Scripted("Perhaps."))
    room.scores(0.9)
    rules = {"exclude_chunk_types_from_llm": ("figure",), "max_context_chars": 100}

    answer = room.with_rules(**rules).answer(QUESTION)

    assert outcome(answer) == ("fallback", "nothing_usable")
    assert answer.retrieved_chunks_metadata[0].verdict == "over_budget"


@proves("decision.used-llm")
def test_fallback_model_gets_the_question_and_no_context(tmp_path: Path) -> None:
    fallback = Scripted("Perhaps.")
    asked(tmp_path, 0.7, primary=Scripted("NO_CONTEXT"), fallback=fallback)

    assert fallback.asked[0][-1].text == QUESTION
    assert "Passage 0" not in fallback.prompt
    assert "BEGIN SOURCE" not in fallback.prompt


@proves("decision.used-llm")
@pytest.mark.parametrize(
    ("models", "scores", "refusal", "words"),
    [
        ({}, (), "no_fallback_model", "No passage was found"),
        ({"primary": Scripted("")}, (0.7,), "no_fallback_model", "returned no text"),
        ({"fallback": Scripted(" ")}, (), "fallback_silent", "had no answer"),
        ({"fallback": Scripted("NO_CONTEXT")}, (0.1,), "fallback_silent", "had no answer"),
    ],
)
def test_answer_without_a_model_reply_is_a_refusal(
    tmp_path: Path, models: dict[str, Any], scores: tuple[float, ...], refusal: str, words: str
) -> None:
    answer = asked(tmp_path, *scores, **models)

    assert answer.decision_explain["refusal"] == refusal
    assert answer.decision_explain["used_llm"] == "none"
    assert words in answer.answer
    assert (answer.citations, answer.quotes) == ((), ())


@proves("answers.generated-queries")
def test_answer_asks_the_model_once_and_searches_for_the_question(tmp_path: Path) -> None:
    model = Scripted("The key hangs on hook seven [1].")

    answer = asked(tmp_path, 0.7, primary=model)

    assert len(model.asked) == 1
    assert model.asked[0][-1].text.endswith(QUESTION)
    assert answer.decision_explain["effective_query"] == QUESTION


@pytest.mark.contract
@proves("decision.used-llm")
@pytest.mark.parametrize("best", [0.52, 0.8])
def test_without_a_model_the_passages_are_quoted_and_cited(tmp_path: Path, best: float) -> None:
    room = study(tmp_path)
    room.add(a__txt=scored(best, "The key hangs on hook seven."), b__txt=scored(0.4, "A lamp."))

    answer = room.world.answer(QUESTION)

    assert answer.decision_explain["used_llm"] == "none"
    assert answer.answer.startswith("> The key hangs on hook seven.")
    assert "[1] a.txt" in answer.answer
    assert "[2] b.txt" in answer.answer
    assert [citation.source for citation in answer.citations] == ["a.txt", "b.txt"]
    assert all(quote.verified for quote in answer.quotes)
    assert len(answer.quotes) == 2
    assert answer.warnings == ()


@proves("decision.sources-used")
@pytest.mark.parametrize(
    ("scores", "rules", "used"),
    [
        ((0.7, 0.6, 0.3), {}, SourcesUsed.ALL),
        ((0.7, 0.6, 0.3), {"max_chunks": 2}, SourcesUsed.PARTIAL),
        ((0.7, 0.6, 0.3), {"max_context_chars": 500}, SourcesUsed.PARTIAL),
        ((0.3,), {}, SourcesUsed.NONE),
    ],
)
def test_sources_are_all_partial_or_none(
    tmp_path: Path, scores: tuple[float, ...], rules: dict[str, Any], used: SourcesUsed
) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(*scores)

    answer = room.with_rules(**rules).answer(QUESTION)

    assert answer.sources_used is used
    assert answer.decision_explain["sources_used"] == used


@proves("decision.short-query-tightens")
@pytest.mark.parametrize(
    ("query", "best", "mode", "tightened"),
    [
        ("who held it?", 0.56, "hybrid", True),
        ("  who\theld\u2003it?  ", 0.56, "hybrid", True),
        ("who held it now?", 0.56, "rag", False),
        ("keys", 0.58, "rag", True),
    ],
)
def test_short_query_has_stricter_thresholds(
    tmp_path: Path, query: str, best: float, mode: str, tightened: bool
) -> None:
    answer = asked(tmp_path, best, query=query)

    assert answer.mode == mode
    assert answer.decision_explain["short_query_active"] is tightened
    limits = {"low": 0.28, "high": 0.58} if tightened else {"low": 0.25, "high": 0.55}
    assert answer.decision_explain["thresholds"] == limits


@proves("decision.short-query-tightens", "decision.short-query-one-request")
def test_tightened_thresholds_apply_to_one_request(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.7, 0.27)

    assert len(room.world.answer("keys").retrieved_chunks_metadata) == 1
    assert len(room.world.answer(QUESTION).retrieved_chunks_metadata) == 2

    room.scores(0.56)

    modes = [room.world.answer(query).mode for query in (QUESTION, "keys", QUESTION, "keys")]

    assert modes == ["rag", "hybrid", "rag", "hybrid"]


@proves("decision.metadata-sorted", "decision.used-among-retrieved")
def test_retrieved_chunks_are_sorted_and_include_the_used(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.3, 0.9, 0.5, 0.26, 0.7, 0.65, 0.6, 0.4)

    answer = room.world.answer(QUESTION)

    notes = answer.retrieved_chunks_metadata
    assert [note.similarity for note in notes] == [0.9, 0.7, 0.65, 0.6, 0.5, 0.4, 0.3, 0.26]
    returned = tuple(note.chunk_id for note in notes if note.verdict == "returned")
    assert answer.used_chunks == returned == tuple(note.chunk_id for note in notes[:6])
    assert {note.verdict.value for note in notes[6:]} == {"outranked"}


@proves("decision.used-among-retrieved")
@pytest.mark.parametrize(
    ("defaults", "first"), [("recommended", "The spare key"), ("contract", "Fog lay")]
)
def test_sources_are_in_the_order_of_the_search_or_of_the_contract(
    tmp_path: Path, defaults: str, first: str
) -> None:
    model = Scripted("He did [1].")
    room = study(tmp_path, primary=model)
    room.world.set_defaults(defaults)
    room.add(
        a__txt=scored(0.8, "Fog lay on the pier."),
        b__txt=scored(0.7, "The spare key to the hut was held by the porter."),
    )

    answer = room.world.answer(QUESTION, mode="hybrid")

    _, _, source = model.asked[-1][-1].text.partition("Text:\n")
    assert source.startswith(first)
    assert [note.similarity for note in answer.retrieved_chunks_metadata] == [0.8, 0.7]


@proves("decision.metadata-sorted")
def test_preview_is_cut_at_a_word_within_200_characters(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    words = " ".join(f"word{number:03}" for number in range(60))
    room.add(a__txt=scored(0.8, words), b__txt=scored(0.7, "x" * 300))

    long, unbroken = room.world.answer(QUESTION).retrieved_chunks_metadata

    assert len(long.text) <= 200
    assert words.startswith(long.text)
    assert words[len(long.text)] == " "
    assert unbroken.text == "x" * 200


@proves("decision.explain-logged")
def test_log_has_the_explanation_with_a_marked_query_and_no_text(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.7)

    answer = room.world.answer(f"  {QUESTION} ")

    (record,) = room.world.usage()
    assert record.id == answer.record
    mark = f"marked:{len(room.world.id)}:{len(QUESTION)}"
    assert record.decision_explain == {**answer.decision_explain, "effective_query": mark}
    assert (record.mode, record.primary_model, record.fallback_model) == ("rag", "test/model", None)
    kept = str(room.log)
    assert not any(words in kept for words in (QUESTION, "spare key", "Passage 0", SAID, "p0.txt"))


@proves("decision.explain-logged")
def test_log_has_the_query_only_if_configured(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.7)

    room.with_rules(log_queries=True).answer(QUESTION)

    (record,) = room.world.usage()
    assert record.decision_explain["effective_query"] == QUESTION
    assert record.evidence["effective_query"] == QUESTION


@proves("decision.fallback")
@pytest.mark.parametrize("where", [0, 1, 3])
def test_failed_provider_is_an_error_without_fallback_or_log(tmp_path: Path, where: int) -> None:
    pieces: list[str | Exception] = ["It ", "hung ", "there."]
    pieces.insert(where, ProviderUnavailable("The chat model did not answer."))
    room = study(tmp_path, primary=Scripted(pieces), fallback=Scripted("Perhaps."))
    room.scores(0.7)

    with pytest.raises(ProviderUnavailable):
        room.world.answer(QUESTION)

    assert room.fallback.asked == []
    assert room.log == []
    assert room.primary.closed == 1


@proves("decision.fallback")
def test_failed_fallback_model_is_an_error(tmp_path: Path) -> None:
    broken = Scripted(["Perhaps ", ProviderUnavailable("It broke off.")])
    room = study(tmp_path, primary=Scripted(SAID), fallback=broken)

    with pytest.raises(ProviderUnavailable):
        room.world.answer(QUESTION)

    assert room.log == []


@proves("decision.explain-fields")
def test_domain_has_the_same_thresholds_and_is_named_as_target(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.56)
    assert room.lib.store.generations.move_alias(room.lib.scope(room.world), "harbour")

    aimed = room.library.domain("harbour").answer(QUESTION)
    plain = room.world.answer(QUESTION)

    assert aimed.decision_explain["retrieval_target"] == "harbour@1"
    assert {**aimed.decision_explain, "retrieval_target": "world@1"} == plain.decision_explain


@proves("decision.explain-logged")
def test_log_is_pruned_by_number_and_age_on_writing(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.7)
    few = room.with_rules(usage_records=3)
    records = [few.answer(QUESTION).record for _ in range(5)]
    assert [one.id for one in few.usage()] == records[:1:-1]

    room.lib.clock.time += 89 * 86400
    kept = room.with_rules(usage_records=10).answer(QUESTION).record
    assert len(room.world.usage()) == 4
    room.lib.clock.time += 2 * 86400
    last = room.with_rules(usage_records=10).answer(QUESTION).record

    assert [one.id for one in room.world.usage()] == [last, kept]


@proves("decision.explain-logged")
def test_log_kept_for_zero_days_is_disabled(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.7)

    assert room.with_rules(usage_days=0).answer(QUESTION).record is None
    assert room.log == []


@proves("decision.explain-logged")
def test_world_does_not_see_the_log_of_another(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted(SAID))
    room.scores(0.7)
    room.world.answer(QUESTION)

    assert room.library.create_world("other").usage() == []
