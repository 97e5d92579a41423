"""Failures during reading: providers, the index, the store, and books that change."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.reading_worlds import CHUNKINGS, frozen, stored
from tests.support.sample_books import canaries, canary, plain_book
from tests.support.sample_texts import once
from tests.support.worlds import (
    LibraryFixture,
    MemoryIndex,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import IndexUnavailable, ProfileMismatch, ProviderUnavailable, StoreDamaged
from truespan.retrieval.pipeline import MAX_ATTEMPTS
from truespan.store.integrity.checksums import position_checksum
from truespan.types.bundle import BundleStatus, ContextBundle, WhyNot
from truespan.types.document import RevisionRef
from truespan.types.ids import hash_text
from truespan.types.request import Mode
from truespan.types.scope import Scope
from truespan.types.trust import Hit
from truespan.wire.serialize import to_json

QUERY = "the lamp by the harbour"


def reading(lib: LibraryFixture, sid: int, **options: Any) -> tuple[World, Reader]:
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(90)), kind="book", **options)
    reader = world.reader("ann")
    reader.set_position("book.md", sentence=sid)
    return world, reader


@proves("embedding.down-is-an-error", "bundle.error-without-chunks")
@pytest.mark.parametrize("part", ["query", "tail", "index"])
def test_failure_is_an_error_and_never_an_empty_success(lib: LibraryFixture, part: str) -> None:
    world, reader = reading(lib, 40)
    if part != "query":
        other = world.reader("bea")
        other.set_position("book.md", sentence=41)
        other.retrieve(QUERY)

    def fail(*_: Any, **__: Any) -> Any:
        raise ProviderUnavailable("The provider did not answer.")

    def silent(*_: Any, **__: Any) -> Any:
        raise IndexUnavailable("The index did not answer.")

    if part == "index":
        lib.index.search = silent
    else:
        lib.embedder.before = fail
    bundle = reader.retrieve(QUERY)

    assert bundle.status is BundleStatus.ERROR
    assert bundle.error is not None
    assert bundle.error.code == ("index" if part == "index" else "provider") + "_unavailable"
    assert bundle.error.retryable
    assert (bundle.retrieved_chunks, bundle.context, bundle.total_tokens) == ((), "", 0)


@proves("embedding.mismatch-before-search", "generation.model-change-reindexes")
@pytest.mark.parametrize(
    "changes", [{"model": "other"}, {"dimensions": 32}, {"revision": "2"}], ids=str
)
def test_another_model_is_an_error_before_any_search(
    tmp_path: Path, lib: LibraryFixture, changes: dict[str, Any]
) -> None:
    reading(lib, 40)
    other = WordEmbedder(profile=replace(other_profile(), **changes))
    again = make_library(tmp_path, index=lib.index, embedder=other)
    lib.index.calls.clear()

    bundle = again.library.world("world").reader("ann").retrieve(QUERY)

    assert bundle.error is not None
    assert bundle.error.code == ProfileMismatch.code
    assert (other.calls, lib.index.calls) == (0, [])


def replaced_during(lib: LibraryFixture, world: World, text: str) -> None:
    """Replace the book in the middle of the next request."""
    path = lib.write("book.md", text)
    lib.embedder.before = once(lambda: world.ingest(path, kind="book") and None)


@proves("reading.never-past-position", "reading.re-anchored")
@pytest.mark.parametrize("sid", [0, 12, 40, 88])
def test_book_replaced_during_a_request_shows_read_part(lib: LibraryFixture, sid: int) -> None:
    world, reader = reading(lib, sid)
    begun = plain_book(90)
    replaced_during(lib, world, begun[: begun.index(canary(20))] + "zq77777x. And zq77778x.")

    bundle: ContextBundle = reader.retrieve(QUERY)

    assert reader.position().sid == min(sid, 19)
    assert "zq77777x" not in frozen(bundle)
    assert frozen(bundle) == frozen(reader.retrieve(QUERY))


@proves("reading.re-anchored")
@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("call", ["positions", "anchor", "sentences", "passage", "keep_tail"])
def test_book_replaced_while_its_tail_is_built_is_not_damage(
    lib: LibraryFixture, call: str, chunking: str
) -> None:
    world, reader = reading(lib, 40, chunking=chunking)
    unread = stored(lib, world, 1).texts[60]
    path = lib.write("book.md", f"{unread} {plain_book(90)}")
    replacing = once(lambda: world.ingest(path, kind="book") and None)
    readers = lib.store.readers
    original = getattr(readers, call)

    def interrupted(*args: Any, **options: Any) -> Any:
        answer = original(*args, **options)
        replacing()
        return answer

    setattr(readers, call, interrupted)
    bundle = reader.retrieve(QUERY)

    assert bundle.error is None
    assert reader.position().sid == -1
    assert bundle.context == ""


@proves("reading.non-interference", "reading.every-surface")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_unread_damage_changes_no_byte(lib: LibraryFixture, chunking: str) -> None:
    world, reader = reading(lib, 40, chunking=chunking)
    before = [frozen(reader.retrieve(QUERY)), frozen(reader.retrieve("the night", top_k=2))]
    at = stored(lib, world, 1).sentences[41].start + 2

    lib.sql("DELETE FROM tails")
    lib.sql("DELETE FROM tail_marks")
    lib.sql("UPDATE texts SET text = substr(text, 1, ?) || '#' || substr(text, ?)", at, at + 2)
    lib.sql("UPDATE chunks SET text = 'zq99999x' WHERE text LIKE ?", f"%{canary(41)}%")

    after = [frozen(reader.retrieve(QUERY)), frozen(reader.retrieve("the night", top_k=2))]
    assert after == before


@proves("reading.never-past-position", "reading.re-anchored")
def test_position_applies_only_to_its_own_revision(tmp_path: Path) -> None:
    class Restless(MemoryIndex):
        """An index during whose searches the world changes; during one of them, the book."""

        searches = 0

        def search(self, *args: Any, **settings: Any) -> Any:
            Restless.searches += 1
            changing, self.__class__ = self.__class__, MemoryIndex  # type: ignore[assignment]
            if Restless.searches == last:
                world.ingest(lib.write("book.md", "Secret zq66666x lamp. " * 60), kind="book")
            else:
                world.ingest(lib.write("other.txt", f"Change {Restless.searches}."))
            self.__class__ = changing
            return super().search(*args, **settings)

    # The request is repeated when the world has changed; the answer to its last attempt stands.
    for last in (1, 2, MAX_ATTEMPTS - 1, MAX_ATTEMPTS):
        lib = make_library(tmp_path / str(last))
        world, reader = reading(lib, 50)
        Restless.searches = 0
        lib.index.__class__ = Restless

        bundle = reader.retrieve(QUERY)

        assert "zq66666x" not in frozen(bundle), last
        assert Restless.searches == last
        lib.library.close()


@proves("reading.tail", "verify.one-read")
@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("where", ["sentence", "between"])
def test_tampered_tail_is_damage_and_not_shown(lib: LibraryFixture, chunking: str, where: str):
    world, reader = reading(lib, 60, chunking=chunking)
    at = stored(lib, world, 1).sentences[60].start + (4 if where == "sentence" else -1)

    lib.sql("UPDATE texts SET text = substr(text, 1, ?) || '#' || substr(text, ?)", at, at + 2)
    bundle = reader.retrieve(QUERY)

    assert bundle.error is not None
    assert bundle.error.code == "store_damaged"
    assert "#" not in bundle.context


@proves("verify.one-read", "bundle.content-unaltered")
@pytest.mark.parametrize("asking", ["reader", "owner"])
def test_tampered_stored_chunk_is_never_shown(lib: LibraryFixture, asking: str) -> None:
    """Each request has its own library: skipped damage is repaired before the next request."""
    world, reader = reading(lib, 60)

    lib.sql("UPDATE chunks SET text = 'zq99999x' || substr(text, 9) WHERE position < 4")
    bundle = reader.retrieve(QUERY) if asking == "reader" else world.retrieve(QUERY, top_k=20)
    lib.library.close()

    assert "zq99999x" not in frozen(bundle)
    assert ("damaged_text", 4) in [(entry.code, entry.count) for entry in bundle.metadata.skipped]
    assert len(bundle.retrieved_chunks) > 3


class Boundless(MemoryIndex):
    """An index that returns hits of all books, read or not."""

    def search(self, scope: Scope, *args: Any, **options: Any) -> list[Hit]:
        whole = Scope(scope.authority, scope.world, scope.generation)
        return super().search(whole, *args, **options)


@proves("reading.current-book", "reading.non-interference")
@pytest.mark.parametrize("mode", [Mode.VECTOR, Mode.HYBRID])
@pytest.mark.parametrize("damaged", ["revision = 2", "revision = 1 AND position > 12"])
def test_damage_of_another_book_or_ahead_is_not_reported(tmp_path: Path, mode: Mode, damaged: str):
    lib = make_library(tmp_path, index=Boundless())
    world, reader = reading(lib, 60)
    world.ingest(lib.write("other.md", f"{QUERY} zq99999x. " * 40), kind="book")
    before = reader.retrieve(QUERY, top_k=20, mode=mode)

    lib.sql(f"UPDATE chunks SET text = '#' || substr(text, 2) WHERE {damaged}")
    bundle = reader.retrieve(QUERY, top_k=20, mode=mode)

    assert bundle.metadata.skipped == before.metadata.skipped == ()
    assert frozen(bundle) == frozen(before)


@proves("repair.missing-chunk")
@pytest.mark.parametrize("mode", Mode)
def test_state_changed_by_another_program_hides_nothing_for_long(
    tmp_path: Path, mode: Mode
) -> None:
    lib = make_library(tmp_path)
    _, reader = reading(lib, 60)
    before = frozen(reader.retrieve(QUERY, top_k=20, mode=mode))
    lib.sql("UPDATE states SET state = 'pending' WHERE position = 1")
    lib.library.close()

    lib = make_library(tmp_path, index=lib.index)
    reader = lib.library.world("world").reader("ann")
    damaged = reader.retrieve(QUERY, top_k=20, mode=mode)
    lib.library._repairs.close()

    assert damaged.metadata.skipped or frozen(damaged) == before
    assert frozen(reader.retrieve(QUERY, top_k=20, mode=mode)) == before


@proves("reading.never-past-position", "reading.re-anchored")
def test_position_in_another_revision_shows_nothing(lib: LibraryFixture) -> None:
    """The checksum of the position is right, but no revision of its number is active."""
    world, reader = reading(lib, 40)
    [(at,)] = lib.sql("SELECT updated_at FROM positions")
    own = position_checksum(lib.scope(world).world, "ann", RevisionRef(1, 2), 40, at)

    lib.sql("UPDATE positions SET revision = 2, checksum = ?", own)

    with raises_code("no_reading_position"):
        reader.position()
    assert reader.books() == []
    assert (reader.retrieve(QUERY).context, reader.notes.list()) == ("", [])


@proves("reading.never-past-position", "reading.re-anchored")
def test_damaged_position_stays_damaged_in_a_new_revision(lib: LibraryFixture) -> None:
    world, reader = reading(lib, 40)
    lib.sql("UPDATE positions SET sid = 80")

    world.ingest(lib.write("book.md", f"A preface was added. {plain_book(90)}"), kind="book")

    with pytest.raises(StoreDamaged):
        reader.position()
    bundle = reader.retrieve(QUERY)
    assert bundle.error is not None
    assert (bundle.error.code, bundle.context) == ("store_damaged", "")


@proves("reading.position-read-first")
def test_reasons_are_about_the_searched_position(lib: LibraryFixture) -> None:
    world, reader = reading(lib, 80)
    notes = reader.retrieve(QUERY, top_k=20).metadata.sources
    later = next(note.chunk_id for note in notes if 45 < note.last_sid < 70)
    reader.set_position("book.md", sentence=40)
    assert reader.why_not(later, QUERY, top_k=1).code is WhyNot.ABSENT

    # The reader reads on while the chunks of the search are read.
    moving = once(lambda: world.reader("ann").set_position("book.md", sentence=80) and None)
    store = lib.library._components.store
    original = store.chunks.read

    def read_chunks(*args: Any, **options: Any) -> Any:
        moving()
        return original(*args, **options)

    store.chunks.read = read_chunks

    assert reader.why_not(later, QUERY, top_k=1).code is WhyNot.ABSENT
    assert reader.why_not(later, QUERY, top_k=1).code is WhyNot.OUTRANKED


@proves("reading.tail")
def test_tampered_stored_tail_is_built_again(lib: LibraryFixture) -> None:
    _, reader = reading(lib, 60)
    before = frozen(reader.retrieve(QUERY))

    lib.sql("UPDATE tails SET text = text || ' Made up.'")

    assert frozen(reader.retrieve(QUERY)) == before
    assert lib.sql("SELECT count(*) FROM tails WHERE text LIKE '%Made up.%'") == [(0,)]


@proves("reading.tail", "reading.never-past-position")
@pytest.mark.parametrize("wrong", ["hash", "text", "last sentence"])
def test_stored_tail_is_compared_with_its_sentences(lib: LibraryFixture, wrong: str) -> None:
    """The checksum of the tail is right: it was written in this form."""
    world, reader = reading(lib, 60)
    reader.retrieve(QUERY)
    scope, store, ref = world.access.scope(), lib.library._components.store, RevisionRef(1, 1)
    assert scope is not None
    *others, last = store.readers.tail(scope, ref, 60) or []
    text = f"{last.text} Made up."
    changed = {
        "hash": replace(last, text_hash=hash_text(text)),
        "text": replace(last, text=text, text_hash=hash_text(text)),
        "last sentence": replace(last, last_sid=last.last_sid + 1),
    }[wrong]

    store.readers.keep_tail(scope, ref, 60, [*others, changed])
    bundle = reader.retrieve(QUERY)

    assert bundle.error is not None
    assert (bundle.error.code, bundle.context) == ("store_damaged", "")


@proves("reading.tail")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_tail_does_not_begin_at_a_damaged_chunk(lib: LibraryFixture, chunking: str) -> None:
    _, reader = reading(lib, 60, chunking=chunking)
    reader.retrieve(QUERY)
    tail = "SELECT position, start, finish, first_sid, last_sid, text FROM tails ORDER BY position"
    before = lib.sql(tail)

    lib.sql("DELETE FROM tails")
    lib.sql("DELETE FROM tail_marks")
    lib.sql(
        "UPDATE states SET first_sid = first_sid + 1, start = (SELECT e.start FROM sentences e "
        "WHERE e.revision = states.revision AND e.sid = states.first_sid + 1)"
    )
    reader.retrieve(QUERY)

    assert before
    assert lib.sql(tail) == before


@proves("reading.every-surface")
def test_last_sentence_is_checked_before_it_is_returned(lib: LibraryFixture) -> None:
    _, reader = reading(lib, 60)

    lib.sql("UPDATE texts SET text = replace(text, ?, 'zq99999x')", canary(60))

    with pytest.raises(StoreDamaged):
        reader.position()


@proves("reading.non-interference")
def test_damaged_reach_of_unread_chunks_changes_no_response(tmp_path: Path, lib: LibraryFixture):
    world, _ = reading(lib, 40)
    ahead = world.reader("bea")
    ahead.set_position("book.md", sentence=89)
    unread = [note.chunk_id for note in ahead.retrieve(QUERY, top_k=20).metadata.sources]

    def responses() -> list[str]:
        # Whoever opens the library now has nothing in memory of how it was.
        again = make_library(tmp_path, index=lib.index, embedder=lib.embedder)
        reader = again.library.world("world").reader("ann")
        found = [
            frozen(reader.retrieve(QUERY, mode=mode)) for mode in ("vector", "hybrid", "keyword")
        ]
        found += [to_json(reader.why_not(chunk, QUERY, top_k=1)) for chunk in unread]
        return found

    before = responses()
    lib.sql("UPDATE states SET reach = 0 WHERE reach > 40")
    assert responses() == before
    lib.sql("UPDATE states SET reach = 0, first_sid = 0, last_sid = 0 WHERE position > 8")
    assert responses() == before


@proves("reading.never-past-position", "verify.every-point")
def test_damaged_place_of_unread_chunks_shows_none_of_them(tmp_path: Path) -> None:
    class Unbounded(MemoryIndex):
        def search(self, scope: Scope, *args: Any, **options: Any) -> list[Hit]:
            return super().search(replace(scope, position=None), *args, **options)

    lib = make_library(tmp_path, index=Unbounded())
    _, reader = reading(lib, 40)

    lib.sql("UPDATE states SET reach = 0, first_sid = 0, last_sid = 0 WHERE reach > 40")
    bundle = reader.retrieve(QUERY, mode="vector")

    assert bundle.retrieved_chunks
    assert canaries(frozen(bundle)) <= {canary(sid) for sid in range(41)}
