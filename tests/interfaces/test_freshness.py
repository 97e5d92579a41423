"""Freshness over HTTP and on the command line, where readers get none."""

import json
from pathlib import Path

import pytest

from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.cli import run

KEY = "A brass key hung on the seventh hook."


def serve(folder: Path) -> LibraryFixture:
    lib = make_library(folder)
    world = lib.library.create_world("world")
    world.ingest([lib.write("book.md", f"{KEY} At noon the boat was gone.")], kind="book")
    world.reader("ann").set_position("book.md", sentence=0)
    return lib


def edit(lib: LibraryFixture) -> None:
    (lib.folder / "files" / "book.md").write_text(f"{KEY} At noon the boat was there.")


@proves("freshness.states")
def test_http_says_whether_sources_are_current(tmp_path: Path) -> None:
    lib = serve(tmp_path)
    with serve_library(lib.library) as client:
        for state in ("current", "changed"):
            listed = client.json("GET", "/v1/worlds/world/freshness?seconds=5").content
            expected = {"state": state, "reason": None}
            assert [each["freshness"] for each in listed["documents"]] == [expected]
            edit(lib)


@proves("freshness.readers")
def test_http_has_no_freshness_for_readers(tmp_path: Path) -> None:
    lib = serve(tmp_path)
    with serve_library(lib.library) as client:
        assert client.json("GET", "/v1/worlds/world/readers/ann/freshness").status == 404
        for path in ("retrieve", "answer", "conversations"):
            body = {"query": KEY, "freshness": True}
            reply = client.json("POST", f"/v1/worlds/world/readers/ann/{path}", body)
            assert "There is no argument 'freshness'" in reply.content["detail"]


@proves("freshness.states")
def test_commands_say_whether_sources_are_current(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where, file = ["--library", str(tmp_path / "library")], tmp_path / "guide.md"
    file.write_text(KEY)
    assert run(["init", *where]) == 0
    assert run(["ingest", str(file), *where]) == 0
    file.write_text("Nothing.")
    capsys.readouterr()

    assert run(["status", "--freshness", *where]) == 0
    assert "sources: 1 changed" in capsys.readouterr().out
    file.unlink()
    assert run(["status", "--freshness", "--world", "main", *where]) == 0
    assert "gone" in capsys.readouterr().out
    assert run(["status", "--freshness", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["worlds"][0]["freshness"] == {"gone": 1}
