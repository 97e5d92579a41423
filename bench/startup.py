"""How long a person waits for the command line, interpreter included.

`--help` loads nothing of the engine. The searches run on a small library with the real local model:
with the index process running and the query cached, with the query new, and with nothing running.
Run it with `python -m bench.startup`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import truespan
from bench.free import end_index_process
from bench.material import Prose
from bench.measure import percentile, wall_seconds
from bench.report import Figure, Options, at_most, run, say

ROUNDS = 10
HELP_TARGET, CACHED_TARGET, NEW_TARGET = 0.3, 0.35, 0.7
COMMAND = Path(sys.executable).with_name("truespan")


def measure(options: Options) -> list[Figure]:  # noqa: ARG001
    """Return the medians of each way to start."""
    bare = median_of([[sys.executable, "-c", "pass"]] * ROUNDS)
    say(f"wall time, median of {ROUNDS}; an interpreter that does nothing takes {bare:.3f} s")
    help_seconds = median_of([[str(COMMAND), "--help"]] * ROUNDS)
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        cached, new, first = search_seconds(Path(name))
    return [
        Figure("truespan --help, p50", help_seconds, "s", target=at_most(HELP_TARGET)),
        Figure("truespan search, query cached, p50", cached, "s", target=at_most(CACHED_TARGET)),
        Figure("truespan search, query new, p50", new, "s", target=at_most(NEW_TARGET)),
        Figure("truespan search, index process to start too", first, "s"),
    ]


def search_seconds(folder: Path) -> tuple[float, float, float]:
    """Return how long searches take: cached, with a new query, and with nothing running."""
    library = folder / "library"
    text = folder / "small.txt"
    text.write_text(Prose(seed=9).text(paragraphs=8))
    with truespan.open(library, create=True) as opened:
        opened.create_world("small", defaults="contract").ingest(str(text))
        end_index_process(opened)
    search = [str(COMMAND), "search", "--library", str(library), "--world", "small", "--json"]
    first = median_of([[*search, "the very first query"]])
    cached = median_of([[*search, "the very first query"]] * ROUNDS)
    new = median_of([[*search, f"query number {number}"] for number in range(ROUNDS)])
    with truespan.open(library) as opened:
        opened.world("small").search("the very first query")
        end_index_process(opened)
    return cached, new, first


def median_of(commands: list[list[str]]) -> float:
    """Return the median wall time of commands that must all succeed."""
    return percentile([wall_seconds(lambda it=it: succeed(it)) for it in commands], 0.5)


def succeed(command: list[str]) -> None:
    """Run a command to its end."""
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    run("bench.startup", __doc__, measure)
