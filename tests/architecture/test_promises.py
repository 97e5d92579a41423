"""Every promise is well-formed and is proved by at least one test."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import promises
from tests.promises import Claims, Promise, proves

NARROWING = ("lf", "ignore", "ignore_glob")
"""The options of pytest with which some tests are not even collected."""


def covers_the_whole_suite(config: pytest.Config) -> bool:
    """Return whether this run collected all of tests/, before it deselected any."""
    paths = {Path(config.invocation_params.dir, argument).resolve() for argument in config.args}
    narrowed = any(config.getoption(option, None) for option in NARROWING)
    return paths == {promises.TESTS} and not narrowed


@pytest.fixture(scope="module")
def claims(request: pytest.FixtureRequest) -> Claims:
    """Return the claims of all tests, even if only some of them were selected.

    A narrowed run collects in another process, since pytest cannot collect twice in one.
    """
    if covers_the_whole_suite(request.config):
        return request.config.stash[promises.CLAIMED]
    command = [sys.executable, "-m", "tests.promises", "--claims"]
    run = subprocess.run(command, cwd=promises.ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return {node: frozenset(ids) for node, ids in json.loads(run.stdout).items()}


def test_promises_have_numbers_in_order_and_distinct_plain_ids():
    numbers = [promise.number for promise in promises.load()]
    assert numbers[:220] == list(range(1, 221))
    assert numbers == sorted(set(numbers))
    ids = [promise.id for promise in promises.load()]
    assert len(set(ids)) == len(ids)
    shape = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")
    assert [promise.id for promise in promises.load() if not shape.fullmatch(promise.id)] == []


def test_every_promise_is_proved(claims: Claims):
    proofs = promises.proofs_of(promises.load(), claims)
    assert [id for id, nodes in proofs.items() if not nodes] == []


def test_every_scenario_names_the_promises_it_proves(claims: Claims):
    silent = [
        node for node, ids in claims.items() if node.startswith("tests/scenario/") and not ids
    ]
    assert not silent, "give each scenario a @proves(...) mark: " + ", ".join(silent)


def test_marks_name_known_promises():
    with pytest.raises(ValueError, match=re.escape("has the id search.no-such-promise")):
        proves("search.one-world", "search.no-such-promise")
    with pytest.raises(ValueError, match="at least one promise"):
        proves()


def test_proofs_are_sorted_and_a_promise_without_one_is_open():
    listed = (Promise(1, "a.b", ("T",), "Proved."), Promise(2, "a.c", ("T",), "Open."))
    claims = {"tests/b.py::test_b": frozenset({"a.b"}), "tests/a.py::test_a": frozenset({"a.b"})}
    assert promises.proofs_of(listed, claims) == {
        "a.b": ["tests/a.py::test_a", "tests/b.py::test_b"],
        "a.c": [],
    }
    assert promises.summarize(listed, claims) == [
        "promises: 1 of 2 proved by tests, 1 open",
        "open: 2",
    ]


def test_a_claim_on_an_unknown_promise_is_refused():
    with pytest.raises(ValueError, match=re.escape("tests/a.py::test_a claims the unknown")):
        promises.proofs_of(promises.load(), {"tests/a.py::test_a": frozenset({"a.b"})})


def test_open_promises_are_printed_as_ranges():
    assert promises.format_ranges([1, 3, 4, 7, 8, 9, 220]) == "1, 3-4, 7-9, 220"
    assert promises.format_ranges([]) == ""
