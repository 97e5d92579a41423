"""Uploads that are kept to be shown: in backups, after a restore, and after a deletion."""

import zipfile
from pathlib import Path

import pytest

import truespan
from tests.promises import proves
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.worlds import make_library
from truespan.errors import BackupInvalid
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
from truespan.ingest.draft import Preparation
from truespan.types.source import Upload

KEPT = make_pdf([Page(column(["The ferry left at four. It rained."]))])
DELETED = make_pdf([Page(column(["Nobody had seen the brass key."]))])


def files_of(library: Path) -> list[bytes]:
    folder = library / "data" / "page-pictures"
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


@proves("pictures.in-backups")
def test_kept_upload_is_shown_after_a_restore(tmp_path: Path) -> None:
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.create_world("pier")
        world.ingest([Upload("kept.pdf", KEPT), Upload("deleted.pdf", DELETED)])
        world.documents.delete("deleted.pdf")
        shown = world.documents.picture("kept.pdf")
        library.backup(tmp_path / "pier.backup")

    assert truespan.verify_backup(tmp_path / "pier.backup").has("sources")
    truespan.restore(tmp_path / "pier.backup", tmp_path / "again")
    [restored] = files_of(tmp_path / "again")
    assert restored.endswith(KEPT)
    with truespan.open(tmp_path / "again") as library:
        world = library.world("pier")
        assert world.documents.picture("kept.pdf") == shown
        world.documents.delete("kept.pdf")
    assert files_of(tmp_path / "again") == []


@proves("pictures.in-backups", "upkeep.backup-restores")
def test_changed_upload_in_a_backup_is_refused(tmp_path: Path) -> None:
    with truespan.open(tmp_path / "library", create=True) as library:
        library.create_world("pier").ingest([Upload("kept.pdf", KEPT)])
        library.backup(tmp_path / "pier.backup")
    path = tmp_path / "pier.backup"
    with zipfile.ZipFile(path) as archive:
        [name] = [name for name in archive.namelist() if name.startswith("sources/")]
        assert archive.read(name).endswith(KEPT)
    data = path.read_bytes()
    at = data.index(KEPT[-40:])
    path.write_bytes(data[:at] + b"x" + data[at + 1 :])

    with pytest.raises(BackupInvalid):
        truespan.restore(path, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@proves("pictures.in-backups")
def test_upload_is_removed_when_its_text_is_redacted(tmp_path: Path) -> None:
    data = make_pdf([Page(column(["Write to ida.holm@example.org soon."]))])
    plain = make_library(tmp_path)
    plain.library.create_world("world").ingest([Upload("a.pdf", data)])
    assert [path for path in (tmp_path / "pictures").rglob("*") if path.is_file()]
    plain.library.close()

    lib = make_library(tmp_path, preparation=Preparation(sanitizer=Sanitizer(mode=Mode.ON)))
    lib.library.world("world").ingest([Upload("a.pdf", data)])

    assert "ida.holm" not in lib.library.world("world").documents.text("1")
    assert not [path for path in (tmp_path / "pictures").rglob("*") if path.is_file()]
