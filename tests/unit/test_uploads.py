"""Uploaded files: separate, under names that are not paths, and temporary."""

import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.failures import raises_code
from truespan.errors import InvalidArgument, InvalidConfiguration, StorageFull
from truespan.files.uploads import UploadFolder
from truespan.types.ids import WorldId
from truespan.types.source import DocumentOptions, Upload, check_upload_name, check_uploads

WORLD = WorldId("0b3e6c1e-0000-4000-8000-000000000001")
OTHER = WorldId("0b3e6c1e-0000-4000-8000-000000000002")


@pytest.fixture
def folder(tmp_path: Path) -> UploadFolder:
    return UploadFolder(tmp_path / "uploads", reserve=0)


def received(folder: UploadFolder, *uploads: Upload, world: WorldId = WORLD) -> str:
    with folder.receive(world, uploads) as batch:
        return batch


def contents(folder: UploadFolder, batch: str, world: WorldId = WORLD) -> dict[str, bytes]:
    found = folder.find(world, batch, DocumentOptions())
    return {source.name: folder.read(source) for source in found}


def left(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "uploads").rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", [
    "", " ", ".", "..", "...", " a.txt", "a.txt ", "\ta.txt", "a/b.txt", "/etc/passwd", "..\\a",
    "C:\\a.txt", "a\x00.txt", "a\n.txt", "a\x1b[2J.txt", "a\u202etxt.exe", "a\u2028b", "\ud800.txt",
    "x" * 252 + ".txt", "é" * 126 + ".txt", None, 7, b"a.txt",
])  # fmt: skip
def test_name_that_is_not_plain_is_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_upload_name(name)
    assert refusal.value.code == "invalid_argument"


@pytest.mark.parametrize(
    "name",
    ["a.txt", "Ünïcode – 名前.md", ".hidden", "CON", "a..b", "نمی\u200cخواهم.txt", "👩\u200d🚀"],
)
def test_name_in_any_script_is_kept(name: str) -> None:
    assert check_upload_name(name) == name


def test_upload_names_are_unique_and_required() -> None:
    assert check_upload_name("cafe\u0301.txt") == "caf\u00e9.txt"
    with pytest.raises(InvalidArgument):
        check_uploads([Upload("cafe\u0301.txt", b"a"), Upload("caf\u00e9.txt", b"b")])
    with pytest.raises(InvalidArgument):
        check_uploads([])


def test_stored_bytes_are_read_back(folder: UploadFolder, tmp_path: Path) -> None:
    large = os.urandom(3 << 20)
    (tmp_path / "c").write_bytes(b"from a path")
    batch = received(
        folder, Upload("a.txt", b"bytes"), Upload("b.bin", io.BytesIO(large)),
        Upload("c.txt", tmp_path / "c"), Upload("empty", b""),
    )  # fmt: skip
    assert contents(folder, batch) == {
        "a.txt": b"bytes", "b.bin": large, "c.txt": b"from a path", "empty": b"",
    }  # fmt: skip


def test_uploads_with_one_name_are_separate(folder: UploadFolder) -> None:
    with folder.receive(WORLD, [Upload("a.txt", b"first")]) as first:
        second = received(folder, Upload("a.txt", b"second"))
    assert contents(folder, first) == {"a.txt": b"first"}
    assert contents(folder, second) == {"a.txt": b"second"}


def test_document_identity_is_the_upload_name(tmp_path: Path) -> None:
    here, there = (UploadFolder(tmp_path / name, reserve=0) for name in ("here", "there"))
    ids = [
        folder.find(WORLD, received(folder, Upload(name, b"x")), DocumentOptions())
        .sources[0]
        .doc_id
        for folder, name in ((here, "a.txt"), (there, "a.txt"), (here, "A.txt"), (here, "a.md"))
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_only_the_owner_can_read_uploads(folder: UploadFolder, tmp_path: Path) -> None:
    received(folder, Upload("a.txt", b"secret"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in left(tmp_path)} == {0o600}


def test_oversized_upload_leaves_nothing(tmp_path: Path) -> None:
    folder = UploadFolder(tmp_path / "uploads", reserve=0, max_bytes=10)
    received(folder, Upload("fits.txt", b"0123456789"))
    before = left(tmp_path)
    with raises_code("source_too_large"):
        received(folder, Upload("a.txt", b"small"), Upload("b.txt", b"0123456789a"))
    assert left(tmp_path) == before


def test_upload_without_disk_space_does_not_start(tmp_path: Path) -> None:
    folder = UploadFolder(tmp_path / "uploads", reserve=1 << 60)
    with pytest.raises(StorageFull):
        received(folder, Upload("a.txt", b"small"))
    assert left(tmp_path) == []


def test_interrupted_upload_leaves_nothing(folder: UploadFolder, tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        """A connection that ends in the middle."""

        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError("gone")

    for content in (Broken(), tmp_path / "nowhere"):
        with raises_code("source_unreadable"):
            received(folder, Upload("a.txt", b"whole"), Upload("b.txt", content))

    assert left(tmp_path) == []


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "uploads").write_text("in the way")
    with pytest.raises(InvalidConfiguration):
        received(UploadFolder(tmp_path / "uploads", reserve=0), Upload("a.txt", b"x"))


def test_failed_job_record_removes_the_files(folder: UploadFolder, tmp_path: Path):
    with pytest.raises(ValueError, match="no job"), folder.receive(WORLD, [Upload("a", b"x")]):
        raise ValueError("no job")
    assert left(tmp_path) == []


def test_discarded_batch_is_removed_and_others_are_kept(folder: UploadFolder) -> None:
    one, other = received(folder, Upload("a", b"1")), received(folder, Upload("a", b"2"))
    folder.discard(WORLD, one)
    folder.discard(WORLD, one)
    assert (folder.exists(WORLD, one), folder.exists(WORLD, other)) == (False, True)
    with raises_code("source_missing"):
        folder.find(WORLD, one, DocumentOptions())


def test_batch_of_another_world_is_not_found(folder: UploadFolder) -> None:
    batch = received(folder, Upload("a", b"1"))
    with raises_code("source_missing"):
        folder.find(OTHER, batch, DocumentOptions())
    with raises_code("source_missing"):
        folder.find(WorldId("../" + WORLD), batch, DocumentOptions())


def test_sweep_keeps_wanted_and_incoming_batches(folder: UploadFolder, tmp_path: Path) -> None:
    wanted, unwanted = received(folder, Upload("a", b"1")), received(folder, Upload("a", b"22"))
    with folder.receive(WORLD, [Upload("a", b"3")]) as coming:
        removed = folder.sweep(WORLD, lambda batch: batch == wanted)
    assert removed == (1, 2)
    assert folder.exists(WORLD, wanted)
    assert folder.exists(WORLD, coming)
    assert not folder.exists(WORLD, unwanted)
    assert not list((tmp_path / "uploads" / WORLD).glob(".*"))


def test_unfinished_upload_is_removed_with_its_document(folder: UploadFolder, tmp_path: Path):
    half = tmp_path / "uploads" / WORLD / "0123abcd"
    half.mkdir(parents=True)
    (half / "1").write_bytes(b"half of it")
    assert folder.remove(WORLD, "whatever", lambda _: True) == (1, 10)
    assert left(tmp_path) == []


def kept_by(*batches: str) -> Callable[[str], bool]:
    return lambda batch: batch in batches


def test_single_document_is_removed_from_a_batch(folder: UploadFolder, tmp_path: Path) -> None:
    batch = received(folder, Upload("a.txt", b"going"), Upload("b.txt", b"staying"))
    busy = received(folder, Upload("a.txt", b"at work"))
    path = folder.find(WORLD, batch, DocumentOptions()).sources[0].path

    assert folder.remove(WORLD, path, kept_by(busy)) == (1, 5)
    assert contents(folder, batch) == {"b.txt": b"staying"}
    assert contents(folder, busy) == {"a.txt": b"at work"}
    assert not any(b"going" in path.read_bytes() for path in left(tmp_path))
    # A member is in the file that it was uploaded in.
    path = folder.find(WORLD, batch, DocumentOptions()).sources[0].path
    folder.remove(WORLD, f"{path}/inner.md", kept_by())
    assert not folder.exists(WORLD, batch)


def test_all_uploads_of_one_world_are_removed(folder: UploadFolder) -> None:
    received(folder, Upload("a", b"1"), Upload("b", b"2"))
    other = received(folder, Upload("a", b"1"), world=OTHER)
    assert folder.worlds() == [WORLD, OTHER]
    assert folder.remove_all(WORLD) == (2, 2)
    assert folder.remove_all(WORLD) == (0, 0)
    assert folder.worlds() == [OTHER]
    assert folder.exists(OTHER, other)
