"""Libraries written by version 0.1 open, and hold what they held."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from tests.promises import proves
from tests.support.postgres import database_of
from tests.support.worlds import Place, WordEmbedder, other_profile, place
from truespan.files.backup import describe_file, write_archive
from truespan.types.ids import WorldId
from truespan.types.maintenance import Manifest, Verdict
from truespan.types.scope import Verb
from truespan.wiring.storage import restore_library

DATA = Path(__file__).parents[1] / "data" / "library-0.1"
EXPECTED = json.loads((DATA / "expected.json").read_text())


def write_store(folder: Path, store: str) -> None:
    """Write a store as version 0.1 left it: a database file, or the rows of a server's tables."""
    if store == "sqlite":
        (folder / "store.db").write_bytes(gzip.decompress((DATA / "store.db.gz").read_bytes()))
        return
    dump = json.loads(gzip.decompress((DATA / "postgres.json.gz").read_bytes()))
    assert dump.pop("steps") == 8
    with database_of(folder).admin() as admin:
        admin.execute("SET session_replication_role = replica")
        for table, content in dump.items():
            columns = ", ".join(content["columns"])
            statement = cast("Any", f"COPY {table} ({columns}) FROM STDIN")
            with admin.cursor().copy(statement) as rows:
                rows.write(content["rows"])
        admin.execute("SET search_path = truespan, truespan_shared")
        admin.execute(
            """SELECT setval(s.oid::regclass, 1000) FROM pg_class s
               JOIN pg_namespace n ON n.oid = s.relnamespace
               WHERE s.relkind = 'S' AND n.nspname IN ('truespan', 'truespan_shared')"""
        )


def open_earlier(folder: Path, store: str) -> Place:
    write_store(folder, store)
    second = WordEmbedder(profile=other_profile(model="words-2"))
    return place(folder, store=store, others={"other": second})


@proves("store.earlier-versions")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_library_of_version_0_1_opens_with_all_it_held(tmp_path: Path, store: str) -> None:
    here = open_earlier(tmp_path, store)
    expected = EXPECTED[store]

    assert {world.name: world.id for world in here.library.worlds()} == expected["worlds"]
    world = here.library.world("harbour")
    documents = {
        document.name: [
            document.number,
            document.doc_id,
            document.active,
            document.chunks,
            sha256(world.documents.text(document.doc_id).encode()).hexdigest(),
        ]
        for document in world.documents.list()
    }
    assert documents == expected["documents"]
    assert [record.generation.number for record in world.generations.list()] == [1, 2]
    domains = [[domain.key, domain.generation] for domain in here.library.domains()]
    assert domains == expected["domain"]
    assert [[job.id, job.kind, job.state.value] for job in world.jobs.list()] == expected["jobs"]
    assert world.reader("ann").position().sid == expected["position"]
    assert here.library.authenticate(expected["secret"]).may(Verb.READ, WorldId(world.id))


@proves("store.earlier-versions")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_library_of_version_0_1_is_searched_read_and_examined(tmp_path: Path, store: str) -> None:
    here = open_earlier(tmp_path, store)
    expected = EXPECTED[store]
    world = here.library.world("harbour")
    # The index is not part of the store: the doctor finds it empty and fills it from the vectors.
    here.library.apply_plan(here.library.doctor())
    asked = here.embedder.calls

    plain = world.search("kestrel nests above the gate", floor=0.0)
    fused = world.search("otter keeper", floor=0.0, mode="hybrid")
    read = world.reader("ann").retrieve("the otter of the old harbour")
    by_words = world.reader("ann").retrieve("the otter of the old harbour", mode="hybrid")

    assert [[hit.chunk_id, round(hit.score, 6)] for hit in plain.passages] == expected["search"]
    assert [[hit.chunk_id, round(hit.score, 6)] for hit in fused.passages] == expected["fused"]
    assert read.context == expected["reader"]
    assert {chunk.content for chunk in by_words.retrieved_chunks} == {
        chunk.content for chunk in read.retrieved_chunks
    }
    assert all(note.fused for note in by_words.metadata.sources)
    assert here.embedder.documents == []
    assert here.embedder.calls <= asked + 3
    plan = here.library.doctor()
    assert plan.healthy
    assert all(check.verdict is not Verdict.PROBLEM for check in plan.checks)


@proves("store.earlier-versions")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_documents_are_added_to_and_removed_from_a_library_of_version_0_1(
    tmp_path: Path, store: str
) -> None:
    here = open_earlier(tmp_path, store)
    world = here.library.world("harbour")

    world.ingest([here.write("harbour/new.txt", "A new pier was built beside the old one.\n")])
    world.documents.delete("log.txt")

    names = {document.name for document in world.documents.list()}
    assert names == {"notes.md", "book.md", "new.txt"}
    assert world.search("a new pier", floor=0.0).passages[0].source == "new.txt"


@proves("upkeep.backup-restores", "store.earlier-versions")
def test_backup_of_version_0_1_is_restored_to_a_folder_and_a_server(tmp_path: Path) -> None:
    write_store(tmp_path, "sqlite")
    store = describe_file("store.db", tmp_path / "store.db")
    manifest = Manifest(13, "0.1", 1.0, True, 2, 0, 0, 0, (store,))
    backup = tmp_path / "backup"
    write_archive(backup, manifest, {"store.db": tmp_path / "store.db"})
    server = tmp_path / "server"
    server.mkdir()
    (server / "url").write_text(database_of(server).url.reveal(), encoding="utf-8")
    (server / "truespan.toml").write_text('store_url_file = "url"\n', encoding="utf-8")

    for folder in (tmp_path / "file", server):
        restore_library(backup, folder)

    expected = EXPECTED["sqlite"]
    for folder, kind in ((tmp_path / "file", "sqlite"), (server, "postgres")):
        here = place(folder, store=kind)
        assert {world.name: world.id for world in here.library.worlds()} == expected["worlds"]
        texts = {
            document.name: sha256(
                here.library.world("harbour").documents.text(document.doc_id).encode()
            ).hexdigest()
            for document in here.library.world("harbour").documents.list()
        }
        assert texts == {name: row[-1] for name, row in expected["documents"].items()}
        assert here.library.tokens.list() == []
        here.library.close()
