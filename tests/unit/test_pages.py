"""Pages of sentences: bounds, refusals and checks."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.failures import raises_code
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.reading_worlds import Stopped, stopped_at, stored
from tests.support.worlds import LibraryFixture
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed, StoreDamaged
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER

TEXT = (
    "# The Ferry\n\n## One\n\nIt left. It was four.\n\n## Two\n\nA man came. He asked. He went.\n"
)
SENTENCES = ["The Ferry", "One", "It left.", "It was four.", "Two", "A man came.", "He asked."]
_PAGES = [Page(column(["The ferry left at four."])), Page(column(["A man came aboard."]))]


@pytest.fixture
def world(lib: LibraryFixture) -> World:
    return lib.world("world", ferry__md=TEXT)


def texts(page: Any) -> list[str]:
    return [one.text for one in page.sentences]


def test_page_has_its_sentences_in_order_with_spans(world: World) -> None:
    page = world.documents.sentences("ferry.md")
    text = world.documents.text("ferry.md")
    assert texts(page)[:7] == SENTENCES
    assert [one.sid for one in page.sentences] == list(range(8))
    assert all(text[one.start : one.end] == one.text for one in page.sentences)
    assert (page.first, page.last, page.more, page.figures) == (0, 7, False, ())
    assert (page.document, page.title, page.source) == (1, "The Ferry", "ferry.md")
    assert page.doc_id == world.documents.get(1).doc_id


def test_each_sentence_names_the_place_where_it_begins(world: World) -> None:
    places = [(one.chapter, one.section) for one in world.documents.sentences(1).sentences]
    assert places[0] == ("The Ferry", "The Ferry")
    assert places[2:4] == [("One", "One")] * 2
    assert places[4:] == [("Two", "Two")] * 4


def test_title_replaces_missing_chapters(lib: LibraryFixture) -> None:
    world = lib.world("plain", note__txt="The key hangs there. Nobody takes it.")
    world.ingest(str(lib.folder / "files" / "plain" / "note.txt"), title="Keys")
    assert {(one.chapter, one.section) for one in world.documents.sentences(1).sentences} == {
        ("Keys", "Keys")
    }


def test_sentences_name_the_page_they_begin_on(lib: LibraryFixture, tmp_path: Path) -> None:
    path = tmp_path / "two.pdf"
    path.write_bytes(make_pdf(_PAGES))
    world = lib.library.create_world("paged")
    world.ingest(path)
    assert [one.page for one in world.documents.sentences(1).sentences] == [1, 2]


@pytest.mark.parametrize(("first", "count", "sids", "more"), [
    (0, 3, [0, 1, 2], True), (3, 3, [3, 4, 5], True), (6, 2, [6, 7], False),
    (6, 1000, [6, 7], False), (7, 1, [7], False), (0, 8, list(range(8)), False), (8, 5, [], False),
    (2**31 - 1, 1000, [], False),
])  # fmt: skip
def test_pages_end_with_the_document(
    world: World, first: int, count: int, sids: list[int], more: bool
) -> None:
    page = world.documents.sentences(1, offset=first, limit=count)
    assert [one.sid for one in page.sentences] == sids
    assert (page.first, page.last, page.more) == (first, sids[-1] if sids else -1, more)


@pytest.mark.parametrize("wrong", [
    {"offset": -1}, {"offset": True}, {"offset": 0.0}, {"offset": "0"}, {"offset": None},
    {"offset": 2**31}, {"offset": 10**30}, {"limit": 0}, {"limit": -1}, {"limit": 1001},
    {"limit": False}, {"limit": 2.0}, {"limit": "5"}, {"limit": float("nan")},
])  # fmt: skip
def test_invalid_page_is_refused_before_anything_is_read(
    world: World, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument):
        world.documents.sentences("no such document", **wrong)
    with pytest.raises(InvalidArgument):
        world.reader("ann").sentences("no such book", **wrong)


def test_unknown_document_has_no_pages(lib: LibraryFixture, world: World) -> None:
    with raises_code("document_not_found"):
        world.documents.sentences("nothing.md")
    with raises_code("document_not_found"):
        lib.library.create_world("empty").documents.sentences(1)


@pytest.mark.parametrize("step", range(2, 12))
def test_pages_belong_to_the_active_revision(lib: LibraryFixture, world: World, step: int):
    before = world.documents.sentences(1)
    path = lib.write("world/ferry.md", "# Late\n\n" + TEXT)
    with suppress(Stopped):
        stopped_at(lib, step).world("world").ingest(path, title="Another Title")

    told, shown = world.documents.sentences(1), stored(lib, world, 1).texts
    world.ingest(path, title="Another Title")

    assert texts(told) == shown
    assert told in (before, world.documents.sentences(1))
    assert (world.documents.sentences(1).title, texts(world.documents.sentences(1))[0]) == (
        "Another Title",
        "Late",
    )


# What was read, and what is damaged


def test_page_past_the_position_is_empty_like_past_the_end(world: World) -> None:
    reader = world.reader("ann")
    reader.set_position("ferry.md", sentence=5)
    ahead = [reader.sentences(offset=first) for first in (6, 7, 8, 500)]
    assert all(page.sentences == page.figures == () for page in ahead)
    assert all((page.last, page.more) == (-1, False) for page in ahead)


def test_reader_without_a_position_has_no_page(lib: LibraryFixture, world: World) -> None:
    with raises_code("no_reading_position"):
        world.reader("ann").sentences()
    with raises_code("no_reading_position"):
        world.reader("ann").sentences("ferry.md")
    with raises_code("no_reading_position"):
        lib.library.create_world("empty").reader("ann").sentences()


def test_title_found_in_the_text_is_hidden_from_readers(world: World) -> None:
    reader = world.reader("ann")
    reader.set_position("ferry.md", sentence=2)
    assert reader.sentences().title == "ferry.md"
    assert reader.sentences().sentences[0].chapter == "The Ferry"


def test_sentence_unlike_its_checksum_is_not_shown(lib: LibraryFixture, world: World):
    reader = world.reader("ann")
    reader.set_position("ferry.md", sentence=4)
    lib.sql("UPDATE texts SET text = replace(text, 'It was four', 'It was nine')")
    with pytest.raises(StoreDamaged):
        world.documents.sentences(1)
    with pytest.raises(StoreDamaged):
        reader.sentences()
    assert texts(world.documents.sentences(1, offset=4))[0] == "Two"
    assert texts(reader.sentences(limit=3)) == SENTENCES[:3]


def test_unread_damage_is_not_noticed(lib: LibraryFixture, world: World) -> None:
    reader = world.reader("ann")
    reader.set_position("ferry.md", sentence=4)
    before = reader.sentences()
    lib.sql("UPDATE texts SET text = replace(text, 'A man came', 'A cat came')")
    assert reader.sentences() == before


def test_bytes_that_are_not_text_are_damage(lib: LibraryFixture, world: World) -> None:
    lib.sql("UPDATE texts SET text = CAST(x'54686520fffe79' || substr(text, 8) AS TEXT)")
    with pytest.raises(StoreDamaged):
        world.documents.sentences(1)


def test_missing_sentence_is_damage(lib: LibraryFixture, world: World) -> None:
    lib.sql("DELETE FROM sentences WHERE sid = 3")
    with pytest.raises(StoreDamaged):
        world.documents.sentences(1)


# Who may


def test_caller_bound_to_a_reader_gets_no_pages_of_the_world(
    lib: LibraryFixture, world: World
) -> None:
    world.reader("ann").set_position("ferry.md", sentence=2)
    bound = Library(lib.library._components, OWNER.as_reader(WorldId(world.id), "ann"))
    own = bound.world("world")
    assert len(own.reader("ann").sentences().sentences) == 3
    with pytest.raises(NotAllowed):
        own.documents.sentences(1)
    with pytest.raises(NotAllowed):
        own.reader("ben").sentences()
