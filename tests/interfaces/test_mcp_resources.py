"""Resources without a server: pages, and independence from unread text."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.interfaces.mcp_clients import BOOK
from tests.promises import proves
from tests.support.worlds import make_library
from truespan.engine.reader import Reader
from truespan.errors import CallerError
from truespan.extensions.server.mcp import resources
from truespan.extensions.server.mcp.tools import OWNER_ROLE, READER_ROLE

READER, WORLD = READER_ROLE.resources, OWNER_ROLE.resources


def all_that_can_be_read(reader: Reader) -> list[bytes]:
    """Return the reply for every URI of a book, including refusals."""
    found = [resources.list_resources(READER, None, reader)]
    (listed,) = found[0]["resources"]
    ranges = [f"/sentences/{first}-{last}" for first in range(15) for last in range(first, 15)]
    for address in (listed["uri"], *(listed["uri"] + one for one in ranges)):
        try:
            found.append(resources.read_resource(READER, address, reader))
        except CallerError as refusal:
            found.append({"refused": str(refusal)})
    return [msgspec.json.encode(one) for one in found]


@proves("reading.non-interference", "reading.every-surface")
def test_unread_text_does_not_change_resources(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("w")
    world.ingest(lib.write("lamp.md", BOOK), kind="book")
    reader = world.reader("ann")
    reader.set_position("lamp.md", through_chapter="Two")
    before = all_that_can_be_read(reader)

    assert len(set(before)) > 40
    read = BOOK.partition("## Three")[0]
    for ahead in (
        "## Three: Kyoto\n\nIt was he. It was.\n\n## Four\n\nThe end.\n",
        "",
        "He slept.",
    ):
        world.ingest(lib.write("lamp.md", read + ahead), kind="book")

        assert all_that_can_be_read(reader) == before


def test_documents_come_page_by_page_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_sentences_are_joined_as_their_paragraphs_were(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("w")
    world.ingest(lib.write("a b.md", "One ends. Two ends.\n\nThree ends.\n"))
    (entry,) = resources.list_resources(WORLD, None, world)["resources"]

    (content,) = resources.read_resource(WORLD, entry["uri"] + "/sentences/0-2", world)["contents"]
    (named,) = resources.read_resource(WORLD, "truespan://documents/a%20b.md", world)["contents"]

    assert content["text"] == "One ends. Two ends.\n\nThree ends."
    assert msgspec.json.decode(named["text"])["source"] == "a b.md"
