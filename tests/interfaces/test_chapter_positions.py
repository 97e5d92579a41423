"""Chapters of a book with parts, made by e-book tools, through every interface."""

from pathlib import Path

import pytest

import truespan
from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.epub_maker import Book, Line, page
from truespan.cli import run
from truespan.extensions.server.mcp.caller import WritePermissions, narrow_caller
from truespan.extensions.server.mcp.server import call_tool
from truespan.extensions.server.mcp.tools import role_for
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER

HEADINGS = (
    (1, "The Title"), (1, "Part One"), (2, "Chapter 1"), (2, "Chapter 2"),
    (1, "Part Two"), (2, "Chapter 3"), (2, "Chapter 4"),
)  # fmt: skip
READ, UNREAD = "Chapter 2 ended.", "Chapter 3 ended."
NAME = "Part One › Chapter 2"


def write_markdown() -> bytes:
    return "".join(
        f"{'#' * level} {name}\n\n{name} ended.\n\n" for level, name in HEADINGS
    ).encode()


def write_epub(contents: list[Line], version: int = 3) -> bytes:
    pages = {
        f"{place}.xhtml": page(f"<h{level}>{name}</h{level}><p>{name} ended.</p>")
        for place, (level, name) in enumerate(HEADINGS)
    }
    return Book(pages, contents, version=version).data()


NESTED = [(level, name, f"{place}.xhtml") for place, (level, name) in enumerate(HEADINGS)]
BOOKS = {
    "book.md": write_markdown(),
    "nested.epub": write_epub(NESTED),
    "older.epub": write_epub(NESTED, version=2),
    "parts.epub": write_epub([line for line in NESTED if line[0] == 1]),
    "unlisted.epub": write_epub([]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("books")
    for name, data in BOOKS.items():
        (made / name).write_bytes(data)
    with truespan.open(made / "library", create=True) as library:
        library.create_world("w").ingest([made / name for name in BOOKS], kind="book")
    return made / "library"


@proves("reading.chapters-by-name", "reading.every-surface")
@pytest.mark.parametrize("book", BOOKS)
def test_chapter_number_ends_at_that_chapter_through_every_interface(
    folder: Path, book: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reader", "set", book, "--reader", "ann", "--through-chapter", "2", "--world", "w"]
    assert run([*command, "--library", str(folder)]) == 0
    assert f"read to sentence 7, {NAME}" in capsys.readouterr().out
    with truespan.open(folder) as library:
        world = library.world("w")
        with serve_library(library) as client:
            target, given = "/v1/worlds/w/readers/bob/position", {"book": book}
            assert client.json("PUT", target, {**given, "through_chapter": "2"}).status == 200
            shown = client.json("GET", f"{target}?book={book}").content
        permissions = WritePermissions(may_move=True)
        caller = narrow_caller(library, OWNER, WorldId(world.id), "eve", permissions)
        tools = {tool.name: tool for tool in role_for("eve", permissions).tools}
        arguments = {"book": world.documents.get(book).doc_id, "through_chapter": "2"}
        by_mcp = call_tool(tools["set_position"], arguments, caller)

        assert f"in {NAME}." in by_mcp["content"][0]["text"]
        assert (shown["sid"], shown["chapter"]) == (7, NAME)
        for reader in ("ann", "bob", "eve"):
            found = world.reader(reader).position(book)
            assert (found.last_sentence, found.chapter) == (READ, NAME), reader
            assert found.chapters_reached[-2:] == ("Part One › Chapter 1", NAME)
            assert UNREAD not in world.reader(reader).retrieve("Chapter 3 ended", book=book).context
