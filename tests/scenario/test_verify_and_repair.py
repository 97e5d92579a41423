"""Untrusted text is skipped, reported and repaired; other text is shown."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.worlds import LibraryFixture, Lying, MemoryIndex, make_library, vector_of
from truespan.engine.world import World
from truespan.maintenance.doctor.plan import Action, Finding
from truespan.store.integrity.checksums import read_revisions, seal_revision
from truespan.types.bundle import Skipped
from truespan.types.chunk import Point
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_text
from truespan.types.maintenance import ErasureKind
from truespan.types.scope import Scope
from truespan.types.trust import Hit

BOTH_DEFAULTS = True
TEXTS = {
    "a__txt": "The harbour light burned all night.",
    "b__txt": "The harbour wall was old and grey.",
    "c__txt": "The harbour boats came home late.",
}


def build(tmp_path: Path, index: MemoryIndex | None = None) -> tuple[LibraryFixture, World]:
    lib = make_library(tmp_path, index=index)
    return lib, lib.world(**TEXTS)


def chunk_of(lib: LibraryFixture, document: int) -> ChunkId:
    rows = lib.sql(
        """SELECT s.chunk_id FROM states s JOIN revisions r ON r.key = s.revision
           JOIN documents d ON d.key = r.document WHERE d.number = ? AND r.state = 'active'""",
        document,
    )
    return ChunkId(rows[0][0])


def state_of(lib: LibraryFixture, chunk: ChunkId) -> tuple[str, str | None, str]:
    return lib.sql("SELECT state, warning, text_hash FROM states WHERE chunk_id = ?", chunk)[0]


def put_old_point_back(lib: LibraryFixture, world: World, chunk: ChunkId, text: str) -> None:
    """Write a point of other text under a current id, like a lost deletion."""
    point = lib.index._of(lib.scope(world))[chunk]
    old = Point(
        chunk, vector_of(text), hash_text(text), point.document, point.pos_start, point.pos_end,
        point.pos_reach, point.kind, point.chapters, point.sections,
    )  # fmt: skip
    lib.index.upsert(lib.scope(world), [old])


def settle(lib: LibraryFixture) -> None:
    """Wait for background repairs, like closing."""
    lib.library._repairs.close()


@proves("repair.stale-point", "verify.stale-never-shown", "verify.skips-reported")
def test_stale_point_is_skipped_reported_and_deleted(tmp_path: Path) -> None:
    lib, world = build(tmp_path)
    chunk = chunk_of(lib, 1)
    put_old_point_back(lib, world, chunk, "harbour harbour of long ago")
    # With its stored vector, the point would be written again at once.
    lib.sql("DELETE FROM vectors")

    result = world.search("harbour", floor=0.0, mode="vector")
    settle(lib)

    assert "long ago" not in result.context
    assert chunk not in {passage.chunk_id for passage in result.passages}
    assert len(result.passages) == 2
    assert [(entry.code, entry.count) for entry in result.skipped] == [("stale_vector", 1)]
    assert state_of(lib, chunk) == ("pending", "stale_vector", hash_text(TEXTS["a__txt"]))
    assert chunk not in lib.points(world)
    assert lib.sql("SELECT count(*) FROM repairs") == [(0,)]


@proves("verify.skips-reported", "verify.stale-never-shown")
@pytest.mark.parametrize("state", ["retired", "staged"])
def test_damaged_state_of_a_revision_is_reported(tmp_path: Path, state: str) -> None:
    lib, world = build(tmp_path)
    lib.sql(
        "UPDATE revisions SET state = ? WHERE document = "
        "(SELECT key FROM documents WHERE number = 2)",
        state,
    )

    result = world.search("harbour wall old grey", floor=0.0, mode="vector")

    assert {passage.document for passage in result.passages} == {1, 3}
    assert [(entry.code, entry.count) for entry in result.skipped] == [("damaged_document", 1)]


@proves("repair.stale-point", "repair.conditional")
def test_point_of_a_document_with_damaged_rows_is_kept(tmp_path: Path) -> None:
    """The state of the chunk records the embedded text; the hash in its row may be forged."""
    lib, world = build(tmp_path)
    chunk = chunk_of(lib, 2)
    lib.sql("UPDATE revisions SET title = 'Forged' WHERE name = 'b.txt'")
    lib.sql(
        "UPDATE chunks SET text = 'Forged.', text_hash = ? WHERE text LIKE '%wall%'",
        hash_text("Forged."),
    )

    result = world.search("harbour wall old grey", floor=0.0, mode="vector")
    settle(lib)

    assert {passage.document for passage in result.passages} == {1, 3}
    assert [(entry.code, entry.count) for entry in result.skipped] == [("damaged_document", 1)]
    assert lib.sql("SELECT count(*) FROM repairs") == [(0,)]
    assert "delete_stale" not in lib.index.calls
    assert chunk in lib.points(world)


@proves("upkeep.deletion-complete", "verify.skips-reported")
def test_point_without_rows_is_erased_from_files(tmp_path: Path) -> None:
    lib, world = build(tmp_path)
    point = lib.index._of(lib.scope(world))[chunk_of(lib, 1)]
    lib.index.upsert(lib.scope(world), [replace(point, chunk_id=ChunkId("of a deleted document"))])
    assert lib.store.erasures.all() == []

    result = world.search("harbour", floor=0.0, mode="vector")
    settle(lib)

    assert [(entry.code, entry.count) for entry in result.skipped] == [("orphan_point", 1)]
    assert "of a deleted document" not in lib.points(world)
    queued = {ErasureKind.INDEX, ErasureKind.STORE}
    assert {erasure.kind for erasure in lib.store.erasures.all()} == queued


@proves("repair.pending-resumes", "repair.text-unchanged")
@pytest.mark.parametrize("way", ["repair", "ingest"])
def test_pending_mark_is_enough_to_resume(tmp_path: Path, way: str) -> None:
    lib, world = build(tmp_path)
    chunk = chunk_of(lib, 1)
    text = lib.sql("SELECT text FROM chunks ORDER BY 1")
    put_old_point_back(lib, world, chunk, "harbour harbour of long ago")
    lib.embedder.documents.clear()
    lib.sql("DELETE FROM vectors")
    world.search("harbour", floor=0.0, mode="vector")
    settle(lib)
    assert state_of(lib, chunk)[:2] == ("pending", "stale_vector")

    if way == "repair":
        assert world.repair().reembedded == 1
    else:
        world.ingest(str(lib.folder / "files" / "world"))

    assert lib.embedder.documents == [TEXTS["a__txt"]]
    assert chunk in {passage.chunk_id for passage in world.search("harbour", floor=0.0).passages}
    assert state_of(lib, chunk)[:2] == ("embedded", None)
    assert lib.sql("SELECT text FROM chunks ORDER BY 1") == text


@proves("repair.missing-chunk", "verify.missing-spares-others", "verify.stale-never-shown")
def test_point_without_its_chunk_row_is_restored(tmp_path: Path) -> None:
    lib, world = build(tmp_path)
    chunk = chunk_of(lib, 2)
    whole = lib.sql("SELECT * FROM chunks ORDER BY revision")
    lib.sql("DELETE FROM chunks WHERE text LIKE '%wall%'")
    lib.sql("DELETE FROM vectors")

    result = world.search("harbour", floor=0.0, mode="vector")

    assert {passage.document for passage in result.passages} == {1, 3}
    assert [(entry.code, entry.count) for entry in result.skipped] == [("missing_chunk", 1)]
    assert state_of(lib, chunk)[:2] == ("pending", "missing_chunk")
    settle(lib)
    world.repair()
    assert lib.sql("SELECT * FROM chunks ORDER BY revision") == whole
    assert len(world.search("harbour", floor=0.0).passages) == 3


@proves("repair.missing-chunk", "verify.skips-reported")
@pytest.mark.parametrize("mode", ["vector", "hybrid", "keyword"])
@pytest.mark.parametrize("change", ["row", "state"])
def test_lost_row_or_changed_state_is_restored_in_every_mode(
    tmp_path: Path, mode: str, change: str
):
    lib, world = build(tmp_path)
    chunk = chunk_of(lib, 2)

    def find() -> tuple[set[int], list[Skipped]]:
        found = world.search("harbour wall", floor=0.0, mode=mode)
        return {passage.document for passage in found.passages}, [*found.skipped]

    before = find()
    if change == "row":
        lib.sql("DELETE FROM chunks WHERE text LIKE '%wall%'")
    else:
        lib.sql("UPDATE states SET state = 'pending' WHERE chunk_id = ?", chunk)
    settle(lib)
    lib = make_library(tmp_path, index=lib.index)
    world = lib.library.world("world")

    damaged = find()
    settle(lib)

    assert before[1] == []
    assert damaged[1] or damaged[0] == before[0]
    if damaged[1]:
        assert state_of(lib, chunk)[:2] == ("embedded", None)
    assert find() == before


@proves("verify.every-point", "verify.one-read", "repair.text-unchanged", "repair.conditional")
@pytest.mark.parametrize("byte", [0, 5, -1])
def test_damaged_text_is_hidden_and_restored(tmp_path: Path, byte: int) -> None:
    lib, world = build(tmp_path)
    damaged = bytearray(TEXTS["c__txt"].encode())
    damaged[byte] ^= 0xFF  # not even UTF-8 any more
    lib.sql("UPDATE chunks SET text = CAST(? AS TEXT) WHERE text LIKE '%boats%'", bytes(damaged))
    lib.embedder.documents.clear()

    result = world.search("harbour", floor=0.0)

    assert {passage.document for passage in result.passages} == {1, 2}
    assert [(entry.code, entry.count) for entry in result.skipped] == [("damaged_text", 1)]
    settle(lib)
    world.repair()
    assert len(world.search("harbour", floor=0.0).passages) == 3
    assert lib.embedder.documents == []
    assert lib.sql("SELECT count(*) FROM chunks WHERE text = ?", TEXTS["c__txt"]) == [(1,)]


@proves("repair.conditional", "repair.text-unchanged")
def test_unrestorable_text_is_quarantined(tmp_path: Path) -> None:
    lib, world = build(tmp_path)
    lib.sql("UPDATE chunks SET text = 'forged' WHERE text LIKE '%boats%'")
    lib.sql("UPDATE texts SET text = 'forged too' WHERE text LIKE '%boats%'")
    lib.embedder.documents.clear()
    world.search("harbour", floor=0.0)
    settle(lib)

    report = world.repair()
    result = world.search("harbour", floor=0.0)

    assert {passage.document for passage in result.passages} == {1, 2}
    assert "forged" not in result.context
    assert lib.embedder.documents == []
    assert chunk_of(lib, 3) not in lib.points(world)
    assert world.status().quarantined == 1
    assert report.quarantined == [] or report.quarantined == [chunk_of(lib, 3)]
    world.ingest(str(lib.folder / "files" / "world"))
    assert len(world.search("harbour", floor=0.0).passages) == 3
    assert world.status().quarantined == 0


def forge(lib: LibraryFixture) -> None:
    """Change the text of a chunk row and its hash, so that the row is consistent."""
    lib.sql(
        "UPDATE chunks SET text = ?, text_hash = ? WHERE text LIKE '%boats%'",
        FORGED,
        hash_text(FORGED),
    )


FORGED = "The harbour was sold to a stranger."


@proves("verify.forged-row", "verify.every-point", "repair.text-unchanged", "repair.conditional")
@pytest.mark.parametrize("vectors", ["kept", "lost"])
@pytest.mark.parametrize("way", ["search", "doctor"])
def test_forged_row_is_never_shown_and_original_text_returns(
    tmp_path: Path, way: str, vectors: str
):
    lib, world = build(tmp_path)
    chunk = chunk_of(lib, 3)
    whole = lib.sql("SELECT * FROM chunks ORDER BY revision")
    forge(lib)
    if vectors == "lost":
        lib.sql("DELETE FROM vectors")
    lib.embedder.documents.clear()

    if way == "search":
        result = world.search("harbour", floor=0.0)
        assert {passage.document for passage in result.passages} == {1, 2}
        assert [(entry.code, entry.count) for entry in result.skipped] == [("damaged_text", 1)]
        settle(lib)
        world.repair()
        assert state_of(lib, chunk) == ("embedded", None, hash_text(TEXTS["c__txt"]))
    else:
        plan = lib.library.doctor()["world"]
        found = {(item.finding, item.action) for item in plan.all_items() if item.subject == chunk}
        assert (Finding.DAMAGED_TEXT, Action.RESTORE) in found
        lib.library.doctor(apply=True)

    result = world.search("harbour", floor=0.0)
    assert {passage.document for passage in result.passages} == {1, 2, 3}
    assert FORGED not in result.context
    assert FORGED not in lib.embedder.documents
    assert lib.sql("SELECT * FROM chunks ORDER BY revision") == whole
    lib.library.doctor(apply=True)
    assert lib.library.doctor()["world"].counts() == {}
    assert FORGED not in lib.embedder.documents


@proves("verify.forged-row", "verify.every-point", "repair.text-unchanged", "repair.conditional")
@pytest.mark.parametrize("way", ["search", "doctor", "pending"])
def test_forged_row_is_quarantined_without_a_true_copy(tmp_path: Path, way: str) -> None:
    lib, world = build(tmp_path)
    chunk = chunk_of(lib, 3)
    forge(lib)
    lib.sql(
        """UPDATE revisions SET text_hash = ? WHERE key =
             (SELECT revision FROM texts WHERE text LIKE '%boats%')""",
        hash_text(FORGED),
    )
    lib.sql("UPDATE texts SET text = ? WHERE text LIKE '%boats%'", FORGED)
    lib.embedder.documents.clear()

    if way == "search":
        world.search("harbour", floor=0.0)
        settle(lib)
    elif way == "doctor":
        lib.library.doctor(apply=True)
    else:
        lib.sql("DELETE FROM vectors")
        lib.store.chunks.mark_pending(lib.scope(world), [chunk])
    world.repair()

    result = world.search("harbour", floor=0.0)
    assert {passage.document for passage in result.passages} == {1, 2}
    assert FORGED not in result.context
    assert FORGED not in lib.embedder.documents
    if way == "search":
        # The record of the document is damaged as well, so none of its chunks is trusted.
        assert result.skipped == (Skipped("damaged_document", 1),)
        return
    assert state_of(lib, chunk) == ("quarantined", "damaged_text", hash_text(TEXTS["c__txt"]))
    assert world.status().quarantined == 1


@proves("verify.every-point", "verify.skips-reported")
def test_orphan_point_is_deleted_and_reported(tmp_path: Path) -> None:
    lib, world = build(tmp_path)
    scope = lib.scope(world)
    template = next(iter(lib.index._of(scope).values()))
    orphan = ChunkId("00000000-0000-5000-8000-000000000000")
    ghost = Point(
        orphan, vector_of("harbour"), template.text_hash, 1, 0, 0, 0, template.kind, (), ()
    )
    lib.index.upsert(scope, [ghost])

    result = world.search("harbour", floor=0.0)
    settle(lib)

    assert orphan not in {passage.chunk_id for passage in result.passages}
    assert [(entry.code, entry.count) for entry in result.skipped] == [("orphan_point", 1)]
    assert orphan not in lib.points(world)


@proves("repair.idempotent")
def test_repeated_retrieval_changes_state_at_most_once(tmp_path: Path) -> None:
    class Immortal(MemoryIndex):
        """An index that does not delete."""

        def delete_stale(self, scope: Scope, stale: object) -> None:
            raise _unavailable()

    lib, world = build(tmp_path, Immortal())
    put_old_point_back(lib, world, chunk_of(lib, 1), "harbour harbour of long ago")

    def snapshot() -> list[object]:
        tables = ("states", "repairs", "tallies", "worlds")
        return [lib.sql(f"SELECT * FROM {table}") for table in tables]

    world.search("harbour", floor=0.0)
    settle(lib)
    once = snapshot()
    world.search("harbour", floor=0.0)
    settle(lib)

    assert snapshot() == once


def _unavailable() -> Exception:
    from truespan.errors import IndexUnavailable

    return IndexUnavailable("The index did not answer.")


@proves("repair.conditional")
def test_point_embedded_again_during_repair_is_not_deleted(tmp_path: Path) -> None:
    class Late(MemoryIndex):
        """The correct point arrives just before the deletion of the stale one."""

        def delete_stale(self, scope: Scope, stale: Sequence[tuple[ChunkId, TextHash]]) -> None:
            for chunk, _ in stale:
                self._of(scope)[chunk] = right[chunk]
            super().delete_stale(scope, stale)

    right: dict[ChunkId, Point] = {}
    lib, world = build(tmp_path, Late())
    chunk = chunk_of(lib, 1)
    right[chunk] = lib.index._of(lib.scope(world))[chunk]
    put_old_point_back(lib, world, chunk, "harbour harbour of long ago")

    world.search("harbour", floor=0.0)
    settle(lib)

    assert lib.points(world)[chunk].text_hash == right[chunk].text_hash


@proves("verify.every-point", "verify.stale-never-shown")
@pytest.mark.parametrize("lie", ["wrong hash", "empty hash", "unknown id", "swapped hashes"])
def test_index_with_wrong_hashes_shows_nothing_wrong(tmp_path: Path, lie: str) -> None:
    def lies(hits: list[Hit], scope: Scope) -> list[Hit]:
        if lie == "unknown id":
            return [Hit(ChunkId(f"x{hit.chunk_id}"), hit.score, hit.text_hash) for hit in hits]
        if lie == "swapped hashes":
            hashes = [*(hit.text_hash for hit in hits[1:]), hits[0].text_hash]
        else:
            hashes = [TextHash("0" * 64 if lie == "wrong hash" else "")] * len(hits)
        pairs = zip(hits, hashes, strict=True)
        return [Hit(hit.chunk_id, hit.score, fake) for hit, fake in pairs]

    _, world = build(tmp_path, Lying(lies))

    result = world.search("harbour", floor=0.0)

    assert result.passages == ()
    assert result.context == ""
    assert sum(entry.count for entry in result.skipped) == 3


@proves("errors.failure-changes-nothing")
def test_search_that_cannot_queue_repairs_still_answers(tmp_path: Path) -> None:
    from truespan.errors import StoreBusy

    lib, world = build(tmp_path)
    put_old_point_back(lib, world, chunk_of(lib, 1), "harbour harbour of long ago")

    def busy(*_: object) -> None:
        raise StoreBusy

    lib.store.chunks.record_failures = busy  # type: ignore[method-assign]
    result = world.search("harbour", floor=0.0)

    assert len(result.passages) == 2
    assert [notice.code for notice in result.warnings] == ["repair_not_recorded"]


@proves("verify.every-point")
def test_revision_with_the_root_of_a_merkle_tree_is_intact(tmp_path: Path) -> None:
    lib, world = build(tmp_path)
    scope = lib.scope(world)
    with lib.store._db.write(scope, shared=True) as session:
        for found in read_revisions(session, scope.world, 1, 2, 3):
            parts = found.cells.parts + bytes(32)
            session.execute(
                "UPDATE revisions SET parts = :parts WHERE key = :key", parts=parts, key=found.key
            )
        for found in read_revisions(session, scope.world, 1, 2, 3):
            seal_revision(session, scope.world, found)

    assert lib.library.doctor()["world"].counts() == {}
    assert world.search("harbour", floor=0.0).funnel.verified == 3
    assert lib.store.revisions.stored_text(scope, RevisionRef(1, 1)) is not None
