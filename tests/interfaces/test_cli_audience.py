"""The option `--as`: commands show what a caller with labels sees, and nothing of the rest."""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import truespan
from tests.interfaces.clients import settled
from tests.promises import proves
from tests.support.audience_twins import LAMP, LOG, NIGHT, PAY, ROPE, SECRETS
from truespan.cli import run

Run = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a library, and a copy of it with documents that the tested callers do not see."""
    folder = tmp_path_factory.mktemp("twins")
    plain, full = folder / "plain", folder / "full"
    with truespan.open(plain, create=True) as library:
        world = library.world()
        world.add_text(LAMP, id="lamp.txt", kind="book")
        world.add_text(NIGHT, id="night.md")
        world.add_text(ROPE, id="rope.txt", audience=["group:legal"], tags=["rope"])
        world.reader("ann").set_position("lamp.txt", sentence=1)
    shutil.copytree(plain, full)
    with truespan.open(full) as library:
        world = library.world()
        world.add_text(PAY, id="pay.txt", audience=["group:hr"], metadata={"salary": 3})
        world.add_text(LOG, id="log.md", audience=["group:hr"], kind="book")
        world.add_text(LAMP, id="same.txt", audience=["user:eve"], language="de")
        world.add_text("A record of the zebra.", id="owner.txt", audience=[])
        world.add_text(f"{PAY} {LAMP}", id="pay.txt")
        world.documents.update("pay.txt", audience=["group:board"])
        world.reader("ann").set_position("log.md", sentence=1)
        world.documents.delete("same.txt")
    store = sqlite3.connect(full / "store.db")
    with store:
        store.execute("UPDATE revisions SET audience = 'everyone' WHERE name = 'owner.txt'")
    store.close()
    return plain, full


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command and returns its exit code and its output."""

    def execute(library: Path, *arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run([*arguments, "--library", str(library)])
        said = capsys.readouterr()
        if "--json" in arguments:
            return code, settled(json.loads(said.out))
        shown = (said.out + said.err).replace(str(library), "LIBRARY")
        return code, re.sub(r"\d+ ms|Record \w+", "", shown)

    return execute


@proves("audience.every-interface")
def test_hidden_documents_change_no_output_of_a_command(twins: tuple[Path, Path], command: Run):
    _, full = twins
    with truespan.open(full) as library:
        documents = library.world().documents
        chunk = str(documents.chunks("pay.txt").chunks[0].chunk_id)
        number, doc_id = str(documents.get("pay.txt").number), documents.get("pay.txt").doc_id
    commands = [
        *(["search", "who lit the lamp?", "--mode", mode, "--json"]
          for mode in ("hybrid", "vector", "keyword")),
        ["search", "zebra payroll"], ["search", "lampp", "--document", "pay.txt"],
        ["retrieve", "who lit the lamp?", "--json", "--near-misses"],
        ["retrieve", "who lit the lamp?", "--reader", "ann", "--json"],
        ["ask", "zebra payroll", "--no-stream"],
        ["ask", "who lit the lamp?", "--no-stream", "--json", "--reader", "ann"],
        *(["show", name] for name in ("pay.txt", number, doc_id, chunk, "pa", "night.md")),
        ["status", "--by", "all", "--json"], ["status", "--by", "salary"],
    ]  # fmt: skip
    for labels in (["--as", "everyone"], ["--as", "group:legal", "--as", "user:ann"]):
        for arguments in commands:
            first, second = (command(folder, *arguments, *labels) for folder in twins)
            assert first == second, arguments
            words = json.dumps(second).lower()
            for secret in SECRETS:
                assert secret not in words or any(secret in part for part in arguments), arguments


def test_status_as_a_label_lists_its_documents(twins: tuple[Path, Path], command: Run) -> None:
    _, full = twins
    code, found = command(full, "status", "--as", "group:legal", "--json")

    assert (code, {"lamp.txt", "night.md", "rope.txt"}) == (
        0,
        {entry["path"] for entry in found["documents"]} - {"owner.txt"},
    )


@proves("audience.enforced")
def test_labels_of_the_option_show_their_documents(twins: tuple[Path, Path], command: Run) -> None:
    _, full = twins
    for labels, expected in (
        ([], {"lamp.txt", "night.md", "rope.txt", "log.md", "pay.txt"}),
        (["--as", "everyone"], {"lamp.txt", "night.md"}),
        (["--as", "group:legal"], {"lamp.txt", "night.md", "rope.txt"}),
        (["--as", "group:board", "--as", "group:hr"],
         {"lamp.txt", "night.md", "log.md", "pay.txt"}),
    ):  # fmt: skip
        code, found = command(full, "search", "the lamp", "--floor", "0", "--json", *labels)
        assert code == 0
        assert {passage["source"] for passage in found["passages"]} - {"owner.txt"} == expected
    code, said = command(full, "search", "the lamp", "--as", "")
    assert (code, "label" in said) == (2, True)
