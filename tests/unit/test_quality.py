"""The figures of `bench.quality`: how rankings are combined, scored and tabulated."""

import pytest
from bench.quality import (
    HALF,
    METHODS,
    RANKS,
    Candidate,
    Score,
    averaged,
    by_halves,
    by_ranks,
    figures,
    held_out,
    markdown,
    rankings,
    score_of,
)

from truespan.types.request import Mode

pytestmark = pytest.mark.needs_extension

A = Candidate("a", "d", "one", 0.9, 0.0)
B = Candidate("b", "d", "two", 0.8, 4.0)
C = Candidate("c", "d", "three", 0.5, 5.0)


def test_rankings_are_combined_by_ranks_and_by_scaled_scores() -> None:
    assert by_ranks([A, B], [C, B]) == [B, A, C]
    assert by_halves([A, B, C]) == [B, A, C]
    assert by_halves([]) == []
    found = rankings(lambda _, mode, __: [C, B, A] if mode is Mode.KEYWORD else [A, B, C], "query")
    assert found[Mode.KEYWORD] == [C, B]
    assert found[RANKS] == by_ranks([A, B, C], [C, B])
    assert found[HALF] == by_halves(found[Mode.HYBRID])


def test_question_scores_by_the_rank_of_its_first_right_passage() -> None:
    assert score_of(None) == Score(0.0, 0.0, 0.0, 0.0)
    assert score_of(1) == Score(1.0, 1.0, 1.0, 1.0)
    assert score_of(4).figures()[1:] == (0.25, 1.0, 0.0)
    assert score_of(3).ndcg == 0.5


def test_figures_name_every_rival_and_the_loss_to_the_better_part() -> None:
    scores = {method: {"pan-01": score_of(2), "pan-02-late": score_of(3)} for method in METHODS}
    scores[Mode.HYBRID] = {"pan-01": score_of(1), "pan-02-late": score_of(None)}

    later = averaged([scores, {method: {"pan-01": score_of(None)} for method in METHODS}])
    assert later[Mode.HYBRID]["pan-01"].first == 0.5
    assert list(held_out(scores)[Mode.HYBRID]) == ["pan-02-late"]
    made = figures({"books, owner": scores, "pan, owner": scores})
    assert [figure.peer for figure in made[:4]] == ["vector", "keyword", RANKS, HALF]
    assert [figure.met for figure in made] == [False] * 6
    table = markdown({"books, owner": scores}).splitlines()
    assert table[2].startswith("| books, owner | 2 | 0.565 | ")
    assert len({line.count("|") for line in table[:4]}) == 1
