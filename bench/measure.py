"""Clocks and counts that hold on a machine which others use too: CPU time and medians."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

Work = Callable[[], object]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def cpu_seconds(work: Work) -> float:
    """Return the CPU time that one call takes in all threads of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def wall_seconds(work: Work) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def medians(
    sides: dict[str, Work], rounds: int, clock: Callable[[Work], float] = cpu_seconds
) -> dict[str, float]:
    """Return each side's median; they take turns, so that a busy moment hits all alike."""
    for work in sides.values():
        work()
    seconds = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            seconds[name].append(clock(work))
    return {name: median(taken) for name, taken in seconds.items()}


def cpu_of(pid: int) -> float:
    """Return the CPU time that another process has used so far, all of its threads together."""
    if sys.platform != "linux":
        raise SystemExit("The CPU time of another process is read from its clock, on Linux only.")
    # The kernel makes a process's clock out of its number; /proc counts in steps of 10 ms.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError as error:
        raise ProcessLookupError(error.errno, "that process is gone") from None


def apart(module: str, *arguments: str) -> Any:
    """Run a module in a separate process and return the JSON that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(finished.stdout)
