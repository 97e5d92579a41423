"""How well the questions alone, without their passages, tell near misses from answerable ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.questions import Question
from training.statistics import Labels, Scores, auc

_FOLDS = 5
_STEPS = 80
_RATE = 0.3
_PENALTY = 1.0
_MIN_COUNT = 2


def first_words(question: str) -> str:
    return " ".join(question.lower().split()[:2])


def unbalanced_openings(questions: Sequence[Question]) -> list[tuple[str, int, int]]:
    """Return openings that one kind has more than twice as often: words, answerable, near misses.

    The counts of near misses are scaled to the number of answerable questions.
    """
    counts = {
        kind: Counter(first_words(q.text) for q in questions if q.answerable == kind)
        for kind in (True, False)
    }
    scale = counts[True].total() / max(1, counts[False].total())
    found = []
    for words in counts[True] | counts[False]:
        answerable, missed = counts[True][words], counts[False][words] * scale
        if max(answerable, missed) >= 5 and max(answerable, missed) > 2 * min(answerable, missed):
            found.append((words, answerable, round(missed)))
    return sorted(found, key=lambda row: -abs(row[1] - row[2]))


def score_questions(questions: Sequence[Question]) -> Scores:
    """Return the cross-validated log odds of each question; a stretch is in one fold only."""
    features = _features([question.text for question in questions])
    labels = np.array([question.answerable for question in questions])
    folds = np.array([question.stretch % _FOLDS for question in questions])
    scores = np.zeros(len(questions))
    for fold in range(_FOLDS):
        train = folds != fold
        if train.all():
            continue
        weights, bias = _fit(features[train], labels[train], int(features.max()) + 1)
        scores[~train] = weights[features[~train]].sum(1) + bias
    return scores


def question_only_auc(questions: Sequence[Question]) -> float:
    return auc(score_questions(questions), np.array([q.answerable for q in questions]))


def _features(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the numbers of each text's groups of one to three words, filled up with 0."""
    groups = []
    for text in texts:
        words = ["^", *re.findall(r"[a-z']+|\d+", text.lower()), "$"]
        groups.append({" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words))})
    counts = Counter(group for found in groups for group in found)
    numbers = {
        group: number
        for number, group in enumerate((g for g, c in counts.items() if c >= _MIN_COUNT), 1)
    }
    rows = [sorted(numbers[group] for group in found if group in numbers) for found in groups]
    features = np.zeros((len(rows), max(map(len, rows), default=0) + 1), np.int64)
    for index, row in enumerate(rows):
        features[index, : len(row)] = row
    return features


def _fit(features: NDArray[np.int64], labels: Labels, size: int) -> tuple[Scores, float]:
    """Fit a logistic regression with a penalty on large weights; feature 0 has no weight."""
    weights, bias = np.zeros(size), 0.0
    squares = np.full(size, 1e-6)
    flat = features.ravel()
    for _ in range(_STEPS):
        error = 1 / (1 + np.exp(-(weights[features].sum(1) + bias))) - labels
        gradient = np.bincount(flat, np.repeat(error, features.shape[1]), size) + _PENALTY * weights
        squares += gradient**2
        weights -= _RATE * gradient / np.sqrt(squares)
        weights[0] = 0
        bias -= _RATE * float(error.mean())
    return weights, bias
