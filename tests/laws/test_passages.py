"""Passages: found like by a regular expression, in time linear in both lengths."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.texts import often
from tests.promises import proves
from truespan.retrieval.reading import pages
from truespan.retrieval.reading.pages import find_passage

GROUPS = ('"“”„‟«»″', "'‘’‚‛′`", "-‐‑‒–—―−")
PATTERNS = {char: f"[{re.escape(group)}]" for group in GROUPS for char in group}
ALPHABET = "aab. \n\u3000“\"'’-–…éé😀[*\\"
TEXTS = st.text(ALPHABET, max_size=40)


def find_by_pattern(passage: str, text: str) -> Iterator[tuple[int, int]]:
    """Find a passage by a regular expression; its time is the product of both lengths."""
    words = passage.replace("...", "…").split()
    if not words:
        return
    patterns = PATTERNS | {"…": r"(?:…|\.\.\.)"}
    pattern = re.compile(
        r"\s+".join("".join(patterns.get(c) or re.escape(c) for c in word) for word in words)
    )
    start = 0
    while found := pattern.search(text, start):
        yield found.span()
        start = found.start() + 1


@often
@given(TEXTS, st.text(ALPHABET, max_size=6), st.data())
def test_passage_search_matches_a_regular_expression(text: str, other: str, data: st.DataObject):
    start = data.draw(st.integers(0, len(text)))
    passage = data.draw(st.sampled_from([other, text[start : start + 5], text[start:]]))

    found, expected = list(find_passage(passage, text)), list(find_by_pattern(passage, text))

    # A pattern takes "…." and ".…" for different things; here both are four dots.
    if not re.search(r"\.…|…\.|\.{4}", f"{passage}\0{text}"):
        assert found == expected
    assert set(expected) <= set(found)
    assert found == sorted(found)


def test_occurrences_may_overlap_and_marks_may_differ():
    assert list(find_passage("aba", "ababa")) == [(0, 3), (2, 5)]
    assert list(find_passage('"I - I" ...', "He: “I \n – I”\u3000… .")) == [(4, 15)]
    assert list(find_passage("..", "a…")) == list(find_passage("..b", "…b")) == []
    assert list(find_passage(" \n", "a b")) == list(find_passage("a", "")) == []


class Counting(str):
    """A text that counts how often a character of it is read."""

    reads = 0

    def __getitem__(self, place):  # type: ignore[override]
        Counting.reads += 1
        return super().__getitem__(place)


@proves("tenants.no-stall")
@pytest.mark.parametrize(
    "passage", ["a" * 500, "ab" * 250, "a" * 499 + "b", "…" * 200, "a b " * 99]
)
def test_overlapping_occurrences_take_linear_time(passage: str):
    costs = []
    for length in (2_000, 8_000):
        Counting.reads = 0
        text = (passage * (length // len(passage) + 1))[:length]
        wanted = " ".join(passage.translate(pages._FOLD).split())
        folded = Counting(" ".join(text.translate(pages._FOLD).split()))
        list(pages._find_all(wanted, folded))
        costs.append(Counting.reads / len(folded))

    assert max(costs) <= 3, costs
