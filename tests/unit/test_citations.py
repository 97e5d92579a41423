"""Cited sources of an answer, and invented ones."""

import pytest

from tests.unit.sources import source
from truespan.answers.citations import MAX_SHOWN, MAX_UNKNOWN, find_citations

FIVE = [source(f"Text {n}.", start=n * 100, document=n) for n in range(1, 6)]


@pytest.mark.parametrize(("answer", "numbers"), [
    ("So it is [1].", [1]), ("So it is [2], and [1].", [2, 1]), ("Both [1, 3].", [1, 3]),
    ("Both [1,3;4].", [1, 3, 4]), ("Each [1][2].", [1, 2]), ("All [1-3].", [1, 2, 3]),
    ("All [1–3, 5].", [1, 2, 3, 5]), ("Turned [3-1].", [1, 2, 3]), ("Again [2] and [2].", [2]),
    ("Glued[4].", [4]), ("A note [^2].", [2]), ("Escaped \\[2\\].", [2]),
    ("Named [source 3] and [Sources: 1, 2].", [3, 1, 2]), ("Spaced [ 1 , 2 ].", [1, 2]),
    ("Bracketed \u30101\u3011 and \uff3b2\uff3d.", [1, 2]), ("Marked [#1] and [2.].", [1, 2]),
    ("Joined [1 and 2] and [3, 4, and 5].", [1, 2, 3, 4, 5]),
    ("Each named [Source 1, Source 2].", [1, 2]),
    ("Neither [1.5] nor [2019-05-01] nor [1 or so] nor [band 2].", []), ("None at all.", []),
    ("Words [sic] and [1a] and [x-1] and [] and (1).", []),
])  # fmt: skip
def test_numbers_in_brackets_are_citations(answer: str, numbers: list[int]) -> None:
    found = find_citations(answer, FIVE)
    assert [citation.number for citation in found.found] == numbers
    assert found.warnings == ()


def test_citation_has_the_place_of_its_source() -> None:
    (citation,) = find_citations("Here [2].", FIVE).found
    assert (citation.document, citation.source, citation.chunk_id) == (
        2, "file.txt", FIVE[1].chunk_id,
    )  # fmt: skip
    assert (citation.first_sid, citation.last_sid, citation.page) == (0, 1, None)


@pytest.mark.parametrize(("answer", "unknown"), [
    ("So [6].", [6]), ("So [0].", [0]), ("So [1, 9].", [9]), ("In [2019].", [2019]),
    ("So [-1].", [-1]), ("So [1234567890123].", [1234567890123]),
    (f"So [{'9' * 5000}].", [MAX_SHOWN]), ("Up to [4-999999999].", [999999999]),
])  # fmt: skip
def test_number_without_a_source_is_kept_and_reported(answer: str, unknown: list[int]):
    found = find_citations(answer, FIVE)
    assert [one.number for one in found.found if one.document is None] == unknown
    assert [notice.code for notice in found.warnings] == ["unknown_citation"]
    assert f"[{unknown[0]}]" in found.warnings[0].message


def test_invented_and_quoted_numbers_are_not_sources() -> None:
    answer = " ".join(f"[{number}]" for number in range(100, 1000))
    assert len(find_citations(answer, FIVE).found) == MAX_UNKNOWN
    answer = "It says “see [9]” [1]."
    assert [one.number for one in find_citations(answer, FIVE, [(8, 17)]).found] == [1]
    assert find_citations("As known [1].", []).found[0].document is None
