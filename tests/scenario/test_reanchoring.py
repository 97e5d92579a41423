"""What becomes of a position when the book changes: the same sentence, or an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.promises import proves
from tests.support.reading_worlds import Stopped, common, stopped_at, stored
from tests.support.worlds import Place, place
from truespan.errors import InvalidSettings
from truespan.reader import Reader
from truespan.world import World


def shelf(folder: Path, text: str) -> tuple[Place, World]:
    here = place(folder)
    world = here.library.create_world("world")
    world.ingest(here.write("book.md", text), kind="book")
    return here, world


def ann(world: World) -> Reader:
    return world.reader("ann")


def words(reader: Reader) -> str:
    """Return all that the reader is shown, in one line."""
    return " ".join(reader.retrieve("the lamp").context.split())


def nothing(reader: Reader, **options: Any) -> list[str]:
    """Return the warnings of a reader who is shown nothing."""
    bundle = reader.retrieve("the lamp", **options)
    assert bundle.context == ""
    return [notice.code for notice in bundle.metadata.warnings]


OLD = [f"Sentence {number} of the lamp." for number in range(12)]
CHANGES = [
    ("nothing", lambda lines: lines, 6, 6),
    ("the end goes on", lambda lines: [*lines, "More."], 11, 11),
    ("the next one changes", lambda lines: [*lines[:7], "New.", *lines[8:]], 6, 6),
    ("the last read one changes", lambda lines: [*lines[:6], "New.", *lines[7:]], 6, 5),
    ("an early one changes", lambda lines: [*lines[:2], "New.", *lines[3:]], 6, 1),
    ("the first one changes", lambda lines: ["New.", *lines[1:]], 6, -1),
    ("one is put in before", lambda lines: [*lines[:3], "New.", *lines[3:]], 6, 2),
    ("one is put in at the front", lambda lines: ["New.", *lines], 6, -1),
    ("one is put in right behind", lambda lines: [*lines[:7], "New.", *lines[7:]], 6, 6),
    ("one before is taken out", lambda lines: [*lines[:3], *lines[4:]], 6, 2),
    ("the last read one is taken out", lambda lines: [*lines[:6], *lines[7:]], 6, 5),
    ("one behind is taken out", lambda lines: [*lines[:8], *lines[9:]], 6, 6),
    ("two change places", lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 6, 3),
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
def test_after_a_change_the_position_is_the_end_of_what_stayed_the_same(
    tmp_path: Path, change: Any, sid: int, expected: int
) -> None:
    here, world = shelf(tmp_path, " ".join(OLD))
    ann(world).set("book.md", sid=sid)

    world.ingest(here.write("book.md", " ".join(change(OLD))), kind="book")

    assert ann(world).where().sid == expected
    assert words(ann(world)) == " ".join(OLD[: expected + 1])


@proves("reading.re-anchored")
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.lists(st.sampled_from("ABC"), min_size=1, max_size=9), min_size=2, max_size=5),
    st.data(),
)
def test_no_series_of_changes_ever_raises_or_reinterprets_a_position(
    tmp_path_factory: pytest.TempPathFactory, revisions: list[list[str]], data: st.DataObject
) -> None:
    def spelled(letters: list[str]) -> str:
        return " ".join(f"The lamp {letter} burned." for letter in letters)

    here, world = shelf(tmp_path_factory.mktemp("series"), spelled(revisions[0]))
    sid = data.draw(st.integers(-1, len(revisions[0]) - 1))
    ann(world).set("book.md", sid=sid)
    read = stored(here, world, 1).texts
    for letters in revisions[1:]:
        world.ingest(here.write("book.md", spelled(letters)), kind="book")
        now = stored(here, world, 1).texts
        sid, read = min(sid, common(read, now)), now
        assert ann(world).where().sid == sid
    here.library.close()


@proves("reading.re-anchored", "reading.no-state")
def test_a_book_that_was_deleted_comes_back_unread(tmp_path: Path) -> None:
    here, world = shelf(tmp_path, " ".join(OLD))
    ann(world).set("book.md", sid=9)

    world.documents.delete("book.md")
    assert ann(world).books() == []
    assert nothing(ann(world)) == ["no_reading_position"]
    world.ingest(here.write("book.md", " ".join(OLD)), kind="book")

    assert ann(world).books() == []
    assert nothing(ann(world), book="book.md") == ["no_reading_position"]


def staged(here: Place, text: str) -> None:
    """Leave a replacement half done: written, and not seen by anybody."""
    with pytest.raises(Stopped):
        stopped_at(here, 2).world("world").ingest(here.write("book.md", text), kind="book")


@proves("reading.re-anchored")
def test_a_replacement_moves_no_position_before_it_is_seen(tmp_path: Path) -> None:
    here, world = shelf(tmp_path, " ".join(OLD))
    ann(world).set("book.md", sid=6)

    staged(here, "All of it is new.")

    assert ann(world).where().sid == 6
    assert words(ann(world)) == " ".join(OLD[:7])


@proves("reading.re-anchored", "reading.never-past-position")
@pytest.mark.parametrize(
    "told", [{"sid": 11}, {"sid": 12}, {"sid": 25}, {"through_chapter": "1"}], ids=str
)
def test_a_position_told_while_a_longer_book_waits_is_one_in_the_book_that_is_read(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    here, world = shelf(tmp_path, "# A\n\n" + " ".join(OLD[1:]))
    longer = "# A\n\n" + " ".join([*OLD[1:], *(f"Ahead zq{number}x." for number in range(20))])
    staged(here, longer)

    try:
        ann(world).set("book.md", **told)
    except InvalidSettings:
        assert told["sid"] > 11
        return
    world.ingest(here.write("book.md", longer), kind="book")

    assert ann(world).where().sid == 11
    assert "zq" not in ann(world).retrieve("ahead").context
