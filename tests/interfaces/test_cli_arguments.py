"""Invalid arguments of commands: bytes that are not UTF-8, and malformed or huge numbers."""

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


NO_CHUNK = "00000000-0000-5000-8000-000000000000"
REFUSED = [
    *(([*command, HUGE], "") for command in (
        ["conversations", "--limit"], ["evaluate", "golden.yaml", "-g"],
        ["evaluate", "golden.yaml", "--against"], ["calibrate", "golden.yaml", "-g"],
        ["doctor", "--embed-sample"], ["reindex", "-g"], ["promote"],
    )),
    (["search", "x", "-w", "nowhere"], "no world 'nowhere'"),
    (["search", "   "], "query is empty"),
    (["search", "x", "-k", "-1"], "must not be negative"),
    (["search", "x", "--floor", "1.5"], "between 0.0 and 1.0"),
    (["ingest", "missing.txt"], "no such file"),
    (["ingest", "golden.yaml", "--kind", "novel"], "'document' or 'book'"),
    (["ingest", "folder", "--watch", "--dry-run"], "--watch cannot be combined with"),
    (["show", "nothing"], "no document 'nothing'"),
    (["show", NO_CHUNK], "no chunk"),
    (["delete", "9"], "no document '9'"),
    (["ask", " "], "The query is empty"),
    (["ask", "Who?", "-w", "elsewhere"], "There is no world 'elsewhere'"),
    (["ask", "Who?", "--domain", "none"], "There is no domain 'none'"),
    (["ask", "Who?", "--book", "lamp.md"], "--book needs a reader"),
    (["ask", "Who?", "-r", "ann", "--tag", "x"], "cannot be combined with --reader"),
    (["ask", "Who?", "--mode", "fuzzy"], "one of auto, hybrid, vector, keyword"),
    (["status", "--usage", "--by", "all"], "Choose one of"),
    (["config", "--write"], "not settings of the library"),
    (["doctor", "-w", "nowhere"], "no world 'nowhere'"),
    (["doctor", "--embed-sample", "-1"], "embed-sample"),
    (["backup", "no/such/folder/b"], ""),
    (["restore", "absent"], ""),
    *((["token", "create", *words], "") for words in (
        ["app", "--all-worlds"], ["app", "-w", "absent"], [""], ["app", "--verb", "everything"],
        ["app", "--verb", "read", "--reader", "ada"], ["app", "--expires", "soon"],
        ["app", "--expires", "0d"], ["app", "--expires", "999999999w"], ["app", "--expires", "-1d"],
    )),
    (["token", "revoke", "0000000000000000"], ""),
    (["token", "revoke", "' OR 1=1 --"], ""),
    (["token", "create", "x", "--verb", "write", "--audience", "a"], ""),
]  # fmt: skip
"""Arguments that a command refuses, and words of the line that says why."""
WITHOUT_WORLD = ("backup", "restore", "revoke")


def test_wrong_arguments_are_refused_in_one_line_and_change_nothing(
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "golden.yaml").write_text("- query: Who wound the clock?\n  expected: [lamp.md]\n")
    monkeypatch.chdir(tmp_path)

    def state() -> list[str]:
        found = [capsys.readouterr().out]
        for command in (["status", "-w", "w", "--json"], ["token", "list"]):
            assert run([*command, "-L", str(library)]) == 0
            found.append(capsys.readouterr().out)
        return found[1:]

    before = state()
    for arguments, words in REFUSED:
        world = [] if {"-w", *WITHOUT_WORLD} & {*arguments} else ["-w", "w"]
        code = run([*arguments, *world, "-L", str(library)])

        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), arguments
        assert err.startswith("truespan: "), arguments
        assert words in err, arguments
    assert state() == before


ODD = ["1_000", " 5", "5 ", "+5", "1e3", "5.0", "05", "0x10", "\u0663", "\uff15", ""]


def test_non_json_numbers_are_refused(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
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

        code = run([*command[:place], *["-L", str(library), *world], *command[place:]])

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


def test_invalid_bytes_in_arguments_are_one_line() -> None:
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"truespan", b"search", b"\xff", b"-w", b"w"],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_search_accepts_a_count_of_any_length(library: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["search", "x", "-k", HUGE, "--json", "-w", "w", "-L", str(library)]) == 0
    assert f'"requested_k": {HUGE}' in capsys.readouterr().out
