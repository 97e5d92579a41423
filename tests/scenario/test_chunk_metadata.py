"""Metadata of a chunk, headers of tables, and places in files of many formats."""

import json
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support import odf_maker as odf
from tests.support.docx_maker import docx, p
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.pptx_maker import line, pptx, shape, title
from tests.support.reading_worlds import frozen
from tests.support.sheet_maker import rows, sheet, xlsx, zipped
from tests.support.worlds import LibraryFixture, WordCounter, make_library
from truespan.engine.world import World
from truespan.ingest.draft import Preparation, dedupe_hash
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, Strategy

ONCE = ChunkingProfile("once", Strategy.SENTENCES, size=1, overlap=0, dedupe=True)
EVERY = ChunkingProfile("every", Strategy.SENTENCES, size=1, overlap=0)
GERMAN = (
    "Der Hafen lag still in der Dämmerung. Niemand hatte das Boot gesehen, das am Abend "
    "eingelaufen war. Die Laterne brannte noch immer am Ende der Mole."
)
TEXT = "The harbour was quiet. A boat came in. The HARBOUR was  quiet! Nobody waved."


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    chunkings = {**STANDARD_CHUNKING, "once": ONCE, "every": EVERY}
    return make_library(tmp_path, preparation=Preparation(chunkings=chunkings))


def chunks(world: World) -> list:
    found = world.search("harbour boat", top_k=50, floor=0.0).passages
    records = [world.documents.chunk(one.chunk_id) for one in found]
    return sorted(records, key=lambda record: record.chunk.index)  # type: ignore[union-attr]


@proves("chunking.metadata")
def test_chunk_has_its_source_labels_and_language(lib: LibraryFixture, world: World):
    world.ingest(lib.write("a.txt", TEXT), tags=["sea", "quiet"], language="en", version="2.0")

    [record] = chunks(world)

    label = record.document
    assert label.name == "a.txt"
    assert label.doc_id == world.documents.get(1).doc_id
    assert label.tags == ("quiet", "sea")
    assert (label.language, label.version) == ("en", "2.0")
    assert record.chunk.chunk_id
    assert record.chunk.dedupe_hash is None


@proves("chunking.metadata")
def test_with_dedupe_the_first_of_equal_chunks_is_kept_with_its_hash(
    lib: LibraryFixture, world: World
) -> None:
    world.ingest(lib.write("a.txt", TEXT), chunking="once")

    records = chunks(world)

    texts = [record.chunk.data.decode() for record in records]
    assert texts == ["The harbour was quiet.", "A boat came in.", "Nobody waved."]
    assert [record.chunk.index for record in records] == [0, 1, 2]
    assert [record.chunk.dedupe_hash for record in records] == [dedupe_hash(text) for text in texts]


@proves("chunking.metadata")
def test_without_dedupe_every_chunk_is_kept(lib: LibraryFixture, world: World) -> None:
    world.ingest(lib.write("a.txt", TEXT), chunking="every")

    assert len(chunks(world)) == 4


@proves("reading.non-interference")
def test_repetitions_ahead_change_nothing_for_a_reader(lib: LibraryFixture) -> None:
    told = []
    for ending in ("", " A boat came in. The end.", " Something else."):
        world = lib.library.world("world", create=True)
        world.ingest(lib.write("a.txt", TEXT + ending), chunking="once", kind="book")
        reader = world.reader("ann")
        reader.set_position("1", sentence=3)
        bundle = reader.retrieve("harbour boat")
        told.append((bundle.context, bundle.retrieved_chunks, bundle.metadata.funnel))

    assert told[0] == told[1] == told[2]


@proves("request.language-constraint")
def test_undeclared_language_is_detected_and_can_be_filtered(
    lib: LibraryFixture, world: World
) -> None:
    world.ingest([lib.write("a.txt", TEXT * 3), lib.write("b.txt", GERMAN)])

    documents = {document.name: document for document in world.documents.list()}
    assert {name: one.language for name, one in documents.items()} == {"a.txt": "en", "b.txt": "de"}
    assert not any(one.language_declared for one in documents.values())
    for language, name in (("en", "a.txt"), ("de", "b.txt")):
        bundle = world.retrieve("Hafen harbour quiet", language=language)
        assert {note.source for note in bundle.metadata.sources} <= {name}


@proves("chunking.metadata")
def test_every_chunk_of_a_pdf_has_its_page(lib: LibraryFixture) -> None:
    pages = [f"Page number {n} tells of harbour {n}. It has more words." for n in range(1, 4)]
    path = lib.folder / "files" / "a.pdf"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(make_pdf([Page(column([text])) for text in pages]))
    world = lib.library.create_world("world")
    world.ingest(path, chunking="every")
    text = world.documents.text("1")

    for record in chunks(world):
        chunk = record.chunk
        assert text[chunk.start : chunk.end] == chunk.data.decode()
        assert chunk.page == text[: chunk.start + len("Page number")].count("Page number")


@proves("chunking.metadata")
def test_displayed_chunk_has_its_place(lib: LibraryFixture) -> None:
    pages = [f"Page number {n} tells of harbour {n}. It has more words." for n in range(1, 4)]
    path = lib.folder / "files" / "a.pdf"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(make_pdf([Page(column([text])) for text in pages]))
    world = lib.library.create_world("world")
    world.ingest(path, kind="book", chunking="window")

    [passage] = world.search("harbour").passages
    [listed] = world.documents.chunks(1).chunks
    [part] = world.search("harbour 2", granularity="sentence", top_k=1).passages
    [wider] = world.search("harbour 2", granularity="sentence", top_k=1, neighbours=1).passages
    answer = world.answer("Which harbour does page number 2 tell of?")
    reader = world.reader("ann")
    reader.set_position("1", sentence=3)
    [note] = reader.retrieve("harbour").metadata.sources

    assert passage.location == listed.location == "pages 1-3"
    assert (part.location, part.page) == ("page 2", 2)
    assert wider.location == "pages 1-2"
    assert answer.citations[0].location == "pages 1-3"
    assert ", pages 1-3; best match: page 2 (" in answer.answer
    assert (note.location, note.page) == ("pages 1-2", 1)
    shown = [sentence.location for sentence in reader.sentences().sentences]
    assert shown == ["page 1", "page 1", "page 2", "page 2"]


HEADER = "Meal | Limit | Remark"
ROWS = [
    f"Meal {number} of the day | {number} EUR | {'with a receipt' if number % 2 else 'none'}"
    for number in range(60)
]
CANONICAL = "\n".join([HEADER, *ROWS])
MARKDOWN = "\n".join(
    ["# Travel", "", "What may be spent.", "", f"| {HEADER} |", "|---|---|---|", *ROWS]
)


def add(lib: LibraryFixture, name: str, defaults: str) -> World:
    world = lib.library.create_world(name, defaults=defaults)
    world.ingest(lib.write("limits.md", MARKDOWN))
    return world


@proves("chunking.whole-tables")
def test_each_chunk_of_a_table_has_its_header(lib: LibraryFixture):
    world = add(lib, "travel", "recommended")

    text = world.documents.text("limits.md")
    chunks = [chunk.text or "" for chunk in world.documents.chunks("limits.md").chunks]

    assert text.count(HEADER) > 3
    assert len(chunks) > 3
    assert all(HEADER in chunk for chunk in chunks)
    for row in ROWS:
        assert sum(row in chunk for chunk in chunks) == 1
    rows = {"", "Travel", "What may be spent.", HEADER, *ROWS}
    assert all(line in rows for chunk in chunks for line in chunk.split("\n"))


@proves("chunking.whole-tables")
def test_contract_world_keeps_the_text_of_a_table_unchanged(lib: LibraryFixture):
    assert add(lib, "travel", "contract").documents.text("limits.md").endswith(CANONICAL)


@proves("chunking.whole-tables")
def test_unchanged_file_is_read_again_if_defaults_differ(lib: LibraryFixture):
    world = add(lib, "travel", "recommended")
    file = lib.write("limits.md", MARKDOWN)

    assert world.ingest(file).unchanged == 1
    world.set_defaults("contract")
    assert world.ingest(file).ingested == ["limits.md"]
    assert world.documents.text("limits.md").endswith(CANONICAL)
    assert world.ingest(file).unchanged == 1


@proves("chunking.whole-tables")
def test_context_has_markdown_tables_that_count_against_the_budget(lib: LibraryFixture):
    world = add(lib, "travel", "recommended")

    found = world.search("meal 7 of the day", top_k=3)
    bundle = world.retrieve("meal 7 of the day", top_k=10, max_tokens=900)

    markdown = "| Meal | Limit | Remark |\n|---|---|---|\n| "
    assert markdown in found.context
    assert markdown in bundle.context
    assert all(passage.text in world.documents.text("limits.md") for passage in found.passages)
    assert WordCounter().count(bundle.context) <= bundle.total_tokens <= 900
    assert sum(chunk.token_count for chunk in bundle.retrieved_chunks) < bundle.total_tokens


@proves("chunking.whole-tables")
def test_contract_world_has_unchanged_rows_in_its_context(lib: LibraryFixture):
    world = add(lib, "travel", "contract")

    for context in (world.search("meal").context, world.retrieve("meal").context):
        assert "Meal 1 of the day | 1 EUR" in context
        assert "|---|" not in context


@proves("reading.non-interference")
def test_table_in_a_book_does_not_depend_on_later_text(lib: LibraryFixture):
    world = lib.library.create_world("lamps", defaults="recommended")
    beginning = "lamp | oil\n\n" + " ".join(f"Lamp {number} is lit." for number in range(7))
    responses = set[str]()
    for end in ("", " Then the butler did it.", "\n\nThen | the | butler."):
        world.ingest(lib.write("book.txt", beginning + end), kind="book")
        reader = world.reader("ann")
        reader.set_position("book.txt", sentence=7)
        bundle = reader.retrieve("the lamp")
        assert "Lamp 6 is lit." in bundle.context
        responses.add(frozen(bundle))

    assert len(responses) == 1


def sentence(word: str) -> str:
    return f"The {word} was mended by the keeper in the evening."


def notebook(*cells: str) -> bytes:
    made = [{"cell_type": "markdown", "source": [cell], "metadata": {}} for cell in cells]
    return json.dumps({"cells": made, "nbformat": 4, "nbformat_minor": 5}).encode()


def mail(text: str, attached: str) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "Ida <ida@quay.example>", "The quay"
    message.set_content(text)
    message.add_attachment(attached, filename="note.txt")
    return bytes(message)


FILES: dict[str, bytes] = {
    "a.docx": docx(p("Quay", style="Heading1") + p(sentence("anchor"))),
    "b.odt": odf.odf(odf.h("Quay") + odf.p(sentence("barge"))),
    "c.rtf": rb"{\rtf1\ansi " + sentence("capstan").encode() + rb"\par}",
    "d.pptx": pptx(title("Quay"), title("Boats") + shape(line(sentence("dinghy")))),
    "e.xlsx": xlsx({"Boats": sheet(rows([["Boat", "Note"], ["one", sentence("engine")]]))}),
    "f.csv": f"boat,note\none,{sentence('flag')}\n".encode(),
    "g.jsonl": json.dumps({"boat": 1}).encode()
    + b"\n"
    + json.dumps({"n": sentence("gate")}).encode(),
    "h.eml": mail(sentence("harpoon"), sentence("inlet")),
    "i.ipynb": notebook("# Quay", sentence("jetty")),
    "j.pdf": make_pdf([Page(column(["The quay."])), Page(column([sentence("keel")]))]),
    "k.html": f"<title>Quay</title><h1>Boats</h1><p>{sentence('lantern')}".encode(),
    "l.md": f"# Boats\n\n{sentence('mast')}\n".encode(),
    "m.zip": zipped({"deep/n.txt": sentence("net")}),
}
FOUND: dict[str, tuple[str, str | None, str | None]] = {
    # The file, the chapter, or the title where there is none, and the location.
    "anchor": ("a.docx", "Quay", None),
    "barge": ("b.odt", "Quay", None),
    "capstan": ("c.rtf", "c.rtf", None),
    "dinghy": ("d.pptx", "Quay", "slides 1-2"),
    "engine": ("e.xlsx", "Boats", "A1:B2"),
    "flag": ("f.csv", "f.csv", "lines 1-2"),
    "gate": ("g.jsonl", "g.jsonl", "lines 1-2"),
    "harpoon": ("h.eml", "The quay", None),
    "inlet": ("note.txt", "note.txt", None),
    "jetty": ("i.ipynb", "Quay", "cells 1-2"),
    "keel": ("j.pdf", "j.pdf", "pages 1-2"),
    "lantern": ("k.html", "Boats", None),
    "mast": ("l.md", "Boats", None),
    "net": ("n.txt", "n.txt", None),
}


@pytest.mark.needs_extension
@proves("loader.sheets", "ingest.no-duplicates")
def test_folder_of_many_formats_is_found_with_places(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / "manifest.jsonl").write_text('{"path": "a.docx"}\n')
    lib = make_library(tmp_path / "library", defaults="recommended")
    world = lib.library.create_world("world")

    report = world.ingest(str(folder))

    assert (report.failures, len(report.ingested)) == ([], len(FILES) + 1)
    found: dict[str, tuple[str, str | None, str | None]] = {}
    for word in FOUND:
        best = world.search(f"Which {word} was mended?", top_k=1).passages[0]
        assert sentence(word) in " ".join(best.text.split()), word
        found[word] = (best.source, best.chapter, best.location)
    assert found == FOUND
    assert world.ingest(str(folder)).unchanged == len(FILES) + 1


@pytest.mark.needs_extension
@proves("loader.sheets")
def test_number_is_found_with_its_sheet_and_cells(tmp_path: Path) -> None:
    lib = make_library(tmp_path, defaults="recommended")
    world = lib.library.create_world("world")
    months = ("January", "February", "March", "April", "May")
    tables = {
        month: sheet(rows([["City", "Sold"], [f"Bergen {month}", number]], top=number + 1))
        for number, month in enumerate(months)
    }
    path = lib.folder / "sales.xlsx"
    path.write_bytes(xlsx(tables))
    world.ingest(str(path))

    for number, month in enumerate(months, 1):
        best = world.search(f"Bergen {month}", top_k=1).passages[0]
        assert (best.chapter, best.location) == (month, f"A{number}:B{number + 1}")
        assert f"Bergen {month}" in best.text
