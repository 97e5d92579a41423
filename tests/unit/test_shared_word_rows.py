"""The rows that the words of several revisions share."""

from truespan.store.tables.word_rows import MEMBER, WrittenWords, _share_rows
from truespan.types.document import PAIR, CountedWords, RevisionRef


def words_of(terms: dict[str, list[int]]) -> CountedWords:
    """Return words that occur once in each of their chunks."""
    packed = b"".join(PAIR.pack(index, 1) for found in terms.values() for index in found)
    counts = [len(found) for found in terms.values()]
    return CountedWords("1", {}, {}, list(terms), counts, packed)


def test_shared_rows_have_postings_of_each_revision() -> None:
    for count in (3, (1 << 16) - 1, 1 << 16, (1 << 16) + 1):
        names = [f"{number:06}" for number in range(count)]
        first = {name: [number % 5, 7] for number, name in enumerate(names)}
        second = {name: [number % 3] for number, name in enumerate(names[::2])}
        segment = [
            WrittenWords(RevisionRef(document, 1), document, words_of(terms))
            for document, terms in ((4, first), (9, second))
        ]
        found = list(_share_rows(segment))
        assert [term for term, _, _ in found] == names
        for term, members, pairs in found:
            own = [(4, 1, 2)] + ([(9, 1, 1)] if term in second else [])
            assert list(MEMBER.iter_unpack(members)) == own
            places = first[term] + second.get(term, [])
            assert [index for index, _ in PAIR.iter_unpack(pairs)] == places
