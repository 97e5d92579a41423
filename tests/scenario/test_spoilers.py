"""Every sentence has a canary. No unread one may appear, whatever the index returns."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.reading_worlds import CHUNKINGS, frozen, stored
from tests.support.sample_books import FORMS, book, canaries, canary, first_seen, plain_book
from tests.support.worlds import (
    LibraryFixture,
    MemoryIndex,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.text.language import SAMPLE
from truespan.types.ids import ChunkId, TextHash
from truespan.types.request import Mode
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.wire.serialize import to_json

LENGTH = in_test_or_prove(72, 120)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Ids of worlds and chunks, which no two libraries share."""


class Liar(MemoryIndex):
    """An index that gets the whole request and ignores it as it likes."""

    lie: Callable[[list[Hit]], list[Hit]] = list

    def search(self, scope: Scope, vector: Any, *, limit: int, floor: Any) -> list[Hit]:
        everything = Scope(scope.authority, scope.world, scope.generation)
        return self.lie(super().search(everything, vector, limit=10_000, floor=None))


def unread_first(hits: list[Hit]) -> list[Hit]:
    return [replace(hit, score=1.0 - rank / 1e4) for rank, hit in enumerate(reversed(hits))]


def wrong_hashes(hits: list[Hit]) -> list[Hit]:
    return [replace(hit, text_hash=TextHash("0" * 64)) for hit in hits]


def swapped(hits: list[Hit]) -> list[Hit]:
    """Return each id with the hash and score of another chunk."""
    turned = [*hits[1:], *hits[:1]]
    return [replace(hit, chunk_id=other.chunk_id) for hit, other in zip(hits, turned, strict=True)]


def all_the_best(hits: list[Hit]) -> list[Hit]:
    return [replace(hit, score=1.0) for hit in hits]


def invented(hits: list[Hit]) -> list[Hit]:
    made_up = [Hit(ChunkId(f"{n:08}-0000-5000-8000-000000000000"), 1.0, hits[0].text_hash)
               for n in range(40)]  # fmt: skip
    return [*made_up, *hits]


def padded(hits: list[Hit]) -> list[Hit]:
    odd = [replace(hit, score=score) for hit in hits for score in (float("nan"), float("inf"), 9e9)]
    return [*odd, *hits, *hits]


LIES = [list, unread_first, wrong_hashes, swapped, all_the_best, invented, padded]


def told(reader: Reader, query: str) -> Iterator[str]:
    """Return everything that a reader can get, as serialized bytes."""
    for mode in (Mode.VECTOR, Mode.HYBRID):
        bundle = reader.retrieve(query, mode=mode)
        yield frozen(bundle)
        yield from (bundle.context, str(bundle), repr(bundle))
    page = reader.sentences(limit=1000)
    yield from (to_json(page), str(page), to_json(reader.sentences(offset=LENGTH // 2, limit=9)))
    yield to_json(reader.position())
    yield to_json(reader.books())


def kept(lib: LibraryFixture, sid: int) -> Iterator[str]:
    """Return the data that requests of a reader left in the store."""
    for row in lib.sql("SELECT text, chapter, section FROM tails WHERE sid = ?", sid):
        yield " ".join(str(value) for value in row)
    for row in lib.sql("SELECT key FROM query_cache"):
        yield row[0]


def opened(folder: Path, index: MemoryIndex, **options: Any) -> tuple[LibraryFixture, World]:
    lib = make_library(folder, index=index)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(LENGTH)), kind="book", **options)
    other = lib.library.create_world("other")
    other.ingest(lib.write("other/book.md", plain_book(40)), kind="book")
    return lib, world


def numbers(text: str) -> set[int]:
    return {int(found[2:-1]) for found in canaries(text)}


@proves(
    "reading.never-past-position",
    "reading.every-surface",
    "reading.truncated-before-model",
    "reading.partly-read-chunk",
)
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_unread_sentence_is_never_shown_stored_or_sent(tmp_path: Path, chunking: str) -> None:
    lib, world = opened(tmp_path, MemoryIndex(), chunking=chunking)
    texts = stored(lib, world, 1).texts
    reader = world.reader("ann")
    for sid in range(-1, LENGTH, in_test_or_prove(2, 1) if chunking == "sentences" else 7):
        reader.set_position("book.md", sentence=sid)
        lib.embedder.documents.clear()
        for query in (texts[min(sid + 1, LENGTH - 1)], texts[(sid + LENGTH) // 2]):
            for answer in told(reader, query):
                assert max(numbers(answer), default=-1) <= sid
        for text in (*kept(lib, sid), *lib.embedder.documents):
            assert max(numbers(text), default=-1) <= sid


@proves("reading.never-past-position", "reading.every-surface")
@pytest.mark.parametrize("first", [0, 4])
def test_lying_index_never_reveals_an_unread_sentence(tmp_path: Path, first: int):
    index = Liar()
    lib, world = opened(tmp_path, index)
    texts = stored(lib, world, 1).texts
    reader = world.reader("ann")
    for sid in range(-1, LENGTH, in_test_or_prove(2, 1)):
        reader.set_position("book.md", sentence=sid)
        lib.embedder.documents.clear()
        index.lie = LIES[(sid + first) % len(LIES)]
        for answer in told(reader, texts[min(sid + 1, LENGTH - 1)]):
            assert max(numbers(answer), default=-1) <= sid
        for text in (*kept(lib, sid), *lib.embedder.documents):
            assert max(numbers(text), default=-1) <= sid


@proves("reading.never-past-position")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_books_of_every_kind_reveal_no_canary(tmp_path: Path, form: str, chunking: str) -> None:
    lib = make_library(tmp_path, embedder=WordEmbedder(profile=other_profile(input_limit=60)))
    world = lib.library.create_world("world")
    world.ingest(lib.write(f"book.{form}", book(33, form, 40)), kind="book", chunking=chunking)
    held = stored(lib, world, 1)
    seen = first_seen(held.texts)
    reader = world.reader("ann")
    for sid in range(0, len(held.texts), in_test_or_prove(8, 4)):
        reader.set_position("1", sentence=sid)
        ahead = {found for found, first in seen.items() if first > sid}
        query = " ".join(held.texts[min(sid + 1, len(held.texts) - 1)].split()[:50])[:900]
        for answer in told(reader, query):
            assert not canaries(answer) & ahead
        read = held.canonical.text[: held.sentences[sid].end]
        for chunk in reader.retrieve(query).retrieved_chunks:
            assert chunk.content in read


@proves("reading.never-past-position", "reading.every-surface")
def test_why_not_treats_an_unread_chunk_as_missing(tmp_path: Path) -> None:
    lib, world = opened(tmp_path, MemoryIndex())
    reader, far = world.reader("ann"), world.reader("bea")
    reader.set_position("book.md", sentence=50)
    far.set_position("book.md", sentence=LENGTH - 1)
    ahead = [
        note for note in far.retrieve(canary(LENGTH - 10)).metadata.sources if note.last_sid > 50
    ]
    absent = to_json(reader.why_not("00000000-0000-5000-8000-000000000000", "the lamp"))

    asked = [note.chunk_id for note in ahead] + list(lib.points(world))

    assert len(ahead) > 3
    assert {to_json(reader.why_not(chunk, "the lamp")) for chunk in asked} == {absent}


@proves("reading.every-surface", "reading.no-state")
def test_error_reveals_nothing_unread(tmp_path: Path) -> None:
    lib, world = opened(tmp_path, MemoryIndex())
    reader = world.reader("ann")
    reader.set_position("book.md", sentence=50)
    lib.sql("DELETE FROM tails")
    lib.sql("UPDATE sentences SET text_hash = x'00' WHERE sid = 50")

    bundle = reader.retrieve(canary(60))

    assert bundle.error is not None
    assert canaries(frozen(bundle)) == set()
    assert "50" not in bundle.error.message


@proves("reading.never-past-position")
def test_language_of_unread_prose_changes_nothing_in_the_read_part(tmp_path: Path) -> None:
    code = "".join(f"total_{line} = values[{line}] * factor\n" for line in range(80))
    read = f"# Boote\n\nDie Boote lagen im Hafen.\n\n```\n{code}```\n\nDas Boot fuhr ab.\n\n"
    further = "\n\n```\ntotal = 0\n```\n"
    ends = (
        "Er ging langsam durch die dunklen Häuser und suchte nach seinen alten Booten. " * 40,
        "He walked slowly through the dark houses and looked for all of his old boats. " * 40,
        "Il marchait lentement dans les maisons sombres et cherchait ses vieux bateaux. " * 40,
    )
    found: list[list[str]] = []
    for number, end in enumerate(ends):
        lib = make_library(tmp_path / str(number))
        world = lib.library.create_world("world")
        world.ingest(lib.write("book.md", f"{read}{end}{further}"), kind="book")
        assert stored(lib, world, 1).canonical.text.index("Das Boot") > SAMPLE
        reader = world.reader("ann")
        reader.set_position("book.md", passage="Das Boot fuhr ab.")
        found.append(
            [
                UUID.sub("", frozen(reader.retrieve(query, mode=mode)))
                for query in ("das boot", "boote häuser", "totals of the values")
                for mode in Mode
            ]
        )

    assert found[0] == found[1] == found[2]
