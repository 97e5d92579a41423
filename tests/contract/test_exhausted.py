"""Errors for a full disk and for missing file descriptors; nothing is lost."""

import errno
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.index_contract import EAST, point, vector
from tests.promises import proves
from tests.support.exhaustion import full_disk, no_descriptors
from tests.support.index_process import SCOPE, end_process
from tests.support.worlds import LibraryFixture, make_library
from truespan.core.clock import SystemProcesses
from truespan.core.disk import require_descriptor
from truespan.errors import (
    IndexRefused,
    InvalidArgument,
    ModelUnavailable,
    SourceRefused,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    TooManyOpenFiles,
    TruespanError,
    resource_error,
)
from truespan.extensions.server.http.app import report_bug
from truespan.files.assets import AssetFolder
from truespan.files.jail import list_folder, read_file
from truespan.files.keys import UsageKey
from truespan.files.uploads import UploadFolder
from truespan.index.edge.client import EdgeIndex
from truespan.index.edge.process import log
from truespan.parsing.sandbox.client import ChildParser
from truespan.settings import read_settings
from truespan.store.engines.sqlite import SqliteDatabase
from truespan.types.ids import WorldId
from truespan.types.source import Upload
from truespan.types.text import Image

BOOK = "The lamp went out at midnight. Nobody on the pier saw who did it. The keeper slept."
QUERY = "Who put the lamp out?"


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    made = make_library(tmp_path / "library")
    made.world("w", lamp__txt=BOOK)
    return made


def raised(work: Callable[[], object]) -> TruespanError | None:
    try:
        work()
    except TruespanError as error:
        return error
    return None


def receive(folder: Path, upload: Upload) -> None:
    with UploadFolder(folder, reserve=0).receive(WorldId("0"), [upload]):
        pass


# The store


@proves("store.disk-reserve")
def test_full_disk_of_a_database_is_not_reported_as_damage(lib: LibraryFixture) -> None:
    world = lib.library.world("w")
    path = lib.write("more.txt", "The second book tells of a bell. " * 200)

    with full_disk():
        failure = raised(lambda: world.ingest([path]))
        hits = world.search(QUERY).passages
        refused = raised(lambda: lib.library.create_world("another"))

    assert isinstance(failure, StorageFull), failure
    assert isinstance(refused, StorageFull), refused
    assert "backup" not in str(failure)
    assert hits
    assert world.ingest([path]).ingested == ["more.txt"]
    assert all(check.verdict == "ok" for check in lib.store.scrub.soundness())


def test_database_at_its_page_limit_is_full(lib: LibraryFixture) -> None:
    world = lib.library.world("w")
    path = lib.write("more.txt", "The second book tells of a bell. " * 2000)
    database = lib.store._db
    assert isinstance(database, SqliteDatabase)
    connection = database.connection
    connection.pragma("max_page_count", connection.pragma("page_count"))

    failure = raised(lambda: world.ingest([path]))

    assert isinstance(failure, StorageFull), failure
    connection.pragma("max_page_count", 1 << 30)
    assert world.ingest([path]).ingested == ["more.txt"]


def test_missing_descriptors_for_a_database_are_reported(lib: LibraryFixture) -> None:
    world = lib.library.world("w")
    failures: list[TruespanError | None] = []

    def search() -> None:
        # On another thread, which needs its own connection.
        failures.append(raised(lambda: world.search(QUERY)))

    for left in range(3):
        thread = threading.Thread(target=search)
        with no_descriptors(left):
            thread.start()
            thread.join()

    assert [type(failure) for failure in failures[:1]] == [TooManyOpenFiles]
    assert all(failure is None or isinstance(failure, TooManyOpenFiles) for failure in failures)
    assert world.search(QUERY).passages


def test_database_server_errors_name_the_resource() -> None:
    pg = pytest.importorskip("psycopg.errors")
    from truespan.extensions.cluster.postgres_server import map_errors

    def failure(kind: type[Exception]) -> TruespanError | None:
        def work() -> None:
            with map_errors():
                raise kind("with values")

        return raised(work)

    expected = {
        pg.DiskFull: (StorageFull, "server is full"),
        pg.OutOfMemory: (StoreBusy, "no memory"),
        pg.TooManyConnections: (StoreBusy, "no more connections"),
        pg.InsufficientResources: (StoreBusy, "no memory or other resources"),
        pg.IoError: (StoreBusy, "I/O error"),
    }
    for kind, (family, words) in expected.items():
        found = failure(kind)
        assert found is not None
        assert isinstance(found, family), kind
        assert words in found.message
        assert "values" not in str(found)
    with no_descriptors():
        assert isinstance(failure(pg.OperationalError), TooManyOpenFiles)


# The index


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@proves("errors.provider-or-index")
def test_full_disk_of_an_index_needs_no_rebuild(folder: Path) -> None:
    index = EdgeIndex(folder, reserve=0, idle_seconds=60)
    with full_disk(1 << 16):
        failure = raised(
            lambda: (index.prepare(SCOPE), index.upsert(SCOPE, [point(SCOPE, 0, vector(*EAST))]))
        )
    end_process(folder)
    index.close()

    assert isinstance(failure, StorageFull), failure
    again = EdgeIndex(folder, reserve=0, idle_seconds=60)
    again.prepare(SCOPE)
    again.upsert(SCOPE, [point(SCOPE, 0, vector(*EAST))])
    assert again.count(SCOPE) == 1
    end_process(folder)
    again.close()


def test_missing_descriptors_for_an_index_process_are_reported(folder: Path) -> None:
    index = EdgeIndex(folder, reserve=0, idle_seconds=60)
    with no_descriptors():
        unstarted = raised(lambda: index.prepare(SCOPE))
    index.prepare(SCOPE)
    index.upsert(SCOPE, [point(SCOPE, 0, vector(*EAST))])
    index.close()
    with no_descriptors():
        unconnected = raised(lambda: index.count(SCOPE))
    counted = index.count(SCOPE)
    end_process(folder)
    index.close()

    assert isinstance(unstarted, TooManyOpenFiles), unstarted
    assert isinstance(unconnected, TooManyOpenFiles), unconnected
    assert counted == 1


def test_engine_failure_is_mapped_by_its_error_number() -> None:
    from truespan.index.edge.channel import error_from, reply_for
    from truespan.index.edge.shard import EnginePanicked, edge_errors

    class Panic(BaseException):
        """A panic of the engine, which is not an `Exception`."""

    def told(error: BaseException) -> TruespanError:
        try:
            with edge_errors("write"):
                raise error
        except EnginePanicked as panic:
            return error_from(reply_for(panic.reason or panic))
        except TruespanError as known:
            return error_from(reply_for(known))

    assert isinstance(told(Exception("io: No space left on device (os error 28)")), StorageFull)
    assert isinstance(told(Panic("File too large (os error 27)")), StorageFull)
    assert isinstance(told(Panic("x: Os { code: 28, kind: StorageFull }")), StorageFull)
    assert isinstance(told(Exception("x: Too many open files (os error 24)")), TooManyOpenFiles)
    assert isinstance(told(Exception("Permission denied (os error 13)")), IndexRefused)
    assert isinstance(told(Panic("index out of bounds")), IndexRefused)


# Files


@pytest.mark.parametrize("exhausted", [full_disk, no_descriptors])
def test_failed_write_names_the_exhausted_resource(tmp_path: Path, exhausted: Callable[[], object]):
    world = WorldId("0" * 8)
    work: dict[str, Callable[[], object]] = {
        "images": lambda: AssetFolder(tmp_path / "assets", reserve=0).stage_images(
            world, "doc", "token", [Image("png", b"x" * 5000)]
        ),
        "uploads": lambda: receive(tmp_path / "uploads", Upload("a.txt", b"x" * 5000)),
        "usage key": lambda: UsageKey(tmp_path / "usage.key").mark("w", "query"),
    }
    expected = StorageFull if exhausted is full_disk else TooManyOpenFiles

    for name, attempt in work.items():
        with exhausted():  # type: ignore[attr-defined]
            failure = raised(attempt)
        assert type(failure) is expected, (name, failure)
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert [path.name for path in left if path.name != ".world"] == []
    for attempt in work.values():
        attempt()


def test_failed_open_reports_that_descriptors_are_in_use(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    (tmp_path / "truespan.toml").write_text("")
    parser = ChildParser()
    with no_descriptors():
        failures = [
            raised(require_descriptor),
            raised(lambda: read_file(str(path), "a.txt", jailed=False, max_bytes=100)),
            raised(lambda: read_file(str(path), "a.txt", jailed=True, max_bytes=100)),
            raised(lambda: list_folder(str(tmp_path))),
            raised(lambda: read_settings(tmp_path, {})),
            raised(lambda: parser.parse("a.txt", b"text")),
            raised(lambda: receive(tmp_path / "uploads", Upload("a.txt", path))),
        ]

    assert [type(failure) for failure in failures] == [TooManyOpenFiles] * len(failures)
    assert parser.parse("a.txt", b"text").blocks
    parser.close()


def test_missing_descriptors_do_not_look_like_absent_files(tmp_path: Path) -> None:
    world, assets = WorldId("0" * 8), AssetFolder(tmp_path / "assets", reserve=0)
    assets.stage_images(world, "doc", "token", [Image("png", b"bytes")])
    assets.publish(world, "doc", "token")
    processes, path = SystemProcesses(), tmp_path / "file"
    own = processes.own()
    path.write_bytes(b"a trace of this text")
    with no_descriptors():
        failures = [
            raised(lambda: assets.read(world, "doc", "token", "img_001.png")),
            raised(lambda: assets.remove_all(world)),
            raised(lambda: processes.is_alive(own)),
        ]

    assert [type(failure) for failure in failures] == [TooManyOpenFiles] * len(failures)
    assert assets.read(world, "doc", "token", "img_001.png") == b"bytes"
    assert processes.is_alive(own)


def test_missing_descriptors_do_not_fail_files_of_an_ingestion(lib: LibraryFixture) -> None:
    world, path = lib.library.world("w"), lib.write("more.txt", "A bell rang.")

    with no_descriptors():
        failure = raised(lambda: world.ingest([path]))

    assert isinstance(failure, TooManyOpenFiles)
    assert not isinstance(failure, SourceRefused | ModelUnavailable)
    assert world.ingest([path]).ingested == ["more.txt"]


def test_backup_without_disk_space_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from truespan.cli import run

    library, target = tmp_path / "library", tmp_path / "backup"
    assert run(["init", "-L", str(library), "--world", "w"]) == 0
    capsys.readouterr()
    with full_disk():
        code = run(["backup", str(target), "-L", str(library)])

    told = capsys.readouterr().err
    assert (code, "disk is full" in told) == (3, True), told
    assert not target.exists()
    assert run(["backup", str(target), "-L", str(library)]) == 0


# Output and logs


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_unwritable_output_and_logs_are_not_bugs(
    lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "truespan", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert "disk is full" in done.stderr
    assert "bug" not in done.stderr
    with io.TextIOWrapper(open("/dev/full", "wb", buffering=0), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        log("an event of the index process")
        assert report_bug(lib.library, "request", ValueError()).code == "internal_error"
        monkeypatch.undo()


def test_exhausted_resource_is_found_in_chained_exceptions() -> None:
    full = OSError(errno.ENOSPC, "full")
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = full
    wrapped.__suppress_context__ = True
    hidden = RuntimeError("hidden")
    hidden.__context__, hidden.__suppress_context__ = full, True
    circle = RuntimeError("circle")
    circle.__context__ = circle

    assert isinstance(resource_error(full), StorageFull)
    assert isinstance(resource_error(OSError(errno.EDQUOT, "quota")), StorageFull)
    assert isinstance(resource_error(wrapped), StorageFull)
    assert isinstance(resource_error(OSError(errno.ENFILE, "files")), TooManyOpenFiles)
    for other in (hidden, circle, OSError("no number"), OSError(errno.EACCES, "no"), ValueError()):
        assert resource_error(other) is None
    assert not issubclass(StorageFull, StoreDamaged)
    assert raised(lambda: None) is None
    assert not isinstance(StorageFull(), InvalidArgument)
