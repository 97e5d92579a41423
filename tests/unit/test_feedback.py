"""Feedback: the candidates of a long query, compared with the best of them."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.worlds import LibraryFixture, MemoryIndex, make_library, vector_of
from tests.unit.test_fused import sources
from truespan.engine.world import World
from truespan.errors import StoreBusy
from truespan.extensions.quality.golden import Expected, GoldenQuery
from truespan.retrieval.fused import MIN_FEEDBACK_WORDS, compare_with_best
from truespan.testing import WordEmbedder
from truespan.types.bundle import SearchResult
from truespan.types.ids import TextHash, hash_text
from truespan.types.request import RankPart
from truespan.types.scope import Scope
from truespan.types.vectors import Vector, mean_of

SHORT = "lamp keeper harbour storm"
LONG = f"{SHORT} signal tower coast winter vessel crew"
BEST = "Aurora: the keeper lit the lamp of the harbour tower in the winter storm."
FAR = "Bergamot: the crew of the vessel saw the coast and the coast."
TEXTS = {
    "a__txt": BEST,
    "b__txt": "Aurora: a lamp of the tower is a signal to the harbour in a winter storm.",
    "c__txt": "Aurora: a keeper of the tower saw the storm, the signal and the winter harbour.",
    "far__txt": FAR,
    "near__txt": "Aurora: the crew of the vessel left the coast.",
}
"""The first three have most words of the query, and the topic of the last one."""


class Topics(WordEmbedder):
    """A provider with two topics, both equally close to the query."""

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        query = vector_of("query")
        topics = [vector_of(text.partition(":")[0]) for text in texts]
        return [
            mean_of([query, query, topic, topic, vector_of(text)])
            for text, topic in zip(texts, topics, strict=True)
        ]

    def embed_query(self, text: str) -> Vector:
        return vector_of("query")


def fill(folder: Path, **options: Any) -> tuple[LibraryFixture, World]:
    lib = make_library(folder, embedder=Topics(), **options)
    return lib, lib.world(**TEXTS)


def feedback(found: SearchResult) -> list[float | None]:
    return [one.fused.feedback if one.fused else None for one in found.passages]


def without_feedback(world: World) -> World:
    components = replace(world.access.components, without=frozenset({RankPart.FEEDBACK}))
    return World(replace(world.access, components=components))


@contextmanager
def counting_vectors(lib: LibraryFixture) -> Iterator[list[TextHash]]:
    read, original = list[TextHash](), lib.store.chunks.vectors

    def note(scope: Scope, hashes: Sequence[TextHash]) -> dict[TextHash, Vector]:
        read.extend(hashes)
        return original(scope, hashes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lib.store.chunks, "vectors", note)
        yield read


class CountingIndex(MemoryIndex):
    searches = 0

    def search_with(self, *args: Any, **options: Any) -> Any:
        self.searches += 1
        return super().search_with(*args, **options)


@pytest.mark.recommended
def test_long_query_ranks_chunks_close_to_the_best_higher(tmp_path: Path) -> None:
    _, world = fill(tmp_path)
    found, plain = (one.search(LONG, floor=0.0) for one in (world, without_feedback(world)))
    assert sources(found)[3:] == ["near.txt", "far.txt"]
    assert sources(plain)[3:] == ["far.txt", "near.txt"]
    *_, near, far = feedback(found)
    assert near is not None
    assert far is not None
    assert far < near
    assert feedback(plain) == [None] * 5


@pytest.mark.recommended
def test_short_query_reads_no_vector_and_searches_once(tmp_path: Path) -> None:
    index = CountingIndex()
    lib, world = fill(tmp_path, index=index)
    almost = " ".join(LONG.split()[: MIN_FEEDBACK_WORDS - 1])
    for query, has_feedback in ((SHORT, False), (almost, False), (LONG, True)):
        index.searches = 0
        with counting_vectors(lib) as read:
            found = world.search(query, floor=0.0)
        assert (any(feedback(found)), bool(read)) == (has_feedback, has_feedback)
        assert index.searches == 1


@pytest.mark.contract
def test_contract_world_has_no_feedback(tmp_path: Path) -> None:
    lib, world = fill(tmp_path)
    with counting_vectors(lib) as read:
        assert feedback(world.search(LONG, floor=0.0, mode="hybrid")) == [None] * 5
    assert read == []


def test_keyword_mode_has_no_feedback(tmp_path: Path) -> None:
    _, world = fill(tmp_path)
    assert not any(feedback(world.search(LONG, floor=0.0, mode="keyword")))


@pytest.mark.recommended
def test_chunk_that_fails_verification_gives_no_feedback(tmp_path: Path) -> None:
    lib, world = fill(tmp_path)
    before = feedback(world.search(LONG, floor=0.0))
    lib.sql(f"UPDATE chunks SET text = 'A forgery.' WHERE text_hash = '{hash_text(BEST)}'")
    found = world.search(LONG, floor=0.0)
    assert "a.txt" not in sources(found)
    assert None not in feedback(found)
    # The third of the best is another text now.
    assert not {*feedback(found)} <= {*before}


@pytest.mark.recommended
def test_chunk_with_a_damaged_vector_gains_nothing(tmp_path: Path) -> None:
    lib, world = fill(tmp_path)
    lib.sql(f"UPDATE vectors SET checksum = x'00' WHERE text_hash = '{hash_text(BEST)}'")
    found = world.search(LONG, floor=0.0)
    gained = dict(zip(sources(found), feedback(found), strict=True))
    assert gained.pop("a.txt") is None
    assert all(gained.values())


FILLER = "Then nothing else was said about anything by anyone at all. " * 20
BOOK = f"{BEST} {FILLER}{FAR} {FILLER}{TEXTS['near__txt']} The end."


@pytest.mark.recommended
def test_reader_has_feedback_from_chunks_and_the_tail(tmp_path: Path) -> None:
    reader = make_library(tmp_path, embedder=Topics()).world(book__txt=BOOK).reader("ana")
    reader.set_position("book.txt", sentence=42)
    notes = reader.retrieve(LONG, book="book.txt").metadata.sources
    assert len(notes) > 2
    assert all(note.fused and note.fused.feedback for note in notes)
    short = reader.retrieve(SHORT, book="book.txt").metadata.sources
    assert not any(note.fused and note.fused.feedback for note in short)


@pytest.mark.recommended
def test_reader_has_feedback_for_a_tail_that_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = make_library(tmp_path, embedder=Topics())
    reader = lib.world(book__txt=BOOK).reader("ana")
    reader.set_position("book.txt", sentence=42)

    def fail(*_: object, **__: object) -> None:
        raise StoreBusy

    monkeypatch.setattr(lib.store.documents, "keep_vectors", fail)
    notes = reader.retrieve(LONG, book="book.txt").metadata.sources
    assert len(notes) > 2
    assert all(note.fused and note.fused.feedback for note in notes)


@pytest.mark.recommended
def test_reader_has_no_feedback_from_a_damaged_chunk(tmp_path: Path) -> None:
    lib = make_library(tmp_path, embedder=Topics())
    reader = lib.world(book__txt=BOOK).reader("ana")
    reader.set_position("book.txt", sentence=42)

    def gains() -> set[float | None]:
        notes = reader.retrieve(LONG, book="book.txt").metadata.sources
        return {note.fused.feedback for note in notes if note.fused}

    before = gains()
    lib.sql("UPDATE chunks SET text = 'A forgery.' WHERE text LIKE 'Aurora: the keeper%'")
    # Only the first request meets the damage: then it is repaired.
    after = gains()
    assert after
    assert not after <= before


def test_copies_of_a_text_are_one_source_of_feedback() -> None:
    one, two, three, four = (
        Vector(array("f", [float(place == own) for place in range(4)]).tobytes())
        for own in range(4)
    )
    assert compare_with_best([]) == []
    assert compare_with_best([one]) == [1.0]
    found = compare_with_best([one, one, one, two, three, four])
    assert found == pytest.approx([3**-0.5] * 5 + [0.0], abs=1e-6)


@pytest.mark.recommended
def test_evaluation_can_leave_feedback_out(tmp_path: Path) -> None:
    _, world = fill(tmp_path)
    golden = [GoldenQuery("near", LONG, (Expected("near.txt"),))]

    def reciprocal_rank(*parts: str) -> float | None:
        return world.evaluation.run(golden, without=parts).totals.metrics.reciprocal_rank

    assert reciprocal_rank() == 1 / 4
    assert reciprocal_rank("feedback") == 1 / 5
