"""Documents with audiences through HTTP, MCP and the example: each caller finds their own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.http_client import Client, Response, serve_library, until
from tests.interfaces.tenants import BOUNDARY, form
from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.extensions.server.http.app import ServerOptions
from truespan.types.job import JobState

EXAMPLE = Path(__file__).parents[2] / "examples" / "company_library.py"
HEADER = "x-truespan-audience"
QUERY = {"query": "lamp", "floor": 0.0}


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    world = made.library.create_world("w")
    world.add_texts(["The lamp of everyone."], ids=["open.txt"])
    world.add_texts(["The lamp of the lawyers."], ids=["legal.txt"], audience=["group:legal"])
    world.add_texts(["The lamp of the board."], ids=["board.txt"], audience=["group:board"])
    yield made
    made.library.close()


@pytest.fixture
def client(lib: LibraryFixture) -> Iterator[Client]:
    with serve_library(lib.library, ServerOptions(mcp_owner=True)) as asking:
        yield asking


def found(client: Client, labels: str | None = None, token: str | None = None) -> list[str]:
    """Return the sources that a caller finds, sorted."""
    headers = [] if labels is None else [(HEADER, labels)]
    reply = client.json("POST", "/v1/worlds/w/search", QUERY, headers=headers, token=token)
    return sorted({passage["source"] for passage in reply.content["passages"]})


@proves("identity.narrowed-request")
def test_request_finds_the_documents_of_its_labels(lib: LibraryFixture, client: Client) -> None:
    create = lib.library.tokens.create
    legal = create("legal", worlds="w", audience=["group:legal"])[1].reveal()
    web = create("web", worlds="w", impersonate=True)[1].reveal()

    assert found(client) == ["board.txt", "legal.txt", "open.txt"]
    assert found(client, "group:legal") == ["legal.txt", "open.txt"]
    assert found(client, "") == ["open.txt"]
    assert found(client, token=legal) == ["legal.txt", "open.txt"]
    assert found(client, "group:board", legal) == ["open.txt"]
    assert found(client, token=web) == ["open.txt"]
    assert found(client, "group:board", web) == ["board.txt", "open.txt"]


def test_audience_is_declared_shown_and_changed(lib: LibraryFixture, client: Client) -> None:
    jobs = lib.library.world("w").jobs

    def finish(accepted: Response) -> None:
        assert accepted.status == 202
        until(lambda: jobs.get(accepted.content["job"]["id"]).state is JobState.DONE)

    body = form({"audience": "group:legal"}, name="note.txt", text=b"The lamp of a note.")
    kind = [("content-type", f"multipart/form-data; boundary={BOUNDARY}")]
    finish(client.send("POST", "/v1/worlds/w/documents", headers=kind, body=body))
    texts = {"texts": ["The lamp of a text."], "ids": ["text.txt"], "audience": ["group:board"]}
    finish(client.json("POST", "/v1/worlds/w/sources", texts))
    listed = client.json("GET", "/v1/worlds/w/documents").content["documents"]
    by_name = {document["name"]: document for document in listed}
    assert by_name["open.txt"]["audience"] == ["everyone"]
    assert by_name["note.txt"]["audience"] == ["group:legal"]
    assert by_name["text.txt"]["audience"] == ["group:board"]

    path = f"/v1/worlds/w/documents/{by_name['text.txt']['number']}"
    changed = client.json("PATCH", path, {"audience": ["group:legal", "user:ana"]})
    assert changed.content["audience"] == ["group:legal", "user:ana"]
    assert "text.txt" in found(client, "group:legal")
    assert "text.txt" not in found(client, "group:board")
    # A caller with labels learns no other labels, and changes nothing.
    legal = [(HEADER, "group:legal")]
    shown = client.json("GET", path, headers=legal).content["document"]
    assert shown["audience"] == ["group:legal"]
    assert client.json("PATCH", path, {"audience": []}, headers=legal).status in (403, 404)
    for wrong in ({"audience": None}, {"audience": "a"}, {"audience": [""]}, {"audience": [1]}):
        assert client.json("PATCH", path, wrong).status == 400


def test_company_library_shows_each_caller_their_documents(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "library")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    has = [line.strip() for line in ran.stdout.splitlines() if line.startswith("  has")]
    assert has == [
        "has leave-2019.md, leave-2026.md", "has keys.md, leave-2026.md", "has leave-2026.md",
        "has keys.md, leave-2026.md",
    ]  # fmt: skip
    spare = [line for line in ran.stdout.splitlines() if line.startswith("  Where is")]
    assert ["keys.md" in line for line in spare] == [False, True, False, True]
