"""Word scores of a reader depend on visible chunks and the tail only."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from tests.support.reading_worlds import CHUNKINGS, chunking_in, cut_from_scratch, frozen, stored
from tests.support.sample_books import plain_book
from tests.support.state_embedder import StateEmbedder
from tests.support.worlds import (
    DEFAULTS,
    LibraryFixture,
    MemoryIndex,
    WordCounter,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import StorageFull
from truespan.retrieval import fused
from truespan.retrieval.reading import book as reading
from truespan.retrieval.reading.candidates import FusedBookSearch
from truespan.types.bundle import ContextBundle
from truespan.types.chunk import ChunkRecord
from truespan.types.ids import ChunkId, TextHash
from truespan.types.profile import Distance
from truespan.types.request import Defaults, Mode
from truespan.types.scope import Scope
from truespan.types.vectors import Vector, similarities_of, similarity_of
from truespan.wire.serialize import to_json

QUERIES = ("who lit the lamp?", "zq00009x of the harbour", "the clock, the clock", "absent")
MISSPELT = "harbuor clokc"
LONG = "which garden, lamp, key, boat, night, clock, wood, lake, town and hill"
"""A query of enough words for feedback."""
FUSED = (Mode.HYBRID, Mode.KEYWORD)


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the candidates, so that their limit matters in small books."""
    monkeypatch.setattr(fused, "POOL", 6)


ASKED = [
    (query, mode, top_k)
    for number, query in enumerate((*QUERIES, MISSPELT, LONG))
    for place, mode in enumerate(FUSED)
    for top_k in in_test_or_prove((2, 20)[(number + place) % 2 :][:1], (2, 20))
]
"""Every query in both modes, for few and for many passages: in `make test` for either in turn."""


def answers(reader: Reader) -> list[str]:
    return [frozen(reader.retrieve(query, top_k=top_k, mode=mode)) for query, mode, top_k in ASKED]


def readers_at(world: World, sids: Sequence[int]) -> Iterator[tuple[int, Reader]]:
    for sid in sids:
        reader = world.reader(f"at {sid}")
        reader.set_position("1", sentence=sid)
        yield sid, reader


# The scores themselves


def bm25(texts: Sequence[str], query: str) -> list[float]:
    """Score texts in a language without a stemmer and stop words."""
    read = [re.findall(r"\w+", text.casefold()) for text in texts]
    average = sum(map(len, read)) / len(read)
    scores = [0.0] * len(read)
    for word, times in Counter(re.findall(r"\w+", query.casefold())).items():
        having = sum(word in text for text in read)
        rarity = math.log(1 + (len(read) - having + 0.5) / (having + 0.5))
        for number, text in enumerate(read):
            count = text.count(word)
            scale = 1.2 * (0.25 + 0.75 * len(text) / average)
            scores[number] += times * rarity * count * 2.2 / (count + scale) if count else 0.0
    return scores


@proves("reading.fused")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_scores_equal_those_of_a_book_ending_at_the_position(
    tmp_path: Path, chunking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "POOL", 100)
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    # Latin has no stemmer, so that words are what they look like.
    path = lib.write("book.md", plain_book(90))
    world.ingest(path, kind="book", chunking=chunking, language="la")
    book, limit = stored(lib, world, 1), lib.embedder.profile.input_limit
    profile, compared = chunking_in(world.defaults, chunking), 0
    for sid, reader in readers_at(world, range(0, 90, 11)):
        cut = cut_from_scratch(book, sid, profile, WordCounter(), limit)
        texts = [chunk[5] for chunk in cut]
        for query in QUERIES:
            expected = dict(zip([chunk[1] for chunk in cut], bm25(texts, query), strict=True))
            auto = scores_of(reader.retrieve(query, mode="hybrid"), book.canonical.text)
            words = scores_of(reader.retrieve(query, mode="keyword"), book.canonical.text)
            for start, score in (*auto, *words):
                assert score == pytest.approx(expected[start], abs=2e-6), (sid, query, start)
            having = sorted((score for score in expected.values() if score > 0), reverse=True)
            assert [score for _, score in words] == pytest.approx(having[:20], abs=2e-6)
            compared += len(words)

    assert compared > 50


def scores_of(bundle: ContextBundle, text: str) -> list[tuple[int, float]]:
    """Return the start and the word score of each result, in order."""
    found = zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True)
    return [(text.index(chunk.content), note.fused.bm25) for chunk, note in found if note.fused]


@proves("reading.fused")
def test_required_phrases_occur_in_every_result_of_a_reader(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    read = "The lamp was old. It was an old lamp.\n\nNobody lit the old lamp. It was lit.\n\n"
    text = f"{read * 3}{plain_book(30)}\n\nThe old lamp fell.\n\nThe old lamp broke."
    world.ingest(lib.write("book.md", text), kind="book", chunking="sentences", language="en")
    texts = stored(lib, world, 1).texts
    for sid, reader in readers_at(world, (2, 7, 20, 40)):
        for mode in FUSED:
            bundle = reader.retrieve('who lit "the old lamp"?', mode=mode)
            shown = [chunk.content.casefold() for chunk in bundle.retrieved_chunks]
            assert all("the old lamp" in content for content in shown)
            assert bool(shown) == any("the old lamp" in text for text in texts[: sid + 1])
    lib.sql("UPDATE chunks SET text = 'No lamp.' WHERE position = 0")
    [(_, reader)] = readers_at(world, [40])
    # Once only: the request starts a repair.
    damaged = reader.retrieve('who lit "the old lamp"?', mode=Mode.HYBRID)
    assert [entry.code for entry in damaged.metadata.skipped] == ["damaged_text"]
    assert all("the old lamp" in one.content.casefold() for one in damaged.retrieved_chunks)


@proves("reading.fused", "repair.stale-point")
def test_stale_point_is_repaired_without_changing_results(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", BEGINNING), kind="book")
    [(_, reader)] = readers_at(world, [25])
    before = reader.retrieve("zq00009x", mode="hybrid")
    points = lib.index._of(lib.scope(world))
    stale = next(id for id, point in points.items() if point.pos_reach <= 25)
    points[stale] = msgspec.structs.replace(points[stale], text_hash=TextHash("0" * 64))

    assert frozen(reader.retrieve("zq00009x", mode="hybrid")) == frozen(before)
    # The request starts a repair, which may be over by now: then the point is no longer stale.
    repairs = lib.store.chunks.repairs(lib.scope(world))
    repaired = stale not in points or points[stale].text_hash != TextHash("0" * 64)
    assert [repair.failure.chunk_id for repair in repairs] == [stale] or repaired


class Backwards(MemoryIndex):
    """An index that returns the last of equally close points first."""

    def search(self, *args: Any, limit: int, **options: Any) -> Any:
        found = super().search(*args, limit=10_000, **options)
        return sorted(found, key=lambda hit: (-round(hit.score, 6), -found.index(hit)))[:limit]


@proves("reading.fused")
@pytest.mark.parametrize("repeated", [False, True])
def test_results_after_candidates_ignore_the_number_of_hits(
    tmp_path: Path, repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = make_library(tmp_path, index=Backwards())
    world = lib.library.create_world("world")
    # Equal chunks are equally close: where they are in the book decides which of them follow.
    text = f"{plain_book(60)}\n\n" * 10 if repeated else plain_book(600)
    path = lib.write("book.md", text)
    world.ingest(path, kind="book", chunking="sentences", language="en")
    readers = dict(readers_at(world, (40, 300, 590)))

    verified, read = list[ChunkId](), list[TextHash]()
    read_chunks, read_vectors = lib.store.chunks.read, lib.store.chunks.vectors

    def note_chunks(
        scope: Scope, ids: Sequence[ChunkId], *, word_states: bool = False
    ) -> dict[ChunkId, ChunkRecord]:
        verified.extend(ids)
        return read_chunks(scope, ids, word_states=word_states)

    def note_vectors(scope: Scope, hashes: Sequence[TextHash]) -> dict[TextHash, Vector]:
        read.extend(hashes)
        return read_vectors(scope, hashes)

    monkeypatch.setattr(lib.store.chunks, "read", note_chunks)
    monkeypatch.setattr(lib.store.chunks, "vectors", note_vectors)

    def follow() -> tuple[list[str], list[ChunkId], int]:
        verified.clear()
        read.clear()
        bundles = [
            frozen(reader.retrieve(query, top_k=20, mode="hybrid", max_tokens=tokens))
            for reader in readers.values()
            for query in QUERIES
            for tokens in (60, 300, 4000)
        ]
        return bundles, [*verified], len(read)

    monkeypatch.setattr(reading, "SLACK", 1000)
    follow()  # Counts the words of the book, once.
    *expected, most = follow()
    for slack in range(1, 9, in_test_or_prove(3, 1)):
        monkeypatch.setattr(reading, "SLACK", slack)
        *found, count = follow()

        assert found == expected
        assert repeated or count < most


class Incomplete(MemoryIndex):
    """An index that has lost some points, or scores them too low."""

    lost = True

    def search(self, *args: Any, limit: int, **options: Any) -> Any:
        found = super().search(*args, limit=10_000, **options)
        if self.lost:
            return [hit for hit in found if int(hit.chunk_id[-1], 16) % 4][:limit]
        wrong = [
            hit
            if int(hit.chunk_id[-1], 16) % 4
            else msgspec.structs.replace(hit, score=hit.score / 2)
            for hit in found
        ]
        return sorted(wrong, key=lambda hit: -hit.score)[:limit]


@proves("reading.fused")
@pytest.mark.parametrize("lost", [True, False])
def test_wrong_index_does_not_repeat_a_chunk(
    tmp_path: Path, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Incomplete()
    index.lost = lost
    lib = make_library(tmp_path, index=index)
    world = lib.library.create_world("world")
    world.ingest(
        lib.write("book.md", plain_book(600)), kind="book", chunking="sentences", language="en"
    )
    monkeypatch.setattr(fused, "POOL", 6)
    tried: list[list[int]] = []
    verify, verify_best = FusedBookSearch.verify, fused.FusedSearch._verify_best

    def note_candidates(self: Any, candidates: Any) -> Any:
        tried[-1].extend(part.key for part in candidates)
        return verify(self, candidates)

    def note_call(self: Any, *args: Any) -> Any:
        tried.append([])
        return verify_best(self, *args)

    monkeypatch.setattr(FusedBookSearch, "verify", note_candidates)
    monkeypatch.setattr(fused.FusedSearch, "_verify_best", note_call)
    for reader in dict(readers_at(world, (300, 590))).values():
        for query in QUERIES:
            for tokens in (60, 300):
                reader.retrieve(query, top_k=20, mode="hybrid", max_tokens=tokens)

    assert any(len(places) > 20 for places in tried)
    assert [places for places in tried if len(set(places)) < len(places)] == []


@pytest.mark.parametrize("distance", Distance)
def test_similarity_does_not_depend_on_other_vectors(distance: Distance) -> None:
    rng = Random(5)
    vectors = [
        Vector(array("f", [rng.gauss(0, 0.05) for _ in range(384)]).tobytes()) for _ in range(70)
    ]
    query, *others = vectors
    alone = [similarities_of(query, [other], distance)[0] for other in others]
    for count in (0, 1, 2, 3, 8, 15, 16, 17, 69):
        assert similarities_of(query, others[:count], distance) == alone[:count]
    pairs = [similarity_of(query, other, distance) for other in others]
    assert alone == pytest.approx(pairs, abs=1e-12)


# What lies ahead


BEGINNING = plain_book(40)
ENDS = (
    "",
    "The harbour had a lamp. " * 60,
    " ".join(f"lamp{number} clock{number}" for number in range(400)) + ".",
    "Der Leuchtturmwärter zündete die Lampe an. " * 40,
    plain_book(60, 9),
    "港の灯は夜通し燃えていた。" * 60,
    "X.",
    f"The {MISSPELT} and the harbuors, harbuorn, clokcn. " * 20,
)
"""Rare words made common, others made rare, chunks longer and shorter, in other languages, and what
a misspelt word resembles more than anything before."""


@proves("reading.fused", "reading.non-interference")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_unread_words_do_not_change_a_fused_answer(tmp_path: Path, chunking: str) -> None:
    first: dict[int, list[str]] = {}
    for number, end in enumerate(ENDS):
        lib = make_library(tmp_path / f"{number}", embedder=few_dimensions())
        world = lib.library.create_world("world")
        world.ingest(lib.write("book.md", f"{BEGINNING}\n\n{end}"), kind="book", chunking=chunking)
        for sid, reader in readers_at(world, in_test_or_prove((1, 9, 39), (0, 1, 9, 24, 39))):
            told = [re.sub(world.id, "world", answer) for answer in answers(reader)]
            told = [re.sub(r'"chunk_id": "[^"]*"', "", answer) for answer in told]
            assert told == first.setdefault(sid, told), (end[:40], sid)
        lib.library.close()

    assert any('"blend"' in answer for answer in first[39])
    if DEFAULTS[-1] == "recommended":
        assert any('"similar_words"' in answer for answer in first[39])
        assert any('"feedback": 0.' in answer for answer in first[39])


def few_dimensions() -> WordEmbedder:
    """Return an embedder that gives equal similarities to many texts, so that ties decide."""
    return StateEmbedder(profile=other_profile(dimensions=3))


GERMAN = "Der Haustürschlüssel hing am Haken. Ada suchte den Schlüssel. Die Haustür war zu. "
GERMAN += " ".join(f"Im Kapitel {number} schlief der Regierungsotter." for number in range(20))
COMPOUNDS = ("Schlüssel Haustür", "Haustürschlüssel", "Regierungsotter Otter", "Türschlüsselbund")
GERMAN_ENDS = (
    "",
    "Der Otter der Regierung schlief. " * 30,
    "Ein Schlüsselbund, ein Autoschlüssel, ein Auto, ein Bund, ein Türschlüssel. " * 20,
    " ".join(f"Otter{letter}schlüssel Otter{letter}" for letter in "abcdefghijklmnop") + ".",
)


@proves("reading.fused", "reading.non-interference", "search.compounds")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_unread_compounds_do_not_change_an_answer(tmp_path: Path, chunking: str) -> None:
    first: dict[int, list[str]] = {}
    for number, end in enumerate(GERMAN_ENDS):
        lib = make_library(tmp_path / f"{number}", embedder=few_dimensions())
        world = lib.library.create_world("world", defaults="recommended")
        path = lib.write("book.md", f"{GERMAN}\n\n{end}")
        world.ingest(path, kind="book", chunking=chunking, language="de")
        for sid, reader in readers_at(world, (0, 2, 12, 22)):
            told = [
                re.sub(world.id, "world", frozen(reader.retrieve(query, top_k=20, mode=mode)))
                for query in COMPOUNDS
                for mode in FUSED
            ]
            told = [re.sub(r'"chunk_id": "[^"]*"', "", answer) for answer in told]
            assert told == first.setdefault(sid, told), (end[:40], sid)
        lib.library.close()

    # Without the front door, which comes last, the first word would be no compound.
    assert first[2] != first[0]


@proves("reading.fused", "reading.non-interference")
def test_language_of_unread_text_changes_no_stem(tmp_path: Path) -> None:
    read = "Harbours, lamps. Lighted lamps lighting harbours."
    ends = (
        "And the lamps were lighted there by the keeper of the house.",
        "Der Wärter zündete die Lampe an. ",
    )
    told = []
    for number, end in enumerate(ends):
        lib = make_library(tmp_path / f"{number}")
        world = lib.library.create_world("world")
        world.ingest(lib.write("book.txt", f"{read}\n\n{end * 50}"), kind="book")
        reader = world.reader("ann")
        reader.set_position("1", sentence=1)
        bundle = reader.retrieve("lamp light", mode="keyword")
        told.append([note.fused for note in bundle.metadata.sources])

    assert {document_language(tmp_path / f"{number}") for number in (0, 1)} == {"en", "de"}
    assert told[0] == told[1]


def document_language(folder: Path) -> str:
    return make_library(folder).library.world("world").documents.get("1").language


# Where words are not counted, or the counts are damaged


def damaged(lib: LibraryFixture, world: World) -> Iterator[str]:
    """Damage the stored words in every way, one after the other."""
    yield "as they are"
    for statement in (
        "DELETE FROM words",
        "DELETE FROM word_counts",
        "UPDATE word_counts SET recipe = '1'",
        "UPDATE word_counts SET texts = x'00'",
        "UPDATE word_counts SET lengths = CAST(x'0000000001000000' || substr(lengths, -8) AS BLOB)",
        "UPDATE words SET postings = CAST(x'000000000900' || substr(postings, -8) AS BLOB)",
        "UPDATE words SET postings = x''",
    ):
        if "DELETE" in statement:
            lib.sql("DELETE FROM words")
            lib.sql("DELETE FROM word_counts")
        else:
            lib.sql(statement)
        # Nothing is remembered of what was there.
        lib.store.catalogs._clear_words()
        yield statement


@proves("reading.fused")
def test_missing_or_damaged_counts_are_counted_again_for_one_book(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", BEGINNING), kind="book")
    world.ingest(lib.write("other.md", plain_book(50)), kind="book")
    [(_, reader)] = readers_at(world, [25])
    first: list[str] = []
    for state in damaged(lib, world):
        first = first or answers(reader)
        assert answers(reader) == first, state

    counted = lib.sql(
        "SELECT DISTINCT d.number FROM words w JOIN revisions r ON r.key = w.revision"
        " JOIN documents d ON d.key = r.document"
    )
    assert [row[0] for row in counted] == [1]


@proves("reading.fused", "reading.non-interference")
def test_unread_damage_does_not_change_a_fused_answer(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(80)), kind="book")
    [(_, reader)] = readers_at(world, [39])
    before = answers(reader)
    scores = scores_by_words(reader)
    for statement in (
        "UPDATE chunks SET text = 'the lamp of the harbour' WHERE position IN (SELECT position"
        " FROM states WHERE reach > 39)",
        "UPDATE states SET tokens = 1 WHERE reach > 39",
        "DELETE FROM chunks WHERE position = (SELECT max(position) FROM chunks)",
    ):
        lib.sql(statement)
        lib.store.catalogs._clear_words()
        assert answers(reader) == before, statement
    # A row that is damaged where it says what was read is not believed.
    lib.sql("UPDATE states SET reach = 0, last_sid = 0 WHERE reach > 39")
    lib.store.catalogs._clear_words()

    assert scores_by_words(reader) == scores


@proves("reading.fused")
def test_damaged_chunk_is_counted_once_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(80)), kind="book")
    [(_, reader)] = readers_at(world, [39])
    before, scores = answers(reader), scores_by_words(reader)
    scope, ref = lib.scope(world), stored(lib, world, 1).ref
    [(last,)] = lib.sql("SELECT max(position) FROM chunks")
    for damaged_chunk in (last, 1):
        [(text,)] = lib.sql("SELECT text FROM chunks WHERE position = ?", damaged_chunk)
        lib.sql("UPDATE chunks SET text = 'lamp' WHERE position = ?", damaged_chunk)
        lib.store.catalogs.forget_words(scope, [ref])
        told = scores_by_words(reader)
        # The other one was read, and takes part no more.
        assert (told == scores) == (damaged_chunk == last)
        lib.sql("UPDATE chunks SET text = ? WHERE position = ?", text, damaged_chunk)
        with monkeypatch.context() as patch:
            # What was counted is not counted again.
            patch.setattr(type(lib.store.catalogs), "keep_words", None)
            assert answers(reader) == before


def scores_by_words(reader: Reader) -> list[object]:
    bundles = (reader.retrieve(query, mode=mode) for query in QUERIES for mode in FUSED)
    return [note.fused for bundle in bundles for note in bundle.metadata.sources]


@proves("reading.fused")
def test_full_disk_does_not_prevent_keyword_search_by_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", BEGINNING), kind="book")
    [(_, reader)] = readers_at(world, [25])
    before = answers(reader)

    def full(*_: Any, **__: Any) -> None:
        raise StorageFull

    lib.sql("DELETE FROM word_counts")
    lib.store.catalogs._clear_words()
    monkeypatch.setattr(type(lib.store.catalogs), "keep_words", full)

    assert answers(reader) == before
    assert lib.sql("SELECT count(*) FROM word_counts") == [(0,)]


# An index that is wrong


class Deaf(MemoryIndex):
    """An index that ignores the position, for hits and for named chunks."""

    def search(self, scope: Any, *args: Any, **options: Any) -> Any:
        return super().search(
            Scope(scope.authority, scope.world, scope.generation), *args, **options
        )


@proves("reading.fused", "reading.non-interference")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_unread_hits_change_nothing_even_with_damaged_rows(tmp_path: Path, chunking: str) -> None:
    index = MemoryIndex()
    lib = make_library(tmp_path, index=index, embedder=few_dimensions())
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(80)), kind="book", chunking=chunking)
    world.ingest(lib.write("other.md", plain_book(50)), kind="book")
    readers = dict(readers_at(world, (5, 30, 52)))
    honest = {sid: answers(reader) for sid, reader in readers.items()}

    index.__class__ = Deaf
    assert {sid: answers(reader) for sid, reader in readers.items()} == honest
    lib.sql("UPDATE chunks SET text = 'lamp' WHERE position IN (SELECT position FROM states"
             " WHERE reach > 52)")  # fmt: skip

    assert {sid: answers(reader) for sid, reader in readers.items()} == honest


@proves("reading.fused")
def test_why_not_gives_one_reason_for_unread_chunks_in_every_mode(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(80)), kind="book")
    [(_, reader)] = readers_at(world, [39])
    known = reader.retrieve("zq00009x", mode="keyword").metadata.sources[0].chunk_id
    owners = world.search("zq00070x", floor=0.0, mode="keyword").passages[0].chunk_id
    for mode in Mode:
        reasons = [
            to_json(reader.why_not(chunk, "zq00009x", mode=mode, top_k=1))
            for chunk in (known, owners, "00000000-0000-5000-8000-000000000000")
        ]
        assert "returned" in reasons[0]
        assert reasons[1] == reasons[2]


@proves("reading.fused", "reading.dense-only")
def test_world_defaults_apply_to_reader_searches(tmp_path: Path) -> None:
    for defaults in Defaults:
        lib = make_library(tmp_path / defaults, defaults=defaults)
        world = lib.library.create_world("world")
        world.ingest(lib.write("book.md", plain_book(40)), kind="book")
        [(_, reader)] = readers_at(world, [25])
        unsaid = reader.retrieve("zq00009x of the harbour")
        mode = Mode.HYBRID if defaults is Defaults.RECOMMENDED else Mode.VECTOR
        assert frozen(unsaid) == frozen(reader.retrieve("zq00009x of the harbour", mode=mode))
        by_words = [note.fused is not None for note in unsaid.metadata.sources]
        assert set(by_words) == {defaults is Defaults.RECOMMENDED}
        lib.library.close()
