"""The promises as data, and the mark for tests that prove them.

`promises.toml` lists the promises. Proofs are not committed: they are derived from the marks of
the collected tests, so the list and the tests cannot drift apart. `python -m tests.promises` prints
every promise with its proofs; a promise without a proof is printed as open.
"""

import contextlib
import io
import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PROMISES = TESTS / "promises.toml"

Claims = dict[str, frozenset[str]]
"""For each collected test, by node id, the ids of the promises it proves."""
CLAIMED = pytest.StashKey[Claims]()
"""Where a run keeps the claims of everything it collected."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One testable statement."""

    number: int
    id: str
    seeds: tuple[str, ...]
    sentence: str


def proves(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as proof of the promises `ids`; an unknown id fails when the test is imported.

    A typing error would otherwise leave a promise open although its test exists.
    """
    if not ids:
        raise ValueError("proves() needs the id of at least one promise")
    known = {promise.id for promise in load()}
    if unknown := [id for id in ids if id not in known]:
        raise ValueError(f"no promise in {PROMISES.name} has the id {', '.join(unknown)}")
    return pytest.mark.proves(*ids)


@cache
def load() -> tuple[Promise, ...]:
    """Read the promises in the order of the file; a missing or an unknown key is an error."""
    tables = tomllib.loads(PROMISES.read_text("utf-8"))["promise"]
    return tuple(Promise(**table | {"seeds": tuple(table["seeds"])}) for table in tables)


def claims_of(items: Iterable[pytest.Item]) -> Claims:
    """Return the claims of collected tests; the parameters of one function count together."""
    claims: Claims = {}
    for item in items:
        node = item.nodeid.partition("[")[0]
        marked = {id for mark in item.iter_markers("proves") for id in mark.args}
        claims[node] = claims.get(node, frozenset()) | marked
    return claims


def proofs_of(promises: Iterable[Promise], claims: Claims) -> dict[str, list[str]]:
    """Return the tests that prove each promise, by its id, sorted.

    A claim on an unknown promise (a bare `pytest.mark.proves`) is an error, not dropped silently.
    """
    proofs: dict[str, list[str]] = {promise.id: [] for promise in promises}
    for node, ids in sorted(claims.items()):
        for id in sorted(ids):
            if id not in proofs:
                raise ValueError(f"{node} claims the unknown promise {id}; use proves()")
            proofs[id].append(node)
    return proofs


def summarize(promises: Sequence[Promise], claims: Claims) -> list[str]:
    """Return the number of proved promises in one line, and a second line with the open ones."""
    proofs = proofs_of(promises, claims)
    still_open = [promise.number for promise in promises if not proofs[promise.id]]
    proved = len(promises) - len(still_open)
    first = f"promises: {proved} of {len(promises)} proved by tests, {len(still_open)} open"
    return [first, f"open: {format_ranges(still_open)}"] if still_open else [first]


def format_ranges(numbers: Iterable[int]) -> str:
    """Write ascending numbers compactly, neighbours as a range: "3, 7-9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


class _Collector:
    """A pytest plugin that keeps the collected tests and the failures of collection."""

    def __init__(self) -> None:
        self.claims: Claims = {}
        self.failed: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A module that skips itself hides its claims just as a broken one does.
        if not report.passed:
            self.failed.append(f"{report.nodeid} ({report.outcome})")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.claims = claims_of(session.items)


def main() -> None:
    """Collect all of tests/, running none, and print each promise with its proofs.

    With `--claims`, print what each test claims as JSON.
    """
    collector, output = _Collector(), io.StringIO()
    # The empty -k and -m undo a selection from pytest's configuration.
    everything = ["--collect-only", "-k", "", "-m", "", f"--rootdir={ROOT}", str(TESTS)]
    with contextlib.redirect_stdout(output):
        status = pytest.main(everything, plugins=[collector])
    if collector.failed or status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit("\n".join([output.getvalue(), "not collected:", *collector.failed]))
    if "--claims" in sys.argv:
        print(json.dumps({node: sorted(ids) for node, ids in collector.claims.items()}))
        return
    proofs = proofs_of(load(), collector.claims)
    for promise in load():
        print(f"{promise.number:>3}  {promise.id}: {promise.sentence}")
        print("".join(f"       {node}\n" for node in proofs[promise.id]) or "       OPEN\n")
    print("\n".join(summarize(load(), collector.claims)))


if __name__ == "__main__":
    main()
