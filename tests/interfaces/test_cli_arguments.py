"""What no command can use: bytes that are no text, and numbers that nobody can count to."""

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
        ["domains", "-w", "w", "--remove", BROKEN],
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


def test_a_world_named_by_the_environment_in_broken_bytes_is_refused(
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
