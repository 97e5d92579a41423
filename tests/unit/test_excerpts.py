"""The choice of excerpts: the best window, its neighbours, and omitted text."""

from msgspec.structs import replace

from tests.support.rows import each_row
from truespan.retrieval.excerpts import (
    MAX_CHARACTERS,
    MAX_UNMATCHED,
    Run,
    SentenceWords,
    choose_excerpts,
    count_unmatched,
    grow,
)

RARITY = {"key": 2.0, "hook": 1.0, "inn": 1.0}


def run_of(*words: str, length: int = 100) -> Run:
    return [
        SentenceWords(place * length, (place + 1) * length, frozenset(named.split()))
        for place, named in enumerate(words)
    ]


@each_row(("runs", "sentences", "score"), [
    # All words within 400 characters; no further sentence fits.
    ([run_of("", "inn", "", "key", "hook", "", "")], (1, 4), 1.0),
    # Distant words, and those of another run, do not join.
    ([run_of("key", "", "", "", "", "hook inn", "")], (0, 3), 0.5),
    ([run_of("key"), run_of("hook inn", "")], (0, 0), 0.5),
    # A sentence longer than an excerpt stays whole.
    ([run_of("", "key", "", length=MAX_CHARACTERS + 1)], (1, 1), 0.5),
])  # fmt: skip
def test_best_window_has_most_words_and_grows_by_neighbours(
    runs: list[Run], sentences: tuple[int, int], score: float
) -> None:
    [excerpt] = choose_excerpts([runs], RARITY)
    assert ((excerpt.first, excerpt.last), excerpt.score) == (sentences, score)


def test_better_excerpts_come_first_then_rank_decides() -> None:
    found = list(
        choose_excerpts([[run_of("hook")], [run_of("key hook")], [run_of("key hook inn")]], RARITY)
    )
    assert [excerpt.passage for excerpt in found] == [2, 1]
    found = list(choose_excerpts([[run_of("key")], [run_of("key")]], RARITY))
    assert [excerpt.passage for excerpt in found] == [0, 1]
    assert found[0].score > found[1].score


def test_excerpt_grows_on_both_sides_as_far_as_it_fits() -> None:
    run = run_of("", "", "", "", "", "", length=100)
    assert grow(run, 3, 3) == (2, 5)
    assert grow(run, 0, 0) == (0, 3)
    assert grow(run, 5, 5) == (2, 5)


def test_excerpt_of_a_table_has_the_header_and_no_further_rows() -> None:
    words = ("", "", "ada", "bob", "", "", "")
    run = [
        SentenceWords(place * 30, (place + 1) * 30, frozenset(named.split()), 1 <= place <= 4)
        for place, named in enumerate(words)
    ]
    assert grow(run, 3, 3) == (0, 3)
    assert grow(run, 4, 4) == (0, 6)
    wide = [replace(row, start=row.start * 10, end=row.end * 10) for row in run]
    assert grow(wide, 3, 3) == (3, 3)
    [excerpt] = choose_excerpts([[run]], {"bob": 1.0, "ada": 1.0})
    assert (excerpt.first, excerpt.last) == (0, 3)


def test_excerpt_has_at_most_the_maximum_length() -> None:
    for length, ends in ((MAX_CHARACTERS, (0, 1)), (MAX_CHARACTERS + 1, None)):
        run = [
            SentenceWords(0, 20, frozenset({"inn"})),
            SentenceWords(20, length, frozenset({"key"})),
        ]
        assert grow(run, 0, 0) == (ends or (0, 0))
        assert grow(run, 1, 1) == (ends or (1, 1))
        [excerpt] = choose_excerpts([[run]], RARITY)
        assert (excerpt.first, excerpt.last) == (ends or (1, 1))


def test_passages_without_words_count_before_the_first_match() -> None:
    empty, full = [run_of("", "")], [run_of("key")]
    assert count_unmatched([full, empty]) == 0
    assert count_unmatched([empty, full, empty]) == 1
    assert count_unmatched([empty] * 9) == MAX_UNMATCHED
    assert list(choose_excerpts([empty], {})) == []
