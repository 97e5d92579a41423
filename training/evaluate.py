"""The figures of a network: questions told from near misses, right answers, and thresholds.

Both thresholds come from the calibration pools, and every rate from the judging pools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.pools import Pool, PoolQuestion
from training.reading import Finding, Network, read_all
from training.rows import normalise
from training.statistics import (
    Labels,
    Scores,
    auc,
    interval,
    passed_when_refused,
    threshold_for_passed,
)

REFUSED = 0.08
"""Share of answerable questions that may be refused."""
PASSED = 0.10
"""Share of near misses that may have a tick."""
STORY_REFUSED = 0.10
CALIBRATION = ("calibration documents", "calibration novels")
FEATURES = ("margin", "relevance", "place", "similarity")

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’)]*\s+(?=[\"“‘(]*[A-Z0-9])|\n+")
_STEPS = 3_000


@dataclass(frozen=True)
class Answer:
    """The best answer that a network found among the passages of a question."""

    margin: float
    relevance: float
    place: int
    similarity: float
    text: str
    sentence: str

    def features(self) -> list[float]:
        return [self.margin, self.relevance, float(self.place), self.similarity]


@dataclass(frozen=True)
class Rule:
    """A weighted sum of the features; it was fitted on the calibration pools."""

    weights: tuple[float, ...]
    bias: float

    def score(self, answers: Sequence[Answer]) -> Scores:
        features = np.array([answer.features() for answer in answers])
        return features @ np.array(self.weights) + self.bias


@dataclass(frozen=True)
class Thresholds:
    """Scores of a rule above which an answer is found, and is perhaps one."""

    found: float
    perhaps: float


MARGIN_ONLY = Rule((1.0, 0.0, 0.0, 0.0), 0.0)


def answer_pools(pools: Sequence[Pool], network: Network) -> dict[str, list[Answer]]:
    """Read the passages of every question and take the span with the largest margin.

    All pools are read at once: the more texts, the more of them have the same length.
    """
    pairs = [
        (question.pieces, pool.passages[number].pieces)
        for pool in pools
        for question in pool.questions
        for number in question.read
    ]
    findings = iter(read_all(network, pairs))
    return {
        pool.name: [
            _best_answer(pool, question, [next(findings) for _ in question.read])
            for question in pool.questions
        ]
        for pool in pools
    }


def _best_answer(pool: Pool, question: PoolQuestion, findings: Sequence[Finding]) -> Answer:
    place = max(range(len(findings)), key=lambda number: findings[number].margin)
    finding, passage = findings[place], pool.passages[question.read[place]]
    start, end = passage.offsets[finding.first][0], passage.offsets[finding.last][1]
    return Answer(
        margin=finding.margin,
        relevance=finding.relevance,
        place=place,
        similarity=question.similarities[place],
        text=passage.text[start:end],
        sentence=find_sentence(passage.text, start, end),
    )


def find_sentence(text: str, start: int, end: int) -> str:
    """Return the sentences, or the lines of a table, in which a span stands."""
    begin, stop = 0, len(text)
    for found in _SENTENCE_END.finditer(text):
        if found.end() <= start:
            begin = found.end()
        elif found.start() >= end:
            stop = found.start()
            break
    return text[begin:stop]


def shared_words(found: str, wanted: str) -> float:
    """Return the F1 of the words of two answers."""
    left, right = normalise(found).split(), normalise(wanted).split()
    common = (Counter(left) & Counter(right)).total()
    return 2 * common / (len(left) + len(right)) if common else 0.0


def is_right(answer: Answer, question: PoolQuestion) -> bool:
    """Tell whether a short answer shares half of its words with a wanted one, or contains it."""
    return any(
        shared_words(answer.text, wanted) >= 0.5
        or (normalise(wanted) in normalise(answer.text) and len(answer.text) < 6 * len(wanted) + 40)
        for wanted in question.answers
    )


def is_shown(answer: Answer, question: PoolQuestion) -> bool:
    """Tell whether the sentence of an answer contains a wanted one."""
    return any(normalise(wanted) in normalise(answer.sentence) for wanted in question.answers)


def told_of(pool: Pool) -> Labels:
    return np.array([bool(question.answers) for question in pool.questions])


def fit_rule(answers: Sequence[Answer], told: Labels) -> Rule:
    """Fit a logistic regression of four features, each first brought to the same spread."""
    features = np.array([answer.features() for answer in answers])
    middle, spread = features.mean(0), np.maximum(features.std(0), 1e-9)
    inputs = (features - middle) / spread
    weights, bias = np.zeros(inputs.shape[1]), 0.0
    for _ in range(_STEPS):
        error = 1 / (1 + np.exp(-(inputs @ weights + bias))) - told
        weights -= inputs.T @ error / len(told) + 0.001 * weights
        bias -= float(error.mean())
    weights = weights / spread
    return Rule(tuple(weights.tolist()), bias - float(weights @ middle))


def choose_thresholds(scores: Scores, told: Labels) -> Thresholds:
    return Thresholds(
        found=threshold_for_passed(scores, told, PASSED),
        perhaps=float(np.quantile(scores[told], REFUSED)),
    )


def measure(pools: Sequence[Pool], network: Network) -> dict[str, Any]:
    """Return all figures of a network, with the rule and thresholds of the calibration pools."""
    answers = answer_pools(pools, network)
    by_name = {pool.name: pool for pool in pools}
    rules = {"margin": MARGIN_ONLY}
    calibration = [
        name for name in by_name if name in ("calibration documents", "calibration novels")
    ]
    together = [answer for name in calibration for answer in answers[name]]
    told = np.concatenate([told_of(by_name[name]) for name in calibration] or [np.zeros(0, bool)])
    if calibration:
        rules["rule"] = fit_rule(together, told)
    figures: dict[str, Any] = {"pools": {}}
    for name, rule in rules.items():
        thresholds = choose_thresholds(rule.score(together), told) if calibration else None
        figures[name] = {
            "weights": dict(zip(FEATURES, rule.weights, strict=True)),
            "bias": rule.bias,
            "found": thresholds.found if thresholds else None,
            "perhaps": thresholds.perhaps if thresholds else None,
        }
        for pool in pools:
            figures["pools"].setdefault(pool.name, {})[name] = measure_pool(
                pool, answers[pool.name], rule, thresholds
            )
    return figures


def measure_pool(
    pool: Pool, answers: Sequence[Answer], rule: Rule, thresholds: Thresholds | None
) -> dict[str, Any]:
    """Return the figures of one pool; a pair of numbers after a figure is its 95 % interval."""
    told, scores = told_of(pool), rule.score(answers)
    right = np.array([is_right(*pair) for pair in zip(answers, pool.questions, strict=True)])
    figures: dict[str, Any] = {"questions": int(told.sum()), "near misses": int((~told).sum())}
    if told.any():
        shown = np.array([is_shown(*pair) for pair in zip(answers, pool.questions, strict=True)])
        figures["right short answer"] = float(right[told].mean())
        figures["sentence holds the answer"] = float(shown[told].mean())
        figures["words of the span"] = float(np.mean(list(_spans(pool, answers))))
    if told.any() and not told.all():
        figures |= _separation(pool, scores, told, right)
    if thresholds:
        for name, threshold in (("found", thresholds.found), ("perhaps", thresholds.perhaps)):
            passed = scores > threshold
            figures[f"{name}: answerable"] = _share(passed[told])
            figures[f"{name}: near misses"] = _share(passed[~told])
            figures[f"{name}: right among them"] = _share(right[passed & told])
    return figures


def _separation(pool: Pool, scores: Scores, told: Labels, right: Labels) -> dict[str, Any]:
    groups = np.unique([question.group for question in pool.questions], return_inverse=True)[1]

    def ticked(chosen: NDArray[np.intp]) -> float:
        threshold = threshold_for_passed(scores[chosen], told[chosen], PASSED)
        positive = scores[chosen][told[chosen]]
        return float(np.mean(positive > threshold)) if len(positive) else float("nan")

    def with_interval(figure: Any) -> list[float]:
        everyone = np.arange(len(scores))
        return [figure(everyone), *interval(figure, groups)]

    tick = threshold_for_passed(scores, told, PASSED)
    at_refused = float(np.quantile(scores[told], REFUSED))
    kinds = {
        kind: float(np.mean(scores[chosen] > at_refused))
        for kind in sorted({question.kind for question in pool.questions} - {"answer"})
        if (chosen := np.array([question.kind == kind for question in pool.questions])).any()
    }
    return {
        "AUC": with_interval(lambda chosen: auc(scores[chosen], told[chosen])),
        f"near misses answered at {REFUSED:.0%} refused": with_interval(
            lambda chosen: passed_when_refused(scores[chosen], told[chosen], REFUSED)
        ),
        f"near misses answered at {STORY_REFUSED:.0%} refused": with_interval(
            lambda chosen: passed_when_refused(scores[chosen], told[chosen], STORY_REFUSED)
        ),
        f"ticks at {PASSED:.0%} near misses": with_interval(ticked),
        "right among the ticks": _share(right[told & (scores > tick)]),
        "near misses answered by kind": kinds,
    }


def _spans(pool: Pool, answers: Sequence[Answer]) -> Iterator[float]:
    for answer, question in zip(answers, pool.questions, strict=True):
        if question.answers:
            yield max(shared_words(answer.text, wanted) for wanted in question.answers)


def _share(chosen: Labels) -> float | None:
    return float(chosen.mean()) if len(chosen) else None


def to_table(figures: Mapping[str, Mapping[str, Any]], rule: str = "margin") -> str:
    """Return the figures of several networks as a table: a row for each figure of each pool."""
    names = list(figures)
    lines = [f"| pool | figure | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    first = figures[names[0]]["pools"]
    for pool, found in first.items():
        for figure in found.get(rule, {}):
            cells = [_show(figures[name]["pools"][pool][rule].get(figure)) for name in names]
            lines.append(f"| {pool} | {figure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _show(value: Any) -> str:
    match value:
        case None:
            return ""
        case int():
            return str(value)
        case float():
            return f"{value:.3f}"
        case [figure, low, high]:
            return f"{figure:.3f} ({low:.3f} to {high:.3f})"
        case _:
            return ", ".join(f"{name} {share:.2f}" for name, share in value.items())
