"""Results of a retrieval: chunks, their order and budget, and the trace."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, fields, replace

from tests.promises import proves
from tests.support.reading_worlds import Stopped, frozen, stopped_at
from tests.support.worlds import (
    LibraryFixture,
    PreparedLibrary,
    WordCounter,
    WordEmbedder,
    make_library,
    other_profile,
    scored,
)
from truespan.engine.world import World
from truespan.types.bundle import BundleStatus, ContextBundle, RetrievedChunk

BOTH_DEFAULTS = True
HARBOUR = "The harbour light burned all night. The harbour master slept."
GARDEN = "The garden was full of roses. A gardener cut the roses."
STATION = "The station clock had stopped. The train was late."
STAGES = ("received", "vectorized", "searched", "filtered", "ranked", "assembled", "completed")

SUCCESS, PARTIAL = BundleStatus.SUCCESS, BundleStatus.PARTIAL


def three(lib: LibraryFixture) -> World:
    return lib.world(a__txt=HARBOUR, b__txt=GARDEN, c__txt=STATION)


def numbers(bundle: ContextBundle) -> list[int]:
    return [note.document for note in bundle.metadata.sources]


def skipped(bundle: ContextBundle) -> dict[str, int]:
    return {entry.code: entry.count for entry in bundle.metadata.skipped}


# The chunks


@proves("bundle.floor")
@pytest.mark.parametrize(
    ("score", "kept"),
    [(0.2999, False), (0.29999997, False), (0.3, True), (0.30000001192092896, True), (1.0, True)],
)
def test_retrieval_floor_is_three_tenths_inclusive(
    tmp_path: Path, score: float, kept: bool
) -> None:
    world = three(make_library(tmp_path, index=scored(score)))

    assert bool(world.retrieve("light").retrieved_chunks) is kept


@pytest.mark.contract
@proves("bundle.floor")
def test_index_request_contains_the_floor(lib: LibraryFixture) -> None:
    world = three(lib)
    floors: list[float | None] = []
    original = lib.index.search

    def searching(*args: Any, **settings: Any) -> Any:
        floors.append(settings["floor"])
        return original(*args, **settings)

    lib.index.search = searching
    bundle = world.retrieve("harbour light burned")

    assert floors == [0.3]
    assert bundle.metadata.floor == 0.3


@pytest.mark.contract
@proves("bundle.relevance-order", "bundle.relevance-range")
def test_chunks_are_sorted_by_relevance_in_any_found_order(tmp_path: Path) -> None:
    world = three(make_library(tmp_path, index=scored(0.41, 1.0000002, 0.77)))

    bundle = world.retrieve("light")

    scores = [chunk.relevance_score for chunk in bundle.retrieved_chunks]
    assert scores == [1.0, 0.77, 0.41]
    assert all(isinstance(score, float) for score in scores)
    assert bundle.context == "\n\n".join([GARDEN, STATION, HARBOUR])


@pytest.mark.contract
@proves("bundle.relevance-order", "search.non-interference")
def test_equally_close_chunks_ignore_index_order_and_stale_hits(tmp_path: Path) -> None:
    lamps = {f"a{number}__txt": "lamp key " * 4 + f"x{number}" for number in range(2)}
    better = {f"b{number}__txt": "lamp key lamp key" + " y" * number for number in range(3)}
    equal = {f"c{number:02}__txt": "lamp key and much other wood" for number in range(30)}
    prepared = PreparedLibrary(tmp_path, lambda lib: lib.world(**lamps, **better, **equal))
    found = {}
    for top_k, order in product([1, 4, 5, 6], [1, -1]):
        lib = prepared.restore()
        world = lib.library.world("world")
        points = lib.index._of(lib.scope(world))
        for point in points.values():
            point.text_hash = "0" * 64 if point.document <= 2 else point.text_hash
        turned = dict(list(points.items())[::order])
        points.clear()
        points.update(turned)
        found[top_k, order] = numbers(world.retrieve("lamp key", top_k=top_k))
        lib.library.close()

    assert found == {(top_k, order): list(range(3, 3 + top_k)) for top_k, order in found}


@pytest.mark.contract
@proves("bundle.chunk-fields-filled", "bundle.token-count", "bundle.content-unaltered")
def test_every_field_of_a_chunk_is_filled_from_the_document(lib: LibraryFixture, world: World):
    text = "# The Lamp\n\n## One\n\nThe lamp burned.\n\n### Below\n\nThe lamp went out.\n"
    world.ingest(lib.write("lamp.md", text), chunking="sentences")
    world.ingest(lib.write("plain.txt", "The lamp is plain."))

    bundle = world.retrieve("the lamp", top_k=20)

    for chunk in bundle.retrieved_chunks:
        values = {entry.name: getattr(chunk, entry.name) for entry in fields(RetrievedChunk)}
        assert all(value for name, value in values.items() if name != "relevance_score")
        assert chunk.token_count == WordCounter().count(chunk.content)
        assert chunk.content in world.documents.text(chunk.source_url.rpartition("/")[2])
    places = {(chunk.chapter, chunk.section) for chunk in bundle.retrieved_chunks}
    assert places == {("The Lamp", "The Lamp"), ("One", "One"), ("plain.txt", "plain.txt")}
    assert {chunk.source_url for chunk in bundle.retrieved_chunks} == {
        f"truespan://{world.id}/1", f"truespan://{world.id}/2",
    }  # fmt: skip


@proves("bundle.content-unaltered")
def test_bundle_passages_join_chunks_and_notes(tmp_path: Path) -> None:
    world = make_library(tmp_path).world(a__txt="The lamp burned.", b__txt="The lamp went out.")

    bundle = world.retrieve("the lamp")

    assert len(bundle.passages) == 2
    for passage, chunk, note in zip(
        bundle.passages, bundle.retrieved_chunks, bundle.metadata.sources, strict=True
    ):
        assert (passage.text, passage.score) == (chunk.content, chunk.relevance_score)
        assert (passage.chunk_id, passage.chapter) == (chunk.chunk_id, chunk.chapter)
        assert all(getattr(passage, name) == value for name, value in asdict(note).items())


@proves("bundle.chunk-id-round-trip", "bundle.content-unaltered")
def test_chunk_id_identifies_the_record_and_the_point(lib: LibraryFixture) -> None:
    world = three(lib)

    bundle = world.retrieve("harbour roses clock", top_k=20)

    assert bundle.retrieved_chunks
    points = lib.points(world)
    for chunk, note in zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True):
        record = world.documents.chunk(chunk.chunk_id)
        assert record.chunk is not None
        assert record.chunk.data.decode() == chunk.content
        assert points[chunk.chunk_id].text_hash == note.text_hash == record.chunk.text_hash
        assert (note.document, note.revision) == (record.document.number, 1)


# The account


@proves("bundle.state-order")
def test_trace_lists_the_stages_in_order(lib: LibraryFixture) -> None:
    world = three(lib)

    assert world.retrieve("harbour light").metadata.trace == STAGES
    assert world.retrieve("zebra").metadata.trace == STAGES
    empty = lib.library.create_world("empty").retrieve("harbour")
    assert empty.metadata.trace == ("received", "assembled", "completed")


@proves("bundle.processing-time")
def test_duration_is_in_whole_milliseconds(lib: LibraryFixture) -> None:
    world = three(lib)
    assert world.retrieve("harbour light").metadata.processing_time_ms == 0

    def passing() -> None:
        lib.clock.time += 0.2504

    lib.embedder.before = passing
    taken = world.retrieve("harbour master").metadata.processing_time_ms

    assert taken == 250
    assert isinstance(taken, int)


@proves("bundle.partial-or-success", "bundle.budget-in-assembly")
def test_untrusted_chunks_are_skipped_and_replaced(lib: LibraryFixture) -> None:
    world = lib.world(**{f"d{n:02}__txt": f"The harbour light x{n}" for n in range(12)})
    wanted = numbers(world.retrieve("the harbour light", top_k=8))
    for point in lib.index._of(lib.scope(world)).values():
        if point.document in wanted[:4]:
            point.text_hash = "0" * 64

    bundle = world.retrieve("the harbour light", top_k=4)
    lib.library.close()

    assert (bundle.status, numbers(bundle)) == (SUCCESS, wanted[4:])
    assert skipped(bundle) == {"stale_vector": 4}


@proves("bundle.partial-or-success", "search.non-interference")
@pytest.mark.parametrize("step", range(2, 8))
def test_half_replaced_document_changes_nothing_until_activated(
    lib: LibraryFixture, step: int
) -> None:
    world = lib.world(**{f"d{n:02}__txt": f"The harbour light {'x ' * n}" for n in range(12)})
    asked = [("the harbour light", 3), ("the harbour light x", 12)]
    before = [frozen(world.retrieve(query, top_k=k)) for query, k in asked]
    paths = [
        lib.write(f"world/d{n:02}.txt", f"The harbour light of another day {'y ' * n}")
        for n in range(0, 12, 2)
    ]

    with pytest.raises(Stopped):
        stopped_at(lib, step).world("world").ingest(paths)
    after = [frozen(world.retrieve(query, top_k=k)) for query, k in asked]

    flipped = lib.sql("SELECT count(*) FROM revisions WHERE state = 'active' AND number > 1")
    assert (after == before) is (flipped == [(0,)])


@proves("bundle.oversized-chunk", "bundle.token-budget", "bundle.budget-in-assembly")
def test_chunk_over_budget_is_skipped_for_the_next(tmp_path: Path) -> None:
    wide = WordEmbedder(profile=replace(other_profile(), input_limit=10_000))
    lib = make_library(tmp_path, embedder=wide)
    world = lib.library.create_world("world")
    huge = " ".join("The lamp " + "lamp " * 600 + "burned." for _ in range(8))
    world.ingest(lib.write("huge.txt", huge), kind="book")
    world.ingest(lib.write("small.txt", "The lamp burned."))
    assert lib.sql("SELECT max(tokens) FROM states")[0][0] > 4000

    bundle = world.retrieve("lamp", top_k=2)

    assert numbers(bundle) == [2]
    assert skipped(bundle) == {"over_budget": 1}
    assert (bundle.status, bundle.total_tokens) == (PARTIAL, 3)


@proves("bundle.partial-or-success", "bundle.relevance-order")
def test_excluded_passage_is_skipped_for_the_next(lib: LibraryFixture, world: World) -> None:
    sentences = " ".join(f"The lamp {count} burned by the harbour." for count in range(40))
    world.ingest(lib.write("long.txt", sentences), chunking="sentences")
    first = world.retrieve("the lamp burned", top_k=4)
    best = first.metadata.sources[0].chunk_id
    second = first.metadata.sources[1].chunk_id
    start, end = lib.sql("SELECT start, finish FROM states WHERE chunk_id = ?", best)[0]

    # The second best now lies within the best, by its place alone.
    lib.sql(
        "UPDATE states SET start = ?, finish = ? WHERE chunk_id = ?", start + 1, end - 1, second
    )
    lib.reseal(world)
    bundle = world.retrieve("the lamp burned", top_k=4)

    given = [chunk.chunk_id for chunk in bundle.retrieved_chunks]
    assert (bundle.status, len(given)) == (SUCCESS, 4)
    assert second not in given
    assert skipped(bundle) == {"duplicate_passage": 1}
