"""Streamed answers: nothing is sent before the mode is decided, and the whole answer at the end."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.answer_worlds import LONG, QUESTION, Scripted, Study, scored, study, told
from tests.support.failures import raises_code
from tests.support.worlds import Hooked, MemoryIndex
from truespan.engine.library import Library
from truespan.errors import (
    InvalidArgument,
    NotAllowed,
    ProviderUnavailable,
    StoreBusy,
    StoreDamaged,
)
from truespan.ingest.draft import Preparation
from truespan.types.answer import Piece, Started
from truespan.types.chunk import FigureFlags
from truespan.types.scope import OWNER, Verb


def room_with(folder: Path, *pieces: str | Exception, **more: Any) -> Study:
    room = study(folder, primary=Scripted(list(pieces)), **more)
    room.scores(0.7)
    return room


def test_events_come_in_order_and_their_pieces_are_the_answer(tmp_path: Path) -> None:
    room = room_with(tmp_path, " It [1]", " hung ", "there [1]. ")
    started, pieces, answer = told(room.world.answer_stream(QUESTION))
    assert started == Started(answer.mode, answer.decision_explain["used_llm"])
    assert pieces == ["It [1]", " hung", " there [1]."]
    assert "".join(pieces) == answer.answer
    assert len(room.log) == 1


def test_no_text_streams_before_the_reply_is_certain(tmp_path: Path) -> None:
    room = room_with(tmp_path, " ", "NO", "_CON", "SEQUENCES [1]", " followed.")
    events = room.world.answer_stream(QUESTION)
    assert room.primary.asked == []
    assert isinstance(next(events), Started)
    assert room.primary.given == 4
    assert next(events) == Piece("NO_CONSEQUENCES [1]")
    assert room.primary.given == 4
    assert next(events) == Piece(" followed.")


def test_pieces_are_sent_as_they_arrive(tmp_path: Path) -> None:
    room = room_with(tmp_path, "One [1]", " two", " three")
    events = room.world.answer_stream(QUESTION)
    for count, expected in enumerate((Started, Piece, Piece, Piece)):
        assert isinstance(next(events), expected)
        assert room.primary.given == max(count, 1)


@pytest.mark.parametrize("reply", [
    ["NO_", "CONTEXT", "."], [" ", "\n"], ["<think>She", " did it.</think>\n\n", "NO_CONTEXT"],
    ["<think>She did it."], ["Answer: ", "NO_CONTEXT", " [1]"],
    ["NO CONTEXT.", " From memory:", " she did it."],
    ["Sorry, ", "NO_CON", "TEXT. From memory: ", "she did it."],
])  # fmt: skip
def test_unusable_reply_is_not_streamed(tmp_path: Path, reply: list[str]) -> None:
    room = room_with(tmp_path, *reply, fallback=Scripted(["Per", "haps."]))
    started, pieces, _ = told(room.world.answer_stream(QUESTION))
    assert (started.mode, started.used_llm) == ("fallback", "fallback")
    assert pieces == ["Perhaps."]


def test_reasoning_is_not_streamed(tmp_path: Path) -> None:
    room = room_with(tmp_path, "<think>She did", " it.</think>", "\n\nIt hung [1] ", "there [1].")
    _, pieces, answer = told(room.world.answer_stream(QUESTION))
    assert pieces == ["It hung [1]", " there [1]."]
    assert answer.answer == "It hung [1] there [1]."


def test_answer_ends_at_no_context(tmp_path: Path) -> None:
    room = room_with(
        tmp_path, "It hung there [1].", " NO_", "CONTEXT: ", "From memory, she did it."
    )
    started, pieces, answer = told(room.world.answer_stream(QUESTION))
    assert (started.mode, "".join(pieces)) == ("rag", "It hung there [1].")
    assert answer.answer == "It hung there [1]."
    assert [notice.code for notice in answer.warnings][-1] == "reply_cut"
    assert room.primary.closed == 1


def test_refusal_is_streamed_like_an_answer(tmp_path: Path) -> None:
    room = study(tmp_path)
    started, pieces, answer = told(room.world.answer_stream(QUESTION))
    assert (started.mode, started.used_llm) == ("fallback", "none")
    assert pieces == [answer.answer]


def test_closed_stream_ends_the_request_unrecorded(tmp_path: Path) -> None:
    room = room_with(tmp_path, "One [1]", " two", " three")
    events = room.world.answer_stream(QUESTION)
    next(events)
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert (room.primary.given, room.primary.closed) == (1, 1)
    assert room.log == []


def test_provider_failure_ends_the_stream_with_its_error(tmp_path: Path) -> None:
    room = room_with(tmp_path, "One [1]", ProviderUnavailable("It broke off."))
    events = room.world.answer_stream(QUESTION)
    assert [type(next(events)) for _ in range(2)] == [Started, Piece]
    with pytest.raises(ProviderUnavailable):
        next(events)
    assert room.log == []


# What is asked for, and what is found


@pytest.mark.parametrize("query", ["", " \n"])
def test_blank_question_is_refused_before_any_request(tmp_path: Path, query: str) -> None:
    room = room_with(tmp_path, "So.")
    with raises_code("blank_query", "invalid_argument"):
        room.world.answer(query)
    assert (room.lib.embedder.queries, room.primary.asked) == ([], [])


def test_write_only_caller_gets_no_answers(tmp_path: Path) -> None:
    room = room_with(tmp_path, "So.")
    world = room.lib.scope(room.world).world
    writer = OWNER.narrow(worlds=[world], verbs=[Verb.WRITE])
    stranger = OWNER.narrow(worlds=[], verbs=[Verb.READ])
    with pytest.raises(NotAllowed):
        Library(room.library._components, writer).world("world").answer(QUESTION)
    with raises_code("world_not_found"):
        Library(room.library._components, stranger).world("world")


def test_filters_limit_the_sources_of_an_answer(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted("So [1]."))
    room.world.ingest(room.lib.write("a.txt", scored(0.9, "One.")), tags=["sea"], language="de")
    room.world.ingest(room.lib.write("b.txt", scored(0.8, "Two.")), version="2.0")
    room.world.ingest(room.lib.write("c.md", f"# Dawn\n\n{scored(0.7, 'Three.')}"))

    def sources(**filters: Any) -> set[str]:
        notes = room.world.answer(QUESTION, **filters).retrieved_chunks_metadata
        return {note.source for note in notes}

    assert sources() == {"a.txt", "b.txt", "c.md"}
    assert sources(documents=["b.txt", "c.md"]) == {"b.txt", "c.md"}
    assert sources(tags=["sea"]) == {"a.txt"}
    assert sources(language="de") == {"a.txt"}
    assert sources(version="2.0") == {"b.txt"}
    assert sources(chapter="dawn") == {"c.md"}
    assert sources(documents=[]) == set()
    with pytest.raises(InvalidArgument):
        room.world.answer(QUESTION, documents="b.txt")


def test_at_most_25_passages_and_ties_ignore_the_index(tmp_path: Path) -> None:
    room = room_with(tmp_path, "So [1].")
    room.add(**{f"t{n:02}__txt": scored(0.6, f"Tie {n}.") for n in range(40)})
    world = room.lib.scope(room.world)
    first = [note.chunk_id for note in room.world.answer(QUESTION).retrieved_chunks_metadata]

    points = room.lib.index._of(world)
    turned = dict(reversed(list(points.items())))
    points.clear()
    points.update(turned)

    again = [note.chunk_id for note in room.world.answer(QUESTION).retrieved_chunks_metadata]
    assert first == again
    assert len(first) == 25


def test_overstating_index_does_not_raise_the_mode(tmp_path: Path) -> None:
    class Padding(MemoryIndex):
        def search(self, scope: Any, vector: Any, *, limit: int, floor: Any) -> Any:
            return super().search(scope, vector, limit=limit, floor=None)

    room = study(tmp_path, primary=Scripted("So."), index=Padding())
    room.scores(0.2, 0.1)

    assert room.world.answer(QUESTION).decision_explain["reason"] == "nothing_found"


def test_figures_do_not_displace_text_and_reach_no_model(tmp_path: Path) -> None:
    flags = FigureFlags(extract_images=True, placeholders=True, chunks=True)
    room = study(tmp_path, primary=Scripted("So [1]."), preparation=Preparation(figures=flags))
    figures = "".join(
        f'<h2>Part {n}</h2><figure><img src="f{n}.png" alt="Boat {n} (score 0.900)"></figure>'
        for n in range(60)
    )
    room.add(a__html=f"<html><body>{figures}</body></html>", b__txt=scored(0.6, "The key."))

    answer = room.world.answer(QUESTION, documents=["a.html", "b.txt"])

    kinds = [note.chunk_type.value for note in answer.retrieved_chunks_metadata]
    assert kinds.count("figure") == 25
    assert "b.txt" in {note.source for note in answer.retrieved_chunks_metadata}
    assert "The key." in room.primary.prompt
    assert "Boat 1 " not in room.primary.prompt
    assert answer.sources_used == "partial"


@pytest.mark.needs_extension
@pytest.mark.contract
@pytest.mark.parametrize(
    "trouble", [StoreBusy(), StoreDamaged("It is damaged."), InvalidArgument("So."), OSError()]
)
def test_unwritable_log_does_not_prevent_an_answer(tmp_path: Path, trouble: Exception) -> None:
    room = room_with(tmp_path, "So [1].")

    def fail(name: str) -> None:
        if name == "records.record_usage":
            raise trouble

    from msgspec.structs import replace

    busy: Any = Hooked(room.lib.store, fail)
    answer = Library(replace(room.library._components, store=busy)).world("world").answer(QUESTION)

    assert (answer.answer, answer.record) == ("So [1].", None)
    assert [notice.code for notice in answer.warnings] == ["usage_not_recorded"]


def test_word_scores_choose_chunks_and_never_the_mode(tmp_path: Path) -> None:
    room = study(tmp_path, primary=Scripted("So [1]."))
    room.add(
        **{f"p{n}__txt": scored(0.56 + n / 1000, f"Passage {n}.") for n in range(8)},
        q__txt=scored(0.555, "The spare key to the hut."),
    )
    world = room.with_rules(max_chunks=2)

    plain, fused = (world.answer(QUESTION, mode=mode) for mode in ("vector", "hybrid"))

    def used(answer: Any) -> set[str]:
        notes = {note.chunk_id: note.source for note in answer.retrieved_chunks_metadata}
        return {notes[chunk] for chunk in answer.used_chunks}

    assert used(plain) == {"p7.txt", "p6.txt"}
    assert "q.txt" in used(fused)
    notes = fused.retrieved_chunks_metadata
    assert [note.similarity for note in notes] == sorted(
        (note.similarity for note in notes), reverse=True
    )
    for name in ("mode", "reason", "max_similarity", "thresholds"):
        assert plain.decision_explain[name] == fused.decision_explain[name]
    assert LONG.strip()[:20] in room.primary.prompt
