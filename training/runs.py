"""Trainings side by side on one device: shares of the questions, several seeds, sets left out.

Each run is a process that trains for the same time. Runs that differ by their seed alone are
averaged; the average is what ships, and it is written before anything is measured.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from training.evaluate import measure, to_table
from training.model import Reader
from training.packing import ROWS_FILE, Packed
from training.pools import POOLS_FILE, load_pools
from training.reading import torch_network
from training.train import Schedule, train
from training.weights import (
    BASE_FILE,
    Weights,
    average,
    decode_weights,
    encode_weights,
    load_compressed,
    write_parts,
)

SHARES = (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Run:
    """One training: its share of the hand-written stretches, and the sets that it does not see."""

    name: str
    schedule: Schedule
    share: float = 1.0
    left_out: tuple[str, ...] = ()


def plan(mode: str, schedule: Schedule, seeds: int, left_out: Sequence[str]) -> list[Run]:
    """Return the runs of a mode: `curve`, `leave` (each set alone) or `final` (several seeds)."""

    def seeded(seed: int) -> Schedule:
        return Schedule(**{**vars(schedule), "seed": seed})

    everything = tuple(left_out)
    if mode == "curve":
        return [Run(f"share {share:g}", schedule, share, everything) for share in SHARES]
    if mode == "leave":
        return [Run("all", schedule), *(Run(f"no {s}", schedule, 1.0, (s,)) for s in left_out)]
    return [Run(f"seed {n}", seeded(n), 1.0, everything) for n in range(1, seeds + 1)]


def choose_rows(packed: Packed, run: Run) -> Packed:
    """Return the rows of a run; a stretch is in every share that is larger than its own."""
    numbers = np.unique(packed.stretch)
    places = [int(sha256(str(n).encode()).hexdigest()[:8], 16) / 2**32 for n in numbers]
    within = np.array([number == 0 for number in numbers]) | (np.array(places) < run.share)
    chosen = within[np.searchsorted(numbers, packed.stretch)]
    chosen &= ~np.isin(packed.origins[packed.origin], run.left_out)
    return packed.keep(chosen)


def _train_one(run: Run, prepared: Path, scratch: Path) -> None:
    """Train and write the weights of one run; the body of a process."""
    report = _reporter(run.name)
    rows = choose_rows(Packed.load(prepared / ROWS_FILE), run)
    report(f"{len(rows.question)} rows, {int((rows.start >= 0).sum())} with an answer")
    weights = train(rows, load_compressed(prepared / BASE_FILE), run.schedule, report)
    (scratch / f"{run.name}.npz").write_bytes(encode_weights(weights))


def _measure_one(name: str, stored: Path, prepared: Path, rounded: bool, out: Path) -> None:
    """Measure weights and write their figures; the body of a process."""
    figures = measure_weights(decode_weights(stored.read_bytes()), prepared, rounded)
    out.write_text(json.dumps(figures))
    _reporter(name)("measured")


def _reporter(name: str) -> Callable[[str], None]:
    return lambda line: print(f"{name}: {line}", flush=True)


def measure_weights(weights: Weights, prepared: Path, rounded: bool) -> dict[str, Any]:
    """Return the figures of weights, with products rounded to 8 bits or not."""
    import torch  # pyright: ignore[reportMissingImports]

    reader = Reader()
    reader.load(weights)
    reader.round_products(rounded)
    reader.to("cuda" if torch.cuda.is_available() else "cpu")
    return measure(load_pools(prepared / POOLS_FILE), torch_network(reader))


def run_side_by_side(runs: Sequence[Run], prepared: Path, out: Path) -> dict[str, Any]:
    """Train all runs at once, and write the average of seeds and then all figures to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        scratch = Path(folder)
        _run_processes(_train_one, [(run, prepared, scratch) for run in runs])
        stored = {
            run.name: (path, False)
            for run in runs
            if (path := scratch / f"{run.name}.npz").exists()
        }
        if stored and len({(run.share, run.left_out) for run in runs}) == 1:
            found = [decode_weights(path.read_bytes()) for path, _ in stored.values()]
            shipped = scratch / "average.npz"
            shipped.write_bytes(encode_weights(average(found)))
            write_parts(shipped.read_bytes(), out)
            if len(found) == 1:
                stored = {}
            stored |= {"average": (shipped, False), "average, 8 bits": (shipped, True)}
        results = {name: scratch / f"{name}.json" for name in stored}
        _run_processes(
            _measure_one,
            [
                (name, path, prepared, rounded, results[name])
                for name, (path, rounded) in stored.items()
            ],
        )
        figures = {
            name: json.loads(path.read_text()) for name, path in results.items() if path.exists()
        }
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    if figures:
        print(to_table(figures), flush=True)
        (out / "figures.md").write_text(f"{to_table(figures)}\n\n{to_table(figures, 'rule')}\n")
    return figures


def _run_processes(body: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=body, args=given) for given in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
