"""The contract of every store, part 4: texts and chunks that do not match their checksums."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contract.drafts import draft
from tests.contract.store_contract import built, shown
from tests.promises import proves
from tests.support.worlds import LibraryFixture, make_library
from truespan.errors import StoreDamaged
from truespan.types.chunk import ChunkState
from truespan.types.ids import hash_bytes, hash_text
from truespan.types.text import CanonicalText, PageStart
from truespan.types.text import Place as Section
from truespan.types.trust import FailureKind, VerificationFailure


class IntegrityContract:
    """Verification and restoration of texts and chunks."""

    kind = "sqlite"

    @pytest.fixture
    def lib(self, tmp_path: Path) -> LibraryFixture:
        return make_library(tmp_path, store=self.kind)

    @pytest.mark.parametrize(
        "text", ["A NUL \0 in it.", "Cafe\u0301 🛶 ½ \u2028 end", "\\x00 \\ %s"]
    )
    def test_text_is_read_back_unchanged(self, lib: LibraryFixture, text: str) -> None:
        scope = built(lib)
        ref = shown(lib, scope, text)
        [chunk_id] = lib.store.documents.chunk_ids(scope, ref)

        assert lib.store.documents.canonical_text(scope, 1) == text
        if "\0" not in text:
            # Cleaning takes it out; SQLite ends a text there when it counts code points.
            assert lib.store.readers.text_between(scope, ref, 2, len(text) - 1) == text[2:-1]
            passage = lib.store.readers.passage(scope, ref, 1, 5)
            assert passage is not None
            assert passage.text == text[1:5].encode()
        stored = lib.store.chunks.read(scope, [chunk_id])[chunk_id].chunk
        assert stored is not None
        assert stored.data == text.encode()
        [counted] = lib.store.catalogs.countable(scope, ref)
        assert counted.data == text.encode()
        lib.sql("DELETE FROM chunks")
        assert lib.store.chunks.rebuild(scope, chunk_id)
        assert lib.store.chunks.read(scope, [chunk_id])[chunk_id].chunk == stored

    @proves("bundle.content-unaltered")
    def test_text_with_a_wrong_hash_is_not_read(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        ref = shown(lib, scope, "The first text.")
        lib.sql("UPDATE texts SET text = 'A forgery.'")

        with pytest.raises(StoreDamaged):
            lib.store.documents.canonical_text(scope, ref.document)
        with pytest.raises(StoreDamaged):
            lib.store.revisions.stored_text(scope, ref)
        with pytest.raises(StoreDamaged):
            lib.store.revisions.derivable(scope, ref)

    def test_pages_keep_their_unit_and_changed_unit_is_damage(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        text = "The first slide."
        pages = (PageStart(0, 7, "slide"),)
        ref = shown(lib, scope, text, canonical=CanonicalText(text, pages=pages))

        recut, part = (
            lib.store.revisions.stored_text(scope, ref),
            lib.store.readers.passage(scope, ref, 0, 4),
        )
        assert recut is not None
        assert part is not None
        assert recut.pages == part.pages == pages
        assert len(lib.store.readers.sentences(scope, ref, 0, 0)) == 1
        lib.sql("UPDATE pages SET unit = 'page'")
        with pytest.raises(StoreDamaged):
            lib.store.revisions.stored_text(scope, ref)
        with pytest.raises(StoreDamaged):
            lib.store.readers.sentences(scope, ref, 0, 0)

    def test_a_location_is_stored_checked_and_rebuilt(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        text = "The first slides."
        pages = (PageStart(0, 7, "slide"), PageStart(4, 8, "slide"))
        [chunk] = draft(text).chunks
        [plain, slides] = lib.store.documents.stage(
            scope,
            [
                draft(text),
                draft(
                    text,
                    "doc-2",
                    canonical=CanonicalText(text, (0,), (Section("One", "Two"),), pages=pages),
                    chunks=(replace(chunk, page=None, location="slides 7-8"),),
                ),
            ],
        )
        ids = [
            lib.store.chunks.pending(scope, ref, after=-1, limit=9)[0].chunk_id
            for ref in (plain, slides)
        ]

        def stored() -> list[tuple[int | None, str | None, bool]]:
            found = lib.store.chunks.read(scope, ids)
            records = [found[chunk_id] for chunk_id in ids]
            return [(r.chunk.page, r.chunk.location, r.is_intact()) for r in records if r.chunk]

        assert stored() == [(1, "page 1", True), (None, "slides 7-8", True)]
        lib.sql("UPDATE chunks SET location = 'page 9'")
        assert stored() == [(1, "page 9", False), (None, "page 9", False)]
        assert all(lib.store.chunks.rebuild(scope, chunk_id) for chunk_id in ids)
        assert stored() == [(1, "page 1", True), (None, "slides 7-8", True)]
        lib.sql("DELETE FROM chunks")
        assert all(lib.store.chunks.rebuild(scope, chunk_id) for chunk_id in ids)
        assert stored() == [(1, "page 1", True), (None, "slides 7-8", True)]
        lib.sql("DELETE FROM chunks")
        for ref, made in (
            (plain, chunk),
            (slides, replace(chunk, page=None, location="slides 7-8")),
        ):
            assert lib.store.scrub.rewrite_chunks(scope, ref, [made])
        assert stored() == [(1, "page 1", True), (None, "slides 7-8", True)]

    def test_cached_labels_are_compared_with_rows_on_each_read(self, lib: LibraryFixture) -> None:
        scope = built(lib)
        [chunk_id] = lib.store.documents.chunk_ids(scope, shown(lib, scope, "The first text."))

        def labels() -> tuple[str, bool]:
            record = lib.store.chunks.read(scope, [chunk_id])[chunk_id]
            return record.document.version, record.labels_intact

        version, intact = labels()
        assert intact
        assert labels() == (version, True)
        lib.sql("UPDATE revisions SET version = 'forged'")
        assert not labels()[1]
        lib.sql(f"UPDATE revisions SET version = '{version}'")
        assert labels() == (version, True)
        lib.sql("UPDATE revisions SET checksum = x'00'")
        assert not labels()[1]

    @pytest.mark.parametrize("kept", [True, False])
    def test_row_forged_with_its_hash_keeps_the_recorded_hash(
        self, lib: LibraryFixture, kept: bool
    ) -> None:
        scope, true, forged = built(lib), hash_text("The first text."), hash_text("A forgery.")
        ref = shown(lib, scope, "The first text.")
        [chunk_id] = lib.store.documents.chunk_ids(scope, ref)
        if not kept:
            lib.sql("DELETE FROM vectors")
        lib.sql(f"UPDATE chunks SET text = 'A forgery.', text_hash = '{forged}'")

        # A search does not change the hash in the state row.
        for kind in FailureKind:
            lib.store.chunks.record_failures(
                scope, [VerificationFailure(kind, chunk_id, true, forged)]
            )
        record = lib.store.chunks.read(scope, [chunk_id])[chunk_id]
        assert record.recorded_hash == true
        assert not record.is_intact()
        [counted] = lib.store.catalogs.countable(scope, ref)
        assert counted.text_hash == true != hash_bytes(counted.data)

        lib.store.chunks.mark_pending(scope, [chunk_id])
        [pending] = lib.store.chunks.pending(scope, ref, after=-1, limit=10)

        assert (pending.text_hash, pending.text) == (true, "" if kept else "The first text.")
        assert lib.store.chunks.read(scope, [chunk_id])[chunk_id].is_intact()

    @pytest.mark.parametrize("lost", ["DELETE FROM texts", "UPDATE texts SET text = 'A forgery.'"])
    def test_forged_row_is_quarantined_if_its_text_is_lost(self, lib: LibraryFixture, lost: str):
        scope, forged = built(lib), hash_text("A forgery.")
        ref = shown(lib, scope, "The first text.")
        [chunk_id] = lib.store.documents.chunk_ids(scope, ref)
        lib.sql("DELETE FROM vectors")
        lib.sql(f"UPDATE chunks SET text = 'A forgery.', text_hash = '{forged}'")
        lib.sql(f"UPDATE revisions SET text_hash = '{forged}'")
        lib.sql(lost)
        lib.store.chunks.mark_pending(scope, [chunk_id])

        assert lib.store.chunks.pending(scope, ref, after=-1, limit=10) == []

        assert lib.store.chunks.read(scope, [chunk_id])[chunk_id].state is ChunkState.QUARANTINED
        assert lib.store.chunks.rebuild(scope, chunk_id) is False
