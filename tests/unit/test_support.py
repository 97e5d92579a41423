"""The support check: each sentence of an answer against the passages that it cites."""

import sys
from collections.abc import Sequence

import pytest
from bench.support_check import check, rates_of, read_cases

from tests.promises import proves
from tests.support.rows import each_row
from tests.unit.sources import source
from truespan.answers.checks import MAX_EMBEDDED, Comparison
from truespan.answers.quotes import Quotes, check_quotes
from truespan.extensions.checks.support.check import check_support
from truespan.extensions.checks.support.claims import split_answer
from truespan.extensions.checks.support.names import find_name_words
from truespan.extensions.checks.support.numbers import find_numbers, numbers_agree
from truespan.types.answer import Support, SupportReason
from truespan.types.text import SentenceRange
from truespan.types.trust import Visible
from truespan.types.vectors import Vector, bytes_of

INN = (
    "The Grey Seal stands on the quay. Mr. Vayle was found drowned on 12 March 1889. The spare key "
    "hangs on hook seven, and nobody may touch it. The crossing costs 1,000 crowns."
)
MILL = "The mill was sold to Jonas Reed in 1904. It was never used again."
NUMBER, NAME, WORDS, NEGATION, SIMILAR, NOTHING = SupportReason


def passage(text: str, *, title: str = "", number: int = 1) -> Visible:
    return source(text, document=number, title=title, chapter="", section="", last_sid=0)


SOURCES = (passage(INN), passage(MILL, number=2))


def check_answer(answer: str, sources: Sequence[Visible] = SOURCES) -> Support:
    return check_support(answer, sources, question="Where was Napoleon?")


@proves("support.sentences")
@each_row(("sentence", "reasons"), [
    ("Mr. Vayle drowned on March 12th, 1889 [1].", ()),
    ("The crossing costs a thousand crowns [1].", ()),
    ("The crossing costs 1000 crowns and the mill was sold in 1904 [1, 2].", ()),
    ("The key hangs on hook nine [1].", (NUMBER,)),
    ("Mr. Vayle drowned on 13 March 1889 [1].", (NUMBER,)),
    ("The crossing costs 1,000 pounds [1].", (NUMBER,)),
    ("The mill was sold to Otto Brand [2].", (NAME,)),
    ("The mill was sold to Jonas Reed [1].", (NAME, WORDS)),
    ("The mill was not sold to Jonas Reed [2].", (NEGATION,)),
    ("Mr. Vayle was not found drowned [1].", (NEGATION,)),
    ("Guests dance under purple lanterns every evening [1].", (WORDS,)),
    ("Guests dance under purple lanterns every evening.", (WORDS, NOTHING)),
    ("The key hangs on hook nine [7].", (NUMBER, NOTHING)),
    ("The mill was sold to Jonas Reed.", ()), ("It rained [1].", (WORDS,)),
])  # fmt: skip
def test_unsupported_sentence_has_reasons(
    sentence: str, reasons: tuple[SupportReason, ...]
) -> None:
    (found,) = check_answer(sentence).sentences
    assert (found.reasons, found.supported) == (reasons, not reasons)


@proves("support.sentences")
@each_row(("answer", "marked"), [
    ("I do not know.", None), ("The passages do not say who took the key.", None),
    ("The passages do not mention Napoleon.", None),
    ("The passages do not mention Wellington.", False),
    ("The passages do not say why, but he was poisoned by his jealous brother.", False),
    ("Who took the key?", None), ("## The key", None), ("**Summary**", None),
    ("Here is what the passages say:", None), ("| hook | key |\n|---|---|\n", None), ("---", None),
    ("[1]", None), ("", None), ("## The murder of Henry Carew", False),
    ("Was it sold in 1912?", False), ("| The spare key | hook seven |", True),
    ("- The spare key hangs on hook seven [1]", True),
])  # fmt: skip
def test_sentence_without_claim_counts_with_number_or_name_only(answer: str, marked: bool | None):
    found = check_answer(answer)
    if marked is None:
        assert (found.score, found.claims, found.sentences) == (None, 0, ())
    else:
        assert [sentence.supported for sentence in found.sentences] == [marked]


def test_support_has_spans_score_source_and_missing_words() -> None:
    answer = "😀 The mill was sold in 1904. [2] It burned in 1911.\n\n- The key hangs there [1]."
    found = check_answer(answer)
    assert [answer[part.start : part.end] for part in found.sentences] == [
        "😀 The mill was sold in 1904. [2]", "It burned in 1911.", "The key hangs there [1].",
    ]  # fmt: skip
    assert [part.source for part in found.sentences] == [2, None, 1]
    assert [part.missing for part in found.sentences] == [(), ("1911",), ()]
    assert (found.score, found.claims, found.supported) == (0.6667, 3, 2)


def test_words_of_a_verified_quote_count_as_found() -> None:
    answer = "A poster reads “The spare key hangs on hook seven” [2]."
    start = answer.index("“")
    assert not check_support(answer, SOURCES).supported
    assert check_support(answer, SOURCES, Quotes(literal=((start, len(answer) - 5),))).supported


def test_failed_quote_counts_against_its_sentence() -> None:
    answer = (
        "It hangs on “hook seven, as ever” [1]. A “key spare” hangs [1]. It is a “spare” key [1]. "
        "A “spar” key hangs [1]."
    )
    quotes = check_quotes(answer, SOURCES, lambda *_: SentenceRange(0, 0))
    first, second, *others = check_support(answer, SOURCES, quotes).sentences
    assert (first.reasons, first.missing) == ((WORDS,), ("hook seven, as ever",))
    assert (second.reasons, second.missing) == ((WORDS,), ("key spare",))
    assert len(others) == 2
    assert all(part.supported for part in others)


def test_claims_need_passages_and_titles_count() -> None:
    found = check_answer("Vienna is old. Is it?", ())
    assert [part.reasons for part in found.sentences] == [(NOTHING,)]
    assert found.score == 0.0
    sources = [passage("The harbour was enlarged.", title="Report of Ada Brook, 1931")]
    assert check_answer(
        "Ada Brook reported in 1931 that the harbour was enlarged [1].", sources
    ).score


@each_row(("first", "second", "same"), [
    ("1,000", "1000", True), ("1.000", "1000", True), ("1 000", "1000", True),
    ("two hundred and fifty", "250", True), ("twenty-one", "21", True),
    ("a dozen eggs", "12 eggs", True), ("2.5 million", "2,500,000", True),
    ("€3bn", "3 billion euros", True), ("5%", "5 per cent", True), ("1 km", "1000 metres", True),
    ("90 minutes", "1.5 hours", True), ("seven days", "a week", True),
    ("12 March", "March 12th", True), ("12 March 1889", "1889-03-12", True),
    ("3 p.m.", "15:00", True), ("the 19th century", "the nineteenth century", True),
    ("about 1,000", "987", True), ("more than 100", "112", True),
    ("20 °C", "20 degrees Celsius", True), ("1,000", "100", False), ("5 km", "5 miles", False),
    ("$5", "€5", False), ("20 °C", "20 °F", False), ("-5 degrees", "5 degrees", False),
    ("12 March", "12 May", False), ("in March 1889", "in May 1889", False),
    ("more than 100", "400", False), ("3 p.m.", "3:30 pm", False),
])  # fmt: skip
def test_numbers_are_compared_by_value_and_unit(first: str, second: str, same: bool) -> None:
    given = find_numbers(second)
    claimed = [number for number in find_numbers(first) if not number.implied] or given
    assert all(any(numbers_agree(one, other) for other in given) for one in claimed) is same


@each_row(("text", "names"), [
    ("He met Dr. O'Brien's wife in New York.", ["obrien", "new", "york"]),
    ("The Grey Seal belongs to Mr. Vayle.", ["grey", "seal", "vayle"]),
    ("Marie Curie left.", ["marie", "curie"]), ("Otto was here.", ["otto"]),
    ("However, it rained.", []), ("Hold the button.", []), ("It was in March.", []),
])  # fmt: skip
def test_names_are_capitalised_words_inside_sentences(text: str, names: list[str]) -> None:
    assert [name.folded for name in find_name_words(text, "english", frozenset())] == names


def test_lists_tables_and_wrapped_lines_are_split() -> None:
    answer = "# Head\n\nHe left\nthe house [1]. She\nstayed.\n* one\n* two\n```\nx = 1\n```\n"
    texts = [" ".join(part.text.split()) for part in split_answer(answer)]
    assert texts == ["Head", "He left the house .", "She stayed.", "one", "two", "x = 1"]


def unit(*numbers: float) -> Vector:
    return Vector(bytes_of(numbers))


@proves("support.sentences")
def test_similarity_helps_only_where_words_differ() -> None:
    far = "Guests dance under purple lanterns all evening [1]."
    wrong = "The key hangs on hook nine [1]."

    def alike(texts: Sequence[str]) -> list[Vector]:
        return [unit(1, 0)] * len(texts)

    def unlike(texts: Sequence[str]) -> list[Vector]:
        return [unit(0, 1) if text.startswith("Guests") else unit(1, 0) for text in texts]

    def judge(sentence: str, embed: object) -> tuple[SupportReason, ...]:
        comparison = Comparison(embed, 0.7)  # pyright: ignore[reportArgumentType]
        return check_support(sentence, SOURCES, comparison=comparison).sentences[0].reasons

    assert judge(far, alike) == ()
    assert judge(far, unlike) == (WORDS, SIMILAR)
    assert judge(wrong, alike) == (NUMBER,)


def test_limited_number_of_texts_is_embedded_for_an_answer() -> None:
    embedded: list[str] = []

    def embed(texts: Sequence[str]) -> list[Vector]:
        embedded.extend(texts)
        return [unit(1, 0)] * len(texts)

    answer = " ".join(f"Guests dance under {colour} lanterns." for colour in "abcdefghij" * 20)
    check_support(answer, [passage("A boat came. " * 5)] * 3, comparison=Comparison(embed, 0.7))
    many = " ".join(f"Xa{n}q yb{n}q zc{n}q wd{n}q." for n in range(300))
    check_support(many, SOURCES, comparison=Comparison(embed, 0.7))

    assert len(embedded) <= 2 * MAX_EMBEDDED


@proves("support.linear")
@each_row(
    "piece",
    ["He left in 1904. ", "1,000,", "Aa ", '"x" ', "two and ", "12 March ", "- x\n", "hook. A "],
)
def test_work_of_an_answer_grows_with_its_length(piece: str) -> None:
    def calls(length: int) -> int:
        text = piece * (length // len(piece))
        marks = tuple((place, place + 1) for place in range(0, len(text), 3))
        counted = 0

        def count(*_: object) -> None:
            nonlocal counted
            counted += 1

        sys.setprofile(count)
        try:
            check_support(text, [*SOURCES, passage(text)], Quotes((), marks, (), marks[1::5]))
        finally:
            sys.setprofile(None)
        return counted

    calls(300)  # Tables and stemmers are made once.

    # The passage grows as well, so a product of both would be sixteen times as much.
    assert calls(1600) <= 7 * calls(400) + 2000


WORST = {
    # set: wrong sentences that are marked, right ones that are marked by mistake
    "choose": (82, 17),
    "held_out": (83, 15),
}
"""Measured without similarity; the words that are compared must not get worse."""


@proves("support.measured")
@pytest.mark.parametrize("name", WORST)
def test_planted_errors_are_found_as_measured(name: str) -> None:
    cases = read_cases(name)
    results = check(cases)
    rates = rates_of(results)
    caught, blamed = WORST[name]
    assert rates.caught >= caught
    assert rates.blamed <= blamed
    for kind in ("name", "source", "date"):
        assert all(result.marked for result in results if result.case.kind == kind)
    for kind in ("close", "combined", "none", "list"):
        assert not any(result.marked for result in results if result.case.kind == kind)


def test_both_sets_have_enough_cases_of_every_kind() -> None:
    cases = {name: read_cases(name) for name in WORST}
    kinds = {name: {case.kind for case in found} for name, found in cases.items()}
    assert sum(map(len, cases.values())) >= 240
    assert kinds["choose"] - {"unrelated"} == kinds["held_out"]
    assert not {case.sentence for case in cases["choose"]} & {
        case.sentence for case in cases["held_out"]
    }
