"""Golden queries of a world: documents, callers, and stored results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed, ProviderUnavailable
from truespan.extensions.quality.calibrate import EvidenceReport
from truespan.extensions.quality.evaluate import State
from truespan.extensions.quality.golden import Expected, GoldenQuery, parse_golden
from truespan.extensions.quality.report import EvaluationReport
from truespan.extensions.quality.search import search_documents
from truespan.extensions.quality.tables import calibration_table
from truespan.retrieval.pipeline import Pipeline
from truespan.retrieval.query import calibration_of
from truespan.types.profile import Calibration
from truespan.types.request import Filters
from truespan.types.scope import OWNER, Authority, Verb

LAMP = "The lamp in the saloon went out at a quarter past one."
KEYS = "The spare key to the hut hangs on hook seven at the inn."
TIDE = "The tide gauge writes the water down in violet ink."

MEASURED = Calibration(0.1, 0.2, 0.3, 0.2, 0.3, 0.4, 0.1, "a test")

ASKED = [
    GoldenQuery("key", "Where does the spare key hang?", (Expected("keys.txt"),)),
    GoldenQuery("lamp", "When did the lamp in the saloon go out?", (Expected("1"),)),
    GoldenQuery("ink", "What writes the water in violet ink?", (), ("violet INK",)),
]


def report(world: World, golden: Sequence[GoldenQuery], **options: Any) -> EvaluationReport:
    *_, found = world.evaluation.report_stream(golden, **options)
    assert isinstance(found, EvaluationReport)
    return found


def filled(lib: LibraryFixture) -> World:
    return lib.world(lamp__txt=LAMP, keys__txt=KEYS, tide__txt=TIDE)


def of(lib: LibraryFixture, authority: Authority, world: World) -> World:
    """Return the world as another caller can use it."""
    return Library(lib.library._components, authority).world(world.id)


def test_golden_queries_are_asked_and_judged(lib: LibraryFixture) -> None:
    found = filled(lib).evaluation.run(ASKED)
    assert found.name == "world, generation 1"
    assert [one.metrics.hit for one in found.results] == [1.0, 1.0, 1.0]
    assert [one.metrics.reciprocal_rank for one in found.results] == [1.0, 1.0, 1.0]
    assert found.results[2].phrase_rank == 1
    assert {one.document for one in found.results[0].documents} == {
        document.doc_id for document in lib.library.world("world").documents.list()
    }


def test_evaluation_uses_no_floor_and_the_requested_depth(lib: LibraryFixture) -> None:
    world = filled(lib)
    stranger = GoldenQuery("x", "zebra xylophone", (Expected("keys.txt"),), top_k=3)
    [result] = world.evaluation.run([stranger]).results
    assert len(result.documents) == 3
    assert result.state is State.ANSWERED


def test_passages_of_one_document_do_not_displace_others(lib: LibraryFixture) -> None:
    paragraphs = "\n\n".join(f"The ferry {'sails ' * 150}{n}." for n in range(30))
    world = lib.world(long__txt=paragraphs, keys__txt=KEYS)
    query = GoldenQuery("q", "ferry sails", (Expected("keys.txt"),), top_k=2)
    [result] = world.evaluation.run([query]).results
    assert [one.name for one in result.documents] == ["long.txt", "keys.txt"]
    assert result.metrics.recall == 1.0


@pytest.mark.contract
def test_keyword_mode_can_be_evaluated(lib: LibraryFixture) -> None:
    world = lib.world(
        short__txt="the ferry.",
        middle__txt="the ferry and a goblet by night.",
        long__txt="a ferry of old with ropes and tar and seals and fog and lamps and oil.",
    )
    query = GoldenQuery("q", "the ferry goblet", (Expected("middle.txt"),), top_k=1)
    near, fused = world.evaluation.run([query]), world.evaluation.run([query], mode="hybrid")
    assert (near.results[0].metrics.hit, fused.results[0].metrics.hit) == (0.0, 1.0)
    assert fused.name == "world, generation 1, hybrid"


@proves("evaluation.modes")
def test_modes_are_compared_side_by_side(lib: LibraryFixture) -> None:
    world = lib.world(
        short__txt="the ferry.",
        middle__txt="the ferry and a goblet by night.",
        long__txt="a ferry of old with ropes and tar and seals and fog and lamps and oil.",
    )
    asked = [
        GoldenQuery("goblet", "the ferry goblet", (Expected("middle.txt"),), top_k=1),
        GoldenQuery("tar", "ropes and tar", (), ("ropes AND tar",), top_k=1),
    ]

    found = report(world, asked, modes=["hybrid", "vector", "keyword"])

    assert found.title == "world, generation 1"
    assert found.names == ("hybrid", "vector", "keyword")
    assert found.evaluations == tuple(
        world.evaluation.run(asked, mode=mode) for mode in found.names
    )
    pairs = [(pair.old_name[21:], pair.new_name[21:]) for pair in found.comparisons]
    assert pairs == [("hybrid", "vector"), ("hybrid", "keyword"), ("vector", "keyword")]
    [change] = [change for change in found.comparisons[0].changes if change.difference]
    assert (change.id, change.old.hit, change.new.hit) == ("goblet", 1.0, 0.0)
    two = report(world, asked, modes=["vector", "hybrid"])
    assert [pair.better for pair in two.comparisons] == [1]
    for wrong in (["hybrid", "hybrid"], ["hybrid", "nearest"], ["hybrid", None], "hybrid"):
        with pytest.raises(InvalidArgument, match=r"mode"):
            report(world, asked, modes=wrong)


@proves("evaluation.modes")
def test_reader_is_evaluated_on_read_text(lib: LibraryFixture) -> None:
    world = lib.world(book__txt=f"{LAMP} {KEYS} {TIDE}")
    asked = [
        GoldenQuery("key", "Where does the spare key hang?", (Expected("1"),), ("hook seven",)),
        GoldenQuery("ink", "What writes the water in violet ink?", (), ("violet INK",)),
        GoldenQuery("both", "water, key", (), ("violet ink", "spare KEY"), top_k=50),
    ]
    world.reader("anna").set_position("book.txt", sentence=1)

    found = world.evaluation.run(asked, reader="anna", mode="vector")

    assert found.name == "world, generation 1, reader anna, vector"
    assert [result.judged for result in found.results] == [True, False, True]
    assert [result.metrics.hit for result in found.results] == [1.0, None, 1.0]
    assert [result.phrases for result in found.results] == [1, 0, 1]
    assert found.results[0].metrics.recall is None
    world.reader("anna").set_position("book.txt", sentence=2)
    assert world.evaluation.run(asked, reader="anna", mode="vector").totals.judged == 3
    compared = report(world, asked, modes=["keyword", "hybrid"], reader="anna")
    assert compared.title == "world, generation 1, reader anna"
    assert [one.totals.metrics.hit for one in compared.evaluations] == [1.0, 1.0]
    filtered = GoldenQuery("q", "key", (), ("key",), filters=Filters(language="en"))
    with pytest.raises(InvalidArgument, match="filters"):
        world.evaluation.run([filtered], reader="anna")
    with raises_code("no_reading_position"):
        world.evaluation.run(asked, reader="nobody")


@pytest.mark.parametrize("reference", ["2", "keys.txt", "world/keys.txt", "doc_id", "path"])
def test_document_is_found_by_number_id_name_and_path(lib: LibraryFixture, reference: str):
    world = lib.world(lamp__txt=LAMP, keys__txt=KEYS)
    document = world.documents.get("keys.txt")
    called = {"doc_id": document.doc_id, "path": document.path}.get(reference, reference)
    found = world.evaluation.run([GoldenQuery("q", "spare key", (Expected(called),))])
    assert found.totals.absent_documents == 0
    assert found.results[0].metrics.hit == 1.0


def test_ambiguous_name_needs_a_path(lib: LibraryFixture) -> None:
    world = lib.world(lamp__txt=LAMP)
    world.ingest([lib.write("a/keys.txt", KEYS), lib.write("b/keys.txt", TIDE)])
    asked = [
        GoldenQuery("both", "spare key", (Expected("keys.txt"),)),
        GoldenQuery("one", "spare key", (Expected("a/keys.txt"),)),
        GoldenQuery("part", "spare key", (Expected("eys.txt"),)),
    ]
    results = world.evaluation.run(asked).results
    assert [one.absent for one in results] == [("keys.txt",), (), ("eys.txt",)]


def test_filters_of_a_query_limit_its_search(lib: LibraryFixture) -> None:
    world = lib.world(lamp__txt=LAMP)
    world.ingest([lib.write("keys.txt", KEYS)], tags=["keys"], version="2.0", language="de")

    def names(**filters: object) -> list[str]:
        query = GoldenQuery("q", "key", (Expected("1"),), filters=Filters(**filters))  # type: ignore[arg-type]
        return [one.name for one in world.evaluation.run([query]).results[0].documents]

    assert sorted(names()) == ["keys.txt", "lamp.txt"]
    assert names(tags=("keys",)) == ["keys.txt"]
    assert names(version="2.0") == ["keys.txt"]
    assert names(language="de") == ["keys.txt"]
    assert names(documents=("lamp.txt",)) == ["lamp.txt"]
    assert names(documents=()) == []


@pytest.mark.contract
def test_failed_query_does_not_stop_the_others(lib: LibraryFixture) -> None:
    too_long = GoldenQuery("many", "w " * 450, (Expected("1"),))
    found = filled(lib).evaluation.run([too_long, ASKED[0]])
    assert [one.state for one in found.results] == [State.FAILED, State.ANSWERED]
    assert found.results[0].error == "query_too_long"
    assert lib.clock.slept == []


def test_temporary_failure_is_retried_before_it_counts(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    lib = make_library(tmp_path, embedder=embedder)
    world = filled(lib)
    troubles = [ProviderUnavailable("hiccup"), ProviderUnavailable("hiccup")]

    def before() -> None:
        if troubles:
            raise troubles.pop()

    embedder.before = before

    assert world.evaluation.run(ASKED[:1]).totals.failed == 0
    assert lib.clock.slept == [0.5, 2.0]
    troubles += [ProviderUnavailable("down")] * 3
    assert world.evaluation.run([GoldenQuery("new", "new", (Expected("1"),))]).totals.failed == 1


def test_file_bytes_and_queries_give_equal_evaluations(lib: LibraryFixture) -> None:
    world = filled(lib)
    path = lib.write("g.yaml", "- query: spare key\n  expected: [keys.txt]\n")
    line = b'{"query": "spare key", "expected": ["keys.txt"]}\n'
    found = [world.evaluation.run(one) for one in (path, Path(path), Path(path).read_bytes(), line)]
    assert all(one == found[0] for one in found)
    assert world.evaluation.run(parse_golden("g.jsonl", line), name="mine").name == "mine"


def test_bad_golden_queries_are_refused_before_any_search(lib: LibraryFixture) -> None:
    world = filled(lib)
    asked = len(lib.embedder.queries)

    with raises_code("golden_invalid"):
        world.evaluation.run(b"- query: ok\n  expected: [a]\n- nonsense: 1\n")
    with raises_code("source_missing"):
        world.evaluation.run(lib.folder / "none.yaml")
    with raises_code("generation_not_found"):
        world.evaluation.run(ASKED, generation=9)
    with pytest.raises(InvalidArgument, match="not both"):
        world.evaluation.run(ASKED, generation=1, domain="d")
    with pytest.raises(InvalidArgument, match="Ingest"):
        lib.library.create_world("empty").evaluation.run(ASKED)
    assert len(lib.embedder.queries) == asked


def test_evaluation_needs_the_right_to_read_the_world(lib: LibraryFixture) -> None:
    world = filled(lib)
    follower = OWNER.as_reader(lib.scope(world).world, "ann")
    reading = of(lib, OWNER.narrow(worlds=[lib.scope(world).world], verbs=[Verb.READ]), world)

    for refused in (
        lambda: of(lib, follower, world).evaluation.run(ASKED),
        lambda: reading.evaluation.calibrate(many(), keep=True),
        lambda: reading.evaluation.forget_calibration(),
    ):
        with pytest.raises(NotAllowed):
            refused()
    with raises_code("world_not_found"):
        of(lib, Authority(frozenset(), frozenset(Verb)), world)
    assert reading.evaluation.run(ASKED).totals.judged == 3


def test_internal_search_refuses_a_caller_bound_to_a_reader(lib: LibraryFixture) -> None:
    world = filled(lib)
    follower = OWNER.as_reader(lib.scope(world).world, "ann")
    deps = lib.library._components

    def search(authority: Authority, query: str) -> None:
        pipeline = Pipeline(deps, authority, lib.scope(world).world)
        search_documents(pipeline, query, Filters(), passages=1, documents=1)

    with pytest.raises(NotAllowed):
        search(follower, "key")
    with raises_code("blank_query"):
        search(OWNER, " ")


def test_unused_generation_is_evaluated_and_compared(lib: LibraryFixture) -> None:
    filler = "ropes and tar and seals and fog and lamps and oil and glass and straw. "
    world = lib.world(long__txt=f"{filler * 30}{KEYS} {filler * 30}")
    query = GoldenQuery("key", KEYS, (), ("hangs on hook seven",), top_k=50)
    built = world.generations.reindex(chunking="sentences").generation

    old, new = world.evaluation.run([query]), world.evaluation.run([query], generation=built)
    [change] = report(world, [query], generation=built, against=1).comparisons

    assert built == 2
    assert (old.name, new.name) == ("world, generation 1", "world, generation 2")
    assert old.results[0].best_relevant != new.results[0].best_relevant
    assert (change.old_name, change.new_name) == (old.name, new.name)
    assert len(change.changes) == 1
    assert report(world, [query], generation=1, against=1).comparisons[0].same == 1


def many() -> list[GoldenQuery]:
    """Return queries of which some find their document first and others cannot."""
    right = [
        GoldenQuery(f"r{n}", f"topic{n} alpha{n} beta{n}", (Expected(f"d{n}.txt"),))
        for n in range(24)
    ]
    wrong = [
        GoldenQuery(f"w{n}", f"nothing{n} of{n} this{n}", (Expected("gone.txt"),))
        for n in range(24)
    ]
    return [*right, *wrong]


def library_of_topics(lib: LibraryFixture) -> World:
    files = {f"d{n}__txt": f"topic{n} alpha{n} beta{n} gamma{n}." for n in range(24)}
    return lib.world(**files)


def test_calibration_is_proposed_stored_and_removed(lib: LibraryFixture) -> None:
    world = library_of_topics(lib)

    proposed = world.evaluation.calibrate(many())
    assert (proposed.kept, proposed.in_force, world.evaluation.calibration()) == (False, None, None)
    assert proposed.proposed is not None
    assert proposed.proposed.measured_on == "48 golden queries of the world itself"
    # A document that a query expects is no unrelated one: those score about 0.9 here.
    assert proposed.proposed.unrelated_high < 0.8

    kept = world.evaluation.calibrate(many(), keep=True)
    assert kept.kept
    assert kept.proposed == proposed.proposed == world.evaluation.calibration()
    assert world.evaluation.calibrate(many()[:1]).in_force == kept.proposed

    assert world.evaluation.forget_calibration()
    assert world.evaluation.calibration() is None
    assert not world.evaluation.forget_calibration()


def test_too_few_judgements_propose_and_store_nothing(lib: LibraryFixture) -> None:
    world = filled(lib)
    report = world.evaluation.calibrate(ASKED, keep=True)
    assert (report.proposed, report.kept, world.evaluation.calibration()) == (None, False, None)
    assert "too_few_hits" in [note.code for note in report.notes]


@pytest.mark.recommended
def test_calibrate_proposes_minimum_evidence_without_changing_it(lib: LibraryFixture) -> None:
    world = library_of_topics(lib)
    absent = [GoldenQuery(f"a{n}", f"nothing{n} of{n} this{n}", absent=True) for n in range(24)]
    vague = [replace(one, query=f"{one.query.split()[0]} goes by sea") for one in many()[:24]]
    asked = [*vague, *absent]
    first = world.evaluation.calibrate(many())
    assert first.evidence == EvidenceReport()
    assert first.proposed is not None
    lib.store.records.keep_calibration(
        lib.scope(world), replace(first.proposed, calibrated_floor=0.1)
    )

    found = world.evaluation.calibrate(asked).evidence
    assert world.usage() == []
    evidence = [world.answer(one.query).decision_explain["max_score"] for one in asked[:24]]
    too_high = round(sorted(evidence)[12], 2)
    components = lib.library._components
    rules = replace(components.answers, min_evidence=too_high)
    strict = Library(replace(components, answers=rules), OWNER).world(world.id)
    # A kept calibration would change the evidence that is weighed.
    report = strict.evaluation.calibrate(asked)

    assert (found.present, found.absent, found.proposed) == (24, 24, None)
    proposed = report.evidence.proposed
    assert proposed is not None
    assert report.evidence.in_force == too_high
    assert proposed < too_high
    assert f"write 'answer_min_evidence = {proposed:g}' at the top" in calibration_table(report)
    assert strict.evaluation.calibrate(asked[:1]).evidence.in_force == too_high
    # A query that is marked as absent is not judged.
    assert world.evaluation.run(asked).totals.judged == 24


def test_stored_calibration_needs_full_read_and_is_per_world(lib: LibraryFixture) -> None:
    world, other = library_of_topics(lib), lib.world("other", keys__txt=KEYS)
    scope = lib.scope(world)
    lib.store.records.keep_calibration(scope, MEASURED)
    assert isinstance(calibration_of(lib.store, scope), Calibration)
    follower = OWNER.as_reader(scope.world, "ann")
    assert of(lib, follower, world).evaluation.calibration() is scope.profile.calibration is None
    assert calibration_of(lib.store, scope.for_reader(1, 1, 0)) is None
    assert other.evaluation.calibration() is None


def test_stored_calibration_survives_a_restart(tmp_path: Path, lib: LibraryFixture) -> None:
    lib.store.records.keep_calibration(lib.scope(filled(lib)), MEASURED)
    lib.library.close()
    assert make_library(tmp_path).library.world("world").evaluation.calibration() == MEASURED
