"""Watched folders of a server: changes are ingested until it stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, serve_library, until
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.cli import run
from truespan.engine.world import World
from truespan.extensions.crawl.watch import FolderWatcher
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.server import watch_folders
from truespan.parsing import supported

NIGHT = "The lamp went out at midnight."


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    (tmp_path / "files").mkdir()
    watcher = FolderWatcher([str(tmp_path / "files")], supported)
    return make_library(tmp_path / "library", watcher=watcher)


def has(world: World, *names: str) -> Callable[[], bool]:
    return lambda: sorted(one.name for one in world.documents.list() if one.active) == [*names]


def states(client: Client) -> list[str]:
    return [job["state"] for job in client.json("GET", "/v1/worlds/w/jobs").content["jobs"]]


@proves("watch.in-step")
def test_a_folder_is_kept_in_step_while_the_server_runs(
    lib: LibraryFixture, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    (folder / "a.txt").write_text(NIGHT)
    world = lib.library.create_world("w")

    with serve_library(lib.library, ServerOptions()) as client:
        with watch_folders(lib.library, "w", [str(folder)]) as thread:
            until(has(world, "a.txt"))
            (folder / "b.txt").write_text("The keeper slept.")
            until(has(world, "a.txt", "b.txt"))
            until(lambda: states(client) == ["done", "done"])
        assert thread is not None
        assert not thread.is_alive()
    with watch_folders(lib.library, "w", []) as thread:
        assert thread is None
    lib.library.close()


def test_serve_refuses_unwatchable_folders(
    lib: LibraryFixture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lib.library.create_world("w")
    (tmp_path / "a.txt").write_text(NIGHT)
    for path, error in (
        (tmp_path / "absent", "source_missing"),
        (tmp_path / "a.txt", "invalid_argument"),
    ):
        with raises_code(error), watch_folders(lib.library, "w", [str(path)]):
            pass
    lib.library.close()

    made = str(tmp_path / "made")
    assert run(["init", "--library", made, "--world", "w"]) == 0
    capsys.readouterr()
    several = ["serve", "--library", made, "--port", "0", "--workers", "2", "--watch", made]
    assert run(several) == 2
    assert "truespan ingest --watch" in capsys.readouterr().err
