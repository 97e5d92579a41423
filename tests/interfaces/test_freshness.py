"""Freshness over HTTP, MCP and on the command line, where readers get none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.http_client import Client, serve_library
from tests.interfaces.mcp_asking import Message, result_of
from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.cli import run
from truespan.http.app import ServerOptions

KEY = "A brass key hung on the seventh hook."
BODY: dict[str, Any] = {"query": KEY, "freshness": True}


def serve(folder: Path) -> LibraryFixture:
    """Return a library with a book, in which a reader has read a sentence."""
    lib = make_library(folder)
    world = lib.library.create_world("world")
    world.ingest([lib.write("book.md", f"{KEY} At noon the boat was gone.")], kind="book")
    world.reader("ann").set_position("book.md", sentence=0)
    return lib


def edit(lib: LibraryFixture) -> None:
    (lib.folder / "files" / "book.md").write_text(f"{KEY} At noon the boat was there.")


def call(client: Client, path: str, tool: str, token: str) -> Any:
    """Return the result of a tool of MCP, asked for freshness."""
    message = Message(path, "tools/call", {"name": tool, "arguments": BODY})
    return result_of(message.sent(client, token))


@proves("freshness.states")
def test_http_and_mcp_say_whether_sources_are_current(tmp_path: Path) -> None:
    lib = serve(tmp_path)
    token = lib.library.tokens.create("bo", worlds="world")[1].reveal()
    with serve_library(lib.library, ServerOptions(sessions=False)) as client:
        for state in ("current", "changed"):
            expected = {"state": state, "reason": None}
            search = client.json("POST", "/v1/worlds/world/search", BODY).content
            assert [each["freshness"] for each in search["passages"]] == [expected]
            bundle = client.json("POST", "/v1/worlds/world/retrieve", BODY).content
            assert [each["freshness"] for each in bundle["metadata"]["sources"]] == [expected]
            answer = client.json("POST", "/v1/worlds/world/answer", BODY).content
            notes = answer["retrieved_chunks_metadata"]
            assert [each["freshness"] for each in notes] == [expected]
            listed = client.json("GET", "/v1/worlds/world/freshness?seconds=5").content
            assert [each["freshness"] for each in listed["documents"]] == [expected]
            found = call(client, "/mcp/world", "search", token)["result"]
            [passage] = found["structuredContent"]["passages"]
            assert passage["freshness"] == expected
            said = "The source has changed since it was ingested: files/book.md."
            assert (said in json.dumps(found["content"])) is (state == "changed")
            edit(lib)
    lib.library.close()


@proves("freshness.readers")
def test_readers_get_one_refusal_whatever_the_file_is(tmp_path: Path) -> None:
    lib = serve(tmp_path)
    token = lib.library.tokens.create("ann", worlds="world", readers="ann")[1].reveal()
    replies: list[list[tuple[int, Any]]] = []
    with serve_library(lib.library, ServerOptions(sessions=False)) as client:
        for _ in range(2):
            asked = [
                client.json("POST", f"/v1/worlds/world/readers/ann/{path}", BODY)
                for path in ("retrieve", "answer", "conversations")
            ]
            listed = client.json("GET", "/v1/worlds/world/readers/ann/freshness")
            told = [(reply.status, reply.content.get("detail")) for reply in (*asked, listed)]
            refused = call(client, "/mcp/world/ann", "retrieve_context", token)
            replies.append([*told, (0, refused)])
            edit(lib)

    assert replies[0] == replies[1]
    assert all(status >= 400 for status, _ in replies[0][:-1])
    assert "freshness" in json.dumps(replies[0][-1][1])
    lib.library.close()


@proves("freshness.states", "freshness.readers")
def test_commands_say_whether_sources_are_current(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRUESPAN_WORLD", raising=False)
    where, file = ["--library", str(tmp_path / "library")], tmp_path / "guide.md"
    file.write_text(KEY)
    assert run(["init", *where]) == 0
    assert run(["ingest", str(file), *where]) == 0
    file.write_text("Nothing.")
    capsys.readouterr()

    assert run(["search", KEY, "--freshness", *where]) == 0
    assert "The source has changed since it was ingested" in capsys.readouterr().out
    assert run(["retrieve", KEY, "--freshness", "--json", *where]) == 0
    [note] = json.loads(capsys.readouterr().out)["metadata"]["sources"]
    assert note["freshness"]["state"] == "changed"
    assert run(["status", "--freshness", *where]) == 0
    assert "sources: 1 changed" in capsys.readouterr().out
    file.unlink()
    assert run(["status", "--freshness", "--world", "main", *where]) == 0
    assert "gone" in capsys.readouterr().out
    assert run(["status", "--freshness", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["worlds"][0]["freshness"] == {"gone": 1}
    for command in ("ask", "retrieve"):
        assert run([command, KEY, "--reader", "ann", "--freshness", *where]) != 0
        assert "Readers get no freshness" in capsys.readouterr().err
