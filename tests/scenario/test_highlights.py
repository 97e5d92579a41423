"""Matches of a query in a passage: a sentence and words of verified text."""

from pathlib import Path

import pytest

from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.types.request import Mode
from truespan.types.trust import Match

pytestmark = pytest.mark.needs_extension

BOOK = """# The Lamp

## One

It was late on the quay. The keeper lit three lamps 🏮 in the tower. Nobody saw the boats.

## Two

灯台守は古いランプに火をつけた。 The keepers slept.
"""


def shelf(folder: Path) -> tuple[LibraryFixture, World]:
    lib = make_library(folder)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", BOOK), kind="book")
    return lib, world


def marked(text: str, match: Match | None) -> tuple[str | None, list[str]]:
    assert match is not None
    sentence = None if match.start is None else text[match.start : match.end]
    return sentence, [text[start:end] for start, end in match.words]


@proves("retrieval.fitted-passages")
def test_passages_say_which_sentence_and_which_words_match(tmp_path: Path) -> None:
    _, world = shelf(tmp_path)
    query = "Who lit the lamp of the keepers?"
    lit = "The keeper lit three lamps 🏮 in the tower."

    found = [
        marked(one.text, one.match)
        for one in world.search(query, mode=Mode.HYBRID, highlight=True).passages
    ]
    bundle = world.retrieve(query, mode=Mode.HYBRID, highlight=True)
    notes = zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True)
    reader = world.reader("ann")
    reader.set_position("book.md", sentence=4)
    read = reader.retrieve(query, mode=Mode.HYBRID, highlight=True)

    assert (lit, ["Lamp", "keeper", "lit", "lamps"]) in found or (
        lit, ["keeper", "lit", "lamps"]) in found  # fmt: skip
    assert sorted(found) == sorted(marked(chunk.content, note.match) for chunk, note in notes)
    pairs = zip(read.retrieved_chunks, read.metadata.sources, strict=True)
    (chunk, note), *_ = [pair for pair in pairs if lit in pair[0].content]
    assert marked(chunk.content, note.match)[0] == lit
    assert note.match is not None
    assert note.match.sid == 3
    assert all(one.match is None for one in world.search(query).passages)


@proves("retrieval.fitted-passages")
def test_vector_mode_marks_sentences_and_keyword_mode_words(tmp_path: Path) -> None:
    _, world = shelf(tmp_path)

    for one in world.search("lamps lit", mode=Mode.VECTOR, highlight=True).passages:
        sentence, words = marked(one.text, one.match)
        assert sentence
        assert sentence in one.text
        assert words == []
    for one in world.search("lamps", mode=Mode.KEYWORD, highlight=True).passages:
        sentence, words = marked(one.text, one.match)
        assert sentence is None or words
    (japanese,) = [
        marked(one.text, one.match)
        for one in world.search("ランプ", mode=Mode.KEYWORD, highlight=True, floor=0.0).passages
    ]
    assert "".join(japanese[1]) in "ランプ"
    assert japanese[1]
    with pytest.raises(InvalidArgument, match="highlight must be true or false"):
        world.search("lamp", highlight=1)  # type: ignore[arg-type]


@proves("verify.skips-reported", "retrieval.fitted-passages")
def test_unverified_sentences_are_not_marked(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)
    lib.sql("UPDATE sentences SET text_hash = zeroblob(32)")

    result = world.search("who lit the lamp", highlight=True)

    assert result.passages
    assert all(one.match is not None and one.match.sid is None for one in result.passages)
    assert [notice.code for notice in result.warnings] == ["sentences_damaged"]


@proves("retrieval.fitted-passages")
def test_http_marks_matches_on_request(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)
    world.reader("ann").set_position("book.md", sentence=4)
    body = {"query": "who lit the lamp", "mode": "hybrid"}
    with serve_library(lib.library) as client:
        for call in ("search", "retrieve", "readers/ann/retrieve"):
            base = f"/v1/worlds/world/{call}"
            marked = client.json("POST", f"{base}?highlight=true", body)
            plain = client.json("POST", base, body)
            assert (marked.status, plain.status) == (200, 200)
            assert b'"match":{"sid":3,' in marked.body
            assert b'"match":{' not in plain.body
        assert client.json("POST", f"{base}?highlight=perhaps", body).status == 400


GERMAN = """Auf dem Berg stehen viele alte Häuser, und in den Gärten davor spielen die Kinder.

Der Hausmeister hat den Haustürschlüssel gestern in der Küche gefunden, wo die Lampe brennt.
"""
ENGLISH = """The keeper found three lamps in the tower, and nobody knew who had left them there.

In the evening the children were told that the oldest of the boats had been sold.
"""
THAI = "เขาซื้อหนังสือเล่มใหม่จากร้านในตลาด แล้วนั่งอ่านที่ริมแม่น้ำจนถึงเย็น"


@proves("retrieval.fitted-passages")
@pytest.mark.parametrize(
    ("text", "language", "query", "words"),
    [
        (GERMAN, "de", "Wo steht das Haus mit dem Garten?", {"stehen", "Häuser", "Gärten"}),
        (GERMAN, "de", "Schlüssel Küche", {"Haustürschlüssel", "Küche"}),
        (ENGLISH, "en", "Who will find a child?", {"found", "children"}),
        (ENGLISH, "en", "the kepeer of the tower", {"keeper", "tower"}),
        (THAI, "th", "หนังสือ", {"หนังสือ"}),
    ],
)
def test_marked_words_follow_the_language_of_the_passage(
    lib: LibraryFixture, text: str, language: str, query: str, words: set[str]
) -> None:
    world = lib.library.create_world("world", defaults="recommended")
    # The parts of the compound have to occur.
    words_apart = (
        "Die Haustür ist offen, und der Schlüssel ist weg.\n\n" if language == "de" else ""
    )
    world.ingest(lib.write("text.md", words_apart + text), language=language)

    found = world.search(query, mode=Mode.HYBRID, highlight=True, floor=0.0).passages

    shown = {word for one in found for word in marked(one.text, one.match)[1]}
    assert words <= shown
    assert not shown & {"the", "of", "Wo", "das", "dem", "der", "die"}


@proves("retrieval.fitted-passages")
def test_best_sentence_follows_the_language_of_the_passage(lib: LibraryFixture) -> None:
    world = lib.library.create_world("world", defaults="recommended")
    world.ingest(
        lib.write(
            "text.txt",
            "Die Kinder spielen dort, wo der Weg am Ufer endet. "
            "Auf dem Berg stehen viele alte Häuser. Der Hausmeister schläft.",
        ),
        language="de",
    )

    (found,) = world.search("Haus", mode=Mode.HYBRID, highlight=True, floor=0.0).passages

    assert marked(found.text, found.match) == ("Auf dem Berg stehen viele alte Häuser.", ["Häuser"])


@proves("retrieval.fitted-passages")
@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.VECTOR])
def test_text_language_is_named_if_it_differs_from_the_document(
    lib: LibraryFixture, mode: Mode
) -> None:
    world = lib.library.create_world("world", defaults="recommended")
    world.ingest(lib.write("english.txt", ENGLISH), language="en")
    world.ingest(lib.write("mixed.txt", GERMAN), language="en")

    found = {
        one.source: (one.language, one.text_language)
        for query in ("Häuser", "lamps")
        for one in world.search(query, mode=mode, floor=0.0).passages
    }
    notes = world.retrieve("Häuser", mode=mode).metadata.sources

    assert found == {"english.txt": ("en", None), "mixed.txt": ("en", "de")}
    assert {(one.source, one.text_language) for one in notes} <= {
        ("english.txt", None),
        ("mixed.txt", "de"),
    }


@proves("retrieval.fitted-passages")
def test_contract_worlds_detect_no_text_language(lib: LibraryFixture) -> None:
    world = lib.library.create_world("world", defaults="contract")
    world.ingest(lib.write("mixed.txt", GERMAN), language="en")

    (found,) = world.search("Häuser", floor=0.0).passages

    assert found.text_language is None
