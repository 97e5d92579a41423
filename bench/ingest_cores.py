"""Rate of one ingest by the number of worker processes.

    python -m bench.ingest_cores --jobs 1,2,16 --chunks 100000
    python -m bench.ingest_cores --jobs 16 --chunks 100000 --model local-gpu

Each number of jobs ingests the same synthetic documents into a new library, with an embedder that
costs nothing or with `--model`. The table has chunks a second, CPU microseconds a chunk in this
process, in the workers with their parsers and in the index process, and the sum of the peaks of
memory of all processes but the index. `--tokens` counts tokens with the bundled tokenizer instead
of every four characters. With a model, documents consist of sentences of novels, tokens are counted
and the share of the time in which a GPU was busy is printed; `--no-states` leaves out the states of
words.
"""

from __future__ import annotations

import argparse
import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import truespan
from bench.free import FreeCounter, FreeEmbedder, end_index_process, index_process, unit_vectors
from bench.gpu import watching_gpu
from bench.material import books
from bench.measure import cpu_of
from bench.memory_ingest import own_peak, peak_of
from bench.synthetic import Corpus
from truespan.engine.library import Library
from truespan.types.vectors import Vector

CHUNKS_EACH = 200
VECTORS = 8192


class RepeatingEmbedder(FreeEmbedder):
    """Hands out the same vectors again and again, and remembers no texts."""

    def __init__(self) -> None:
        super().__init__(0)
        self._vectors = unit_vectors(VECTORS, seed=1)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text."""
        return [self._vectors[place % VECTORS] for place in range(len(texts))]


class Descendants:
    """CPU time and peak memory of the processes below this one, apart from the index process."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._cpu: dict[int, float] = {}
        self._peaks: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        # Reading the files of all processes takes some time of this one.
        while not self._stopped.wait(1):
            self._look()

    def _look(self) -> None:
        parents = {}
        for name in os.listdir("/proc"):
            try:
                stat = Path(f"/proc/{name}/stat").read_text() if name.isdigit() else ""
            except OSError:
                continue
            if stat:
                parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
        own = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in own} - own:
            own |= more
        for pid in own - {os.getpid(), self._index}:
            try:
                self._cpu[pid], self._peaks[pid] = cpu_of(pid), peak_of(pid)
            except (OSError, ValueError):
                continue

    def close(self) -> None:
        """Look a last time."""
        self._stopped.set()
        self._thread.join()
        self._look()

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of all of them."""
        return sum(self._cpu.values())

    @property
    def peak(self) -> float:
        """Return the sum of their peaks in megabytes."""
        return sum(self._peaks.values())


class Run(NamedTuple):
    """Options of all runs: the embedding model, none for free vectors, and what is computed."""

    model: str = ""
    tokens: bool = False
    states: bool = True

    def open(self, folder: Path) -> Library:
        """Create a library; without a model, with an embedder that costs nothing."""
        folder.mkdir()
        if self.model:
            (folder / "truespan.toml").write_text(f"word_states = {str(self.states).lower()}\n")
            return truespan.open(folder, create=True)
        counter = None if self.tokens else FreeCounter()
        return truespan.open(folder, create=True, embedder=RepeatingEmbedder(), counter=counter)

    def watch_gpu(self) -> AbstractContextManager[list[int]]:
        """Return a block with a list of the utilisation of the GPU; empty without one."""
        return watching_gpu("cuda") if self.model == "local-gpu" else nullcontext([])


def measure(files: Path, jobs: int, run: Run) -> str:
    """Ingest the files with this number of jobs, and return a line of the table."""
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        first = folder / "first.txt"
        first.write_text("The index process starts with this.")
        with run.open(folder / "library") as library:
            world = library.create_world("bench", model=run.model or None)
            world.ingest(str(first))
            index = index_process(library)
            began, cpu, indexed = time.monotonic(), time.process_time(), cpu_of(index)
            with closing(Descendants(index)) as others, run.watch_gpu() as busy:
                report = world.ingest(str(files), jobs=jobs)
                seconds = time.monotonic() - began
            main, indexed = time.process_time() - cpu, cpu_of(index) - indexed
            end_index_process(library)
    shares = [part / report.chunks * 1e6 for part in (main, others.cpu, indexed)]
    cells = f"{report.chunks / seconds:,.0f}", *(f"{part:.0f}" for part in (*shares, sum(shares)))
    used = f"{sum(busy) / len(busy):.0f} %" if busy else "-"
    peak = f"{own_peak() + others.peak:,.0f}"
    return f"| {jobs} | {report.chunks:,} | {' | '.join(cells)} | {peak} | {used} |"


def main() -> None:
    """Print one line for each number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--chunks", type=int, default=40_000)
    parser.add_argument("--tokens", action="store_true")
    parser.add_argument("--model", default="")
    parser.add_argument("--no-states", action="store_true")
    options = parser.parse_args()
    run = Run(options.model, options.tokens, not options.no_states)
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        files = Path(name) / "files"
        corpus = Corpus(CHUNKS_EACH, novel_sentences() if run.model else None)
        corpus.write(files, max(options.chunks // CHUNKS_EACH, 2))
        print("| jobs | chunks | chunks/s | us main | us workers | us index | us all | MB | GPU |")
        print("|---|---|---|---|---|---|---|---|---|")
        for jobs in map(int, options.jobs.split(",")):
            print(measure(files, jobs, run), flush=True)


def novel_sentences() -> list[str]:
    """Return sentences of novels, about as they are, to be put together in another order."""
    text = " ".join(" ".join(book.split()) for book in books()[0])
    return [part for part in re.split(r"(?<=[.!?]) (?=[A-Z])", text) if len(part) < 400]


if __name__ == "__main__":
    main()
