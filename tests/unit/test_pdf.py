"""PDF: reading order, paragraphs, hyphens, pages, outline, properties and refusals."""

import pytest

from tests.support.failures import raises_code
from tests.support.pdf_maker import Bookmark, Page, Words, column, make_pdf
from truespan.parsing import load
from truespan.parsing.formats.pdf import parse_authors, parse_date
from truespan.parsing.formats.pdf.paragraphs import Spelling, join_lines
from truespan.types.text import BlockKind, Loaded, PageStart

FULL = [
    "The ferry left the quay at six in the morning, and nobody who",
    "stood there saw that one of the lamps had gone out before it",
    "was light. The keeper of the landing wrote the hour down in a",
]
"""Lines that fill their column: the next word would not have fitted."""


def loaded(*pages: Page, **more: object) -> Loaded:
    return load("a.pdf", make_pdf(pages, **more))  # type: ignore[arg-type]


def texts(*pages: Page, **more: object) -> list[str]:
    return [block.text for block in loaded(*pages, **more).blocks]


# Paragraphs


def test_pdf_lines_of_a_paragraph_are_joined_up_to_a_gap():
    assert texts(Page(column([*FULL, "book of his own."]))) == [
        " ".join([*FULL, "book of his own."])
    ]
    assert texts(Page([*column(FULL), *column(FULL, top=650)])) == [" ".join(FULL)] * 2


def test_indent_after_a_full_stop_begins_a_paragraph():
    first = [*FULL[:2], "was light. The keeper of the landing wrote the hour in books."]
    words = [
        *column(first), *column(["   " + FULL[0].strip()], top=684), *column(FULL[1:], top=672),
    ]  # fmt: skip
    assert len(texts(Page(words))) == 2


def test_pdf_short_lines_other_sizes_and_items_are_paragraphs():
    verse = ["The lamp is out,", "the ferry gone,", "and nobody about", "to see the dawn"]
    assert texts(Page([*column(FULL), *column(verse, top=640)]))[1] == "\n".join(verse)
    words = [Words(72, 720, "The Landing", 18), *column(FULL, top=700)]
    assert texts(Page(words))[0] == "The Landing"
    items = ["• one lamp that had gone", "• two oars"]
    blocks = loaded(Page([*column(FULL), *column(items, top=684)])).blocks
    assert [block.text for block in blocks[1:]] == items
    assert {block.kind for block in blocks[1:]} == {BlockKind.LIST}


# Order


LEFT = [f"left column, line {number}, of a page" for number in range(8)]
RIGHT = [f"right column, line {number}, of a page" for number in range(8)]


def in_columns(*, across: bool) -> list[Words]:
    left, right = column(LEFT), column(RIGHT, x=330)
    return (
        [word for pair in zip(left, right, strict=True) for word in pair]
        if across
        else left + right
    )


@pytest.mark.parametrize("across", [True, False], ids=["row by row", "one by one"])
def test_pdf_two_columns_are_read_in_order(across: bool):
    text = " ".join(texts(Page(in_columns(across=across)))).replace("\n", " ")
    assert text == " ".join([*LEFT, *RIGHT])


def test_heading_across_both_columns_precedes_them():
    title = Words(150, 750, "A title that stands across both of the columns")
    assert " ".join(texts(Page([*in_columns(across=True), title]))).startswith(title.text)


def test_rows_of_a_table_are_kept():
    rows = [
        ("lamp", "3", "brass"), ("oar", "2", "ash"), ("rope", "12", "hemp"), ("bell", "1", "tin"),
    ]  # fmt: skip
    words = [
        Words(72 + 150 * place, 700 - 12 * number, cell)
        for number, row in enumerate(rows)
        for place, cell in enumerate(row)
    ]
    assert texts(Page(words)) == ["\n".join(" ".join(row) for row in rows)]


def test_pdf_cards_in_three_columns_are_read_in_order():
    words = []
    for card in range(3):
        for row in range(6):
            x, y, name = 30 + 200 * card, 700 - 40 * row, f"{card}{row}"
            # A short cell is beside the middle of a long one, so the file goes up after each.
            words += column([f"Key {name}", "of it"], x=x, top=y - 6, size=6)
            words += column(
                [f"opens {name},", "closes it", "and more."], x=x + 80, top=y, pitch=8, size=6
            )

    found = texts(Page(words))

    assert " ".join(found).split() == " ".join(word.text for word in words).split()
    assert sum(text.startswith("Key") for text in found) == 18


def test_pdf_shuffled_rotated_and_clipped_pages_are_read():
    lines = [f"{number:02} of the lines that this page holds" for number in range(30)]
    words = column(lines)
    shuffled = [words[(place * 7) % 30] for place in range(30)]
    assert " ".join(texts(Page(shuffled))).replace("\n", " ") == " ".join(lines)

    turned = b"".join(
        b"BT /F1 10 Tf 0 1 -1 0 %d 72 Tm (%s) Tj ET\n" % (100 + 12 * number, line.encode())
        for number, line in enumerate(FULL)
    )
    assert texts(Page(raw=turned, rotate=90)) == [" ".join(FULL)]

    words = [
        *column(FULL), Words(-400, 600, "hidden"), Words(72, 1500, "hidden"), Words(72, 20, "cut"),
    ]  # fmt: skip
    assert texts(Page(words, crop=(0, 100, 612, 792))) == [" ".join(FULL)]


# Accents


def drawn(*parts: str, y: float = 720) -> bytes:
    """Return operators that draw texts from the left, going back by a character after each."""
    back = b" 600 ".join(b"(%s)" % part.encode("cp1252") for part in parts)
    return b"BT /F1 10 Tf 1 0 0 1 72 %g Tm [%s] TJ ET\n" % (y, back)


def test_accent_over_a_letter_is_composed_with_it():
    rows = (
        (("the B¨", "arenreiter score"), "the Bärenreiter score"),
        (("Fran¸", "cois"), "François"),
        (("l’Hˆ", "opital d’´", "Evian"), "l’Hôpital d’Évian"),
        (("a", "¨ and then e", "´ after"), "ä and then é after"),
        (("the mean x", "ˆ of all"), "the mean x\u0302 of all"),
        (("a^b, ¨a, ~/home and `ls` are",), "a^b, ¨a, ~/home and `ls` are"),
        (("an accent ´ alone",), "an accent ´ alone"),
    )
    wrong = {
        parts: found
        for parts, whole in rows
        if (found := texts(Page(raw=drawn(*parts)))) != [whole]
    }

    assert not wrong


def test_a_raised_accent_is_composed_with_its_capital():
    raised = b"BT /F1 10 Tf 1 0 0 1 72 722.5 Tm (\xb4) Tj ET\n"
    found = texts(Page([*column(FULL, top=700), Words(72, 720, "Ecole normale")], raw=raised))
    assert "École normale" in " ".join(found)
    assert "´" not in " ".join(found)


# Hyphens


@pytest.mark.parametrize(("before", "after", "whole"), [
    ("an exam-", "ple of", "an example of"), ("EXAM-", "PLE", "EXAMPLE"),
    ("an ex-", "ample of", "an example of"), ("two ex-", "amples", "two examples"),
    ("his ex-", "wife", "his ex-wife"), ("so-", "lution", "solution"),
    ("a machine-", "dependent list", "a machine-dependent list"),
    ("a user-de-", "fined rule", "a user-defined rule"),
    ("the per-", "missions", "the permissions"), ("unlucki-", "ness", "unluckiness"),
    ("the Glass-", "boot sails", "the Glassboot sails"), ("Anglo-", "Saxon", "Anglo-Saxon"),
    ("1914-", "1918", "1914-1918"), ("an e-", "mail", "an e-mail"),
    ("state-of-the-", "art", "state-of-the-art"), ("self-", "made", "self-made"),
    ("well-", "known", "well-known"), ("the sea-", "side", "the sea-side"),
    ("and then -", "he left", "and then - he left"), ("漢字", "漢字", "漢字漢字"),
    ("one", "two", "one two"),
])  # fmt: skip
def test_hyphen_at_a_line_end_is_removed_unless_part_of_the_word(
    before: str, after: str, whole: str
):
    lines = ["the sea-side of the land and the sea to the Glassboot", before, after]
    kept, between = join_lines(before, after, Spelling.of_lines(lines))
    assert kept + between + after == whole


def test_divided_words_are_joined_and_ligatures_become_letters():
    lines = [
        "The oﬃce of the ferry was not far from there, and the pas-",
        "sengers could ﬁnd the ﬂoor of it wet in the early morn\xad",
        "ing, when the well-known keeper had already gone to the sea.",
    ]
    (text,) = texts(Page(column(lines)))
    assert "The office" in text
    assert "the passengers could find the floor" in text
    assert "early morning, when the well-known keeper" in text


def test_pdf_words_follow_the_hyphens_of_language_and_text():
    lines = ["Das Haus und die Tür des Hauses sind still, halt und gut", "der Haus-", "halt"]
    assert join_lines("der Haus-", "halt", Spelling.of_lines(lines)) == ("der Haus", "")
    lines = [
        "The light-house is old. Nobody knows who has built the light-",
        "house, or when. Nobody has asked for years, and the keeper of",
    ]
    assert texts(Page(column(lines)))[0].count("light-house") == 2


# Pages


def test_pdf_pages_begin_within_paragraphs_and_words():
    (block,) = loaded(Page(column(FULL)), Page(column(["book of his own."]))).blocks
    assert block.text == " ".join([*FULL, "book of his own."])
    assert block.pages == (PageStart(0, 1), PageStart(block.text.index("book"), 2))
    first = [*FULL[:2], "was light. The keeper of the landing wrote it into his diar-"]
    (block,) = loaded(Page(column(first)), Page(column(["ies, all of them."]))).blocks
    assert block.text.endswith("into his diaries, all of them.")
    assert block.pages[1] == PageStart(block.text.index("ies, all"), 2)
    blocks = loaded(Page(column(["One."])), Page(), Page(column(["Three."]))).blocks
    assert [block.pages for block in blocks] == [(PageStart(0, 1),), (PageStart(0, 3),)]


def numbered(count: int, *, head: str = "The Glass Ferry", foot: str = "{}") -> list[Page]:
    return [
        Page(
            [
                Words(72, 760, head.format(number + 7)),
                *column([f"{FULL[0]} {number}"[-60:], *FULL[1:]]),
                Words(300, 30, foot.format(number + 7)),
            ]
        )
        for number in range(count)
    ]


def test_page_numbers_are_dropped_and_running_heads_kept_once():
    text = "\n".join(texts(*numbered(5)))
    assert text.count("The Glass Ferry") == 1
    assert not any(f"\n{number}\n" in f"\n{text}\n" for number in range(7, 12))
    title = Page([Words(200, 500, "The Glass Ferry", 20)])
    blocks = loaded(title, *numbered(5)).blocks
    assert [len(block.pages) for block in blocks[1:]] == [5]


def test_pdf_edge_lines_and_other_numbers_are_kept():
    pages = [
        Page(column([f"{word} is said of it", *FULL])) for word in ("One", "Two", "Six", "Ten")
    ]
    assert all(
        word in "\n".join(texts(*pages)) for word in ("One is", "Two is", "Six is", "Ten is")
    )
    pages = [Page([*column(FULL), Words(300, 30, f"{year}")]) for year in (1914, 1871, 1805, 1618)]
    text = "\n".join(texts(*pages))
    assert all(str(year) in text for year in (1914, 1871, 1805, 1618))


@pytest.mark.parametrize("rule", ["-", "---", "- - -", "- iv -", "i", "·", "#"])
def test_line_of_marks_at_the_edge_of_a_page_is_read(rule: str):
    pages = [Page([Words(300, 760, rule), *column(FULL), Words(300, 30, rule)]) for _ in range(5)]
    assert FULL[0] in "\n".join(texts(*pages))


def test_rules_and_dates_of_pages_are_kept_once():
    for head in ("2024-11-03", "12 345", "-----", "* * *"):
        pages = [Page([Words(300, 760, head), *column(FULL)]) for _ in range(5)]
        assert "\n".join(texts(*pages)).count(head) == 1, head
    for rule in ("-", "-----", "- -"):
        assert "".join(texts(Page(column([rule])))).replace(" ", "") == rule.replace(" ", "")


# Outline


FIRST_WORDS = "The ferry left the quay at six in"


def test_the_outline_gives_chapters_and_sections():
    words = [
        Words(72, 720, "Preface of sorts, before all chapters."), Words(72, 680, "One", 14),
        *column(FULL, top=650), Words(72, 590, "A part of one", 12), *column(FULL, top=560),
    ]  # fmt: skip
    outline = [Bookmark("One", 0, 690), Bookmark("A part of one", 0, 600, 1), Bookmark("Two", 1)]
    blocks = loaded(Page(words), Page(column(FULL)), outline=outline).blocks

    assert [(block.chapter, block.section) for block in blocks] == [
        (None, None), ("One", None), ("One", None), ("One", "A part of one"),
        ("One", "A part of one"), (FIRST_WORDS, None),
    ]  # fmt: skip
    assert [block.text for block in blocks if block.kind is BlockKind.HEADING] == [
        "One",
        "A part of one",
    ]


def test_pdf_headings_are_found_by_words_lines_and_pages():
    words = [*column(FULL), Words(72, 660, "2.1 The Landing", 12), *column(FULL, top=640)]
    blocks = loaded(Page(words), outline=[Bookmark("The Landing", 0, 655)]).blocks
    assert [block.chapter for block in blocks] == [None, "The Landing", "The Landing"]

    words = [
        Words(72, 700, "How the Ferry", 16), Words(72, 680, "was Lost", 16), *column(FULL, top=640),
    ]  # fmt: skip
    blocks = loaded(Page(words), outline=[Bookmark("How the Ferry was Lost", 0, 720)]).blocks
    assert blocks[0].kind is BlockKind.HEADING
    assert blocks[0].text.split() == ["How", "the", "Ferry", "was", "Lost"]

    blocks = loaded(Page(column(FULL)), Page(column(FULL)), outline=[Bookmark("Two", 1)]).blocks
    # Not the title of the entry: it does not stand there.
    assert [block.chapter for block in blocks] == [None, FIRST_WORDS]


def test_outline_entry_without_a_target_uses_the_next_one():
    outline = [Bookmark("Part", -1), Bookmark("Inner", 1, None, 1)]
    page = [Words(72, 740, "Part"), Words(72, 720, "Inner"), *column(FULL, top=690)]
    blocks = loaded(Page(column(FULL)), Page(column(FULL)), outline=outline).blocks
    named = loaded(Page(column(FULL)), Page(page), outline=outline).blocks
    assert [(block.chapter, block.section) for block in blocks] == [
        (None, None),
        (FIRST_WORDS, None),
    ]
    assert [(block.chapter, block.section) for block in named][-1] == ("Inner", None)


def test_without_an_outline_chapters_are_found_as_in_plain_text():
    words = [Words(72, 700, "CHAPTER I"), *column(FULL, top=660)]
    blocks = loaded(Page(words)).blocks
    assert [(block.kind, block.chapter) for block in blocks] == [
        (BlockKind.HEADING, "CHAPTER I"),
        (BlockKind.PARAGRAPH, "CHAPTER I"),
    ]


# Properties


def test_properties_are_read():
    found = loaded(
        Page(column(FULL)),
        properties={
            "Title": "Die Fähre", "Author": "Jane Doe; John Roe", "Subject": "A loss",
            "Keywords": "ferry, lamp; loss", "CreationDate": "D:20240229131500+01'30'",
        },
        language="de-AT",
    )  # fmt: skip

    assert found.title == found.properties.title == "Die Fähre"
    assert found.properties.authors == ("Jane Doe", "John Roe")
    assert found.properties.language == "de-AT"
    assert found.properties.created == "2024-02-29T13:15:00+01:30"
    assert found.properties.keywords == ("ferry", "lamp", "loss")
    assert found.properties.description == "A loss"


@pytest.mark.parametrize(
    "junk", ["Microsoft Word - final.doc", "untitled", "Untitled-1", "x.indd", ""]
)
def test_pdf_generated_titles_are_left_out(junk: str):
    assert loaded(Page(column(FULL)), properties={"Title": junk}).title is None


@pytest.mark.parametrize(("written", "names"), [
    ("Doe, Jane", ("Doe, Jane",)), ("Jane Doe, John Roe", ("Jane Doe", "John Roe")),
    ("Jane Doe and John Roe", ("Jane Doe", "John Roe")), ("(anonymous)", ()),
    ("Unknown; Jane Doe", ("Jane Doe",)), ("", ()),
])  # fmt: skip
def test_authors_are_separated(written: str, names: tuple[str, ...]):
    assert parse_authors(written) == names


@pytest.mark.parametrize(("written", "date"), [
    ("D:2024", "2024"), ("D:20240229", "2024-02-29"), ("D:20240229131500Z", "2024-02-29T13:15:00Z"),
    ("D:20240229131500-08'00", "2024-02-29T13:15:00-08:00"), ("D:20241329", None),
    ("yesterday", None),
])  # fmt: skip
def test_dates_are_written_as_usual(written: str, date: str | None):
    assert parse_date(written) == date


# Refusals


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (make_pdf([Page(picture=True), Page(picture=True)]), "source_scanned"),
        (
            make_pdf([Page([Words(300, 30, "1")], picture=True), Page(picture=True)]),
            "source_scanned",
        ),
        (make_pdf([Page()]), "source_empty"),
        (make_pdf([Page(column(FULL))], password="secret"), "source_encrypted"),
        (make_pdf([Page(column(FULL))])[:200], "source_broken"),
        (b"%PDF-1.7\nnothing else", "source_broken"),
        (make_pdf([Page()] * 20_001), "source_too_large"),
    ],
    ids=["scan", "scan with numbers", "blank", "locked", "cut off", "no objects", "too many pages"],
)
def test_pdf_unreadable_files_are_refused_by_kind(content: bytes, error: str):
    with raises_code(error) as caught:
        load("a.pdf", content)
    assert caught.value.code == error


def test_pdf_locked_and_scanned_pages_are_handled():
    assert load("a.pdf", make_pdf([Page(column(FULL))], password="")).blocks
    found = loaded(Page(column(FULL * 8)), Page(picture=True))
    assert found.warnings == ("1 of 2 pages have pictures and hardly any text.",)


def test_pdf_descenders_do_not_raise_a_line() -> None:
    from truespan.parsing.formats.pdf.lines import _join_words, _Word

    def height(*words: float) -> float:
        boxes = (
            _Word(f"w{n}", n * 9.0, 0.0, n * 9.0 + 8, top, False) for n, top in enumerate(words)
        )
        (line,) = _join_words(list(boxes))
        return line.height

    assert height(9.3, 7.0, 9.3, 7.0) == height(7.0, 7.9, 7.0) == 7.0
    # The mark of a note and a large initial are no measure.
    assert height(10, 10, 6) == height(20, 10, 10) == 10
