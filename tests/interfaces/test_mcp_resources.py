"""MCP without HTTP: pages of resources, independence from unread text, and one set of labels."""

from pathlib import Path

import msgspec
import pytest

import truespan
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import InvalidArgument
from truespan.extensions.server.mcp import resources
from truespan.extensions.server.mcp.stdio import open_narrowed
from truespan.extensions.server.mcp.tools import OWNER_ROLE, READER_ROLE

READER, WORLD = READER_ROLE.resources, OWNER_ROLE.resources


def test_documents_come_page_by_page_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resources, "PAGE_SIZE", 2)
    lib = make_library(tmp_path)
    world = lib.library.create_world("w")
    for number in range(5):
        world.ingest(lib.write(f"{number}.md", f"Page {number}."))
    names, cursor = [], None

    for _ in range(3):
        page = resources.list_resources(WORLD, cursor, world)
        names.append([entry["title"] for entry in page["resources"]])
        cursor = page.get("nextCursor")

    assert (names, cursor) == (
        [["files/0.md", "files/1.md"], ["files/2.md", "files/3.md"], ["files/4.md"]],
        None,
    )


def test_sentences_are_joined_as_their_paragraphs_were(lib: LibraryFixture) -> None:
    world = lib.library.create_world("w")
    world.ingest(lib.write("a b.md", "One ends. Two ends.\n\nThree ends.\n"))
    (entry,) = resources.list_resources(WORLD, None, world)["resources"]

    (content,) = resources.read_resource(WORLD, entry["uri"] + "/sentences/0-2", world)["contents"]
    (named,) = resources.read_resource(WORLD, "truespan://documents/a%20b.md", world)["contents"]

    assert content["text"] == "One ends. Two ends.\n\nThree ends."
    assert msgspec.json.decode(named["text"])["source"] == "a b.md"


def test_stdio_serves_the_documents_of_its_labels(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with truespan.open(folder, create=True) as library:
        world = library.world()
        world.add_text("The lamp of everyone.", id="open")
        world.add_text("The lamp of the lawyers.", id="legal", audience=["group:legal"])
        world.add_text("The lamp of the board.", id="board", audience=["group:board"])

    def names(*labels: str) -> list[str]:
        library, caller = open_narrowed(folder, "main", None, audience=labels)
        with library:
            with raises_code("world_not_found"):
                caller.world.add_text("More.", id="more")
            return sorted(document.name for document in caller.world.documents.list())

    assert names("group:legal") == ["legal.txt", "open.txt"]
    assert names("everyone") == ["open.txt"]
    with pytest.raises(InvalidArgument):
        names("")
