"""MCP over standard input and output for one set of labels."""

from __future__ import annotations

from pathlib import Path

import pytest

import truespan
from tests.support.failures import raises_code
from truespan.errors import InvalidArgument
from truespan.extensions.server.mcp.stdio import open_narrowed


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
