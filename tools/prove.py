"""The long proof: books by the hundred, and nothing ahead of a reader ever changes an answer.

Run as `python -m tools.prove --minutes M --comparisons N`. Given the same state file it goes on
where it stopped, unless the code has changed since: what was compared then proves nothing now. It
ends when the time is over, and leaves with 0 only when all comparisons were made and every one of
them was equal: 1 stands for a finding, 3 for time that was too short.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from time import monotonic

from tests.support.reading_worlds import Counts, Trial

import truespan

ENOUGH = 200_000
MOST_FINDINGS = 20
FOUND, UNFINISHED = 1, 3


@dataclass
class Progress:
    """How far the proof of this `code` has come. Seeds are taken in order."""

    code: str
    next_seed: int = 1
    seconds: float = 0.0
    books: int = 0
    comparisons: int = 0
    positions: int = 0
    bundles: int = 0
    tails: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, counts: Counts, seconds: float) -> None:
        """Take note of one more book."""
        self.next_seed += 1
        self.seconds += seconds
        self.books += 1
        self.comparisons += counts.comparisons
        self.positions += counts.positions
        self.bundles += counts.bundles
        self.tails += counts.tails
        self.findings = [*self.findings, *counts.findings][:MOST_FINDINGS]

    def summary(self) -> str:
        """Say in a few lines what was compared, and what was found."""
        lines = [
            f"{self.comparisons:,} comparisons of answers before and after a change ahead: "
            f"{len(self.findings)} findings",
            f"{self.books:,} books, {self.positions:,} positions, {self.seconds:,.0f} s",
            f"{self.bundles:,} bundles recounted, {self.tails:,} tails cut from scratch",
        ]
        return "\n".join([*lines, *self.findings])


def prove(progress: Progress, *, comparisons: int, seconds: float, state: Path | None) -> Progress:
    """Try book after book until enough was compared, something was found, or time is over."""
    began = monotonic()
    while progress.comparisons < comparisons and not progress.findings:
        started = monotonic()
        if started - began >= seconds:
            break
        progress.add(_tried(progress.next_seed), monotonic() - started)
        save(progress, state)
    return progress


def _tried(seed: int) -> Counts:
    with tempfile.TemporaryDirectory(prefix="truespan-prove-") as folder:
        return Trial(Path(folder), seed).run()


def load(state: Path | None, seed: int = 1) -> Progress:
    """Return the progress that a state file holds for this code; else a new one."""
    new = Progress(fingerprint(), next_seed=seed)
    if state is None or not state.exists():
        return new
    kept = Progress(**json.loads(state.read_text("utf-8")))
    return kept if kept.code == new.code else new


def fingerprint() -> str:
    """Return a digest of all that decides what is compared: the package and these tests."""
    package, tests = Path(truespan.__file__).parent, Path(__file__).parents[1] / "tests"
    files = [*package.rglob("*.py"), *package.rglob("*.sql"), *tests.glob("*.py")]
    digest = sha256()
    for file in sorted(files):
        digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def save(progress: Progress, state: Path | None) -> None:
    """Write the progress in one step: whoever is killed here loses one book at most."""
    if state is None:
        return
    beside = state.with_name(f"{state.name}.new")
    beside.write_text(json.dumps(asdict(progress), indent=1), "utf-8")
    os.replace(beside, state)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove, print the counts, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.prove", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="the longest it may take")
    parser.add_argument("--comparisons", type=int, default=ENOUGH, help="how many are enough")
    parser.add_argument("--seed", type=int, default=1, help="number of the first book")
    parser.add_argument("--state", type=Path, default=None, help="go on from this file")
    chosen = parser.parse_args(arguments)
    progress = prove(
        load(chosen.state, chosen.seed),
        comparisons=chosen.comparisons,
        seconds=chosen.minutes * 60,
        state=chosen.state,
    )
    print(progress.summary())
    if progress.findings:
        return FOUND
    if progress.comparisons < chosen.comparisons:
        print(f"time is over; {chosen.comparisons - progress.comparisons:,} are left")
        return UNFINISHED
    return 0


if __name__ == "__main__":
    sys.exit(main())
