"""`truespan doctor` at the command line: text for people, JSON for scripts, codes for both."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from truespan.cli import run
from truespan.wiring import open_library

NIGHT = "The lamp in the saloon went out at a quarter past one. The constable rang the bell."


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "night.txt").write_text(NIGHT)
    with open_library(tmp_path / "library", create=True) as opened:
        opened.create_world("w").ingest(tmp_path / "night.txt")
    yield tmp_path
    with open_library(tmp_path / "library") as opened:
        opened._components.index.retire()  # type: ignore[attr-defined]


def doctor(folder: Path, *arguments: str) -> int:
    return run(["doctor", "--library", str(folder / "library"), *arguments])


def damage(folder: Path, statement: str) -> None:
    with apsw.Connection(str(folder / "library" / "store.db")) as connection:
        connection.execute(statement)


def test_undamaged_library_is_reported_as_such(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(folder) == 0
    out = capsys.readouterr().out
    assert "nothing to do" in out
    assert "8 boundaries hold" in out
    assert NIGHT not in out


def test_damage_is_planned_applied_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]):
    damage(folder, "UPDATE chunks SET text = 'x'")
    assert doctor(folder) == 5
    out = capsys.readouterr().out
    assert "- 1 x damaged_text: restore the row from canonical text" in out
    assert "Nothing was changed" in out

    assert doctor(folder, "--apply") == 0
    out = capsys.readouterr().out
    assert "1 x restore" in out
    assert "nothing is left" in out
    assert doctor(folder) == 0


def test_doctor_reports_lost_text_until_it_is_ingested_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder, "UPDATE sentences SET text_hash = zeroblob(32) WHERE sid = 0")
    assert doctor(folder, "--apply") == 5
    assert "! 1 x lost_document: ingest its source again" in capsys.readouterr().out
    assert doctor(folder) == 5

    ingest = ["ingest", str(folder / "night.txt"), "-w", "w", "-L", str(folder / "library")]
    assert run(ingest) == 0
    assert doctor(folder) == 0
