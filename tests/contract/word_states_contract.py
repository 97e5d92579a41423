"""The contract of every store, part 5: states of words, removed with the vector of their text."""

from pathlib import Path

import pytest

from tests.contract.drafts import draft
from tests.contract.store_contract import built, shown
from tests.support.state_embedder import stored_states
from tests.support.worlds import LibraryFixture, make_library, other_profile, vector_of
from truespan.store.integrity import checksums
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId, TextHash, hash_text
from truespan.types.reading import TailChunk
from truespan.types.scope import OWNER, Scope
from truespan.types.vectors import ROW_BYTES, WordStates

FIRST, SECOND = "The first text.", "The second text."
HASHES = [hash_text(FIRST), hash_text(SECOND)]


def states_of(text: str) -> WordStates:
    return WordStates(hash_text(text).encode() * (ROW_BYTES // 32))


def show_with_states(
    lib: LibraryFixture, scope: Scope, text: str, doc_id: str = "doc-1"
) -> RevisionRef:
    ref = shown(lib, scope, text, doc_id)
    known = hash_text(text)
    lib.store.documents.keep_vectors(scope, {known: vector_of(text)}, {known: states_of(text)})
    return ref


def count_rows(lib: LibraryFixture) -> int:
    return lib.sql("SELECT count(*) FROM word_states")[0][0]


def read_with_chunks(lib: LibraryFixture, scope: Scope) -> dict[TextHash, WordStates | None]:
    ids = [ChunkId(found) for (found,) in lib.sql("SELECT chunk_id FROM states")]
    records = lib.store.chunks.read(scope, ids, word_states=True).values()
    assert all(record.is_intact() for record in records)
    return {chunk.text_hash: chunk.word_states for record in records if (chunk := record.chunk)}


class WordStatesContract:
    kind = "sqlite"

    @pytest.fixture
    def lib(self, tmp_path: Path) -> LibraryFixture:
        return make_library(tmp_path, store=self.kind)

    def test_states_are_read_in_their_world_and_profile(self, lib: LibraryFixture) -> None:
        scope, other = built(lib), built(lib, "other")
        show_with_states(lib, scope, FIRST)
        newer = Scope(
            OWNER,
            scope.world,
            lib.store.generations.add_generation(scope, other_profile(model="x"), None),
        )

        assert stored_states(lib.store, scope, HASHES) == {HASHES[0]: states_of(FIRST)}
        assert stored_states(lib.store, other, HASHES) == {}
        assert stored_states(lib.store, newer, HASHES) == {}
        assert read_with_chunks(lib, scope) == {HASHES[0]: states_of(FIRST)}
        assert (
            lib.store.worlds.status(scope).word_states,
            lib.store.worlds.status(other).word_states,
        ) == (1, 0)

    def test_states_of_texts_without_a_vector_are_not_stored(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        lib.store.documents.stage(scope, [draft(FIRST)])
        absent = TextHash(hash_text("Nowhere."))

        lib.store.word_states.keep(scope, {HASHES[0]: states_of(FIRST)})
        lib.store.documents.keep_vectors(scope, {absent: vector_of("x")}, {absent: states_of("x")})

        assert count_rows(lib) == 0

    def test_damaged_states_are_left_out_and_found(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        show_with_states(lib, scope, FIRST)
        show_with_states(lib, scope, SECOND, "doc-2")
        assert [*lib.store.word_states.flaws(scope)] == []

        lib.sql(f"UPDATE word_states SET states = x'00' WHERE text_hash = '{HASHES[0]}'")
        assert [*stored_states(lib.store, scope, HASHES)] == [HASHES[1]]
        assert read_with_chunks(lib, scope) == {HASHES[0]: None, HASHES[1]: states_of(SECOND)}
        [(found, seen)] = lib.store.word_states.flaws(scope)
        assert found == HASHES[0]
        assert [*lib.store.word_states.flaws(scope, HASHES[:1])] == [(found, seen)]
        assert [*lib.store.word_states.flaws(scope, HASHES[1:])] == []

        lib.store.word_states.forget(scope, [found])
        [(lacking, chunk_id)] = lib.store.word_states.lacking(scope, after=TextHash(""), limit=9)
        assert lacking == found
        assert lib.store.chunks.read(scope, [chunk_id])[chunk_id].recorded_hash == found
        assert lib.store.word_states.lacking(scope, after=found, limit=9) == []
        lib.store.word_states.keep(scope, {found: states_of(FIRST)})
        assert len(stored_states(lib.store, scope, HASHES)) == 2

    def test_states_of_another_recipe_are_computed_again(
        self, lib: LibraryFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scope = built(lib)
        show_with_states(lib, scope, FIRST)
        monkeypatch.setattr(checksums, "RECIPE", "other")

        assert stored_states(lib.store, scope, HASHES) == {}
        assert [found for found, _ in lib.store.word_states.flaws(scope)] == HASHES[:1]

    def test_swapped_states_are_not_trusted(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        show_with_states(lib, scope, FIRST)
        show_with_states(lib, scope, SECOND, "doc-2")
        rows = dict(lib.sql("SELECT text_hash, checksum FROM word_states"))
        first = bytes(rows[HASHES[0]]).hex()
        literal = f"x'{first}'" if self.kind == "sqlite" else f"decode('{first}', 'hex')"
        lib.sql(f"UPDATE word_states SET checksum = {literal} WHERE text_hash = '{HASHES[1]}'")

        assert [*stored_states(lib.store, scope, HASHES)] == [HASHES[0]]

    def test_states_are_removed_with_the_last_revision_of_the_text(
        self, lib: LibraryFixture
    ) -> None:
        scope = built(lib)
        first = show_with_states(lib, scope, FIRST)
        again = show_with_states(lib, scope, FIRST, "doc-2")
        for ref in (first, again):
            assert count_rows(lib) == 1
            lib.store.documents.tombstone(scope, ref.document)
            lib.store.documents.purge(scope, ref)
        assert count_rows(lib) == 0

    def test_states_of_a_tail_are_removed_with_its_revision(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, FIRST)
        known = TextHash(hash_text("The first"))
        chunk = TailChunk(
            index=0, part=0, start=0, end=9, first_sid=0, last_sid=0, text="The first",
            text_hash=known, tokens=2, chapter="One", section=None,
        )  # fmt: skip
        lib.store.readers.keep_tail(scope, ref, 0, [chunk])
        lib.store.documents.keep_vectors(
            scope, {known: vector_of("The first")}, {known: states_of("x")}
        )
        assert [*stored_states(lib.store, scope, [known])] == [known]
        # Texts of tails are computed again by the reader, not by a repair.
        assert known not in dict(lib.store.word_states.lacking(scope, after=TextHash(""), limit=9))

        lib.store.documents.tombstone(scope, ref.document)
        lib.store.documents.purge(scope, ref)
        assert count_rows(lib) == 0

    def test_states_are_removed_with_vectors_generations_and_worlds(
        self, lib: LibraryFixture
    ) -> None:
        scope, other = built(lib), built(lib, "other")
        ref = show_with_states(lib, scope, FIRST)
        show_with_states(lib, other, FIRST)
        lib.store.scrub.forget_vectors(scope, HASHES[:1])
        assert count_rows(lib) == 1

        newer = Scope(
            OWNER,
            scope.world,
            lib.store.generations.add_generation(scope, other_profile(model="x"), None),
        )
        lib.store.revisions.write_chunks(newer, ref, draft(FIRST).chunks)
        lib.store.documents.keep_vectors(
            newer, {HASHES[0]: vector_of(FIRST)}, {HASHES[0]: states_of(FIRST)}
        )
        assert count_rows(lib) == 2
        lib.store.generations.retire_generation(newer)
        lib.store.generations.remove_generation(newer)
        assert count_rows(lib) == 1

        removed = lib.store.erasures.delete_world(OWNER, other.world, erase=False)
        assert removed["word_states"] == removed["vectors"] == 1
        assert count_rows(lib) == 0
