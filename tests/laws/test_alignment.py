"""Alignment: reading positions in another revision of a book."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.promises import proves
from truespan.text.alignment import MAX_BETWEEN, MIN_PROOF, Alignment


def spelled(letter: str) -> str:
    return f"The {letter} lamp, the {letter} lamp of {letter}, burned."


def told(letters: Sequence[str]) -> list[str]:
    return [spelled(letter) for letter in letters]


def read_before(old: Sequence[str], new: Sequence[str], sid: int) -> int:
    """Return the last sentence of the longest common beginning, up to `sid`."""
    pairs = enumerate(zip(old[: sid + 1], new, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(sid + 1, len(new))) - 1


letters = st.lists(st.sampled_from("ABCDEFGH"), min_size=1, max_size=14)
distinct = st.lists(st.sampled_from("ABCDEFGHIJKLMNOP"), min_size=1, max_size=14, unique=True)
forewords = st.lists(st.sampled_from("qrstuvwxyz"), max_size=8)
"""With one sentence read, a longer one is not passed over."""


@proves("reading.re-anchored", "reading.never-past-position")
@examples(400)
@given(st.one_of(letters, distinct), st.one_of(letters, distinct), st.data())
def test_alignment_never_passes_unread_sentences(
    old: list[str], new: list[str], data: st.DataObject
) -> None:
    sid = data.draw(st.integers(-1, len(old) - 1))

    moved = Alignment(told(old), told(new)).move(sid)

    read, ahead = set(old[: sid + 1]), set(old[sid + 1 :])
    assert -1 <= moved < len(new)
    assert not set(new[: moved + 1]) & (ahead - read)
    assert moved == -1 or new[moved] in read
    assert moved >= read_before(old, new, sid)


@proves("reading.re-anchored")
@examples(100)
@given(letters, st.data())
def test_equal_books_keep_every_position(old: list[str], data: st.DataObject) -> None:
    sid = data.draw(st.integers(-1, len(old) - 1))

    assert Alignment(told(old), told(old)).move(sid) == sid


@proves("reading.re-anchored")
@examples(100)
@given(distinct, forewords, letters, st.data())
def test_a_foreword_shifts_every_position(
    old: list[str], foreword: list[str], rest: list[str], data: st.DataObject
) -> None:
    sid = data.draw(st.integers(0, len(old) - 1))
    new = [*foreword, *old[: sid + 1], *(letter.lower() * 2 for letter in rest)]

    assert Alignment(told(old), told(new)).move(sid) == sid + len(foreword)
    assert Alignment(told(old), told(new)).move(-1) == -1


OTHER_MARKS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("curly quotes", lambda text: text.replace(' "', " “").replace('"', "”").replace("'", "’")),
    ("no quotes", lambda text: text.replace('"', "").replace("'", "")),
    ("guillemets", lambda text: text.replace(' "', " « ").replace('"', " »")),
    ("long dashes", lambda text: text.replace(" - ", "—")),
    ("an ellipsis", lambda text: text.replace("...", "…")),
    ("capitals", str.upper),
    ("other spaces", lambda text: text.replace(" ", "\n  ")),
    ("exclamation", lambda text: text.replace(".", "!")),
    ("ligatures", lambda text: text.replace("fi", "ﬁ")),
    ("soft hyphens", lambda text: text.replace("lamp", "la\u00admp")),
)
QUOTED = [
    "Chapter One", '"Who\'s there?" she said - softly.', "Nobody answered...", "* * *",
    'He said "fire" and left - at last.', "It was the lamp's fifth night.", "No.",
    "She didn't know.", "No.",
]  # fmt: skip


@proves("reading.re-anchored")
def test_other_quotes_dashes_spaces_and_case_keep_every_position() -> None:
    for name, change in OTHER_MARKS:
        new = list(map(change, QUOTED))
        moved = [Alignment(QUOTED, new).move(sid) for sid in range(-1, len(QUOTED))]
        assert moved == list(range(-1, len(QUOTED))), name


@proves("reading.re-anchored", "reading.non-interference")
@examples(300)
@given(st.one_of(letters, distinct), letters, letters, letters, st.data())
def test_other_ending_of_the_new_edition_moves_no_position(
    old: list[str], begun: list[str], end: list[str], other: list[str], data: st.DataObject
) -> None:
    sid = data.draw(st.integers(-1, len(old) - 1))

    one = Alignment(told(old), told([*begun, *end])).move(sid)
    two = Alignment(told(old), told([*begun, *other])).move(sid)

    assume(max(one, two) < len(begun))
    assert one == two


@proves("reading.re-anchored", "reading.non-interference")
@examples(300)
@given(
    st.lists(st.sampled_from("ABCD"), max_size=9),
    st.lists(st.sampled_from("ABCDqr"), max_size=5),
    st.lists(st.sampled_from("ABCDst"), max_size=5),
    st.lists(st.sampled_from("ABCDEFG"), max_size=14),
)
def test_other_ending_of_the_earlier_edition_moves_no_position(
    read: list[str], end: list[str], other: list[str], new: list[str]
) -> None:
    known = set(new) & {*end, *other} <= set(read)
    sid = len(read) - 1

    one = Alignment(told([*read, *end]), told(new)).move(sid)
    two = Alignment(told([*read, *other]), told(new)).move(sid)

    assert one == two or not known


BOOK = [f"Sentence {number} tells how the lamp burned in year {number}." for number in range(300)]
NOVEL = [f"A wholly new line, the {number}th, about a different matter." for number in range(900)]
NOTED = [
    text
    for number, line in enumerate(BOOK)
    for text in ([line, NOVEL[number]] if number % 9 == 0 else [line])
]
KEPT = {
    "a foreword": ([*NOVEL[:60], *BOOK], 200, 260),
    "a foreword after the title": ([BOOK[0], *NOVEL[:60], *BOOK[1:]], 200, 260),
    "a long foreword": ([*NOVEL, *BOOK], 200, 1100),
    "a foreword that quotes what was read": ([*NOVEL[:9], BOOK[5], BOOK[3], *BOOK], 200, 211),
    "a note here and there": (NOTED, 199, 222),
    "a revised page": ([*BOOK[:50], *NOVEL[:12], *BOOK[60:]], 200, 202),
    "a page left out": ([*BOOK[:50], *BOOK[60:]], 200, 190),
    "chapters that were read change places": (
        [*BOOK[:50], *BOOK[90:150], *BOOK[50:90], *BOOK[150:]], 200, 200,
    ),
    "sentences joined": ([*BOOK[:50], " ".join(BOOK[50:52]), *BOOK[52:]], 200, 199),
    "a sentence split": ([*BOOK[:50], BOOK[50][:20], BOOK[50][20:], *BOOK[51:]], 200, 201),
    "an afterword that repeats what was read": ([*BOOK[:201], *NOVEL[:5], *BOOK[10:40]], 200, 200),
    "another end": ([*BOOK[:201], *NOVEL], 200, 200),
}  # fmt: skip
LOWERED = {
    "an unread chapter is moved in front": ([*BOOK[250:260], *BOOK], 200, -1),
    "an unread chapter is moved between": ([*BOOK[:80], *BOOK[250:260], *BOOK[80:]], 200, 79),
    "an unread sentence is quoted in a foreword": ([*NOVEL[:9], BOOK[250], *BOOK], 200, -1),
    "an unread sentence is retold in a foreword": (
        [*NOVEL[:9], f"As all know, {BOOK[250].lower()}", *BOOK], 200, -1,
    ),
    "words of an unread sentence are retold": (
        [*NOVEL[:9], "It tells how the lamp burned in year 250, alas.", *BOOK], 200, -1,
    ),
    "a long new chapter is inserted": ([*BOOK[:150], *NOVEL[:200], *BOOK[150:]], 200, 149),
    "a chapter is added before the last page": ([*BOOK[:290], *NOVEL[:9], *BOOK[290:]], 299, 289),
    "a chapter is added to the few there are": ([*BOOK[:25], *NOVEL[:30], *BOOK[25:30]], 29, 24),
    "the last read sentence is another": ([*BOOK[:200], NOVEL[0], *BOOK[201:]], 200, 199),
    "another book": (NOVEL, 200, -1),
    "another book with one line of this one": ([*NOVEL, BOOK[150], *NOVEL], 200, -1),
    "a sequel with the same first and last page": ([*BOOK[:9], *NOVEL, *BOOK[290:]], 299, 8),
    "more new text than a few read lines prove": ([BOOK[0], *NOVEL[:200], *BOOK[1:]], 5, 0),
}  # fmt: skip


@proves("reading.re-anchored", "reading.never-past-position")
def test_edition_moves_a_reader_to_the_same_sentence_or_back() -> None:
    wrong = {}
    for name, (new, sid, expected) in {**KEPT, **LOWERED}.items():
        moved = Alignment(BOOK, new).move(sid)
        if moved != expected:
            wrong[name] = (moved, expected)

    assert wrong == {}


@proves("reading.re-anchored", "reading.never-past-position")
def test_differently_divided_speech_counts_as_read() -> None:
    speech = NOVEL[:80]
    whole = [*BOOK[:150], " ".join(speech), *BOOK[150:]]
    parts = [*BOOK[:150], *speech, *BOOK[150:]]

    assert Alignment(whole, parts).move(200) == 279
    assert Alignment(parts, whole).move(279) == 200
    # Who has not finished the speech is moved before it, and not past its end.
    assert Alignment(parts, whole).move(170) == 149
    assert Alignment(whole, [*speech[:9], *whole]).move(149) == -1


@proves("reading.re-anchored", "reading.never-past-position")
def test_repeated_line_moves_no_reader_forward() -> None:
    verses = [[f"Verse {number} of the old song of the harbour."] for number in range(6)]
    song = [line for verse in verses for line in (*verse, "Oh, the lamp, the lamp, the lamp!")]
    for sid in range(-1, len(song)):
        assert Alignment(song, song).move(sid) == sid
        assert Alignment(song, [*NOVEL[:3], *song]).move(sid) == (sid + 3 if sid >= 0 else -1)
        # Without the verse that was read last, its chorus cannot be told from the others.
        without = song[: sid - 1] + song[sid + 1 :] if sid % 2 else song
        assert Alignment(song, without).move(sid) <= sid
    assert Alignment(song, [*NOVEL[:3], song[1], *NOVEL[3:9]]).move(4) == -1


@proves("reading.re-anchored", "reading.never-past-position")
def test_text_without_spaces_is_compared_by_its_characters() -> None:
    old = [f"第{number}夜、港の灯りは燃えていた。" for number in "一二三四五六七八九"]

    assert Alignment(old, ["まえがき。", *old]).move(4) == 5
    assert Alignment(old, ["まえがき。", old[7], *old]).move(4) == -1
    assert MAX_BETWEEN > MIN_PROOF


def steps_of(work: Callable[[], Any]) -> int:
    """Return how many lines of Python a call runs through."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@proves("reading.re-anchored")
def test_hostile_books_are_aligned_in_linear_time() -> None:
    def books(size: int) -> dict[str, tuple[list[str], list[str]]]:
        same, own = ["The lamp burned all the night."] * size, told(list(map(str, range(size))))
        mixed = [line for pair in zip(same, own, strict=True) for line in pair]
        return {
            "all equal": (same, [*NOVEL[:1], *same]),
            "reversed": (own, own[::-1]),
            "turned": (own, [*own[size // 2 :], *own[: size // 2]]),
            "every other one equal": (mixed, [*NOVEL[:1], *mixed[::-1]]),
            "nothing in common": (own, same),
            "two in turn": (same, [line for line in same for line in (line, NOVEL[0])]),
            "one sentence": ([" ".join(same)], [" ".join(own)]),
        }

    def steps(pair: tuple[list[str], list[str]]) -> int:
        size = len(pair[0])
        return steps_of(lambda: list(map(Alignment(*pair).move, (size // 2, size - 1))))

    small, large = books(200), books(800)
    for name, pair in small.items():
        few, many = steps(pair), steps(large[name])
        assert many < 6 * few, (name, few, many)


def test_alignment_hides_answers_about_later_text() -> None:
    old = [f"In chapter {n} the keeper of tower {n} lit lamp {n} at night." for n in range(12)]
    later = [*old[:4], *old[5:9], old[4], *old[9:]]
    shorter = [*old[:4], *old[5:]]
    corrected = [*old[:4], old[4].replace("keeper", "guard"), *old[5:]]
    rewritten = [*old[:4], "Nobody knew what happened here.", *old[5:]]

    assert [Alignment(old, old).move_all(sid) for sid in range(12)] == list(range(12))
    assert Alignment(old, ["A foreword to the book.", *old]).move_all(7) == 8
    # A reader at the end of the moved part has not read the sentence that was moved.
    assert Alignment(old, later).move(7) == 6
    assert Alignment(old, later).move_all(7) is None
    assert Alignment(old, shorter).move_all(7) is None
    assert Alignment(old, rewritten).move_all(7) is None
    assert Alignment(old, corrected).move_all(7) == 7
    # No other end of the new edition makes a difference.
    for end in ([], [old[4]], ["Something else."] * 30):
        assert Alignment(old, [*later[:7], *end]).move_all(7) is None
        assert Alignment(old, [*corrected[:9], *end]).move_all(7) == 7
