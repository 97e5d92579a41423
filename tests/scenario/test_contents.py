"""Readers of a book with a list of contents, and its owner."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.types.text import Block
from truespan.wire.serialize import to_json

NAMES = ("PETER BREAKS THROUGH", "THE SHADOW", "COME AWAY", "HOOK OR ME THIS TIME", "THE END")
CHAPTERS = [f"Chapter {number} {name}" for number, name in enumerate(NAMES, 1)]
PROSE = (
    "All children grow up, and Hook is the name of a hook on which nobody in that house had ever"
    " hung a coat. The dog looked at it for a long time. Number {}."
)
BOOK = "\n\n".join(
    [
        "PETER AND WENDY",
        "Contents:",
        *(f"{name} .... {number}" for number, name in enumerate(CHAPTERS)),
        *(part for name in CHAPTERS for part in (f"\n\n{name}", PROSE.format(name[8]))),
    ]
)


def read_in(lib: LibraryFixture) -> World:
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.txt", BOOK), kind="book")
    return world


def without_marks(blocks: Sequence[Block]) -> list[Block]:
    return [replace(block, is_contents=False) for block in blocks]


@proves("reading.every-surface")
def test_chapters_are_named_only_as_a_reader_reaches_them(lib: LibraryFixture) -> None:
    reader = read_in(lib).reader("ann")
    for reached in range(1, len(NAMES) + 1):
        reader.set_position("book.txt", through_chapter=str(reached))
        bundle = reader.retrieve("Hook or me this time, contents")
        told = [to_json(bundle), to_json(reader.sentences()), to_json(reader.position())]

        shown = [name for name in NAMES if any(name in answer for answer in told)]
        assert shown == list(NAMES[:reached])
        assert all("Contents" not in answer for answer in told)
        assert list(reader.position().chapters_reached) == CHAPTERS[:reached]


@proves("reading.every-surface")
def test_owner_sees_the_whole_list(lib: LibraryFixture) -> None:
    world = read_in(lib)

    found = world.search("contents hook or me this time", top_k=20).passages
    sentences = [sentence.text for sentence in world.documents.sentences("book.txt").sentences]

    assert any("Contents:" in hit.text and f"{CHAPTERS[3]} .... 3" in hit.text for hit in found)
    assert sentences[-len(CHAPTERS) - 1] == "Contents:"
    assert sentences.count("Contents:") == 1


@proves("reading.never-past-position")
def test_line_of_a_contents_list_is_not_a_reading_position(lib: LibraryFixture) -> None:
    reader = read_in(lib).reader("ann")
    reader.set_position("book.txt", passage=CHAPTERS[1])

    with raises_code("passage_not_found"):
        reader.set_position("book.txt", passage=f"{CHAPTERS[3]} .... 3")
    with pytest.raises(InvalidArgument):
        reader.set_position("book.txt", through_chapter="Contents")

    assert reader.position().last_sentence == CHAPTERS[1]
    assert reader.set_position("book.txt", through_chapter="5").last_sentence == "Number 5."


@proves("reading.re-anchored")
def test_position_survives_a_new_loader_that_drops_the_contents(
    lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as previous:
        # The previous loader kept the list in the text, before the first chapter.
        previous.setattr("truespan.ingest.canonical.order_blocks", without_marks)
        previous.setattr("truespan.ingest.draft.LOADER_VERSION", 2)
        world = read_in(lib)
        reader = world.reader("ann")
        before = reader.set_position("book.txt", passage="Number 2.")
        assert NAMES[3] in to_json(reader.sentences())

    world.ingest(lib.write("book.txt", BOOK), kind="book")

    after = reader.position()
    assert after.last_sentence == before.last_sentence
    assert after.sid < before.sid
    assert NAMES[3] not in to_json(reader.sentences())
