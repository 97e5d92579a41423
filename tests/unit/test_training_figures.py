"""Figures of a reading network, and reading in windows, with networks that know the answer."""

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from training.evaluate import Answer as Found
from training.evaluate import find_sentence, fit_rule, measure, shared_words
from training.pools import Passage, Pool, PoolQuestion
from training.reading import Scores, Text, best_span, read_all
from training.statistics import auc, interval, passed_when_refused

ASKED = 7
ANSWER = 50


def look_for_answer(texts: Sequence[Text]) -> list[Scores]:
    """Score the piece of the answer, if the passage has it, above "no answer"."""
    found = []
    for text in texts:
        scores = np.array([2.0 * (piece == ANSWER) for piece in text.pieces], np.float32)
        scores[0] = 1.0
        found.append(Scores(scores, scores, float(ANSWER in text.pieces)))
    return found


def make_pool(name: str) -> Pool:
    passages = [
        Passage(text, pieces, [(0, 3), (4, 9)])
        for text, pieces in (("The clerk signs.", [1, ANSWER]), ("The guard waits.", [1, 2]))
    ]
    questions = [
        PoolQuestion(
            f"Who signs {n}?", [ASKED], ["clerk"], "answer", str(n % 5), [1, 0], [0.5, 0.1]
        )
        for n in range(20)
    ]
    questions += [
        PoolQuestion(f"Who waits {n}?", [ASKED], [], "entity", f"{n % 5}", [1], [0])
        for n in range(20)
    ]
    return Pool(name, passages, questions)


def test_measure_gives_full_marks_to_a_network_that_knows() -> None:
    pools = [make_pool("calibration documents"), make_pool("judging documents")]
    figures = measure(pools, look_for_answer)
    judged = figures["pools"]["judging documents"]["margin"]
    assert judged["AUC"] == [1.0, 1.0, 1.0]
    assert judged["right short answer"] == 1.0
    assert judged["sentence holds the answer"] == 1.0
    assert judged["perhaps: near misses"] == 0.0
    assert judged["near misses answered by kind"] == {"entity": 0.0}


def test_spans_are_found_in_any_window_and_never_reversed() -> None:
    passage = [1] * 900
    passage[700] = ANSWER
    [finding] = read_all(look_for_answer, [([ASKED], passage)])
    assert (finding.first, finding.last) == (700, 700)
    text = Text([101, ASKED, 102, 1, 2, 3, 102], 3)
    start = np.array([0, 9, 0, 0, 0, 5, 9], np.float32)
    end = np.array([0, 9, 0, 5, 0, 1, 9], np.float32)
    assert best_span(Scores(start, end, 0.0), text) == (6.0, 2, 2)


@pytest.mark.parametrize(
    ("span", "sentence"),
    [("two", "It has two. "), ("Row", "Row | 3"), ("Mr. Bell", "He met Mr. Bell.")],
)
def test_find_sentence_ends_at_sentences_and_lines(span: str, sentence: str) -> None:
    text = "It has two. He met Mr. Bell.\nRow | 3\nName | 4"
    start = text.index(span)
    assert sentence.strip() in find_sentence(text, start, start + len(span))
    assert "Name" not in find_sentence(text, start, start + len(span))


def test_shared_words_auc_and_intervals_are_computed() -> None:
    assert shared_words("The head", "head") == 1.0
    assert shared_words("head", "foot") == 0.0
    labels = np.array([True, False, True, False])
    assert auc(np.array([1.0, 1.0, 2.0, 0.0]), labels) == 0.875
    assert passed_when_refused(np.array([1.0, 1.0, 2.0, 0.0]), labels, 0.0) == 0.0
    scores = np.linspace(0, 1, 100)
    low, high = interval(lambda chosen: float(scores[chosen].mean()), np.arange(100) // 5)
    assert low < 0.5 < high


def test_fit_rule_prefers_the_informative_feature() -> None:
    generator = np.random.default_rng(1)
    told = generator.random(300) < 0.5
    answers = [
        Found(float(t) + generator.normal(0, 0.3), generator.normal(), 0, 0.0, "", "") for t in told
    ]
    rule = fit_rule(answers, told)
    assert abs(rule.weights[0]) > 10 * abs(rule.weights[1])


def test_recipe_imports_no_torch_to_prepare() -> None:
    code = "import sys, training.__main__, training.evaluate; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
