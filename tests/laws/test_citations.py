"""Citations match a plain definition, and are found in linear time."""

from __future__ import annotations

import re
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.unit.sources import source
from truespan.answers.citations import GROUP, citation_numbers, find_citations

SOURCES = [source(f"Text {n}.", start=n * 100, document=n) for n in range(1, 6)]
BACKTRACKING = re.compile(GROUP.pattern.replace("}+", "}").replace("++", "+"), GROUP.flags)
"""The same pattern with gaps that give spaces back: slow, and the definition of what is found."""
PARTS = ["[", "]", "\\", "\u3010", "\u3011", "1", "7", "12", ",", ";", "-", "\u2013", ".", ":"]
WORDS = ["and", "source", "sources:", "#", "^", "a", " ", "   ", " " * 10, "\n"]
ANSWERS = st.lists(st.sampled_from(PARTS + WORDS), max_size=11).map("".join)
LISTS = st.permutations(["[1]", "[2]", "[3]", "[4, 5]", "[7-8]", " "]).map("".join)
SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 24)), max_size=6)


@given(ANSWERS | ANSWERS.map(lambda text: f"[1,{text} 2]") | LISTS, SPANS)
@examples(400)
def test_citations_match_the_plain_definition(answer: str, spans: list[tuple[int, int]]) -> None:
    numbers: dict[int, None] = {}
    for group in BACKTRACKING.finditer(answer):
        if not any(start <= group.start() and group.end() <= end for start, end in spans):
            numbers |= dict.fromkeys(citation_numbers(group[1], len(SOURCES)))

    assert [found.number for found in find_citations(answer, SOURCES, spans).found] == [*numbers]


def test_unclosed_list_is_scanned_in_linear_time() -> None:
    # With gaps that give spaces back, each number makes this fifteen times as slow: six seconds.
    start = process_time()

    assert find_citations("[" + "1,    " * 6 + "1 x", SOURCES).found == ()

    assert process_time() - start < 1


def test_many_citations_in_many_quotes_are_found_in_linear_time() -> None:
    def seconds(times: int) -> float:
        quote = "“see [9]” [1]. "
        spans = [(len(quote) * n, len(quote) * n + 9) for n in range(times)]
        start = process_time()
        found = find_citations(quote * times, SOURCES, spans).found
        assert [one.number for one in found] == [1]
        return process_time() - start

    # Twenty times as much takes twenty times as long; with every span compared, 400 times.
    assert min(seconds(4000) for _ in range(3)) < 100 * min(seconds(200) for _ in range(5))
