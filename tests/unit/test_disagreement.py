"""Passages that contradict each other, and pairs that only look as if they did."""

from __future__ import annotations

from tests.promises import proves
from tests.support.rows import each_row
from tests.unit.disagreement_pairs import CONTRADICTIONS, HARMLESS
from tests.unit.sources import source
from truespan.answers.support.disagreement import MAX_DISAGREEMENTS, find_disagreements
from truespan.types.answer import Disagreement
from truespan.types.text import SentenceRange
from truespan.types.trust import Visible


def sids(_chunk: Visible, _last: int, start: int, end: int) -> SentenceRange:
    return SentenceRange(start, end)


def find(one: str, other: str) -> tuple[Disagreement, ...]:
    return find_disagreements([source(one, document=1), source(other, document=2)], sids)


@proves("answer.disagreement")
def test_planted_pairs_are_found_precisely() -> None:
    found = sum(bool(find(*pair)) for pair in CONTRADICTIONS)
    wrong = sum(bool(find(*pair)) for pair in HARMLESS)
    assert found / len(CONTRADICTIONS) >= 0.6
    assert found / (found + wrong) >= 0.9
    backwards = sum(bool(find(other, one)) for one, other in CONTRADICTIONS)
    assert backwards == found


@proves("answer.disagreement")
@each_row(
    ("one", "other", "kind", "values"),
    [
        (
            "The monthly rent is 950 crowns.",
            "The monthly rent is 1,050 crowns.",
            "number",
            ["950", "1,050"],
        ),
        (
            "Doors of the hall open at 9:00.",
            "Doors of the hall open at 8:30.",
            "date",
            ["9:00", "8:30"],
        ),
        ("The pool is heated in winter.", "The pool is not heated in winter.", "negation", None),
    ],
)
def test_disagreement_has_both_sentences_verbatim(
    one: str, other: str, kind: str, values: list[str] | None
) -> None:
    before, after = "Nothing else is said. ", " And so on."
    [found] = find(before + one + after, other)
    assert found.kind == kind
    first, second = found.statements
    assert (first.quote.text, second.quote.text) == (one, other)
    assert (first.number, second.number) == (1, 2)
    assert (first.quote.first_sid, second.quote.first_sid) == (len(before), 0)
    assert values is None or [first.value, second.value] == values


def test_one_document_does_not_disagree_with_itself() -> None:
    text = ("The clock of the tower struck nine.", "The clock of the tower struck ten.")
    other = source("Nobody mends the tower.", document=2)
    chunks = [source(text[0]), source(text[1], start=100), other]
    assert find_disagreements(chunks, sids) == ()


@each_row(
    ("one", "other"),
    [
        ("The tower is 120 metres high.", "The tower in Turin is 135 metres high."),
        ("Chapter 3 lists 12 rules of the harbour.", "Chapter 4 lists 15 rules of the harbour."),
    ],
)
def test_other_names_and_labels_are_other_things(one: str, other: str) -> None:
    assert find(one, other) == ()


def test_number_of_disagreements_is_limited() -> None:
    one = " ".join(f"The price of {name} is 10 euros." for name in NAMES)
    other = " ".join(f"The price of {name} is 20 euros." for name in NAMES)
    found = find(one, other)
    assert len(found) == MAX_DISAGREEMENTS
    for each in found:
        name = each.statements[0].quote.text.split()[3]
        assert name in each.statements[1].quote.text


NAMES = ("apples", "pears", "plums", "cherries", "figs", "grapes", "melons", "quinces")
