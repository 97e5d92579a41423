"""Chapters by number, name or part of a name."""

from collections.abc import Sequence
from typing import Any

from tests.promises import proves
from truespan.errors import InvalidArgument
from truespan.retrieval.reading.chapters import Chapter, find_chapter, list_chapters
from truespan.types.document import OutlineEntry

FERRY = (
    "The Glass Ferry", "Foreword", "Chapter One: The Afternoon Boat", "Chapter Two: Hook Seven",
    "Chapter Five: The Coat on the Peg", "Chapter Twenty-Two", "Epilogue",
)  # fmt: skip
ROMAN = ("Preface", "I", "II. The Boat", "III", "IV", "V", "IX")
PARTS = ("Part One", "1 The Sea", "2 The Land", "Part Two", "3 The Sky", "4. Five Winds")
PLAIN = ("The Two Towers", "Cafe\u0301 au lait", "A Boat", "Boats", "1984", "I saw him")
LETTERS = ("Letter 1", "Letter 2", "Letter 3")
TWICE = ("Chapter 1", "Chapter 2", "Chapter 1")
NESTED = (
    "TRANSLATOR'S PREFACE", "PART I. The Quay", "PART I, CHAPTER I. THE LAMP",
    "PART I, CHAPTER II. THE BOAT", "PART I, CHAPTER III. THE STORM", "PART II",
    "PART II, CHAPTER I. THE STORM", "PART II, CHAPTER II. THE BOAT AGAIN",
    "PART II, CHAPTER III. THE INN, AND THE ROAD", "PART II, CHAPTER IV. LIGHT", "EPILOGUE",
)  # fmt: skip
IN_PARTS = (
    "The Title", "Part One", ("Part One", "Chapter 1"), ("Part One", "Chapter 2"),
    "Part Two", ("Part Two", "Chapter 3"), ("Part Two", "Chapter 4"), "Epilogue",
)  # fmt: skip
"""As e-book tools divide a book: headings of level 1 for parts and of level 2 for chapters."""
SENTENCES = 10
"""The sentences of each chapter of these books."""


def outline_of(names: Sequence[str | tuple[str, str]]) -> list[OutlineEntry]:
    """Return an outline of chapters, or of chapters with sections."""
    pairs = [(name, None) if isinstance(name, str) else name for name in names]
    return [OutlineEntry(n * SENTENCES, n * 100, *pair) for n, pair in enumerate(pairs)]


def find(
    names: Sequence[str | tuple[str, str]], wanted: str, position: int | None = None
) -> Chapter:
    chapters = list_chapters(outline_of(names), len(names) * SENTENCES - 1)
    return find_chapter(chapters, wanted, position=position)


def found_or_error(
    names: Sequence[str | tuple[str, str]], wanted: str, position: int | None = None
) -> int | str:
    """Return the place of a chapter in a book whose chapters have the same length."""
    try:
        return find(names, wanted, position).start // SENTENCES
    except InvalidArgument as error:
        return str(error)


def end_or_error(names: Sequence[str | tuple[str, str]], wanted: str) -> int | str:
    """Return the last sentence of a chapter for a reader who has read nothing."""
    try:
        return find(names, wanted, -1).end
    except InvalidArgument as error:
        return str(error)


@proves("reading.chapters-by-name")
def test_chapter_is_found_by_number_name_or_part_of_its_name() -> None:
    rows = [
        (FERRY, "two", 3), (FERRY, "Chapter Two", 3), (FERRY, "II", 3), (FERRY, "2", 3),
        (FERRY, "5", 4), (FERRY, "V", 4), (FERRY, "five", 4), (FERRY, "ch. 5", 4),
        (FERRY, "22", 5), (FERRY, "twenty-two", 5), (FERRY, "xxii", 5),
        (FERRY, "hook", 3), (FERRY, "coat on", 4), (FERRY, "epi", 6), (FERRY, "logue", 6),
        (FERRY, "chapter one the afternoon boat", 2), (FERRY, "CHAPTER ONE — the Afternoon", 2),
        (FERRY, "glass", 0), (FERRY, "chapter the second", 3), (FERRY, "Hook Seven", 3),
        (FERRY, "chapter 2: hook", 3), (FERRY, "chapter v, the coat", 4),
        (ROMAN, "5", 5), (ROMAN, "two", 2), (ROMAN, "chapter iv", 4), (ROMAN, "the boat", 2),
        (ROMAN, "9", 6), (ROMAN, "i", 1),
        (PARTS, "3", 4), (PARTS, "1", 1), (PARTS, "part 2", 3), (PARTS, "part two", 3),
        (PARTS, "chapter 2", 2), (PARTS, "winds", 5), (PARTS, "4", 5),
        (PARTS, "part two, chapter 3", 4), (PARTS, "part 1, the land", 2),
        (PLAIN, "two", 0), (PLAIN, "2", 1), (PLAIN, "3", 2), (PLAIN, "chapter four", 3),
        (PLAIN, "CAF\xc9", 1), (PLAIN, "1984", 4), (PLAIN, "a boat", 2), (PLAIN, "boats", 3),
        (PLAIN, "saw", 5), (LETTERS, "2", 1), (LETTERS, "letter three", 2), (TWICE, "2", 1),
        (NESTED, "PART I", 1), (NESTED, "part one", 1), (NESTED, "part 2", 5),
        (NESTED, "the quay", 1), (NESTED, "the lamp", 2), (NESTED, "chapter iv", 9),
        (NESTED, "4", 9), (NESTED, "PART I, CHAPTER II. THE BOAT", 3),
        (NESTED, "part i chapter ii", 3), (NESTED, "Part 2, Chapter 2", 7),
        (NESTED, "part two chapter three", 8), (NESTED, "part 2: the storm", 6),
        (NESTED, "Part II, the inn", 8), (NESTED, "the boat", 3), (NESTED, "boat again", 7),
        (NESTED, "epilogue", 10), (NESTED, "translator", 0),
    ]  # fmt: skip
    wrong = {
        (names[0], wanted): found
        for names, wanted, expected in rows
        if (found := found_or_error(names, wanted)) != expected
    }
    assert wrong == {}


@proves("reading.chapters-by-name")
def test_unknown_or_ambiguous_chapter_is_refused_with_candidates() -> None:
    rows = [
        # The third heading is not chapter three.
        (FERRY, "3", "no chapter '3'"), (FERRY, "six", "no chapter 'six'"),
        (FERRY, "the", "several chapters: 'The Glass Ferry'"),
        (FERRY, "chapter", "'Chapter One: The Afternoon Boat', 'Chapter Two: Hook Seven'"),
        (FERRY, "Forword", "closest: 'Foreword'"),
        (PARTS, "part 3", "no chapter"), (PARTS, "5", "no chapter"),
        (PARTS, "part 1, chapter 3", "no chapter"),
        (PLAIN, "0", "no chapter"), (PLAIN, "7", "no chapter"), (PLAIN, "-1", "no chapter"),
        (PLAIN, "9" * 5000, "no chapter"), (PLAIN, "²", "no chapter"), (PLAIN, "٢", "no chapter"),
        (PLAIN, " ", "Name a chapter"), (PLAIN, "", "Name a chapter"), (PLAIN, "…", "Name a"),
        (TWICE, "1", "'Chapter 1' (from sentence 0), 'Chapter 1' (from sentence 20)"),
        (TWICE, "chapter 1", "several chapters"),
        (NESTED, "chapter ii", "'PART I, CHAPTER II. THE BOAT', 'PART II, CHAPTER II. THE BOAT"),
        (NESTED, "the storm", "'PART I, CHAPTER III. THE STORM', 'PART II, CHAPTER I. THE STORM'"),
        (NESTED, "part 3", "no chapter"), (NESTED, "part 1 chapter 4", "no chapter"),
        (NESTED, "99", "'PART II, CHAPTER I. THE STORM', 'PART II, CHAPTER II. THE BOAT AGAIN' and "
         "3 more."),
    ]  # fmt: skip
    wrong = {
        (names[0], wanted[:9]): found
        for names, wanted, words in rows
        if words not in str(found := found_or_error(names, wanted))
    }
    assert wrong == {}


def test_part_ends_with_its_last_chapter() -> None:
    flat = ("Part One", "The Sea", "The Land", "Part Two", "The Sky", "Appendix A")
    books = ("Book I", "Part 1", "Chapter 1", "Part 2", "Chapter 2", "Book II", "Part 1", "End")
    sections = (("Part I", "Chapter 1"), ("Part I", "Chapter 2"), ("Part II", "Chapter 1"))
    rows = [
        (NESTED, "PART I", 49), (NESTED, "part 2", 99), (NESTED, "part i chapter ii", 39),
        (PARTS, "part one", 29), (PARTS, "part two", 59), (PARTS, "2", 29),
        (flat, "part one", 29), (flat, "part two", 49), (flat, "the sky", 49),
        (books, "book i", 49), (books, "book 1, part 1", 29), (books, "book 2", 79),
        (FERRY, "epilogue", 69), (FERRY, "foreword", 19),
        (sections, "part i", 19), (sections, "part 2 chapter 1", 29),
        (sections, "part 1, chapter 1", 9), (sections, "chapter 2", 19),
    ]  # fmt: skip
    wrong = {
        (names[0], wanted): end
        for names, wanted, expected in rows
        if (end := find(names, wanted).end) != expected
    }
    assert wrong == {}


@proves("reading.chapters-by-name")
def test_bare_number_names_a_chapter_at_any_level() -> None:
    def divide(*names: str, parts: tuple[str, str] = ("Part One", "Part Two")) -> list[Any]:
        first, last = parts
        return ["Title", first, *((first, n) for n in names[:2]), last, (last, names[2])]

    scenes = ("Chapter 1", ("Chapter 1", "I"), ("Chapter 1", "II"), "Chapter 2", ("Chapter 2", "I"))
    books = ("Book 1", ("Book 1", "Part 1"), ("Book 1", "Chapter 1"), ("Book 1", "Chapter 2"),
             ("Book 1", "Part 2"), ("Book 1", "Chapter 1"), "Book 2", ("Book 2", "Chapter 1"),
             ("Book 2", "Chapter 2"))  # fmt: skip
    bare = divide("1", "2", "3", parts=("I", "II"))
    no_numbers, several = divide("Anna", "Bert", "Carla"), "can mean several"
    rows = [
        (IN_PARTS, "1", 29), (IN_PARTS, "2", 39), (IN_PARTS, "3", 59), (IN_PARTS, "chapter 2", 39),
        (IN_PARTS, "part 2", 69), (IN_PARTS, "Part Two, Chapter 3", 59), (IN_PARTS, "two", 39),
        (IN_PARTS, "Part One › Chapter 2", 39), (IN_PARTS, "5", "no chapter '5'"),
        (divide("1", "2", "3"), "2", 39), (divide("1", "2", "3"), "part one › chapter 1", 29),
        # A part and a chapter have the number: neither is guessed.
        (bare, "2", several), (bare, "chapter 2", several), (bare, "3", 59), (bare, "I › 2", 39),
        # Parts have numbers, and their chapters have none.
        (no_numbers, "2", "no chapter '2'"), (no_numbers, "part 2", 59), (no_numbers, "bert", 39),
        (divide("Anna", "Bert", "Carla", parts=("May", "June")), "1", several),
        # A number within "Chapter 1" is that of a section.
        (scenes, "2", 49), (scenes, "1", 29), (scenes, "chapter 1, ii", 29),
        (books, "2", 39), (books, "part 1", 39), (books, "book 1", 59), (books, "book 2", 89),
    ]  # fmt: skip
    wrong = {
        (str(names[1]), wanted): found
        for names, wanted, expected in rows
        if str(expected) not in str(found := end_or_error(names, wanted))
        or (isinstance(expected, int) and found != expected)
    }
    assert wrong == {}


def test_heading_without_text_includes_its_sections() -> None:
    names = ("Part One", "Chapter 1", "The Boat", "Chapter 2", "The Storm")
    outline = [
        OutlineEntry(sid, sid, "Part One", name if sid else None)
        for sid, name in zip((0, 1, 2, 9, 10), names, strict=True)
    ]
    chapters = list_chapters(outline, 19)
    assert find_chapter(chapters, "1").end == 8
    assert chapters[2].name == "Part One › Chapter 1 › The Boat"


def test_position_distinguishes_chapters_with_one_number() -> None:
    several = "can mean several"
    three = (*NESTED[:-1], "PART III", "PART III, CHAPTER I", "PART III, CHAPTER II", "EPILOGUE")
    rows = [
        # Nothing was read: the first one, also where both have the same name.
        (NESTED, "chapter ii", -1, 3), (TWICE, "1", -1, 0), (NESTED, "the storm", -1, 4),
        # The next one of that number, in the part that is read.
        (NESTED, "chapter ii", 29, 3), (NESTED, "chapter ii", 62, 7), (NESTED, "ch 3", 69, 8),
        (NESTED, "chapter i", 49, 6), (TWICE, "1", 19, 2),
        # The one that was just read, however often it is said.
        (NESTED, "chapter ii", 39, 3), (NESTED, "chapter iii", 49, 4), (NESTED, "2", 75, 7),
        (TWICE, "1", 9, 0), (TWICE, "1", 25, 2),
        # Back within the part.
        (NESTED, "chapter i", 45, 2), (NESTED, "chapter i", 99, 6),
        # After all parts it may be any of them.
        (NESTED, "chapter ii", 105, several), (three, "chapter i", 138, several),
        # A part of a name is never decided by the position.
        (NESTED, "boat", 29, several), (NESTED, "chapter", -1, several),
        (three, "part iii, chapter ii", 0, 12), (three, "chapter iv", 120, 9),
    ]  # fmt: skip
    wrong = {
        (wanted, position): found
        for names, wanted, position, expected in rows
        if str(expected) not in str(found := found_or_error(names, wanted, position))
        or (isinstance(expected, int) and found != expected)
    }
    assert wrong == {}
