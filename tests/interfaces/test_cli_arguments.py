"""Invalid arguments of commands: bytes that are not UTF-8, and malformed or huge numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from truespan.cli import run

HUGE = "99999999999999999999"
BROKEN = os.fsdecode(b"\xff ferry")


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", BROKEN, "-w", "w"],
        ["search", "x", "-d", BROKEN],
        ["generations", "-w", "w", "--remove-domain", BROKEN],
        ["promote", "1", "-w", "w", "-d", BROKEN],
        ["search", BROKEN, "--json", "-w", "w"],
    ],
)
def test_arguments_that_are_not_utf_8_are_refused(
    library: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run([*arguments, "-L", str(library)]) == 2

    out, err = capsys.readouterr()
    assert "is not UTF-8" in out + err


@pytest.mark.parametrize(
    "arguments",
    [
        ["usage", "--limit", HUGE],
        ["evaluate", "golden.yaml", "-g", HUGE],
        ["evaluate", "golden.yaml", "--against", HUGE],
        ["calibrate", "golden.yaml", "-g", HUGE],
        ["doctor", "--embed-sample", HUGE],
        ["reindex", "-g", HUGE],
        ["promote", HUGE],
    ],
)
def test_numbers_beyond_counting_are_refused(
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    (tmp_path / "golden.yaml").write_text("- query: Who wound the clock?\n  expected: [lamp.md]\n")
    monkeypatch.chdir(tmp_path)

    assert run([*arguments, "-w", "w", "-L", str(library)]) == 2

    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


ODD = ["1_000", " 5", "5 ", "+5", "1e3", "5.0", "05", "0x10", "\u0663", "\uff15", ""]


def test_numbers_that_only_python_reads_are_refused(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [
        *(["search", "x", "-k", text] for text in ODD),
        *(["reader", "set", "1", "ann", f"--sentence={text}"] for text in ODD),
        *(["promote", "--", text] for text in ODD),
        *(["worker", f"--concurrency={text}"] for text in ("1_0", "0", "65")),
        *(["search", "x", "--floor", text] for text in ("nan", "inf", "1_0", "+0.5", ".5", "")),
    ]
    for command in commands:
        place = command.index("--") if "--" in command else len(command)
        world = [] if command[0] == "worker" else ["-w", "w"]
        where = ["-L", str(library), *world]

        code = run([*command[:place], *where, *command[place:]])

        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), command
        assert "Invalid value for" in err, command
    assert run(["search", "x", "-k", "3", "-w", "w", "-L", str(library), "--floor", "1e-1"]) == 0


def test_environment_world_in_broken_bytes_is_refused(
    library: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRUESPAN_WORLD", BROKEN)

    assert run(["search", "lamp", "-L", str(library)]) == 2

    assert "not valid Unicode" in capsys.readouterr().err


def test_a_process_given_broken_bytes_ends_with_one_line() -> None:
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"truespan", b"search", b"\xff", b"-w", b"w"],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_search_takes_a_count_of_any_length(
    library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["search", "x", "-k", HUGE, "--json", "-w", "w", "-L", str(library)]) == 0
    assert f'"requested_k": {HUGE}' in capsys.readouterr().out
