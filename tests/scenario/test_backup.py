"""Backups: a restore gives the same library, or is refused as a whole."""

import io
import json
import random
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

import truespan
from tests.promises import proves
from tests.support.backups import STORY, filled, opened, retire
from truespan.errors import BackupInvalid, InvalidArgument
from truespan.files.backup import write_archive
from truespan.types.maintenance import FORMAT, Manifest, Member
from truespan.wiring.storage import restore_library


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = filled(tmp_path_factory.mktemp("backup") / "library")
    yield folder
    retire(folder)


@pytest.fixture(scope="module")
def backup(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backups") / "library.backup"
    with opened(source) as library:
        library.backup(path, settings=True)
    return path


@proves("upkeep.backup-restores")
def test_every_flipped_byte_is_detected_or_changes_nothing(backup: Path, tmp_path: Path) -> None:
    whole, rng = backup.read_bytes(), random.Random(5)
    sound = truespan.verify_backup(backup)
    places = {
        *range(200),
        *range(len(whole) - 400, len(whole)),
        *rng.sample(range(len(whole)), 150),
    }
    noticed = 0
    broken = tmp_path / "broken"
    for place in sorted(places):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            assert truespan.verify_backup(broken) == sound
        except BackupInvalid:
            noticed += 1
    assert noticed > len(places) * 0.5


def forged(path: Path, backup: Path, **changes: object) -> Path:
    """Write a backup with a changed manifest and a valid digest."""
    sound = truespan.verify_backup(backup)
    with zipfile.ZipFile(backup) as archive:
        members = {one.name: archive.read(one.name) for one in sound.members}
    extra: dict[str, bytes] = changes.pop("extra", {})  # type: ignore[assignment]
    members |= extra
    sources = {}
    for number, (name, content) in enumerate(members.items()):
        sources[name] = path.parent / f"part-{number}"
        sources[name].write_bytes(content)
    listed = tuple(
        Member(name, len(content), sha256(content).hexdigest()) for name, content in members.items()
    )
    made: Manifest = replace(sound, **{"members": listed, **changes})
    write_archive(path, made, sources)
    return path


@proves("upkeep.backup-restores")
@pytest.mark.parametrize(
    "name",
    [
        "../escaped", "assets/../../escaped", "/etc/escaped", "assets/a/../../x/img_001.png",
        "C:\\escaped", "assets\\..\\escaped", "index/server.json", "STORE.DB", "assets/a/.names",
        "truespan.toml", "keys/other.key",
    ],
)  # fmt: skip
def test_foreign_name_in_a_backup_is_refused(backup: Path, tmp_path: Path, name: str) -> None:
    path = forged(tmp_path / "forged", backup, extra={name: b"x"})
    with pytest.raises(BackupInvalid):
        truespan.restore(path, tmp_path / "inner" / "again")
    assert not list(tmp_path.rglob("*escaped*"))
    assert not (tmp_path / "inner").exists()


@proves("upkeep.backup-restores")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": FORMAT + 1}, "newer"),
        ({"schema": 10_000}, "newer"),
        ({"members": (Member("store.db", 1 << 45, "0" * 64),)}, "do not match its manifest"),
        ({"members": (Member("store.db", -1, "0" * 64),)}, "sizes"),
        ({"members": ()}, "no store"),
    ],
    ids=["format", "schema", "bomb", "size", "empty"],
)
def test_invalid_manifest_is_refused(
    backup: Path, tmp_path: Path, changes: dict, words: str
) -> None:
    path = forged(tmp_path / "forged", backup, **changes)
    with pytest.raises(BackupInvalid, match=words):
        truespan.restore(path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04", STORY.encode()])
def test_file_that_is_not_a_backup_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "strange").write_bytes(content)
    with pytest.raises(BackupInvalid):
        truespan.verify_backup(tmp_path / "strange")


@proves("upkeep.backup-restores")
def test_foreign_archive_is_refused(backup: Path, tmp_path: Path) -> None:
    foreign = io.BytesIO()
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("store.db", b"x")
        archive.writestr("manifest.json", json.dumps({"format": 1}))
    (tmp_path / "foreign").write_bytes(foreign.getvalue())
    (tmp_path / "before").write_bytes(b"#!/bin/sh\n" + backup.read_bytes())
    for name in ("foreign", "before", "absent"):
        with pytest.raises(BackupInvalid):
            truespan.verify_backup(tmp_path / name)


@proves("upkeep.backup-restores")
def test_exchanged_member_of_an_archive_is_refused(backup: Path, tmp_path: Path) -> None:
    sound = truespan.verify_backup(backup)
    other = tmp_path / "other"
    other.write_bytes(bytes(sound.members[0].size))
    write_archive(
        tmp_path / "forged", replace(sound, members=sound.members[:1]), {"store.db": other}
    )
    with pytest.raises(BackupInvalid, match="changed since it was written"):
        truespan.verify_backup(tmp_path / "forged")


@proves("upkeep.backup-restores")
def test_store_with_added_statements_is_refused(backup: Path, tmp_path: Path, source: Path):
    import apsw

    with zipfile.ZipFile(backup) as archive:
        (tmp_path / "store.db").write_bytes(archive.read("store.db"))
    changed = apsw.Connection(str(tmp_path / "store.db"))
    changed.execute("CREATE TRIGGER sly AFTER INSERT ON jobs BEGIN DELETE FROM worlds; END")
    changed.close()
    content = (tmp_path / "store.db").read_bytes()
    path = forged(tmp_path / "forged", backup, extra={"store.db": content})
    with pytest.raises(BackupInvalid):
        truespan.restore(path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@proves("upkeep.deletion-complete")
def test_backup_into_the_library_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source)
    before = sorted(path.name for path in source.iterdir())
    with opened(source) as library:
        for path in (source / "b", source / "index" / "b", tmp_path / "link" / "b"):
            with pytest.raises(InvalidArgument, match="in the folder of the library"):
                library.backup(path)
    assert sorted(path.name for path in source.iterdir()) == before


@proves("upkeep.deletion-complete")
def test_backup_replaces_no_link_in_the_library(source: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").touch()
    link = source / "link"
    link.symlink_to(tmp_path / "outside")
    with opened(source) as library, pytest.raises(InvalidArgument, match="in the folder"):
        library.backup(link, replace=True)
    assert link.is_symlink()
    link.unlink()


@proves("upkeep.backup-restores")
def test_existing_files_are_not_overwritten(source: Path, backup: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with opened(source) as library:
        with pytest.raises(InvalidArgument):
            library.backup(tmp_path / "mine")
        assert (tmp_path / "mine").read_text() == "mine"
        library.backup(tmp_path / "mine", replace=True)
    truespan.verify_backup(tmp_path / "mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(InvalidArgument):
        truespan.restore(backup, tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "mine"]


@proves("upkeep.backup-restores")
def test_backup_during_writes_is_one_state_of_the_library(source: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("A text that is on its way. It is not there yet.")
    with opened(source) as library, opened(source) as other:
        assert other.world("other").access.scope() is not None
        with other._components.store._db.write_every_world() as session:  # type: ignore[attr-defined]
            session.execute("UPDATE worlds SET name = 'changing' WHERE name = 'other'")
            report = library.backup(tmp_path / "b")
            session.execute("UPDATE worlds SET name = 'other' WHERE name = 'changing'")
    restore_library(tmp_path / "b", tmp_path / "again")
    with opened(tmp_path / "again") as again:
        assert [entry.name for entry in again.worlds()] == ["other", "world"]
    assert report.manifest.worlds == 2
