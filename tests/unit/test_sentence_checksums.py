"""The checksums of all sentences of a revision, next to that of each alone."""

from __future__ import annotations

from hashlib import sha256

from truespan.store.integrity.checksums import sentence_checksum, sentence_checksums
from truespan.types.document import RevisionRef
from truespan.types.ids import WorldId
from truespan.types.text import CanonicalText, PageStart, Place

WORLD = WorldId("00000000-0000-0000-0000-000000000001")
REF = RevisionRef(3, 2)
PLACES = (Place("One", None), Place("One", "Two"), Place(None, "Two"), Place("One", None))
PAGES = (PageStart(0, 1), PageStart(30, 2, "line"), PageStart(31, 3), PageStart(70, 4, "row A:F"))


def test_checksums_of_all_sentences_are_those_of_each_alone() -> None:
    rows = [
        (sid, start, start + 9, sid * 70_000, sha256(bytes([sid])).digest())
        # The last ones are out of order, as damage may leave them.
        for sid, start in enumerate([0, 10, 20, 30, 31, 45, 70, 80, 90, 5, 75])
    ]
    for starts in ((), (0,), (0, 20, 31, 80), (10, 20, 45, 90)):
        for pages in ((), PAGES, PAGES[1:], PAGES[:1]):
            layout = CanonicalText("", starts, PLACES[: len(starts)], pages=pages)
            alone = [
                sentence_checksum(
                    WORLD, REF, row, layout.place_at(row[1]), layout.page_start(row[1])
                )
                for row in rows
            ]
            assert sentence_checksums(WORLD, REF, rows, layout) == alone
            assert sentence_checksums(WORLD, REF, rows[::-1], layout) == alone[::-1]
