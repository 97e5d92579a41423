"""Golden queries over HTTP: the same figures as the library, with progress, and permissions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces.clients import settled
from tests.interfaces.http_client import Client, serve_library
from tests.support.worlds import LibraryFixture, make_library
from truespan.extensions.quality.compare import compare, gate
from truespan.extensions.quality.evaluate import Evaluation
from truespan.extensions.quality.report import EvaluationReport

GOLDEN = """
- id: key
  query: Where does the spare key hang?
  expected: [keys.txt]
- id: lamp
  query: When did the lamp in the saloon go out?
  expected: [lamp.txt, gone.txt]
  phrases: ["a quarter past one"]
"""
EVALUATE = "/v1/worlds/w/evaluate"


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path_factory.mktemp("evaluation") / "library")
    world = made.world(
        "w",
        lamp__txt="The lamp in the saloon went out at a quarter past one.",
        keys__txt="The spare key to the hut hangs on hook seven at the inn.",
    )
    made.library.create_world("empty")
    world.generations.reindex(chunking="sentences")
    world.reader("ada").set_position("lamp.txt", sentence=0)
    yield made
    made.library.close()


@pytest.fixture(scope="module")
def client(lib: LibraryFixture) -> Iterator[Client]:
    with serve_library(lib.library) as asking:
        yield asking


def evaluated(client: Client, **body: Any) -> Any:
    reply = client.json("POST", EVALUATE, {"golden": GOLDEN} | body)
    assert reply.status == 200, reply.content
    return reply.content


def timeless(evaluation: Evaluation | Any) -> Any:
    found = settled(evaluation)
    for result in [*found["results"], found["totals"]]:
        del result["seconds"]
    return found


def test_figures_equal_those_of_the_library(lib: LibraryFixture, client: Client) -> None:
    world = lib.library.world("w")
    one = evaluated(client)
    assert timeless(one["evaluations"][0]) == timeless(world.evaluation.run(GOLDEN.encode()))
    assert (one["comparisons"], one["verdict"]) == ([], None)
    assert one["evaluations"][0]["totals"]["absent_documents"] == 1
    assert one["curve"]["relevant"] > 0

    modes = ["vector", "keyword", "hybrid"]
    several = evaluated(client, modes=modes)
    *_, whole = world.evaluation.report_stream(GOLDEN.encode(), modes=modes)
    assert isinstance(whole, EvaluationReport)
    assert [timeless(one) for one in several["evaluations"]] == [
        timeless(one) for one in whole.evaluations
    ]
    assert several["comparisons"] == settled(whole.comparisons)

    two = evaluated(client, generation=2, against=1)
    old, new = (world.evaluation.run(GOLDEN.encode(), generation=number) for number in (1, 2))
    assert two["comparisons"] == settled([compare(old, new)])
    assert two["verdict"] == settled(gate(compare(old, new)))

    [asked] = evaluated(client, reader="ada", modes=["vector"])["evaluations"]
    assert [result["judged"] for result in asked["results"]] == [False, True]


def test_progress_comes_after_each_query_and_then_the_report(client: Client) -> None:
    body = {"golden": GOLDEN, "modes": ["vector", "keyword"], "stream": True}
    reply = client.json("POST", EVALUATE, body)

    blocks = [block.split("\n") for block in reply.body.decode().strip().split("\n\n")]
    events = [(head.partition(": ")[2], json.loads(data[6:])) for head, data in blocks]
    assert [event for event in events if event[0] == "progress"] == [
        ("progress", {"done": done, "searches": 4}) for done in range(5)
    ]
    name, report = events[-1]
    assert name == "finished"
    assert len(events) == 6
    whole = evaluated(client, modes=["vector", "keyword"])
    assert report["comparisons"] == whole["comparisons"]
    msgspec.convert(report, EvaluationReport)
    assert report["evaluations"][0]["totals"]["judged"] == 2


def test_invalid_arguments_are_refused_before_any_query(
    lib: LibraryFixture, client: Client, tmp_path: Path
) -> None:
    (file := tmp_path / "golden.yaml").write_text(GOLDEN)
    rows = [
        ({"golden": "- query: Who?\n"}, "golden_invalid"),
        ({"golden": " \n"}, "golden_invalid"),
        # A path is not a golden query: no file of the server is read.
        ({"golden": str(file)}, "golden_invalid"),
        ({"modes": ["vector", "vector"]}, "invalid_argument"),
        ({"modes": ["fuzzy"]}, "invalid_argument"),
        ({"modes": ["vector", "keyword"], "against": 1}, "invalid_argument"),
        ({"generation": 9}, "generation_not_found"),
        ({"against": 9}, "generation_not_found"),
        ({"against": 1, "allowed_drop": 2}, "invalid_argument"),
        ({"reader": "nobody"}, "no_reading_position"),
        ({"no_such": 1}, "invalid_argument"),
    ]
    asked = lib.embedder.calls
    for stream in (False, True):
        for body, code in rows:
            reply = client.json("POST", EVALUATE, {"golden": GOLDEN, "stream": stream} | body)
            assert reply.content["code"] == code, body
    empty = client.json("POST", "/v1/worlds/empty/evaluate", {"golden": GOLDEN})
    assert empty.content["code"] == "invalid_argument"
    assert lib.embedder.calls == asked


def test_phrases_missing_from_all_documents_are_named(lib: LibraryFixture, client: Client) -> None:
    phrases = ["at half past nine", "on a red cord"]
    golden = json.dumps({"query": "Where is the heron?", "phrases": phrases, "top_k": 1})
    world = lib.library.world("w")

    [notice] = world.evaluation.run(golden.encode()).warnings
    told = evaluated(client, golden=golden)["evaluations"][0]["warnings"]

    assert notice.code == "golden_phrase_absent"
    assert notice.message == 'No document contains "at half past nine", "on a red cord".'
    assert told == [msgspec.to_builtins(notice)]
    # Whoever reads is told nothing about what lies ahead.
    assert evaluated(client, golden=golden, reader="ada")["evaluations"][0]["warnings"] == []
    assert world.evaluation.run(GOLDEN.encode()).warnings == ()
