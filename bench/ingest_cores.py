"""Rate of one ingest by the number of worker processes, with an embedder that costs nothing.

    python -m bench.ingest_cores --jobs 1,2,16 --chunks 100000

Each number of jobs ingests the same synthetic documents into a new library. The table has chunks a
second, CPU microseconds a chunk in this process, in the workers with their parsers and in the index
process, and the sum of the peaks of memory of all processes but the index. `--tokens` counts tokens
with the bundled tokenizer instead of every four characters.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import truespan
from bench.free import FreeCounter, FreeEmbedder, end_index_process, index_process, unit_vectors
from bench.measure import cpu_of
from bench.memory_ingest import own_peak, peak_of
from bench.synthetic import Corpus
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
        while not self._stopped.wait(0.2):
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


def measure(files: Path, jobs: int, *, tokens: bool) -> str:
    """Ingest the files with this number of jobs, and return a line of the table."""
    counter = None if tokens else FreeCounter()
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        folder = Path(name)
        first = folder / "first.txt"
        first.write_text("The index process starts with this.")
        with truespan.open(
            folder / "library", create=True, embedder=RepeatingEmbedder(), counter=counter
        ) as library:
            world = library.create_world("bench")
            world.ingest(str(first))
            index = index_process(library)
            began, cpu, indexed = time.monotonic(), time.process_time(), cpu_of(index)
            with closing(Descendants(index)) as others:
                report = world.ingest(str(files), jobs=jobs)
                seconds = time.monotonic() - began
            main, indexed = time.process_time() - cpu, cpu_of(index) - indexed
            end_index_process(library)
    shares = [part / report.chunks * 1e6 for part in (main, others.cpu, indexed)]
    cells = f"{report.chunks / seconds:,.0f}", *(f"{part:.0f}" for part in (*shares, sum(shares)))
    return f"| {jobs} | {report.chunks:,} | {' | '.join(cells)} | {own_peak() + others.peak:,.0f} |"


def main() -> None:
    """Print one line for each number of jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--chunks", type=int, default=40_000)
    parser.add_argument("--tokens", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        files = Path(name) / "files"
        Corpus(CHUNKS_EACH).write(files, max(options.chunks // CHUNKS_EACH, 2))
        print("| jobs | chunks | chunks/s | us main | us workers | us index | us all | MB |")
        print("|---|---|---|---|---|---|---|---|")
        for jobs in map(int, options.jobs.split(",")):
            print(measure(files, jobs, tokens=options.tokens), flush=True)


if __name__ == "__main__":
    main()
