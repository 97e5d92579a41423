"""Run one of the suites that take too long for every commit: the one whose turn it is.

    python -m tools.long_suites             for CI, after the checks of every commit
    python -m tools.long_suites --list      list the suites with their times
    python -m tools.long_suites test-ocr    run all suites of a target
    python -m tools.long_suites --shard 3   print whose turn it is of 3 shards, as in 2/3

The number of commits decides, so that a series of commits runs all suites. A shallow clone does not
know the number; there the id of the commit decides. A suite that needs a program which is missing
is skipped, and says so.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_MINUTES = 6
"""A suite that takes longer on two cores is divided into shards."""


@dataclass(frozen=True)
class Suite:
    """A make target with its variables; `{round}` is another number each time its turn comes."""

    command: str
    minutes: float
    """Time on two cores, without creating environments."""
    needs: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        return self.command.partition(" ")[0]


def in_shards(target: str, count: int, minutes: float) -> list[Suite]:
    """Return the shards of a target that runs tests."""
    return [Suite(f"{target} SHARD={number}/{count}", minutes) for number in range(1, count + 1)]


SUITES = (
    *in_shards("test-contract", 8, 5),
    *in_shards("test-postgres", 5, 5),
    Suite("test-system", 2),
    Suite("test-mcp", 1, ("npm",)),
    Suite("test-frameworks", 1),
    Suite("test-chat-client", 1),
    Suite("test-ocr", 1),
    Suite("typescript", 1, ("npm",)),
    Suite("docs", 1),
    Suite("package", 1),
    Suite("fuzz MINUTES=4 SEED={round}", 5),
    Suite("fuzz-http MINUTES=4 SEED={round}", 5),
    Suite("soak MINUTES=3 SEED={round}", 4),
    Suite('growth PARTS="arguments accepted"', 4),
    Suite('growth PARTS="mcp data documents"', 4),
    Suite('bench BENCH_OPTIONS="--minutes 5 --from {round}"', 5),
    Suite("prove-worlds MINUTES=5 TRANSACTIONS=50000 SEED={round}", 2),
    # One book: nobody knows how many there is time for.
    Suite("prove-reading COMPARISONS=1 SEED={round}", 4),
    Suite("prove-indexes QUERIES=20000 SEED={round}", 4),
    *in_shards("prove-laws", 12, 5),
)


def choose_suite(turn: int) -> Suite:
    """Return the suite whose turn it is."""
    return SUITES[turn % len(SUITES)]


def find_turn(folder: Path = ROOT) -> int:
    """Return the number of commits; in a shallow clone, a number made from the commit's id."""
    if _git(folder, "rev-parse", "--is-shallow-repository") == "true":
        return int(_git(folder, "rev-parse", "HEAD"), 16)
    return int(_git(folder, "rev-list", "--count", "HEAD"))


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run_suite(suite: Suite, turn: int) -> int:
    """Run a suite and return its exit code; 0 if a program that it needs is missing."""
    command = f"make {suite.command.format(round=1 + turn // len(SUITES) % 1_000_000)}"
    missing = [name for name in suite.needs if shutil.which(name) is None]
    if missing:
        print(f"\nSKIPPED, NOT TESTED: {command} needs {', '.join(missing)}.", flush=True)
        return 0
    print(f"\nThe long suite of this commit: {command} (about {suite.minutes:g} min)", flush=True)
    code = subprocess.run(shlex.split(command), cwd=ROOT, check=False).returncode
    if code:
        print(f"\nFAILED: {command}", flush=True)
    return code


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--list"]:
        for suite in SUITES:
            print(f"{suite.minutes:4g} min  make {suite.command}")
        return 0
    if arguments[:1] == ["--shard"]:
        count = int(arguments[1])
        print(f"{find_turn() % count + 1}/{count}")
        return 0
    if unknown := set(arguments).difference(suite.target for suite in SUITES):
        sys.exit(f"There is no long suite {', '.join(sorted(unknown))}; see --list.")
    try:
        turn, code = find_turn(), 0
    except (OSError, subprocess.CalledProcessError):
        print("\nSKIPPED, NOT TESTED: git says nothing about commits here.", flush=True)
        return 0
    for suite in [suite for suite in SUITES if suite.target in arguments] or [choose_suite(turn)]:
        code |= bool(run_suite(suite, turn))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
