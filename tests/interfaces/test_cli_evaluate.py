"""Golden queries at the command line, on the real store, index and model."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.test_cli import KEYS, NIGHT, Terminal
from truespan.wiring import open_library

GOLDEN = """\
- query: Where is the spare key kept?
  expected: [keys.md]
- id: lamp
  query: When did the lamp go out?
  phrases: [a quarter past one]
"""


@pytest.fixture
def terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    made = Terminal(tmp_path, capsys)
    made.write("night.txt", NIGHT)
    made.write("keys.md", f"# Keys\n\n{KEYS}\n")
    made("init", "--world", "w")
    made("ingest", str(made.files), "-w", "w")
    yield made
    monkeypatch.undo()
    open_library(tmp_path / "library")._components.index.retire()  # type: ignore[attr-defined]


def test_world_is_evaluated_for_people_and_scripts(terminal: Terminal) -> None:
    golden = terminal.write("golden.yaml", GOLDEN)

    code, out, err = terminal("evaluate", golden, "-w", "w", "--per-query")
    assert (code, err) == (0, "")
    assert "w, generation 1: 2 queries, 2 judged" in out
    assert "When did the lamp go out?" in out
    _, short, _ = terminal("evaluate", golden, "-w", "w")
    assert "hit rate     1.0000" in short
    assert "When did" not in short

    code, found = terminal.json("evaluate", golden, "-w", "w", "-g", "1")
    assert code == 0
    assert found["evaluations"][0]["totals"]["metrics"]["hit"] == 1.0
    assert "quarter past one" not in json.dumps(found)


def test_generations_are_compared_and_the_gate_sets_the_code(terminal: Terminal) -> None:
    golden = terminal.write("golden.yaml", GOLDEN)

    code, out, _ = terminal("evaluate", golden, "-w", "w", "--against", "1")
    assert code == 0
    assert "0 better, 0 worse, 2 same" in out
    assert "The gate holds." in out
    unjudged = terminal.write("unjudged.yaml", "- query: What?\n  expected: []\n")
    code, found = terminal.json("evaluate", unjudged, "-w", "w", "--against", "1")
    assert code == 5
    assert found["verdict"]["reasons"][0]["code"] == "nothing_compared"
    assert terminal("evaluate", golden, "-w", "w", "--mode", "hybrid")[0] == 0


def test_modes_are_compared_in_a_table_and_in_json(terminal: Terminal) -> None:
    golden = terminal.write("golden.yaml", GOLDEN)
    modes = ("--mode", "vector", "--mode", "hybrid")

    code, out, err = terminal("evaluate", golden, "-w", "w", *modes)
    assert (code, err) == (0, "")
    assert out.startswith("w, generation 1: 2 queries, 2 judged\n")
    assert re.search(r"^metric +vector +hybrid$", out, re.MULTILINE)
    assert re.search(r"^hit rate +1.0000 +1.0000$", out, re.MULTILINE)
    assert "When did" not in out
    _, out, _ = terminal("evaluate", golden, "-w", "w", *modes, "--per-query")
    assert re.search(r"^lamp When did the lamp go out\? +1.0000 +1.0000$", out, re.MULTILINE)
    code, found = terminal.json("evaluate", golden, "-w", "w", *modes, "--mode", "keyword")
    assert (code, found["names"]) == (0, ["vector", "hybrid", "keyword"])
    assert len(found["comparisons"]) == 3
    terminal("reader", "set", "night.txt", "-r", "anna", "-w", "w", "--sentence", "0")
    code, found = terminal.json(
        "evaluate", golden, "-w", "w", "--mode", "vector", "--reader", "anna"
    )
    assert (code, found["evaluations"][0]["name"]) == (0, "w, generation 1, reader anna, vector")
    for wrong in (("--against", "1"), ("--mode", "hybrid")):
        code, out, err = terminal("evaluate", golden, "-w", "w", *modes, *wrong)
        assert (code, out) == (2, ""), wrong


@pytest.mark.contract
def test_failed_query_and_bad_arguments_set_the_exit_code(terminal: Terminal) -> None:
    long = terminal.write("long.yaml", f"- query: {'一' * 900}\n  expected: [keys.md]\n")
    golden = terminal.write("golden.yaml", GOLDEN)
    broken = terminal.write("broken.yaml", "- query: x\n  expected: []\n- nonsense: 1\n")

    code, found = terminal.json("evaluate", long, "-w", "w")
    assert (code, found["evaluations"][0]["totals"]["failed"]) == (6, 1)
    for arguments, wanted in (
        ((broken,), "line 3"),
        ((golden, "-g", "7"), "generation"),
        ((golden, "--domain", "none"), "domain"),
        ((golden, "-g", "1", "--domain", "d"), "not both"),
        ((str(terminal.files / "none.yaml"),), "no such file"),
        ((str(terminal.files / "night.txt"),), ".yaml"),
        ((golden, "--against", "1", "--allowed-drop", "7"), "allowed drop"),
    ):
        code, out, err = terminal("evaluate", *arguments, "-w", "w")
        assert (code, out, err.count("\n")) == (2, "", 1), (arguments, out, err)
        assert wanted in err, (arguments, err)


def test_calibrate_shows_a_curve_and_stores_nothing(terminal: Terminal) -> None:
    golden = terminal.write("golden.yaml", GOLDEN)

    code, out, _ = terminal("calibrate", golden, "-w", "w", "--keep")
    assert code == 0
    assert "too few" in out
    assert "in force" in out
    assert "Minimum evidence of an answer: Keep " in out
    assert "No thresholds are proposed, and nothing was changed." in out
    code, report = terminal.json("calibrate", golden, "-w", "w")
    assert (report["proposed"], report["kept"]) == (None, False)
    assert report["in_force"]["calibrated_floor"] == 0.4922
    assert report["evidence"]["proposed"] is None
