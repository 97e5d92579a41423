"""A reader's chunks equal those of the read part alone.

Stored chunks that do not depend on unread text, followed by the tail, must equal the chunks of the
sentences up to the position, as if the book ended there. The documents of the first tests have
sentences and chapters that begin anywhere; the others are books.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from msgspec.structs import replace

from tests.laws.examples import examples, in_test_or_prove
from tests.laws.texts import (
    DOCUMENTS,
    LIMITS,
    Document,
    count_words,
    measure,
    sentence_profiles,
    token_profiles,
    window_profiles,
    workbooks,
)
from tests.promises import proves
from tests.support.reading_worlds import (
    CHUNKINGS,
    Cut,
    as_cut,
    chunking_in,
    cut_from_scratch,
    stored,
    whole_chunks,
)
from tests.support.sample_books import FORMS, book
from tests.support.worlds import (
    LibraryFixture,
    ManualClock,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.engine.world import World
from truespan.ingest.draft import make_chunks, measure_sentences
from truespan.protocols import TokenCounter
from truespan.providers.local import LocalModel
from truespan.providers.token_counter import WordPieceCounter
from truespan.retrieval.reading.tail import TailMaker
from truespan.types.document import Draft, RevisionRef
from truespan.types.profile import ChunkingProfile
from truespan.types.scope import Scope
from truespan.types.source import DocumentKind
from truespan.types.text import TokenMap

_NUMBERS = count(1)


class Weigher:
    """The counter of these documents: a cut word may count more or less than the whole."""

    name = "weights-1"

    def measure(self, text: str) -> TokenMap:
        return measure(text)

    def count(self, text: str) -> int:
        return count_words(text)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LibraryFixture, World]]:
    lib = make_library(tmp_path_factory.mktemp("tails"))
    made = lib.library.create_world("world")
    made.ingest(lib.write("first.txt", "The first document locks the profile."))
    yield lib, made
    lib.library.close()


def staged(
    lib: LibraryFixture, scope: Scope, doc: Document, profile: ChunkingProfile
) -> RevisionRef:
    """Write a document as ingestion would; the laws of tails need no vectors of stored chunks."""
    measured = doc.measured
    spans = doc.chunk_spans(profile, scope.profile.input_limit)
    name = f"{next(_NUMBERS)}.txt"
    draft = Draft(
        doc_id=name, name=name, path=name, kind=DocumentKind.BOOK, title=name, language="en",
        language_declared=False, version="1.0", declared_title=None, tags=(), chunking=profile,
        source_hash=name, recipe="", canonical=doc.canonical,
        sentences=measure_sentences(measured),
        chunks=make_chunks(measured, spans),
    )  # fmt: skip
    [(ref, chunks)] = lib.store.documents.stage(scope, [draft]).items()
    # An ingestion continues with the chunks that staging returns, and a later run with stored ones.
    # If the vector of a text is stored, it is read.
    found = lib.store.chunks.pending(scope, ref, after=-1, limit=len(chunks) + 1)
    assert [replace(chunk, text="") for chunk in chunks] == [
        replace(chunk, text="", vector=None) for chunk in found
    ]
    return ref


def tail_maker(lib: LibraryFixture, scope: Scope, counter: TokenCounter) -> TailMaker:
    embedder = WordEmbedder(profile=scope.profile)
    parts = lib.library._components
    own = {"embedder": embedder, "others": {}, "counter": counter, "clock": ManualClock()}
    return TailMaker(replace(parts, store=lib.store, **own))


def scratch(doc: Document, position: int, profile: ChunkingProfile, limit: int) -> list[Cut]:
    short = doc.until(position)
    chunks = make_chunks(short.measured, short.chunk_spans(profile, limit))
    return [as_cut(chunk) for chunk in chunks]


def assert_tails(
    place_and_world: tuple[LibraryFixture, World],
    doc: Document,
    profile: ChunkingProfile,
    limit: int,
) -> None:
    """Compare at every position of a document."""
    if not doc.sentences:
        return
    lib, world = place_and_world
    generation = lib.scope(world).generation
    narrow = replace(generation, profile=other_profile(input_limit=limit))
    scope = replace(lib.scope(world), generation=narrow)
    ref = staged(lib, scope, doc, profile)
    maker = tail_maker(lib, scope, Weigher())
    for position in range(len(doc.sentences)):
        tail = maker.tail(scope, ref, position, profile)
        whole = whole_chunks(lib, world, ref, position)
        expected = scratch(doc, position, profile, limit)
        assert [*whole, *map(as_cut, tail)] == expected
        assert all(chunk.vector for chunk in tail)


lawful = examples(100, [HealthCheck.function_scoped_fixture])


@proves("reading.tail")
@lawful
@given(doc=DOCUMENTS, profile=window_profiles(), limit=LIMITS)
def test_windows_and_tail_equal_those_of_the_read_part(
    world: tuple[LibraryFixture, World], doc: Document, profile: ChunkingProfile, limit: int
) -> None:
    assert_tails(world, doc, profile, limit)


@proves("reading.tail")
@lawful
@given(doc=DOCUMENTS, profile=sentence_profiles(), limit=LIMITS)
def test_sentence_chunks_with_tail_equal_those_of_the_read_part(
    world: tuple[LibraryFixture, World], doc: Document, profile: ChunkingProfile, limit: int
) -> None:
    assert_tails(world, doc, profile, limit)


@proves("reading.tail")
@lawful
@given(doc=DOCUMENTS, profile=token_profiles(), limit=LIMITS)
def test_token_chunks_with_tail_equal_those_of_the_read_part(
    world: tuple[LibraryFixture, World], doc: Document, profile: ChunkingProfile, limit: int
) -> None:
    assert_tails(world, doc, profile, limit)


@proves("reading.tail")
@lawful
@given(doc=workbooks(), profile=window_profiles() | token_profiles(), limit=LIMITS)
def test_sheets_and_tail_equal_those_of_the_read_part(
    world: tuple[LibraryFixture, World], doc: Document, profile: ChunkingProfile, limit: int
) -> None:
    assert_tails(world, doc, profile, limit)


@proves("reading.tail", "reading.sid-arithmetic")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_reader_chunks_equal_those_of_the_read_part(
    tmp_path: Path, form: str, chunking: str
) -> None:
    profile = other_profile(input_limit=120)
    lib = make_library(tmp_path, embedder=WordEmbedder(profile=profile))
    counter = WordPieceCounter(LocalModel())
    parts = replace(lib.library._components, counter=counter)
    library = type(lib.library)(parts)
    made = library.create_world("world")
    made.ingest(lib.write(f"book.{form}", book(7, form, 24)), chunking=chunking)
    text, scope = stored(lib, made, 1), lib.scope(made)
    maker, cutting = tail_maker(lib, scope, counter), chunking_in(made.defaults, chunking)

    for position in range(0, len(text.sentences), in_test_or_prove(2, 1)):
        tail = maker.tail(scope, text.ref, position, cutting)
        whole = whole_chunks(lib, made, text.ref, position)
        expected = cut_from_scratch(text, position, cutting, counter, 120)
        assert [*whole, *map(as_cut, tail)] == expected
        for chunk in tail:
            assert 0 <= chunk.first_sid <= chunk.last_sid <= position
            assert chunk.tokens == counter.count(chunk.text)


@proves("reading.tail")
def test_repeated_request_embeds_no_tail(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.txt", book(3, "txt", 12)), kind="book")
    reader = world.reader("ann")
    reader.set_position("book.txt", sentence=9)
    lib.embedder.documents.clear()

    first = reader.retrieve("the lamp")
    cost = list(lib.embedder.documents)
    again = [reader.retrieve("the lamp"), reader.retrieve("another question")]
    other = world.reader("bea")
    other.set_position("book.txt", sentence=9)
    again.append(other.retrieve("the lamp"))

    kept = [row[0] for row in lib.sql("SELECT text FROM tails WHERE sid = 9")]
    assert sorted(cost) == sorted(kept)
    assert lib.embedder.documents == cost
    assert first.context
    assert all(bundle.context for bundle in again)
