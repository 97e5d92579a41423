"""Checks of the doctor around a library: files, database, models, keys, clock."""

import os
from pathlib import Path

import pytest

from tests.support.worlds import LibraryFixture, make_library
from truespan.types.maintenance import Check, Verdict
from truespan.wiring import open_library
from truespan.wiring.environment import EARLIEST, file_checks

NOW = EARLIEST + 40 * 365 * 86_400.0
posix = pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "library"
    made.mkdir(mode=0o700)
    (made / "store.db").touch(mode=0o600)
    return made


def checked(folder: Path, *, reserve: int = 0, now: float = NOW) -> dict[str, Check]:
    found = file_checks(folder, "truespan.toml", reserve=reserve, now=now)
    return {check.name: check for check in found}


def test_new_library_passes_every_check(folder: Path) -> None:
    assert {check.verdict for check in checked(folder).values()} == {Verdict.OK}


@posix
def test_library_readable_by_others_is_a_warning(folder: Path) -> None:
    folder.chmod(0o755)
    assert checked(folder)["privacy"].verdict is Verdict.OK
    (folder / "store.db").chmod(0o644)
    found = checked(folder)["privacy"]
    assert (found.verdict, "store.db" in found.says) == (Verdict.WARNING, True)
    assert found.remedy


@posix
@pytest.mark.parametrize(
    ("mode", "verdict"), [(0o600, Verdict.OK), (0o644, Verdict.OK), (0o662, Verdict.PROBLEM)]
)
def test_settings_writable_by_others_are_a_problem(folder: Path, mode: int, verdict: Verdict):
    (folder / "truespan.toml").touch()
    (folder / "truespan.toml").chmod(mode)
    assert checked(folder)["truespan.toml"].verdict is verdict


def test_disk_below_the_reserve_is_a_problem(folder: Path) -> None:
    assert checked(folder, reserve=1 << 80)["room"].verdict is Verdict.PROBLEM


@pytest.mark.parametrize("now", [0.0, EARLIEST - 1.0, EARLIEST + 1.0])
def test_clock_behind_the_library_is_a_warning(folder: Path, now: float) -> None:
    os.utime(folder / "store.db", (NOW, NOW))
    assert checked(folder, now=now)["clock"].verdict is Verdict.WARNING


def test_database_with_broken_references_is_a_problem(lib: LibraryFixture) -> None:
    lib.world(a__txt="The harbour light.")
    assert {check.verdict for check in lib.store.scrub.soundness()} == {Verdict.OK}
    lib.sql("PRAGMA foreign_keys = OFF")
    lib.sql("DELETE FROM revisions")
    found = {check.name: check.verdict for check in lib.store.scrub.soundness()}
    assert found["references"] is Verdict.PROBLEM


def test_database_with_broken_pages_is_a_problem(tmp_path: Path, lib: LibraryFixture) -> None:
    lib.world(a__txt="The harbour light. " * 400)
    lib.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    lib.library.close()
    data = bytearray((tmp_path / "store.db").read_bytes())
    for page in range(len(data) // 4096 - 4, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    (tmp_path / "store.db").write_bytes(data)

    again = make_library(tmp_path)
    found = {check.name: check.verdict for check in again.store.scrub.soundness()}
    again.library.close()

    assert found["database"] is Verdict.PROBLEM


def environment(tmp_path: Path, settings: str) -> dict[str, Check]:
    with open_library(tmp_path / "library", create=True) as opened:
        opened._components.index.retire()  # type: ignore[attr-defined]
    (tmp_path / "library" / "truespan.toml").write_text(settings)
    with open_library(tmp_path / "library") as opened:
        found = {check.name: check for check in opened._components.check_environment()}
        opened._components.index.retire()  # type: ignore[attr-defined]
    return found


def test_provider_without_a_key_is_a_problem_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = environment(tmp_path, 'embedding_provider = "openai"\n')["embedding keys"]
    assert found.verdict is Verdict.PROBLEM
    assert "OPENAI_API_KEY" in found.remedy


def test_checks_never_print_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-8f3a1c")
    found = environment(tmp_path, 'embedding_provider = "openai"\n')
    assert found["embedding keys"].verdict is Verdict.OK
    assert "canary" not in repr(found)


def test_model_with_missing_files_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = environment(tmp_path, f'model_folder = "{tmp_path / "empty"}"\n')
    assert found["embedding model"].verdict is Verdict.PROBLEM
