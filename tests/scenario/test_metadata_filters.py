"""Filters by kind, source and metadata: matching documents, and effects of damage."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, StoreDamaged
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.index.filters import AnyOf, Field, conditions
from truespan.types.bundle import BundleStatus
from truespan.types.metadata import read_conditions
from truespan.types.request import Filters
from truespan.types.scope import UNLIMITED, Scope

DOCUMENTS: dict[str, dict[str, Any]] = {
    "handbook/vpn.txt": {
        "tags": ["net"],
        "source_url": "https://wiki.example/it/vpn",
        "metadata": {"team": "a", "year": 2020, "status": "open", "due": "2024-05-01"},
    },
    "handbook/old/keys.txt": {
        "metadata": {"team": "b", "year": 2023.5, "status": ["new", "urgent"], "public": True}
    },
    "notes [draft].txt": {"metadata": {"team": "a", "year": "2023", "due": "2024-05-01T12:00:00Z"}},
    "saga.txt": {"kind": "book"},
}
TEAM_A = read_conditions({"team": "a"})
NAMES = {Path(path).name for path in DOCUMENTS}


def shelved(lib: LibraryFixture) -> World:
    """Return a world of four documents with different metadata."""
    world = lib.library.create_world("world", defaults="recommended")
    lines = [{"path": path, **declared} for path, declared in DOCUMENTS.items()]
    for number, path in enumerate(DOCUMENTS):
        lib.write(path, f"The lamp burns in room {number}.")
    lines[2]["path"] = "notes ?draft?.txt"
    manifest = lib.write("all.jsonl", "\n".join(json.dumps(line) for line in lines))
    world.ingest(manifest=manifest)
    return world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lib = make_library(tmp_path_factory.mktemp("world"))
    yield shelved(lib)
    lib.library.close()


ROWS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, NAMES),
    ({"kinds": []}, NAMES),
    ({"kinds": ["book"]}, {"saga.txt"}),
    ({"kinds": ["book", "document"]}, NAMES),
    ({"source": "handbook/*"}, {"vpn.txt", "keys.txt"}),
    ({"source": "old/*.txt"}, {"keys.txt"}),
    ({"source": "book/*"}, set()),
    ({"source": "/old/*"}, set()),
    ({"source": "/files/*"}, NAMES),
    ({"source": "*/handbook/???.txt"}, {"vpn.txt"}),
    ({"source": "https://wiki.example/*"}, {"vpn.txt"}),
    ({"source": "wiki.example/*"}, {"vpn.txt"}),
    ({"source": "notes [draft].*"}, {"notes [draft].txt"}),
    ({"source": "saga.txt"}, {"saga.txt"}),
    ({"source": "SAGA.txt"}, set()),
    ({"metadata": None}, NAMES),
    ({"metadata": {}}, NAMES),
    ({"metadata": {"team": "a"}}, {"vpn.txt", "notes [draft].txt"}),
    ({"metadata": {"team": "A"}}, set()),
    ({"metadata": {"team": {"any_of": ["a", "b"]}, "year": 2020}}, {"vpn.txt"}),
    ({"metadata": {"year": {"gte": 2020, "lt": 2024}}}, {"vpn.txt", "keys.txt"}),
    ({"metadata": {"year": {"gt": 2020}}}, {"keys.txt"}),
    ({"metadata": {"year": "2023"}}, {"notes [draft].txt"}),
    ({"metadata": {"status": {"any_of": ["open", "urgent"]}}}, {"vpn.txt", "keys.txt"}),
    ({"metadata": {"public": True}}, {"keys.txt"}),
    ({"metadata": {"public": 1}}, set()),
    ({"metadata": {"due": "2024-05-01"}}, {"vpn.txt", "notes [draft].txt"}),
    ({"metadata": {"due": {"gt": "2024-05-01T06:00"}}}, {"notes [draft].txt"}),
    ({"metadata": {"status": {"exists": False}}}, {"saga.txt", "notes [draft].txt"}),
    ({"metadata": {"team": {"exists": True}}}, NAMES - {"saga.txt"}),
    ({"metadata": {"team": "a"}, "tags": ["net"]}, {"vpn.txt"}),
    ({"metadata": {"team": "a"}, "kinds": ["book"]}, set()),
    ({"metadata": {"team": "a"}, "documents": ["3", "saga.txt"]}, {"notes [draft].txt"}),
]


@proves("request.metadata-filter", "request.constraints-combine")
def test_every_request_searches_the_documents_matching_its_filters(world: World) -> None:
    wrong = []
    ids = {found.source: found.chunk_id for found in world.search("the lamp", floor=0.0).passages}
    for filters, names in ROWS:
        found = {
            "search": {
                part.source for part in world.search("the lamp", floor=0, **filters).passages
            },
            "retrieve": {
                note.source for note in world.retrieve("the lamp", **filters).metadata.sources
            },
            "why_not": {
                name
                for name, chunk in ids.items()
                if world.why_not(chunk, "the lamp", **filters).code != "filtered_out"
            },
        }
        wrong += [(filters, how, names, got) for how, got in found.items() if got != names]
    assert not wrong


@proves("request.metadata-filter")
def test_invalid_filter_is_refused_with_a_reason(world: World) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"kinds": "book"}, "kinds must be a list"),
        ({"kinds": ["novel"]}, "'novel'"),
        ({"source": ""}, "source must have"),
        ({"source": 3}, "source must be a string"),
        ({"metadata": "team=a"}, "metadata must be an object"),
        ({"metadata": {"team": None}}, "'team'"),
        ({"metadata": {"team": ["a"]}}, "'team'"),
        ({"metadata": {"team": {}}}, "no operator"),
        ({"metadata": {"team": {"in": ["a"]}}}, "'in'"),
        ({"metadata": {"team": {"exists": "no"}}}, "exists"),
        ({"metadata": {"team": {"gte": True}}}, "no order"),
        ({"metadata": {"team": {"gte": 1, "lt": "b"}}}, "no order"),
    ]
    for filters, reason in rows:
        for call in (world.search, world.retrieve, world.answer):
            with pytest.raises(InvalidArgument, match=reason):
                call("the lamp", **filters)


@proves("request.metadata-filter")
def test_unknown_metadata_key_is_named_with_the_known_ones(world: World) -> None:
    result = world.search("the lamp", metadata={"tem": "a", "team": "a"})

    assert not result.passages
    assert (result.warnings[0].code, result.warnings[0].message) == (
        "metadata_key_unknown",
        "No document has metadata under 'tem'; there are: due, public, status, team, year.",
    )
    for wanted in ({"team": "nobody"}, {"tem": {"exists": False}}):
        found = world.search("the lamp", metadata=wanted)
        assert "metadata_key_unknown" not in {notice.code for notice in found.warnings}


@proves("request.metadata-filter")
def test_index_that_ignores_the_filters_is_corrected(tmp_path: Path) -> None:
    class Deaf(MemoryIndex):
        deaf = False

        def search(self, scope: Scope, *args: Any, **options: Any) -> Any:
            asked.append(scope)
            wide = replace(scope, documents=UNLIMITED) if self.deaf else scope
            return super().search(wide, *args, **options)

    asked: list[Scope] = []
    index = Deaf()
    world = shelved(make_library(tmp_path, index=index))
    rows = [({"metadata": {"team": "b"}}, "keys.txt"), ({"kinds": ["book"]}, "saga.txt")]

    for index.deaf in (False, True):
        for filters, name in rows:
            for mode in ("vector", "hybrid"):
                found = world.search("the lamp", top_k=1, floor=0, mode=mode, **filters)
                assert [part.source for part in found.passages] == [name]
                assert found.funnel.in_scope == found.funnel.verified == 1
                notes = world.retrieve("the lamp", mode=mode, **filters).metadata.sources
                assert [note.source for note in notes] == [name]
    assert conditions(asked[0])[1:] == (AnyOf(Field.DOCUMENT, (2,)),)


@proves("request.metadata-filter")
def test_metadata_with_wrong_checksum_are_named_and_ignored(lib: LibraryFixture) -> None:
    world = shelved(lib)
    lib.sql("UPDATE revisions SET properties = '{}' WHERE name = 'keys.txt'")
    lib.sql("UPDATE worlds SET changes = changes + 1")

    for filters in ({"team": "a"}, {"team": "b"}, {"secret": {"exists": False}}):
        result = world.search("the lamp", floor=0, metadata=filters)
        assert "keys.txt" not in {part.source for part in result.passages}
        warning = result.warnings[0]
        assert warning.code == "metadata_damaged"
        assert "keys.txt" in warning.message
    bundle = world.retrieve("the lamp", metadata={"team": "b"})
    assert bundle.status is BundleStatus.NO_MATCHES
    partial = world.retrieve("the lamp", metadata={"team": "a"})
    assert partial.retrieved_chunks
    assert partial.status is BundleStatus.PARTIAL
    assert [notice.code for notice in bundle.metadata.warnings][:1] == ["metadata_damaged"]
    chunk = world.search("room 1", top_k=1, floor=0).passages[0].chunk_id
    reason = world.why_not(chunk, "the lamp", metadata={"team": "b"})
    assert (reason.code, [notice.code for notice in reason.warnings]) == (
        "filtered_out", ["metadata_damaged"],
    )  # fmt: skip
    golden = GoldenQuery("q", "the lamp", (Expected("1"),), filters=Filters(metadata=TEAM_A))
    assert world.evaluation.run([golden]).results[0].error == StoreDamaged.code
    # Nothing is said without a condition on metadata, or if another filter leaves it out.
    assert not world.search("the lamp", floor=0).warnings
    others = world.search("the lamp", metadata={"team": "a"}, kinds=["book"])
    assert [notice.code for notice in others.warnings] == ["no_document_matches"]


@proves("request.metadata-filter")
def test_changed_metadata_reveals_no_text(lib: LibraryFixture) -> None:
    world = shelved(lib)
    lib.sql("""UPDATE revisions SET metadata = '{"team":"a"}' WHERE name = 'keys.txt'""")
    lib.sql("UPDATE worlds SET changes = changes + 1")

    result = world.search("the lamp", floor=0, metadata={"team": "a"})

    assert {part.source for part in result.passages} == {"vpn.txt", "notes [draft].txt"}
    assert [(entry.code, entry.count) for entry in result.skipped] == [("damaged_document", 1)]


@proves("request.metadata-filter")
def test_damaged_labels_are_found_under_every_filter(lib: LibraryFixture) -> None:
    world = shelved(lib)
    lib.sql("UPDATE revisions SET kind = 'book', path = '/x' WHERE name = 'keys.txt'")
    lib.sql("UPDATE worlds SET changes = changes + 1")

    result = world.search("the lamp", floor=0, kinds=["book"], source="saga.txt")

    assert [part.source for part in result.passages] == ["saga.txt"]
    assert [(entry.code, entry.count) for entry in result.skipped] == [("damaged_document", 1)]
