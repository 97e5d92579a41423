"""Backups of libraries on SQLite and on PostgreSQL, with one file format."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import truespan
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.backups import FIGURES, filled, home, images, on_server, opened, retire, told
from tests.support.crash_files import killed_at
from tests.support.worlds import STORES, WordCounter, WordEmbedder
from truespan.errors import BackupInvalid, InvalidArgument, TruespanError
from truespan.types.scope import Authority, Verb
from truespan.wiring import open_library
from truespan.wiring.storage import restore_library

MADE: dict[str, Path] = {}
"""The library of each store that is backed up; it is only read."""
STRIDE = {"sqlite": in_test_or_prove(3, 1), "postgres": in_test_or_prove(5, 3)}
"""Some of the steps at which processes are killed; those among rows have their own test."""


@pytest.fixture(scope="module", autouse=True)
def _made() -> Iterator[None]:
    yield
    while MADE:
        retire(MADE.popitem()[1])


@pytest.fixture
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    column = STORES[-1]
    if column not in MADE:
        MADE[column] = filled(tmp_path_factory.mktemp("backup") / "library")
    return MADE[column]


@pytest.fixture
def backup(source: Path, tmp_path: Path) -> Path:
    with opened(source) as library:
        library.backup(tmp_path / "library.backup")
    return tmp_path / "library.backup"


def held(folder: Path) -> set[str]:
    """Return the new files in and beside a folder to restore into."""
    found = {path.relative_to(folder.parent).as_posix() for path in folder.parent.rglob("*")}
    return found - {"library.backup", "again", "again/url", "again/truespan.toml"}


def worlds_in(folder: Path) -> list[str]:
    """Return the worlds of a library; none where there is no library."""
    if not (on_server() or (folder / "store.db").exists()):
        return []
    with opened(folder) as library:
        return [entry.name for entry in library.worlds()]


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("vectors", [True, False])
def test_restored_library_answers_byte_for_byte(source: Path, tmp_path: Path, vectors: bool):
    with opened(source) as library:
        before = told(library)
        report = library.backup(tmp_path / "b", vectors=vectors)
    assert report.manifest.images == 2

    again = home(tmp_path / "again")
    restored = truespan.restore(tmp_path / "b", again)
    (again / "truespan.toml").write_text((source / "truespan.toml").read_text())
    with opened(again) as library:
        assert (restored.pending == 0) == vectors
        if not vectors:
            for entry in library.worlds():
                library.world(entry.id).repair()
        assert told(library) == before
        assert library.doctor().healthy
    assert images(again) == images(source)
    assert len(images(source)) == 3
    retire(again)


@proves("upkeep.backup-restores")
def test_restoring_with_vectors_sends_no_provider_request(backup: Path, tmp_path: Path) -> None:
    report = truespan.restore(backup, home(tmp_path / "again"))
    assert (report.pending, report.written > 10) == (0, True)
    retire(tmp_path / "again")


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_backup_is_refused_and_creates_nothing(
    backup: Path, tmp_path: Path, part: float
) -> None:
    whole = backup.read_bytes()
    backup.write_bytes(whole[: int(len(whole) * part)])
    again = home(tmp_path / "again")
    with pytest.raises(BackupInvalid):
        truespan.restore(backup, again)
    assert held(again) == set()
    assert worlds_in(again) == []


@proves("upkeep.backup-restores")
def test_existing_library_is_not_replaced_by_a_restore(source: Path, backup: Path, tmp_path: Path):
    again = home(tmp_path / "again")
    with opened(again, create=True) as library:
        library.create_world("mine")
    before = held(again)
    with pytest.raises(InvalidArgument):
        truespan.restore(backup, again)
    assert worlds_in(again) == ["mine"]
    assert held(again) == before


@proves("upkeep.backup-restores")
def test_keys_and_settings_are_in_a_backup_only_on_request(source: Path, tmp_path: Path) -> None:
    (source / "usage.key").write_bytes(b"a secret of thirty-two bytes....")
    with opened(source) as library:
        plain = library.backup(tmp_path / "plain")
        all_of_it = library.backup(tmp_path / "all", settings=True, keys=True)
    assert not plain.manifest.has("keys")
    assert not plain.manifest.has("settings")
    assert b"a secret of thirty-two" not in (tmp_path / "plain").read_bytes()
    assert all_of_it.manifest.has("keys")
    again = home(tmp_path / "again")
    restore_library(tmp_path / "all", again)
    assert (again / "usage.key").read_bytes().startswith(b"a secret")
    # Settings that name a server, or that would replace others, are set aside.
    name = "truespan.toml.restored" if on_server() else "truespan.toml"
    assert (again / name).read_text().startswith(FIGURES)
    assert (tmp_path / "all").stat().st_mode & 0o077 == 0


@proves("upkeep.backup-restores")
def test_tokens_and_replies_are_not_restored(source: Path, tmp_path: Path) -> None:
    with opened(source) as library:
        _, secret = library.tokens.create("app", worlds=["world"], verbs=["read"])
        library.authenticate(secret.reveal())
        library.backup(tmp_path / "b")
    restore_library(tmp_path / "b", home(tmp_path / "again"))
    with opened(tmp_path / "again") as library:
        assert library.tokens.list() == []
        with pytest.raises(TruespanError) as refused:
            library.authenticate(secret.reveal())
    assert refused.value.code == "unauthorized"


@proves("upkeep.backup-restores")
def test_killed_backup_is_whole_or_absent_and_cleared_later(source: Path, tmp_path: Path) -> None:
    killed, step = True, 0
    while killed:
        step += STRIDE[STORES[-1]]
        folder = tmp_path / str(step)
        folder.mkdir()
        killed = killed_at(step, folder, "backup", source, folder / "b")
        if (folder / "b").exists():
            truespan.verify_backup(folder / "b")
        with opened(source) as library:
            library.backup(folder / "b", replace=True)
        assert [path.name for path in folder.iterdir()] == ["b"], step
    assert step > 6


@proves("upkeep.backup-restores")
def test_restore_killed_at_any_step_leaves_no_half_library(
    source: Path, backup: Path, tmp_path: Path
) -> None:
    with opened(source) as library:
        before = told(library)
    killed, step = True, 0
    while killed:
        step += STRIDE[STORES[-1]]
        folder = home(tmp_path / str(step) / "library")
        folder.parent.mkdir(exist_ok=True)
        killed = killed_at(step, folder.parent, "restore", backup, folder)
        if not worlds_in(folder):
            truespan.restore(backup, folder)
        with opened(folder) as library:
            library._refill()
            assert told(library) == before, step
        assert images(folder) == images(source)
        assert [path.name for path in folder.parent.iterdir()] == ["library"]
        retire(folder)
        if step > 14:
            break
    assert step > 6


@proves("upkeep.backup-restores")
def test_only_the_owner_of_the_whole_library_can_back_it_up(source: Path, tmp_path: Path) -> None:
    guest = Authority(worlds=frozenset(), verbs=frozenset({Verb.READ}))
    library = open_library(source, embedder=WordEmbedder(), counter=WordCounter(), authority=guest)
    with library, pytest.raises(TruespanError) as refused:
        library.backup(tmp_path / "b")
    assert refused.value.code == "not_allowed"
    assert not (tmp_path / "b").exists()
