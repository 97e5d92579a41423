"""Positions after a change of the book: the same sentence, or an earlier one."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.promises import proves
from tests.support.reading_worlds import Stopped, common, stopped_at, stored
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import InvalidArgument


def shelf(folder: Path, text: str) -> tuple[LibraryFixture, World]:
    lib = make_library(folder)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", text), kind="book")
    return lib, world


def ann(world: World) -> Reader:
    return world.reader("ann")


def words(reader: Reader) -> str:
    """Return all text that the reader sees, in one line."""
    return " ".join(reader.retrieve("the lamp").context.split())


def nothing(reader: Reader, **options: Any) -> list[str]:
    bundle = reader.retrieve("the lamp", **options)
    assert bundle.context == ""
    return [notice.code for notice in bundle.metadata.warnings]


OLD = [f"Sentence {number} of the lamp." for number in range(12)]
CHANGES = [
    ("nothing", lambda lines: lines, 6, 6),
    ("the end goes on", lambda lines: [*lines, "More."], 11, 11),
    ("the next one changes", lambda lines: [*lines[:7], "New.", *lines[8:]], 6, 6),
    ("the last read one changes", lambda lines: [*lines[:6], "New.", *lines[7:]], 6, 5),
    ("an early one changes", lambda lines: [*lines[:2], "New.", *lines[3:]], 6, 6),
    ("the first one changes", lambda lines: ["New.", *lines[1:]], 6, 6),
    ("one is put in before", lambda lines: [*lines[:3], "New.", *lines[3:]], 6, 7),
    ("one is put in at the front", lambda lines: ["New.", *lines], 6, 7),
    ("one is put in right behind", lambda lines: [*lines[:7], "New.", *lines[7:]], 6, 6),
    ("one before is taken out", lambda lines: [*lines[:3], *lines[4:]], 6, 5),
    ("the last read one is taken out", lambda lines: [*lines[:6], *lines[7:]], 6, 5),
    ("one behind is taken out", lambda lines: [*lines[:8], *lines[9:]], 6, 6),
    ("two change places", lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 6, 6),
    ("an unread one is put in before", lambda lines: [*lines[:3], lines[8], *lines[3:]], 6, 2),
    ("an unread one is put in at the front", lambda lines: [lines[8], *lines], 6, -1),
    ("a foreword tells an unread one", lambda lines: [f"See: {lines[8].lower()}", *lines], 6, -1),
    ("the marks change", lambda lines: [line.replace(".", "!").upper() for line in lines], 6, 6),
    ("the book is cut short before", lambda lines: lines[:4], 6, 3),
    ("the book is cut short right there", lambda lines: lines[:7], 6, 6),
    ("all is new", lambda lines: ["New."] * 12, 6, -1),
    ("nothing was read", lambda lines: ["New."], -1, -1),
]


@proves("reading.re-anchored")
@pytest.mark.parametrize(
    ("change", "sid", "expected"),
    [entry[1:] for entry in CHANGES],
    ids=[entry[0] for entry in CHANGES],
)
def test_position_follows_the_last_read_sentence_that_remains(
    tmp_path: Path, change: Any, sid: int, expected: int
) -> None:
    lib, world = shelf(tmp_path, " ".join(OLD))
    ann(world).set_position("book.md", sentence=sid)

    world.ingest(lib.write("book.md", " ".join(change(OLD))), kind="book")

    assert ann(world).position().sid == expected
    assert words(ann(world)) == " ".join(change(OLD)[: expected + 1])


@proves("reading.re-anchored")
@examples(25, [HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.sampled_from("ABC"), min_size=1, max_size=9), min_size=2, max_size=5),
    st.data(),
)
def test_series_of_changes_never_shows_an_unread_sentence(
    tmp_path_factory: pytest.TempPathFactory, revisions: list[list[str]], data: st.DataObject
) -> None:
    def spelled(letters: list[str]) -> str:
        return " ".join(f"The lamp {letter} burned." for letter in letters)

    lib, world = shelf(tmp_path_factory.mktemp("series"), spelled(revisions[0]))
    sid = data.draw(st.integers(-1, len(revisions[0]) - 1))
    ann(world).set_position("book.md", sentence=sid)
    before = stored(lib, world, 1).texts
    for letters in revisions[1:]:
        world.ingest(lib.write("book.md", spelled(letters)), kind="book")
        now = stored(lib, world, 1).texts
        read, ahead = before[: sid + 1], before[sid + 1 :]
        least, sid, before = min(sid, common(before, now)), ann(world).position().sid, now
        assert least <= sid
        assert sid == -1 or now[sid] in read
        assert not set(now[: sid + 1]) & (set(ahead) - set(read))
    lib.library.close()


BOOK = """# The Lamp

"Who's there?" she asked - softly. Nobody answered her at the door.

## One

It was the lamp's fifth night on the quay. "I didn't light it," he said.
"No one did." The tide came in and went out again.

## Two

The keeper was dead. The doctor had killed him.
"""
FOREWORD = "\n\n## Foreword\n\nThis edition follows the second printing. The spelling is ours.\n"
EDITIONS = {
    "the same": BOOK,
    "a foreword after the title": BOOK.replace("# The Lamp\n", f"# The Lamp{FOREWORD}"),
    "a foreword in front": FOREWORD + BOOK,
    "curly quotes and long dashes": BOOK.replace(' "', " “")
    .replace('\n"', "\n“")
    .replace('"', "”")
    .replace("'", "’")
    .replace(" - ", "—"),
}


@proves("reading.re-anchored", "reading.never-past-position")
def test_another_edition_keeps_every_reader_at_the_same_sentence(tmp_path: Path) -> None:
    for number, (name, edition) in enumerate(EDITIONS.items()):
        lib, world = shelf(tmp_path / str(number), BOOK)
        texts = stored(lib, world, 1).texts
        readers = [world.reader(f"at {sid}") for sid in range(2, len(texts) - 1)]
        for sid, reader in enumerate(readers, 2):
            reader.set_position("book.md", sentence=sid)

        world.ingest(lib.write("book.md", edition), kind="book")

        for reader, text in zip(readers, texts[2:], strict=False):
            last = reader.position().last_sentence
            assert last is not None
            assert [c for c in last if c.isalnum()] == [c for c in text if c.isalnum()], name
            assert "killed" not in reader.retrieve("who killed the keeper?").context, name
        lib.library.close()


@proves("reading.re-anchored", "reading.never-past-position")
def test_edition_with_damaged_earlier_text_compares_from_start(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path, BOOK)
    ann(world).set_position("book.md", sentence=6)
    lib.sql("UPDATE texts SET text = replace(text, 'the door', 'the doors')")

    world.ingest(lib.write("book.md", EDITIONS["a foreword after the title"]), kind="book")

    assert ann(world).position().last_sentence == "The Lamp"


@proves("reading.re-anchored")
def test_position_set_during_a_comparison_of_editions_moves_with_it(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path, BOOK)
    late = world.reader("late")
    database = lib.library._components.store._db
    original = database.write

    def write(*args: Any, **options: Any) -> Any:
        if options.get("shared"):
            database.write = original
            late.set_position("book.md", sentence=6)
        return original(*args, **options)

    database.write = write
    world.ingest(lib.write("book.md", EDITIONS["a foreword after the title"]), kind="book")

    assert database.write == original
    assert late.position().last_sentence == stored(lib, world, 1).texts[late.position().sid]
    assert late.position().sid == 9


@proves("reading.re-anchored", "notes.moved-and-deleted")
def test_note_written_during_a_comparison_of_editions_moves(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path, BOOK)
    late = world.reader("late")
    late.set_position("book.md", sentence=6)
    database = lib.library._components.store._db
    original = database.write

    def write(*args: Any, **options: Any) -> Any:
        if options.get("shared"):
            database.write = original
            late.notes.add("Remember this.", first=5)
        return original(*args, **options)

    database.write = write
    world.ingest(lib.write("book.md", EDITIONS["a foreword after the title"]), kind="book")

    assert database.write == original
    [note] = late.notes.list()
    assert (late.position().sid, note.sid, note.first) == (9, 9, 8)
    assert note.quote == stored(lib, world, 1).texts[8]


@proves("reading.re-anchored", "reading.no-state")
def test_deleted_book_returns_as_unread(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path, " ".join(OLD))
    ann(world).set_position("book.md", sentence=9)

    world.documents.delete("book.md")
    assert ann(world).books() == []
    assert nothing(ann(world)) == ["no_reading_position"]
    world.ingest(lib.write("book.md", " ".join(OLD)), kind="book")

    assert ann(world).books() == []
    assert nothing(ann(world), book="book.md") == ["no_reading_position"]


def staged(lib: LibraryFixture, text: str) -> None:
    """Leave a replacement unfinished: written, but not active."""
    with pytest.raises(Stopped):
        stopped_at(lib, 2).world("world").ingest(lib.write("book.md", text), kind="book")


@proves("reading.re-anchored")
def test_replacement_moves_no_position_before_it_is_visible(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path, " ".join(OLD))
    ann(world).set_position("book.md", sentence=6)

    staged(lib, "All of it is new.")

    assert ann(world).position().sid == 6
    assert words(ann(world)) == " ".join(OLD[:7])


@proves("reading.re-anchored", "reading.never-past-position")
@pytest.mark.parametrize(
    "told",
    [{"sentence": 11}, {"sentence": 12}, {"sentence": 25}, {"through_chapter": "1"}],
    ids=str,
)
def test_position_set_during_a_rebuild_is_in_the_read_book(tmp_path: Path, told: dict[str, Any]):
    lib, world = shelf(tmp_path, "# A\n\n" + " ".join(OLD[1:]))
    longer = "# A\n\n" + " ".join([*OLD[1:], *(f"Ahead zq{number}x." for number in range(20))])
    staged(lib, longer)

    try:
        ann(world).set_position("book.md", **told)
    except InvalidArgument:
        assert told["sentence"] > 11
        return
    world.ingest(lib.write("book.md", longer), kind="book")

    assert ann(world).position().sid == 11
    assert "zq" not in ann(world).retrieve("ahead").context
