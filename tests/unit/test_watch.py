"""Events of an observer, and results that do not depend on it."""

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.answer_worlds import Scripted, study
from tests.support.failures import raises_code
from tests.support.observers import Broken, Recorder, watched
from tests.support.reading_worlds import frozen
from tests.support.worlds import make_library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, ProviderUnavailable
from truespan.observer import NO_STAGE, NULL_OBSERVER, StageListener, combine_observers, failure_of
from truespan.types.answer import AnswerEvent, Finished
from truespan.types.telemetry import OTHER, CounterName, Request, Stage, known_code

TEXT = (
    "# One\n\nThe harbour light burned all night. The wall was old.\n\n# Two\n\nBoats came home.\n"
)
FINDING = [Stage.ADMITTED, Stage.SCOPED, Stage.VECTOR, Stage.HITS, Stage.VERIFIED, Stage.ENOUGH]
CHOOSING = [Stage.VISIBLE, Stage.RANKED, Stage.PACKED, Stage.BUNDLE]


def harbour(folder: Path, recorder: Recorder) -> World:
    return watched(folder, recorder).world(a__md=TEXT)


@pytest.mark.contract
def test_search_reports_its_stages_in_order(tmp_path: Path) -> None:
    recorder = Recorder()
    harbour(tmp_path, recorder).search("harbour")
    assert recorder.last(Request.SEARCH).stages == [*FINDING, Stage.RANKED, Stage.BUNDLE]


@pytest.mark.contract
def test_retrieval_reports_its_stages_in_order(tmp_path: Path) -> None:
    recorder = Recorder()
    harbour(tmp_path, recorder).retrieve("harbour", selected_text="The wall was old.")
    assert recorder.last(Request.RETRIEVE).stages == [
        *FINDING, *CHOOSING[:-1], Stage.LOCATED, Stage.BUNDLE
    ]  # fmt: skip


def test_fused_search_reports_words(tmp_path: Path) -> None:
    recorder = Recorder()
    harbour(tmp_path, recorder).search("harbour", mode="hybrid")
    assert recorder.last(Request.SEARCH).stages[2:5] == [Stage.VECTOR, Stage.WORDS, Stage.HITS]


@pytest.mark.contract
def test_reader_retrieval_reports_its_stages_in_order(tmp_path: Path) -> None:
    recorder = Recorder()
    reader = harbour(tmp_path, recorder).reader("ann")
    reader.set_position("a.md", sentence=1)
    reader.retrieve("harbour")
    stages = recorder.last(Request.READING).stages
    assert stages == [*FINDING[:3], Stage.TAIL, *FINDING[3:], *CHOOSING]


def test_ingestion_reports_its_stages_in_order(tmp_path: Path) -> None:
    recorder = Recorder()
    harbour(tmp_path, recorder)
    assert list(dict.fromkeys(recorder.last(Request.INGEST).stages)) == [
        Stage.SOURCE, Stage.BLOCKS, Stage.TEXT, Stage.SENTENCES, Stage.CHUNKS, Stage.STAGED,
        Stage.VECTORS, Stage.INDEX, Stage.ACTIVATED, Stage.METADATA,
    ]  # fmt: skip


def test_other_calls_are_separate_requests(tmp_path: Path) -> None:
    recorder = Recorder()
    world = harbour(tmp_path, recorder)
    found = world.search("harbour").passages[0].chunk_id
    reader = world.reader("ann")
    reader.set_position("a.md", sentence=1)

    world.why_not(found, "harbour")
    reader.why_not(found, "harbour")
    world.repair()
    world.generations.reindex()

    assert [heard.name for heard in recorder.requests][2:] == [
        Request.WHY_NOT, Request.READING_WHY_NOT, Request.REPAIR, Request.REINDEX
    ]  # fmt: skip


def test_ingestion_events_equal_the_counts_of_its_report(tmp_path: Path) -> None:
    recorder = Recorder()
    lib = watched(tmp_path, recorder)
    world = lib.world(a__md=TEXT, b__md=TEXT)
    paths = [lib.write("world/a.md", TEXT), lib.write("world/b.md", TEXT + "More.\n")]

    report = world.ingest([*paths, lib.write("world/c.txt", "")])

    counts = recorder.last(Request.INGEST).counts
    assert counts[CounterName.DOCUMENTS, "embedded"] == len(report.ingested) == 1
    assert counts[CounterName.DOCUMENTS, "unchanged"] == report.unchanged == 1
    assert counts[CounterName.DOCUMENTS, "failed"] == len(report.failures) == 1
    assert counts[CounterName.CHUNKS, ""] == report.chunks > 0
    assert counts[CounterName.VECTORS, "embedded"] == report.embedded
    assert counts[CounterName.VECTORS, "reused"] == report.reused


@pytest.mark.contract
def test_answer_is_one_request_for_any_consumer(tmp_path: Path) -> None:
    recorder = Recorder()
    lib = study(tmp_path, primary=Scripted(["The ", "keeper [1]."]))
    lib.scores(0.9)
    library = Library(replace(lib.library._components, observer=recorder))
    world = library.world("world")
    answer = world.answer("Who held the spare key to the hut?")
    heard = recorder.last(Request.ANSWER)
    assert heard.error is None
    assert heard.stages == [*FINDING, Stage.VISIBLE, Stage.RANKED, Stage.MODEL, Stage.CHECKED]
    assert heard.counts[CounterName.ANSWERS, answer.mode] == 1


def test_unfinished_stream_is_abandoned_finished_is_not(tmp_path: Path) -> None:
    recorder = Recorder()
    model = Scripted(["The ", "keeper ", "[1]."])
    lib = study(tmp_path, primary=model)
    lib.scores(0.9)
    world = Library(replace(lib.library._components, observer=recorder)).world("world")

    with closing(heard(world)) as left:
        next(left)
        next(left)
    abandoned = failure_of(recorder.last(Request.ANSWER).error)
    with closing(heard(world)) as heard_out:
        while not isinstance(next(heard_out), Finished):
            pass

    assert abandoned == (CounterName.ABANDONED, "")
    assert model.closed == 2
    assert recorder.last(Request.ANSWER).error is None


def heard(world: World) -> Generator[AnswerEvent]:
    """Read an answer piece by piece, so that the caller can stop."""
    events = world.answer_stream("Who held the spare key to the hut?")
    assert isinstance(events, Generator)
    return events


def test_failed_bundle_counts_as_a_failure(tmp_path: Path) -> None:
    recorder = Recorder()
    lib = watched(tmp_path, recorder)
    world = lib.world(a__md=TEXT)
    lib.embedder.before = _unavailable
    bundle = world.retrieve("harbour")
    assert bundle.error is not None
    counts = recorder.last(Request.RETRIEVE).counts
    assert (
        counts[CounterName.ERRORS, bundle.error.code] == counts[CounterName.BUNDLES, "error"] == 1
    )


def _unavailable() -> None:
    raise ProviderUnavailable("It does not answer.")


@pytest.mark.parametrize("part", ["request", "enter", "stage", "count", "exit"])
def test_results_do_not_depend_on_an_observer_even_if_it_fails(tmp_path: Path, part: str):
    plain = make_library(tmp_path)
    world = plain.world(a__md=TEXT)
    reader = world.reader("ann")
    reader.set_position("a.md", sentence=1)
    broken = Broken(part)
    same = world.observed_by(broken).observed_by(Recorder())

    assert same.search("harbour") == world.search("harbour")
    assert frozen(same.retrieve("harbour")) == frozen(world.retrieve("harbour"))
    assert frozen(same.reader("ann").retrieve("wall")) == frozen(reader.retrieve("wall"))
    assert broken.failed > 0
    for asked in (world, same):
        with raises_code("blank_query"):
            asked.search(" ")


def test_observer_of_one_world_gets_no_other_requests(tmp_path: Path) -> None:
    always, once = Recorder(), Recorder()
    world = harbour(tmp_path, always)
    world.observed_by(once).search("harbour")
    world.search("wall")
    assert [heard.name for heard in once.requests] == [Request.SEARCH]
    assert [heard.name for heard in always.requests] == [
        Request.INGEST, Request.SEARCH, Request.SEARCH
    ]  # fmt: skip


@pytest.mark.contract
def test_observer_gets_each_stage_once_even_if_repeated(tmp_path: Path) -> None:
    heard: list[Stage] = []
    lib = watched(tmp_path, NULL_OBSERVER)
    world = lib.world(**{f"f{number}__txt": f"harbour {number}" for number in range(40)})
    # Nearly all of them are damaged, so that fetching has to go on and on.
    lib.sql("UPDATE chunks SET text = 'other' WHERE text != 'harbour 1'")
    recorder = Recorder()

    world.observed_by(combine_observers(StageListener(heard.append), recorder)).search(
        "harbour", floor=0.0
    )

    assert recorder.last(Request.SEARCH).stages.count(Stage.HITS) > 1
    assert heard == [*FINDING, Stage.RANKED, Stage.BUNDLE]


def test_reader_events_do_not_depend_on_unread_text(tmp_path: Path) -> None:
    told = []
    for number, ahead in enumerate(["Boats came home.", "The wall fell. " * 200]):
        recorder, stages = Recorder(), list[Stage]()
        lib = watched(tmp_path / str(number), recorder)
        world = lib.world(a__md=f"The harbour light burned. The wall was old. Then: {ahead}")
        world.reader("ann").set_position("a.md", sentence=1)
        world.observed_by(StageListener(stages.append)).reader("ann").retrieve("wall")
        told.append((recorder.last(Request.READING).counts, stages))
    assert told[0] == told[1]


def test_empty_list_of_observers_costs_nothing() -> None:
    assert combine_observers() is NULL_OBSERVER
    assert combine_observers(NULL_OBSERVER, NULL_OBSERVER) is NULL_OBSERVER
    with NULL_OBSERVER.request(Request.SEARCH) as course:
        assert course.stage(Stage.HITS) is NO_STAGE


def test_failures_are_reported_by_code_without_values() -> None:
    assert failure_of(None) is None
    assert failure_of(InvalidArgument(code="blank_query")) == (CounterName.ERRORS, "blank_query")
    assert failure_of(KeyError("a query")) == (CounterName.BUGS, "")
    assert failure_of(GeneratorExit()) == (CounterName.ABANDONED, "")
    assert failure_of(KeyboardInterrupt()) == (CounterName.ERRORS, "interrupted")
    assert known_code(CounterName.ERRORS, "blank_query") == "blank_query"
    assert known_code(CounterName.SKIPPED, "over_budget") == "over_budget"
    assert known_code(CounterName.ERRORS, "the name of a world") == OTHER
    assert known_code(CounterName.FETCHED, "anything") == OTHER
    assert known_code(CounterName.FETCHED, "") == ""
