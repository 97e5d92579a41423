"""Requests notice an index with lost points, which is filled again from the store."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.qdrant_loopback import QdrantLoopback
from tests.support.reading_worlds import frozen
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.core.clock import SystemClock
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import IndexUnavailable, TruespanError
from truespan.extensions.cluster.qdrant import ServerOptions
from truespan.extensions.cluster.qdrant.index import QdrantServerIndex
from truespan.extensions.quality.evaluate import Evaluation
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.index.edge.client import EdgeIndex
from truespan.maintenance.repair import restore_points
from truespan.protocols import VectorIndex
from truespan.types.bundle import BundleStatus, ContextBundle
from truespan.types.chunk import PointPlace
from truespan.types.document import DocumentKind
from truespan.types.scope import Scope
from truespan.wire.serialize import to_json

OTTER = "The otter swims by night. The harbour is dark. A lamp burns at the pier. Nobody sees it."
LEDGER = "Numbers fill the ledger. The clerk adds them twice. Ink dries slowly in the cold office."
CODE = "index_incomplete"
MODES = ("hybrid", "vector", "keyword")


def two_documents(lib: LibraryFixture, *, kind: DocumentKind = DocumentKind.DOCUMENT) -> World:
    world = lib.library.create_world("world")
    world.ingest([lib.write("otter.txt", OTTER), lib.write("ledger.txt", LEDGER)], kind=kind)
    return world


def lose(lib: LibraryFixture, world: World, document: int | None = None) -> None:
    points = lib.points(world).values()
    lost = [one.chunk_id for one in points if document in (None, one.place and one.place.document)]
    assert lost
    lib.index.delete(lib.scope(world), lost)


class Held:
    """Background repairs that wait until they are released."""

    def __init__(self, lib: LibraryFixture) -> None:
        self._released = threading.Event()
        self._repairs = lib.library._repairs
        self._repair, self._repairs._repair = self._repairs._repair, self

    def __call__(self, scope: Scope) -> None:
        self._released.wait()
        self._repair(scope)

    def settle(self) -> None:
        """Wait for all repairs that were started."""
        self._released.set()
        self._repairs.close()
        self._released.clear()


def settle(lib: LibraryFixture) -> None:
    held = lib.library._repairs._repair
    assert isinstance(held, Held)
    held.settle()


def code_of(ask: Callable[[], Any]) -> str | None:
    """Return the code of the error of a request, raised or in a bundle."""
    try:
        reply = ask()
    except TruespanError as error:
        return error.code
    if isinstance(reply, ContextBundle) and reply.error is not None:
        assert reply.status is BundleStatus.ERROR
        return reply.error.code
    if isinstance(reply, Evaluation):
        return reply.results[0].error
    return None


def questions(world: World, mode: str | None = None) -> dict[str, Callable[[], Any]]:
    golden = [GoldenQuery("1", "otter", expected=(Expected("otter.txt"),))]
    options: dict[str, Any] = {"mode": mode, "language": None}
    return {
        "search": lambda: world.search("otter by night", mode=mode),
        "retrieve": lambda: world.retrieve("otter by night", **options),
        "answer": lambda: world.answer("otter by night", mode=mode),
        "evaluate": lambda: world.evaluation.run(golden),
    }


@pytest.fixture(params=["contract", "recommended"])
def lib(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path, defaults=request.param)
    held = Held(made)
    yield made
    held.settle()
    made.library.close()


@proves("index.lost-points")
def test_questions_to_an_empty_index_are_errors(lib: LibraryFixture) -> None:
    world = two_documents(lib)
    for mode in MODES:
        for name, ask in questions(world, mode).items():
            assert code_of(ask) is None, name
            lose(lib, world)
            assert code_of(ask) == CODE, (mode, name)
            settle(lib)
            # The vectors are in the store, so no provider was needed.
            assert code_of(ask) is None, (mode, name)
    assert len(lib.embedder.documents) == len(lib.points(world))


@proves("index.lost-points")
def test_results_that_remain_carry_a_warning(lib: LibraryFixture) -> None:
    world = two_documents(lib)
    lose(lib, world, document=2)
    found = world.search("otter ledger", floor=0.0)
    [warning] = [one for one in found.warnings if one.code == CODE]

    assert [one.source for one in found.passages] == ["otter.txt"]
    assert "The index lacks 1 of 2 chunks" in warning.message
    settle(lib)
    again = world.search("otter ledger", floor=0.0)
    assert {one.source for one in again.passages} == {"otter.txt", "ledger.txt"}
    assert CODE not in [one.code for one in again.warnings]


@proves("index.lost-points")
def test_filtered_requests_check_their_documents_only(lib: LibraryFixture) -> None:
    world = two_documents(lib)
    lose(lib, world, document=2)
    own = world.search("otter ledger", floor=0.0, documents=["otter.txt"])

    assert CODE not in [one.code for one in own.warnings]
    with raises_code("index_incomplete", match="lacks 1 of 1 chunks"):
        world.search("otter ledger", floor=0.0, documents=["ledger.txt"])


@proves("index.lost-points")
def test_status_counts_lost_points(lib: LibraryFixture) -> None:
    world = two_documents(lib)
    assert world.status().missing == 0
    lose(lib, world, document=2)
    assert world.status().missing == 1

    class Silent(MemoryIndex):
        def count(self, scope: Scope) -> int:
            raise IndexUnavailable("It does not answer.")

    lib.index.__class__ = Silent
    assert world.status().missing is None


@proves("index.lost-points")
def test_repair_writes_lost_points_again(lib: LibraryFixture) -> None:
    world = two_documents(lib)
    before = lib.points(world)
    lose(lib, world)

    assert world.repair().reembedded == len(before)
    assert lib.points(world) == before
    assert world.repair().reembedded == 0


@proves("index.lost-points")
def test_restoring_marks_chunks_without_a_vector_pending(lib: LibraryFixture) -> None:
    world = two_documents(lib)
    lose(lib, world)
    lib.sql("DELETE FROM vectors WHERE text_hash = (SELECT min(text_hash) FROM vectors)")

    assert restore_points(lib.store, lib.index, lib.scope(world)) == 1
    assert world.status().pending == 1
    world.repair()
    assert (world.status().pending, world.status().missing) == (0, 0)


@proves("index.lost-points")
def test_points_of_a_document_deleted_during_repair_do_not_return(tmp_path: Path) -> None:
    class Slow(MemoryIndex):
        meanwhile: Callable[[], object] | None = None

        def upsert(self, scope: Scope, points: Any) -> None:
            if self.meanwhile:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            super().upsert(scope, points)

    index = Slow()
    lib = make_library(tmp_path, index=index)
    world = two_documents(lib)
    lose(lib, world, document=2)
    index.meanwhile = lambda: world.documents.delete("ledger.txt")
    restore_points(lib.store, index, lib.scope(world))

    assert len(lib.points(world)) == 1


@proves("index.lost-points")
def test_world_changed_during_a_check_raises_no_false_alarm(tmp_path: Path) -> None:
    class Changing(MemoryIndex):
        meanwhile: Callable[[], object] | None = None

        def count_within(self, scope: Scope) -> int:
            if self.meanwhile:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            return super().count_within(scope)

    index = Changing()
    world = two_documents(make_library(tmp_path, index=index))
    index.meanwhile = lambda: world.documents.delete("ledger.txt")
    found = world.search("otter", floor=0.99)

    assert index.meanwhile is None
    assert CODE not in [one.code for one in found.warnings]


@proves("index.lost-points")
def test_complete_index_is_counted_only_after_few_results(lib: LibraryFixture) -> None:
    world = two_documents(lib)

    def counts(floor: float) -> int:
        lib.index.calls.clear()
        world.search("otter by night", floor=floor, top_k=2)
        return lib.index.calls.count("count_within")

    assert counts(0.0) == 0
    # One of two results is below the floor: the index is counted once, then trusted for a while.
    assert [counts(0.3), counts(0.3)] == [1, 0]
    lib.clock.time += 60
    assert counts(0.3) == 1
    # An empty result is never trusted.
    assert [counts(0.99), counts(0.99)] == [1, 1]


# Readers


READ = 30
BOOK = " ".join(
    f"The keeper counts {word} in the tower. Then the {word} falls silent again."
    for word in (
        *("lanterns", "ropes", "gulls", "bells", "coins", "letters", "ledgers", "candles", "keys"),
        *("maps", "oars", "nets", "sails", "knots", "stars", "waves", "boats", "anchors", "gates"),
        *("books", "lamps", "clocks", "stones", "planks", "barrels", "apples", "shells", "doors"),
    )
)


def reading(lib: LibraryFixture) -> tuple[World, Reader]:
    world = lib.library.create_world("world")
    book, other = lib.write("book.txt", BOOK), lib.write("other.txt", BOOK + " " + OTTER)
    world.ingest([book, other], kind=DocumentKind.BOOK)
    reader = world.reader("ada")
    reader.set_position("book.txt", sentence=READ)
    return world, reader


def lose_where(lib: LibraryFixture, world: World, chosen: Callable[[PointPlace], bool]) -> int:
    points = lib.points(world).values()
    lost = [one.chunk_id for one in points if one.place and chosen(one.place)]
    lib.index.delete(lib.scope(world), lost)
    return len(lost)


@proves("search.non-interference")
def test_reader_does_not_notice_lost_points_of_other_text(lib: LibraryFixture) -> None:
    world, reader = reading(lib)
    asked = [(mode, query) for mode in MODES for query in ("lanterns", "keeper", "candles")]
    before = [frozen(reader.retrieve(query, mode=mode)) for mode, query in asked]
    assert lose_where(lib, world, lambda at: at.document != 1 or at.pos_reach > READ)

    assert [frozen(reader.retrieve(query, mode=mode)) for mode, query in asked] == before
    assert CODE not in "".join(before)


@proves("index.lost-points")
def test_reader_is_warned_of_lost_points_of_the_read_part(lib: LibraryFixture) -> None:
    world, reader = reading(lib)
    for mode in ("hybrid", "vector"):
        for ask in (reader.retrieve, reader.answer):
            assert lose_where(lib, world, lambda at: at.document == 1 and at.pos_reach <= READ)
            try:
                told = to_json(ask("lanterns", mode=mode))
            except IndexUnavailable as error:
                error.raise_unless("index_incomplete")
                told = error.code
            assert CODE in told, (mode, ask)
            settle(lib)
            assert CODE not in to_json(ask("lanterns", mode=mode))


# Real indexes


def edge_index(folder: Path) -> Iterator[VectorIndex]:
    index = EdgeIndex(folder / "index", reserve=0)
    yield index
    index.retire()


def server_index(folder: Path) -> Iterator[VectorIndex]:
    del folder
    with QdrantLoopback() as server:
        index = QdrantServerIndex(ServerOptions(url=server.url), SystemClock())
        yield index
        index.close()


@proves("index.lost-points")
@pytest.mark.parametrize("make", [edge_index, server_index])
def test_emptied_collection_is_an_error_until_it_is_filled(
    tmp_path: Path, make: Callable[[Path], Iterator[VectorIndex]]
) -> None:
    for index in make(tmp_path):
        lib = make_library(tmp_path, index=index)
        Held(lib)
        world = two_documents(lib)
        before = lib.points(world)
        index.reset(lib.scope(world))
        with raises_code("index_incomplete", match="lacks 2 of 2 chunks"):
            world.search("otter by night")
        settle(lib)

        assert lib.points(world) == before
        assert world.search("otter by night").passages
        lib.library.close()
