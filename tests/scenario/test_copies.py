"""The same text in several documents: shown once, with every place that the caller may see."""

import re
from itertools import product
from pathlib import Path
from typing import Any

from tests.promises import proves
from tests.support.reading_worlds import frozen
from tests.support.rows import each_row
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation
from truespan.types.bundle import BundleStatus, ContextBundle, SearchResult, WhyNot
from truespan.types.job import DocumentState
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, Strategy
from truespan.types.request import Mode
from truespan.types.source import Copies

LAMP = "The lamp hangs in the tower above the harbour, and the keeper lights it at dusk."
OIL = "The oil for the lamp stands in the cellar of the inn, behind the third barrel."
QUERY = "the keeper lights the lamp in the tower at dusk"
FILLER = "The ferry crossed the river and came back. "
TINY = ChunkingProfile("tiny", Strategy.SENTENCES, size=1, overlap=0)
MODES = (Mode.VECTOR, Mode.KEYWORD, Mode.HYBRID)
METHODS = ("search", "retrieve")
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def tiny_chunks(folder: Path) -> LibraryFixture:
    preparation = Preparation(chunkings={**STANDARD_CHUNKING, "tiny": TINY})
    return make_library(folder, preparation=preparation, defaults="recommended")


def copied(lib: LibraryFixture, **options: Any) -> World:
    """Return a world with three copies of a document, one in other white space, and another."""
    world = lib.library.create_world("copies", defaults=options.pop("defaults", "recommended"))
    texts = {
        "one.txt": LAMP,
        "two.txt": LAMP,
        "three.txt": LAMP.replace("harbour, and", "harbour,\nand"),
        "other.txt": OIL,
    }
    for name, text in texts.items():
        world.ingest(lib.write(name, text), **options)
    return world


def names(found: Any) -> list[list[str]]:
    """Return the file names of each result, with those of its other places."""
    return [sorted([note.source, *(at.source for at in note.other_places)]) for note in found]


def notes(found: SearchResult | ContextBundle) -> Any:
    return found.passages if isinstance(found, SearchResult) else found.metadata.sources


def repeats(found: SearchResult | ContextBundle) -> list[int]:
    skipped = found.skipped if isinstance(found, SearchResult) else found.metadata.skipped
    return [entry.count for entry in skipped if entry.code == "duplicate_passage"]


@proves("bundle.copies")
@each_row("method, mode, top_k", product(METHODS, MODES, (1, 2)))
def test_equal_passages_are_shown_once_with_all_places(
    tmp_path: Path, method: str, mode: Mode, top_k: int
) -> None:
    world = copied(make_library(tmp_path / f"{method}-{mode}-{top_k}"))

    found = getattr(world, method)(QUERY, mode=mode, top_k=top_k)

    # Other white space may have made another similarity, so that the third copy ranks later.
    [first, *others] = names(notes(found))
    assert first == ["one.txt", "three.txt", "two.txt"]
    assert others == [["other.txt"]][: top_k - 1]
    assert repeats(found) == [2]
    assert found.context.count("the keeper lights it") == 1
    assert not isinstance(found, ContextBundle) or found.status is BundleStatus.SUCCESS


@proves("bundle.copies")
@each_row("method", METHODS)
def test_contract_world_lists_copies_and_renders_them_once(tmp_path: Path, method: str) -> None:
    world = copied(make_library(tmp_path / method), defaults="contract")

    found = getattr(world, method)(QUERY, top_k=4)

    assert sorted(names(notes(found))) == [["one.txt"], ["other.txt"], ["three.txt"], ["two.txt"]]
    assert repeats(found) == []
    assert found.context.count("the keeper lights it") == 1


@proves("bundle.copies")
def test_copies_use_none_of_the_budget(tmp_path: Path) -> None:
    world = copied(make_library(tmp_path))
    costs = [chunk.token_count for chunk in world.retrieve(QUERY, top_k=4).retrieved_chunks]

    found = world.retrieve(QUERY, top_k=4, max_tokens=sum(costs))

    assert len(costs) == 2
    assert [chunk.token_count for chunk in found.retrieved_chunks] == costs


@proves("bundle.copies")
def test_why_not_of_a_copy_is_a_duplicate(tmp_path: Path) -> None:
    world = copied(make_library(tmp_path))
    (first, _) = world.retrieve(QUERY, top_k=2).metadata.sources

    assert len(first.other_places) == 2
    for other in first.other_places:
        assert world.why_not(other.chunk_id, QUERY, top_k=2).code is WhyNot.DUPLICATE


@proves("bundle.copies")
@each_row("method", METHODS)
def test_copies_out_of_scope_change_nothing(tmp_path: Path, method: str) -> None:
    lib = make_library(tmp_path / method, defaults="recommended")
    world = lib.library.create_world("copies")
    for name, tags in (("one.txt", ["shown"]), ("two.txt", ["shown"]), ("three.txt", ["hidden"])):
        world.ingest(lib.write(name, LAMP), tags=tags)

    found = getattr(world, method)(QUERY, tags=["shown"])

    assert names(notes(found)) == [["one.txt", "two.txt"]]
    assert repeats(found) == [1]


@proves("bundle.copies")
@each_row("mode", MODES)
def test_unread_copies_change_nothing_for_a_reader(tmp_path: Path, mode: Mode) -> None:
    read = f"{LAMP} {OIL} {FILLER}{LAMP} "
    bundles: list[str] = []
    for number, unread in enumerate((FILLER, f"{LAMP} {OIL} {LAMP} {LAMP}")):
        lib = tiny_chunks(tmp_path / f"{mode}-{number}")
        world = lib.library.create_world("book")
        world.ingest(lib.write("book.txt", read + unread), kind="book", chunking="tiny")
        reader = world.reader("ada")
        reader.set_position("book.txt", sentence=3)
        bundle = reader.retrieve(QUERY, mode=mode)
        assert [(at.first_sid, at.last_sid) for at in notes(bundle)[0].other_places] == [(3, 3)]
        assert repeats(bundle) == [1]
        bundles.append(IDS.sub("id", frozen(bundle)))
    assert bundles[0] == bundles[1]


@proves("bundle.copies")
@each_row("defaults", ["recommended", "contract"])
def test_shifted_copies_repeat_no_long_run_of_words(tmp_path: Path, defaults: str) -> None:
    lib = make_library(tmp_path / defaults, defaults=defaults)
    lines = [f"Paragraph {n} says that lamp {n * 7} burned {n} hours." for n in range(80)]
    world = lib.library.create_world("shifted")
    for name, start in (("one.txt", ""), ("two.txt", "A copy with a heading of its own. ")):
        world.ingest(lib.write(name, start + " ".join(lines)))

    found = world.search("how many hours burned the lamp", top_k=20)

    assert len(found.passages) > 3
    runs = [" ".join(lines[n : n + 4]) for n in range(0, 80, 4)]
    assert max(found.context.count(run) for run in runs) == 1
    assert sum(map(len, lines)) < len(found.context) < 1.1 * len(" ".join(lines))


def ingest_copies(lib: LibraryFixture, **options: Any) -> tuple[World, Any]:
    world = lib.library.create_world("files")
    world.ingest(lib.write("one.txt", LAMP))
    return world, world.ingest(
        [lib.write("two.txt", LAMP), lib.write("book.txt", LAMP), lib.write("own.txt", OIL)],
        **options,
    )


@proves("ingest.copies")
def test_ingestion_says_which_files_are_copies(lib: LibraryFixture) -> None:
    world, report = ingest_copies(lib)
    changed = world.ingest(lib.write("own.txt", LAMP))

    assert len(world.documents.list()) == 4
    assert report.warnings == [
        "files/two.txt: same content as files/one.txt.",
        "files/book.txt: same content as files/one.txt.",
    ]
    assert changed.ingested == ["own.txt"]
    assert world.ingest(lib.write("two.txt", LAMP)).warnings == []


@proves("ingest.copies")
def test_copies_of_another_kind_or_chunking_are_found(tmp_path: Path) -> None:
    _, report = ingest_copies(make_library(tmp_path), kind="book", chunking="tokens")

    assert len(report.warnings) == 2


@proves("ingest.copies")
def test_linked_copies_create_no_document(lib: LibraryFixture) -> None:
    world, report = ingest_copies(lib, copies="link")

    assert [document.name for document in world.documents.list()] == ["one.txt", "own.txt"]
    assert (report.ingested, report.unchanged) == (["own.txt"], 2)
    assert "files/two.txt: same content as files/one.txt." in report.warnings
    rows = {row.name: (row.state, row.code) for row in world.jobs.documents(report.job)}
    assert rows["two.txt"] == (DocumentState.UNCHANGED, "source_copied")
    world.documents.delete("one.txt")
    assert world.ingest(lib.write("two.txt", LAMP), copies="link").ingested == ["two.txt"]


@proves("ingest.copies")
def test_refused_copies_fail_without_stopping_the_ingestion(tmp_path: Path) -> None:
    lib = make_library(tmp_path, preparation=Preparation(copies=Copies.REFUSE))
    world, report = ingest_copies(lib)

    assert report.ingested == ["own.txt"]
    assert {(failure.name, failure.code) for failure in report.failures} == {
        ("two.txt", "source_copied"),
        ("book.txt", "source_copied"),
    }
    assert "same content as files/one.txt" in report.failures[0].message
    plan = world.documents.plan(lib.write("three.txt", LAMP), copies="link")
    assert [row.outcome.value for row in plan.rows] == ["unchanged"]
    assert world.ingest(lib.write("two.txt", LAMP), copies="keep").ingested == ["two.txt"]


@proves("ingest.copies")
def test_files_of_other_worlds_are_not_copies(lib: LibraryFixture) -> None:
    lib.library.create_world("other").ingest(lib.write("one.txt", LAMP))

    report = lib.library.create_world("own").ingest(lib.write("two.txt", LAMP), copies="refuse")

    assert (report.ingested, report.warnings) == (["two.txt"], [])


@proves("ingest.copies")
def test_damaged_record_of_a_document_refuses_no_file(lib: LibraryFixture) -> None:
    world = lib.library.create_world("files")
    world.ingest(lib.write("one.txt", LAMP))
    lib.sql("UPDATE revisions SET title = 'changed'")

    assert world.ingest(lib.write("two.txt", LAMP), copies="refuse").ingested == ["two.txt"]
