"""The promises as data, and how tests say which of them they prove.

`promises.toml` is the list: what each promise says, where it comes from and which tests prove it.
A test claims a promise with the mark that `proves` makes; `python -m tests.promises --write` copies
the claims into the list, and `architecture/test_promises.py` fails while the two differ. So neither
can drift from the other, and a promise that no test proves is printed as open, never hidden.
"""

import argparse
import contextlib
import io
import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PROMISES = TESTS / "promises.toml"

HEADER = """\
# What Truespan must hold. A seed is the document a promise comes from; T marks what follows from
# the specification alone. Ids are stable: tests name promises by them. The proofs are written by
# `make promises` from the marks of the tests; everything else is written by hand.
"""

Claims = dict[str, frozenset[str]]
"""For each collected test, by node id, the ids of the promises it claims to prove."""
CLAIMED = pytest.StashKey[Claims]()
"""Where a run keeps what all that it collected claims."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One testable statement, and the tests that prove it; without any it is open."""

    number: int
    id: str
    seeds: tuple[str, ...]
    sentence: str
    proofs: tuple[str, ...]


class CollectionFailed(Exception):
    """Some tests could not be collected, so nobody can say what they claim."""


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


# The file


@cache
def load() -> tuple[Promise, ...]:
    """Read the promises in the order of the file; once, since every marked test asks for them."""
    return parse(PROMISES.read_text("utf-8"))


def parse(toml: str) -> tuple[Promise, ...]:
    """Turn the text of the file into promises; a missing or an unknown key is an error."""
    tables = tomllib.loads(toml)["promise"]
    return tuple(
        Promise(**table | {"seeds": tuple(table["seeds"]), "proofs": tuple(table["proofs"])})
        for table in tables
    )


def render(promises: Iterable[Promise]) -> str:
    """Write promises as the text of the file, so that equal promises give equal bytes."""
    return "\n".join([HEADER, *map(_table, promises)])


def _table(promise: Promise) -> str:
    proofs = "".join(f"  {_string(proof)},\n" for proof in promise.proofs)
    line_end = "\n" if proofs else ""
    return (
        "[[promise]]\n"
        f"number = {promise.number}\n"
        f"id = {_string(promise.id)}\n"
        f"seeds = [{', '.join(map(_string, promise.seeds))}]\n"
        f"sentence = {_string(promise.sentence)}\n"
        f"proofs = [{line_end}{proofs}]\n"
    )


def _string(text: str) -> str:
    """Quote `text` for TOML, whose basic strings know all the escapes that JSON writes."""
    return json.dumps(text, ensure_ascii=False)


# The tests


def claims_of(items: Iterable[pytest.Item]) -> Claims:
    """Gather what collected tests claim; the parameters of one function speak for it together."""
    claims: Claims = {}
    for item in items:
        node = item.nodeid.partition("[")[0]
        marked = {id for mark in item.iter_markers("proves") for id in mark.args}
        claims[node] = claims.get(node, frozenset()) | marked
    return claims


class _Collector:
    """A pytest plugin that keeps what was collected, and what could not be."""

    def __init__(self) -> None:
        self.claims: Claims = {}
        self.unread: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # A module that skips itself hides its claims just as a broken one does.
        if not report.passed:
            self.unread.append(f"{report.nodeid} ({report.outcome})")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.claims = claims_of(session.items)


def collect() -> Claims:
    """Collect all of tests/ in this process, running none, and return what the tests claim.

    Raises:
        CollectionFailed: a module was broken or skipped itself as a whole.
    """
    collector, output = _Collector(), io.StringIO()
    # The empty -k and -m undo a selection that the settings of pytest may hold.
    everything = ["--collect-only", "-k", "", "-m", "", f"--rootdir={ROOT}", str(TESTS)]
    with contextlib.redirect_stdout(output):
        status = pytest.main(everything, plugins=[collector])
    complete = status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if collector.unread or not complete:
        unread = "\n".join(["not collected:", *collector.unread])
        raise CollectionFailed(f"{output.getvalue()}\n{unread}")
    return collector.claims


# Both together


def pairs_claimed(claims: Claims) -> set[tuple[str, str]]:
    """Return (promise id, test) for each claim of the tests."""
    return {(id, node) for node, ids in claims.items() for id in ids}


def pairs_recorded(promises: Iterable[Promise]) -> set[tuple[str, str]]:
    """Return (promise id, test) for each proof in the file."""
    return {(promise.id, proof) for promise in promises for proof in promise.proofs}


def with_proofs(promises: Sequence[Promise], claims: Claims) -> tuple[Promise, ...]:
    """Give each promise exactly the tests that claim it, sorted, and change nothing else.

    A claim on an unknown promise (a bare `pytest.mark.proves`) is an error, not left out quietly.
    """
    proofs: dict[str, tuple[str, ...]] = {promise.id: () for promise in promises}
    for id, node in sorted(pairs_claimed(claims)):
        if id not in proofs:
            raise ValueError(f"{node} claims the unknown promise {id}; use tests.promises.proves")
        proofs[id] += (node,)
    return tuple(replace(promise, proofs=proofs[promise.id]) for promise in promises)


def summary(promises: Sequence[Promise]) -> list[str]:
    """Say in one line how many promises are proved, and in a second one which are open."""
    still_open = [promise.number for promise in promises if not promise.proofs]
    proved = len(promises) - len(still_open)
    first = f"promises: {proved} of {len(promises)} proved by tests, {len(still_open)} open"
    return [first, f"open: {ranges(still_open)}"] if still_open else [first]


def ranges(numbers: Iterable[int]) -> str:
    """Write ascending numbers compactly, neighbours as a range: "3, 7-9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def table(promises: Sequence[Promise]) -> str:
    """Lay out the counts and each open promise by number, id and sentence."""
    still_open = [promise for promise in promises if not promise.proofs]
    width = max((len(promise.id) for promise in still_open), default=0)
    counts = [f"proved  {len(promises) - len(still_open):>3}", f"open    {len(still_open):>3}"]
    rows = [f"{p.number:>3}  {p.id:<{width}}  {p.sentence}" for p in still_open]
    return "\n".join([*counts, "", *rows] if rows else counts)


# The command


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the open promises, or do what the one option says."""
    parser = argparse.ArgumentParser(prog="python -m tests.promises", description=main.__doc__)
    options = parser.add_mutually_exclusive_group()
    options.add_argument("--write", action="store_true", help="write the proofs into the list")
    options.add_argument("--claims", action="store_true", help="print what tests claim, as JSON")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.write:
            _write()
        elif chosen.claims:
            print(json.dumps({node: sorted(ids) for node, ids in collect().items()}))
        else:
            print(table(load()))
    except CollectionFailed as failure:
        sys.exit(f"the tests could not all be collected, so nothing was done:\n{failure}")


def _write() -> None:
    promises = with_proofs(load(), collect())
    text = render(promises)
    if text != PROMISES.read_text("utf-8"):
        PROMISES.write_text(text, "utf-8", newline="\n")
    print("\n".join(summary(promises)))


if __name__ == "__main__":
    main()
