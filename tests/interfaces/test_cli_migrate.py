"""A library that moves from one machine to many and back, by its commands."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.test_cli import KEYS, NIGHT
from tests.support.postgres import Database, fresh_database
from tests.support.qdrant_loopback import QdrantLoopback
from truespan.cli import run
from truespan.wiring import open_library

FIXTURES = Path(__file__).parents[1] / "fixtures"
FIGURES = "docx_extract_images = true\ndocx_figure_chunks = true\n"


class Machines:
    """Three folders of libraries: of one machine, of many, and of one machine again.

    `kept` is for a copy of the first when it is filled, for all tests.
    """

    def __init__(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        database: Database,
        index: str,
        kept: Path,
    ) -> None:
        self.kept = kept
        self.one, self.many, self.back = (folder / name for name in ("one", "many", "back"))
        self.files = folder / "files"
        self._capsys = capsys
        for place in (self.one, self.many, self.back, self.files):
            place.mkdir()
            (place / "truespan.toml").write_text(FIGURES, encoding="utf-8")
        (self.files / "truespan.toml").unlink()
        (self.many / "url").write_text(database.url.reveal(), encoding="utf-8")
        with (self.many / "truespan.toml").open("a", encoding="utf-8") as settings:
            settings.write(f'store_url_file = "url"\nindex_url = "{index}"\n')

    def __call__(self, library: Path, *arguments: str) -> tuple[int, Any]:
        self._capsys.readouterr()
        code = run([*arguments, "--json", "--library", str(library)])
        return code, json.loads(self._capsys.readouterr().out)

    def answers(self, library: Path) -> Any:
        """Return the answers to the same questions, without times."""
        found = []
        for query in ("Where is the spare key?", "Who keeps the lamp?"):
            code, told = self(library, "search", query, "-w", "w", "--mode", "hybrid")
            assert code == 0
            found.append({key: one for key, one in told.items() if key != "processing_time_ms"})
        code, told = self(library, "reader", "show", "-r", "ada", "-w", "w")
        assert code == 0
        return [*found, told]


SCORE = re.compile(r"(?<=: )(\d\.\d{4,})")


def scores(answers: list[Any]) -> list[float]:
    return [float(score) for score in SCORE.findall(json.dumps(answers))]


def but_for_scores(answers: list[Any]) -> str:
    return SCORE.sub("", json.dumps(answers))


def digests(folder: Path, *names: str) -> dict[str, str]:
    """Return the contents of files below these names."""
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for name in names
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def machines(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Machines]:
    monkeypatch.delenv("TRUESPAN_WORLD", raising=False)
    kept = tmp_path_factory.getbasetemp() / "library to migrate"
    with QdrantLoopback() as server:
        made = Machines(tmp_path, capsys, fresh_database(), server.url, kept)
        yield made
        for folder in (made.one, made.back):
            if (folder / "store.db").exists():
                with open_library(folder) as library:
                    library._components.index.retire()  # type: ignore[attr-defined]


def filled(machines: Machines) -> Machines:
    if machines.kept.exists():
        shutil.copytree(machines.kept, machines.one, dirs_exist_ok=True)
        return machines
    (machines.files / "night.txt").write_text(NIGHT, encoding="utf-8")
    (machines.files / "keys.md").write_text(f"# Keys\n\n{KEYS}\n", encoding="utf-8")
    shutil.copy(FIXTURES / "libreoffice.docx", machines.files)
    assert machines(machines.one, "init", "--world", "w")[0] == 0
    code, report = machines(machines.one, "ingest", str(machines.files), "-w", "w")
    assert (code, report["failures"]) == (0, [])
    reader = ("-r", "ada", "-w", "w", "--sentence", "0")
    assert machines(machines.one, "reader", "set", "night.txt", *reader)[0] == 0
    with open_library(machines.one) as library:
        library._components.index.retire()  # type: ignore[attr-defined]
    shutil.copytree(machines.one, machines.kept)
    return machines


def test_migrate_there_and_back_keeps_the_answers(
    machines: Machines,
) -> None:
    filled(machines)
    before = machines.answers(machines.one)
    images = digests(machines.one, "data/rag-assets")
    assert images

    code, there = machines(machines.many, "migrate", str(machines.one))
    assert (code, there["findings"], there["pending"]) == (0, {}, 0)
    assert there["points"] == there["tables"]["states"]["rows"] > 0
    assert there["files"] >= len(images)
    answers = machines.answers(machines.many)
    # The last digit of a score depends on the engine.
    assert scores(answers) == pytest.approx(scores(before), abs=2e-6)
    assert but_for_scores(answers) == but_for_scores(before)
    assert not (machines.many / "store.db").exists()

    code, back = machines(machines.back, "migrate", str(machines.many))
    assert (code, back["findings"]) == (0, {})
    assert machines.answers(machines.back) == before
    assert digests(machines.back, "data/rag-assets") == images
    for table in ("documents", "revisions", "chunks", "vectors", "states", "sentences", "texts"):
        assert back["tables"][table] == there["tables"][table]


def test_a_migration_is_done_once_and_another_library_is_refused(machines: Machines) -> None:
    filled(machines)
    assert machines(machines.many, "migrate", str(machines.one))[0] == 0
    assert machines(machines.many, "migrate", str(machines.one))[1]["files"] == 0
    assert machines(machines.back, "init", "--world", "another")[0] == 0

    code, told = machines(machines.back, "migrate", str(machines.many))

    assert (code, told["error"]["code"]) == (3, "migration_refused")
    code, worlds = machines(machines.back, "status")
    assert [one["world"] for one in worlds["worlds"]] == ["another"]


def test_migrate_continues_after_the_index_was_down(machines: Machines) -> None:
    filled(machines)
    right = (machines.many / "truespan.toml").read_text(encoding="utf-8")
    wrong = re.sub(r"http://127[^\"]+", "http://127.0.0.1:1", right)
    (machines.many / "truespan.toml").write_text(wrong, encoding="utf-8")
    code, told = machines(machines.many, "migrate", str(machines.one))
    assert (code, told["error"]["code"]) == (4, "index_unavailable")
    (machines.many / "truespan.toml").write_text(right, encoding="utf-8")

    code, told = machines(machines.many, "migrate", str(machines.one))

    assert (code, told["findings"], told["files"]) == (0, {}, 0)
    assert told["points"] == told["tables"]["states"]["rows"] > 0


def test_an_image_that_is_another_one_there_is_not_replaced(machines: Machines) -> None:
    filled(machines)
    image = next((machines.one / "data/rag-assets").rglob("img_*"))
    taken = machines.many / image.relative_to(machines.one)
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"somebody else's")

    code, told = machines(machines.many, "migrate", str(machines.one))

    assert (code, told["error"]["code"]) == (3, "migration_refused")
    assert taken.read_bytes() == b"somebody else's"


def test_the_environment_says_where_to_and_never_where_from(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(machines)
    url = (machines.many / "url").read_text()
    monkeypatch.setenv("TRUESPAN_STORE_URL", url)
    target = machines.back

    code, told = machines(target, "migrate", str(machines.one))

    assert (code, told["findings"]) == (0, {})
    assert told["points"] > 0
    assert not (target / "store.db").exists()
    with open_library(target) as library:
        library._components.index.retire()  # type: ignore[attr-defined]
    code, told = machines(machines.many, "migrate", str(machines.many / "absent"))
    assert (code, told["error"]["code"]) == (3, "library_not_found")


def test_a_library_is_not_moved_into_itself(machines: Machines) -> None:
    assert machines(machines.one, "init", "--world", "w")[0] == 0

    code, told = machines(machines.one, "migrate", os.path.relpath(machines.one))

    assert (code, told["error"]["code"]) == (2, "invalid_argument")


def test_two_folders_of_one_database_are_one_library(machines: Machines) -> None:
    shutil.copytree(machines.many, machines.back, dirs_exist_ok=True)
    assert machines(machines.many, "init", "--world", "w")[0] == 0

    code, told = machines(machines.back, "migrate", str(machines.many))

    assert code == 2
    assert "into itself" in told["error"]["message"]
