"""Documents by title, by file name without its ending, and by the beginning of either."""

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.rows import each_row
from tests.support.worlds import LibraryFixture
from truespan.errors import DocumentAmbiguous
from truespan.types.catalog import find_by_title

BOOKS = [
    (1, "novels/the-glass-ferry.md", "The Glass Ferry"), (2, "novels/the-glass-key.md", "Keys"),
    (3, "optics.md", "Light and Lenses"), (4, "lens.txt", "optics"),
]  # fmt: skip


@each_row("reference, expected", [
    ("the glass ferry", 1), ("The  Glass Ferry", 1), ("the-glass-key", 2), ("THE-GLASS-F", 1),
    ("Light", 3), ("keys", 2), ("optics", 4), ("the glass key", 2), ("The_Glass-Key", 2),
    ("lenses", 3), ("lenses light", 3), ("ferry", 1), ("ferr", None), ("li", None),
    ("absent", None), ("", None),
])  # fmt: skip
def test_names_find_one_document(reference: str, expected: int | None) -> None:
    found = find_by_title(BOOKS, reference, lambda book: book)
    assert (found and found[0]) == expected


@proves("documents.by-title")
def test_ambiguous_beginning_lists_the_candidates() -> None:
    with pytest.raises(DocumentAmbiguous) as refused:
        find_by_title(BOOKS, "the-glass", lambda book: book)
    assert refused.value.matches == (BOOKS[0][:2], BOOKS[1][:2])


@proves("documents.by-title")
def test_readers_name_books_by_visible_names(lib: LibraryFixture) -> None:
    world = lib.world(heron__md="# The Bailiff Did It\n\nOne. Two. Three.", hawk__md="# X\n\nOne.")
    world.ingest(
        lib.write("world/heron.md", "# The Bailiff Did It\n\nOne. Two. Three."), title="Herons"
    )
    reader = world.reader("ada")
    assert reader.set_position("her", sentence=1).title == "Herons"
    assert reader.position("herons").sid == 1
    assert reader.position("HER").sid == 1
    for unknown in ("The Bailiff Did It", "hawk"):
        with raises_code("no_reading_position"):
            reader.position(unknown)


@proves("documents.by-title")
def test_documents_are_deleted_by_exact_names_only(lib: LibraryFixture) -> None:
    world = lib.world(heron__md="One. Two.")
    assert world.documents.get("heron").number == 1
    for attempt in (
        lambda: world.documents.delete("heron"),
        lambda: world.documents.update("her", tags=["x"]),
    ):
        with raises_code("document_not_found"):
            attempt()
    assert world.documents.delete("heron.md").number == 1
