"""The list of promises is whole, and it and the tests name each other."""

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
    """Tell whether this run collected all of tests/, whatever it left out thereafter."""
    asked = {Path(config.invocation_params.dir, argument).resolve() for argument in config.args}
    narrowed = any(config.getoption(option, None) for option in NARROWING)
    return asked == {promises.TESTS} and not narrowed


def collect_apart() -> Claims:
    """Collect all of tests/ in another process, since pytest cannot collect twice in one."""
    command = [sys.executable, "-m", "tests.promises", "--claims"]
    run = subprocess.run(command, cwd=promises.ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return {node: frozenset(ids) for node, ids in json.loads(run.stdout).items()}


@pytest.fixture(scope="module")
def claims(request: pytest.FixtureRequest) -> Claims:
    """What all the tests claim, also when only some of them were asked to run."""
    if covers_the_whole_suite(request.config):
        return request.config.stash[promises.CLAIMED]
    return collect_apart()


def test_promises_are_numbered_from_1_to_220_without_gap():
    assert [promise.number for promise in promises.load()] == list(range(1, 221))


def test_no_two_promises_share_an_id():
    ids = [promise.id for promise in promises.load()]

    assert len(set(ids)) == len(ids)


def test_each_id_is_an_area_and_a_short_name():
    shape = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")

    assert [promise.id for promise in promises.load() if not shape.fullmatch(promise.id)] == []


def test_the_file_is_written_as_make_promises_writes_it():
    text = promises.PROMISES.read_bytes().decode()

    assert text == promises.render(promises.parse(text)), "run `make promises`"


def test_the_list_and_the_tests_name_each_other(claims: Claims):
    recorded = promises.pairs_recorded(promises.load())
    claimed = promises.pairs_claimed(claims)

    differences = [
        *(f"  {id} is claimed by {node}, not in the list" for id, node in claimed - recorded),
        *(f"  {id} lists {node}, which does not claim it" for id, node in recorded - claimed),
    ]

    assert not differences, "\n".join(
        ["promises.toml and the tests differ; run `make promises`:", *sorted(differences)]
    )


def test_every_scenario_names_the_promises_it_proves(claims: Claims):
    silent = [
        node for node, ids in claims.items() if node.startswith("tests/scenario/") and not ids
    ]

    assert not silent, "give each scenario a @proves(...) mark: " + ", ".join(silent)


def test_a_mark_with_an_unknown_promise_fails_at_once():
    with pytest.raises(ValueError, match=re.escape("has the id search.no-such-promise")):
        proves("search.one-world", "search.no-such-promise")


def test_a_mark_without_a_promise_fails_at_once():
    with pytest.raises(ValueError, match="at least one promise"):
        proves()


def test_writing_proofs_changes_the_proofs_only():
    before = (
        Promise(1, "a.b", ("000", "T"), 'no "\\r\\n" – ever', ("tests/gone.py::test_gone",)),
        Promise(2, "a.c", ("T",), "Open.", ()),
    )
    claims = {"tests/b.py::test_b": frozenset({"a.b"}), "tests/a.py::test_a": frozenset({"a.b"})}

    after = promises.parse(promises.render(promises.with_proofs(before, claims)))

    proofs = ("tests/a.py::test_a", "tests/b.py::test_b")
    assert after == (Promise(1, "a.b", before[0].seeds, before[0].sentence, proofs), before[1])


def test_a_claim_on_an_unknown_promise_is_not_left_out_quietly():
    with pytest.raises(ValueError, match=re.escape("tests/a.py::test_a claims the unknown")):
        promises.with_proofs(promises.load(), {"tests/a.py::test_a": frozenset({"a.b"})})


def test_open_promises_are_printed_as_ranges():
    assert promises.ranges([1, 3, 4, 7, 8, 9, 220]) == "1, 3-4, 7-9, 220"
    assert promises.ranges([]) == ""
