"""A command without a world or library uses the only one."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.promises import proves
from truespan.cli import run
from truespan.errors import InvalidArgument, WorldNotNamed
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.server import Service, _configure
from truespan.extensions.server.mcp.stdio import open_narrowed
from truespan.settings import find_library
from truespan.settings.catalogue import Settings
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, Verb


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TRUESPAN_LIBRARY", "TRUESPAN_WORLD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@proves("cli.only-world")
def test_only_world_of_the_only_library_is_the_default(
    fresh_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_json(*arguments: str) -> Any:
        return run([*arguments, "--json"]), json.loads(capsys.readouterr().out)

    (fresh_folder / "note.txt").write_text("The spare key hangs on hook seven.")
    assert run(["init", "-L", "books", "-w", "novels"]) == 0
    capsys.readouterr()

    assert run_json("ingest", "note.txt")[1]["ingested"] == ["note.txt"]
    assert run_json("search", "key")[1]["passages"][0]["source"] == "note.txt"
    assert run_json("retrieve", "key")[1]["retrieved_chunks"]
    assert run_json("reader", "show", "-r", "ann") == (0, {"reader": "ann", "books": []})
    (job,) = run_json("jobs", "show")[1]["jobs"]
    code, followed = run_json("jobs", "show", "--follow", job["id"])
    assert (code, followed["job"], len(followed["documents"])) == (0, job, 1)
    code, report = run_json("ingest", "note.txt", "--domain-key", "live", "--update-alias")
    assert (code, report["generation"]) == (0, 2)
    assert run_json("generations")[1]["generations"][1]["domains"] == ["live"]
    assert run(["delete", "--all", "--yes"]) == 2
    assert "Name the world to delete" in capsys.readouterr().err

    with open_narrowed(find_library(), None, None)[0] as narrowed:
        assert [world.name for world in narrowed.worlds()] == ["novels"]
    with truespan.open("books") as library:
        options = ServerOptions(mcp_owner=True)
        service = Service(Path("books"), "127.0.0.1", 0, 1, False, options)
        assert _configure(service, Settings(), library).world == library.world().id

    assert run(["init", "-L", "books", "-w", "poems"]) == 0
    capsys.readouterr()
    assert run(["search", "key"]) == 2
    assert "There are 2 worlds: novels, poems." in capsys.readouterr().err
    with pytest.raises(WorldNotNamed):
        open_narrowed(Path("books"), None, None)
    with truespan.open("books") as library:
        # A caller who may see one world of several needs no name.
        narrow = library.under(
            OWNER.narrow(worlds=[WorldId(library.world("poems").id)], verbs=[Verb.READ])
        )
        assert narrow.world().name == "poems"


def test_empty_library_advises_how_to_create_a_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "-L", "books"]) == 0
    capsys.readouterr()

    assert run(["search", "key"]) == 2

    assert "There is no world yet." in capsys.readouterr().err


def test_library_is_current_default_or_only_folder_inside(
    fresh_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = tmp_path / "data" / "truespan"
    (fresh_folder / "other").mkdir()
    # A database of another program.
    (fresh_folder / "other" / "store.db").write_bytes(b"SQLite format 3\0" + bytes(100))

    assert find_library() == default
    truespan.open("books", create=True).close()
    assert find_library() == Path("books")
    (fresh_folder / "served").mkdir()
    (fresh_folder / "served" / "truespan.toml").write_text('store_url = "postgresql://db/x"')
    with pytest.raises(InvalidArgument, match="2 libraries here: books, served"):
        find_library()
    truespan.open(default, create=True).close()
    assert find_library() == default
    monkeypatch.chdir("books")
    assert find_library() == Path()
    monkeypatch.setenv("TRUESPAN_LIBRARY", "/elsewhere")
    assert find_library() == Path("/elsewhere")


def test_ingest_creates_the_library_and_the_world_main(
    fresh_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fresh_folder / "note.txt").write_text("The spare key hangs on hook seven.")

    assert run(["ingest", "note.txt", "--dry-run"]) == 3
    assert run(["ingest", "note.txt"]) == 0

    out = capsys.readouterr().out
    assert f"Created the library {tmp_path / 'data' / 'truespan'}." in out
    assert "Created the world 'main'." in out
    assert run(["ingest", "note.txt", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unchanged"] == 1
    with truespan.open(find_library()) as library:
        assert [world.name for world in library.worlds()] == ["main"]


def test_ingest_without_a_world_prints_the_chosen_world(
    fresh_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [fresh_folder / "inn", fresh_folder / "quay", fresh_folder / "inn" / "cellar"]
    for folder in folders:
        folder.mkdir()
        (folder / "note.txt").write_text(f"The spare key of the {folder.name} hangs on hook seven.")
    said = []
    for arguments in (["inn"], ["inn"], ["quay"], ["quay", "-w", "main"], ["inn/cellar/note.txt"]):
        assert run(["ingest", *arguments]) == 0
        said.append(capsys.readouterr().out)

    library = tmp_path / "data" / "truespan"
    where = f"Into main in {library}.\n"
    assert [where in out for out in said] == [False, True, True, False, True]
    others = [out.partition("It has files of ")[2].partition(" too;")[0] for out in said]
    assert others == ["", "", f"{folders[0]}, {folders[2]}", "", f"{folders[0]}, {folders[1]}"]


def test_ingest_of_a_missing_file_creates_nothing(
    fresh_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fresh_folder / "note.txt").write_text("The spare key hangs on hook seven.")

    assert run(["ingest", "note.txt", "absent.txt"]) == 2

    assert "absent.txt: no such file or folder" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_ingest_reads_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("The lamp is red."))

    assert run(["ingest", "-", "--title", "Lamps", "--tag", "x"]) == 0

    capsys.readouterr()
    with truespan.open(find_library()) as library:
        [document] = library.world().documents.list()
        assert (document.title, document.name, document.tags) == ("Lamps", "Lamps.txt", ("x",))
        assert library.world().documents.text("Lamps.txt") == "The lamp is red."
    assert run(["ingest", "-", "note.txt"]) == 2
