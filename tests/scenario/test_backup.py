"""Backups: one file that gives the same library back, or a clear refusal, and nothing between."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

import truespan
from tests.mortal_files import killed_at
from tests.promises import proves
from tests.readings import frozen
from tests.scenario.test_figures import REPORT
from tests.worlds import WordCounter, WordEmbedder
from truespan.adapters.backup.archive import write_archive
from truespan.compose import open_library
from truespan.compose.backup import restore_library
from truespan.doors.wire import to_json
from truespan.engine.library import Library
from truespan.errors import BackupInvalid, InvalidSettings, LibraryNotFound, TruespanError
from truespan.model.backup import FORMAT, Manifest, Member

STORY = " ".join(f"Sentence {count} tells of the lamp by night." for count in range(60))
FIGURES = "docx_extract_images = true\ndocx_figure_chunks = true\n"


def opened(folder: Path, *, create: bool = False) -> Library:
    return open_library(folder, create=create, embedder=WordEmbedder(), counter=WordCounter())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A library with a book and its readers, a second world, and a document with images."""
    home = tmp_path_factory.mktemp("backup")
    folder = home / "library"
    folder.mkdir()
    (folder / "truespan.toml").write_text(FIGURES)
    (home / "story.txt").write_text(STORY)
    (home / "report.docx").write_bytes(REPORT)
    with opened(folder, create=True) as library:
        world = library.create_world("world")
        world.ingest([home / "story.txt", home / "report.docx"], kind="book")
        for sid in (0, 7, 30):
            world.reader(f"at {sid}").set("story.txt", sid=sid)
        library.create_world("other").ingest(home / "story.txt")
        told(library)
    yield folder
    retire(folder)


def retire(folder: Path) -> None:
    with opened(folder) as library:
        library._parts.index.retire()  # type: ignore[attr-defined]


def told(library: Library) -> list[str]:
    """Return all that is told of a library, as bytes would travel, its times excepted."""
    answers = []
    for name in ("world", "other"):
        world = library.world(name)
        found = world.search("lamp by night", top_k=30, floor=0.0)
        answers += [to_json(found.results), found.context]
        answers += [frozen(world.retrieve("lamp", language_constraint=None))]
        answers += [to_json(world.documents()), to_json(replace(world.status(), vectors=0))]
    world = library.world("world")
    for sid in (0, 7, 30):
        reader = world.reader(f"at {sid}")
        answers += [frozen(reader.retrieve("lamp", top_k=20)), to_json(reader.where())]
    return answers


def images(folder: Path) -> dict[str, bytes]:
    home = folder / "data" / "rag-assets"
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def backup(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backups") / "library.backup"
    with opened(source) as library:
        library.backup(path, settings=True)
    return path


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("vectors", [True, False])
def test_a_restored_library_answers_byte_for_byte_as_the_one_that_was_backed_up(
    source: Path, tmp_path: Path, vectors: bool
) -> None:
    with opened(source) as library:
        before = told(library)
        report = library.backup(tmp_path / "b", vectors=vectors, settings=True)
    assert report.manifest.images == 2

    restored = truespan.restore(tmp_path / "b", tmp_path / "again")
    with opened(tmp_path / "again") as library:
        assert (restored.pending == 0) == vectors
        if not vectors:
            for entry in library.worlds():
                library.world(entry.id).repair()
        assert told(library) == before
        assert library.doctor().healthy
    assert images(tmp_path / "again") == images(source)
    assert len(images(source)) == 3
    retire(tmp_path / "again")


@proves("upkeep.backup-restores")
def test_restoring_with_vectors_asks_no_provider(backup: Path, tmp_path: Path) -> None:
    report = truespan.restore(backup, tmp_path / "again")
    assert (report.pending, report.written > 10) == (0, True)
    retire(tmp_path / "again")


@proves("upkeep.backup-restores")
def test_every_flipped_byte_is_noticed_or_changes_nothing(backup: Path, tmp_path: Path) -> None:
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


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_backup_is_refused_and_nothing_is_made(
    backup: Path, tmp_path: Path, part: float
) -> None:
    whole = backup.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(BackupInvalid):
        truespan.restore(tmp_path / "cut", tmp_path / "again")
    assert [path.name for path in tmp_path.iterdir()] == ["cut"]


def forged(path: Path, backup: Path, **changes: object) -> Path:
    """Write a backup with a manifest of one's own, sealed as a real one is."""
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
def test_a_name_that_does_not_belong_into_a_backup_is_refused(
    backup: Path, tmp_path: Path, name: str
) -> None:
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
        ({"members": (Member("store.db", 1 << 45, "0" * 64),)}, "manifest says"),
        ({"members": (Member("store.db", -1, "0" * 64),)}, "sizes"),
        ({"members": ()}, "no store"),
    ],
    ids=["format", "schema", "bomb", "size", "empty"],
)
def test_a_manifest_that_cannot_be_is_refused(
    backup: Path, tmp_path: Path, changes: dict, words: str
) -> None:
    path = forged(tmp_path / "forged", backup, **changes)
    with pytest.raises(BackupInvalid, match=words):
        truespan.restore(path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@proves("upkeep.backup-restores")
@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04", STORY.encode()])
def test_a_file_that_is_no_backup_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "strange").write_bytes(content)
    with pytest.raises(BackupInvalid):
        truespan.verify_backup(tmp_path / "strange")


@proves("upkeep.backup-restores")
def test_an_archive_of_somebody_else_is_refused(backup: Path, tmp_path: Path) -> None:
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
def test_a_member_that_was_exchanged_in_a_sound_archive_is_refused(
    backup: Path, tmp_path: Path
) -> None:
    sound = truespan.verify_backup(backup)
    other = tmp_path / "other"
    other.write_bytes(bytes(sound.members[0].size))
    write_archive(
        tmp_path / "forged", replace(sound, members=sound.members[:1]), {"store.db": other}
    )
    with pytest.raises(BackupInvalid, match="not as it was written"):
        truespan.verify_backup(tmp_path / "forged")


@proves("upkeep.backup-restores")
def test_a_store_with_statements_of_its_own_is_refused(
    backup: Path, tmp_path: Path, source: Path
) -> None:
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


@proves("upkeep.backup-restores")
def test_nothing_that_is_there_is_overwritten(source: Path, backup: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with opened(source) as library:
        with pytest.raises(InvalidSettings):
            library.backup(tmp_path / "mine")
        assert (tmp_path / "mine").read_text() == "mine"
        library.backup(tmp_path / "mine", replace=True)
    truespan.verify_backup(tmp_path / "mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(InvalidSettings):
        truespan.restore(backup, tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "mine"]


@proves("upkeep.backup-restores")
def test_keys_and_settings_are_in_a_backup_only_if_asked_for(source: Path, tmp_path: Path) -> None:
    (source / "usage.key").write_bytes(b"a secret of thirty-two bytes....")
    with opened(source) as library:
        plain = library.backup(tmp_path / "plain")
        all_of_it = library.backup(tmp_path / "all", settings=True, keys=True)
    assert not plain.manifest.has("keys")
    assert not plain.manifest.has("settings")
    assert b"a secret of thirty-two" not in (tmp_path / "plain").read_bytes()
    assert all_of_it.manifest.has("keys")
    restore_library(tmp_path / "all", tmp_path / "again")
    assert (tmp_path / "again" / "usage.key").read_bytes().startswith(b"a secret")
    assert (tmp_path / "again" / "truespan.toml").read_text() == FIGURES
    assert (tmp_path / "all").stat().st_mode & 0o077 == 0


@proves("upkeep.backup-restores")
def test_a_backup_killed_at_any_step_is_whole_or_absent_and_the_next_one_clears_up(
    source: Path, tmp_path: Path
) -> None:
    killed, step = True, 0
    while killed:
        step += 1
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
def test_a_restore_killed_at_any_step_leaves_no_half_library(
    source: Path, backup: Path, tmp_path: Path
) -> None:
    with opened(source) as library:
        before = told(library)
    killed, step = True, 0
    while killed:
        step += 1
        folder = tmp_path / str(step) / "library"
        folder.parent.mkdir()
        killed = killed_at(step, folder.parent, "restore", backup, folder)
        for found in folder.parent.iterdir():
            if found != folder:
                with pytest.raises(LibraryNotFound):
                    opened(found)
        if not folder.exists():
            truespan.restore(backup, folder)
        with opened(folder) as library:
            library.refill()
            assert told(library) == before, step
        assert [path.name for path in folder.parent.iterdir()] == ["library"]
        retire(folder)
        if step > 14:
            break
    assert step > 6


@proves("upkeep.backup-restores")
def test_a_backup_taken_while_others_write_is_one_state_of_the_library(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "more.txt").write_text("A text that is on its way. It is not there yet.")
    with opened(source) as library, opened(source) as other:
        scope = other.world("other")._scope()
        assert scope is not None
        with other._parts.store._connections.writing() as connection:  # type: ignore[attr-defined]
            connection.execute("UPDATE worlds SET name = 'changing' WHERE name = 'other'")
            report = library.backup(tmp_path / "b")
            connection.execute("UPDATE worlds SET name = 'other' WHERE name = 'changing'")
    restore_library(tmp_path / "b", tmp_path / "again")
    with opened(tmp_path / "again") as again:
        assert [entry.name for entry in again.worlds()] == ["other", "world"]
    assert report.manifest.worlds == 2


@proves("upkeep.backup-restores")
def test_only_the_owner_of_the_whole_library_may_back_it_up(source: Path, tmp_path: Path) -> None:
    from truespan.model.scope import Authority, Verb

    guest = Authority(worlds=frozenset(), verbs=frozenset({Verb.READ}))
    library = open_library(source, embedder=WordEmbedder(), counter=WordCounter(), authority=guest)
    with library, pytest.raises(TruespanError) as refused:
        library.backup(tmp_path / "b")
    assert refused.value.code == "not_allowed"
    assert not (tmp_path / "b").exists()
