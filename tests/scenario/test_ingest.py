"""Ingestion, as promised: nothing twice, nothing half, nothing left behind."""

import threading
from pathlib import Path
from uuid import UUID, uuid5

import pytest

from tests.promises import proves
from tests.support.sample_texts import assert_settled, assert_settled_vectors, once, story, texts
from tests.support.worlds import LibraryFixture, WordEmbedder, make_library
from truespan.cli.output.documents import show_followed
from truespan.cli.output.start import show_ingest
from truespan.types.ids import WorldId, chunk_id
from truespan.types.vectors import Vector


@proves("ingest.stable-point-ids", "index.points-per-world")
def test_point_id_is_the_uuid5_of_the_chunk_place() -> None:
    world = WorldId("3b5d6b0e-0000-4000-8000-000000000001")

    one = chunk_id(world, 1, 2, 3, 4)

    name = f"{world}:1:2:3:4"
    namespace = UUID("6f1d3c1e-5b0e-5d0a-9d7c-7a1c54b6e0a1")
    assert one == str(uuid5(namespace, name)) == "a874baf6-316e-5611-b5c7-7672abf61efd"
    assert UUID(one).version == 5
    assert UUID(one).variant == "specified in RFC 4122"
    others = {
        chunk_id(WorldId("3b5d6b0e-0000-4000-8000-000000000002"), 1, 2, 3, 4),
        chunk_id(world, 2, 2, 3, 4),
        chunk_id(world, 1, 22, 3, 4),
        chunk_id(world, 1, 2, 4, 4),
        chunk_id(world, 1, 2, 3, 5),
        chunk_id(world, 12, 3, 3, 4),
    }
    assert len(others | {one}) == 7


@proves("ingest.no-duplicates")
def test_repeated_ingestion_changes_nothing(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=story(60), b__txt=story(5, "garden"))
    points = set(lib.points(world))
    asked = lib.embedder.calls
    lib.journal.clear()

    report = world.ingest(str(lib.folder / "files"))

    assert (report.unchanged, report.ingested, report.embedded) == (2, [], 0)
    assert lib.embedder.calls == asked
    assert set(lib.points(world)) == points
    writes = {"stage", "keep_vectors", "mark_embedded", "activate", "purge", "upsert", "flush"}
    assert not [call for call in lib.journal if call.split(".")[-1] in writes]


@proves("ingest.no-leftover-points")
def test_shorter_version_leaves_no_point(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(100))
    before = len(lib.points(world))

    world.ingest(lib.write("world/a.txt", story(3)))

    assert before > 3
    assert len(lib.points(world)) == len(texts(lib)) == 1
    assert_settled(lib, world)


@proves("ingest.no-duplicates")
def test_equal_text_is_embedded_once_per_world(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(40), b__txt=story(40), c__txt=story(40))
    assert len(lib.embedder.documents) == len(set(lib.embedder.documents))
    asked = len(lib.embedder.documents)

    lib.world("other", a__txt=story(40))

    assert len(lib.embedder.documents) == 2 * asked
    assert_settled_vectors(lib, world)


@proves("ingest.durability-order")
def test_ingestion_writes_rows_points_state_then_activates(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    lib.world(a__txt=story(30))

    steps = ("stage", "keep_vectors", "upsert", "flush", "mark_embedded", "activate")
    durable = [call.split(".")[-1] for call in lib.journal]
    seen = [step for step in durable if step in steps]

    assert [step for i, step in enumerate(seen) if i == 0 or seen[i - 1] != step] == list(steps)


@proves("ingest.delete-order")
def test_deleted_document_is_hidden_before_it_is_removed(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=story(30), b__txt=story(5, "garden"))
    lib.journal.clear()

    world.documents.delete("a.txt")

    order = [call for call in lib.journal if call.split(".")[-1] in
             ("tombstone", "delete", "flush", "purge")]  # fmt: skip
    assert order == [
        "store.documents.tombstone",
        "index.delete",
        "index.flush",
        "store.documents.purge",
    ]
    assert [document.name for document in world.documents.list()] == ["b.txt"]
    assert lib.sql("SELECT count(*) FROM sentences s WHERE s.revision NOT IN "
                    "(SELECT key FROM revisions)") == [(0,)]  # fmt: skip
    assert_settled(lib, world)


@proves("ingest.durability-order")
def test_replaced_revision_leaves_the_index_first(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = lib.world(a__txt=story(30))
    lib.journal.clear()

    world.ingest(lib.write("world/a.txt", story(30, "garden")))

    steps = ("mark_embedded", "activate", "delete", "flush", "purge")
    order = [call for call in lib.journal if call.split(".")[-1] in steps]
    assert order == [
        *("index.flush", "store.documents.mark_embedded", "store.documents.activate"),
        *("index.delete", "index.flush", "store.documents.purge"),
    ]


@proves("ingest.delete-order")
def test_deleted_document_is_hidden_while_points_remain(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="The harbour light.", b__txt="The harbour wall.")

    lib.store.documents.tombstone(lib.scope(world), 1)
    result = world.search("harbour", floor=0.0)

    assert len(lib.points(world)) == 2
    assert [passage.document for passage in result.passages] == [2]
    assert result.skipped == ()
    assert [document.number for document in world.documents.list()] == [2]


@proves("ingest.durability-order")
def test_document_replaced_during_reading_is_old_or_new(lib: LibraryFixture) -> None:
    versions = [f"{story(30, 'harbour')} Version {number} ends here." for number in range(6)]
    world = lib.world(a__txt=versions[0])
    odd: list[object] = []
    stop = threading.Event()
    reads = [0]

    def read() -> None:
        while not stop.is_set():
            result = world.search("harbour by night", top_k=50, floor=0.0)
            revisions = {passage.receipt.revision for passage in result.passages}
            positions = sorted(passage.index for passage in result.passages)
            if len(revisions) != 1 or positions != list(range(len(positions))) or result.skipped:
                odd.append((revisions, positions, result.skipped))
            reads[0] += 1

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for version in versions[1:]:
            world.ingest(lib.write("world/a.txt", version))
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert reads[0] > 10
    assert odd == []
    assert_settled(lib, world)


@proves("embedding.vectors-checked")
@pytest.mark.parametrize(
    "bad",
    [b"", b"\0" * 4 * 64, b"\0\0\xc0\x7f" * 64, b"\0\0\x80\x7f" * 64, b"\0\0\x80\x3f" * 63],
    ids=["nothing", "zero", "NaN", "infinite", "short"],
)
def test_chunk_with_an_invalid_vector_fails_alone(tmp_path: Path, bad: bytes):
    class Spoiled(WordEmbedder):
        spoil = True

        def embed_documents(self, texts: object) -> list[Vector]:
            vectors = super().embed_documents(texts)  # type: ignore[arg-type]
            return [
                Vector(bad) if self.spoil and "POISON" in text else vector
                for text, vector in zip(texts, vectors, strict=True)  # type: ignore[call-overload]
            ]

    embedder = Spoiled()
    lib = make_library(tmp_path, embedder=embedder)
    world = lib.library.create_world("world")
    lib.write("good.txt", "The harbour light.")
    lib.write("bad.txt", "The POISON harbour.")

    report = world.ingest(str(lib.folder / "files"))

    assert report.ingested == ["good.txt"]
    assert [(failure.name, failure.code) for failure in report.failures] == [
        ("bad.txt", "provider_bad_reply")
    ]
    assert world.search("harbour", floor=0.0).context == "The harbour light."
    embedder.spoil = False
    assert world.ingest(str(lib.folder / "files")).ingested == ["bad.txt"]
    assert_settled(lib, world)


@proves("repair.pending-resumes")
def test_every_file_of_a_run_is_counted_and_recorded(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(60), b__txt=story(5, "garden"))
    path = lib.write("world/a.txt", story(60))

    def run_after(state: str) -> tuple[str, list[str]]:
        key = lib.sql("SELECT key FROM revisions WHERE name = 'a.txt'")[0][0]
        lib.sql("UPDATE states SET state = ? WHERE revision = ? AND position = 0", state, key)
        counted = "SELECT count(*) FROM states WHERE revision = ? AND state = 'embedded'"
        count = lib.sql(counted, key)[0][0]
        lib.sql("UPDATE tallies SET embedded = ? WHERE revision = ?", count, key)
        report = world.ingest(path)
        documents = world.jobs.documents(report.job)
        assert "No file" not in show_followed(world.jobs.get(report.job), documents, [])
        return show_ingest(report), [document.state.value for document in documents]

    counts = "0 failed; 0 texts embedded"
    assert run_after("pending") == (
        f"1 ingested, 0 unchanged, {counts}, 1 vector reused.",
        ["embedded"],
    )
    assert run_after("embedded") == (
        f"0 ingested, 1 unchanged, {counts}, 0 vectors reused.",
        ["unchanged"],
    )


@proves("ingest.no-duplicates")
def test_file_deleted_by_another_run_is_not_reported_missing(lib: LibraryFixture) -> None:
    world = lib.world(a__txt=story(5))
    path = lib.write("world/a.txt", story(6))
    lib.embedder.before = once(lambda: world.documents.delete("a.txt") and None)

    report = world.ingest(path)

    assert (report.ingested, report.unchanged) == ([], 0)
    assert show_ingest(report).splitlines()[1:] == [
        "note: a.txt: another run replaced or deleted it meanwhile."
    ]
