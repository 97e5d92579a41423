"""The contract of every store, part 1: worlds, generations, documents, chunks and readers.

A test module for an adapter derives a class from `StoreContract` and says which `kind` it is.
"""

import threading
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.drafts import draft
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.sample_texts import story
from tests.support.worlds import WORDS, LibraryFixture, make_library, other_profile, vector_of
from truespan.errors import StoreDamaged
from truespan.types.chunk import ChunkKind, FigureMark, NewChunk
from truespan.types.document import Derived, RevisionRef
from truespan.types.ids import ChunkId, TextHash, WorldId, hash_text
from truespan.types.maintenance import ErasureKind
from truespan.types.reading import TailChunk
from truespan.types.scope import OWNER, Authority, Generation, Scope, Verb
from truespan.types.text import CanonicalText
from truespan.types.text import Place as Section

NOBODY = WorldId("00000000-0000-4000-8000-00000000dead")


def only(lib: LibraryFixture, scope: Scope) -> RevisionRef:
    document = lib.store.documents.all(scope)[0]
    assert document.active is not None
    return RevisionRef(document.number, document.active)


def built(lib: LibraryFixture, name: str = "world") -> Scope:
    world = lib.store.worlds.create(OWNER, name)
    begun = lib.store.worlds.begin_generation(OWNER, world.id, WORDS)
    assert begun.generation is not None
    return Scope(OWNER, world.id, begun.generation)


def shown(
    lib: LibraryFixture, scope: Scope, text: str, doc_id: str = "doc-1", **labels
) -> RevisionRef:
    """Stage, embed and activate one revision, as an ingestion does."""
    [ref] = lib.store.documents.stage(scope, [draft(text, doc_id, **labels)])
    lib.store.documents.keep_vectors(scope, {hash_text(text): vector_of(text)})
    chunks = lib.store.chunks.pending(scope, ref, after=-1, limit=10)
    lib.store.documents.mark_embedded(scope, chunks)
    assert lib.store.documents.activate(scope, [ref]) == [ref]
    return ref


class StoreContract:
    kind = "sqlite"

    @pytest.fixture
    def lib(self, tmp_path: Path) -> LibraryFixture:
        return make_library(tmp_path, store=self.kind)

    def test_names_are_unique_and_worlds_are_found_by_name_or_id(self, lib: LibraryFixture) -> None:
        made = lib.library.create_world("one")

        with raises_code("world_exists"):
            lib.library.create_world("one")

        assert lib.library.world(made.id).name == "one"
        assert lib.library.world("one").id == made.id
        assert lib.store.worlds.find(OWNER, "two") is None
        assert lib.store.worlds.find(OWNER, made.id.upper()) is None

    def test_world_name_is_found_in_both_unicode_forms(self, lib: LibraryFixture) -> None:
        composed, decomposed = "caf\u00e9", "cafe\u0301"
        world = lib.library.create_world(decomposed)

        assert world.name == composed
        assert lib.library.world(decomposed).id == lib.library.world(composed).id == world.id
        with raises_code("world_exists"):
            lib.library.create_world(composed)

    def test_world_name_is_found_with_spaces_around_it(self, lib: LibraryFixture) -> None:
        made = lib.library.create_world(" harbour ")
        for name in ("harbour", "harbour ", " harbour"):
            assert lib.library.world(name).id == lib.library.world(name, create=True).id == made.id

    def test_cached_world_name_leads_to_the_current_world(self, lib: LibraryFixture) -> None:
        store = lib.store
        first, other = (store.worlds.create(OWNER, name).id for name in ("one", "two"))
        allowed = Authority(frozenset({first}), frozenset({Verb.READ}))

        def ids(name: str) -> list[str | None]:
            found = [store.worlds.find(authority, name) for authority in (OWNER, allowed)]
            return [world and world.id for world in found]

        assert ids("one") == ids("one") == [first, first]
        assert ids("two") == ids("two") == [other, None]
        # As if another process had reused both names.
        store.worlds._ids_by_name.update({"one": other, "two": first})
        assert (ids("one"), ids("two")) == ([first, first], [other, None])
        store.erasures.delete_world(OWNER, first, erase=False)
        assert ids("one") == [None, None]
        again = store.worlds.create(OWNER, "one").id
        assert ids("one") == [again, None]

    def test_worlds_are_listed_by_name_within_the_authority(self, lib: LibraryFixture) -> None:
        made = {name: lib.store.worlds.create(OWNER, name).id for name in ("b", "Ä", "a", "B")}
        reader = Authority(frozenset({made["a"]}), frozenset({Verb.READ}))

        assert [world.name for world in lib.store.worlds.all(OWNER)] == ["B", "a", "b", "Ä"]
        assert [world.name for world in lib.store.worlds.all(reader)] == ["a"]
        assert lib.store.worlds.find(reader, "b") is None
        with raises_code("world_not_found"):
            lib.store.worlds.create(reader, "c")

    @proves("authority.only-narrows")
    def test_every_read_is_bound_to_the_world_of_its_scope(self, lib: LibraryFixture) -> None:
        one = lib.world("one", a__txt="The harbour light.")
        two = lib.world("two", a__txt="The garden wall.")
        mine, theirs = lib.scope(one), lib.scope(two)
        ids = lib.store.documents.chunk_ids(theirs, only(lib, theirs))

        assert lib.store.chunks.read(mine, ids) == {}
        assert lib.store.chunks.locate(mine, ids) == {}
        assert lib.store.readers.sentences_of_chunks(mine, {(ids[0], 0)}) == {}
        assert [*lib.store.chunks.locate(theirs, ids)] == ids
        assert [*lib.store.readers.sentences_of_chunks(theirs, {(ids[0], 0)})] == [(ids[0], 0)]
        assert lib.store.documents.canonical_text(mine, 1) == "The harbour light."
        lib.store.chunks.mark_pending(mine, ids)
        lib.store.chunks.rebuild(mine, ids[0])
        assert lib.sql("SELECT count(*) FROM states WHERE state = 'embedded'") == [(2,)]
        gone = Scope(OWNER, NOBODY, mine.generation)
        for call in (
            lambda: lib.store.documents.all(gone),
            lambda: lib.store.documents.stage(gone, []),
            lambda: lib.store.documents.tombstone(gone, 1),
            lambda: lib.store.worlds.status(gone),
            lambda: lib.store.records.keep_probes(gone, {}),
            lambda: lib.store.jobs.add(gone, "ingest", "{}", "p"),
        ):
            with raises_code("world_not_found"):
                call()

    def test_documents_are_listed_by_scope_and_ids(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        for name in ("doc-1", "doc-2", "doc-3"):
            shown(lib, scope, f"The text of {name}.", name)
        shown(lib, built(lib, "other"), "The text of another doc-2.", "doc-2")

        def listed(asked: Scope, named: list[str] | None = None) -> list[str]:
            return [found.doc_id for found in lib.store.documents.all(asked, named=named)]

        assert listed(scope) == ["doc-1", "doc-2", "doc-3"]
        assert listed(scope, ["doc-3", "doc-2", "doc-9"]) == ["doc-2", "doc-3"]
        assert listed(scope, []) == []
        assert listed(scope.narrow(documents=[3, 1])) == ["doc-1", "doc-3"]
        assert listed(scope.narrow(documents=[])) == []
        assert listed(scope.narrow(documents=[1, 2]), ["doc-2", "doc-3"]) == ["doc-2"]

    def test_content_owners_are_documents_of_the_world(self, lib: LibraryFixture) -> None:
        scope, other = built(lib), built(lib, "other")
        shown(lib, scope, "The harbour light.", "doc-1")
        shown(lib, scope, "The harbour light.", "doc-2")
        shown(lib, other, "The harbour light.", "doc-3")
        source_hash = hash_text("source of The harbour light.")

        assert lib.store.documents.content_owners(scope, source_hash) == ["doc-1", "doc-2"]
        assert lib.store.documents.content_owners(other, source_hash) == ["doc-3"]
        assert lib.store.documents.content_owners(scope, hash_text("")) == []
        lib.store.documents.tombstone(scope, 1)
        assert lib.store.documents.content_owners(scope, source_hash) == ["doc-2"]

    def test_chosen_sentences_have_checked_places(self, lib: LibraryFixture) -> None:
        scope, other = built(lib), built(lib, "other")
        ref = shown(lib, scope, "The harbour light.")
        [chunk] = lib.store.documents.chunk_ids(scope, ref)

        [(key, found)] = lib.store.readers.sentences_of_chunks(
            scope, {(chunk, 0), (chunk, 1)}
        ).items()

        assert key == (chunk, 0)
        assert (found.place, found.page) == (Section("One", "Two"), 1)
        assert lib.store.readers.sentences_of_chunks(other, {(chunk, 0)}) == {}
        lib.sql("UPDATE pages SET page = 2")
        with pytest.raises(StoreDamaged):
            lib.store.readers.sentences_of_chunks(scope, {(chunk, 0)})

    def test_missing_chunks_are_limited_to_the_scope(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        first = shown(lib, scope, "The harbour light.")
        second = shown(lib, scope, "The garden wall.", "doc-2")
        newer = replace(scope, generation=lib.store.generations.add_generation(scope, WORDS, None))

        assert lib.store.revisions.missing_chunks(newer) == [first, second]
        assert lib.store.revisions.missing_chunks(newer.narrow(documents=[second.document])) == [
            second
        ]
        assert lib.store.revisions.missing_chunks(newer.narrow(documents=[])) == []

    @proves("authority.only-narrows")
    def test_reader_cannot_write_or_create_worlds(self, lib: LibraryFixture, tmp_path: Path):
        world = lib.world(a__txt="The harbour light.")
        reader = Authority(frozenset({WorldId(world.id)}), frozenset({Verb.READ}))
        guest = make_library(tmp_path, index=lib.index, authority=reader, store=self.kind)

        assert guest.library.world("world").search("harbour", floor=0.0).passages
        with raises_code("world_not_found"):
            guest.library.world("world").ingest(lib.write("b.txt", "More."))
        with raises_code("world_not_found"):
            guest.library.world("world").documents.delete("1")
        with raises_code("world_not_found"):
            guest.library.create_world("mine")
        assert len(world.documents.list()) == 1

    @proves("search.embedded-count")
    def test_tallies_equal_a_fresh_count_after_each_change(self, lib: LibraryFixture) -> None:
        world = lib.world(a__txt=story(90), b__txt=story(40, "garden"))
        scope = lib.scope(world)

        def check() -> None:
            kept = lib.sql("SELECT revision, chunks, embedded, quarantined FROM tallies ORDER BY 1")
            counted = lib.sql(
                """SELECT revision, count(*), count(*) FILTER (WHERE state = 'embedded'),
                     count(*) FILTER (WHERE state = 'quarantined')
                   FROM states GROUP BY 1 ORDER BY 1"""
            )
            assert kept == counted

        check()
        chunk = lib.store.documents.chunk_ids(scope, only(lib, scope))[0]
        lib.store.chunks.mark_pending(scope, [chunk])
        check()
        lib.sql("UPDATE texts SET text = 'gone'")
        lib.store.chunks.rebuild(scope, chunk)
        check()
        world.ingest(lib.write("world/a.txt", story(10)))
        check()
        world.documents.delete("b.txt")
        check()

    @proves("store.second-process")
    def test_concurrent_threads_lose_nothing(self, lib: LibraryFixture) -> None:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for turn in range(5):
                    lib.library.create_world(f"{number}-{turn}")
                    lib.library.worlds()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        assert len(lib.library.worlds()) == 30

    def test_concurrent_documents_get_distinct_numbers(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        refs: list[RevisionRef] = []

        def work(number: int) -> None:
            for turn in range(4):
                refs.extend(
                    lib.store.documents.stage(scope, [draft("Text.", f"doc-{number}-{turn}")])
                )

        threads = [threading.Thread(target=work, args=[number]) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(ref.document for ref in refs) == list(range(1, 21))

    def test_staged_chunks_equal_stored_ones(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        text = "One two. Three four. Five six."
        places = Section("First", None), Section("Second", "Part"), Section(None, None)
        sentences = tuple(
            (sid, start, end, 2, sha256(text[start:end].encode()).digest())
            for sid, (start, end) in enumerate([(0, 8), (9, 20), (21, 30)])
        )
        [one] = draft(text).chunks

        def cut(index: int, start: int, end: int, first: int, last: int) -> NewChunk:
            own = text[start:end]
            return replace(
                one, index=index, start=start, end=end, first_sid=first, last_sid=last, reach=last,
                text=own, text_hash=hash_text(own), sentence_ends=[end - start],
            )  # fmt: skip

        # The second begins with white space that still belongs to the first chapter.
        chunks = cut(0, 0, 8, 0, 0), cut(1, 8, 20, 1, 1), cut(2, 8, 30, 1, 2), cut(3, 0, 30, 0, 2)
        mark = FigureMark("fig", None, None)
        figure = replace(
            cut(4, 20, 20, 1, 2), kind=ChunkKind.FIGURE, figure=mark, chapter="Own", section=None
        )
        drafts = [
            draft(text, "placed", canonical=CanonicalText(text, (0, 9, 21), places),
                  sentences=sentences, chunks=(*chunks, figure)),
            draft(text, "plain", canonical=CanonicalText(text), sentences=sentences, chunks=chunks),
        ]  # fmt: skip

        staged = lib.store.documents.stage(scope, drafts)

        for ref, found in staged.items():
            assert found == lib.store.chunks.pending(scope, ref, after=-1, limit=10)
        placed, plain = staged.values()
        assert [chunk.chapters for chunk in placed] == [
            ("First",), ("Second",), ("Second", "A Title"), ("First", "Second", "A Title"),
            ("Own",),
        ]  # fmt: skip
        assert {chunk.sections for chunk in plain} == {("A Title",)}

    def test_vectors_are_kept_for_remaining_texts(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        texts = {hash_text(text): vector_of(text) for text in ("One text.", "Another text.")}
        refs = [
            ref
            for text in ("One text.", "Another text.")
            for ref in lib.store.documents.stage(scope, [draft(text, text)])
        ]
        lib.store.documents.discard_staged(scope, refs[:1])
        lib.store.documents.purge(scope, refs[0])

        lib.store.documents.keep_vectors(scope, texts, revisions=refs)

        kept = lib.store.chunks.vectors(scope, [*texts])
        assert kept == {hash_text("Another text."): vector_of("Another text.")}
        lib.store.documents.keep_vectors(scope, kept, revisions=refs[1:])
        assert lib.store.chunks.vectors(scope, [*texts]) == kept
        # A vector that does not match its checksum is not used again.
        lib.sql("UPDATE vectors SET checksum = x'00'")
        assert lib.store.chunks.vectors(scope, [*texts]) == {}
        lib.store.documents.keep_vectors(scope, kept, revisions=refs[1:])
        assert lib.store.chunks.vectors(scope, [*texts]) == kept

    def test_revision_is_marked_up_to_its_written_points(self, lib: LibraryFixture):
        scope = built(lib)
        [one] = draft("Text.").chunks
        chunks = tuple(replace(one, index=index) for index in range(4))
        [first, second] = lib.store.documents.stage(
            scope, [draft("Text.", "one", chunks=chunks), draft("Text.", "two", chunks=chunks)]
        ).values()
        changed = replace(second[3], text_hash=hash_text("Another text."))

        lib.store.documents.mark_embedded(scope, [*first, *second[1:3], changed])

        assert [document.embedded for document in lib.store.documents.all(scope)] == [4, 2]
        left = lib.store.chunks.pending(scope, RevisionRef(2, 1), after=-1, limit=9)
        assert [chunk.index for chunk in left] == [0, 3]

    def test_concurrently_embedded_chunks_are_all_counted(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        [one] = draft("Text.").chunks
        chunks = tuple(replace(one, index=index) for index in range(24))
        [ref] = lib.store.documents.stage(scope, [draft("Text.", chunks=chunks)])
        pending = lib.store.chunks.pending(scope, ref, after=-1, limit=50)

        def work(number: int) -> None:
            for chunk in pending[number::6]:
                lib.store.documents.mark_embedded(scope, [chunk])

        threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert lib.store.scrub.tally_flaws(scope) == []
        assert lib.store.documents.activate(scope, [ref]) == [ref]

    def test_generation_keeps_its_first_profile(self, lib: LibraryFixture) -> None:
        world = lib.store.worlds.create(OWNER, "world")
        first = lib.store.worlds.begin_generation(OWNER, world.id, WORDS)
        again = lib.store.worlds.begin_generation(OWNER, world.id, other_profile(model="x"))

        assert first.generation == again.generation == Generation(1, WORDS)

    def test_aliases_move_only_to_complete_generations_and_back(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The harbour light.")
        second = lib.store.generations.add_generation(scope, other_profile(model="x"), None)
        newer = Scope(OWNER, scope.world, second)

        assert not lib.store.generations.move_alias(newer, None)
        assert lib.store.revisions.missing_chunks(newer) == [ref]
        recut = lib.store.revisions.stored_text(newer, ref)
        assert recut is not None
        assert recut.text == "The harbour light."
        assert lib.store.revisions.write_chunks(newer, ref, draft(recut.text).chunks)
        lib.store.documents.keep_vectors(newer, {hash_text(recut.text): vector_of(recut.text)})
        lib.store.documents.mark_embedded(
            newer, lib.store.chunks.pending(newer, ref, after=-1, limit=9)
        )
        assert lib.store.generations.move_alias(newer, None)
        assert lib.store.generations.move_alias(newer, "key")
        assert lib.store.generations.previous_generation(newer, None) == 1
        found = lib.store.worlds.find_domain(OWNER, "key")
        assert found is not None
        assert found.generation == second
        other = built(lib, "other")
        with raises_code("domain_not_found"):
            lib.store.generations.move_alias(other, "key")
        with raises_code("generation_in_use"):
            lib.store.generations.retire_generation(newer)
        assert [one.domains for one in lib.store.worlds.generations(scope)] == [(), ("key",)]

        lib.store.generations.remove_domain(newer, "key")
        lib.store.generations.retire_generation(scope)
        assert [one.number for one in lib.store.worlds.retired_generations(scope)] == [1]
        lib.store.generations.remove_generation(scope)
        assert [one.generation.number for one in lib.store.worlds.kept_generations(newer)] == [2]
        assert lib.store.worlds.status(newer).chunks == 1
        with raises_code("generation_not_found"):
            lib.store.documents.stage(scope, [draft("More.")])

    def test_revision_is_visible_once_complete_and_not_before(self, lib: LibraryFixture):
        scope = built(lib)
        first = shown(lib, scope, "The first text.", tags=("red",))
        [second] = lib.store.documents.stage(scope, [draft("The second text.")])

        assert lib.store.documents.canonical_text(scope, 1) == "The first text."
        assert lib.store.documents.activate(scope, [second]) == []
        assert shown(lib, scope, "The second text.").revision == 3
        assert lib.store.documents.canonical_text(scope, 1) == "The second text."
        assert lib.store.documents.retired(scope) == [first, second]
        for ref in (first, second):
            lib.store.documents.purge(scope, ref)
        assert lib.store.documents.retired(scope) == []
        assert list(lib.store.chunks.vectors(scope, [hash_text("The first text.")])) == []
        assert list(lib.store.chunks.vectors(scope, [hash_text("The second text.")]))
        lib.store.documents.tombstone(scope, 1)
        with raises_code("document_not_found"):
            lib.store.documents.tombstone(scope, 1)
        assert lib.store.documents.all(scope) == []
        assert lib.store.documents.deleted(scope) == ["doc-1"]

    def test_positions_move_with_a_revision_until_deletion(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The first text.")
        lib.store.readers.set_position(scope, "ann", ref, 0, current=True)
        [position] = lib.store.readers.positions(scope, "ann")
        assert (position.sid, position.current, position.revision) == (0, True, 1)

        shown(lib, scope, "The first text.", recipe="other")
        assert [one.sid for one in lib.store.readers.positions(scope, "ann")] == [0]
        shown(lib, scope, "Another text.")
        assert [one.sid for one in lib.store.readers.positions(scope, "ann")] == [-1]
        with raises_code("document_not_found"):
            lib.store.readers.set_position(scope, "ann", ref, 0, current=False)
        lib.store.documents.tombstone(scope, 1)
        assert lib.store.readers.positions(scope, "ann") == []
        for old in lib.store.documents.retired(scope):
            lib.store.documents.purge(scope, old)
        again = shown(lib, scope, "A new document.")
        lib.store.readers.set_position(scope, "ann", again, 0, current=False)
        assert [one.current for one in lib.store.readers.positions(scope, "ann")] == [False]

    def test_activation_does_not_hide_damage(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        texts = [f"Text {number}." for number in range(3)]
        drafts = [draft(text, f"doc-{number}") for number, text in enumerate(texts)]
        refs = [*lib.store.documents.stage(scope, drafts)]
        lib.store.documents.keep_vectors(
            scope, {hash_text(text): vector_of(text) for text in texts}
        )
        of_second = "document = (SELECT key FROM documents WHERE number = 2)"
        lib.sql(f"UPDATE revisions SET title = 'Other' WHERE {of_second}")
        for ref in refs[:2]:
            chunks = lib.store.chunks.pending(scope, ref, after=-1, limit=10)
            lib.store.documents.mark_embedded(scope, chunks)

        assert lib.store.documents.activate(scope, refs) == refs[:2]
        assert lib.store.documents.activate(scope, refs) == []
        lib.store.revisions.keep_derived(scope, [Derived(ref, '{"a": 1}', None) for ref in refs])
        found = [(one.active, one.staged, one.damaged) for one in lib.store.documents.all(scope)]
        assert found == [(1, None, False), (1, None, True), (None, 1, False)]
        assert lib.store.revisions.derived(scope, 1) == '{"a": 1}'
        with pytest.raises(StoreDamaged):
            lib.store.revisions.derived(scope, 2)

    def test_tail_is_stored_for_its_position_with_known_vectors(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The first text.")
        text = TextHash(hash_text("The first"))
        chunk = TailChunk(
            index=0, part=0, start=0, end=9, first_sid=0, last_sid=0, text="The first",
            text_hash=text, tokens=2, chapter="One", section=None,
        )  # fmt: skip

        assert lib.store.readers.tail(scope, ref, 0) is None
        lib.store.readers.keep_tail(scope, ref, 0, [])
        assert lib.store.readers.tail(scope, ref, 0) == []
        lib.store.readers.keep_tail(scope, ref, 0, [chunk])
        lib.store.readers.keep_tail(scope, ref, 0, [chunk])
        assert lib.store.readers.tail(scope, ref, 0) == [chunk]
        lib.store.documents.keep_vectors(scope, {text: vector_of("The first")})
        [kept] = lib.store.readers.tail(scope, ref, 0) or []
        assert kept.vector == vector_of("The first")
        assert lib.store.readers.tail(scope, ref, 1) is None

    def test_derived_metadata_is_kept_until_labels_change(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The first text.")

        assert lib.store.revisions.missing_metadata(scope) == [ref]
        assert lib.store.revisions.derivable(scope, ref) is not None
        lib.store.revisions.keep_derived(scope, [Derived(ref, '{"a": 1}', None)])
        assert lib.store.revisions.derived(scope, 1) == '{"a": 1}'
        assert [(one.label, one.count) for one in lib.store.revisions.audit(scope, 1)] == [
            ("EMAIL", 2)
        ]
        lib.store.documents.relabel(
            scope,
            1,
            language="de",
            version="2",
            tags=["x"],
            audience=("everyone",),
            source_url="u",
            metadata=None,
            origin="",
            shown_path="docs/b.txt",
        )
        assert lib.store.revisions.derived(scope, 1) is None
        [document] = lib.store.documents.all(scope)
        assert (document.language, document.language_declared) == ("de", True)
        assert (document.version, document.tags, document.source_url) == ("2", ("x",), "u")
        assert document.shown_path == "docs/b.txt"
        for others in (1, 20):
            paths = ["docs/b.txt", *(f"other{number}" for number in range(others))]
            assert lib.store.documents.path_owners(scope, paths) == {"docs/b.txt": document.doc_id}

    def test_moved_document_keeps_its_number_and_a_unique_id(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        shown(lib, scope, "The first text.")
        [document] = lib.store.documents.all(scope)
        paths = {"path": "/docs/new.txt", "name": "new.txt", "shown_path": "docs/new.txt"}

        taken = lib.store.documents.move(scope, 1, doc_id=document.doc_id, **paths, reread=False)
        assert not taken
        assert not lib.store.documents.move(scope, 9, doc_id="new-1", **paths, reread=False)
        assert lib.store.documents.move(scope, 1, doc_id="new-1", **paths, reread=False)
        [moved] = lib.store.documents.all(scope)
        assert (moved.number, moved.doc_id, moved.path) == (1, "new-1", "/docs/new.txt")
        assert (moved.name, moved.shown_path) == ("new.txt", "docs/new.txt")
        assert (moved.source_hash, moved.damaged) == (document.source_hash, False)
        assert lib.store.documents.move(scope, 1, doc_id="new-2", **paths, reread=True)
        assert lib.store.documents.all(scope)[0].source_hash == ""

    def test_world_is_deleted_with_its_rows_and_erasures_are_queued(self, lib: LibraryFixture):
        scope, other = built(lib, "one"), built(lib, "two")
        shown(lib, scope, "The harbour light.")
        shown(lib, other, "The garden wall.")

        removed = lib.store.erasures.delete_world(OWNER, scope.world, erase=True)

        assert removed["chunks"] == removed["texts"] == removed["worlds"] == 1
        assert lib.sql("SELECT count(*) FROM states") == [(1,)]
        assert [world.name for world in lib.store.worlds.all(OWNER)] == ["two"]
        waiting = lib.store.erasures.all(urgent=True)
        assert [one.kind for one in waiting] == list(ErasureKind)
        lib.store.erasures.queue(other, urgent=False)
        later = lib.store.erasures.all()
        # Work that began before a later request does not complete it.
        for one in waiting:
            lib.store.erasures.finish(one)
        assert {one.kind for one in lib.store.erasures.all()} == {
            ErasureKind.INDEX,
            ErasureKind.STORE,
        }
        assert all(one.urgent for one in later)
        with raises_code("world_not_found"):
            lib.store.erasures.delete_world(OWNER, scope.world, erase=True)

    def test_malformed_ids_are_unknown_and_not_an_error(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        shown(lib, scope, "The harbour light.")

        assert lib.store.chunks.read(scope, [ChunkId("no uuid at all")]) == {}
        assert lib.store.chunks.read(scope, []) == {}
        assert lib.store.worlds.find(OWNER, "no uuid", 5) is None
        assert lib.store.worlds.find(OWNER, "world", "no domain") is None
        assert lib.store.readers.in_force(scope, 99) is None
        assert lib.store.jobs.find(scope, "none") is None
        assert lib.store.tokens.find("none") is None
