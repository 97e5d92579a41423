"""What ingest costs beyond the engine: 20,000 chunks, an embedder and a counter that cost nothing.

Ours is the CPU time of this process (cleaning, sentences, chunks, store), of the one that parses
and of the index process together, without worker processes; `bench.ingest_cores` has those. Against
it stands raw Qdrant Edge with the same vectors: once with our payload and payload indexes, once
with the payload that peers store, and LangChain on top of that, splitting included. None of those
keeps text, state and vectors. Run it with `python -m bench.ingest`.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from bench.free import (
    FreeEmbedder,
    free_library,
    index_files,
    index_process,
    parser_processes,
)
from bench.material import Prose, books
from bench.measure import apart, cpu_of
from bench.report import Figure, Options, at_most, run, say
from truespan.engine.library import Library
from truespan.words.terms import stem_function

CHUNKS = 20_000
FILES, PARAGRAPHS = 100, 242
"""Come to a little more than 20,000 chunks."""
ROUNDS = 3
TARGET = 2.0
MAX_FOR_WORDS = 1.15
LABELS = {
    "ours": "raw Edge, our payload and indexes",
    "peers": "raw Edge, text and document",
    "langchain": "LangChain on Edge, with splitting",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of one ingest, ours and the index process's."""

    engine: float
    index: float
    chunks: int

    @property
    def whole(self) -> float:
        """Return all of it."""
        return self.engine + self.index

    @property
    def each(self) -> float:
        """Return the microseconds a chunk."""
        return self.whole / self.chunks * 1e6


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return our CPU time against each baseline's; the sides take turns."""
    baselines: dict[str, list[float]] = {name: [] for name in LABELS}
    costs = [one_round(baselines) for _ in range(ROUNDS)]
    cost = sorted(costs, key=lambda cost: cost.whole)[ROUNDS // 2]
    say(f"{cost.chunks} chunks, CPU time, median of {ROUNDS} rounds in turn: this process")
    say(f"{cost.engine:.2f} s, index process {cost.index:.2f} s")
    figures = [compared(name, cost.each, median(taken)) for name, taken in baselines.items()]
    return [*figures, counting_cost()]


def compared(name: str, ours: float, theirs: float) -> Figure:
    """Return our cost of a chunk beside a baseline's; the peer is for comparison only."""
    target = None if name == "langchain" else at_most(TARGET)
    return Figure("ingest, CPU a chunk", ours, "us", LABELS[name], theirs, ours / theirs, target)


def one_round(baselines: dict[str, list[float]]) -> Cost:
    """Ingest once on every side."""
    embedder = FreeEmbedder(CHUNKS + 2000)
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        files, texts = folder / "files", folder / "texts.json"
        Prose(seed=5).write_files(files, FILES, PARAGRAPHS)
        with free_library(folder / "library", embedder) as library:
            cost = our_cost(library, files)
        texts.write_text(json.dumps(embedder.texts))
        points = str(index_files(folder / "library"))
        baselines["ours"].append(raw_cost("bench.raw_edge", "ingest", points, "ours"))
        baselines["peers"].append(raw_cost("bench.raw_edge", "ingest", points, str(texts)))
        baselines["langchain"].append(raw_cost("bench.langchain_edge", str(files)))
    return cost


def our_cost(library: Library, files: Path) -> Cost:
    """Ingest a folder; the index process is up and its collection made before the clock starts."""
    world = library.create_world("bench")
    first = files.parent / "first.txt"
    first.write_text("The index process starts with this.")
    world.ingest(str(first))
    index, parsers = index_process(library), parser_processes(library)
    ours, theirs, parsing = time.process_time(), cpu_of(index), sum(map(cpu_of, parsers))
    report = world.ingest(str(files), jobs=1)
    parsed = sum(map(cpu_of, parsers)) - parsing
    engine = time.process_time() - ours + parsed
    return Cost(engine, cpu_of(index) - theirs, report.chunks)


def counting_cost() -> Figure:
    """Return the CPU time of ingesting books with their words counted, and without."""
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for counts, costs in taken.items():
            with TemporaryDirectory(prefix="truespan-bench-") as name:
                files = Path(name) / "files"
                files.mkdir()
                for number, text in enumerate(books()[0]):
                    (files / f"{number}.txt").write_text(text, encoding="utf-8")
                with free_library(Path(name) / "library", FreeEmbedder(CHUNKS)) as library:
                    library._components = replace(library._components, count_words=counts)
                    stem_function.cache_clear()
                    costs.append(our_cost(library, files).whole)
    with_words, without = median(taken[True]), median(taken[False])
    return Figure(
        *("ingest, CPU with words counted", with_words, "s", "words not counted", without),
        *(with_words / without, at_most(MAX_FOR_WORDS)),
    )


def raw_cost(module: str, *arguments: str) -> float:
    """Return the CPU microseconds a chunk of a baseline that runs in a separate process."""
    cost = apart(module, *arguments)
    return cost["cpu"] / cost["chunks"] * 1e6


if __name__ == "__main__":
    run("bench.ingest", __doc__, measure)
