"""A reader's answers: from what was read only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.answer_worlds import LONG, QUESTION, Echo, Scripted, Study, study
from tests.support.failures import raises_code
from tests.support.reading_worlds import CHUNKINGS, Stored, Trial
from tests.support.sample_books import canaries
from tests.support.worlds import WordEmbedder
from truespan.engine.library import Library
from truespan.errors import NotAllowed
from truespan.protocols import ChatModels
from truespan.types.answer import Answer, AnswerRules
from truespan.types.decision import DecisionSettings
from truespan.types.scope import OWNER
from truespan.wire.serialize import to_json

EASY = DecisionSettings(
    threshold_low=0.0,
    threshold_high=0.05,
    short_query_threshold_low=0.0,
    short_query_threshold_high=0.1,
    min_similarity_for_hybrid=0.0,
)
"""Under which nearly everything is given to the model."""


def frozen(answer: Answer) -> str:
    """Return an answer as serialized bytes, without its time and its place in the log."""
    return to_json(replace(answer, record=None, processing_time_ms=0))


class AnsweringTrial(Trial):
    """Readers with a model that repeats its whole prompt, so that any leak would be visible."""

    def _asked(self, sid: int, book: Stored) -> Iterator[tuple[str, str]]:
        for name, rules in (("easy", EASY), ("usual", DecisionSettings())):
            models = ChatModels(Echo(), Echo()) if name == "easy" else ChatModels()
            parts = replace(
                self.lib.library._components, chat=models, answers=AnswerRules(decision=rules)
            )
            reader = Library(parts).world("world").reader(f"at {sid}")
            for question in self.questions:
                # An answer repeats what was asked, and these questions are sentences of the book.
                words = [word for word in question.query.split() if not canaries(word)]
                query = " ".join(words) or "the lamp"
                yield f"{name} {query}", frozen(reader.answer(query))


@pytest.mark.needs_extension
@proves("reading.non-interference", "reading.every-surface")
@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("seed", in_test_or_prove([11], [11, 12]))
def test_answer_does_not_depend_on_unread_text(tmp_path: Path, chunking: str, seed: int) -> None:
    counts = AnsweringTrial(tmp_path, seed, chunking=chunking).run(
        1, in_test_or_prove(1, 3), near=in_test_or_prove(2, 4)
    )

    assert counts.findings == []
    assert counts.comparisons > 30


def shelf(folder: Path, ahead: str = "The landlady did it. ", **models: Any) -> Study:
    room = study(folder, embedder=WordEmbedder(), rules=AnswerRules(EASY), **models)
    read = f"The spare key hung on hook seven. Nobody held it.{LONG} "
    room.world.ingest(room.lib.write("book.txt", read + ahead), kind="book")
    room.world.reader("ada").set_position("book.txt", passage="Nobody held it.")
    return room


@proves("reading.never-past-position", "reading.truncated-before-model")
def test_model_gets_only_read_sentences(tmp_path: Path) -> None:
    room = shelf(
        tmp_path, primary=Scripted("It hung there [1]: “The spare key hung on hook seven.”")
    )

    answer = room.world.reader("ada").answer(QUESTION)

    assert "hook seven" in room.primary.prompt
    assert "landlady" not in room.primary.prompt
    assert "The rest of this passage" not in room.primary.prompt
    assert answer.quotes[0].verified
    assert (answer.quotes[0].first_sid, answer.quotes[0].last_sid) == (0, 0)
    assert answer.citations[0].last_sid == 1
    assert answer.decision_explain["reading"] is True


@proves("reading.never-past-position")
def test_quote_of_unread_text_is_not_verified(tmp_path: Path) -> None:
    room = shelf(tmp_path, primary=Scripted("I remember: “The landlady did it.” [2]"))

    answer = room.world.reader("ada").answer(QUESTION)

    assert [(quote.verified, quote.document) for quote in answer.quotes] == [(False, None)]
    assert answer.citations[0].document is None


@proves("reading.never-past-position")
@pytest.mark.parametrize("reply", ["", "NO_CONTEXT"])
def test_reader_gets_no_answer_from_memory(tmp_path: Path, reply: str) -> None:
    room = shelf(tmp_path, primary=Scripted(reply), fallback=Scripted("The landlady did it."))

    answer = room.world.reader("ada").answer(QUESTION)

    assert answer.answer.startswith("Nothing certain in what has been read of this book so far.")
    assert (answer.mode, answer.decision_explain["refusal"]) == ("fallback", "reading")
    assert room.fallback.asked == []


@proves("reading.no-state")
def test_reader_without_a_position_is_refused_before_any_request(tmp_path: Path) -> None:
    room = shelf(tmp_path, primary=Scripted("So."), fallback=Scripted("So."))

    answer = room.world.reader("ben").answer(QUESTION)

    assert [notice.code for notice in answer.warnings] == ["no_reading_position"]
    assert answer.retrieved_chunks_metadata == ()
    assert (room.primary.asked, room.fallback.asked) == ([], [])


@proves("reading.no-state")
def test_missing_book_is_not_found(tmp_path: Path) -> None:
    room = shelf(tmp_path)

    with raises_code("document_not_found"):
        room.world.reader("ada").answer(QUESTION, "another.txt")


@proves("reading.every-surface")
def test_caller_bound_to_a_reader_has_no_other_answers_and_no_log(tmp_path: Path) -> None:
    room = shelf(tmp_path, primary=Scripted("So [1]."))
    bound = Library(
        room.library._components, OWNER.as_reader(room.lib.scope(room.world).world, "ada")
    )
    world = bound.world("world")

    assert world.reader("ada").answer(QUESTION).record is not None
    for refused in (
        lambda: world.answer(QUESTION),
        world.usage,
        lambda: world.reader("ben").answer(QUESTION),
    ):
        with pytest.raises(NotAllowed):
            refused()


@proves("reading.tail", "decision.short-query-tightens")
@pytest.mark.parametrize(
    ("score", "query", "found"),
    [(0.24, QUESTION, 0), (0.25, QUESTION, 1), (0.27, "keys", 0), (0.28, "keys", 1)],
)
def test_floor_applies_to_the_replacement_of_a_far_chunk(
    tmp_path: Path, score: float, query: str, found: int
) -> None:
    room = study(tmp_path)
    text = f"It was dark (score {score:.6f}). It grew light (score 0.9)."
    room.world.ingest(room.lib.write("book.txt", text), kind="book")
    room.world.reader("ada").set_position("book.txt", sentence=0)

    answer = room.world.reader("ada").answer(query)

    assert [note.similarity for note in answer.retrieved_chunks_metadata] == [score] * found


@proves("reading.tail")
def test_quoted_answer_of_a_reader_is_in_reading_order_and_read(tmp_path: Path) -> None:
    room = study(tmp_path, embedder=WordEmbedder(), rules=AnswerRules(EASY))
    lines = [f"Sentence {n} says that the key is number {n}." for n in range(60)]
    room.world.ingest(room.lib.write("book.txt", " ".join(lines)), kind="book")
    room.world.reader("ada").set_position("book.txt", sentence=41)

    answer = room.world.reader("ada").answer("Which key is number 30?")

    shown = [int(word) for word in answer.answer.replace(".", " ").split() if word.isdigit()]
    assert max(shown) <= 41
    firsts = [citation.first_sid or 0 for citation in answer.citations]
    assert firsts == sorted(firsts)
    assert all(quote.verified for quote in answer.quotes)
