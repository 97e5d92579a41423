"""Questions that have an answer, for callers who may see all documents and for readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.worlds import ManualClock, make_library
from truespan.engine.answering import MAX_CHECK_SECONDS, keep_answerable
from truespan.errors import BlankQuery, InvalidArgument
from truespan.types.decision import AnswerMode

BOOK = """# The lamp
The keeper lit the lamp at dusk. He trimmed the wick of the lamp each night.
# The rum
The mate had hidden the rum below the stairs. Nobody found the rum before winter.
"""
LAMP, RUM = "Who lit the lamp at dusk?", "Where had the mate hidden the rum?"


@proves("page.suggested-questions")
def test_only_questions_with_an_answer_are_returned(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    path = lib.write("book.md", BOOK)
    world.ingest(path, kind="book")

    assert world.answerable([RUM, "How do volcanoes form?", LAMP]) == [RUM, LAMP]
    assert world.answerable([]) == []


@proves("page.suggested-questions", "reading.never-past-position")
def test_reader_gets_questions_of_read_text(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    replies = []
    for name, text in (("one", BOOK), ("two", BOOK.replace("rum", "gin")), ("three", BOOK[:95])):
        world = lib.library.create_world(name)
        world.ingest(lib.write(f"{name}/book.md", text), kind="book")
        reader = world.reader("ada")
        reader.set_position("book.md", sentence=-1)
        assert reader.answerable([LAMP, RUM]) == []
        reader.set_position("book.md", sentence=1)
        replies.append(
            reader.answerable([LAMP, RUM, "Gin below stairs before winter?", "Volcanoes?"])
        )

    assert replies[1:] == replies[:-1]
    assert LAMP in replies[0]
    assert "Volcanoes?" not in replies[0]


@proves("page.suggested-questions")
def test_questions_are_limited_in_number_and_time(tmp_path: Path) -> None:
    world = make_library(tmp_path).library.create_world("world")
    for wrong in (["x"] * 7, "x", [1]):
        with pytest.raises(InvalidArgument):
            world.answerable(wrong)  # type: ignore[arg-type]
    clock, checked = ManualClock(), []

    class Decided:
        mode = AnswerMode.RAG

    def decide(question: str) -> Decided:
        checked.append(question)
        clock.time += MAX_CHECK_SECONDS / 2
        return Decided()

    assert keep_answerable([LAMP, RUM, "x"], decide, clock) == [LAMP, RUM]  # type: ignore[arg-type]
    assert checked == [LAMP, RUM]


@proves("page.suggested-questions")
def test_blank_question_is_refused(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.world(a__txt="The lamp burns.")
    with pytest.raises(BlankQuery):
        world.answerable([" "])
