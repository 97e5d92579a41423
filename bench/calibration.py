"""Measure the calibration of a model; `truespan/types/profile.py` contains the result.

There are two unrelated libraries: SciFact (abstracts, and claims about them) and the novella of the
examples, with its golden questions. Each is asked its own questions, and those of the other, which
it cannot answer. Of the numbers that follow from each library the lower one is used, so that it
suits text of either kind. The high threshold is at least the median score of right results, and
above the best score of every question that a library cannot answer. Golden queries of a world give
better numbers: `truespan calibrate`. Run it with `python -m bench.calibration --full`. The variable
TRUESPAN_EMBEDDING_PROVIDER chooses the model: `local` or `multilingual`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import truespan
from bench.free import end_index_process
from bench.material import shared_data
from bench.report import RESULTS, Figure, Options, run, say
from bench.scifact import (
    FULL_MINUTES,
    QUICK_MINUTES,
    ingest,
    read_corpus,
    read_judgements,
    write_files,
)
from bench.scifact_files import golden_claims
from truespan.engine.calibration import round_calibration
from truespan.engine.world import World
from truespan.extensions.quality.calibrate import Proposal, best_hits, calibrate, unrelated_high
from truespan.extensions.quality.evaluate import ScoredHit, scored_hits
from truespan.extensions.quality.golden import GoldenQuery
from truespan.extensions.quality.tables import calibration_lines
from truespan.types.profile import Calibration

EXAMPLES = Path(__file__).parents[1] / "examples"
SPREAD = 50
"""Number of questions of a library that the other one is asked."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library with the questions it can answer."""

    name: str
    world: World
    golden: Sequence[GoldenQuery]


def measure(options: Options) -> list[Figure]:
    """Return the calibration as figures; none where SciFact is absent or time ran out."""
    data = shared_data("scifact")
    if data is None:
        say("skipped: there is no shared/data/scifact beside the project")
        return []
    folder = RESULTS / ("scifact-full" if options.full else "scifact-quick")
    model = os.environ.get("TRUESPAN_EMBEDDING_PROVIDER", "local")
    suffix = "" if model == "local" else f"-{model}"
    with (
        truespan.open(folder / f"library{suffix}", create=True) as first,
        truespan.open(RESULTS / f"calibration{suffix}", create=True) as second,
    ):
        claims = scifact(first.world("scifact", create=True), data, folder, options)
        questions = novella(second.world("novella", create=True))
        found = both(claims, questions) if claims else None
        end_index_process(first)
        end_index_process(second)
    return [] if found is None else figures(found)


def scifact(world: World, data: Path, folder: Path, options: Options) -> Library | None:
    """Return SciFact with its claims, ingested if it is not yet; None when time ran out."""
    judgements = read_judgements(data)
    corpus = read_corpus(data, None if options.full else judgements)
    minutes = FULL_MINUTES if options.full else QUICK_MINUTES
    if not ingest(world, write_files(folder / "files", corpus), minutes):
        return None
    return Library("SciFact", world, golden_claims(data))


def novella(world: World) -> Library:
    """Return the novella of the examples with its questions."""
    world.ingest(EXAMPLES / "the-glass-ferry.md")
    return Library("novella", world, world.evaluation.queries(EXAMPLES / "golden.yaml"))


def both(claims: Library, questions: Library) -> Calibration:
    """Return the calibration that suits both libraries."""
    measured = [measure_library(claims, questions), measure_library(questions, claims)]
    scores = [
        passage.score
        for query in spread(claims.golden)
        for passage in questions.world.search(
            query.query, top_k=10_000, floor=0.0, mode="vector"
        ).passages
    ]
    say(f"{len(scores)} pairs of a claim and a passage of the novella")
    floors, lows, highs, unanswerable = zip(*measured, strict=True)
    high = max(min(highs), *unanswerable)
    far = unrelated_high(scores)
    return round_calibration(min(floors), min(lows), high, far, f"{claims.name} and the novella")


def measure_library(own: Library, other: Library) -> tuple[float, float, float, float]:
    """Return floor, low and high of a library, and the best score of a question of the other."""
    evaluation = own.world.evaluation.run(own.golden)
    passages = calibrate(scored_hits(evaluation))
    foreign = [
        own.world.search(query.query, top_k=1, floor=0.0, mode="vector").passages[0].score
        for query in spread(other.golden)
    ]
    answered = [*best_hits(evaluation), *(ScoredHit(score, False) for score in foreign)]
    queries = calibrate(answered)
    say(f"{own.name}, passages: {' '.join(calibration_lines(passages))}")
    say(f"{own.name}, queries: {' '.join(calibration_lines(queries))}")
    say(f"{own.name}, best of foreign questions: {min(foreign):.3f} to {max(foreign):.3f}")
    chosen = proposal(queries.proposal)
    assert chosen.high is not None
    high = max(chosen.high, median(hit.score for hit in answered if hit.relevant))
    return proposal(passages.proposal).floor, chosen.low, high, max(foreign)


def proposal(found: Proposal | None) -> Proposal:
    """Return a proposal that must be there: these libraries are large enough for one."""
    assert found is not None
    return found


def spread(golden: Sequence[GoldenQuery]) -> Sequence[GoldenQuery]:
    """Return some of the queries, evenly spread."""
    return golden[:: max(1, len(golden) // SPREAD)][:SPREAD]


def figures(found: Calibration) -> list[Figure]:
    """Return every number of a calibration."""
    floor = Figure("calibrated_floor", found.calibrated_floor, "")
    unrelated_high = Figure("unrelated_high", found.unrelated_high, "")
    thresholds = [Figure(name, value, "") for name, value in found.thresholds().items()]
    return [floor, *thresholds, unrelated_high]


if __name__ == "__main__":
    run("bench.calibration", __doc__, measure)
