"""The documents of a world chosen, sorted and paged; their chunks; and files read again."""

from collections.abc import Iterator
from pathlib import Path

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
from truespan.types.document import DocumentSort, DocumentStatus
from truespan.types.scope import Authority, Verb
from truespan.types.source import Upload

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
def test_an_empty_world_lists_nothing(lib: LibraryFixture) -> None:
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
def test_a_damaged_chunk_is_listed_without_its_text_and_with_its_reason(lib: LibraryFixture):
    world = shelf(lib)
    first = world.documents.chunks(1).chunks[0]
    lib.sql("UPDATE chunks SET text = 'A lie.' WHERE position = 0 AND revision = 1")

    damaged = world.documents.chunks(1).chunks[0]

    assert (damaged.chunk_id, damaged.intact, damaged.text) == (first.chunk_id, False, None)
    lib.sql("UPDATE states SET state = 'quarantined', warning = 'damaged_text'")
    assert world.documents.chunks(1).chunks[0].reason == "damaged_text"
    assert world.documents.chunks(1).chunks[0].state is ChunkState.QUARANTINED


@proves("documents.listed")
def test_a_caller_bound_to_a_reader_gets_neither_list_nor_chunks(lib: LibraryFixture) -> None:
    world = shelf(lib)
    world.reader("ada").set_position("hut.txt", sentence=0)
    bound = Authority(frozenset([world.access.record().id]), frozenset([Verb.FOLLOW]))
    mine = lib.library.under(bound).world("shelf")
    calls = (lambda: mine.documents.find(), lambda: mine.documents.chunks("hut.txt"))
    for call in calls:
        with pytest.raises(NotAllowed):
            call()


@proves("documents.read-again")
def test_a_file_is_read_again_with_its_labels(lib: LibraryFixture) -> None:
    world = shelf(lib)
    lib.write("quay/Lamps.txt", "There is but one lamp now.")

    job = world.documents.reingest("Lamps.txt")
    until(lambda: world.jobs.get(job.id).state.is_over)

    document = world.documents.get("Lamps.txt")
    assert (document.active, document.tags, document.title) == (2, ("light",), "Zebra lamps")
    assert document.shown_path == "quay/Lamps.txt"
    assert "one lamp" in world.documents.text("Lamps.txt")


@proves("documents.read-again")
def test_what_cannot_be_read_again_says_what_to_do(lib: LibraryFixture, tmp_path: Path) -> None:
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
