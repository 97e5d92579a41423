"""Passages name the page, slide or row of their best sentence, beside their own place."""

from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.answer_worlds import Scripted, study
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.pptx_maker import pptx, shape, title
from tests.support.reading_worlds import frozen
from tests.support.rows import each_row
from tests.support.sheet_maker import rows, sheet, xlsx
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.extensions.server.mcp.passages import passages_of_search, render_passages
from truespan.ingest.draft import Preparation
from truespan.integrations import search as citable_search
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile, Strategy
from truespan.types.request import Mode
from truespan.types.text import SentencePlace, is_exact

TOPICS = (
    "apples (score 0.900000)", "bridges", "candles", "dragons", "engines", "ferries", "gardens",
    "harbours",
)  # fmt: skip
DECK = pptx(*(title(f"About {topic}") + shape(f"We sell {topic} here.") for topic in TOPICS))
PDF = make_pdf([Page(column([f"This page tells of {topic} alone."])) for topic in TOPICS])
BOOK = xlsx(
    {
        "Tariffs": sheet(
            rows([["Topic", "Price"], *([topic, f"{n}.50"] for n, topic in enumerate(TOPICS))])
        )
    }
)
FILES = {"deck.pptx": DECK, "pages.pdf": PDF, "prices.xlsx": BOOK}
PLACES = {
    "deck.pptx": ("slides 1-8", "slide 6", "About ferries"),
    "pages.pdf": ("pages 1-8", "page 6", "pages.pdf"),
    "prices.xlsx": ("A1:B9", "A7:B7", "Tariffs"),
}
QUERIES = {
    "deck.pptx": "we sell ferries here",
    "pages.pdf": "this page tells of ferries alone",
    "prices.xlsx": "price 50 of ferries",
}
MODES = (Mode.VECTOR, Mode.HYBRID, Mode.KEYWORD)


def with_file(lib: LibraryFixture, name: str, **options: Any) -> World:
    path = lib.folder / "files" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(FILES[name])
    world = lib.library.create_world("world")
    assert world.ingest(path, **options).ingested == [name]
    return world


@proves("result.best-sentence")
@each_row("name, mode", [(name, mode) for name in FILES for mode in MODES])
def test_results_name_the_place_of_the_best_sentence(tmp_path: Path, name: str, mode: Mode) -> None:
    world = with_file(make_library(tmp_path / f"{name}-{mode}"), name)
    whole, exact, section = PLACES[name]

    query = QUERIES[name]
    [passage] = world.search(query, mode=mode, top_k=1).passages
    [note] = world.retrieve(query, mode=mode, top_k=1).metadata.sources
    [marked] = world.search(query, mode=mode, top_k=1, highlight=True).passages

    assert passage.location == note.location == whole
    best = passage.best_sentence
    assert best is not None
    assert note.best_sentence == best
    assert (best.location, best.section) == (exact, section)
    assert best.page == (6 if name == "pages.pdf" else None)
    assert passage.first_sid <= best.sid <= passage.last_sid
    if mode is not Mode.VECTOR:
        assert marked.best_sentence is not None
        assert marked.best_sentence.location == exact
    [sentence] = world.search(query, granularity="sentence", top_k=1, mode=mode).passages
    if mode is not Mode.VECTOR:
        assert sentence.location == exact
    assert sentence.best_sentence is None


@proves("result.best-sentence")
@each_row("name", FILES)
def test_passage_without_a_word_of_the_query_names_no_sentence(tmp_path: Path, name: str) -> None:
    world = with_file(make_library(tmp_path / name), name)

    [passage] = world.search("zeppelin", mode="vector", floor=0.0).passages

    assert passage.best_sentence is None


@pytest.mark.recommended
@proves("result.best-sentence")
def test_repeated_table_header_is_never_the_best_sentence(lib: LibraryFixture) -> None:
    lines = [f"{1000 + number},{TOPICS[number % 8]},{number}.50" for number in range(200)]
    lib.write("orders.csv", "\n".join(["order,item,total", *lines]))
    world = lib.library.create_world("world")
    world.ingest(str(lib.folder / "files" / "orders.csv"))

    [passage] = world.search("order 1150", mode=Mode.KEYWORD, top_k=1).passages

    assert passage.text.startswith("order | item | total")
    assert passage.best_sentence is not None
    assert passage.best_sentence.location == "line 152"


@proves("result.best-sentence")
def test_row_of_a_table_goes_before_its_header(lib: LibraryFixture) -> None:
    lib.write("staff.csv", "name,room,phone number\nAna,C01,123\nJonas,C02,456\nMia,C03,789\n")
    world = lib.library.create_world("world")
    world.ingest(str(lib.folder / "files" / "staff.csv"))

    def best(query: str) -> str | None:
        [passage] = world.search(query, mode=Mode.KEYWORD).passages
        assert passage.best_sentence is not None
        return passage.best_sentence.location

    assert best("the phone number of Jonas") == "line 3"
    assert best("which room has Mia?") == "line 4"
    # No row has a word of these columns.
    assert best("room and phone number") == "line 1"


OWN = """\
The keeper of the lamp lit it at dusk. Snow fell on the quay. The lamp of the old tower was lit by
nobody. Rain came from the west and the boats stayed in. Later the keeper lit the lamp again because
the wind had blown it out (score 0.900000).
"""
OTHER = """\
At night the wind blew. Nobody lit a lamp when the wind was up (score 0.800000). The lamp of the
harbour was old. The keeper slept until the west was dark.
"""


@pytest.mark.recommended
@proves("result.best-sentence")
def test_mark_citation_and_quote_have_the_same_best_sentence(tmp_path: Path) -> None:
    texts = {"a__md": f"# The lamp of the keeper\n\n{OWN}", "b__md": f"# Rain\n\nFog. {OTHER}"}
    world = study(tmp_path).add(**texts)
    for question in (
        "Who lit the lamp of the keeper?",
        "When was the old lamp lit?",
        "Why the wind?",
    ):
        marked = {
            one.chunk_id: one.match.sid
            for one in world.search(question, highlight=True, floor=0).passages
            if one.match
        }

        answer = world.answer(question)

        assert answer.citations
        for cited, quote in zip(answer.citations, answer.quotes, strict=True):
            assert cited.best_sentence is not None
            assert cited.chunk_id is not None
            assert cited.best_sentence.sid == marked[cited.chunk_id]
            assert quote.first_sid is not None
            assert quote.last_sid is not None
            assert quote.first_sid <= cited.best_sentence.sid <= quote.last_sid


@proves("result.best-sentence")
def test_sentence_of_overlapping_passages_is_cited_once(tmp_path: Path) -> None:
    own = ChunkingProfile("pairs", Strategy.SENTENCES, size=8, overlap=4)
    preparation = Preparation(chunkings={**STANDARD_CHUNKING, "pairs": own})
    desk = study(tmp_path, preparation=preparation)
    world = desk.world
    lines = [f"Row {number} of the ledger (score 0.900000)." for number in range(12)]
    lines[5] = "The keeper lit the lamp at dusk."
    lines[1], lines[9] = "He lit a lamp before.", "She lit a lamp after dusk."
    world.ingest(desk.lib.write("ledger.txt", " ".join(lines)), chunking="pairs")

    for granularity in (None, "passage"):
        answer = world.answer("Who lit the lamp at dusk?", granularity=granularity)

        best = [cited.best_sentence for cited in answer.citations]
        assert len(best) > 1
        assert len({one.sid for one in best if one}) == len([one for one in best if one])


@proves("result.best-sentence")
def test_interfaces_show_the_place_of_the_best_sentence(tmp_path: Path) -> None:
    world = with_file(make_library(tmp_path), "deck.pptx")
    found = world.search("what about ferries", top_k=1)

    [cited] = citable_search(world, top_k=1).run("what about ferries")

    assert cited.cited["best_sentence"]["location"] == "slide 6"
    header = render_passages(passages_of_search(found)).split("\n")[0]
    assert header.endswith("; best match: About ferries, slide 6")


@proves("result.best-sentence")
@each_row("name", FILES)
def test_answers_place_citations_quotes_and_claims(tmp_path: Path, name: str) -> None:
    model = Scripted('Some say "ferries" [1]. We know of ferries [1].')
    desk = study(tmp_path / name, primary=model)
    path = desk.lib.folder / "files" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(FILES[name])
    desk.world.ingest(path)
    exact = PLACES[name][1]

    answer = desk.world.answer("What do we know about ferries?")

    assert f"best match: {'About ferries, ' if name == 'deck.pptx' else ''}" in model.prompt
    assert exact in model.prompt
    [citation] = answer.citations
    assert citation.best_sentence is not None
    assert citation.best_sentence.location == exact
    [quote] = answer.quotes
    assert quote.place is not None
    assert quote.place.location == exact
    assert answer.support is not None
    assert [claim.place and claim.place.location for claim in answer.support.sentences] == [
        exact
    ] * 2


@proves("result.best-sentence")
@each_row("mode", MODES)
def test_unread_text_does_not_move_the_best_sentence(tmp_path: Path, mode: Mode) -> None:
    bundles: list[str] = []
    for number, unread in enumerate(("gardens", "ferries ferries apples bridges")):
        pages = [*TOPICS[:6], unread]
        lib = make_library(tmp_path / f"{mode}-{number}")
        path = lib.folder / "files" / "a.pdf"
        path.parent.mkdir(parents=True)
        path.write_bytes(
            make_pdf([Page(column([f"This page tells of {t} alone."])) for t in pages])
        )
        world = lib.library.create_world("world")
        world.ingest(path, kind="book")
        reader = world.reader("ada")
        reader.set_position("1", sentence=4)
        bundle = reader.retrieve("bridges and ferries", mode=mode)
        [note] = bundle.metadata.sources
        assert note.best_sentence is not None
        assert note.best_sentence.location == "page 2"
        bundles.append(frozen(bundle).replace(world.id, "").replace(note.chunk_id, ""))
    assert bundles[0] == bundles[1]


@proves("result.best-sentence")
@each_row("mode", MODES)
def test_stored_chunk_of_a_reader_names_its_best_sentence(tmp_path: Path, mode: Mode) -> None:
    world = with_file(make_library(tmp_path / mode), "pages.pdf", kind="book")
    reader = world.reader("ada")
    reader.set_position("1", sentence=7)

    [note] = reader.retrieve("bridges and ferries", mode=mode).metadata.sources

    # The id of a chunk is another one for a reader, so its sentence is read by its number.
    assert (note.first_sid, note.last_sid) == (0, 7)
    assert note.best_sentence is not None
    assert note.best_sentence.location == "page 2"


@proves("result.best-sentence")
def test_passage_without_stored_sentences_names_none(lib: LibraryFixture) -> None:
    world = with_file(lib, "deck.pptx")
    lib.sql("DELETE FROM sentences")

    [passage] = world.search("what about ferries", top_k=1).passages

    assert passage.location == "slides 1-8"
    assert passage.best_sentence is None


@proves("result.best-sentence")
@pytest.mark.parametrize(
    "damage", ["UPDATE pages SET page = 3 WHERE page = 6", "UPDATE sentences SET start = start + 1"]
)
def test_damaged_place_of_a_sentence_is_not_shown(lib: LibraryFixture, damage: str) -> None:
    world = with_file(lib, "deck.pptx")
    lib.sql(damage)

    found = world.search("what about ferries", top_k=1)

    assert found.passages[0].best_sentence is None
    assert [notice.code for notice in found.warnings] == ["sentences_damaged"]


@proves("result.best-sentence")
def test_sentence_from_an_earlier_page_has_the_page_of_the_passage(lib: LibraryFixture) -> None:
    words = [" and ".join(f"word{n}" for n in range(last)) for last in (40, 100)]
    # The first sentence ends on the second page, in the second passage.
    first = f"The beginning {words[0]}"[:360]
    pages = [first, f"and {words[1]} zebra.", "Another page follows. It is the end."]
    path = lib.folder / "files" / "a.pdf"
    path.parent.mkdir(parents=True)
    path.write_bytes(
        make_pdf(
            [Page(column([text[i : i + 90] for i in range(0, len(text), 90)])) for text in pages]
        )
    )
    world = lib.library.create_world("world")
    world.ingest(path)

    passage = world.search("zebra", floor=0).passages[0]

    assert (passage.first_sid, passage.location) == (0, "pages 2-3")
    best = passage.best_sentence
    assert best is not None
    assert (best.sid, best.page, best.location) == (0, 2, "page 2")
    assert world.documents.sentences(1).sentences[0].page == 1


@proves("result.best-sentence")
@each_row(
    "location, exact",
    [
        ("page 3", True), ("scanned page 3", True), ("slide 12", True), ("A3", True),
        ("A3:F3", True), ("AB12:AD12", True), ("pages 3-4", False), ("A3:F4", False),
        ("A3:F13", False), ("page 9, pages 2-3", False), ("page 9, page 2", False),
    ],
)  # fmt: skip
def test_exact_location_names_one_page_or_row(location: str, exact: bool) -> None:
    assert is_exact(location) is exact


@pytest.mark.recommended
@proves("result.best-sentence")
def test_row_of_a_table_is_quoted_and_not_its_header(lib: LibraryFixture) -> None:
    rows = [f"{name},harbour of {name},{place}" for place, name in enumerate(("Ada", "Bob", "Cyd"))]
    text = "\n".join(["keeper name,harbour of the keeper,lamp number", *rows])
    world = lib.library.create_world("world")
    world.ingest(lib.write("lamps.csv", text))

    question = "What is the lamp number of the keeper Bob?"
    passage = world.search(question, floor=0, highlight=True).passages[0]
    quoted = world.search(question, floor=0, granularity="excerpt").passages[0]

    assert passage.match is not None
    assert passage.match.start is not None
    assert passage.text[passage.match.start :].startswith("Bob")
    assert passage.best_sentence is not None
    assert passage.best_sentence.location == "line 3"
    assert quoted.text.startswith("keeper name")
    assert quoted.text.endswith("Bob | harbour of Bob | 1")


@proves("result.best-sentence")
def test_best_sentence_is_plain_data() -> None:
    place = SentencePlace(3, "Chapter", "Section", 2, "page 2")

    assert place.__struct_fields__ == ("sid", "chapter", "section", "page", "location")
