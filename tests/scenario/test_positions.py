"""Positions of readers: set, stored, and moved to new revisions."""

from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.reading_worlds import stored
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed, ProviderUnavailable
from truespan.types.scope import OWNER

BOOK = """# The Lamp

## One

It was late. The lamp burned.

### The Wick

It was short. “Who’s there?” she
said — softly.

## Two

Nobody answered. It was late. The lamp went out.

## Twofold

Morning came.
"""
SENTENCES = [
    "The Lamp", "One", "It was late.", "The lamp burned.", "The Wick", "It was short.",
    "“Who’s there?” she\nsaid — softly.", "Two", "Nobody answered.", "It was late.",
    "The lamp went out.", "Twofold", "Morning came.",
]  # fmt: skip
LAST = len(SENTENCES) - 1
REACHED = ("The Lamp", "One", "One › The Wick", "Two", "Twofold")


def shelf(folder: Path, **books: str) -> tuple[LibraryFixture, World]:
    lib = make_library(folder)
    world = lib.library.create_world("world")
    for name, text in (books or {"book": BOOK}).items():
        world.ingest(lib.write(f"{name}.md", text), kind="book")
    return lib, world


def ann(world: World) -> Reader:
    return world.reader("ann")


def codes(reader: Reader, **options: Any) -> list[str]:
    bundle = reader.retrieve("the lamp", **options)
    assert (bundle.retrieved_chunks, bundle.context, bundle.total_tokens) == ((), "", 0)
    return [notice.code for notice in bundle.metadata.warnings]


# Telling it


@proves("reading.sid-arithmetic")
def test_sample_book_has_the_expected_sentences(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)

    assert stored(lib, world, 1).texts == SENTENCES


@proves("reading.re-anchored")
@pytest.mark.parametrize("sid", [-1, 0, 5, LAST])
def test_position_can_be_set_by_sentence(tmp_path: Path, sid: int) -> None:
    _, world = shelf(tmp_path)

    found = ann(world).set_position("book.md", sentence=sid)

    assert (found.sid, ann(world).position().sid) == (sid, sid)
    assert found.last_sentence == (SENTENCES[sid] if sid >= 0 else None)


@proves("reading.re-anchored", "reading.every-surface")
@pytest.mark.parametrize(
    ("chapter", "sid", "reached"),
    [
        ("One", 6, 3), ("  oNe ", 6, 3), ("two", 10, 4), ("Twof", 12, 5), ("1", 6, 3),
        ("2", 10, 4), ("fold", 12, 5), ("II", 10, 4), ("chapter one", 6, 3), ("lamp", 0, 1),
        ("the wick", 6, 3),
    ],
)  # fmt: skip
def test_position_can_be_set_by_the_last_read_chapter(
    tmp_path: Path, chapter: str, sid: int, reached: int
) -> None:
    _, world = shelf(tmp_path)

    found = ann(world).set_position("book.md", through_chapter=chapter)

    assert (found.sid, found.last_sentence) == (sid, SENTENCES[sid])
    assert found.chapters_reached == REACHED[:reached]
    assert found.chapter == found.chapters_reached[-1]


@proves("reading.re-anchored")
@pytest.mark.parametrize(
    "told",
    [
        *({"sentence": sid} for sid in (-2, LAST + 1, 10**12, True, False, 1.0, "3")),
        *({"through_chapter": name} for name in ("Three", "T", "0", "4", "-1", "", " ", "3")),
        *({"through_chapter": name} for name in ("The Wicker", "9" * 5000)),
        {},
        {"sentence": 1, "passage": "late"},
        {"sentence": 1, "through_chapter": "One"},
        {"sentence": 1, "through_chapter": "One", "passage": "late"},
    ],
    ids=lambda told: str(told)[:50],
)
def test_ambiguous_or_missing_position_is_refused(tmp_path: Path, told: dict[str, Any]) -> None:
    _, world = shelf(tmp_path)

    with pytest.raises(InvalidArgument):
        ann(world).set_position("book.md", **told)

    assert ann(world).books() == []


@proves("reading.re-anchored")
def test_position_can_be_set_while_the_provider_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, world = shelf(tmp_path)

    def unavailable(_: object) -> None:
        raise ProviderUnavailable("The provider is away.")

    monkeypatch.setattr(WordEmbedder, "profile", property(unavailable), raising=False)
    found = ann(world).set_position("book.md", through_chapter="one")

    assert found.sid == ann(world).position().sid == 6


@proves("reading.re-anchored")
@pytest.mark.parametrize("chapter", ["", " ", "²", "٢"])
def test_meaningless_name_is_not_a_chapter(tmp_path: Path, chapter: str) -> None:
    _, world = shelf(tmp_path, book="# The Only One\n\nIt was late.")

    with pytest.raises(InvalidArgument):
        ann(world).set_position("book.md", through_chapter=chapter)


@proves("reading.re-anchored")
@pytest.mark.parametrize(
    ("passage", "sid"),
    [
        ("The lamp burned.", 3), ("lamp burned", 3), ("It was late. The lamp burned", 3),
        ('"Who\'s there?" she said - softly', 6), ("“Who’s there?”", 6),
        ("Nobody   answered.\nIt", 9), ("Morning came.", 12), ("burned. The Wick It was", 5),
    ],
)  # fmt: skip
def test_position_can_be_set_by_the_last_read_words(tmp_path: Path, passage: str, sid: int):
    _, world = shelf(tmp_path)

    assert ann(world).set_position("book.md", passage=passage).sid == sid


@proves("reading.re-anchored")
@pytest.mark.parametrize(
    ("passage", "code"),
    [
        ("It was late.", "passage_ambiguous"),
        ("lamp", "passage_ambiguous"),
        ("Nobody asked.", "passage_not_found"),
        ("nobody answered.", "passage_not_found"),
        ("", "passage_not_found"),
        (" \n ", "passage_not_found"),
    ],
)
def test_unknown_or_ambiguous_words_are_refused_with_the_reason(
    tmp_path: Path, passage: str, code: str
) -> None:
    _, world = shelf(tmp_path)
    ann(world).set_position("book.md", sentence=2)

    with raises_code(code):
        ann(world).set_position("book.md", passage=passage)

    assert ann(world).position().sid == 2


@proves("reading.re-anchored")
def test_self_overlapping_words_are_ambiguous(tmp_path: Path) -> None:
    _, world = shelf(tmp_path, book="He said no, no, no, no more.")

    with raises_code("passage_ambiguous"):
        ann(world).set_position("book.md", passage="no, no, no")


# Keeping it


@proves("reading.current-book", "reading.re-anchored")
def test_reader_can_go_back_and_position_survives_a_restart(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)
    ann(world).set_position("book.md", sentence=11)
    ann(world).set_position("book.md", sentence=4)
    lib.library.close()

    again = make_library(tmp_path, index=lib.index).library.world("world")

    assert again.reader("ann").position().sid == 4
    assert "lamp went out" not in again.reader("ann").retrieve("the lamp went out").context


@proves("reading.current-book")
def test_each_book_has_its_position_and_one_book_is_current(tmp_path: Path) -> None:
    _, world = shelf(tmp_path, a="A lamp. A key. A boat.", b="B lamp. B key. B boat.", c="C lamp.")
    reader = ann(world)
    reader.set_position("a.md", sentence=0)
    reader.set_position("b.md", sentence=1)
    reader.set_position("c.md", sentence=-1, current=False)

    assert [(book.source, book.sid, book.current) for book in reader.books()] == [
        ("a.md", 0, False), ("b.md", 1, True), ("c.md", -1, False),
    ]  # fmt: skip
    assert reader.position().source == "b.md"
    assert reader.retrieve("lamp key").context == "B lamp. B key."
    assert reader.retrieve("lamp key", book="a.md").context == "A lamp."
    assert reader.retrieve("lamp key", book="1").context == "A lamp."
    assert codes(reader, book="c.md") == ["nothing_read"]


@proves("reading.current-book")
def test_positions_of_readers_and_worlds_are_independent(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)
    other = lib.library.create_world("other")
    other.ingest(lib.write("other/book.md", BOOK), kind="book")
    ann(world).set_position("book.md", sentence=LAST)

    assert world.reader("bea").books() == []
    assert other.reader("ann").books() == []
    assert codes(world.reader("bea")) == ["no_reading_position"]
    assert codes(other.reader("ann"), book="book.md") == ["no_reading_position"]


@proves("reading.no-state")
@pytest.mark.parametrize("book", [None, "book.md", "1"])
def test_nothing_is_readable_or_requested_without_a_position(
    tmp_path: Path, book: str | None
) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", BOOK), kind="book")
    lib.journal.clear()

    assert codes(ann(world), book=book) == ["no_reading_position"]
    assert not [call for call in lib.journal if call.startswith(("index.", "embedder."))]
    with raises_code("no_reading_position"):
        ann(world).position(book)
    assert ann(world).books() == []


@proves("reading.no-state")
def test_nothing_is_readable_or_requested_before_the_first_sentence(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", BOOK), kind="book")
    found = ann(world).set_position("book.md", sentence=-1)
    lib.journal.clear()

    assert codes(ann(world)) == ["nothing_read"]
    assert not [call for call in lib.journal if call.startswith(("index.", "embedder."))]
    assert (found.chapter, found.chapters_reached, found.last_sentence) == (None, (), None)


@proves("reading.current-book")
def test_missing_book_is_refused(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)
    for call in (
        lambda: ann(world).set_position("absent.md", sentence=0),
        lambda: ann(world).retrieve("the lamp", book="absent.md"),
        lambda: lib.library.create_world("empty").reader("ann").retrieve("lamp", book="book.md"),
    ):
        with raises_code("document_not_found"):
            call()
    with raises_code("no_reading_position"):
        ann(world).position("absent.md")


@proves("reading.no-state", "reading.never-past-position")
def test_caller_bound_to_a_reader_cannot_change_the_position(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)
    ann(world).set_position("book.md", sentence=2)
    world.reader("bea").set_position("book.md", sentence=9)
    bound = Library(lib.library._components, OWNER.as_reader(lib.scope(world).world, "ann"))
    mine = bound.world("world")

    assert mine.reader("ann").position().sid == 2
    assert mine.reader("ann").retrieve("late").context == "The Lamp\n\nOne\n\nIt was late."
    chunk = next(iter(lib.points(world)))
    for call in (
        lambda: mine.reader("bea").position(),
        lambda: mine.reader("bea").retrieve("late"),
        lambda: mine.search("late"),
        lambda: mine.retrieve("late"),
        lambda: mine.documents.text("book.md"),
        lambda: mine.documents.outline("book.md"),
        lambda: mine.documents.chunk(chunk),
        lambda: mine.documents.list(),
        lambda: mine.status(),
    ):
        with pytest.raises(NotAllowed):
            call()
    for change in (
        lambda: mine.reader("ann").set_position("book.md", sentence=9),
        lambda: mine.ingest(lib.write("book.md", "Other.")),
        lambda: mine.documents.delete("book.md"),
    ):
        with raises_code("not_allowed", "world_not_found"):
            change()
    assert ann(world).position().sid == 2
