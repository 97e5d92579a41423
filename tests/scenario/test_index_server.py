"""A library with its index on a Qdrant server has the same results, or clear errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.providers.loopback import Answer
from tests.support.qdrant_loopback import QdrantLoopback
from tests.support.worlds import MemoryIndex, WordCounter, WordEmbedder, make_library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import IndexKeyRefused, IndexUnavailable
from truespan.extensions.cluster.qdrant import OLDEST
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.index.edge.client import EdgeIndex
from truespan.maintenance.delete import digest_of
from truespan.maintenance.doctor.plan import Finding, Plan
from truespan.types.bundle import BundleStatus, Notice
from truespan.types.maintenance import Check, Verdict
from truespan.types.scope import Scope
from truespan.wiring import open_library

BOOK = "The otter swims by night. The harbour is dark. A lamp burns at the pier. Nobody sees it."
APPROXIMATE = "approximate_search"


@pytest.fixture
def server() -> Iterator[QdrantLoopback]:
    with QdrantLoopback() as made:
        yield made


@pytest.fixture
def settled(server: QdrantLoopback, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("TRUESPAN_INDEX_URL", server.url)
    return monkeypatch


def opened(folder: Path) -> Library:
    return open_library(folder, create=True, embedder=WordEmbedder(), counter=WordCounter())


def filled(library: Library, folder: Path, name: str = "harbour") -> World:
    for number, word in enumerate(("otter", "lantern", "ferry")):
        path = folder / "files" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{BOOK} There is a {word} too.", encoding="utf-8")
    world = library.create_world(name)
    world.ingest(str(folder / "files"))
    return world


def codes(warnings: tuple[Notice, ...]) -> list[str]:
    return [one.code for one in warnings]


@proves("index.collection-per-model")
def test_index_server_serves_a_world_until_its_deletion(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        world = filled(library, tmp_path)
        result = world.search("lantern", top_k=3)
        bundle = world.retrieve("the otter by night", language=None)
        [name] = server.made
        held = server.local.count(name).count
        library.delete_world("harbour")
        left = server.local.count(name).count

    assert result.passages[0].source == "1.txt"
    assert bundle.status is not BundleStatus.ERROR
    assert bundle.retrieved_chunks
    assert (held, left) == (3, 0)
    assert APPROXIMATE not in [*codes(result.warnings), *codes(bundle.metadata.warnings)]
    assert BOOK[:20].encode() not in b"".join(asked.body for asked in server.asked)


@proves("search.non-interference")
def test_server_and_embedded_index_give_equal_answers(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answers(folder: Path) -> list[list[tuple[str, int, float]]]:
        folder.mkdir()
        with opened(folder) as library:
            world = filled(library, folder)
            found = [
                world.search(query, top_k=k, floor=0.0).passages
                for query in ("lantern", "otter by night", "ferry harbour")
                for k in (1, 2, 10)
            ]
            if isinstance(library._components.index, EdgeIndex):
                library._components.index.retire()
        return [[(one.source, one.index, one.score) for one in results] for results in found]

    on_server = answers(tmp_path / "server")
    settled.delenv("TRUESPAN_INDEX_URL")

    assert on_server == answers(tmp_path / "embedded")


def ask_everything(world: World) -> dict[str, tuple[Notice, ...]]:
    found = world.search("otter by night", floor=0.0).passages
    golden = [GoldenQuery("1", "otter by night", expected=(Expected("0.txt"),))]
    selected = {"selected_text": "Numbers of a ledger.", "language": None}
    return {
        "returned": world.why_not(found[0].chunk_id, "otter", language=None).warnings,
        "outranked": world.why_not(found[-1].chunk_id, "otter", top_k=1, language=None).warnings,
        "absent": world.why_not("none", "otter", language=None).warnings,
        "unrelated": world.why_not(found[0].chunk_id, "otter", **selected).warnings,
        "evaluate": world.evaluation.run(golden).warnings,
        "calibrate": world.evaluation.calibrate(golden).notes,
        "search": world.search("otter by night", floor=0.0).warnings,
        "retrieve": world.retrieve("otter by night", language=None).metadata.warnings,
        "answer": world.answer("otter by night").warnings,
    }


@proves("search.non-interference")
def test_response_of_an_approximate_world_is_marked(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        world, other = filled(library, tmp_path), filled(library, tmp_path, "other")
        named = world.id
        before = ask_everything(world)
    settled.setenv("TRUESPAN_INDEX_APPROXIMATE_WORLDS", named.upper())
    with opened(tmp_path) as library:
        after = ask_everything(library.world("harbour"))
        beside = ask_everything(library.world(other.name))

    assert all(APPROXIMATE not in codes(warnings) for warnings in before.values())
    assert all(codes(warnings).count(APPROXIMATE) == 1 for warnings in after.values())
    assert all(APPROXIMATE not in codes(warnings) for warnings in beside.values())


@proves("search.non-interference")
def test_embedded_world_is_approximate_after_conversion(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        world, other = filled(library, tmp_path), filled(library, tmp_path, "other")
        before = world.search("otter by night", floor=0.0).passages
    monkeypatch.setenv("TRUESPAN_INDEX_APPROXIMATE_WORLDS", world.id)
    with opened(tmp_path) as library:
        world = library.world("harbour")
        unconverted = world.search("otter by night").warnings
        world.repair()
        after = ask_everything(world)
        beside = ask_everything(library.world(other.name))
        found = world.search("otter by night", floor=0.0).passages
        index = library._components.index
        assert isinstance(index, EdgeIndex)
        index.retire()

    assert APPROXIMATE not in codes(unconverted)
    assert all(codes(warnings).count(APPROXIMATE) == 1 for warnings in after.values())
    assert all(APPROXIMATE not in codes(warnings) for warnings in beside.values())
    assert found == before


class Approximate(MemoryIndex):
    """An index that is approximate except for readers."""

    def approximate(self, scope: Scope) -> bool:
        return scope.position is None


@proves("reading.non-interference")
def test_reader_search_is_never_approximate(tmp_path: Path) -> None:
    world = make_library(tmp_path, index=Approximate()).world(book__txt=BOOK)
    reader = world.reader("r")
    reader.set_position("book.txt", sentence=2)

    read = reader.retrieve("the lamp at the pier")
    reason = reader.why_not(read.retrieved_chunks[0].chunk_id, "the lamp at the pier")
    unbound = world.retrieve("the lamp at the pier", language=None)

    assert APPROXIMATE in codes(unbound.metadata.warnings)
    assert APPROXIMATE not in codes(read.metadata.warnings)
    assert reason.warnings == ()


@proves("upkeep.deletion-complete")
def test_receipt_says_the_server_was_asked_not_that_it_erased(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        world = filled(library, tmp_path)
        document, whole = world.documents.delete("0.txt"), library.delete_world("harbour")

    for receipt in (document, whole):
        assert (receipt.erased, receipt.waiting) == (False, {})
        assert receipt.outside == {"index": "requested"}
        assert digest_of(receipt.to_json()) == receipt.digest


@proves("ingest.delete-order")
def test_document_deleted_during_outage_loses_points_later(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        world = filled(library, tmp_path)
        points = server.local.count(next(iter(server.made))).count
        server.fault = lambda _: Answer(503, {})
        receipt = world.documents.delete("0.txt")
        names = [document.name for document in world.documents.list()]
        server.fault = None
        sources = {found.source for found in world.search("otter", floor=0.0).passages}
        world.repair()
        left = server.local.count(next(iter(server.made))).count

    assert (receipt.erased, receipt.rows) == (False, {})
    assert receipt.waiting["points"] == "index_unavailable"
    assert "0.txt" not in names
    assert "0.txt" not in sources
    assert left < points


@proves("errors.provider-or-index")
def test_failing_index_server_is_a_failed_bundle(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        world = filled(library, tmp_path)
        before = world.search("otter", floor=0.0).passages
        server.fault = lambda _: Answer(503, {})
        bundle = world.retrieve("otter", language=None)
        with pytest.raises(IndexUnavailable):
            world.search("otter")
        with pytest.raises(IndexUnavailable):
            library.server.check_ready()
        server.fault = lambda _: Answer(403, {})
        with pytest.raises(IndexKeyRefused):
            world.search("otter")
        server.fault = None

        assert world.search("otter", floor=0.0).passages == before
    assert bundle.status is BundleStatus.ERROR
    assert bundle.error is not None
    assert (bundle.error.code, bundle.error.retryable) == ("index_unavailable", True)


@proves("index.scrub")
def test_empty_server_is_refilled_without_the_provider(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        before = filled(library, tmp_path).search("otter", floor=0.0).passages
    server.lose_everything()

    embedder = WordEmbedder()
    with open_library(tmp_path, embedder=embedder, counter=WordCounter()) as library:
        library.doctor(apply=True)
        after = library.world("harbour").search("otter", floor=0.0).passages

    assert after == before
    assert embedder.documents == []


@proves("search.one-world")
def test_doctor_checks_server_and_its_boundaries(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        filled(library, tmp_path)
        well = library.doctor(machine=True, self_test=True)
        server.version = "1.12.4"
        old = library.doctor(machine=True)
        server.fault = lambda _: Answer(401, {"status": {"error": "no"}})
        refused = library.doctor(machine=True, self_test=True)
        server.fault = lambda _: Answer(503, {})
        away = library.doctor()
        server.fault = None

    def check_of(plan: Plan) -> Check:
        [found] = [check for check in plan.checks if check.name == "index server"]
        return found

    assert (check_of(well).verdict, check_of(well).says[:13]) == (Verdict.OK, "Qdrant 1.19.0")
    assert not [*well.all_items()]
    assert check_of(old).verdict is Verdict.WARNING
    assert "1.12.4" in check_of(old).says
    assert f"{OLDEST[0]}.{OLDEST[1]}" in check_of(old).remedy
    assert "QDRANT_API_KEY" in check_of(refused).remedy
    assert "status 503" in check_of(away).says
    for plan in (refused, away):
        assert [item.finding for item in plan.all_items()] == [Finding.UNREACHABLE_INDEX]
        assert check_of(plan).verdict is Verdict.PROBLEM


@proves("errors.provider-or-index")
def test_doctor_names_a_collection_that_failed(
    server: QdrantLoopback, settled: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(tmp_path) as library:
        filled(library, tmp_path)
        [name] = server.made
        server.status = "red"
        [check] = [one for one in library.doctor(machine=True).checks if one.name == "index server"]

    assert check.verdict is Verdict.PROBLEM
    assert f"failed to carry out a write in {name} (status red)" in check.says
