"""A reader at a position that is not recorded gets the bytes of one where it is."""

from pathlib import Path

from tests.promises import proves
from tests.support.reading_worlds import frozen
from tests.support.sample_books import canary, plain_book
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.types.request import Mode
from truespan.wire.serialize import to_json

LENGTH, READ = 60, 24
SIDS = (-1, 0, 11, READ, READ + 1, LENGTH - 2)


def shelf(folder: Path) -> tuple[LibraryFixture, World]:
    lib = make_library(folder)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(LENGTH)), kind="book")
    world.ingest(lib.write("other.md", "The lamp of the harbour. It was lit."), kind="book")
    world.reader("ann").set_position("other.md", sentence=0)
    world.reader("ann").set_position("book.md", sentence=READ)
    return lib, world


def everything(reader: Reader) -> list[str]:
    """Return everything that a reader gets from a book, as serialized bytes."""
    queries = ("who was seen by the harbour?", canary(30), canary(5))
    bundles = [reader.retrieve(text, mode=mode, top_k=3) for text in queries for mode in Mode]
    pages = [to_json(reader.sentences(offset=first, limit=9)) for first in (0, 9, 1000)]
    chunks = [chunk.chunk_id for bundle in bundles for chunk in bundle.retrieved_chunks]
    reasons = [to_json(reader.why_not(chunk, queries[0], top_k=1)) for chunk in chunks[:3]]
    answer = reader.answer(queries[0])
    said = [answer.answer, to_json(answer.citations)]
    return [*map(frozen, bundles), *pages, *reasons, *said, to_json(reader.position())]


@proves("reading.non-interference", "reading.never-past-position")
def test_preview_equals_recorded_position_and_records_nothing(tmp_path: Path) -> None:
    lib, world = shelf(tmp_path)
    stored = "SELECT * FROM positions", "SELECT * FROM readers"
    before = [lib.sql(rows) for rows in stored]
    ann = world.reader("ann")

    previews = [everything(ann.at_position(None, sid)) for sid in SIDS]
    fresh = [everything(world.reader("bea").at_position("book.md", sid)) for sid in SIDS]

    assert [lib.sql(rows) for rows in stored] == before
    assert ann.position().sid == READ
    assert [place.sid for place in ann.at_position(None, 3).books()] == [3]
    for sid, preview, first in zip(SIDS, previews, fresh, strict=True):
        ann.set_position("book.md", sentence=sid)
        recorded = everything(ann)
        assert preview == recorded, sid
        assert first == recorded, sid
