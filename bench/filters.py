"""What a filter or an audience adds to a search of 100,000 chunks, in few documents and in many.

Vectors cost nothing and the sides take turns. Each filter is searched with as often as no filter.
Callers with an audience see a tenth, half or all of the documents.
The first search with a filter after a change reads all metadata and is measured apart. Run it with
`python -m bench.filters`; `--full` has 100,000 documents of one chunk instead of 10,000 of two.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.free import free_library
from bench.measure import Work, medians, wall_seconds
from bench.report import Figure, Options, at_most, run, say
from bench.synthetic import Corpus, SyntheticEmbedder, _sentences
from truespan.engine.world import World

LONG = 2_000, 50
SHORT = 10_000, 2
MANY_SHORT = 100_000, 1
ROUNDS = 40
TOP_K = 10
RATIO_TARGET = 1.5

FILTERS: dict[str, dict[str, Any]] = {
    "one in a hundred": {"hundredth": 7},
    "a tenth": {"tenth": 3, "team": {"exists": True}},
    "half": {"even": True},
    "nine tenths": {"tenth": {"lt": 9}},
    "all but one": {"number": {"gte": 2}},
}
AUDIENCES = {"a tenth": "group:tenth", "half": "group:half", "all": "group:all"}


def measure(options: Options) -> list[Figure]:
    """Return searches with filters beside searches without one."""
    figures: list[Figure] = []
    for documents, chunks in (LONG, MANY_SHORT if options.full else SHORT):
        with TemporaryDirectory(prefix="truespan-bench-") as name:
            figures += measure_world(Path(name), documents, chunks)
    return figures


def measure_world(folder: Path, documents: int, chunks: int) -> Iterator[Figure]:
    """Give the figures of one world."""
    Corpus(chunks).write(folder / "files", documents)
    lines = [
        {"path": path.name, "metadata": metadata_of(number), "audience": audience_of(number)}
        for number, path in enumerate(sorted((folder / "files").iterdir()), 1)
    ]
    manifest = folder / "files" / "all.jsonl"
    manifest.write_text("\n".join(map(json.dumps, lines)))
    with free_library(folder / "library", SyntheticEmbedder()) as library:
        world = library.create_world("bench", defaults="recommended")
        held = world.ingest(manifest=str(manifest)).chunks
        what = f"{held} chunks in {documents} documents"
        questions = _questions()
        search(world, next(questions))
        began = time.perf_counter()
        search(world, next(questions), FILTERS["half"])
        say(f"{what}: first filter {time.perf_counter() - began:.3f} s")
        sides: dict[str, Work] = {"none": lambda: search(world, next(questions))}
        for name, filters in FILTERS.items():
            sides[name] = lambda filters=filters: search(world, next(questions), filters)
        for name, label in AUDIENCES.items():
            caller = world.for_audience([label])
            began = time.perf_counter()
            search(caller, next(questions))
            say(f"{what}: first search for {name} {time.perf_counter() - began:.3f} s")
            sides[f"audience {name}"] = lambda caller=caller: search(caller, next(questions))
        taken = medians(sides, ROUNDS, wall_seconds)
        for name in AUDIENCES:
            ratio = taken[f"audience {name}"] / taken["none"]
            say(f"{what}: audience {name} {ratio:.2f} of none")
            yield Figure(
                f"search of a caller who sees {name} of the documents, {what}, p50",
                taken[f"audience {name}"] * 1e3,
                "ms",
                "the owner",
                taken["none"] * 1e3,
                ratio,
                at_most(RATIO_TARGET),
            )
        for name in FILTERS:
            ratio = taken[name] / taken["none"]
            say(f"{what}: {name} {taken[name] * 1e3:.1f} ms, {ratio:.2f} of none")
            yield Figure(
                f"search with a filter by metadata that leaves {name}, {what}, p50",
                taken[name] * 1e3,
                "ms",
                "no filter",
                taken["none"] * 1e3,
                ratio,
                at_most(RATIO_TARGET),
            )


def _questions() -> Iterator[str]:
    """Yield questions with words of the documents; a word that is in none has to be explained."""
    chance = Random(9)
    known = [chance.sample(sentence.split(), 4) for sentence in chance.sample(_sentences(), 10)]
    return cycle(map(" ".join, known))


def metadata_of(number: int) -> dict[str, Any]:
    """Return what is declared of a document."""
    return {
        "number": number,
        "even": number % 2 == 0,
        "tenth": number % 10,
        "hundredth": number % 100,
        "team": f"team {number % 7}",
        "due": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}",
    }


def audience_of(number: int) -> list[str]:
    """Return the labels of a document."""
    labels = ["group:all"]
    labels += ["group:half"] if number % 2 == 0 else []
    return labels + (["group:tenth"] if number % 10 == 3 else [])


def search(world: World, query: str, filters: dict[str, Any] | None = None) -> None:
    """Search as callers do."""
    if not world.search(query, top_k=TOP_K, floor=0.0, metadata=filters).passages:
        raise SystemExit("nothing was found")


if __name__ == "__main__":
    run("bench.filters", __doc__, measure)
