"""Documents listed, sorted and paged with their chunks; files read again; facets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.http_client import until
from tests.promises import proves
from tests.scenario.test_figures import ALL, PNG, docx, drawing, paragraph
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed
from truespan.ingest.draft import Preparation
from truespan.types.chunk import ChunkKind, ChunkState
from truespan.types.document import DocumentSort, DocumentStatus, Facet, Facets
from truespan.types.ids import WorldId
from truespan.types.scope import Authority, Verb
from truespan.types.source import Upload

pytestmark = pytest.mark.needs_extension

TEXT = " ".join(f"Lamp {number} of the quay burned until the morning came." for number in range(60))


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library", preparation=Preparation(figures=ALL))
    yield made
    made.library.close()


def shelf(lib: LibraryFixture) -> World:
    world = lib.library.create_world("shelf")
    world.ingest(lib.write("quay/Lamps.txt", TEXT), tags=["light"], title="Zebra lamps")
    world.ingest(lib.write("quay/boats.txt", "The boats are in."), metadata={"team": "Grün"})
    world.ingest(lib.write("hut.txt", "The hut is cold."), kind="book", language="de")
    world.ingest([Upload("👩🏽‍🚀 log.txt", b"An upload about the moon.")], version="2.0")
    return world


@proves("documents.listed")
def test_documents_are_chosen_sorted_and_paged(lib: LibraryFixture) -> None:
    world = shelf(lib)

    def names(*args: str, **arguments: object) -> list[str]:
        page = world.documents.find(*args, **arguments)  # type: ignore[arg-type]
        return [document.name for document in page.documents]

    everything = ["Lamps.txt", "boats.txt", "hut.txt", "👩🏽‍🚀 log.txt"]
    rows: list[tuple[tuple[str, ...], dict[str, object], list[str]]] = [
        ((), {}, everything),
        (("QUAY",), {}, everything[:2]),
        (("zebra light",), {}, everything[:1]),
        (("zebra moon",), {}, []),
        ((world.documents.get("hut.txt").doc_id,), {}, ["hut.txt"]),
        ((world.documents.get("hut.txt").doc_id[-4:],), {}, []),
        (("grün",), {}, everything[1:2]),
        (("👩🏽‍🚀",), {}, everything[3:]),
        ((), {"sort": "title"}, ["boats.txt", "hut.txt", "Lamps.txt", "👩🏽‍🚀 log.txt"]),
        ((), {"sort": "characters", "descending": True, "limit": 1}, ["Lamps.txt"]),
        ((), {"sort": "kind", "descending": True, "offset": 2}, ["👩🏽‍🚀 log.txt", "hut.txt"]),
        ((), {"offset": 4}, []),
        ((), {"offset": 1, "limit": None}, everything[1:]),
        ((), {"tags": ["light"]}, everything[:1]),
        ((), {"kinds": ["book"], "language": "de"}, ["hut.txt"]),
        ((), {"metadata": {"team": {"exists": True}}}, ["boats.txt"]),
        (("hut",), {"version": "2.0"}, []),
        ((), {"status": "ready"}, everything),
        ((), {"status": "damaged"}, []),
    ]
    found = [names(*args, **arguments) for args, arguments, _ in rows]
    assert found == [expected for *_, expected in rows]
    page = world.documents.find(limit=1, offset=2)
    assert (page.offset, page.total, page.statuses) == (2, 4, {DocumentStatus.READY: 4})
    for sort in DocumentSort:
        assert sorted(names(sort=sort)) == sorted(everything)
    wrong = [
        {"offset": -1}, {"limit": 0}, {"limit": 1001}, {"sort": "size"}, {"status": "done"},
        {"chapter": "One"}, {"search": "x" * 201}, {"search": 5},
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(InvalidArgument):
            names(**arguments)


@proves("documents.listed")
def test_empty_world_lists_nothing(lib: LibraryFixture) -> None:
    page = lib.library.create_world("empty").documents.find("x", tags=["y"])

    assert (page.documents, page.total, page.statuses) == ((), 0, {})


@proves("documents.listed")
def test_chunks_are_listed_in_reading_order_with_their_places(lib: LibraryFixture) -> None:
    world = shelf(lib)
    path = Path(lib.write("tower.docx", ""))
    path.write_bytes(
        docx(
            paragraph("The tower stands on the hill."),
            paragraph("Here ", drawing("rId1", "A tall tower"), " it is."),
            paragraph(TEXT),
            media={"image1.png": PNG},
        )
    )
    world.ingest(str(path))
    text = world.documents.text("tower.docx")

    whole = world.documents.chunks("tower.docx", limit=500)

    assert whole.total == len(whole.chunks) == world.documents.get("tower.docx").chunks
    assert [chunk.start for chunk in whole.chunks] == sorted(chunk.start for chunk in whole.chunks)
    assert {chunk.chunk_type for chunk in whole.chunks} == {ChunkKind.TEXT, ChunkKind.FIGURE}
    assert whole.chunks[-1].chunk_type is ChunkKind.TEXT, "a figure is where it stands"
    for chunk in whole.chunks:
        assert (chunk.state, chunk.reason, chunk.intact) == (ChunkState.EMBEDDED, None, True)
        if chunk.chunk_type is ChunkKind.TEXT:
            assert chunk.text == text[chunk.start : chunk.end]
            assert chunk.context_start <= chunk.start
        else:
            assert chunk.figure
            assert "tower" in (chunk.text or "")
    record = world.documents.chunk(whole.chunks[0].chunk_id)
    assert (whole.revision, whole.generation) == (record.document.revision, 1)
    assert whole.source_hash == world.documents.get("tower.docx").source_hash
    parts = [world.documents.chunks("tower.docx", offset=at, limit=1) for at in range(whole.total)]
    assert [part.chunks[0] for part in parts] == [*whole.chunks]
    assert world.documents.chunks("tower.docx", offset=whole.total).chunks == ()
    for arguments in ({"offset": -1}, {"limit": 0}, {"limit": 501}):
        with pytest.raises(InvalidArgument):
            world.documents.chunks("tower.docx", **arguments)
    with raises_code("document_not_found"):
        world.documents.chunks("absent.txt")


@proves("documents.listed")
def test_damaged_chunk_is_listed_with_its_reason_and_no_text(lib: LibraryFixture):
    world = shelf(lib)
    first = world.documents.chunks(1).chunks[0]
    lib.sql("UPDATE chunks SET text = 'A lie.' WHERE position = 0 AND revision = 1")

    damaged = world.documents.chunks(1).chunks[0]

    assert (damaged.chunk_id, damaged.intact, damaged.text) == (first.chunk_id, False, None)
    lib.sql("UPDATE states SET state = 'quarantined', warning = 'damaged_text'")
    assert world.documents.chunks(1).chunks[0].reason == "damaged_text"
    assert world.documents.chunks(1).chunks[0].state is ChunkState.QUARANTINED


@proves("documents.listed")
def test_caller_bound_to_a_reader_gets_no_list_or_chunks(lib: LibraryFixture) -> None:
    world = shelf(lib)
    world.reader("ada").set_position("hut.txt", sentence=0)
    bound = Authority(frozenset([world.access.record().id]), frozenset([Verb.FOLLOW]))
    mine = lib.library.under(bound).world("shelf")
    calls = (lambda: mine.documents.find(), lambda: mine.documents.chunks("hut.txt"))
    for call in calls:
        with pytest.raises(NotAllowed):
            call()


@proves("documents.read-again")
def test_file_read_again_keeps_its_labels(lib: LibraryFixture) -> None:
    world = shelf(lib)
    lib.write("quay/Lamps.txt", "There is but one lamp now.")

    job = world.documents.reingest("Lamps.txt")
    until(lambda: world.jobs.get(job.id).state.is_over)

    document = world.documents.get("Lamps.txt")
    assert (document.active, document.tags, document.title) == (2, ("light",), "Zebra lamps")
    assert document.shown_path == "quay/Lamps.txt"
    assert "one lamp" in world.documents.text("Lamps.txt")


@proves("documents.read-again")
def test_file_that_cannot_be_read_again_gives_advice(lib: LibraryFixture, tmp_path: Path) -> None:
    world = shelf(lib)
    with pytest.raises(InvalidArgument, match="Upload it again"):
        world.documents.reingest("👩🏽‍🚀 log.txt")
    secret = tmp_path / "elsewhere" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("Nobody was given this.")
    path = Path(world.documents.get("hut.txt").path)
    path.unlink()
    with raises_code("source_missing"):
        world.documents.reingest("hut.txt")
    path.symlink_to(secret)
    with raises_code("source_outside"):
        world.documents.reingest("hut.txt")
    every = frozenset({Verb.READ, Verb.WRITE})
    writer = Authority(frozenset([world.access.record().id]), every)
    with pytest.raises(NotAllowed):
        lib.library.under(writer).world("shelf").documents.reingest("boats.txt")


DOCUMENTS: dict[str, dict[str, Any]] = {
    "a.txt": {
        "tags": ["net", "it"],
        "metadata": {"team": "a", "year": 2020, "due": "2024-05-01", "language": "x"},
    },
    "b.txt": {
        "tags": ["net"],
        "version": "2",
        "metadata": {"team": "b", "year": 2023.5, "open": True, "status": ["new", "new", "hot"]},
    },
    "c.txt": {"metadata": {"team": "a", "year": "2020", "due": "2024-05-02T12:00:00Z"}},
    "d.txt": {"kind": "book", "lang": "de", "metadata": {"by": {"name": "x"}, "open": None}},
}


def shelved(lib: LibraryFixture) -> World:
    world = lib.library.create_world("world", defaults="recommended")
    for number, path in enumerate(DOCUMENTS):
        lib.write(path, f"The lamp burns in room {number}.")
    lines = [json.dumps({"path": path, "lang": "en", **more}) for path, more in DOCUMENTS.items()]
    world.ingest(manifest=lib.write("all.jsonl", "\n".join(lines)))
    return world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    lib = make_library(tmp_path_factory.mktemp("world"))
    yield shelved(lib)
    lib.library.close()


def listed(facets: Facets) -> dict[tuple[str, bool], list[tuple[Any, int]]]:
    return {
        (facet.key, facet.metadata): [(value.value, value.documents) for value in facet.values]
        for facet in facets.facets
    }


@proves("request.facets")
def test_documents_are_counted_by_label_and_metadata(world: World) -> None:
    found = world.documents.facets()

    assert (found.documents, found.chunks, found.warnings) == (4, 4, ())
    assert listed(found) == {
        ("tags", False): [("net", 2), ("it", 1)],
        ("language", False): [("en", 3), ("de", 1)],
        ("version", False): [("1.0", 3), ("2", 1)],
        ("kind", False): [("document", 3), ("book", 1)],
        ("team", True): [("a", 2), ("b", 1)],
        ("year", True): [(2020, 1), (2023.5, 1), ("2020", 1)],
        ("due", True): [("2024-05-01", 1), ("2024-05-02T12:00:00Z", 1)],
        ("by", True): [],
        ("language", True): [("x", 1)],
        ("open", True): [(True, 1)],
        ("status", True): [("hot", 1), ("new", 1)],
    }
    by_key: dict[str, Facet] = {facet.key: facet for facet in found.facets if facet.metadata}
    assert (by_key["due"].least, by_key["due"].greatest) == ("2024-05-01", "2024-05-02T12:00:00Z")
    assert by_key["year"].least is by_key["team"].least is None
    assert [value.kind for value in by_key["year"].values] == ["number", "number", "text"]
    assert by_key["by"].documents == 0
    assert all(value.chunks == value.documents for facet in found.facets for value in facet.values)


@proves("request.facets")
def test_keys_limits_and_filters_choose_counted_values(world: World) -> None:
    assert listed(world.documents.facets(["team", "tags", "absent"])) == {
        ("tags", False): [("net", 2), ("it", 1)],
        ("team", True): [("a", 2), ("b", 1)],
        ("absent", True): [],
    }
    assert listed(world.documents.facets(["metadata.language", "language"])) == {
        ("language", False): [("en", 3), ("de", 1)],
        ("language", True): [("x", 1)],
    }
    [years] = world.documents.facets(["year"], limit=1).facets
    assert (len(years.values), years.more_values, years.documents) == (1, 2, 3)
    scoped = world.documents.facets(["year", "open"], tags=["net"], metadata={"team": "b"})
    assert (scoped.documents, scoped.chunks) == (1, 1)
    assert listed(scoped) == {("year", True): [(2023.5, 1)], ("open", True): [(True, 1)]}
    assert world.documents.facets(documents=[]).documents == 0

    for arguments, reason in (
        ({"limit": 0}, "limit must be between"),
        ({"limit": True}, "limit must be a whole number"),
        ({"keys": "team"}, "keys must be a list"),
        ({"keys": ["x"] * 101}, "at most 100"),
        ({"chapter": "One"}, "count whole documents"),
        ({"metadata": {"team": {}}}, "no operator"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            world.documents.facets(**arguments)  # type: ignore[arg-type]


@proves("request.facets")
def test_a_filter_by_a_listed_value_finds_as_many_documents(world: World) -> None:
    wrong = []
    for facet in world.documents.facets().facets:
        for value in facet.values:
            if facet.metadata:
                filters: dict[str, Any] = {"metadata": {facet.key: value.value}}
            else:
                shown = str(value.value)
                by_label: dict[str, dict[str, Any]] = {
                    "tags": {"tags": [shown]},
                    "language": {"language": shown},
                    "version": {"version": shown},
                    "kind": {"kinds": [shown]},
                }
                filters = by_label[facet.key]
            found = world.search("the lamp", floor=0, **filters).passages
            if len({part.source for part in found}) != value.documents:
                wrong.append((facet.key, value))
    assert wrong == []


@proves("request.facets")
def test_long_facet_lists_are_cut_with_a_count_of_the_rest(lib: LibraryFixture) -> None:
    world = lib.world()
    everything = {f"k{number:03}": number for number in range(120)} | {"many": list(range(30))}
    world.ingest(lib.write("a.txt", "The lamp."), metadata=everything)

    found = world.documents.facets()

    assert (len(found.facets), found.more_keys) == (4 + 100, 21)
    [many] = world.documents.facets(["many"]).facets
    assert (len(many.values), many.more_values) == (10, 20)
    assert (many.least, many.greatest) == (0, 29)
    assert lib.library.create_world("empty").documents.facets().facets == ()


@proves("request.facets")
def test_damaged_documents_are_named_and_not_counted(lib: LibraryFixture) -> None:
    world = shelved(lib)
    lib.sql("""UPDATE revisions SET metadata = '{"team":"z"}' WHERE name = 'b.txt'""")
    lib.sql("UPDATE revisions SET kind = 'book' WHERE name = 'c.txt'")
    lib.sql("UPDATE worlds SET changes = changes + 1")

    found = world.documents.facets(["kind", "team", "tags"])

    assert found.documents == 2
    assert listed(found) == {
        ("kind", False): [("book", 1), ("document", 1)],
        ("tags", False): [("it", 1), ("net", 1)],
        ("team", True): [("a", 1)],
    }
    [notice] = found.warnings
    assert notice.code == "metadata_damaged"
    assert "not counted: b.txt, c.txt." in notice.message
    assert world.documents.facets(["team"], metadata={"team": "b"}).warnings


@proves("request.facets")
def test_facets_cover_one_world_and_refuse_readers(lib: LibraryFixture) -> None:
    world = shelved(lib)
    lib.library.create_world("other").ingest(
        lib.write("x.txt", "Hidden."), metadata={"secret": 1}, tags=["hidden"]
    )
    shown = repr(world.documents.facets()) + repr(
        world.documents.facets(["secret", "tags"]).facets[1:]
    )
    assert "hidden" not in shown
    assert "FacetValue(value=1," not in shown
    follow = Authority(worlds=frozenset({WorldId(world.id)}), verbs=frozenset({Verb.FOLLOW}))
    follower = lib.library.under(follow).world("world")
    with pytest.raises(NotAllowed):
        follower.documents.facets()
    assert not hasattr(world.reader("ada"), "facets")
