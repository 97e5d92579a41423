"""Trainings side by side on one device: shares of the questions, several seeds, sets left out.

Each run is a process that trains for the same time, reads the pools and writes its figures. Runs
that differ by their seed alone are averaged at the end; the average is what ships.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
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


def _train_one(run: Run, prepared: Path, folder: Path) -> None:
    """Train, measure and write the weights and figures of one run; the body of a process."""
    report = _reporter(run.name)
    rows = choose_rows(Packed.load(prepared / ROWS_FILE), run)
    report(f"{len(rows.question)} rows, {int((rows.start >= 0).sum())} with an answer")
    weights = train(rows, load_compressed(prepared / BASE_FILE), run.schedule, report)
    (folder / f"{run.name}.npz").write_bytes(encode_weights(weights))
    figures = measure_weights(weights, prepared, rounded=False)
    (folder / f"{run.name}.json").write_text(json.dumps(figures))
    report("measured")


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
    """Train all runs at once, and write figures, and the average of seeds, to a folder."""
    scratch = out / "runs"
    scratch.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_train_one, args=(r, prepared, scratch)) for r in runs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    done = [run for run in runs if (scratch / f"{run.name}.npz").exists()]
    figures = {
        run.name: json.loads(path.read_text())
        for run in done
        if (path := scratch / f"{run.name}.json").exists()
    }
    _write_figures(figures, out)
    if done and len({(run.share, run.left_out) for run in done}) == 1:
        found = [decode_weights((scratch / f"{run.name}.npz").read_bytes()) for run in done]
        shipped = encode_weights(average(found))
        write_parts(shipped, out)
        figures |= dict(_measure_average(decode_weights(shipped), prepared))
        _write_figures(figures, out)
    return figures


def _write_figures(figures: dict[str, Any], out: Path) -> None:
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    if figures:
        print(to_table(figures), flush=True)
        (out / "figures.md").write_text(f"{to_table(figures)}\n\n{to_table(figures, 'rule')}\n")


def _measure_average(weights: Weights, prepared: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, rounded in (("average", False), ("average, 8 bits", True)):
        yield name, measure_weights(weights, prepared, rounded)
