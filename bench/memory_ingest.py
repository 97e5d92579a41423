"""Ingests a folder and prints how much memory that took, as JSON. For `bench.memory`."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.free import DIMENSIONS, FreeEmbedder, free_library, parser_processes
from truespan.engine.library import Library
from truespan.types.vectors import Vector

KILOBYTE = 1024
MEGABYTE = 1 << 20


class FleetingEmbedder(FreeEmbedder):
    """Makes vectors when they are asked for, no two of them equal, and remembers nothing."""

    def __init__(self) -> None:
        super().__init__(texts=0)
        self._numbers = np.random.default_rng(1)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return new vectors."""
        rows = self._numbers.standard_normal((len(texts), DIMENSIONS), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return [Vector(row.astype("<f4").tobytes()) for row in rows]


def main() -> None:
    """Ingest the folder that the command line names into the library that it names next."""
    files, folder = sys.argv[1], Path(sys.argv[2])
    with free_library(folder, FleetingEmbedder()) as library:
        world = library.create_world("bench")
        before, began = own_peak(), time.monotonic()
        report = world.ingest(files, jobs=1)
        figures = {
            "seconds": time.monotonic() - began,
            "chunks": report.chunks,
            "failed": len(report.failures),
            "start": before,
            "ingest": own_peak(),
            **loader_peaks(library),
        }
    print(json.dumps(figures))


def own_peak() -> float:
    """Return the most megabytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE / MEGABYTE


def loader_peaks(library: Library) -> dict[str, float]:
    """Return the most megabytes that one loader has held, and that all of them may have held.

    The loaders that wait for work are asked for their peaks; those that have ended were counted by
    the system when they did. The index process is still running, so it is not among them.
    """
    waiting = [peak_of(pid) for pid in parser_processes(library)]
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * KILOBYTE / MEGABYTE
    largest = max([ended, *waiting])
    return {"loader": largest, "loaders": max(largest, sum(waiting))}


def peak_of(pid: int) -> float:
    """Return the most megabytes that another process has held; Linux tells."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(peak.split()[1]) * KILOBYTE / MEGABYTE


if __name__ == "__main__":
    main()
