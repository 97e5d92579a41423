"""Which chapter is meant by a number, a name or a part of a name."""

from __future__ import annotations

from tests.promises import proves
from truespan.errors import InvalidSettings
from truespan.retrieval.chapters import find_chapter

FERRY = (
    "The Glass Ferry",
    "Foreword",
    "Chapter One: The Afternoon Boat",
    "Chapter Two: Hook Seven",
    "Chapter Five: The Coat on the Peg",
    "Chapter Twenty-Two",
    "Epilogue",
)
ROMAN = ("Preface", "I", "II. The Boat", "III", "IV", "V", "IX")
PARTS = ("Part One", "1 The Sea", "2 The Land", "Part Two", "3 The Sky", "4. Five Winds")
PLAIN = ("The Two Towers", "Cafe\u0301 au lait", "A Boat", "Boats", "1984", "I saw him")
LETTERS = ("Letter 1", "Letter 2", "Letter 3")
TWICE = ("Chapter 1", "Chapter 2", "Chapter 1")


@proves("reading.chapters-by-name")
def test_a_chapter_is_found_by_number_name_or_part_of_its_name() -> None:
    rows = [
        (FERRY, "two", 3), (FERRY, "Chapter Two", 3), (FERRY, "II", 3), (FERRY, "2", 3),
        (FERRY, "5", 4), (FERRY, "V", 4), (FERRY, "five", 4), (FERRY, "ch. 5", 4),
        (FERRY, "22", 5), (FERRY, "twenty-two", 5), (FERRY, "xxii", 5),
        (FERRY, "hook", 3), (FERRY, "coat on", 4), (FERRY, "epi", 6), (FERRY, "logue", 6),
        (FERRY, "chapter one the afternoon boat", 2), (FERRY, "CHAPTER ONE — the Afternoon", 2),
        (FERRY, "glass", 0), (FERRY, "chapter the second", 3),
        (ROMAN, "5", 5), (ROMAN, "two", 2), (ROMAN, "chapter iv", 4), (ROMAN, "the boat", 2),
        (ROMAN, "9", 6), (ROMAN, "i", 1),
        (PARTS, "3", 4), (PARTS, "1", 1), (PARTS, "part 2", 3), (PARTS, "part two", 3),
        (PARTS, "chapter 2", 2), (PARTS, "winds", 5), (PARTS, "4", 5),
        (PLAIN, "two", 0), (PLAIN, "2", 1), (PLAIN, "3", 2), (PLAIN, "chapter four", 3),
        (PLAIN, "CAF\xc9", 1), (PLAIN, "1984", 4), (PLAIN, "a boat", 2), (PLAIN, "boats", 3),
        (PLAIN, "saw", 5), (LETTERS, "2", 1), (LETTERS, "letter three", 2), (TWICE, "2", 1),
    ]  # fmt: skip
    wrong = {}
    for names, wanted, expected in rows:
        try:
            found = find_chapter(names, wanted)
        except InvalidSettings as error:
            found = str(error)
        if found != expected:
            wrong[names[0], wanted] = found
    assert wrong == {}


@proves("reading.chapters-by-name")
def test_what_is_no_chapter_or_several_is_refused_with_the_candidates() -> None:
    rows = [
        # The third heading is not chapter three.
        (FERRY, "3", "no chapter '3'"), (FERRY, "six", "no chapter 'six'"),
        (FERRY, "the", "several chapters: 'The Glass Ferry'"),
        (FERRY, "chapter", "'Chapter One: The Afternoon Boat', 'Chapter Two: Hook Seven'"),
        (FERRY, "Forword", "closest: 'Foreword'"),
        (PARTS, "part 3", "no chapter"), (PARTS, "5", "no chapter"),
        (PLAIN, "0", "no chapter"), (PLAIN, "7", "no chapter"), (PLAIN, "-1", "no chapter"),
        (PLAIN, "9" * 5000, "no chapter"), (PLAIN, "²", "no chapter"), (PLAIN, "٢", "no chapter"),
        (PLAIN, " ", "Name a chapter"), (PLAIN, "", "Name a chapter"), (PLAIN, "…", "Name a"),
        (TWICE, "1", "several chapters"), (TWICE, "chapter 1", "several chapters"),
    ]  # fmt: skip
    wrong = {}
    for names, wanted, words in rows:
        try:
            wrong[names[0], wanted[:9]] = find_chapter(names, wanted)
        except InvalidSettings as error:
            if words not in str(error):
                wrong[names[0], wanted[:9]] = str(error)
    assert wrong == {}
