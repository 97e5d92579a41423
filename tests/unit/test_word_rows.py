"""Packed word counts of chunks: reading of rows, and renewed counts."""

from array import array

from tests.support.worlds import LibraryFixture
from truespan.store.tables.word_rows import LENGTHS, _seal, read_lengths
from truespan.types.document import RevisionRef

REF = RevisionRef(1, 1)


def test_lengths_of_an_earlier_layout_are_counted_again(lib: LibraryFixture) -> None:
    world = lib.world(a__txt="A lamp.")
    scope = lib.scope(world)
    where = scope.world, scope.generation.number, REF, "1", b"", 1, 1
    # Pairs of an index and a length, as many numbers as two chunks with languages have.
    pairs = array("I", [0, 300, 1, 2**31, 2, 3]).tobytes()
    languages = array("I", [0, 300, 0, 1, 200, int.from_bytes(b"de")]).tobytes()

    assert read_lengths(scope, REF, "1", b"", _seal(pairs, "lengths", *where), 1, 1) == (
        None, {}, {},
    )  # fmt: skip
    assert read_lengths(scope, REF, "1", b"", _seal(languages, LENGTHS, *where), 1, 1) == (
        "1", {0: 300, 1: 200}, {1: "de"},
    )  # fmt: skip
